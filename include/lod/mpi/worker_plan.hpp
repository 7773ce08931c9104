// SPDX-License-Identifier: Apache-2.0
/// @file
/// What rank 0 sends to each rank that runs a part of a program: the part, and the names of the variables whose values
/// it receives and returns.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/target.hpp>
#include <lod/io/proto/program_part.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/program.hpp>
#include <lod/program/program_partition.hpp>
#include <lod/program/scope.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::between_ranks {

/// What a rank gets.
struct WorkerPart {
  ProgramPart part = {};
  std::vector<std::string> tensors = {};      ///< persistable variables whose values come from rank 0, in this order,
  std::vector<std::string> rows = {};         ///< and row-sparse ones after them
  std::vector<std::string> fetches = {};      ///< variables whose values it gives rank 0 after each run
  std::vector<std::string> results = {};      ///< persistable tensors that it was the last to write: for `collect`,
  std::vector<std::string> row_results = {};  ///< and row-sparse values
};
/// What rank 0 knows of all.
struct WorkerPlan {
  std::vector<WorkerPart> ranks;
  std::vector<std::set<std::string>> feeds;                  ///< what each rank is fed, if it is given
  std::vector<std::pair<std::size_t, std::size_t>> fetched;  ///< for each tensor to fetch, the rank, and which of its
};

}  // namespace lod::inline LOD_INTERFACE::between_ranks

namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET {

/// The variables that a program's own `fetch` operators name, by their columns.
inline std::vector<std::string> names_to_fetch(const ProgramDesc& program) {
  std::map<std::int32_t, std::string> by_column;
  for (const OpDesc& op : program.blocks[0].ops) {
    if (op.type == "fetch" && !op.input("X").empty()) by_column.emplace(op.attr<std::int32_t>("col"), op.input("X")[0]);
  }
  std::vector<std::string> names;
  names.reserve(by_column.size());
  for (auto& [column, name] : by_column) names.push_back(std::move(name));
  return names;
}

/// Follows the operators of block 0 in their order, as `split` does: who reads what comes from outside, and who was the
/// last to write.
class Flow {
 public:
  Flow(const ProgramDesc& program, std::span<const std::int64_t> placement, std::size_t ranks) : outside(ranks) {
    std::set<std::string_view> arrays, doors;
    for (const BlockDesc& block : program.blocks) {
      for (const VarDesc& var : block.vars) {
        if (var.type.type == VarType::LOD_TENSOR_ARRAY) arrays.insert(var.name);
        if (detail::is_door(var.type.type)) doors.insert(var.name);
        if (var.persistable) persistable.emplace(var.name, var.type.type);
      }
    }
    DataFlow flow(program);
    const BlockDesc& root = program.blocks[0];
    for (std::size_t i = 0; i < root.ops.size(); ++i) {
      const auto rank = static_cast<std::size_t>(placement[i]);
      const Access access = flow.of(root.ops[i]);
      const auto read = [&](std::string_view name) {
        if (!doors.contains(name) && !written.contains(std::string(name))) outside[rank].emplace(name);
      };
      for (const std::string_view name : access.reads) read(name);
      for (const std::string_view name : access.writes) {
        if (access.may_skip_writes || arrays.contains(name)) read(name);
      }
      for (const std::string_view name : access.writes) {
        // What a `feed` writes enters there.
        if (root.ops[i].type == "feed") outside[rank].emplace(name);
        written[std::string(name)] = rank;
      }
    }
  }

  std::vector<std::set<std::string>> outside;  ///< what each rank reads before any has written it
  std::map<std::string, std::size_t> written;  ///< by which rank last
  std::map<std::string, VarType::Type> persistable;
};

/// Throws as `split` does, and InvalidProgram for a persistable variable that is no tensor.
inline WorkerPlan make_plan(const ProgramDesc& program, std::span<const std::int64_t> placement, std::size_t ranks,
                            const Scope& scope, std::vector<std::string> fetch) {
  auto parts = split(program, placement, static_cast<std::int64_t>(ranks));
  const Flow flow(program, placement, ranks);
  WorkerPlan plan{std::vector<WorkerPart>(ranks), std::vector<std::set<std::string>>(ranks), {}};
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    WorkerPart& to = plan.ranks[rank];
    to.part = std::move(parts[rank]);
    for (const std::string& name : flow.outside[rank]) {
      if (!flow.persistable.contains(name)) {
        plan.feeds[rank].insert(name);
        continue;
      }
      const Variable* const found = scope.find(name);
      if (!found) continue;  // perhaps the rank's own scope has it
      if (found->holds<AnyLoDTensor>()) {
        to.tensors.push_back(name);
      } else if (found->holds<AnySelectedRows>()) {
        to.rows.push_back(name);
      } else if (rank > 0) {
        throw InvalidProgram(detail::text({"variable '", name, "' of rank 0 is a ", to_string(found->type()),
                                           ", expected LOD_TENSOR or SELECTED_ROWS, to send it to rank ", rank}));
      }
    }
  }
  for (const auto& [name, rank] : flow.written) {
    const auto found = flow.persistable.find(name);
    if (found == flow.persistable.end()) continue;
    if (found->second == VarType::LOD_TENSOR) plan.ranks[rank].results.push_back(name);
    if (found->second == VarType::SELECTED_ROWS) plan.ranks[rank].row_results.push_back(name);
  }
  if (fetch.empty()) fetch = names_to_fetch(program);
  for (std::string& name : fetch) {
    const auto writer = flow.written.find(name);
    std::size_t rank = writer == flow.written.end() ? 0 : writer->second;
    if (writer == flow.written.end()) {
      // Fed, or a parameter: whoever has it.
      while (rank < ranks && !flow.outside[rank].contains(name)) ++rank;
      rank = rank < ranks ? rank : 0;
    }
    plan.fetched.emplace_back(rank, plan.ranks[rank].fetches.size());
    plan.ranks[rank].fetches.push_back(std::move(name));
  }
  return plan;
}

/// As bytes: a sequence for each rank, of the part and of the lists, which are sequences of texts.
inline LoDTensor<std::uint8_t> encode(const WorkerPlan& plan) {
  std::vector<std::vector<std::int64_t>> lengths(3);
  std::vector<std::uint8_t> bytes;
  const auto add = [&](const std::string& text) {
    lengths[2].push_back(static_cast<std::int64_t>(text.size()));
    bytes.insert(bytes.end(), text.begin(), text.end());
  };
  for (const WorkerPart& rank : plan.ranks) {
    lengths[0].push_back(6);
    lengths[1].push_back(1);
    add(lod::encode(rank.part));
    for (const auto* list : {&rank.tensors, &rank.rows, &rank.fetches, &rank.results, &rank.row_results}) {
      lengths[1].push_back(static_cast<std::int64_t>(list->size()));
      for (const std::string& name : *list) add(name);
    }
  }
  return LoDTensor<std::uint8_t>::from_values(LoD::from_lengths(lengths), {}, bytes);
}
/// One rank's, back.
inline WorkerPart decode_part(const LoDTensor<std::uint8_t>& bytes) {
  const auto text = [&](std::int64_t list, std::int64_t i) {
    const auto values = bytes.slice({0, list, i}).values();
    return std::string(values.begin(), values.end());
  };
  WorkerPart part{.part = lod::decode<ProgramPart>(text(0, 0))};
  std::int64_t list = 0;
  for (auto* names : {&part.tensors, &part.rows, &part.fetches, &part.results, &part.row_results}) {
    const std::int64_t count = bytes.slice({0, ++list}).lod_view().size(1);
    for (std::int64_t i = 0; i < count; ++i) names->push_back(text(list, i));
  }
  return part;
}

}  // namespace lod::inline LOD_INTERFACE::between_ranks::inline LOD_TARGET

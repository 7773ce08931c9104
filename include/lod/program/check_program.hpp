// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checks of a program before it runs: that all types of its operators are known, and that no variable is read that
/// cannot have a value.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/name_hash.hpp>
#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/place_of.hpp>
#include <lod/program/program.hpp>
#include <lod/program/scope.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Whether an operator is `feed` or `fetch`, which only name what enters and leaves a program.
inline bool is_feed_or_fetch(const OpDesc& op) { return op.type == "feed" || op.type == "fetch"; }

/// Calls f(block, operator, its number) for each operator that can run, those of inner blocks after the operator that
/// owns the block. No block may contain itself: DataFlow throws for such programs.
template <class F>
void for_each_operator(const ProgramDesc& program, const F& f) {
  std::set<std::int32_t> seen = {0};
  std::vector<std::int32_t> waiting = {0};
  while (!waiting.empty()) {
    const BlockDesc& block = program.block(waiting.back());
    waiting.pop_back();
    for (std::size_t i = 0; i < block.ops.size(); ++i) {
      f(block, block.ops[i], i);
      for_each_block(block.ops[i], [&](std::int32_t idx) {
        if (seen.insert(idx).second) waiting.push_back(idx);
      });
    }
  }
}

/// Throws InvalidProgram unless `is_known(type)` holds for the types of all operators that can run; the message lists
/// the unknown ones. Also throws for a `feed` or `fetch` outside block 0.
template <class IsKnown>
void check_types(const ProgramDesc& program, const IsKnown& is_known) {
  std::string unknown;
  for_each_operator(program, [&](const BlockDesc& block, const OpDesc& op, std::size_t i) {
    if (is_feed_or_fetch(op)) {
      if (block.idx != 0) throw InvalidProgram(text({place_of(op, block.idx, i), ": expected in block 0 only"}));
    } else if (!is_known(op.type)) {
      unknown += text({unknown.empty() ? "" : ", ", "'", op.type, "' (block ", block.idx, ", operator ", i, ")"});
    }
  });
  if (!unknown.empty()) {
    throw InvalidProgram(text({"no operators of the types ", unknown, ": expected those of lod::operators().types()"}));
  }
}

/// The one variable that an operator `feed` or `fetch` names. Throws InvalidProgram unless there is exactly one.
inline const std::string& only_argument(const OpDesc& op, const std::vector<OpDesc::Var>& vars) {
  const std::string* found = nullptr;
  std::size_t count = 0;
  for (const OpDesc::Var& var : vars) {
    for (const std::string& name : var.arguments) {
      found = &name;
      ++count;
    }
  }
  if (count != 1) {
    throw InvalidProgram(text({"operator '", op.type, "': ", count, " variables, expected one"}));
  }
  return *found;
}

/// The names of the variables that an operator of block 0 reads. An operator that owns blocks also lists what its
/// blocks only write among its inputs; these names are left out.
inline std::vector<std::string_view> reads_of(DataFlow& flow, const ProgramDesc& program, const OpDesc& op) {
  std::vector<std::string_view> reads = flow.of(op).reads;
  NameSet inner_reads, only_written;
  for_each_block(op, [&](std::int32_t idx) {
    const Access& access = flow.of(program.block(idx));
    inner_reads.insert(access.reads.begin(), access.reads.end());
    only_written.insert(access.writes.begin(), access.writes.end());
  });
  std::erase_if(reads,
                [&](std::string_view name) { return only_written.contains(name) && !inner_reads.contains(name); });
  return reads;
}

/// Whether an operator also runs without this variable. recurrent_grad names the gradients of all outputs, and takes
/// zeros for those that no operator computes, since nothing uses the output.
inline bool may_be_absent(const OpDesc& op, std::string_view name) {
  if (op.type != "recurrent_grad") return false;
  const std::span<const std::string> gradients = op.input("outputs@GRAD");
  return std::find(gradients.begin(), gradients.end(), name) != gradients.end();
}

/// The variables that a block describes, by their names: for whoever looks up many.
inline NameMap<const VarDesc*> described_variables(const BlockDesc& block) {
  NameMap<const VarDesc*> variables;
  for (const VarDesc& var : block.vars) variables.emplace(var.name, &var);
  return variables;
}

/// The tensors of block 0 that are read before an operator writes them, and so must be fed, each with the place of the
/// operator that needs it. Throws InvalidProgram for a variable that is read before it is written, but that cannot be
/// fed (it is persistable, or block 0 does not describe it) and is not in `outside`, the scope around the program.
inline std::map<std::string, std::string> find_needs(DataFlow& flow, const ProgramDesc& program, const Scope& outside) {
  const BlockDesc& root = program.block(0);
  const NameMap<const VarDesc*> described = described_variables(root);
  std::map<std::string, std::string> needs;
  NameSet written;
  for (std::size_t i = 0; i < root.ops.size(); ++i) {
    const OpDesc& op = root.ops[i];
    if (op.type == "feed") {
      const std::string& name = only_argument(op, op.outputs);
      needs.emplace(name, place_of(op, 0, i));
      written.insert(name);
      continue;
    }
    for (const std::string_view name : reads_of(flow, program, op)) {
      if (written.contains(name) || may_be_absent(op, name)) continue;
      const auto found = described.find(name);
      const VarDesc* const var = found == described.end() ? nullptr : found->second;
      if (var && !var->persistable) {
        if (var->type.type == VarType::LOD_TENSOR) needs.emplace(name, place_of(op, 0, i));
      } else if (!outside.find(name)) {
        throw InvalidProgram(
            text({place_of(op, 0, i), ": variable '", std::string(name), "' has no value, expected one in the scope ",
                  var ? "since it is persistable" : "since the block has no such variable"}));
      }
    }
    const Access access = flow.of(op);
    written.insert(access.writes.begin(), access.writes.end());
  }
  return needs;
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is checked of a program before it runs: that there are operators of all its types, and that no variable is read
/// that can't have a value.
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
#include <string>
#include <string_view>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Whether an operator only names what enters or leaves a program.
inline bool is_feed_or_fetch(const OpDesc& op) { return op.type == "feed" || op.type == "fetch"; }

/// Calls f(block, operator, its number) for each operator that can run, those of inner blocks after the one that owns
/// them. No block may contain itself, which DataFlow excludes.
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

/// Throws InvalidProgram unless `is_known(type)` for the types of all operators that can run; names those that are not.
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
    throw InvalidProgram(
        readable(text({"no operators of the types ", unknown, ": expected those of lod::operators().types()"})));
  }
}

/// The variable that an operator `feed` or `fetch` names.
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

/// The names of what an operator of the root reads. Those that own blocks list what their blocks write among their
/// inputs, too.
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

/// The tensors of the root that are read before an operator writes them, so that they must be fed, and who needs them.
/// Throws InvalidProgram for such variables that can't be fed, and of which `outside`, the scope around the program,
/// has none.
inline std::map<std::string, std::string> find_needs(DataFlow& flow, const ProgramDesc& program, const Scope& outside) {
  const BlockDesc& root = program.block(0);
  std::map<std::string, std::string> needs;
  std::set<std::string_view> written;
  for (std::size_t i = 0; i < root.ops.size(); ++i) {
    const OpDesc& op = root.ops[i];
    if (op.type == "feed") {
      const std::string& name = only_argument(op, op.outputs);
      needs.emplace(name, place_of(op, 0, i));
      written.insert(name);
      continue;
    }
    for (const std::string_view name : reads_of(flow, program, op)) {
      if (written.contains(name)) continue;
      const VarDesc* const var = root.find_var(name);
      if (var && !var->persistable) {
        if (var->type.type == VarType::LOD_TENSOR) needs.emplace(name, place_of(op, 0, i));
      } else if (!outside.find(name)) {
        throw InvalidProgram(readable(
            text({place_of(op, 0, i), ": variable '", std::string(name), "' has no value, expected one in the scope ",
                  var ? "since it is persistable" : "since the block has no such variable"})));
      }
    }
    const Access access = flow.of(op);
    written.insert(access.writes.begin(), access.writes.end());
  }
  return needs;
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The body of `prune`.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/name_hash.hpp>
#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/program.hpp>
#include <lod/program/program_partition.hpp>
#include <lod/program/prune.hpp>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The positions of the operators of block 0 that the targets need, ascending.
inline std::vector<std::int64_t> needed_operators(const ProgramDesc& program, const std::vector<std::string>& targets) {
  DataFlow flow(program);
  const BlockDesc& root = program.blocks[0];
  const NameSet wanted(targets.begin(), targets.end());
  NameSet needed = wanted, arrays;
  for (const VarDesc& var : root.vars) {
    if (var.type.type == VarType::LOD_TENSOR_ARRAY) arrays.insert(var.name);
  }
  std::vector<std::int64_t> kept;
  for (std::size_t i = root.ops.size(); i-- > 0;) {
    const OpDesc& op = root.ops[i];
    const Access access = flow.of(op);
    const auto has_one_of = [](const NameSet& names, const std::vector<std::string_view>& list) {
      return std::any_of(list.begin(), list.end(), [&](std::string_view name) { return names.contains(name); });
    };
    if (op.type == "fetch" ? !has_one_of(wanted, access.reads) : !has_one_of(needed, access.writes)) continue;
    kept.push_back(static_cast<std::int64_t>(i));
    for (const std::string_view name : access.writes) {
      // A variable that may keep its earlier value, and an array, which grows, need the operators that wrote them
      // before.
      if (!access.may_skip_writes && !arrays.contains(name)) needed.erase(name);
    }
    needed.insert(access.reads.begin(), access.reads.end());
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

/// Adds the names of variables that an operator itself mentions, as arguments and in attributes; not those in its
/// blocks.
inline void add_names(const OpDesc& op, NameSet& names) {
  for (const auto* vars : {&op.inputs, &op.outputs}) {
    for (const OpDesc::Var& var : *vars) names.insert(var.arguments.begin(), var.arguments.end());
  }
  for (const OpDesc::Attr& attr : op.attrs) {
    if (attr.type == AttrType::VAR && attr.var_name) names.insert(*attr.var_name);
    if (attr.type == AttrType::VARS) names.insert(attr.vars_name.begin(), attr.vars_name.end());
    // `recurrent` names the states of its block in strings.
    if (attr.type == AttrType::STRINGS && owns_blocks(op)) names.insert(attr.strings.begin(), attr.strings.end());
  }
}

/// Renumbers the columns (`col`) of the operators of a type from 0 on, in ascending order of the old numbers.
inline void renumber_columns(BlockDesc& block, std::string_view type) {
  std::set<std::int32_t> columns;
  const auto for_each_column = [&](const auto& f) {
    for (OpDesc& op : block.ops) {
      for (OpDesc::Attr& attr : op.attrs) {
        if (op.type == type && attr.name == "col" && attr.i) f(*attr.i);
      }
    }
  };
  for_each_column([&](std::int32_t column) { columns.insert(column); });
  for_each_column([&](std::int32_t& column) {
    column = static_cast<std::int32_t>(std::distance(columns.begin(), columns.find(column)));
  });
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE {

LOD_PROGRAMS_INLINE ProgramDesc prune(const ProgramDesc& program, const std::vector<std::string>& targets) {
  const std::vector<std::int64_t> kept = detail::needed_operators(program, targets);
  const BlockDesc& root = program.blocks[0];
  detail::BlockSelection blocks(program);
  detail::NameSet names;
  for (const std::int64_t i : kept) {
    detail::add_names(root.ops[static_cast<std::size_t>(i)], names);
    blocks.add(root.ops[static_cast<std::size_t>(i)]);
  }
  for (std::size_t idx = 1; idx < program.blocks.size(); ++idx) {
    if (!blocks.contains(idx)) continue;
    for (const OpDesc& op : program.blocks[idx].ops) detail::add_names(op, names);
  }
  for (const std::string& target : targets) {
    if (!names.contains(target) && !root.find_var(target)) {
      throw InvalidProgram(
          detail::text({"prune: target '", target, "', expected a variable of block 0, or one that is written there"}));
    }
    names.insert(target);
  }
  ProgramPart part{.program = detail::frame_of(program), .ops = kept};
  for (std::size_t i = 0; i < root.vars.size(); ++i) {
    if (names.contains(root.vars[i].name)) part.vars.push_back(static_cast<std::int64_t>(i));
  }
  detail::cut_out(program, blocks, part);
  for (BlockDesc& block : part.program.blocks) {
    std::erase_if(block.vars, [&](const VarDesc& var) { return !names.contains(var.name); });
  }
  detail::renumber_columns(part.program.blocks[0], "feed");
  detail::renumber_columns(part.program.blocks[0], "fetch");
  return std::move(part.program);
}

}  // namespace lod::inline LOD_INTERFACE

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// What the operators of a program read and write, those of their inner blocks included: what orders them, wherever and
/// in whatever memory they run.
#pragma once

#include <lod/desc.hpp>
#include <lod/error.hpp>
#include <lod/program.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace lod {

/// The name that stands for no variable, in the arguments of operators. The empty name stands for none either.
inline constexpr std::string_view empty_variable_name = "@EMPTY@";

namespace detail {

/// Lists through which values come from outside, and leave: no values that operators pass on.
constexpr bool is_door(VarType::Type type) noexcept {
  return type == VarType::FEED_MINIBATCH || type == VarType::FETCH_LIST || type == VarType::FEED_LIST;
}

}  // namespace detail

/// Calls f(number) for each block that an operator names in its attributes: those that it owns, such as the body of a
/// loop. With an operator that is not const, f gets the number to change.
template <class Op, class F>
void for_each_block(Op& op, const F& f) {
  for (auto& attr : op.attrs) {
    if (attr.type == AttrType::BLOCK && attr.block_idx) f(*attr.block_idx);
    if (attr.type == AttrType::BLOCKS) {
      for (auto& idx : attr.blocks_idx) f(idx);
    }
  }
}

/// The names of the variables that an operator reads and writes: as its arguments, as attributes of type VAR and VARS,
/// or in the blocks that it owns, where those variables do not belong to these blocks. Each name comes once in a list,
/// in the order of its first use. Valid for as long as the program stays unchanged.
struct Access {
  std::vector<std::string_view> reads;   ///< of what is written first in an inner block: nothing
  std::vector<std::string_view> writes;  ///< all that it may write
  /// Whether it may leave what it writes as it was: an operator that owns blocks may run them not at all.
  bool may_skip_writes = false;
};

/// Follows the names through the blocks of a program, which must outlive it unchanged, and be valid.
class DataFlow {
 public:
  /// How deep blocks may lie in each other.
  static constexpr int max_depth = 100;

  /// Throws InvalidProgram as `validate` does.
  explicit DataFlow(const ProgramDesc& program) : program_(&program), blocks_(program.blocks.size()) {
    validate(program);
  }

  /// What an operator of the program reads and writes. Throws InvalidProgram where a block lies in itself, or more than
  /// `max_depth` lie in each other. O(names in it), beyond blocks that were looked at before.
  Access of(const OpDesc& op) { return of(op, 0); }
  /// The same for a block: what its operators read and write of variables that are not its own.
  const Access& of(const BlockDesc& block) { return of(block.idx, 0); }

 private:
  /// Names without doubles.
  class Names {
   public:
    explicit Names(std::vector<std::string_view>& list) : list_(list) {}
    void add(std::string_view name) {
      if (name.empty() || name == empty_variable_name) return;
      if (known_.insert(name).second) list_.push_back(name);
    }

   private:
    std::vector<std::string_view>& list_;
    std::unordered_set<std::string_view> known_;
  };

  Access of(const OpDesc& op, int depth) {
    Access access;
    Names reads(access.reads), writes(access.writes);
    for (const OpDesc::Var& input : op.inputs) {
      for (const std::string& name : input.arguments) reads.add(name);
    }
    for (const OpDesc::Var& output : op.outputs) {
      for (const std::string& name : output.arguments) writes.add(name);
    }
    for (const OpDesc::Attr& attr : op.attrs) {
      if (attr.type == AttrType::VAR && attr.var_name) reads.add(*attr.var_name);
      if (attr.type == AttrType::VARS) {
        for (const std::string& name : attr.vars_name) reads.add(name);
      }
    }
    for_each_block(op, [&](std::int32_t idx) {
      access.may_skip_writes = true;
      const Access& inner = of(idx, depth + 1);
      for (const std::string_view name : inner.reads) reads.add(name);
      for (const std::string_view name : inner.writes) writes.add(name);
    });
    return access;
  }

  const Access& of(std::int32_t idx, int depth) {
    auto& known = blocks_[static_cast<std::size_t>(idx)];
    if (known) return *known;
    if (depth > max_depth) {
      throw InvalidProgram(
          detail::text({"block ", idx, " lies in more than ", max_depth, " blocks, or one of them in itself"}));
    }
    return known.emplace(of_operators(program_->blocks[static_cast<std::size_t>(idx)], depth));
  }

  Access of_operators(const BlockDesc& block, int depth) {
    std::unordered_set<std::string_view> own, written;
    for (const VarDesc& var : block.vars) own.insert(var.name);
    Access access;
    Names reads(access.reads), writes(access.writes);
    for (const OpDesc& op : block.ops) {
      const Access inner = of(op, depth);
      for (const std::string_view name : inner.reads) {
        if (!own.contains(name) && !written.contains(name)) reads.add(name);
      }
      for (const std::string_view name : inner.writes) {
        if (own.contains(name)) continue;
        writes.add(name);
        if (!inner.may_skip_writes) written.insert(name);
      }
    }
    return access;
  }

  const ProgramDesc* program_;
  std::vector<std::optional<Access>> blocks_;
};

}  // namespace lod

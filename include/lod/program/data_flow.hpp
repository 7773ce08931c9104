// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// What the operators of a program read and write, including those of their inner blocks: this determines their order,
/// wherever and in whatever memory they run.
#pragma once

#include <lod/core/desc.hpp>
#include <lod/core/error.hpp>
#include <lod/core/name_hash.hpp>
#include <lod/core/target.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The name that stands for no variable in the arguments of operators, as the empty name does.
inline constexpr std::string_view empty_variable_name = "@EMPTY@";

/// The suffix that makes the name of a variable's gradient from that of the variable.
inline constexpr std::string_view gradient_suffix = "@GRAD";

namespace detail::inline LOD_TARGET {

/// Whether a variable of this type is a list through which values enter or leave a program, rather than a value that
/// operators pass on.
constexpr bool is_door(VarType::Type type) noexcept {
  return type == VarType::FEED_MINIBATCH || type == VarType::FETCH_LIST || type == VarType::FEED_LIST;
}

}  // namespace detail::inline LOD_TARGET

/// Calls f(number) for each block that an operator names in its attributes: those that it owns, such as the body of a
/// loop. If the operator is not const, f receives a reference to the number.
template <class Op, class F>
LOD_TAGGED void for_each_block(Op& op, const F& f) {
  for (auto& attr : op.attrs) {
    if (attr.type == AttrType::BLOCK && attr.block_idx) f(*attr.block_idx);
    if (attr.type == AttrType::BLOCKS) {
      for (auto& idx : attr.blocks_idx) f(idx);
    }
  }
}

/// Whether an operator owns blocks.
LOD_TAGGED inline bool owns_blocks(const OpDesc& op) {
  bool owns = false;
  for_each_block(op, [&](std::int32_t) { owns = true; });
  return owns;
}

/// The names of the variables that an operator reads and writes: as its arguments, as attributes of type VAR and VARS,
/// or in the blocks that it owns, unless the variables belong to these blocks. Each name occurs once in a list, in the
/// order of first use. Valid as long as the program stays unchanged.
struct Access {
  std::vector<std::string_view> reads;   ///< without those that an inner block writes first
  std::vector<std::string_view> writes;  ///< all that it may write
  /// The names, from both lists, of variables that enter or leave the program: those used by an operator, perhaps in an
  /// inner block, that is `feed` or `fetch`, is marked `is_target`, or also uses a FEED_MINIBATCH, FETCH_LIST or
  /// FEED_LIST.
  std::vector<std::string_view> fed_or_fetched;
  /// Whether it may leave its outputs as they were: an operator that owns blocks need not run them.
  bool may_skip_writes = false;
};

/// Follows the names through the blocks of a program, which must be valid and must outlive this object unchanged.
///
/// A name stands for the variable that ProgramDesc::find_var finds. The variables that a block describes belong to it,
/// except persistable ones: these are created in the outermost scope, so that the same name in several blocks is one
/// variable. What the block of a gradient uses of the block whose gradient it computes does not belong to the enclosing
/// blocks.
class DataFlow {
 public:
  /// How deeply blocks may be nested.
  static constexpr int max_depth = 100;

  LOD_TAGGED_COPIES(DataFlow);
  /// Throws InvalidProgram as `validate` does.
  LOD_TAGGED explicit DataFlow(const ProgramDesc& program) : program_(&program), blocks_(program.blocks.size()) {
    validate(program);
    for (const BlockDesc& block : program.blocks) {
      for (const VarDesc& var : block.vars) {
        if (detail::is_door(var.type.type)) doors_.insert(var.name);
      }
    }
  }

  /// What an operator of block `block` reads and writes. Throws InvalidProgram if a block contains itself, or if more
  /// than `max_depth` are nested. O(names in it), apart from blocks that were examined before.
  LOD_TAGGED Access of(const OpDesc& op, std::int32_t block = 0) { return of_operator(op, block, 0); }
  /// The same for a block: what its operators read and write of variables that do not belong to it.
  LOD_TAGGED const Access& of(const BlockDesc& block) { return of_block(block.idx, 0).access; }

 private:
  /// Names without duplicates.
  class Names {
   public:
    LOD_TAGGED explicit Names(std::vector<std::string_view>& list) : list_(list) {}
    Names(const Names&) = delete;
    Names& operator=(const Names&) = delete;
    LOD_TAGGED ~Names() = default;
    LOD_TAGGED void add(std::string_view name) {
      if (name.empty() || name == empty_variable_name) return;
      if (known_.insert(name).second) list_.push_back(name);
    }

   private:
    std::vector<std::string_view>& list_;
    detail::NameSet known_;
  };

  struct BlockAccess {
    Access access;
    /// The variables of the block whose gradient this one computes: its operators see these, enclosing blocks do not.
    detail::NameSet of_forward;

    /// Whether a name stands for one of them, or for the gradient of one, which no block describes where the operator
    /// that runs this one sets it, as recurrent_grad does those of states.
    LOD_TAGGED bool sees_by_forward(std::string_view name) const {
      if (of_forward.contains(name)) return true;
      return name.ends_with(gradient_suffix) &&
             of_forward.contains(name.substr(0, name.size() - gradient_suffix.size()));
    }
  };

  /// Whether an operator takes values into the program or out of it.
  LOD_TAGGED bool is_gate(const OpDesc& op, const Access& access, std::int32_t block) const {
    const auto is_list = [&](std::string_view name) {
      if (!doors_.contains(name)) return false;
      const VarDesc* const var = program_->find_var(name, block);
      return var && detail::is_door(var->type.type);
    };
    return op.type == "feed" || op.type == "fetch" || op.is_target ||
           std::any_of(access.reads.begin(), access.reads.end(), is_list) ||
           std::any_of(access.writes.begin(), access.writes.end(), is_list);
  }

  LOD_TAGGED Access of_operator(const OpDesc& op, std::int32_t block, int depth) {
    Access access;
    Names reads(access.reads), writes(access.writes), fed_or_fetched(access.fed_or_fetched);
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
    const bool is_a_gate = is_gate(op, access, block);
    for_each_block(op, [&](std::int32_t idx) {
      access.may_skip_writes = true;
      const BlockAccess& inner = of_block(idx, depth + 1);
      const auto add_outer = [&inner](Names& names, const std::vector<std::string_view>& list) {
        for (const std::string_view name : list) {
          if (!inner.sees_by_forward(name)) names.add(name);
        }
      };
      add_outer(reads, inner.access.reads);
      add_outer(writes, inner.access.writes);
      add_outer(fed_or_fetched, inner.access.fed_or_fetched);
    });
    if (is_a_gate) {
      for (const std::string_view name : access.reads) fed_or_fetched.add(name);
      for (const std::string_view name : access.writes) fed_or_fetched.add(name);
    }
    return access;
  }

  LOD_TAGGED const BlockAccess& of_block(std::int32_t idx, int depth) {
    auto& known = blocks_[static_cast<std::size_t>(idx)];
    if (known) return *known;
    if (depth > max_depth) {
      throw InvalidProgram(
          detail::text({"block ", idx, " lies in more than ", max_depth, " blocks, or one of them in itself"}));
    }
    const BlockDesc& block = program_->blocks[static_cast<std::size_t>(idx)];
    return known.emplace(BlockAccess{of_operators(block, depth), of_forward(block)});
  }

  LOD_TAGGED Access of_operators(const BlockDesc& block, int depth) {
    const detail::NameSet own = own_names(block);
    detail::NameSet written;
    Access access;
    Names reads(access.reads), writes(access.writes), fed_or_fetched(access.fed_or_fetched);
    for (const OpDesc& op : block.ops) {
      const Access inner = of_operator(op, block.idx, depth);
      for (const std::string_view name : inner.reads) {
        if (!own.contains(name) && !written.contains(name)) reads.add(name);
      }
      for (const std::string_view name : inner.writes) {
        if (own.contains(name)) continue;
        writes.add(name);
        if (!inner.may_skip_writes) written.insert(name);
      }
      for (const std::string_view name : inner.fed_or_fetched) {
        if (!own.contains(name)) fed_or_fetched.add(name);
      }
    }
    return access;
  }

  LOD_TAGGED static detail::NameSet own_names(const BlockDesc& block) {
    detail::NameSet names;
    for (const VarDesc& var : block.vars) {
      if (!var.persistable) names.insert(var.name);
    }
    return names;
  }
  /// Empty if the block whose gradient `block` computes encloses it: its variables are then seen anyway.
  LOD_TAGGED detail::NameSet of_forward(const BlockDesc& block) const {
    if (block.forward_block_idx == -1) return {};
    for (std::int32_t idx = block.idx; idx != -1; idx = program_->blocks[static_cast<std::size_t>(idx)].parent_idx) {
      if (idx == block.forward_block_idx) return {};
    }
    return own_names(program_->blocks[static_cast<std::size_t>(block.forward_block_idx.value())]);
  }

  const ProgramDesc* program_;
  std::vector<std::optional<BlockAccess>> blocks_;
  detail::NameSet doors_;  // the names of lists through which values enter and leave
};

}  // namespace lod::inline LOD_INTERFACE

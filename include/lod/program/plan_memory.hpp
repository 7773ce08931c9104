// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Plans the memory of a block: variables that are never needed at the same time may share bytes.
///
///     const lod::MemoryPlan plan = lod::plan_memory(program, {.rows = 32});
///     plan.bytes;         // what the buffers take,
///     plan.bytes_alone;   // and what the same variables would take, each with memory of its own
#pragma once

#include <lod/core/data_type.hpp>
#include <lod/core/desc.hpp>
#include <lod/core/device.hpp>
#include <lod/core/error.hpp>
#include <lod/core/name_hash.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/infer.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

/// The options of a plan.
struct MemoryPlanOptions {
  std::int32_t block = 0;  ///< the block whose variables are planned
  /// The number of rows of variables that are described with -1 rows: no run may have more. -1: unknown.
  std::int64_t rows = infer::unknown;
  /// The same for single variables, by name; overrides `rows`. Sequences of different levels have different rows.
  std::map<std::string, std::int64_t, std::less<>> rows_of = {};
  /// Variables that keep memory of their own.
  std::vector<std::string> keep = {};
};

/// A variable of a plan: from its first to its last operator it has the bytes [offset, offset + bytes) of its buffer.
struct PlannedVariable {
  std::string name = {};
  std::int64_t first_op = 0;  ///< the operator of the block that writes it first
  std::int64_t last_op = 0;   ///< the last one that reads or writes it
  std::int64_t bytes = 0;     ///< a multiple of `alignment`; 0 for a variable without elements
  std::size_t buffer = 0;     ///< the index of its buffer in the plan
  std::int64_t offset = 0;    ///< its position in the buffer, a multiple of `alignment`

  LOD_TAGGED bool operator==(const PlannedVariable&) const = default;
};

/// Where the variables of a block are placed. All sizes are multiples of `alignment`, to which each buffer must be
/// aligned.
struct MemoryPlan {
  std::vector<std::int64_t> buffers = {};       ///< the bytes of each; none is 0
  std::vector<PlannedVariable> variables = {};  ///< in the order of the block
  std::vector<std::string> unknown = {};        ///< of unknown size that could share memory; in the block's order
  std::int64_t bytes = 0;                       ///< of all buffers
  std::int64_t bytes_alone = 0;                 ///< of all variables of the plan if none shared memory
  std::int64_t bytes_at_once = 0;               ///< of those needed at once, where that is most: no plan takes less

  LOD_TAGGED bool operator==(const MemoryPlan&) const = default;
};

namespace detail::inline LOD_TARGET {

/// `a + b`; throws ShapeMismatch if that exceeds 64 bits.
inline std::int64_t add_bytes(std::int64_t a, std::int64_t b) {
  if (__builtin_add_overflow(a, b, &a)) throw ShapeMismatch("plan_memory: the bytes of all variables exceed 64 bits");
  return a;
}

/// The bytes of a described tensor, rounded up to a multiple of `alignment`; nothing if they are unknown. Throws
/// ShapeMismatch for a description that no tensor can have, and if they exceed 64 bits.
inline std::optional<std::int64_t> planned_bytes(const VarDesc& var, const MemoryPlanOptions& options) {
  const TensorDesc& tensor = var.type.lod_tensor->tensor;
  const auto size = static_cast<std::int64_t>(size_of(tensor.data_type));
  // Without dimensions it may be a scalar, or have a shape that the program does not give: that may need more bytes.
  if (tensor.dims.empty() || size == 0) return std::nullopt;
  const std::string what = text({"plan_memory: variable '", var.name, "'"});
  infer::check_dims(tensor.dims, what.c_str());
  infer::Dims factors = tensor.dims;
  if (factors.front() == infer::unknown) {
    const auto own = options.rows_of.find(var.name);
    factors.front() = own != options.rows_of.end() ? own->second : options.rows;
  }
  factors.push_back(size);
  const std::int64_t bytes = infer::product(factors, what.c_str());
  if (bytes == infer::unknown) return std::nullopt;
  constexpr auto step = static_cast<std::int64_t>(alignment);
  return add_bytes(bytes, step - 1) / step * step;
}

/// The variables of a block that may share memory, and from which operator to which they are needed.
class Lifetimes {
 public:
  struct Entry {
    const VarDesc* var;
    std::int64_t first_op;
    std::int64_t last_op;
  };

  Lifetimes(const ProgramDesc& program, const MemoryPlanOptions& options) {
    if (options.rows < infer::unknown) {
      throw ShapeMismatch(text({"plan_memory: ", options.rows, " rows, expected 0 or more, or -1 for unknown"}));
    }
    for (const auto& [name, rows] : options.rows_of) {
      if (rows < infer::unknown) {
        throw ShapeMismatch(
            text({"plan_memory: ", rows, " rows of '", name, "', expected 0 or more, or -1 for unknown"}));
      }
    }
    DataFlow flow(program);
    const BlockDesc& block = program.block(options.block);
    for (std::size_t op = 0; op < block.ops.size(); ++op) {
      add(flow.of(block.ops[op], options.block), static_cast<std::int64_t>(op));
    }
    // Variables that the block of a gradient uses outlive this block.
    for (const BlockDesc& other : program.blocks) {
      if (other.forward_block_idx == options.block) keep(flow.of(other));
    }
    keep_for_owners(program, options.block);
    for (const std::string& name : options.keep) kept_.insert(name);
    for (const VarDesc& var : block.vars) {
      const auto found = uses_.find(var.name);
      if (found == uses_.end() || kept_.contains(var.name) || !may_share(var)) continue;
      if (found->second.may_be_old()) continue;
      entries_.push_back({&var, found->second.first, found->second.last});
    }
  }

  /// These variables, in the order of the block.
  const std::vector<Entry>& entries() const noexcept { return entries_; }

  /// Adds the names of variables that an operator is given, including those in its string attributes.
  static void add_names(const OpDesc& op, NameSet& names) {
    for (const OpDesc::Var& input : op.inputs) names.insert(input.arguments.begin(), input.arguments.end());
    for (const OpDesc::Var& output : op.outputs) names.insert(output.arguments.begin(), output.arguments.end());
    for (const OpDesc::Attr& attr : op.attrs) {
      if (attr.s) names.insert(*attr.s);
      if (attr.var_name) names.insert(*attr.var_name);
      names.insert(attr.strings.begin(), attr.strings.end());
      names.insert(attr.vars_name.begin(), attr.vars_name.end());
    }
  }
  /// Adds the names of variables that an operator both reads and writes.
  static void add_names_of_both(const OpDesc& op, NameSet& names) {
    NameSet read;
    for (const OpDesc::Var& input : op.inputs) read.insert(input.arguments.begin(), input.arguments.end());
    for (const OpDesc::Var& output : op.outputs) {
      for (const std::string& name : output.arguments) {
        if (read.contains(name)) names.insert(name);
      }
    }
  }

 private:
  struct Use {
    std::int64_t first;
    std::int64_t last;
    bool may_skip_first;  // whether the first operator may leave the variable as an earlier run left it

    /// Whether an operator may read the value of an earlier run.
    bool may_be_old() const noexcept { return may_skip_first && last > first; }
  };

  static bool may_share(const VarDesc& var) {
    return var.type.type == VarType::LOD_TENSOR && !var.persistable && !var.is_parameter && !var.need_check_feed;
  }
  void keep(const Access& access) {
    kept_.insert(access.reads.begin(), access.reads.end());
    kept_.insert(access.writes.begin(), access.writes.end());
  }
  /// Keeps the variables of a block that are named by an operator which owns the block: it uses them between runs of
  /// the block. `recurrent` copies its `outputs` out of each step, and links its `states` to the `ex_states` of the
  /// next; `recurrent_grad` and `while_grad` do so with the gradients, whose names they derive from the given ones.
  void keep_for_owners(const ProgramDesc& program, std::int32_t idx) {
    NameSet named;
    for (const BlockDesc& block : program.blocks) {
      for (const OpDesc& op : block.ops) {
        bool is_owner = false;
        for_each_block(op, [&](std::int32_t owned) { is_owner = is_owner || owned == idx; });
        if (is_owner) add_names(op, named);
      }
    }
    constexpr std::string_view grad = "@GRAD";
    for (const VarDesc& var : program.block(idx).vars) {
      std::string_view name = var.name;
      if (name.ends_with(grad) && !named.contains(name)) name.remove_suffix(grad.size());
      if (named.contains(name)) kept_.insert(var.name);
    }
  }
  void add(const Access& access, std::int64_t position) {
    kept_.insert(access.fed_or_fetched.begin(), access.fed_or_fetched.end());
    for (const std::string_view name : access.reads) {
      const auto [found, is_first] = uses_.try_emplace(name, Use{position, position, false});
      if (is_first) kept_.insert(name);  // its value comes from outside, or from an earlier run of the block
      found->second.last = position;
    }
    for (const std::string_view name : access.writes) {
      uses_.try_emplace(name, Use{position, position, access.may_skip_writes}).first->second.last = position;
    }
  }

  NameMap<Use> uses_;
  NameSet kept_;
  std::vector<Entry> entries_;
};

/// Whether two variables are needed at the same time.
inline bool overlap_in_time(const PlannedVariable& a, const PlannedVariable& b) noexcept {
  return a.first_op <= b.last_op && b.first_op <= a.last_op;
}

/// Gives each variable an offset in one buffer, the largest first: each into the smallest sufficient gap between the
/// variables that are already placed and needed at the same time, or after these if there is no such gap.
inline void place_by_size(std::vector<PlannedVariable>& variables) {
  std::vector<PlannedVariable*> by_size;
  by_size.reserve(variables.size());
  for (PlannedVariable& variable : variables) by_size.push_back(&variable);
  std::stable_sort(by_size.begin(), by_size.end(), [](const PlannedVariable* a, const PlannedVariable* b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->first_op < b->first_op;
  });
  std::vector<const PlannedVariable*> placed;  // ascending by offset
  for (PlannedVariable* variable : by_size) {
    std::int64_t end = 0;
    std::optional<std::int64_t> best;
    std::int64_t best_gap = 0;
    for (const PlannedVariable* other : placed) {
      if (!overlap_in_time(*variable, *other)) continue;
      const std::int64_t gap = other->offset - end;
      if (gap >= variable->bytes && (!best || gap < best_gap)) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, other->offset + other->bytes);
    }
    variable->offset = best.value_or(end);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), variable->offset,
                         [](std::int64_t offset, const PlannedVariable* other) { return offset < other->offset; }),
        variable);
  }
}

/// Cuts the one buffer wherever no variable extends across the cut, so that less memory must be contiguous.
inline std::vector<std::int64_t> cut_into_buffers(std::vector<PlannedVariable>& variables) {
  std::vector<PlannedVariable*> by_offset;
  for (PlannedVariable& variable : variables) {
    if (variable.bytes > 0) by_offset.push_back(&variable);
  }
  std::stable_sort(by_offset.begin(), by_offset.end(),
                   [](const PlannedVariable* a, const PlannedVariable* b) { return a->offset < b->offset; });
  std::vector<std::int64_t> buffers;
  std::int64_t begin = 0, end = 0;
  for (PlannedVariable* variable : by_offset) {
    if (variable->offset >= end) {
      begin = variable->offset;
      buffers.push_back(0);
    }
    end = std::max(end, variable->offset + variable->bytes);
    buffers.back() = end - begin;
    variable->buffer = buffers.size() - 1;
    variable->offset -= begin;
  }
  for (PlannedVariable& variable : variables) {
    if (variable.bytes == 0) variable.offset = 0;
  }
  return buffers;
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_plan(std::initializer_list<Piece> words) {
  throw ShapeMismatch(text({"memory plan: ", text(words)}));
}

/// The most bytes that any operator needs.
inline std::int64_t most_at_once(const std::vector<PlannedVariable>& variables) {
  std::map<std::int64_t, std::int64_t> changes;
  for (const PlannedVariable& variable : variables) {
    changes[variable.first_op] += variable.bytes;
    changes[variable.last_op + 1] -= variable.bytes;
  }
  std::int64_t now = 0, most = 0;
  for (const auto& [op, change] : changes) {
    now += change;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace detail::inline LOD_TARGET

/// Places the variables of a block so that those needed at the same time never share a byte.
///
/// A variable is needed from the operator that writes it first to the last one that uses it, both included: so the
/// inputs and outputs of an operator share nothing, unless they have the same name. What the blocks of an operator use
/// counts as used by it. The plan contains the variables of type LOD_TENSOR that operators of the block use and that
/// the block describes, but never those that are persistable or a parameter; that are fed or fetched (by operators
/// `feed` and `fetch`, by those that use a FEED_MINIBATCH, FETCH_LIST or FEED_LIST, including those of inner blocks,
/// and those described as `need_check_feed`); that an operator marked `is_target` uses; that are read before they are
/// written, or may be (if they are first written by an operator that owns blocks, which need not run, and then used by
/// another one); that the block of a gradient uses; that an operator which owns the block names in its arguments or in
/// a string attribute (as `recurrent` does with what it carries from one step to the next); nor the gradients of these
/// ("x@GRAD" of "x"), and those of `options.keep`. Variables that would be in the plan if their bytes were known are in
/// `unknown`, also those described without dimensions (see TensorDesc).
///
/// Placed by size, best fit (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020): the
/// result may take more than `bytes_at_once`, and more than necessary. The result is the same for the same arguments
/// everywhere. O(names + variables^2).
///
/// Throws OutOfRange for a block that does not exist, InvalidProgram as DataFlow does, ShapeMismatch for rows under -1,
/// for a description of no tensor, and for more bytes than 64 bits can count.
LOD_TAGGED inline MemoryPlan plan_memory(const ProgramDesc& program, const MemoryPlanOptions& options = {}) {
  const detail::Lifetimes lifetimes(program, options);
  MemoryPlan plan;
  for (const auto& entry : lifetimes.entries()) {
    if (!entry.var->type.lod_tensor) continue;
    const std::optional<std::int64_t> bytes = detail::planned_bytes(*entry.var, options);
    if (!bytes) {
      plan.unknown.push_back(entry.var->name);
      continue;
    }
    plan.bytes_alone = detail::add_bytes(plan.bytes_alone, *bytes);
    plan.variables.push_back({entry.var->name, entry.first_op, entry.last_op, *bytes});
  }
  detail::place_by_size(plan.variables);
  plan.buffers = detail::cut_into_buffers(plan.variables);
  for (const std::int64_t bytes : plan.buffers) plan.bytes += bytes;
  plan.bytes_at_once = detail::most_at_once(plan.variables);
  return plan;
}
/// The same for a block alone: its operators must own no blocks, no operator may own it, and no other block may compute
/// its gradient. The last two cannot be checked here: for the body of a loop, and for training, pass the program, or
/// name in `options.keep` what they use. Throws InvalidProgram if an operator owns a block.
LOD_TAGGED inline MemoryPlan plan_memory(const BlockDesc& block, MemoryPlanOptions options = {}) {
  for (const OpDesc& op : block.ops) {
    for_each_block(op, [&](std::int32_t idx) {
      throw InvalidProgram(detail::text(
          {"plan_memory: operator '", op.type, "' owns block ", idx, ": expected the program, not the block alone"}));
    });
  }
  ProgramDesc program;
  program.blocks.push_back(block);
  program.blocks[0].idx = 0;
  program.blocks[0].parent_idx = -1;
  program.blocks[0].forward_block_idx.reset();
  options.block = 0;
  return plan_memory(program, options);
}

/// Throws ShapeMismatch unless the variables of a plan may share memory as it says: all of them are in the plan that
/// `plan_memory` would make (variables may be missing), with their operators and at least their bytes; each is inside a
/// buffer, at a multiple of `alignment`; no two that are needed at the same time have a byte in common. Throws as
/// `plan_memory` does. O(names + variables^2).
LOD_TAGGED inline void check(const MemoryPlan& plan, const ProgramDesc& program,
                             const MemoryPlanOptions& options = {}) {
  const detail::Lifetimes lifetimes(program, options);
  detail::NameMap<const detail::Lifetimes::Entry*> entries;
  for (const auto& entry : lifetimes.entries()) entries.emplace(entry.var->name, &entry);
  for (const PlannedVariable& variable : plan.variables) {
    const auto found = entries.find(variable.name);
    const std::optional<std::int64_t> bytes = found == entries.end() || !found->second->var->type.lod_tensor
                                                  ? std::nullopt
                                                  : detail::planned_bytes(*found->second->var, options);
    if (!bytes) {
      detail::fail_plan({"variable '", variable.name, "' must have memory of its own, or is there twice"});
    }
    const detail::Lifetimes::Entry& entry = *found->second;
    entries.erase(found);
    if (variable.first_op != entry.first_op || variable.last_op != entry.last_op) {
      detail::fail_plan({"variable '", variable.name, "': operators ", variable.first_op, " to ", variable.last_op,
                         ", expected ", entry.first_op, " to ", entry.last_op});
    }
    if (variable.bytes < *bytes) {
      detail::fail_plan({"variable '", variable.name, "': ", variable.bytes, " bytes, expected ", *bytes});
    }
    if (variable.bytes == 0) continue;
    if (variable.buffer >= plan.buffers.size()) {
      detail::fail_plan({"variable '", variable.name, "': buffer ", variable.buffer, " of ", plan.buffers.size()});
    }
    const std::int64_t size = plan.buffers[variable.buffer];
    if (variable.offset < 0 || variable.bytes > size || variable.offset > size - variable.bytes ||
        static_cast<std::size_t>(variable.offset) % alignment != 0) {
      detail::fail_plan({"variable '", variable.name, "': ", variable.bytes, " bytes at ", variable.offset,
                         " of a buffer of ", size, ", expected a multiple of ", alignment, " inside it"});
    }
  }
  for (const PlannedVariable& a : plan.variables) {
    for (const PlannedVariable& b : plan.variables) {
      if (&a == &b) break;
      if (a.bytes > 0 && b.bytes > 0 && a.buffer == b.buffer && detail::overlap_in_time(a, b) &&
          a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes) {
        detail::fail_plan({"variables '", a.name, "' and '", b.name, "' share bytes of buffer ", a.buffer,
                           ", and are both needed at operator ", std::max(a.first_op, b.first_op)});
      }
    }
  }
}

}  // namespace lod::inline LOD_INTERFACE

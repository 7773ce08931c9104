// SPDX-License-Identifier: Apache-2.0
/// @file
/// Finds the operators that a program's gradients pass through, in all its blocks.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/gradient_sums.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The kinds of control flow by which an operator runs its block, and by which gradients pass through it.
enum class ControlFlow { NONE, LOOP, BRANCH, RECURRENCE };

inline ControlFlow control_flow_of(const OpDesc& op) {
  if (op.type == "while") return ControlFlow::LOOP;
  if (op.type == "conditional_block") return ControlFlow::BRANCH;
  return op.type == "recurrent" ? ControlFlow::RECURRENCE : ControlFlow::NONE;
}
inline std::int32_t sub_block_of(const OpDesc& op) { return op.attr<std::int32_t>("sub_block"); }
/// The names in an attribute; none if there is no such attribute.
inline std::vector<std::string> names_in(const OpDesc& op, std::string_view attribute) {
  return op.find_attr(attribute) ? op.attr<std::vector<std::string>>(attribute) : std::vector<std::string>();
}
/// Whether an operator is an `increment` in place, as loops use it. Its gradient counts back, so that the gradient of
/// an operator finds the number that the operator itself had.
inline bool is_counter(const OpDesc& op) {
  return op.type == "increment" && op.input("X").size() == 1 && std::ranges::equal(op.input("X"), op.output("Out"));
}

/// A variable in a block, and the one in an inner block that stands for a part of it.
struct PassedVariable {
  std::string outer, inner;
};
/// What a `recurrent` passes to its block and takes from it.
struct PassedVariables {
  explicit PassedVariables(const OpDesc& op)
      : inputs(same_names(op.input("inputs"))), outputs(same_names(op.output("outputs"))) {
    const OpDesc::Attr* const has_states = op.find_attr("has_states");
    if (!has_states || !has_states->b.value_or(false)) return;
    const std::vector<std::string> before = names_in(op, "ex_states"), after = names_in(op, "states");
    const auto initial = op.input("initial_states");
    if (before.size() != after.size() || before.size() != initial.size()) {
      throw InvalidProgram("operator 'recurrent': expected as many states and ex_states as initial states");
    }
    for (std::size_t k = 0; k < before.size(); ++k) states.push_back({{initial[k], before[k]}, after[k]});
  }

  struct State {
    PassedVariable first;  ///< before the first step; `first.inner` is the state before each step
    std::string after;     ///< the state after a step
  };
  std::vector<PassedVariable> inputs, outputs;
  std::vector<State> states;

 private:
  static std::vector<PassedVariable> same_names(std::span<const std::string> names) {
    std::vector<PassedVariable> all;
    for (const std::string& name : names) all.push_back({name, name});
    return all;
  }
};

/// Which variables depend on parameters, which of these the loss depends on, over all steps of loops, and the operators
/// between them. A name in an inner block stands for the variable of that name in the nearest enclosing block that
/// describes it, otherwise for a variable of the inner block.
template <class E>
class GradientPath {
 public:
  using Names = GradientArguments::Names;
  /// A variable: the block that it belongs to, and its name.
  using Key = std::pair<std::int32_t, std::string>;
  /// An operator: its block, and its number there.
  using Place = std::pair<std::int32_t, std::size_t>;

  /// Finds operators by type. Passed in, so that only programs that ask for gradients compile them.
  using Find = std::optional<Operator<E>> (*)(std::string_view type);

  /// The program must be valid, and must outlive this object; its blocks and operators must not change, but blocks may
  /// be added.
  GradientPath(const ProgramDesc& program, const std::string& loss, const std::vector<std::string>& parameters,
               const Names& constants, Find find_type)
      : program_(program), find_(find_type), places_(program.blocks.size(), {-1, 0}) {
    for (const BlockDesc& block : program.blocks) {
      auto& own = own_.emplace_back();
      for (const VarDesc& var : block.vars) {
        own.emplace(var.name, Own{var.persistable, var.type.type == VarType::LOD_TENSOR_ARRAY});
        if (var.stop_gradient) constants_.insert({block.idx, var.name});
      }
    }
    for (const std::string& name : constants) constants_.insert({0, name});
    for (const std::string& name : parameters) {
      constants_.erase({0, name});
      parameters_.insert({0, name});
    }
    varying_ = parameters_;
    find_writers(0);
    repeat(varying_, [this] { find_varying(0); });
    wanted_.insert({0, loss});
    repeat(wanted_, [this] { find_wanted(0); });
    find_read(0);
  }

  /// The variable that a name in a block stands for.
  Key find(std::int32_t block, std::string_view name) const {
    for (std::int32_t idx = block; idx != -1; idx = at(idx).parent_idx) {
      if (const Own* const own = own_of(idx, name)) return {own->is_persistable ? 0 : idx, std::string(name)};
    }
    return {block, std::string(name)};
  }
  /// Whether the variable depends on a parameter.
  bool varies(std::int32_t block, std::string_view name) const { return varying_.contains(find(block, name)); }
  /// Whether the variable depends on a parameter and the loss depends on the variable.
  bool is_wanted(std::int32_t block, std::string_view name) const {
    const Key key = find(block, name);
    return varying_.contains(key) && wanted_.contains(key);
  }
  bool is_array(std::int32_t block, std::string_view name) const {
    if (const Own* const own = own_of(block, name)) return own->is_array;
    const VarDesc* const var = program_.find_var(name, block);
    return var && var->type.type == VarType::LOD_TENSOR_ARRAY;
  }

  /// How operators of a type describe their gradient; empty if they have none.
  const std::function<DescribeGradient>& gradient(const std::string& type) {
    const auto [found, is_new] = gradients_.try_emplace(type);
    if (is_new) {
      if (auto known = find_(type)) found->second = std::move(known->gradient);
    }
    return found->second;
  }

  /// Whether the gradient of operator `i` of a block is needed. For an operator that owns a block: whether the block
  /// has such an operator, or writes a wanted variable of an enclosing block, whose gradient then ends there.
  bool is_on_path(std::int32_t block, std::size_t i) {
    const OpDesc& op = at(block).ops[i];
    if (is_counter(op)) return read_.contains(find(block, op.output("Out").front()));
    if (control_flow_of(op) == ControlFlow::NONE) {
      return depends(block, op) &&
             any_argument(op.outputs, [&](const std::string& name) { return is_wanted(block, name); });
    }
    const std::int32_t inner = sub_block_of(op);
    for (std::size_t k = 0; k < at(inner).ops.size(); ++k) {
      if (is_on_path(inner, k)) return true;
      if (any_argument(at(inner).ops[k].outputs, [&](const std::string& name) {
            return find(inner, name).first != inner && is_wanted(inner, name);
          })) {
        return true;
      }
    }
    return false;
  }

  /// Whether operator `i` of a block, or an operator of a block that it owns, may write a variable.
  bool writes(std::int32_t block, std::size_t i, const Key& key) const {
    const OpDesc& op = at(block).ops[i];
    if (any_argument(op.outputs, [&](const std::string& name) { return find(block, name) == key; })) {
      // A loop or a branch need not write everything that it lists as an output.
      if (control_flow_of(op) == ControlFlow::NONE || control_flow_of(op) == ControlFlow::RECURRENCE) return true;
    }
    bool found = false;
    for_each_block(op, [&](std::int32_t inner) {
      for (std::size_t k = 0; !found && k < at(inner).ops.size(); ++k) found = writes(inner, k, key);
    });
    return found;
  }

  /// Whether it can be shown that no element of an array is written twice: all operators use the same index, which is
  /// set once and incremented between them, and in each step of a loop.
  bool is_written_in_order(std::int32_t block, std::string_view array) const {
    const Key key = find(block, array);
    const auto found = writers_.find(key);
    return found == writers_.end() || are_in_order(found->second, key);
  }

  /// Whether a branch (`conditional_block`) in a block may write a variable.
  bool is_of_branch(std::int32_t block, std::string_view name) const {
    for (std::size_t i = 0; i < at(block).ops.size(); ++i) {
      if (control_flow_of(at(block).ops[i]) == ControlFlow::BRANCH && writes(block, i, find(block, name))) return true;
    }
    return false;
  }

  /// Whether the variable may have had an earlier value, before operators of this block wrote it, on which the loss may
  /// depend as well.
  bool has_earlier_value(std::int32_t block, std::string_view name) const {
    const Key key = find(block, name);
    const auto found = writers_.find(key);
    if (found == writers_.end() || found->second.size() > 1 || parameters_.contains(key)) return true;
    for (std::int32_t idx = block; idx != key.first && idx != 0; idx = place_of_block(idx).first) {
      if (flow_of_block(idx) != ControlFlow::BRANCH) return true;  // the value of the step before
    }
    return false;
  }

  /// Whether the gradient of operator `i` of a block still finds the value of a variable that the operator has read
  /// (`is_read`) or written. Loops keep the values that their steps began with.
  bool keeps_value(std::int32_t block, std::size_t i, const std::string& name, bool is_read) const {
    const Key key = find(block, name);
    if (!writers_.contains(key) || is_array(block, name)) return true;
    while (true) {
      const std::size_t count = at(block).ops.size();
      if (block != key.first && flow_of_block(block) == ControlFlow::LOOP) {
        bool is_written = false, is_in_place = false, is_written_before = false;
        for (std::size_t k = 0; k < count; ++k) {
          const OpDesc& op = at(block).ops[k];
          is_in_place = is_in_place || (has_argument(op.outputs, name) && has_argument(op.inputs, name));
          if (!overwrites(block, k, key)) continue;
          is_written = true;
          is_written_before = is_written_before || k < i || (k == i && !is_read);
        }
        if (is_written) return !is_in_place && !is_written_before;
      } else if (overwrites_from(block, is_read ? i : i + 1, key)) {
        return false;
      }
      if (block == key.first || block == 0) return true;
      std::tie(block, i) = place_of_block(block);
      is_read = false;
    }
  }

 private:
  /// What is known of a variable that a block describes.
  struct Own {
    bool is_persistable, is_array;
  };

  const Own* own_of(std::int32_t block, std::string_view name) const {
    const auto& own = own_[static_cast<std::size_t>(block)];
    const auto found = own.find(name);
    return found == own.end() ? nullptr : &found->second;
  }
  template <class F>
  static void repeat(const std::set<Key>& found, const F& step) {
    std::size_t before = 0;
    do {
      before = found.size();
      step();
    } while (found.size() != before);
  }
  const BlockDesc& at(std::int32_t idx) const { return program_.blocks[static_cast<std::size_t>(idx)]; }
  /// The operator that owns a block: its block and its number there.
  const Place& place_of_block(std::int32_t idx) const { return places_[static_cast<std::size_t>(idx)]; }
  ControlFlow flow_of_block(std::int32_t idx) const {
    const auto& [block, i] = place_of_block(idx);
    return control_flow_of(at(block).ops[i]);
  }

  bool are_in_order(const std::vector<Place>& writers, const Key& array) const {
    const auto counts = [this](const Place& place) { return is_counter(at(place.first).ops[place.second]); };
    Key counter;
    const Place* before = nullptr;
    for (const Place& place : writers) {
      const auto& [block, i] = place;
      const OpDesc& op = at(block).ops[i];
      if (op.type != "write_to_array" || op.input("I").size() != 1) return false;
      const Key index = find(block, op.input("I").front());
      if (before && (index != counter || !is_counted_between(counter, *before, place))) return false;
      counter = index;
      if (block != array.first && !is_counted(counter, block, 0, at(block).ops.size())) return false;
      before = &place;
    }
    const auto settings = writers_.find(counter);
    if (settings == writers_.end()) return writers.size() == 1;
    const auto is_set_beside = [&](const Place& place) { return counts(place) || place.first == array.first; };
    const auto setters =
        settings->second.size() - static_cast<std::size_t>(std::ranges::count_if(settings->second, counts));
    return setters <= 1 && std::ranges::all_of(settings->second, is_set_beside);
  }
  /// Whether one of the operators [begin, end) of a block increments the counter.
  bool is_counted(const Key& counter, std::int32_t block, std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i) {
      const OpDesc& op = at(block).ops[i];
      if (is_counter(op) && find(block, op.output("Out").front()) == counter) return true;
    }
    return false;
  }
  /// Whether the counter is incremented between an operator and a later one, in the same block or in a block directly
  /// inside it.
  bool is_counted_between(const Key& counter, const Place& a, const Place& b) const {
    if (a.first == b.first) return is_counted(counter, a.first, a.second, b.second);
    const Place& owner = place_of_block(b.first);
    return owner.first == a.first &&
           (is_counted(counter, a.first, a.second, owner.second) || is_counted(counter, b.first, 0, b.second));
  }
  /// Whether an operator writes a variable and its gradient does not undo that.
  bool overwrites(std::int32_t block, std::size_t i, const Key& key) const {
    const OpDesc& op = at(block).ops[i];
    if (control_flow_of(op) == ControlFlow::NONE) {
      return writes(block, i, key) && !(is_counter(op) && read_.contains(key));
    }
    const std::int32_t inner = sub_block_of(op);
    if (control_flow_of(op) == ControlFlow::RECURRENCE && writes(block, i, key)) return true;
    for (std::size_t k = 0; k < at(inner).ops.size(); ++k) {
      if (overwrites(inner, k, key)) return true;
    }
    return false;
  }
  /// Whether an operator of a block, from number `first` on, overwrites a variable that operators write.
  bool overwrites_from(std::int32_t block, std::size_t first, const Key& key) const {
    const std::vector<Place>& writers = writers_.find(key)->second;
    const auto is_inside = [block](const Place& place) { return place.first != block; };
    if (std::ranges::none_of(writers, is_inside)) {  // of those, only these
      return std::ranges::any_of(
          writers, [&](const Place& place) { return place.second >= first && overwrites(block, place.second, key); });
    }
    for (std::size_t k = first; k < at(block).ops.size(); ++k) {
      if (overwrites(block, k, key)) return true;
    }
    return false;
  }
  bool depends(std::int32_t block, const OpDesc& op) {
    return gradient(op.type) && any_argument(op.inputs, [&](const std::string& name) { return varies(block, name); });
  }
  void vary(std::int32_t block, const std::string& name) {
    Key key = find(block, name);
    if (!constants_.contains(key)) varying_.insert(std::move(key));
  }
  void want(std::int32_t block, const std::string& name) {
    if (varies(block, name)) wanted_.insert(find(block, name));
  }

  void find_writers(std::int32_t block) {
    for (std::size_t i = 0; i < at(block).ops.size(); ++i) {
      const OpDesc& op = at(block).ops[i];
      const ControlFlow flow = control_flow_of(op);
      for_each_block(op, [&](std::int32_t inner) {
        auto& place = places_[static_cast<std::size_t>(inner)];
        if (place.first != -1) {
          throw InvalidProgram(
              text({"block ", inner, ": operators of blocks ", place.first, " and ", block, " own it, expected one"}));
        }
        place = {block, i};
        find_writers(inner);
      });
      if (flow == ControlFlow::LOOP || flow == ControlFlow::BRANCH) continue;
      for_each_argument(op.outputs, [&](const std::string& name) {
        if (!only_names(op, name)) writers_[find(block, name)].push_back({block, i});
      });
    }
  }
  /// Whether an operator leaves an output as it was: hierarchical_sigmoid has its weights as W_Out, too.
  static bool only_names(const OpDesc& op, const std::string& name) {
    return op.type == "hierarchical_sigmoid" && std::ranges::count(op.output("W_Out"), name) > 0;
  }
  void find_varying(std::int32_t block) {
    for (const OpDesc& op : at(block).ops) {
      if (control_flow_of(op) == ControlFlow::NONE) {
        if (!depends(block, op)) continue;
        for_each_argument(op.outputs, [&](const std::string& name) { vary(block, name); });
        continue;
      }
      const std::int32_t inner = sub_block_of(op);
      if (control_flow_of(op) != ControlFlow::RECURRENCE) {
        find_varying(inner);
        continue;
      }
      const PassedVariables passed(op);
      for (const auto& [outer, name] : passed.inputs) {
        if (varies(block, outer)) vary(inner, name);
      }
      for (const auto& [first, after] : passed.states) {
        if (varies(block, first.outer) || varies(inner, after)) vary(inner, first.inner);
      }
      find_varying(inner);
      for (const auto& [outer, name] : passed.outputs) {
        if (varies(inner, name)) vary(block, outer);
      }
    }
  }
  void find_wanted(std::int32_t block) {
    for (std::size_t i = at(block).ops.size(); i-- > 0;) {
      const OpDesc& op = at(block).ops[i];
      if (control_flow_of(op) == ControlFlow::NONE) {
        if (!is_on_path(block, i) || is_counter(op)) continue;
        for_each_argument(op.inputs, [&](const std::string& name) { want(block, name); });
        continue;
      }
      const std::int32_t inner = sub_block_of(op);
      if (control_flow_of(op) != ControlFlow::RECURRENCE) {
        find_wanted(inner);
        continue;
      }
      const PassedVariables passed(op);
      for (const auto& [outer, name] : passed.outputs) {
        if (is_wanted(block, outer)) want(inner, name);
      }
      find_wanted(inner);
      for (const auto& [outer, name] : passed.inputs) {
        if (is_wanted(inner, name)) want(block, outer);
      }
      for (const auto& [first, after] : passed.states) {
        if (!is_wanted(inner, first.inner)) continue;
        want(inner, after);
        want(block, first.outer);
      }
    }
  }
  /// Finds the variables that operators on the path read; of these, the counters must be counted back.
  void find_read(std::int32_t block) {
    for (std::size_t i = 0; i < at(block).ops.size(); ++i) {
      const OpDesc& op = at(block).ops[i];
      if (control_flow_of(op) != ControlFlow::NONE) {
        find_read(sub_block_of(op));
      } else if (!is_counter(op) && is_on_path(block, i)) {
        for_each_argument(op.inputs, [&](const std::string& name) { read_.insert(find(block, name)); });
      }
    }
  }

  const ProgramDesc& program_;
  Find find_;
  std::vector<std::map<std::string, Own, std::less<>>> own_;  // variables of each block
  std::vector<Place> places_;                                 // of the operators that own the blocks
  std::map<Key, std::vector<Place>> writers_;                 // the operators that write a variable
  std::set<Key> parameters_, constants_, varying_, wanted_, read_;
  std::map<std::string, std::function<DescribeGradient>, std::less<>> gradients_;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

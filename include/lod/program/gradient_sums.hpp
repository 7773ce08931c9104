// SPDX-License-Identifier: Apache-2.0
/// @file
/// Collects the operators of a block that compute gradients, for `append_backward`.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/program/data_flow.hpp>
#include <lod/program/gradient.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

inline bool is_no_variable(std::string_view name) { return name.empty() || name == empty_variable_name; }

/// Calls f(name) for each argument of each parameter, except empty ones. f may change the name if `vars` is not const.
template <class Vars, class F>
void for_each_argument(Vars& vars, const F& f) {
  for (auto& var : vars) {
    for (auto& name : var.arguments) {
      if (!is_no_variable(name)) f(name);
    }
  }
}

/// Whether f(name) holds for an argument of one of the parameters.
template <class F>
bool any_argument(const std::vector<OpDesc::Var>& vars, const F& f) {
  bool found = false;
  for_each_argument(vars, [&](const std::string& name) { found = found || f(name); });
  return found;
}
/// Whether this name is an argument of one of the parameters.
inline bool has_argument(const std::vector<OpDesc::Var>& vars, std::string_view name) {
  return any_argument(vars, [&](const std::string& one) { return one == name; });
}

/// An operator that sets the gradient of a variable to zeros.
inline OpDesc zeros_like(const std::string& variable) {
  return {.inputs = {{"X", {variable}}},
          .outputs = {{"Out", {gradient_name(variable)}}},
          .type = "fill_any_like",
          .attrs = {make_attr("value", 0.0f), make_attr("dtype", -1)}};
}

/// Whether a gradient operator of this type reads only the shapes of the variables that are not gradients, so that
/// their values do not matter.
inline bool needs_shapes_only(std::string_view type) {
  constexpr std::string_view all[] = {"concat_grad", "elementwise_add_grad", "elementwise_sub_grad",
                                      "mean_grad",   "reduce_mean_grad",     "reduce_sum_grad"};
  return std::ranges::find(all, type) != std::end(all);
}
/// The names of the gradients of the variables for which f(variable) holds; `@EMPTY@` for each of the others.
template <class F>
std::vector<std::string> gradients_where(std::span<const std::string> variables, const F& f) {
  std::vector<std::string> names;
  for (const std::string& one : variables) {
    names.push_back(!is_no_variable(one) && f(one) ? gradient_name(one) : std::string(empty_variable_name));
  }
  return names;
}
/// The gradients that one of the operators writes. The gradient of a branch also changes, in place, the gradients of
/// what the branch writes.
inline std::set<std::string, std::less<>> changed_gradients(const std::vector<OpDesc>& ops) {
  std::set<std::string, std::less<>> changed;
  for (const OpDesc& op : ops) {
    for_each_argument(op.outputs, [&](const std::string& name) { changed.insert(name); });
    if (op.type != "conditional_block_grad") continue;
    const auto of_branch = op.input("Out@GRAD");
    changed.insert(of_branch.begin(), of_branch.end());
  }
  return changed;
}

/// Operators that compute gradients, in order. If several write the same gradient, each writes a part under a name of
/// its own, and `sum` adds the parts up before the first operator that reads the gradient. An operator that both reads
/// and writes a gradient replaces it; from then on this part keeps the gradient's name, since operators of other blocks
/// may refer to it by that.
template <class = void>
class GradientSums {
 public:
  /// `block` is the number that the names of parts contain.
  explicit GradientSums(std::int32_t block) : block_(block) {}

  /// Adds an operator, preceded by the sums that it reads.
  void add(OpDesc op) {
    for_each_argument(op.inputs, [&](const std::string& name) { finish(name); });
    const std::size_t place = ops_.size();
    ops_.push_back(std::move(op));
    for (std::size_t i = 0; i < ops_[place].outputs.size(); ++i) {
      for (std::size_t k = 0; k < ops_[place].outputs[i].arguments.size(); ++k) {
        const std::string name = ops_[place].outputs[i].arguments[k];
        if (!is_no_variable(name)) add_part(name, {place, i, k});
      }
    }
  }
  /// Declares that a gradient has a value already: it exists before the first operator of the block, or inner blocks
  /// change it. It keeps its name.
  void keep(const std::string& name) {
    finish(name);
    Parts& parts = parts_of(name);
    parts.has_first = true;
    parts.places.clear();
  }
  /// Adds an operator with one output, which it changes in place, or which is not a part of a sum.
  void add_change(OpDesc op) {
    keep(op.outputs.front().arguments.front());
    ops_.push_back(std::move(op));
  }
  /// Drops a gradient: operators added from now on belong to an earlier value of its variable.
  void forget(const std::string& name) {
    const auto found = parts_.find(name);
    if (found == parts_.end()) return;
    finish(name);
    found->second.has_first = false;
    found->second.places.clear();
  }
  /// Whether the gradient of that name has any part now.
  bool has(const std::string& name) const {
    const auto found = parts_.find(name);
    return found != parts_.end() && (found->second.has_first || !found->second.places.empty());
  }
  /// All operators; sums that no operator reads are at the end.
  std::vector<OpDesc> take() && {
    for (const std::string& name : order_) finish(name);
    return std::move(ops_);
  }

 private:
  /// Identifies an argument of an output of an operator.
  struct Place {
    std::size_t op, output, argument;
  };
  struct Parts {
    bool has_first = false;  ///< whether there is a part that keeps the gradient's name
    std::vector<Place> places = {};
    std::size_t renamed = 0;
  };

  Parts& parts_of(const std::string& name) {
    const auto [found, is_new] = parts_.try_emplace(name);
    if (is_new) order_.push_back(name);
    return found->second;
  }
  std::string& argument(const Place& place) { return ops_[place.op].outputs[place.output].arguments[place.argument]; }
  void rename(const std::string& name, Parts& parts, const Place& place) {
    argument(place) = detail::text({name, "@RENAME@block", block_, "@", parts.renamed++});
  }
  void add_part(const std::string& name, const Place& place) {
    Parts& parts = parts_of(name);
    if (has_argument(ops_[place.op].inputs, name)) {
      parts.has_first = true;
      parts.places.clear();
      return;
    }
    if (!parts.has_first && parts.places.size() == 1) rename(name, parts, parts.places.front());
    if (parts.has_first || !parts.places.empty()) rename(name, parts, place);
    parts.places.push_back(place);
  }
  void finish(const std::string& name) {
    const auto found = parts_.find(name);
    if (found == parts_.end()) return;
    Parts& parts = found->second;
    if (parts.places.size() + (parts.has_first ? 1 : 0) < 2) return;
    OpDesc sum{.inputs = {{"X", {}}}, .outputs = {{"Out", {name}}}, .type = "sum"};
    std::vector<std::string>& terms = sum.inputs[0].arguments;
    if (parts.has_first) terms.push_back(name);
    for (const Place& place : parts.places) terms.push_back(argument(place));
    parts.places.clear();
    if (!parts.has_first) parts.places.push_back({ops_.size(), 0, 0});
    ops_.push_back(std::move(sum));
  }

  std::int32_t block_;
  std::vector<OpDesc> ops_;
  std::map<std::string, Parts, std::less<>> parts_;
  std::vector<std::string> order_;  // names in the order of their first writers
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

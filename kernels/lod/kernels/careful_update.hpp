// SPDX-License-Identifier: Apache-2.0
/// @file
/// One number of an optimizer's update again, where float or double was too small for a step on the way: a square left
/// their range, or vanished and left nothing to divide by.
#pragma once

#include <lod/kernels/unbounded.hpp>
#include <lod/target.hpp>

#include <cstddef>
#include <utility>

namespace lod::inline LOD_TARGET {
namespace kernel {

/// A number of a parameter, those of its `n` states and that of its gradient.
template <class A, std::size_t n>
struct UpdatedNumbers {
  A parameter;
  A states[n > 0 ? n : 1];
  A gradient;

  LOD_HOST_DEVICE bool are_finite() const noexcept {
    bool finite = is_finite(parameter) && is_finite(gradient);
    for (const A& state : states) finite = finite && is_finite(state);  // of no states, a 0
    return finite;
  }
};

/// What the rule makes of finite numbers, in numbers without bounds: parameter and states become the nearest finite T
/// and S. Anything divided by 0 is no movement. False, and nothing is changed, where they were not finite, or an option
/// of the rule is not.
template <class T, class S, class Rule, class A, std::size_t... k>
LOD_HOST_DEVICE bool update_carefully(const Rule& rule, UpdatedNumbers<A, sizeof...(k)>& numbers,
                                      std::index_sequence<k...>) {
  if (!numbers.are_finite()) return false;
  const auto wide = [](A number) { return Unbounded(static_cast<double>(number)); };
  Unbounded parameter = wide(numbers.parameter);
  [[maybe_unused]] Unbounded states[sizeof...(k) + 1] = {wide(numbers.states[k])..., Unbounded()};
  rule(parameter, states[k]..., wide(numbers.gradient));
  UpdatedNumbers<A, sizeof...(k)> updated = numbers;
  updated.parameter = parameter.template nearest_finite<T, A>();
  ((updated.states[k] = states[k].template nearest_finite<S, A>()), ...);
  if (!updated.are_finite()) return false;
  numbers = updated;
  return true;
}

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

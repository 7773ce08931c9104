// SPDX-License-Identifier: Apache-2.0
/// @file
/// Recomputes one element of an optimizer's update if float or double had too small a range for an intermediate step: a
/// square overflowed, or underflowed and left a division by 0, or by a root of few digits.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/unbounded.hpp>

#include <cstddef>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The least number of type A that has all digits.
template <class A>
inline constexpr A least_normal = static_cast<A>(sizeof(A) == sizeof(double) ? 0x1p-1022 : 0x1p-126);

/// An element of a parameter, of its `n` states and of its gradient.
template <class A, std::size_t n>
struct UpdatedNumbers {
  A parameter;
  A states[n > 0 ? n : 1];
  A gradient;

  LOD_HOST_DEVICE bool are_finite() const noexcept {
    bool finite = is_finite(parameter) && is_finite(gradient);
    for (const A& state : states) finite = finite && is_finite(state);  // with no state, the one unused element is 0
    return finite;
  }
};

/// Whether the rule divides by the root of squares that are below the normal numbers, where digits are lost, although
/// there is a gradient.
template <class Rule, class A, std::size_t n>
LOD_HOST_DEVICE bool loses_digits([[maybe_unused]] const Rule& rule,
                                  [[maybe_unused]] const UpdatedNumbers<A, n>& updated) noexcept {
  if constexpr (requires { Rule::of_squares; }) {
    return updated.gradient != A{} && updated.states[Rule::of_squares] < least_normal<A> &&
           rule.template needs_digits<A>();
  } else {
    return false;
  }
}

/// Applies the rule to finite numbers, in unbounded arithmetic: parameter and states become the nearest finite T and S.
/// A quotient whose divisor is 0 counts as no change. Returns false, with nothing changed, if the numbers or an option
/// of the rule are not finite.
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

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

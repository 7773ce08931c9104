// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scores of paths times a power of two so small that no sum of them overflows: for sequences whose scores leave the
/// range of their type on the way.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/unbounded.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// What is computed of scaled scores, one number after the other. `number` is a function of a position.
template <std::floating_point A>
struct ScaledScores {
  static constexpr A scale = static_cast<A>(0x1p-64);
  static constexpr A nothing = static_cast<A>(-__builtin_huge_val());  ///< the score of no path

  /// The scaled score of a number, where +inf is the greatest finite one.
  template <class T>
  LOD_HOST_DEVICE static A scaled(T number) {
    const A x = static_cast<A>(number), most = static_cast<A>(greatest_finite<A>);
    return (x > most ? most : x) * scale;
  }
  /// Of a scaled score; it is not scaled itself.
  LOD_HOST_DEVICE static A exponential(A x) { return std::exp(x / scale); }
  /// NaN is greater than all.
  LOD_HOST_DEVICE static A greater(A a, A b) { return b > a || b != b ? b : a; }
  /// The greatest of `count` scores, or `nothing` if there is none or all are.
  template <class Number>
  LOD_HOST_DEVICE static A greatest_of(std::int64_t count, const Number& number) {
    A greatest = nothing;
    for (std::int64_t i = 0; i < count; ++i) greatest = greater(greatest, number(i));
    return greatest;
  }
  /// What can be subtracted from scores whose greatest is known.
  LOD_HOST_DEVICE static A subtrahend(A greatest) { return greatest == nothing ? A{} : greatest; }
  /// The scaled logarithm of the sum of the exponentials of `count` scores; -inf if all of them are.
  template <class Number>
  LOD_HOST_DEVICE static A log_sum(std::int64_t count, const Number& number) {
    const A greatest = greatest_of(count, number);
    if (greatest == nothing) return greatest;
    A sum{};
    for (std::int64_t i = 0; i < count; ++i) sum += exponential(number(i) - greatest);
    return greatest + std::log(sum) * scale;
  }
  /// Writes `count` scores less the best of them, which is returned; less 0 if all are -inf. NaN makes all of them NaN.
  template <class Number>
  LOD_HOST_DEVICE static A put(A* to, std::int64_t count, const Number& number) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = number(i);
    const A by = subtrahend(greatest_of(count, [&](std::int64_t i) { return to[i]; }));
    for (std::int64_t i = 0; i < count; ++i) to[i] -= by;
    return by;
  }
  /// Divides `count` shares of all paths by their sum, so that they add up to 1, unless there is no path.
  LOD_HOST_DEVICE static void normalize(A* shares, std::int64_t count) {
    A sum{};
    for (std::int64_t i = 0; i < count; ++i) sum += shares[i];
    for (std::int64_t i = 0; sum != A{} && i < count; ++i) shares[i] /= sum;
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

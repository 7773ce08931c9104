// SPDX-License-Identifier: Apache-2.0
/// @file
/// Exponentials and related functions of one number. Those of float are branch-free and call nothing, so that compilers
/// can vectorize loops over them; the C library's functions take many times as long.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

// Numbers are chosen by bit masks, since compilers may turn a comparison into a jump.

/// `below` if `size`, which must not be negative, is below the bound; otherwise, and for NaN, `beyond`.
LOD_HOST_DEVICE inline float chosen_by(float size, float bound, float below, float beyond) {
  const std::int32_t mask = (__builtin_bit_cast(std::int32_t, size) - __builtin_bit_cast(std::int32_t, bound)) >> 31;
  return __builtin_bit_cast(
      float, (__builtin_bit_cast(std::int32_t, below) & mask) | (__builtin_bit_cast(std::int32_t, beyond) & ~mask));
}

/// y, or x where that is NaN.
LOD_HOST_DEVICE inline float unless_nan(float x, float y) {
  return chosen_by(std::abs(x), __builtin_bit_cast(float, 0x7f800001), y, x);
}

/// A power of two, from 2^-126 to 2^127.
LOD_HOST_DEVICE inline float power_of_two(std::int32_t exponent) {
  return __builtin_bit_cast(float, (exponent + 127) << 23);
}

/// e^x; for float within 2 units in the last place, infinite from 88.73 on, 0 below -103.98.
template <class T>
[[gnu::always_inline]] LOD_HOST_DEVICE inline T exponential(T x) {
#ifndef __CUDA_ARCH__
  if constexpr (std::same_as<T, float>) {
    // Larger ones give the same results.
    const float bounded = chosen_by(std::abs(x), 104.0f, x, std::copysign(104.0f, x));
    // x = count * ln 2 + rest, where rest is at most half of ln 2, and the first part of ln 2 has few bits.
    constexpr float per_ln2 = 1.44269504f, ln2 = 0.693145752f, rest_of_ln2 = 1.42860677e-06f;
    const float scaled = bounded * per_ln2;
    const auto count = static_cast<std::int32_t>(scaled + std::copysign(0.5f, scaled));
    const float rest = bounded - static_cast<float>(count) * ln2 - static_cast<float>(count) * rest_of_ln2;
    // (e^rest - 1 - rest) / rest^2, a fitted polynomial.
    float curve = 0.00139430806f;
    curve = curve * rest + 0.00836848281f;
    curve = curve * rest + 0.0416663252f;
    curve = curve * rest + 0.166665241f;
    curve = curve * rest + 0.5f;
    // Two factors, since the power may be beyond the normal numbers although the result is not.
    const std::int32_t half = count >> 1;
    const float y = (rest * rest * curve + rest + 1) * power_of_two(half) * power_of_two(count - half);
    return unless_nan(x, y);
  }
#endif
  return std::exp(x);
}

/// The hyperbolic tangent; for float within 2 units in the last place.
template <class T>
[[gnu::always_inline]] LOD_HOST_DEVICE inline T hyperbolic_tangent(T x) {
  if constexpr (std::same_as<T, float>) {
    const float size = std::abs(x), square = x * x;
    // Below 5/8, where the second form would lose digits: a fitted odd polynomial.
    float slope = -0.006104948f;
    slope = slope * square + 0.0210036412f;
    slope = slope * square - 0.0538524985f;
    slope = slope * square + 0.133327827f;
    slope = slope * square - 0.333333284f;
    const float near = size + size * square * slope, far = 1 - 2 / (exponential(2 * size) + 1);
    return std::copysign(chosen_by(size, 0.625f, near, far), x);
  } else {
    return std::tanh(x);
  }
}

/// The error function; for float within 2 units in the last place.
template <class T>
[[gnu::always_inline]] LOD_HOST_DEVICE inline T error_function(T x) {
  if constexpr (std::same_as<T, float>) {
    const float size = std::abs(x), square = x * x;
    // Below 7/8 a fitted odd polynomial, beyond it 1 - exp(polynomial).
    float slope = -0.000621850311f;
    slope = slope * square + 0.00503512239f;
    slope = slope * square - 0.026793452f;
    slope = slope * square + 0.112825103f;
    slope = slope * square - 0.376125544f;
    slope = slope * square + 0.128379151f;
    const float bounded = chosen_by(size, 4.0f, size, 4.0f);  // where the function is 1 to the last digit
    float fall = 5.36224616e-06f;
    fall = fall * bounded - 5.08947123e-05f;
    fall = fall * bounded - 2.1768883e-05f;
    fall = fall * bounded + 0.00285128597f;
    fall = fall * bounded - 0.0225433242f;
    fall = fall * bounded + 0.105135746f;
    fall = fall * bounded + 0.63569206f;
    fall = fall * bounded + 1.12853706f;
    const float near = size + size * slope, far = 1 - exponential(-bounded * fall);
    return unless_nan(x, std::copysign(chosen_by(size, 0.875f, near, far), x));
  } else {
    return std::erf(x);
  }
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

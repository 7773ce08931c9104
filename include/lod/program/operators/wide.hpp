// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on numbers of any size: where sums or squares of doubles leave the range of a double, they are computed
/// again as long double, in which they do not; attributes that the elements cannot hold are errors.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/target.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// For sums of 64-bit integers.
__extension__ typedef __int128 WideSum;

/// The type in which numbers of type T are updated: their squares and sums of squares neither overflow nor vanish in
/// it.
template <class T>
using Wide = std::conditional_t<std::same_as<T, double>, long double, double>;

/// Whether a sum of squares of numbers of type T, computed as W, neither has overflown nor lost digits: W may be double
/// although T is.
template <class T, class W>
bool is_in_range(W squares) noexcept {
  if constexpr (std::same_as<T, W>) return squares >= 0x1p-900 && squares <= std::numeric_limits<W>::max();
  return true;
}

/// Calls f(double()), which returns whether what it computes is in range; otherwise for double also f(Wide<T>()).
template <class T, class F>
void in_wide_range(const F& f) {
  if (f(double{})) return;
  if constexpr (!std::same_as<Wide<T>, double>) f(Wide<T>{});
}

/// An attribute as a T: for integers truncated, as in PaddlePaddle, as a bool whether it differs from 0. Throws
/// OutOfRange for a number beyond the range of T, and for NaN as an integer.
template <class T>
T attribute_as(const Scalar& number) {
  if constexpr (std::same_as<T, bool>) return number.to<bool>();
  const bool is_cut = std::integral<T> && !number.is_integer();
  const Scalar whole = is_cut ? Scalar(std::trunc(number.to<double>())) : number;
  if (whole.fits<T>()) return whole.to<T>();
  throw OutOfRange(detail::text({"the number ", to_string(number), " is beyond ", detail::name_with_range<T>()}));
}

/// What numbers are normalised by: their mean, and 1 / sqrt(their variance + epsilon).
struct Normaliser {
  double center, inverse;
};
/// The same from the numbers of type T, which for_each_number(f) passes to f, since a variance of theirs that was kept
/// is none: a T has no room for it, or not for all of its digits.
template <class T, class F>
Normaliser normaliser_of(std::int64_t size, double epsilon, const F& for_each_number) {
  using W = Wide<T>;
  W mean = 0, variance = 0;
  for_each_number([&](T number) { mean += static_cast<W>(number); });
  mean /= static_cast<W>(size);
  for_each_number([&](T number) {
    const W distance = static_cast<W>(number) - mean;
    variance += distance * distance;
  });
  const W spread = variance / static_cast<W>(size) + static_cast<W>(epsilon);
  return {static_cast<double>(mean), static_cast<double>(1 / std::sqrt(spread))};
}
/// Whether a T has room for this positive number, with all of its digits.
template <class T>
bool has_room_for(double number) noexcept {
  return number >= static_cast<double>(std::numeric_limits<T>::min()) &&
         number <= static_cast<double>(std::numeric_limits<T>::max());
}

/// The sum of the products of numbers, as a W.
template <class W, class T>
W product_of(const T* x, const T* y, std::int64_t size) {
  W total = 0;
  for (std::int64_t k = 0; k < size; ++k) total += static_cast<W>(x[k]) * static_cast<W>(y[k]);
  return total;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

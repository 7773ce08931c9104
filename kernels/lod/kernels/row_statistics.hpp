// SPDX-License-Identifier: Apache-2.0
/// @file
/// What rows are normalised by: `RowStatistics`, from sums over the numbers of a row.
///
/// - Number k of a row goes to the sum k mod `row_lanes`, and these are added as a tree: those of the second half to
///   those of the first, and so on. In longer rows, the sums of each `row_part` numbers are added to those before, so
///   that the error does not grow with the row.
/// - Distances are taken from one of the first numbers of the row, so that one pass is enough: the median of three, or
///   the first of fewer. Their mean is taken out of the squares, and of what is written. Where that would cost digits,
///   as three quarters of the squares are taken out, a second pass takes distances from the mean that the first found.
///
/// Products are added by `fused`, which rounds once where the processor can: CPUs and GPUs then have the same bits.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/fused.hpp>
#include <lod/kernels/unbounded.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The sums that share a row: as many as GPU threads run in lockstep.
inline constexpr std::int64_t row_lanes = 32;
/// The numbers of a row that are summed before they are added to those before.
inline constexpr std::int64_t row_part = 4096;

/// A number x of the row becomes (x * scale - center) * factor + shift. `scale` is a power of two: 1 unless the squares
/// have no place in the range of an A. For rows that are divided by their root mean square, center and shift are 0.
template <class A>
struct RowStatistics {
  A scale, center, factor, shift;

  LOD_HOST_DEVICE A normalised(A x) const { return fused(fused(x, scale, -center), factor, shift); }
  /// The factor of gradients.
  LOD_HOST_DEVICE A of_gradient() const { return factor * scale; }
  /// Whether that is beyond the range of an A, or so small that digits are lost: then `gradient` multiplies by one
  /// after the other.
  LOD_HOST_DEVICE bool is_extreme() const {
    constexpr auto least_normal = static_cast<A>(std::same_as<A, double> ? 0x1p-1022 : 0x1p-126);
    return scale != A{1} && is_finite(factor) && !(is_finite(of_gradient()) && of_gradient() >= least_normal);
  }
  LOD_HOST_DEVICE A gradient(A of_normal) const { return of_normal * factor * scale; }
};

/// The number that distances are taken from first; read(i) reads number i.
LOD_ON_THE_CALLERS_SIDE
template <class A, class Read>
LOD_HOST_DEVICE A first_center(const Read& read, std::int64_t size) {
  const A a = read(0);
  if (size < 3) return a;
  const A b = read(1), c = read(2), low = a < b ? a : b, high = a < b ? b : a, most = high < c ? high : c;
  return low < most ? most : low;
}
/// Whether too much is taken out of the squares; false of NaN.
template <class A>
LOD_HOST_DEVICE bool cancels(A from_mean, A squares) {
  return A{4} * from_mean < squares;
}

/// Whether a sum of squares, divided and with epsilon, is of use: neither has it overflown nor lost its digits.
template <class A>
inline constexpr A least_variance = static_cast<A>(std::same_as<A, double> ? 0x1p-900 : 0x1p-80);
template <class A>
LOD_HOST_DEVICE bool is_variance(A number) {
  return number >= least_variance<A> && is_finite(number);
}

/// The same from all numbers of the row, read(i), in one order: in double, scaled by a power of two.
LOD_ON_THE_CALLERS_SIDE
template <std::floating_point A, class Read>
LOD_NOINLINE LOD_HOST_DEVICE RowStatistics<A> careful_statistics(const Read& read, std::int64_t size, double epsilon,
                                                                 bool centred) {
  constexpr bool wide = std::same_as<A, double>;
  double greatest = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double number = std::fabs(static_cast<double>(read(i)));
    greatest = number > greatest ? number : greatest;
  }
  const double scale = greatest > 1 ? (wide ? 0x1p-540 : 0x1p-64) : (wide ? 0x1p600 : 0x1p64);
  const auto count = static_cast<double>(size);
  double mean = 0;
  if (centred) {
    for (std::int64_t i = 0; i < size; ++i) mean = std::fma(static_cast<double>(read(i)), scale, mean);
    mean /= count;
  }
  double distances = 0, squares = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double distance = std::fma(static_cast<double>(read(i)), scale, -mean);
    distances += distance;
    squares = std::fma(distance, distance, squares);
  }
  const double rest = centred ? distances / count : 0;
  const double from_mean = std::fma(-distances, rest, squares);
  const double variance = (from_mean < 0 ? 0 : from_mean) / count + epsilon * scale * scale;
  // Of an infinite number or NaN, all are NaN. Only equal numbers, which it leaves 0, have a factor that exceeds an A.
  double factor = is_finite(variance) ? 1 / std::sqrt(variance) : __builtin_nan("");
  if (variance > 0 && factor > greatest_finite<A>) factor = greatest_finite<A>;
  const A center = static_cast<A>(mean);
  return {static_cast<A>(scale), center, static_cast<A>(factor),
          -static_cast<A>((mean - static_cast<double>(center) + rest) * factor)};
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

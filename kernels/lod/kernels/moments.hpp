// SPDX-License-Identifier: Apache-2.0
/// @file
/// Mean and squares of many rows in one pass, along the tree of sum_tree.hpp.
///
/// - A *leaf* is summed as distances from its *shift*: the median of the first three rows, or the first of fewer. Two
///   rows are at least as far from the mean as that median, so the squares of n distances from it are at most 1 + n/2
///   times those from the mean (of two rows, twice), and usually about the same: what is subtracted at the end costs
///   few digits, whatever the rows are. A single row that is far off is never the shift: it would cost the others
///   digits.
/// - Leaves are joined to chunks, and chunks to the sequence, by Chan's formula, with the rounding errors of mean and
///   squares carried along.
/// - A mean of negative zeros is one, as their sum is (sum_tree.hpp): a shift is never -0, so that only -0 has the
///   distance -0 from a shift of 0; a mean begins as -0 where its shift is 0, and a rounding error of +0 is subtracted
///   where adding it would lose the sign.
///
/// What has become infinite or NaN, perhaps only on the way, is computed again: `careful_mean_var`.
///
/// The formulas are for numbers and vectors; `arithmetic` has what these do differently: product(a, b), rounded before
/// anything is added to it, positive(a), which is 0 for negative numbers and keeps NaN, and least(a, b) and
/// greatest(a, b), which may give anything where one is NaN.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/kernels/unbounded.hpp>
#include <lod/kernels/wide_sum.hpp>
#include <lod/ops/sequence_pool.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

// `auto` for variables, not V: nvcc takes a variable of a vector type for one on the GPU.

/// The shift of a leaf of `count` rows, number(row), of which there is one.
LOD_ON_THE_CALLERS_SIDE
template <class V, class Number, class Arithmetic>
LOD_HOST_DEVICE V shift_of(std::int64_t count, const Number& number, const Arithmetic& arithmetic) {
  const auto zero = V(0.F), a = number(0);
  if (count < 3) return a + zero;
  const auto b = number(1), c = number(2);
  return arithmetic.greatest(arithmetic.least(a, b), arithmetic.least(arithmetic.greatest(a, b), c)) + zero;
}

/// Adds a term to a sum in two parts, the second of which is its rounding errors.
LOD_ON_THE_CALLERS_SIDE
template <class V>
LOD_HOST_DEVICE void add_to_parts(V& sum, V& error, const V& term) {
  const auto total = sum + term, back = total - sum;
  error = error + ((sum - (total - back)) + (term - back));
  sum = total;
}

/// The mean of some rows and the sum of the squares of their distances from it, each in two parts.
template <class V>
struct Moments {
  V mean, mean_error;
  V squares, squares_error;
};

/// The moments of a leaf of `count` rows, from the sums of distances and of their squares.
LOD_ON_THE_CALLERS_SIDE
template <class V, class Arithmetic>
LOD_HOST_DEVICE Moments<V> leaf_moments(const V& shift, const V& sum, const V& squares, const V& count,
                                        const Arithmetic& arithmetic) {
  const auto distance = sum / count;
  auto mean = V(-0.F) - (V(0.F) - shift), mean_error = V(0.F);
  add_to_parts(mean, mean_error, distance);
  return {mean, mean_error, arithmetic.positive(squares - arithmetic.product(sum, distance)), V(0.F)};
}
/// Joins the moments of `more_rows` rows to those of the `rows` rows before them.
LOD_ON_THE_CALLERS_SIDE
template <class A, class V, class Arithmetic>
LOD_HOST_DEVICE void join_moments(Moments<V>& all, std::int64_t rows, const Moments<V>& more, std::int64_t more_rows,
                                  const Arithmetic& arithmetic) {
  const A share = static_cast<A>(more_rows) / static_cast<A>(rows + more_rows);
  const auto zero = V(0.F);
  const auto distance = (more.mean - (all.mean + zero)) - (all.mean_error - more.mean_error);
  const auto between = arithmetic.product(arithmetic.product(distance, distance), V(static_cast<A>(rows) * share));
  add_to_parts(all.mean, all.mean_error, arithmetic.product(distance, V(share)));
  add_to_parts(all.squares, all.squares_error, more.squares);
  add_to_parts(all.squares, all.squares_error, between);
  all.squares_error = all.squares_error + more.squares_error;
}

/// The mean and variance of a column of a sequence. The mean is in two parts, the first of which is the nearest number.
template <class V>
struct MeanVarNumbers {
  V mean, mean_error;
  V variance;
};
/// `divisor` is what squares are divided by.
LOD_ON_THE_CALLERS_SIDE
template <class V>
LOD_HOST_DEVICE MeanVarNumbers<V> mean_var_of(const Moments<V>& all, const V& divisor) {
  const auto mean = all.mean - (V(0.F) - all.mean_error);
  return {mean, all.mean_error - (mean - all.mean), (all.squares + all.squares_error) / divisor};
}

/// The divisor of the sum of squares; 0 if there is no variance.
LOD_HOST_DEVICE constexpr std::int64_t squares_divisor(std::int64_t rows, bool unbiased) noexcept {
  return rows - (unbiased ? 1 : 0);
}

/// The same from all numbers of the column, read(row), in one order: in double, doubles scaled by a power of two.
LOD_ON_THE_CALLERS_SIDE
template <std::floating_point A, class Read, class Arithmetic>
LOD_HOST_DEVICE MeanVarNumbers<A> careful_mean_var(const Read& read, std::int64_t rows, bool unbiased,
                                                   const Arithmetic& arithmetic) {
  // One NaN, whatever the processor makes of infinities of both signs.
  constexpr A nan = static_cast<A>(__builtin_nan(""));
  WideSum<A> sum;
  for (std::int64_t row = 0; row < rows && !sum.is_nan(); ++row) sum.add(read(row));
  // A single number, which comes here for want of an unbiased variance, may be too small for the scale of wide sums.
  const A mean = rows == 1 ? read(0) : sum.pooled(PoolType::AVERAGE, rows);
  if (!is_finite(mean)) return {mean == mean ? mean : nan, A{}, nan};
  // The squares of any numbers are finite, and those that vanish are negligible beside the number that led here.
  constexpr double scale = std::same_as<A, double> ? 0x1p-540 : 1;
  const double center = arithmetic.product(static_cast<double>(mean), scale);
  double distances = 0, distances_error = 0, squares = 0, squares_error = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const double distance = arithmetic.product(static_cast<double>(read(row)), scale) - center;
    add_to_parts(distances, distances_error, distance);
    add_to_parts(squares, squares_error, arithmetic.product(distance, distance));
  }
  distances += distances_error;
  squares += squares_error;
  const double rest = distances / static_cast<double>(rows);
  const double from_mean = arithmetic.positive(squares - arithmetic.product(distances, rest));
  const std::int64_t divisor = squares_divisor(rows, unbiased);
  const double variance = from_mean / static_cast<double>(divisor) / scale / scale;
  return {mean, static_cast<A>(rest / scale), divisor > 0 ? static_cast<A>(variance) : nan};
}

/// The gradient of a number of a column of `rows` rows, whose mean and its rounding error these are, if `plain`, what
/// the formula gives, has overflowed on the way.
LOD_ON_THE_CALLERS_SIDE
template <std::floating_point A>
LOD_HOST_DEVICE A careful_mean_var_gradient(A plain, A dmean, A dvariance, A number, A mean, A mean_error,
                                            std::int64_t rows, bool unbiased) {
  const std::int64_t divisor = squares_divisor(rows, unbiased);
  const bool can_be_finite =
      divisor > 0 && is_finite(dmean) && is_finite(dvariance) && is_finite(number) && is_finite(mean);
  if (is_finite(plain) || !can_be_finite) return plain;
  const auto wide = [](auto some) { return Unbounded(static_cast<double>(some)); };
  const Unbounded distance = wide(number) - wide(mean) - wide(mean_error);
  const Unbounded of_variance = wide(2) * wide(dvariance) * distance / wide(divisor);
  return static_cast<A>((wide(dmean) / wide(rows) + of_variance).to_double());
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

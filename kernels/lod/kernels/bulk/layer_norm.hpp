// SPDX-License-Identifier: Apache-2.0
/// @file
/// Normalisation of rows in bulk: the lanes of a warp share the numbers of a row.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/lane.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/kernels/row_statistics.hpp>
#include <lod/ops/layer_norm.hpp>
#include <lod/ops/staging.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Two sums over a part of a row, and over the parts before it.
template <class A>
struct RowSums {
  Few<A, 2> part, before;
};

/// Two sums over the numbers of a row, for all lanes: add(sums, i) adds the terms of number i.
template <class A, class Lanes, class Add>
LOD_HOST_DEVICE Few<A, 2> sum_row(const Lanes& lanes, std::int64_t row_size, const Add& add) {
  static_assert(Lanes::count == row_lanes, "as many sums share a row as threads run in lockstep");
  const Few<A, 2> nothing{};
  const auto add_number = [&](RowSums<A>& sums, std::int64_t i, int) {
    add(sums.part, i);
    if (i % row_part >= row_part - row_lanes) {
      sums.before = sums.before + sums.part;
      sums.part = nothing;
    }
  };
  // In a row without a whole part, adding what is before changes nothing: sums begin with a positive zero.
  const auto join = [&](const RowSums<A>& a, const RowSums<A>& b) {
    return RowSums<A>{(a.part + a.before) + (b.part + b.before), nothing};
  };
  return lanes.shared(lanes.template fold_rows<0>(row_size, RowSums<A>{nothing, nothing}, add_number, join).part);
}

/// The statistics of a row, number(i), for all lanes.
template <class A, class Lanes, class Number>
LOD_HOST_DEVICE RowStatistics<A> statistics_of_row(const Lanes& lanes, std::int64_t row_size, const Number& number,
                                                   double epsilon, bool centred) {
  const A size = static_cast<A>(row_size);
  A center = centred ? first_center<A>(number, row_size) : A{}, rest{}, from_mean{};
  for (int pass = 0; pass < 2; ++pass) {
    const auto add = [&](Few<A, 2>& sums, std::int64_t i) {
      const A distance = number(i) - center;
      sums.number[0] += distance;
      sums.number[1] = fused(distance, distance, sums.number[1]);
    };
    const Few<A, 2> sums = sum_row<A>(lanes, row_size, add);
    from_mean = sums.number[1];
    if (!centred) break;
    rest = sums.number[0] / size;
    from_mean = fused(-sums.number[0], rest, from_mean);
    if (pass > 0 || !cancels(from_mean, sums.number[1])) break;
    center += rest;
  }
  const A variance = (from_mean < A{} ? A{} : from_mean) / size + static_cast<A>(epsilon);
  if (!is_variance(variance)) return careful_statistics<A>(number, row_size, epsilon, centred);
  const A factor = A{1} / std::sqrt(variance);
  return {A{1}, center, factor, -(rest * factor)};
}

/// Reads the numbers of a row in the type in which they are computed.
template <class T>
struct NumbersOfOneRow {
  const T* row;
  LOD_HOST_DEVICE Accumulator<T> operator()(std::int64_t i) const { return static_cast<Accumulator<T>>(row[i]); }
};

/// Writes a normalised row.
template <class T>
struct NormaliseRow {
  using A = Accumulator<T>;

  const T* x;
  std::int64_t row_size;
  const T* scale;
  const T* bias;
  double epsilon;
  bool centred;
  T* y;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const NumbersOfOneRow<T> number{x + row * row_size};
    const RowStatistics<A> found = statistics_of_row<A>(lanes, row_size, number, epsilon, centred);
    T* const to = y + row * row_size;
    lanes.template for_each_row<0>(row_size, [&](std::int64_t i, int) {
      A result = found.normalised(number(i));
      if (scale && bias) {
        result = fused(result, static_cast<A>(scale[i]), static_cast<A>(bias[i]));
      } else if (scale) {
        result = result * static_cast<A>(scale[i]);
      } else if (bias) {
        result = result + static_cast<A>(bias[i]);
      }
      to[i] = static_cast<T>(result);
    });
  }
};
template <>
struct Kernel<RowNorm> {
  template <class E, class T>
  static void run(const E& executor, const T* x, std::int64_t rows, std::int64_t row_size, const T* scale,
                  const T* bias, double epsilon, bool centred, T* y) {
    if (row_size == 0) return;
    for_each_by_warps(executor, rows, NormaliseRow<T>{x, row_size, scale, bias, epsilon, centred, y});
  }
};

/// Writes the gradient of a row, and keeps its statistics.
template <class T>
struct DifferentiateRow {
  using A = Accumulator<T>;

  const T* dy;
  const T* x;
  std::int64_t row_size;
  const T* scale;
  double epsilon;
  bool centred;
  T* dx;
  RowStatistics<A>* statistics;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const NumbersOfOneRow<T> number{x + row * row_size}, gradient{dy + row * row_size};
    const RowStatistics<A> found = statistics_of_row<A>(lanes, row_size, number, epsilon, centred);
    if (lanes.is_first()) statistics[row] = found;
    // Rounded before it is added, so that nothing is left of a number that is the mean.
    const auto of_normal = [&](std::int64_t i) {
      return scale ? product(gradient(i), static_cast<A>(scale[i])) : gradient(i);
    };
    const auto add = [&](Few<A, 2>& sums, std::int64_t i) {
      const A part = of_normal(i);
      sums.number[0] += part;
      sums.number[1] = fused(part, found.normalised(number(i)), sums.number[1]);
    };
    const Few<A, 2> sums = sum_row<A>(lanes, row_size, add);
    const A size = static_cast<A>(row_size), weighed = sums.number[1] / size;
    const A mean = centred ? sums.number[0] / size : -A{};  // nothing is subtracted, not even from a negative zero
    T* const to = dx + row * row_size;
    const bool extreme = found.is_extreme();
    lanes.template for_each_row<0>(row_size, [&](std::int64_t i, int) {
      const A part = fused(-found.normalised(number(i)), weighed, of_normal(i) - mean);
      to[i] = static_cast<T>(extreme ? found.gradient(part) : part * found.of_gradient());
    });
  }
};

/// Terms of the sums over rows: first those of dscale, then those of dbias.
template <class T>
struct NormTerms {
  using A = Accumulator<T>;

  const T* dy;
  const T* x;
  std::int64_t row_size;
  const RowStatistics<A>* statistics;

  LOD_HOST_DEVICE A operator()(std::int64_t, std::int64_t row, std::int64_t at) const {
    if (at >= row_size) return static_cast<A>(dy[row * row_size + at - row_size]);
    const std::int64_t place = row * row_size + at;
    return product(static_cast<A>(dy[place]), statistics[row].normalised(static_cast<A>(x[place])));
  }
};
template <class T>
struct WriteNormSums {
  std::int64_t rows;
  std::int64_t row_size;
  T* dscale;
  T* dbias;

  LOD_HOST_DEVICE void operator()(std::int64_t, std::int64_t at, Accumulator<T> sum) const {
    T* const to = at < row_size ? dscale + at : dbias + (at - row_size);
    *to = rows == 0 ? T{} : static_cast<T>(sum);
  }
};
template <>
struct Kernel<RowNormGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const T* x, std::int64_t rows, std::int64_t row_size, const T* scale,
                  double epsilon, bool centred, T* dx, T* dscale, T* dbias) {
    using A = Accumulator<T>;
    if (row_size == 0) return;
    const Scratch<E, RowStatistics<A>> statistics(executor, rows);
    const OneSequence<E> all(executor, rows);
    for_each_by_warps(executor, rows,
                      DifferentiateRow<T>{dy, x, row_size, scale, epsilon, centred, dx, statistics.data()});
    sum_sequences<A>(executor, all.segments(), centred ? 2 * row_size : row_size,
                     NormTerms<T>{dy, x, row_size, statistics.data()}, WriteNormSums<T>{rows, row_size, dscale, dbias});
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

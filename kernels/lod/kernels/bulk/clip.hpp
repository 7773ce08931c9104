// SPDX-License-Identifier: Apache-2.0
/// @file
/// Clipping the norm of row-sparse gradients in bulk: the norms stay in the memory of the values.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/elementwise.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/lane.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/kernels/vector_length.hpp>
#include <lod/ops/clip.hpp>
#include <lod/ops/staging.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Sums of x[i] * x_scale * (y[i] * y_scale), in double, over those i in [0, rows of `all`) for which counts(i). sum[0]
/// leaves y unscaled, with a scale of 1 for both if it is the only sum; sum[1] and sum[2] have the scales for large and
/// for tiny numbers, for y or for both.
template <class T>
struct ScaledSums {
  static constexpr std::size_t count = needs_scaled_squares<T> ? 3 : 1;
  double sum[3];

  LOD_HOST_DEVICE ScaledSum best() const noexcept {
    if constexpr (count == 1) {
      return {sum[0], 1};
    } else {
      return best_sum(sum[0], sum[1], sum[2]);
    }
  }
  LOD_HOST_DEVICE VectorLength length() const noexcept {
    const ScaledSum squares = best();
    return {std::sqrt(squares.sum), squares.scale};
  }
};

/// x[i] * y[i] for each of the scales. x is scaled as y if it is the same vector, otherwise as its length is.
template <class T, class Counts>
struct ScaledProducts {
  using Sums = Few<double, ScaledSums<T>::count>;

  const T* x;
  const T* y;
  const ScaledSums<T>* squares;  ///< of x; null while they are being computed
  Counts counts;

  LOD_HOST_DEVICE Sums operator()(std::int64_t, std::int64_t at, std::int64_t) const {
    Sums sums{};
    if (!counts(at)) return sums;
    const auto a = static_cast<double>(x[at]), b = static_cast<double>(y[at]);
    const double scale = squares != nullptr ? squares->length().scale : 1;
    sums.number[0] = product(a * scale, b);
    if constexpr (ScaledSums<T>::count > 1) {
      sums.number[1] = product(a * (squares != nullptr ? scale : scale_of_large), b * scale_of_large);
      sums.number[2] = product(a * (squares != nullptr ? scale : scale_of_tiny), b * scale_of_tiny);
    }
    return sums;
  }
};
template <class E, class T, class Counts>
void sum_products(const E& executor, const ScaledProducts<T, Counts>& products, const Segments& all,
                  ScaledSums<T>* sums) {
  using Sums = typename ScaledProducts<T, Counts>::Sums;
  sum_sequences<Sums>(executor, all, 1, products, [=] LOD_HOST_DEVICE(std::int64_t, std::int64_t, const Sums& total) {
    for (std::size_t k = 0; k < ScaledSums<T>::count; ++k) sums->sum[k] = total.number[k];
  });
}

struct EachCounts {
  LOD_HOST_DEVICE bool operator()(std::int64_t) const noexcept { return true; }
};
/// The numbers of rows whose groups are not empty.
struct CountsInGroups {
  Segments groups;
  std::int64_t row_size;
  LOD_HOST_DEVICE bool operator()(std::int64_t at) const noexcept { return groups.length(at / row_size) > 0; }
};

template <>
struct Kernel<ClipByNorm> {
  template <class E, class T>
  static void run(const E& executor, T* x, std::int64_t count, double norm) {
    if (!x) return;
    const Scratch<E, ScaledSums<T>> loan(executor, 1);
    ScaledSums<T>* const squares = loan.data();
    const OneSequence<E> all(executor, count);
    sum_products(executor, ScaledProducts<T, EachCounts>{x, x, nullptr, {}}, all.segments(), squares);
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const VectorLength length = squares->length();
      if (!length.exceeds(norm)) return;
      const ClippedByNorm<T> clipped{length, norm};
      x[at] = clipped.is_ordinary() ? mapped(kernel::Scaled{Scalar(clipped.factor())}, x[at]) : clipped(x[at]);
    });
  }
};

template <>
struct Kernel<ClipByNormGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const T* x, const Segments& groups, std::int64_t row_size,
                  double norm, T* d) {
    const std::int64_t count = groups.size * row_size;
    const Scratch<E, ScaledSums<T>> loan(executor, 2);
    ScaledSums<T>* const sums = loan.data();  // x . x, x . dy
    const OneSequence<E> all(executor, count);
    sum_products(executor, ScaledProducts<T, EachCounts>{x, x, nullptr, {}}, all.segments(), sums);
    sum_products(executor, ScaledProducts<T, CountsInGroups>{x, dy, sums, {groups, row_size}}, all.segments(),
                 sums + 1);
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const VectorLength length = sums[0].length();
      if (!length.exceeds(norm)) {
        d[at] = dy[at];
        return;
      }
      const ClippedByNormGrad<T> grad{{length, norm}, sums[1].best()};
      d[at] = grad.is_ordinary() ? combined(grad.combined(), dy[at], x[at]) : grad(dy[at], x[at]);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

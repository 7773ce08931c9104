// SPDX-License-Identifier: Apache-2.0
/// @file
/// Row-sparse gradients made shorter over Thrust: their lengths stay where the values are.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/elementwise.hpp>
#include <lod/kernels/thrust/lane.hpp>
#include <lod/kernels/thrust/row_sum.hpp>
#include <lod/ops/clip.hpp>
#include <lod/staging.hpp>
#include <lod/thrust_executor.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

/// sum[0] becomes the sum of x[i] * y[i], in double, of as many numbers as there are rows in `all`; of those that
/// counts(i).
template <class E, class T, class Counts>
void sum_products(const E& executor, const T* x, const T* y, const Segments& all, const Counts& counts, double* sum) {
  sum_sequences<double>(
      executor, all, 1,
      [=] LOD_HOST_DEVICE(std::int64_t, std::int64_t at, std::int64_t) {
        return counts(at) ? product(static_cast<double>(x[at]), static_cast<double>(y[at])) : 0;
      },
      [=] LOD_HOST_DEVICE(std::int64_t, std::int64_t, double total) { *sum = total; });
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

struct Shorten {
  template <class E, class T>
  static void run(const E& executor, T* x, std::int64_t count, double norm) {
    const Scratch<E, double> loan(executor, 1);
    double* const squared = loan.data();
    const OneSequence<E> all(executor, count);
    sum_products(executor, static_cast<const T*>(x), static_cast<const T*>(x), all.segments(), EachCounts(), squared);
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const double length = std::sqrt(*squared);
      if (length > norm) x[at] = mapped(operation::Scaled{Scalar(norm / length)}, x[at]);
    });
  }
};

struct ShortenGrad {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const T* x, const Segments& groups, std::int64_t row_size,
                  double norm, T* d) {
    const std::int64_t count = groups.size * row_size;
    const Scratch<E, double> loan(executor, 2);
    double* const sums = loan.data();  // x . x, x . dy
    const OneSequence<E> all(executor, count);
    sum_products(executor, x, x, all.segments(), EachCounts(), sums);
    sum_products(executor, x, dy, all.segments(), CountsInGroups{groups, row_size}, sums + 1);
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const double length = std::sqrt(sums[0]);
      d[at] =
          length > norm ? combined(operation::Combined::shortened_grad(length, sums[1], norm), dy[at], x[at]) : dy[at];
    });
  }
};

}  // namespace bulk

template <class Policy>
struct Shorten<ThrustExecutor<Policy>> : bulk::Shorten {};
template <class Policy>
struct ShortenGrad<ThrustExecutor<Policy>> : bulk::ShortenGrad {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

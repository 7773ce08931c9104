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

/// Of `count` numbers, the sums of leaves of x[i] * y[i], in double.
template <class E, class T>
void sum_product_leaves(const E& executor, const T* x, const T* y, std::int64_t count, double* leaves) {
  for_each(executor, (count + leaf_rows - 1) / leaf_rows, [=] LOD_HOST_DEVICE(std::int64_t leaf) {
    const std::int64_t first = leaf * leaf_rows;
    const auto term = [&](std::int64_t at) { return product(static_cast<double>(x[at]), static_cast<double>(y[at])); };
    leaves[leaf] = sum_leaf<double>(term, first, least(count - first, leaf_rows), true);
  });
}
/// Their sum.
LOD_HOST_DEVICE inline double joined(const double* leaves, std::int64_t count) {
  return join_leaves<double>([&](std::int64_t k) { return leaves[k]; }, count, 1);
}

struct Shorten {
  template <class E, class T>
  static void run(const E& executor, T* x, std::int64_t count, double norm) {
    const Scratch<E, double> loan(executor, (count + leaf_rows - 1) / leaf_rows + 1);
    double* const squared = loan.data();
    double* const leaves = squared + 1;
    sum_product_leaves(executor, static_cast<const T*>(x), static_cast<const T*>(x), count, leaves);
    for_each(executor, 1, [=] LOD_HOST_DEVICE(std::int64_t) { *squared = joined(leaves, count); });
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const double length = std::sqrt(*squared);
      if (length > norm) x[at] = mapped(operation::Scaled{Scalar(norm / length)}, x[at]);
    });
  }
};

struct ShortenGrad {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const T* x, std::int64_t count, double norm, T* d) {
    const std::int64_t leaves = (count + leaf_rows - 1) / leaf_rows;
    const Scratch<E, double> loan(executor, 2 * leaves + 2);
    double* const sums = loan.data();  // x . x, x . dy
    double* const squares = sums + 2;
    double* const products = squares + leaves;
    sum_product_leaves(executor, x, x, count, squares);
    sum_product_leaves(executor, x, dy, count, products);
    for_each(executor, 2,
             [=] LOD_HOST_DEVICE(std::int64_t i) { sums[i] = joined(i == 0 ? squares : products, count); });
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

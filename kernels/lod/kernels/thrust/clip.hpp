// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums of products over Thrust, for the lengths of row-sparse gradients.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/lane.hpp>
#include <lod/kernels/thrust/merge_rows.hpp>
#include <lod/kernels/thrust/row_sum.hpp>
#include <lod/ops/clip.hpp>
#include <lod/staging.hpp>
#include <lod/thrust_executor.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

struct SumProducts {
  template <class E, class T>
  static double run(const E& executor, const T* x, const T* y, std::int64_t count) {
    const std::int64_t leaves = (count + leaf_rows - 1) / leaf_rows;
    const Scratch<E, double> loan(executor, leaves);
    double* const sums = loan.data();
    for_each(executor, leaves, [=] LOD_HOST_DEVICE(std::int64_t leaf) {
      const std::int64_t first = leaf * leaf_rows;
      const auto term = [&](std::int64_t at) {
        return product(static_cast<double>(x[at]), static_cast<double>(y[at]));
      };
      sums[leaf] = sum_leaf<double>(term, first, least(count - first, leaf_rows), true);
    });
    return answer<double>(executor, [=] LOD_HOST_DEVICE(std::int64_t) {
      const auto leaf = [&](std::int64_t k) { return sums[k]; };
      return join_leaves<double>(leaf, count, 1);
    });
  }
};

}  // namespace bulk

template <class Policy>
struct SumProducts<ThrustExecutor<Policy>> : bulk::SumProducts {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Matrix transposition over Thrust.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/thrust_executor.hpp>
#include <lod/version.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace kernel {

namespace bulk {

struct TransposeMatrix {
  template <class E, class T>
  static void run(const E& executor, const T* x, std::int64_t rows, std::int64_t columns, T* y) {
    for_each(executor, rows * columns,
             [=] LOD_HOST_DEVICE(std::int64_t at) { y[at] = x[at % rows * columns + at / rows]; });
  }
};

}  // namespace bulk

template <class Policy>
struct TransposeMatrix<ThrustExecutor<Policy>> : bulk::TransposeMatrix {};

}  // namespace kernel
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

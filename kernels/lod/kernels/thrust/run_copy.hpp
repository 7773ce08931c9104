// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copies of runs of rows over Thrust.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/thrust_executor.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

struct RunCopy {
  template <class E, class T>
  static void run(const E& executor, const T* const* sources, const Segments& destination, std::int64_t row_size,
                  T* y) {
    for_each(executor, destination.rows() * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t i = sequence_of(destination, at / row_size);
      y[at] = sources[i][at - destination.begin(i) * row_size];
    });
  }
};

struct CopyValues {
  template <class E, class T>
  static void run(const E& executor, const T* x, std::int64_t count, T* y) {
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) { y[at] = x[at]; });
  }
};

}  // namespace bulk

template <class Policy>
struct RunCopy<ThrustExecutor<Policy>> : bulk::RunCopy {};
template <class Policy>
struct CopyValues<ThrustExecutor<Policy>> : bulk::CopyValues {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

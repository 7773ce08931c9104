// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gathering rows over Thrust.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/thrust_executor.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

struct GatherRows {
  template <class E, class T>
  static void run(const E& executor, const T* x, const std::int64_t* ids, std::int64_t count, std::int64_t row_size,
                  std::int64_t skipped, T* y) {
    for_each(executor, count * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t id = ids[at / row_size];
      y[at] = id < 0 || id == skipped ? T{} : x[id * row_size + at % row_size];
    });
  }
};

}  // namespace bulk

template <class Policy>
struct GatherRows<ThrustExecutor<Policy>> : bulk::GatherRows {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums of products on the CPU, for the lengths of row-sparse gradients.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/ops/clip.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct SumProducts<CpuExecutor> {
  template <class T>
  static double run(const CpuExecutor& executor, const T* x, const T* y, std::int64_t count) {
    if (count == 0) return 0;
    const cpu::ThreadScratch<double> blocks(executor, cpu::computed_scratch(1));
    const auto products = [x, y](std::int64_t first, std::int64_t some, double* to) {
      for (std::int64_t i = 0; i < some; ++i) {
        to[i] = static_cast<double>(x[first + i]) * static_cast<double>(y[first + i]);
      }
    };
    double sum;
    cpu::sum_rows<double>(
        executor,
        [&](int thread) {
          return cpu::ComputedRows{products, blocks(thread)};
        },
        count, 1, 2 * count * static_cast<std::int64_t>(sizeof(T)), &sum);
    return sum;
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

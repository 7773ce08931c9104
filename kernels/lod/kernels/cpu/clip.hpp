// SPDX-License-Identifier: Apache-2.0
/// @file
/// Row-sparse gradients made shorter on the CPU.
#pragma once

#include <lod/kernels/cpu/elementwise.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/run_copy.hpp>
#include <lod/ops/clip.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace cpu {

/// The sum of x[i] * y[i], in double.
template <class T>
double sum_products(const CpuExecutor& executor, const T* x, const T* y, std::int64_t count) {
  if (count == 0) return 0;
  const ThreadScratch<double> blocks(executor, computed_scratch(1));
  const auto products = [x, y](std::int64_t first, std::int64_t some, double* to) {
    for (std::int64_t i = 0; i < some; ++i) {
      to[i] = static_cast<double>(x[first + i]) * static_cast<double>(y[first + i]);
    }
  };
  double sum;
  sum_rows<double>(
      executor,
      [&](int thread) {
        return ComputedRows{products, blocks(thread)};
      },
      count, 1, 2 * count * static_cast<std::int64_t>(sizeof(T)), &sum);
  return sum;
}

}  // namespace cpu

template <>
struct Shorten<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, T* x, std::int64_t count, double norm) {
    const double length = std::sqrt(cpu::sum_products<T>(executor, x, x, count));
    if (!(length > norm)) return;
    Map<InlineCpu>::run(executor, operation::Scaled{norm / length}, static_cast<const T*>(x), count, x);
  }
};

template <>
struct ShortenGrad<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const T* x, const Segments& groups, std::int64_t row_size,
                  double norm, T* d) {
    const std::int64_t count = groups.size * row_size;  // on a CPU, no group is empty
    const double length = std::sqrt(cpu::sum_products(executor, x, x, count));
    if (!(length > norm)) return CopyValues<InlineCpu>::run(executor, dy, count, d);
    const double product = cpu::sum_products(executor, x, dy, count);
    Combine<InlineCpu>::run(executor, operation::Combined::shortened_grad(length, product, norm), dy, x, count, d);
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Clipping the norm of row-sparse gradients on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/elementwise.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/run_copy.hpp>
#include <lod/kernels/vector_length.hpp>
#include <lod/ops/clip.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The sum of x[i] * x_scale * (y[i] * y_scale), in double. If x is null, 0: only scratch memory is taken.
template <class T>
double sum_products(const CpuExecutor& executor, const T* x, double x_scale, const T* y, double y_scale,
                    std::int64_t count) {
  const ThreadScratch<double> blocks(executor, computed_scratch(1));
  const Workspace::Loan<double> partial(executor.workspace(), shared_sum_scratch(count, 1));
  if (!x || count == 0) return 0;
  const auto products = [=](std::int64_t first, std::int64_t some, double* to) {
    for (std::int64_t i = 0; i < some; ++i) {
      to[i] = static_cast<double>(x[first + i]) * x_scale * (static_cast<double>(y[first + i]) * y_scale);
    }
  };
  double sum;
  sum_rows<double>(
      executor,
      [&](int thread) {
        return ComputedRows{products, blocks(thread)};
      },
      count, 1, 2 * count * static_cast<std::int64_t>(sizeof(T)), partial, &sum);
  return sum;
}

/// The result of sum(scale) without a scale, or with the scale that its terms need.
template <class T, class Sum>
ScaledSum best_sum(const Sum& sum) {
  const double plain = sum(1.0);
  if (!needs_scaled_squares<T> || kernel::is_plain(plain)) return {plain, 1};
  return is_finite(plain) ? kernel::best_sum(plain, plain, sum(scale_of_tiny))
                          : kernel::best_sum(plain, sum(scale_of_large), plain);
}
template <class T>
VectorLength vector_length(const CpuExecutor& executor, const T* x, std::int64_t count) {
  const ScaledSum squares =
      best_sum<T>([&](double scale) { return sum_products(executor, x, scale, x, scale, count); });
  return {std::sqrt(squares.sum), squares.scale};
}

template <>
struct Kernel<ClipByNorm> {
  template <class T>
  static void run(const CpuExecutor& executor, T* x, std::int64_t count, double norm) {
    const cpu::FloatingPointControl standard;
    const VectorLength length = cpu::vector_length(executor, static_cast<const T*>(x), count);
    if (!length.exceeds(norm)) return;
    const ClippedByNorm<T> clipped{length, norm};
    if (clipped.is_ordinary()) {
      cpu::Kernel<Map>::run(executor, kernel::Scaled{clipped.factor()}, static_cast<const T*>(x), count, x);
      return;
    }
    for_each(executor, count, [&](std::int64_t i) { x[i] = clipped(x[i]); });
  }

  /// Calls f(i) for i in [0, count).
  template <class F>
  static void for_each(const CpuExecutor& executor, std::int64_t count, const F& f) {
    cpu::parallel_ranges(executor, count, count * static_cast<std::int64_t>(sizeof(double)),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t i = begin; i < end; ++i) f(i);
                         });
  }
};

template <>
struct Kernel<ClipByNormGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const T* x, const Segments& groups, std::int64_t row_size,
                  double norm, T* d) {
    const std::int64_t count = groups.size * row_size;  // on a CPU, no group is empty
    const cpu::FloatingPointControl standard;
    const VectorLength length = cpu::vector_length(executor, x, count);
    if (!length.exceeds(norm)) return cpu::Kernel<CopyValues>::run(executor, dy, count, d);
    const ScaledSum product =
        cpu::best_sum<T>([&](double scale) { return cpu::sum_products(executor, x, length.scale, dy, scale, count); });
    const ClippedByNormGrad<T> grad{{length, norm}, product};
    if (grad.is_ordinary()) return cpu::Kernel<Combine>::run(executor, grad.combined(), dy, x, count, d);
    cpu::Kernel<ClipByNorm>::for_each(executor, count, [&](std::int64_t i) { d[i] = grad(dy[i], x[i]); });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

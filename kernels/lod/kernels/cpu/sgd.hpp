// SPDX-License-Identifier: Apache-2.0
/// @file
/// Stochastic gradient descent on the CPU.
#pragma once

#include <lod/kernels/cpu/merge_rows.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sgd.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct Sgd<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, T* parameter, const T* gradient, std::int64_t count,
                  double learning_rate) {
    const cpu::Vector<T> rate(static_cast<cpu::Accumulator<T>>(learning_rate));
    cpu::parallel_ranges(
        executor, count, 3 * count * static_cast<std::int64_t>(sizeof(T)), [&](std::int64_t begin, std::int64_t end) {
          cpu::transform<T>(parameter + begin, gradient + begin, end - begin, parameter + begin,
                            [&](const cpu::Vector<T>& p, const cpu::Vector<T>& g) { return p - rate * g; });
        });
  }
};

template <>
struct SgdRows<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, T* parameter, const T* const* rows, const std::int64_t* order,
                  const Segments& groups, const std::int64_t* to, std::int64_t row_size, double learning_rate) {
    using A = cpu::Accumulator<T>;
    const A rate = static_cast<A>(learning_rate);
    cpu::for_each_group_sum(executor, rows, order, groups, row_size, [&](std::int64_t group, const A* sums) {
      T* out = parameter + to[group] * row_size;
      for (std::int64_t i = 0; i < row_size; ++i) out[i] = static_cast<T>(static_cast<A>(out[i]) - rate * sums[i]);
    });
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

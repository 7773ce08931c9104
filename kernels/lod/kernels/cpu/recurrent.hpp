// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of recurrent units on the CPU, except for their matrix products, and matrix transposition.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/recurrent.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// `count` numbers, at most a vector.
template <class T>
struct StateLanes {
  using V = Vector<T>;

  std::int64_t count;

  V load(const T* x, std::int64_t at = 0) const { return x ? load_vector(x + at, count) : V(Accumulator<T>{}); }
  void store(T* y, const V& numbers) const { store_first(y, numbers, count, count); }
  static V one() { return V(1); }
  /// 1 / (1 + e^-x): 0 where the exponential overflows and 1 where it underflows.
  static V sigmoid(const V& x) { return V(1) / (V(1) + exponential(-x)); }
  static V hyperbolic_tangent(const V& x) { return cpu::hyperbolic_tangent(x); }
  static V if_positive(const V& condition, const V& x) { return select(condition > V(0), x, V(0)); }
  static V within(const V& x, const V& limit) { return select(x > limit, limit, select(x < -limit, -limit, x)); }
  static V if_within(const V& x, const V& limit, const V& y) {
    return select(x > -limit, select(x < limit, y, V(0)), V(0));
  }
};

/// Threads share the rows.
template <>
struct Kernel<StepStates> {
  template <class Step>
  static void run(const CpuExecutor& executor, std::int64_t rows, const Step& step) {
    using T = typename Step::value_type;
    const std::int64_t size = step.size, bytes = lod::detail::bytes_of<T>(rows, size, step.arrays);
    if (size == 0) return;  // however many rows there are
    parallel_ranges(executor, rows, bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        for (std::int64_t column = 0; column < size; column += lanes<T>) {
          step(StateLanes<T>{std::min(lanes<T>, size - column)}, row, column);
        }
      }
    });
  }
};

template <>
struct Kernel<TransposeMatrix> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, std::int64_t rows, std::int64_t columns, T* y) {
    // Square tiles: the lines of both matrices that a tile touches stay in the first-level cache.
    constexpr std::int64_t tile = 16;
    const std::int64_t bytes = lod::detail::bytes_of<T>(2, rows, columns);
    cpu::parallel_ranges(executor, (columns + tile - 1) / tile, bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = begin * tile; first < std::min(end * tile, columns); first += tile) {
        const std::int64_t last = std::min(first + tile, columns);
        for (std::int64_t top = 0; top < rows; top += tile) {
          const std::int64_t bottom = std::min(top + tile, rows);
          for (std::int64_t j = first; j < last; ++j) {
            for (std::int64_t i = top; i < bottom; ++i) y[j * rows + i] = x[i * columns + j];
          }
        }
      }
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

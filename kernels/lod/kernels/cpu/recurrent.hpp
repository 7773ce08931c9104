// SPDX-License-Identifier: Apache-2.0
/// @file
/// The gate functions on the CPU, for whole vectors, the loop over the numbers of states, and matrix transposition.
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

/// 1 / (1 + e^-x): 0 where the exponential overflows and 1 where it underflows.
template <class V>
inline V sigmoid(const V& x) {
  return V(1) / (V(1) + exponential(-x));
}

/// `count` numbers, at most a vector, followed by zeros; all zeros if x is null.
template <class T>
inline Vector<T> load_state(const T* x, std::int64_t count) {
  return x ? load_vector(x, count) : Vector<T>(Accumulator<T>{});
}
template <class T>
inline void store_state(T* y, const Vector<T>& vector, std::int64_t count) {
  store_first(y, vector, count, count);
}

/// x + offset, or null if x is null.
template <class T>
inline T* optional(T* x, std::int64_t offset) noexcept {
  return x ? x + offset : nullptr;
}

/// Calls body(row, column, count) for the vectors that rows of `size` numbers are cut into: `count` numbers from
/// `column` on. Threads share the rows; `arrays` says how many numbers of type T are touched for each number of a row.
template <class T, class Body>
void for_each_state(const CpuExecutor& executor, std::int64_t rows, std::int64_t size, std::int64_t arrays,
                    const Body& body) {
  const std::int64_t bytes = lod::detail::bytes_of<T>(rows, size, arrays);
  parallel_ranges(executor, rows, bytes, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t column = 0; column < size; column += lanes<T>) {
        body(row, column, std::min(lanes<T>, size - column));
      }
    }
  });
}

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

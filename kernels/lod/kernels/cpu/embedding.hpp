// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gathering rows on the CPU.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/embedding.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct GatherRows<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const std::int64_t* ids, std::int64_t count,
                  std::int64_t row_size, std::int64_t skipped, T* y) {
    // Rows this many ids ahead are asked for early: a gather waits for memory, not for bandwidth.
    constexpr std::int64_t ahead = 16;
    constexpr auto line = static_cast<std::int64_t>(64 / sizeof(T));
    const std::int64_t prefetched = std::min<std::int64_t>(row_size, 4 * line);
    const std::int64_t bytes = count * row_size * static_cast<std::int64_t>(sizeof(T));
    cpu::parallel_ranges(executor, count, bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (i + ahead < end && ids[i + ahead] != skipped) {
          const T* next = x + ids[i + ahead] * row_size;
          for (std::int64_t column = 0; column < prefetched; column += line) __builtin_prefetch(next + column);
        }
        T* out = y + i * row_size;
        if (ids[i] == skipped) {
          cpu::fill(out, row_size, T{});
        } else if (row_size == 1) {
          *out = x[ids[i]];
        } else {
          cpu::copy(x + ids[i] * row_size, row_size, out);
        }
      }
    });
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

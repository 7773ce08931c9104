// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gathering rows on the CPU.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/embedding.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct GatherRows<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const std::int64_t* ids, std::int64_t count,
                  std::int64_t row_size, std::int64_t skipped, T* y) {
    const std::int64_t bytes = count * row_size * static_cast<std::int64_t>(sizeof(T));
    cpu::parallel_ranges(executor, count, bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (i + cpu::prefetch_distance < end && ids[i + cpu::prefetch_distance] != skipped) {
          cpu::prefetch(x + ids[i + cpu::prefetch_distance] * row_size, row_size);
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

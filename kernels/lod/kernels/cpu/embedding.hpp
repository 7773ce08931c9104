// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gathering rows on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/embedding.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<GatherRows> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const std::int64_t* ids, std::int64_t count,
                  std::int64_t row_size, std::int64_t skipped, T* y) {
    const std::int64_t bytes = lod::detail::bytes_of<T>(count, row_size);
    cpu::parallel_ranges(executor, count, bytes, [=](std::int64_t begin, std::int64_t end) {
      const auto go_through = [=](const auto& copy_row) {
        std::int64_t i = begin;
        for (; i + cpu::prefetch_distance < end; ++i) {
          const std::int64_t next = ids[i + cpu::prefetch_distance];
          if (next != skipped) cpu::prefetch(x + next * row_size, row_size);
          copy_row(ids[i], i);
        }
        for (; i < end; ++i) copy_row(ids[i], i);
      };
      if (row_size == 1) {  // the case in which every nanosecond counts
        go_through([=](std::int64_t id, std::int64_t i) { y[i] = id == skipped ? T{} : x[id]; });
        return;
      }
      go_through([=](std::int64_t id, std::int64_t i) {
        T* const out = y + i * row_size;
        id == skipped ? cpu::fill(out, row_size, T{}) : cpu::copy(x + id * row_size, row_size, out);
      });
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

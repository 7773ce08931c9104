// SPDX-License-Identifier: Apache-2.0
/// @file
/// Masks on the CPU: one pass over the result, whose elements are shared out among threads.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_mask.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<SequenceMask> {
  template <class U>
  static void run(const CpuExecutor& executor, const std::int64_t* lengths, std::int64_t count, std::int64_t max_length,
                  U* y) {
    const std::int64_t bytes = count * max_length * static_cast<std::int64_t>(sizeof(U));
    cpu::parallel_ranges(executor, count * max_length, bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin / std::max<std::int64_t>(max_length, 1); i * max_length < end; ++i) {
        // This part's elements for length i, and where the ones among them end.
        const std::int64_t first = i * max_length;
        const std::int64_t low = std::max<std::int64_t>(begin - first, 0), high = std::min(end - first, max_length);
        const std::int64_t ones = std::clamp(lengths[i], low, high);
        cpu::fill(y + first + low, ones - low, static_cast<U>(1), end - first - low);
        cpu::fill(y + first + ones, high - ones, static_cast<U>(0), end - first - ones);
      }
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

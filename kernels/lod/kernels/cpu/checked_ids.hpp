// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checking and widening ids on the CPU, by all threads.
#pragma once

#include <lod/core/selected_rows.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/checked_ids.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<AreIds> {
  static bool run(const CpuExecutor& executor, const std::int64_t* ids, std::int64_t count, std::int64_t height,
                  std::int64_t least) {
    std::atomic<bool> all = true;
    const std::int64_t bytes = lod::detail::bytes_of<std::int64_t>(count);
    cpu::parallel_ranges(executor, count, bytes, [&](std::int64_t begin, std::int64_t end) {
      const std::span some(ids + begin, static_cast<std::size_t>(end - begin));
      if (!lod::detail::are_row_ids(some, height, least)) all.store(false, std::memory_order_relaxed);
    });
    return all;
  }
};

template <>
struct Kernel<WidenIds> {
  static void run(const CpuExecutor& executor, const std::int32_t* ids, std::int64_t count, std::int64_t* wide,
                  std::int64_t* range) {
    constexpr std::int32_t last = std::numeric_limits<std::int32_t>::max(),
                           first = std::numeric_limits<std::int32_t>::min();
    std::atomic<std::int32_t> least = last, greatest = first;
    const auto keep = [](std::atomic<std::int32_t>& kept, std::int32_t id, auto wins) {
      std::int32_t found = kept;
      while (wins(id, found) && !kept.compare_exchange_weak(found, id)) {
      }
    };
    const std::int64_t bytes = lod::detail::bytes_of<std::int64_t>(2, count);
    cpu::parallel_ranges(executor, count, bytes, [&](std::int64_t begin, std::int64_t end) {
      std::array<std::int32_t, 16> low, high;  // so many at a time: the compiler makes vectors of them
      low.fill(last);
      high.fill(first);
      constexpr auto step = static_cast<std::int64_t>(low.size());
      const auto widen = [&](std::int64_t i, std::size_t k) {
        const std::int32_t id = ids[i];
        wide[i] = id;
        low[k] = std::min(low[k], id);
        high[k] = std::max(high[k], id);
      };
      for (; end - begin >= step; begin += step) {
        for (std::size_t k = 0; k < low.size(); ++k) widen(begin + static_cast<std::int64_t>(k), k);
      }
      for (; begin < end; ++begin) widen(begin, 0);
      keep(least, std::ranges::min(low), [](std::int32_t id, std::int32_t other) { return id < other; });
      keep(greatest, std::ranges::max(high), [](std::int32_t id, std::int32_t other) { return id > other; });
    });
    range[0] = least;
    range[1] = greatest;
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rows of sequences by groups, on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/ops/grouped_linear.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<RowsByGroup> {
  /// A counting sort by one thread: it takes as long as a thousandth of the products that follow.
  static void run(const CpuExecutor&, const Segments& sequences, const std::int64_t* group_of, std::int64_t groups,
                  std::int64_t* offsets, std::int64_t* rows) {
    std::fill_n(offsets, groups + 1, std::int64_t{0});
    for (std::int64_t i = 0; i < sequences.size; ++i) offsets[group_of[i]] += sequences.length(i);
    std::int64_t before = 0;
    for (std::int64_t g = 0; g <= groups; ++g) {
      const std::int64_t length = offsets[g];
      offsets[g] = before;
      before += length;
    }
    // Meanwhile an offset counts on; at the end it is that of the next group.
    for (std::int64_t i = 0; i < sequences.size; ++i) {
      std::int64_t& next = offsets[group_of[i]];
      for (std::int64_t row = 0; row < sequences.length(i); ++row) rows[next++] = sequences.begin(i) + row;
    }
    std::copy_backward(offsets, offsets + groups, offsets + groups + 1);
    offsets[0] = 0;
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

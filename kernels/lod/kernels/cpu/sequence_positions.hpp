// SPDX-License-Identifier: Apache-2.0
/// @file
/// Positions on the CPU: one pass over the result, whose rows are shared out among threads.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/sequence_positions.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<SequencePositions> {
  static void run(const CpuExecutor& executor, const Segments& sequences, std::int64_t* y) {
    cpu::parallel_rows(executor, sequences, static_cast<std::int64_t>(sizeof(std::int64_t)),
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
                         std::int64_t* const to = y + sequences.begin(i);
                         for (std::int64_t row = begin; row < end; ++row) to[row] = row;
                       });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

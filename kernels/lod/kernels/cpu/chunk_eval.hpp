// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counting chunks on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/chunks.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/chunk_eval.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<CountChunks> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* inference, const T* label, const Segments& sequences,
                  const ChunkLabels& labels, std::int64_t* counts) {
    // A row costs about as much as a hundred bytes.
    cpu::parallel_sequences(executor, sequences, 100, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t begin = sequences.begin(i);
        count_chunks(inference + begin, label + begin, sequences.length(i), labels, counts + 3 * i);
      }
    });
  }
};

template <>
struct Kernel<ChunkRates> {
  static void run(const CpuExecutor&, const std::int64_t* counts, float* rates) { chunk_rates(counts, rates); }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

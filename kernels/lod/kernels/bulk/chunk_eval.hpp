// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counting chunks in bulk: a thread a sequence.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/chunks.hpp>
#include <lod/ops/chunk_eval.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<CountChunks> {
  template <class E, class T>
  static void run(const E& executor, const T* inference, const T* label, const Segments& sequences,
                  const ChunkLabels& labels, std::int64_t* counts) {
    for_each(executor, sequences.size, [=] LOD_HOST_DEVICE(std::int64_t i) {
      const std::int64_t begin = sequences.begin(i);
      count_chunks(inference + begin, label + begin, sequences.length(i), labels, counts + 3 * i);
    });
  }
};

template <>
struct Kernel<ChunkRates> {
  template <class E>
  static void run(const E& executor, const std::int64_t* counts, float* rates) {
    for_each(executor, 1, [=] LOD_HOST_DEVICE(std::int64_t) { chunk_rates(counts, rates); });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

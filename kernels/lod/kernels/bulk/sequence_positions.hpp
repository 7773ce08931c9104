// SPDX-License-Identifier: Apache-2.0
/// @file
/// Positions in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/sequence_positions.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<SequencePositions> {
  template <class E>
  static void run(const E& executor, const Segments& sequences, std::int64_t* y) {
    for_each_in_sequences(executor, sequences, 1, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t) {
      y[row] = row - sequences.begin(i);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

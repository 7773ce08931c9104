// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reversal of rows in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/pieces.hpp>
#include <lod/ops/sequence_reverse.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<SequenceReverse> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, T* y) {
    const Pieces<T> pieces(y, row_size);
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t piece) {
      const std::int64_t mirrored = sequences.begin(i) + sequences.begin(i + 1) - 1 - row;
      pieces.copy(y + row * row_size, x + mirrored * row_size, piece);
    };
    for_each_in_sequences(executor, sequences, pieces.in_row(), write);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

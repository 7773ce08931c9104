// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reversal of rows in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/kernels/bulk/pieces.hpp>
#include <lod/ops/sequence_reverse.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Reverses sequences of scalar rows, also in their place.
struct ReverseScalars {
  template <class T, class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t, int rows, const T* from, T* to, const Lanes& lanes) const {
    lanes.template for_each_row<0>((rows + 1) / 2, [&](int row, int) {
      const int mirrored = rows - 1 - row;
      const T first = from[row], last = from[mirrored];
      to[row] = last;
      to[mirrored] = first;
    });
  }
};

template <>
struct Kernel<SequenceReverse> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, T* y) {
    if (row_size == 1 && !Leaves{sequences}.any() && are_brought(sequences)) {
      for_each_staged(executor, sequences, x, y, ReverseScalars{});
      return;
    }
    const Pieces<T> pieces(y, row_size);
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t piece) {
      const std::int64_t mirrored = sequences.begin(i) + sequences.begin(i + 1) - 1 - row;
      pieces.copy(y + row * row_size, x + mirrored * row_size, piece);
    };
    for_each_in_sequences(executor, sequences, pieces.in_row(), write);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

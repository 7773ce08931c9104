// SPDX-License-Identifier: Apache-2.0
/// @file
/// Padding over Thrust.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/pieces.hpp>
#include <lod/ops/sequence_pad.hpp>
#include <lod/thrust_executor.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

/// Where the rows of a sequence stand in the dense block.
struct PaddedRows {
  LOD_HOST_DEVICE PaddedRows(std::int64_t rows, std::int64_t padded_length, Side side) noexcept
      : kept(least(rows, padded_length)),
        cut_off(side == Side::LEFT ? rows - kept : 0),
        first(side == Side::LEFT ? padded_length - kept : 0) {}

  std::int64_t kept;     ///< rows that are not cut off
  std::int64_t cut_off;  ///< rows of the sequence that are, before those
  std::int64_t first;    ///< the place of the first kept row
};

struct SequencePad {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  std::int64_t padded_length, Side side, T pad_value, T* dense, std::int64_t* lengths) {
    const Pieces<T> pieces(dense, row_size);
    const std::int64_t in_sequence = padded_length * pieces.in_row();
    for_each_element(executor, sequences.size, in_sequence, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t at) {
      const std::int64_t place = at / pieces.in_row(), piece = at % pieces.in_row();
      const PaddedRows rows(sequences.length(i), padded_length, side);
      const std::int64_t kept = place - rows.first;  // which of the kept rows
      T* const row = dense + (i * padded_length + place) * row_size;
      if (kept >= 0 && kept < rows.kept) {
        pieces.copy(row, x + (sequences.begin(i) + rows.cut_off + kept) * row_size, piece);
      } else {
        pieces.fill(row, pad_value, piece);
      }
    });
    if (!lengths) return;
    for_each(executor, sequences.size,
             [=] LOD_HOST_DEVICE(std::int64_t i) { lengths[i] = least(sequences.length(i), padded_length); });
  }
};

struct SequenceUnpad {
  template <class E, class T>
  static void run(const E& executor, const T* dense, std::int64_t padded_length, Side side, const Segments& sequences,
                  std::int64_t row_size, T* x) {
    const Pieces<T> pieces(x, row_size);
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t piece) {
      const PaddedRows rows(sequences.length(i), padded_length, side);
      const std::int64_t kept = row - sequences.begin(i) - rows.cut_off;  // which of the kept rows
      T* const to = x + row * row_size;
      if (kept >= 0 && kept < rows.kept) {
        pieces.copy(to, dense + (i * padded_length + rows.first + kept) * row_size, piece);
      } else {
        pieces.fill(to, T{}, piece);
      }
    };
    for_each_in_sequences(executor, sequences, pieces.in_row(), write);
  }
};

}  // namespace bulk

template <class Policy>
struct SequencePad<ThrustExecutor<Policy>> : bulk::SequencePad {};
template <class Policy>
struct SequenceUnpad<ThrustExecutor<Policy>> : bulk::SequenceUnpad {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

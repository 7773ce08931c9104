// SPDX-License-Identifier: Apache-2.0
/// @file
/// Padding over Thrust.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
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
    for_each(executor, sequences.size * padded_length * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t i = at / row_size / padded_length, place = at / row_size % padded_length;
      const PaddedRows rows(sequences.length(i), padded_length, side);
      const std::int64_t kept = place - rows.first;  // which of the kept rows
      dense[at] = kept >= 0 && kept < rows.kept
                      ? x[(sequences.begin(i) + rows.cut_off + kept) * row_size + at % row_size]
                      : pad_value;
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
    for_each(executor, sequences.rows() * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t row = at / row_size, i = sequence_of(sequences, row);
      const PaddedRows rows(sequences.length(i), padded_length, side);
      const std::int64_t kept = row - sequences.begin(i) - rows.cut_off;  // which of the kept rows
      x[at] = kept >= 0 && kept < rows.kept ? dense[(i * padded_length + rows.first + kept) * row_size + at % row_size]
                                            : T{};
    });
  }
};

}  // namespace bulk

template <class Policy>
struct SequencePad<ThrustExecutor<Policy>> : bulk::SequencePad {};
template <class Policy>
struct SequenceUnpad<ThrustExecutor<Policy>> : bulk::SequenceUnpad {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

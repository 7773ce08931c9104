// SPDX-License-Identifier: Apache-2.0
/// @file
/// Padding in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/divisor.hpp>
#include <lod/kernels/bulk/pieces.hpp>
#include <lod/ops/sequence_pad.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<SequencePad> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  std::int64_t padded_length, Side side, T pad_value, T* dense, std::int64_t* lengths) {
    const Pieces<T> pieces(dense, row_size);
    const std::int64_t in_sequence = padded_length * pieces.in_row();
    const LongDivisor in_row(greatest<std::int64_t>(pieces.in_row(), 1), in_sequence);
    for_each_element(executor, sequences.size, in_sequence, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t at) {
      const std::int64_t place = in_row.quotient(at), piece = in_row.remainder(at, place);
      const std::int64_t length = sequences.length(i);
      const std::int64_t row = place + (side == Side::LEFT ? length - padded_length : 0);
      T* const to = dense + (i * in_sequence + at) * pieces.width();
      if (row >= 0 && row < length) {
        pieces.copy(to, x + (sequences.begin(i) + row) * row_size + piece * pieces.width());
      } else {
        pieces.fill(to, pad_value);
      }
    });
    if (!lengths) return;
    for_each(executor, sequences.size,
             [=] LOD_HOST_DEVICE(std::int64_t i) { lengths[i] = least(sequences.length(i), padded_length); });
  }
};

template <>
struct Kernel<SequenceUnpad> {
  template <class E, class T>
  static void run(const E& executor, const T* dense, std::int64_t padded_length, Side side, const Segments& sequences,
                  std::int64_t row_size, T* x) {
    const Pieces<T> pieces(x, row_size);
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t piece) {
      const std::int64_t to_right = side == Side::LEFT ? padded_length - sequences.length(i) : 0;
      const std::int64_t place = row - sequences.begin(i) + to_right;
      T* const to = x + row * row_size + piece * pieces.width();
      if (place >= 0 && place < padded_length) {
        pieces.copy(to, dense + (i * padded_length + place) * row_size + piece * pieces.width());
      } else {
        pieces.fill(to, T{});
      }
    };
    for_each_in_sequences(executor, sequences, pieces.in_row(), write);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

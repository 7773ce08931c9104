// SPDX-License-Identifier: Apache-2.0
/// @file
/// Padding on the CPU: one pass over the dense block, shared out by its rows.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_pad.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace cpu {

/// Where the rows of a sequence stand in the dense block.
struct PaddedRows {
  PaddedRows(std::int64_t rows, std::int64_t padded_length, Side side) noexcept
      : kept(std::min(rows, padded_length)),
        cut_off(side == Side::LEFT ? rows - kept : 0),
        first(side == Side::LEFT ? padded_length - kept : 0) {}

  std::int64_t kept;     ///< rows that are not cut off
  std::int64_t cut_off;  ///< rows of the sequence that are, before those
  std::int64_t first;    ///< the place of the first kept row
};

}  // namespace cpu

template <>
struct SequencePad<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  std::int64_t padded_length, Side side, T pad_value, T* dense, std::int64_t* lengths) {
    const std::int64_t bytes =
        (sequences.rows() + sequences.size * padded_length) * row_size * static_cast<std::int64_t>(sizeof(T));
    cpu::parallel_ranges(executor, sequences.size * padded_length, bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin / std::max<std::int64_t>(padded_length, 1); i * padded_length < end; ++i) {
        const cpu::PaddedRows rows(sequences.length(i), padded_length, side);
        // The places of sequence i that are ours, and where its rows stand among them.
        const std::int64_t low = std::max<std::int64_t>(begin - i * padded_length, 0);
        const std::int64_t high = std::min(end - i * padded_length, padded_length);
        const std::int64_t from = std::clamp(rows.first, low, high), to = std::clamp(rows.first + rows.kept, low, high);
        T* const out = dense + i * padded_length * row_size;
        const std::int64_t source = sequences.begin(i) + rows.cut_off + from - rows.first;
        const std::int64_t room = end - i * padded_length;  // places before us from the first of sequence i on
        cpu::fill(out + low * row_size, (from - low) * row_size, pad_value, (room - low) * row_size);
        cpu::copy(x + source * row_size, (to - from) * row_size, out + from * row_size,
                  std::min(room - from, sequences.rows() - source) * row_size);
        cpu::fill(out + to * row_size, (high - to) * row_size, pad_value, (room - to) * row_size);
      }
    });
    if (!lengths) return;
    for (std::int64_t i = 0; i < sequences.size; ++i) lengths[i] = std::min(sequences.length(i), padded_length);
  }
};

template <>
struct SequenceUnpad<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dense, std::int64_t padded_length, Side side,
                  const Segments& sequences, std::int64_t row_size, T* x) {
    const std::int64_t row_bytes = 2 * row_size * static_cast<std::int64_t>(sizeof(T));
    cpu::parallel_rows(executor, sequences, row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
                         const cpu::PaddedRows rows(sequences.length(i), padded_length, side);
                         const std::int64_t from = std::clamp(rows.cut_off, begin, end);
                         const std::int64_t to = std::clamp(rows.cut_off + rows.kept, begin, end);
                         const std::int64_t source = i * padded_length + rows.first + from - rows.cut_off;
                         T* const out = x + sequences.begin(i) * row_size;
                         cpu::fill(out + begin * row_size, (from - begin) * row_size, T{});
                         cpu::copy(dense + source * row_size, (to - from) * row_size, out + from * row_size);
                         cpu::fill(out + to * row_size, (end - to) * row_size, T{});
                       });
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Padding on the CPU: one pass over the dense block, whose rows are shared out among threads.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/line_writer.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_pad.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Where the rows of a sequence are in the dense block.
struct PaddedRows {
  PaddedRows(std::int64_t rows, std::int64_t padded_length, Side side) noexcept
      : kept(std::min(rows, padded_length)),
        cut_off(side == Side::LEFT ? rows - kept : 0),
        first(side == Side::LEFT ? padded_length - kept : 0) {}

  std::int64_t kept;     ///< rows that are not cut off
  std::int64_t cut_off;  ///< rows of the sequence that are cut off before those
  std::int64_t first;    ///< the position of the first kept row
};

/// Blocks of at most this size are written as whole vectors, so that no branch depends on the length of the sequence.
inline constexpr std::int64_t short_block = 64;
static_assert(short_block + 32 <= LineWriter<double>::room);

/// Writes the block of one sequence: y[j] = x[j] for j in [from, to), `pad_value` for all others up to `numbers`, in
/// whole vectors; what they write past the end is overwritten later.
template <class T>
inline void pad_short_block(const T* x, std::int64_t from, std::int64_t to, std::int64_t numbers, T pad_value, T* y) {
  const Vector<T> padding(static_cast<Accumulator<T>>(pad_value));
  for (std::int64_t j = 0; j < numbers; j += lanes<T>) {
    const auto is_kept = first_lanes<T>(to - j) & !first_lanes<T>(from - j);
    store<T>(y + j, xsimd::select(is_kept, load(x + j), padding));
  }
}

template <>
struct Kernel<SequencePad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  std::int64_t padded_length, Side side, T pad_value, T* dense, std::int64_t* lengths) {
    if (lengths) {
      const std::int64_t length_bytes = 2 * sequences.size * static_cast<std::int64_t>(sizeof(std::int64_t));
      cpu::parallel_ranges(executor, sequences.size, length_bytes, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) lengths[i] = std::min(sequences.length(i), padded_length);
      });
    }
    if (sequences.size == 0 || padded_length == 0 || row_size == 0) return;
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    const std::int64_t bytes = (sequences.rows() + sequences.size * padded_length) * row_bytes;
    const cpu::LargeOutput output(sequences.size * padded_length * row_bytes);
    const std::int64_t numbers = padded_length * row_size, all = sequences.rows() * row_size;
    // The whole vectors of a block, including what they write past its end.
    const std::int64_t reach = (numbers + cpu::lanes<T> - 1) / cpu::lanes<T> * cpu::lanes<T>;

    // Rows [low, high) of the padded sequence i; `room` of them, counted from the first, may be written.
    const auto pad = [=](std::int64_t i, std::int64_t low, std::int64_t high, std::int64_t room) {
      const cpu::PaddedRows rows(sequences.length(i), padded_length, side);
      const std::int64_t from = std::clamp(rows.first, low, high), to = std::clamp(rows.first + rows.kept, low, high);
      T* const out = dense + i * numbers;
      const std::int64_t source = sequences.begin(i) + rows.cut_off + from - rows.first;
      output.fill(out + low * row_size, (from - low) * row_size, pad_value, (room - low) * row_size);
      output.copy(x + source * row_size, (to - from) * row_size, out + from * row_size,
                  std::min(room - from, sequences.rows() - source) * row_size);
      output.fill(out + to * row_size, (high - to) * row_size, pad_value, (room - to) * row_size);
    };
    // Writes the whole block of sequence i to y, where `reach` numbers may be written.
    const auto pad_short = [=](std::int64_t i, auto* y) {
      const cpu::PaddedRows rows(sequences.length(i), padded_length, side);
      // The index in x of the number at the block's first position, whether it is kept or not.
      const std::int64_t first = (sequences.begin(i) + rows.cut_off - rows.first) * row_size;
      const std::int64_t from = rows.first * row_size, to = from + rows.kept * row_size;
      if (first >= 0 && first + reach <= all) {
        cpu::pad_short_block(x + first, from, to, numbers, pad_value, y);
      } else {
        std::fill_n(y, numbers, pad_value);
        if (to > from) cpu::copy(x + (first + from), to - from, y + from);
      }
    };

    cpu::parallel_ranges(executor, sequences.size * padded_length, bytes, [&](std::int64_t begin, std::int64_t end) {
      std::int64_t i = begin / std::max<std::int64_t>(padded_length, 1);
      if constexpr (std::same_as<T, Accumulator<T>>) {
        if (numbers > 0 && numbers <= cpu::short_block) {
          if (begin > i * padded_length) {
            pad(i, begin - i * padded_length, std::min(end - i * padded_length, padded_length),
                end - i * padded_length);
            ++i;
          }
          if (output.past_caches()) {
            cpu::LineWriter<T> writer(output, dense + i * numbers);
            for (; (i + 1) * padded_length <= end; ++i) {
              pad_short(i, writer.place());
              writer.advance(numbers);
            }
          } else {
            for (; (i * numbers) + reach <= end * row_size; ++i) pad_short(i, dense + i * numbers);
          }
        }
      }
      for (; i * padded_length < end; ++i) {
        const std::int64_t room = end - i * padded_length;
        pad(i, std::max<std::int64_t>(begin - i * padded_length, 0), std::min(room, padded_length), room);
      }
    });
  }
};

template <>
struct Kernel<SequenceUnpad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dense, std::int64_t padded_length, Side side,
                  const Segments& sequences, std::int64_t row_size, T* x) {
    if (sequences.rows() == 0 || row_size == 0) return;
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    const std::int64_t numbers = padded_length * row_size, all = sequences.size * numbers;
    const cpu::LargeOutput output(sequences.rows() * row_bytes);
    if constexpr (std::is_arithmetic_v<T> || lod::detail::Half<T>) {
      if (numbers <= cpu::short_block && sequences.max_rows <= padded_length) {
        cpu::parallel_sequences(executor, sequences, 2 * row_bytes, [&](std::int64_t begin, std::int64_t end) {
          unpad_short(output, dense, numbers, all, side, sequences, begin, end, row_size, x);
        });
        return;
      }
    }
    cpu::parallel_rows(executor, sequences, 2 * row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t room) {
                         const cpu::PaddedRows rows(sequences.length(i), padded_length, side);
                         const std::int64_t from = std::clamp(rows.cut_off, begin, end);
                         const std::int64_t to = std::clamp(rows.cut_off + rows.kept, begin, end);
                         const std::int64_t source = i * padded_length + rows.first + from - rows.cut_off;
                         T* const out = x + sequences.begin(i) * row_size;
                         const std::int64_t last = begin + room;
                         output.fill(out + begin * row_size, (from - begin) * row_size, T{}, room * row_size);
                         output.copy(dense + source * row_size, (to - from) * row_size, out + from * row_size);
                         output.fill(out + to * row_size, (end - to) * row_size, T{}, (last - to) * row_size);
                       });
  }

 private:
  /// Copies sequences [begin, end), each of which is a part of a short block of so many numbers. Where there is room
  /// the whole block is copied, so that no branch depends on its length; the excess is overwritten later.
  template <class T>
  static void unpad_short(const cpu::LargeOutput& output, const T* dense, std::int64_t numbers, std::int64_t all,
                          Side side, const Segments& sequences, std::int64_t begin, std::int64_t end,
                          std::int64_t row_size, T* x) {
    constexpr std::int64_t step = 32 / static_cast<std::int64_t>(sizeof(T));
    const std::int64_t reach = (numbers + step - 1) / step * step;
    const auto source = [=](std::int64_t i) {
      return i * numbers + (side == Side::LEFT ? numbers - sequences.length(i) * row_size : 0);
    };
    const auto copy_block = [=](std::int64_t i, T* to) {
      const T* const from = dense + source(i);
      for (std::int64_t j = 0; j < numbers; j += step) {
        std::memcpy(static_cast<void*>(to + j), from + j, 32);
        cpu::keep_order();  // otherwise the compiler calls memcpy once, which branches on the length
      }
    };
    // The last blocks, after which there is not enough room for reading or writing whole blocks.
    const auto copy_rest = [=](std::int64_t i) {
      for (; i < end; ++i) {
        cpu::copy(dense + source(i), sequences.length(i) * row_size, x + sequences.begin(i) * row_size);
      }
    };
    std::int64_t i = begin;
    if (output.past_caches()) {
      cpu::LineWriter<T> writer(output, x + sequences.begin(begin) * row_size);
      for (; i < end && source(i) + reach <= all; ++i) {
        copy_block(i, writer.place());
        writer.advance(sequences.length(i) * row_size);
      }
    } else {
      const std::int64_t last = sequences.begin(end) * row_size;
      for (; i < end && source(i) + reach <= all && sequences.begin(i) * row_size + reach <= last; ++i) {
        copy_block(i, x + sequences.begin(i) * row_size);
      }
    }
    copy_rest(i);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

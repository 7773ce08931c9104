// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reversal of rows on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/line_writer.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_words.hpp>
#include <lod/kernels/cpu/run_copy.hpp>
#include <lod/kernels/cpu/shuffle.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_reverse.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Scalars are reversed in blocks of a vector, whatever their type, as bits.
template <class T>
inline constexpr bool reversed_by_blocks = fills_lines<T> && sizeof(T) <= 8;
template <class T>
inline constexpr std::int64_t reversed_block = static_cast<std::int64_t>(sizeof(Vector<float>) / sizeof(T));

/// y[i] = x[reversed_block - 1 - i].
template <class T>
[[gnu::always_inline]] inline void reverse_block(const T* x, T* y) noexcept {
  using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t,
                                                     std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint8_t>>>;
  typedef Bits Block __attribute__((vector_size(sizeof(Vector<float>))));
  Block block;
  std::memcpy(&block, x, sizeof block);
  shuffle(
      block, block, [](std::size_t i) { return static_cast<std::size_t>(reversed_block<T>) - 1 - i; }, block);
  std::memcpy(static_cast<void*>(y), &block, sizeof block);
}

/// y[i] = last[-i] for i in [0, count), where `last` points into an array that begins at x. Two blocks at a time, so
/// that no branch depends on the length of short sequences. `room` numbers may be written from y on; those after the
/// reversed ones are overwritten later.
template <class T>
inline void reverse_scalars(const T* x, const T* last, std::int64_t count, T* y, std::int64_t room) noexcept {
  constexpr std::int64_t block = reversed_block<T>, step = 2 * block;
  const std::int64_t readable = last - x + 1;
  std::int64_t i = 0;
  for (; i < count && i + step <= std::min(room, readable); i += step) {
    reverse_block(last - i - block + 1, y + i);
    reverse_block(last - i - step + 1, y + i + block);
  }
  for (; i < count; ++i) y[i] = last[-i];
}

template <>
struct Kernel<SequenceReverse> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size, T* y) {
    if (sequences.max_rows <= 1) return Kernel<CopyValues>::run(executor, x, sequences.rows() * row_size, y);
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    const std::int64_t moved_bytes = lod::detail::bytes_of<T>(2, row_size);
    const cpu::LargeOutput output(sequences.rows() * row_bytes);
    if constexpr (cpu::reversed_by_blocks<T>) {
      if (row_size == 1) return reverse_scalars(executor, x, sequences, output, y);
    }
#if LOD_MOVES_WORDS
    const std::int64_t row_words = row_bytes / 4;
    if (row_bytes % 4 == 0 && row_words > 0 && row_words <= cpu::ReversedRows::most) {
      const cpu::ReversedRows reverse(row_words);
      const auto* const from = reinterpret_cast<const float*>(x);
      auto* const to = reinterpret_cast<float*>(y);
      cpu::parallel_rows(executor, sequences, moved_bytes,
                         [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t room) {
                           const std::int64_t first = sequences.begin(i),
                                              last = first + sequences.length(i) - 1 - begin;
                           reverse(from, sequences.rows(), last, end - begin, to + (first + begin) * row_words, room);
                         });
      return;
    }
#endif
    cpu::parallel_rows(executor, sequences, moved_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
                         const T* last = x + (sequences.begin(i) + sequences.length(i) - 1) * row_size;
                         T* out = y + sequences.begin(i) * row_size;
                         // In the order of the source: the hardware reads ahead upwards, from one sequence to the next.
                         for (std::int64_t row = end - 1; row >= begin; --row) {
                           output.copy(last - row * row_size, row_size, out + row * row_size);
                         }
                       });
  }

 private:
  template <class T>
  static void reverse_scalars(const CpuExecutor& executor, const T* x, const Segments& sequences,
                              const cpu::LargeOutput& output, T* y) {
    using Position = cpu::MergePath::Position;
    constexpr auto bytes = 2 * static_cast<std::int64_t>(sizeof(T));
    const auto row_of = [&](const Position& position) { return sequences.begin(position.sequence) + position.row; };
    cpu::parallel_row_parts(executor, sequences, bytes, [&](const Position& from, const Position& to, int) {
      const auto last_of = [&](std::int64_t i) { return x + (sequences.begin(i) + sequences.length(i) - 1); };
      if (output.past_caches()) {
        cpu::LineWriter<T> writer(output, y + row_of(from));
        constexpr std::int64_t room = writer.room, most = room - 2 * cpu::reversed_block<T>;
        cpu::for_each_row_range(sequences, from, to, [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; row += most) {
            const std::int64_t count = std::min(end - row, most);
            cpu::reverse_scalars(x, last_of(i) - row, count, writer.place(), room);
            writer.advance(count);
          }
        });
        return;
      }
      const std::int64_t end_row = row_of(to);
      cpu::for_each_row_range(sequences, from, to, [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
        const std::int64_t at = sequences.begin(i) + begin;
        cpu::reverse_scalars(x, last_of(i) - begin, end - begin, y + at, end_row - at);
      });
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

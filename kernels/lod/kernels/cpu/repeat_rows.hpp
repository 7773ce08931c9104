// SPDX-License-Identifier: Apache-2.0
/// @file
/// Repeating one row for each row of its sequence: expansion, and the gradients of pooled sums, on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/line_writer.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/pooled_sums.hpp>
#include <lod/kernels/cpu/row_words.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/sequence_pool.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

#if LOD_MOVES_WORDS
/// For rows of a few words.
template <class T>
void repeat_words(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  PoolType type, T* y) {
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
  const RepeatedRow repeated(row_bytes / 4);
  const auto row_of = [=, &repeated](std::int64_t i) {
    const T* const from = x + i * row_size;
    if (type == PoolType::SUM) return repeated.read(from);
    if constexpr (std::same_as<T, Accumulator<T>> && std::floating_point<T>) {
      auto row = repeated.read(from);
      const Vector<T> divisor(pool_divisor<T>(type, sequences.length(i)));
      for (Words* part : {&row.low, &row.high}) {
        *part = __builtin_bit_cast(Words, __builtin_bit_cast(Vector<T>, *part) / divisor);
      }
      return row;
    } else {
      T divided[RepeatedRow::most * 4 / sizeof(T)];
      finish_sum(type, sequences.length(i), from, row_size, divided);
      return repeated.read(divided);
    }
  };
  parallel_rows(executor, sequences, row_bytes,
                [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t room) {
                  auto* const to = reinterpret_cast<float*>(y + (sequences.begin(i) + begin) * row_size);
                  const auto write = [to](std::int64_t at, std::int64_t first, std::int64_t last, const Words& some)
                      __attribute__((always_inline)) {
                    store_part(to + at, some, first, last);
                  };
                  repeated.for_each_vector(row_of(i), end - begin, room, to, write);
                });
}
#endif

/// For scalar rows, past the caches: the lines are assembled in a cache first.
template <class T>
void repeat_scalars(const CpuExecutor& executor, const T* x, const Segments& sequences, PoolType type,
                    const LargeOutput& output, T* y) {
  using Position = MergePath::Position;
  constexpr std::int64_t most = LineWriter<T>::room / 2;
  parallel_row_parts(executor, sequences, sizeof(T), [&](const Position& from, const Position& to, int) {
    LineWriter<T> writer(output, y + sequences.begin(from.sequence) + from.row);
    for_each_row_range(sequences, from, to, [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
      T value;
      finish_sum(type, sequences.length(i), x + i, 1, &value);
      for (std::int64_t row = begin; row < end; row += most) {
        const std::int64_t count = std::min(end - row, most);
        fill(writer.place(), count, value, writer.room);
        writer.advance(count);
      }
    });
  });
}

/// y[k] = x[i], divided as the type of pool says, for each row k of sequence i.
template <class T>
void repeat_rows(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                 PoolType type, T* y) {
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
  const LargeOutput output(sequences.rows() * row_bytes);
  if constexpr (fills_lines<T>) {
    if (row_size == 1 && output.past_caches()) return repeat_scalars(executor, x, sequences, type, output, y);
  }
#if LOD_MOVES_WORDS
  // Rows that nearly fill a vector take one store each.
  const std::int64_t row_words = row_bytes / 4;
  const bool fill_vectors = row_words <= word_lanes && 4 * row_words > 3 * word_lanes;
  if (row_size > 1 && row_bytes % 4 == 0 && row_words <= RepeatedRow::most && !fill_vectors) {
    return repeat_words(executor, x, sequences, row_size, type, y);
  }
#endif
  parallel_rows(executor, sequences, row_bytes,
                [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t room) {
                  const T* from = x + i * row_size;
                  T* to = y + (sequences.begin(i) + begin) * row_size;
                  if (type != PoolType::SUM) {  // one row is computed; the others are copies of it
                    finish_sum(type, sequences.length(i), from, row_size, to);
                    from = to;
                    to += row_size;
                    ++begin;
                    --room;
                  }
                  output.repeat_row(from, row_size, end - begin, to, room);
                });
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

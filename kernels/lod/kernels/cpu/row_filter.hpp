// SPDX-License-Identifier: Apache-2.0
/// @file
/// Removing rows from their sequences, on the CPU: by words of 64 rows, regardless of the sequences.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/line_writer.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_mask.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/ops/sequence_erase.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The two steps of a kernel that keeps some rows of one id each. `left(row, count)`, or `left(row, count, starts)`,
/// returns the mask of the rows to keep among [row, row + count), at most 64; `starts` is the mask of those that begin
/// a sequence. Between the steps, `scratch` holds for each word of rows its mask and the number of rows kept before it
/// in its block, and for each block the number of rows kept before it: the second step needs no rule, and the new
/// offsets follow without reading the rows.
class RowFilter {
 public:
  static std::int64_t scratch(std::int64_t rows) noexcept { return 2 * words(rows) + blocks(rows) + 1; }

  /// Sets kept[i] to the number of rows kept before sequence i, for i in [0, sequences.size].
  template <class Left>
  static void count(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_bytes, const Left& left,
                    std::int64_t* scratch, std::int64_t* kept) {
    const std::int64_t rows = sequences.rows();
    std::int64_t* const before = scratch + 2 * words(rows);
    before[0] = 0;
    // First the number of rows that each block keeps.
    parallel_ranges(executor, blocks(rows), rows * row_bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        before[block + 1] = count_block(sequences, block, left, scratch);
      }
    });
    for (std::int64_t block = 0; block < blocks(rows); ++block) before[block + 1] += before[block];
    const auto offset_bytes = static_cast<std::int64_t>(2 * sizeof(std::int64_t));
    parallel_ranges(executor, sequences.size + 1, sequences.size * offset_bytes,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i)
                        kept[i] = rows_before(scratch, before, sequences.begin(i));
                    });
  }

  /// Copies the rows that are kept.
  template <class T>
  static void copy(const CpuExecutor& executor, const T* x, const Segments& sequences, const std::int64_t* scratch,
                   T* y) {
    const std::int64_t rows = sequences.rows();
    const std::int64_t* const before = scratch + 2 * words(rows);
    const std::int64_t result_bytes = before[blocks(rows)] * static_cast<std::int64_t>(sizeof(T));
    if (result_bytes == 0) return;
    const LargeOutput output(result_bytes);
    const std::int64_t bytes = rows * static_cast<std::int64_t>(sizeof(T)) + result_bytes;
    parallel_ranges(executor, blocks(rows), bytes, [&](std::int64_t begin, std::int64_t end) {
      static_assert(pack_room<T> <= LineWriter<T>::room);
      LineWriter<T> to(output, y + before[begin]);
      const std::int64_t last = std::min(end * block_words, words(rows));
      for (std::int64_t word = begin * block_words; word < last; ++word) {
        const auto mask = static_cast<std::uint64_t>(scratch[2 * word]);
        pack_rows(x + word * mask_rows, mask, to.place());
        to.advance(std::popcount(mask));
      }
    });
  }

  /// Calls body(row, count, mask, place) for the rows [row, row + count) of each word: `mask` says which of them are
  /// kept, `place` how many rows are kept before them.
  template <class Body>
  static void for_each_word(const CpuExecutor& executor, const Segments& sequences, const std::int64_t* scratch,
                            const Body& body) {
    const std::int64_t rows = sequences.rows();
    const std::int64_t* const before = scratch + 2 * words(rows);
    const std::int64_t bytes = rows * static_cast<std::int64_t>(sizeof(std::int64_t));
    parallel_ranges(executor, blocks(rows), bytes, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t last = std::min(end * block_words, words(rows));
      for (std::int64_t word = begin * block_words; word < last; ++word) {
        body(word * mask_rows, std::min(rows - word * mask_rows, mask_rows),
             static_cast<std::uint64_t>(scratch[2 * word]), before[word / block_words] + scratch[2 * word + 1]);
      }
    });
  }

 private:
  static constexpr std::int64_t block_words = 64;
  /// One more than rows fill: every row position, the end included, is in a word.
  static std::int64_t words(std::int64_t rows) noexcept { return rows / mask_rows + 1; }
  static std::int64_t blocks(std::int64_t rows) noexcept { return (words(rows) + block_words - 1) / block_words; }

  /// Fills in the words of a block. Returns how many of its rows are kept.
  template <class Left>
  static std::int64_t count_block(const Segments& sequences, std::int64_t block, const Left& left,
                                  std::int64_t* scratch) {
    constexpr bool asks_for_starts = std::invocable<const Left&, std::int64_t, std::int64_t, std::uint64_t>;
    const std::int64_t rows = sequences.rows(), last = std::min((block + 1) * block_words, words(rows));
    std::int64_t next = 0;  // the first sequence that begins at the word or after it
    if constexpr (asks_for_starts) next = first_from(sequences, block * block_words * mask_rows);
    std::int64_t kept = 0;
    for (std::int64_t word = block * block_words; word < last; ++word) {
      const std::int64_t row = word * mask_rows, size = std::min(rows - row, mask_rows);
      std::uint64_t mask = 0;
      if constexpr (asks_for_starts) {
        std::uint64_t starts = 0;
        for (; next < sequences.size && sequences.begin(next) < row + size; ++next) {
          starts |= std::uint64_t{1} << (sequences.begin(next) - row);
        }
        if (size > 0) mask = left(row, size, starts);
      } else {
        if (size > 0) mask = left(row, size);
      }
      scratch[2 * word] = static_cast<std::int64_t>(mask);
      scratch[2 * word + 1] = kept;
      kept += std::popcount(mask);
    }
    return kept;
  }

  /// The first sequence that begins with this row or a later one.
  static std::int64_t first_from(const Segments& sequences, std::int64_t row) noexcept {
    const std::int64_t* const begins = sequences.offsets;
    return std::lower_bound(begins, begins + sequences.size, sequences.first + row) - begins;
  }

  static std::int64_t rows_before(const std::int64_t* scratch, const std::int64_t* before, std::int64_t row) noexcept {
    constexpr auto size = static_cast<std::uint64_t>(mask_rows);  // unsigned, so that the division is a shift
    const std::uint64_t place = static_cast<std::uint64_t>(row), word = place / size;
    const std::uint64_t mask = static_cast<std::uint64_t>(scratch[2 * word]) & first_rows(place % size);
    return before[word / std::uint64_t{block_words}] + scratch[2 * word + 1] + std::popcount(mask);
  }
};

template <>
struct Kernel<CopyKept> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, const std::int64_t* scratch,
                  T* y) {
    RowFilter::copy(executor, x, sequences, scratch, y);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {
inline std::int64_t launch(FilterScratch, const CpuExecutor&, std::int64_t rows) noexcept {
  return cpu::RowFilter::scratch(rows);
}
}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

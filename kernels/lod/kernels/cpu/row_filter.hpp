// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows taken out of their sequences, on the CPU: counted and copied by blocks, whatever the sequences.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/rows.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel::cpu {

/// The two steps of a kernel that keeps some rows, which are one number each. `is_left(row, first)` says of row `row`
/// whether it is left, `first` being the first row of its sequence. Between the steps, `scratch` has for each block of
/// rows, and the end, the number of rows before it that are left.
class RowFilter {
 public:
  static std::int64_t scratch(std::int64_t rows) noexcept { return blocks(rows) + 1; }

  /// kept[i] becomes the number of rows before sequence i that are left, for i in [0, sequences.size].
  template <class IsLeft>
  static void count(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_bytes,
                    const IsLeft& is_left, std::int64_t* scratch, std::int64_t* kept) {
    const std::int64_t rows = sequences.rows();
    scratch[0] = 0;
    // At first, rows that are left from the start of the block on.
    parallel_for(executor, blocks(rows), rows * row_bytes, [&](std::int64_t block) {
      const std::int64_t begin = block * block_rows, end = std::min(begin + block_rows, rows);
      std::int64_t left = 0;
      for (std::int64_t i = sequence_of(sequences, begin), row = begin; row < end; ++i) {
        const std::int64_t first = sequences.begin(i), next = sequences.begin(i + 1);
        for (const std::int64_t stop = std::min(next, end); row < stop; ++row) left += is_left(row, first);
        if (next <= end) kept[i + 1] = left;
      }
      scratch[block + 1] = left;
    });
    for (std::int64_t block = 0; block < blocks(rows); ++block) scratch[block + 1] += scratch[block];
    std::int64_t before = 0;
    for (std::int64_t i = 0; i <= sequences.size; ++i) {
      // An empty sequence ends where the one before it does.
      const bool has_rows = i > 0 && sequences.length(i - 1) > 0;
      if (has_rows) before = kept[i] + scratch[(sequences.begin(i) - 1) / block_rows];
      kept[i] = before;
    }
  }

  /// The rows that are left.
  template <class T, class IsLeft>
  static void copy(const CpuExecutor& executor, const T* x, const Segments& sequences, const IsLeft& is_left,
                   const std::int64_t* scratch, T* y) {
    const std::int64_t rows = sequences.rows();
    parallel_for(executor, blocks(rows), 2 * rows * static_cast<std::int64_t>(sizeof(T)), [&](std::int64_t block) {
      std::int64_t to = scratch[block];
      const std::int64_t last = scratch[block + 1];
      for (std::int64_t i = sequence_of(sequences, block * block_rows), row = block * block_rows; to < last; ++i) {
        const std::int64_t first = sequences.begin(i), next = sequences.begin(i + 1);
        for (; row < next && to < last; ++row) {
          y[to] = x[row];  // overwritten by the next one where it is not left
          to += is_left(row, first);
        }
      }
    });
  }

 private:
  static constexpr std::int64_t block_rows = 4096;
  static std::int64_t blocks(std::int64_t rows) noexcept { return (rows + block_rows - 1) / block_rows; }
};

}  // namespace kernel::cpu
}  // namespace lod::inline LOD_TARGET

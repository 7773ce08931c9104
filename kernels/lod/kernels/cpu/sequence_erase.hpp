// SPDX-License-Identifier: Apache-2.0
/// @file
/// Erasing ids on the CPU: by blocks of rows, whatever the sequences.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/ops/sequence_erase.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct SequenceErase<CpuExecutor> {
  /// For each block of rows, and the end, the number of rows before it that are left.
  static std::int64_t scratch(std::int64_t rows) noexcept { return blocks(rows) + 1; }

  template <class T>
  static void count(const CpuExecutor& executor, const T* x, const Segments& sequences, std::span<const T> tokens,
                    std::int64_t* scratch, std::int64_t* kept) {
    const std::int64_t rows = sequences.rows();
    scratch[0] = 0;
    // At first, rows that are left from the start of the block on.
    cpu::parallel_for(executor, blocks(rows), rows * static_cast<std::int64_t>(sizeof(T)), [&](std::int64_t block) {
      const std::int64_t begin = block * block_rows, end = std::min(begin + block_rows, rows);
      std::int64_t i = cpu::sequence_of(sequences, begin);
      std::int64_t left = 0;
      for (std::int64_t row = begin; row < end;) {
        const std::int64_t stop = i < sequences.size ? std::min(sequences.begin(i + 1), end) : end;
        left += count_left(x + row, stop - row, tokens);
        row = stop;
        for (; i < sequences.size && sequences.begin(i + 1) == stop; ++i) kept[i + 1] = left;
      }
      scratch[block + 1] = left;
    });
    for (std::int64_t block = 0; block < blocks(rows); ++block) scratch[block + 1] += scratch[block];
    // Those that end before the first row have no block.
    for (std::int64_t i = 0; i <= sequences.size; ++i) {
      const std::int64_t row = sequences.begin(i);
      kept[i] = row == 0 ? 0 : kept[i] + scratch[(row - 1) / block_rows];
    }
  }

  template <class T>
  static void run(const CpuExecutor& executor, const T* x, std::int64_t rows, std::span<const T> tokens,
                  const std::int64_t* scratch, T* y) {
    cpu::parallel_for(executor, blocks(rows), 2 * rows * static_cast<std::int64_t>(sizeof(T)), [&](std::int64_t block) {
      std::int64_t to = scratch[block];
      const std::int64_t last = scratch[block + 1];
      for (std::int64_t row = block * block_rows; to < last; ++row) {
        y[to] = x[row];  // overwritten by the next one where it is not left
        to += is_left(x[row], tokens);
      }
    });
  }

 private:
  static constexpr std::int64_t block_rows = 4096;
  static std::int64_t blocks(std::int64_t rows) noexcept { return (rows + block_rows - 1) / block_rows; }

  /// Few tokens are quicker compared with one by one.
  static constexpr std::size_t few = 16;

  template <class T>
  static bool is_left(T id, std::span<const T> tokens) noexcept {
    if (tokens.size() > few) return !std::binary_search(tokens.begin(), tokens.end(), id);
    bool found = false;
    for (const T token : tokens) found |= id == token;
    return !found;
  }
  template <class T>
  static std::int64_t count_left(const T* x, std::int64_t count, std::span<const T> tokens) noexcept {
    std::int64_t left = 0;
    for (std::int64_t i = 0; i < count; ++i) left += is_left(x[i], tokens);
    return left;
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

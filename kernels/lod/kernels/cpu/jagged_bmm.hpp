// SPDX-License-Identifier: Apache-2.0
/// @file
/// Products of a matrix for each sequence on the CPU. Most sequences are short: threads share the batch, each
/// multiplies rows of one sequence after the other by itself, and only long sequences are divided. The order of
/// additions is that of all products, so it does not matter how.
#pragma once

#include <lod/core/sizes.hpp>
#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/matrix_product.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/ops/jagged_bmm.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// A matrix whose lines are listed rows.
template <class T>
struct ListedLines {
  const T* first;
  std::int64_t stride;
  const std::int64_t* rows;
  void read(std::int64_t line, std::int64_t begin, std::int64_t count, Accumulator<T>* to) const noexcept {
    widen(first + rows[line] * stride + begin, count, to);
  }
};

/// Prefetches a part of a matrix into the second-level cache, some cache lines at a time: while a sequence is
/// multiplied, the matrix of the next one comes from memory. Called some 200 times in a sequence of 26 rows.
template <class T>
class Ahead {
 public:
  /// `lines` lines of `count` numbers, `stride` apart. Without any, nothing is prefetched.
  Ahead(const T* first, std::int64_t stride, std::int64_t count, std::int64_t lines) noexcept
      : line_(first), stride_(stride), count_(count), lines_(count > 0 ? lines : 0) {}
  void operator()() const noexcept {
    for (int i = 0; i < cache_lines && lines_ > 0; ++i) {
      __builtin_prefetch(line_ + number_, 0, 2);
      number_ += static_cast<std::int64_t>(64 / sizeof(T));
      if (number_ < count_) continue;
      number_ = 0;
      line_ += stride_;
      --lines_;
    }
  }

 private:
  static constexpr int cache_lines = 16;

  mutable const T* line_;
  std::int64_t stride_;
  std::int64_t count_;
  mutable std::int64_t lines_;
  mutable std::int64_t number_ = 0;
};

/// What a row weighs when work is shared: as many bytes as take the time of its row_size * terms products, and its
/// sequence's part of `matrix_bytes`, which are read or written once for each sequence.
inline std::int64_t product_row_bytes(const Segments& sequences, std::int64_t row_size, std::int64_t terms,
                                      std::int64_t matrix_bytes) noexcept {
  const std::int64_t products = lod::detail::saturated_product(row_size, std::max<std::int64_t>(terms / 8, 1));
  if (sequences.rows() == 0) return products;
  const std::int64_t matrices = std::min(sequences.size, sequences.rows());
  return std::max(products, lod::detail::saturated_product(matrices, matrix_bytes) / sequences.rows());
}

template <>
struct Kernel<JaggedDenseProduct> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t terms,
                  const T* matrices, const std::int64_t* matrix_of, bool transposed, std::int64_t columns, T* y) {
    // There may be any number of rows without elements.
    if (sequences.rows() == 0 || columns == 0) return;
    using A = Accumulator<T>;
    using Lines = StridedLines<T>;
    const std::int64_t stride = transposed ? terms : columns;
    const auto product = [&](std::int64_t matrix, std::int64_t first, std::int64_t rows) {
      return Product<A, Lines, Lines>(executor, rows, columns, terms, Operand{Lines{x + first * terms, terms}, true},
                                      Operand{Lines{matrices + matrix * terms * columns, stride}, transposed});
    };
    const auto any = product(0, 0, sequences.rows());
    const std::int64_t column_tiles = any.column_tiles();
    const ThreadScratch<A> memory(executor, any.thread_size());
    const MergePath path(sequences,
                         product_row_bytes(sequences, columns, terms, lod::detail::bytes_of<T>(terms, columns)));
    const std::int64_t parts = (pieces(executor, path.weight()) + column_tiles - 1) / column_tiles;
    // A cut inside a sequence moves to the start of a tile, so that the others stay whole.
    const auto cut = [&](std::int64_t part) {
      MergePath::Position position = path.cut(part, parts);
      position.row -= position.row % any.tile_rows;
      return position;
    };
    parallel_for(executor, parts * column_tiles, path.weight(), [&](std::int64_t task, int thread) {
      const std::int64_t part = task % parts, column_tile = task / parts;
      // Rows that follow each other and have the same matrix are multiplied together. A number of -1 is none.
      std::int64_t matrix = -1, first = 0, rows = 0;
      const auto multiply_rows = [&](std::int64_t next) {
        if (rows == 0) return;
        const auto own = product(matrix, first, rows);
        const auto [from, count, lines] = own.right_part(column_tile);
        const Ahead<T> ahead(matrices + next * terms * columns + from, stride, count, next != matrix ? lines : 0);
        own.run_alone(memory(thread), column_tile, 0, rows, y + first * columns, columns, ahead);
      };
      for_each_row_range(sequences, cut(part), cut(part + 1),
                         [&](std::int64_t i, std::int64_t begin, std::int64_t end) {
                           const std::int64_t own = matrix_of ? matrix_of[i] : i;
                           if (own != matrix) {
                             multiply_rows(own);
                             matrix = own;
                             first = sequences.begin(i) + begin;
                             rows = 0;
                           }
                           rows += end - begin;
                         });
      multiply_rows(matrix);  // none comes next
    });
  }
};

template <>
struct Kernel<JaggedJaggedProduct> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const T* y, const Segments& sequences,
                  const std::int64_t* rows, std::int64_t height, std::int64_t width, T* z) {
    if (height == 0 || width == 0) return;
    if (rows) {
      multiply_all(
          executor,
          [=](std::int64_t row) {
            return ListedLines<T>{x, height, rows + row};
          },
          [=](std::int64_t row) {
            return ListedLines<T>{y, width, rows + row};
          },
          sequences, height, width, z);
    } else {
      multiply_all(
          executor,
          [=](std::int64_t row) {
            return StridedLines<T>{x + row * height, height};
          },
          [=](std::int64_t row) {
            return StridedLines<T>{y + row * width, width};
          },
          sequences, height, width, z);
    }
  }

 private:
  /// left(row) and right(row) are the lines from a row of the batch on.
  template <class Left, class Right, class T>
  static void multiply_all(const CpuExecutor& executor, const Left& left, const Right& right, const Segments& sequences,
                           std::int64_t height, std::int64_t width, T* z) {
    using A = Accumulator<T>;
    using OfSequence = Product<A, decltype(left(0)), decltype(right(0))>;
    const std::int64_t numbers = height * width;
    const auto product = [&](std::int64_t row, std::int64_t terms) {
      return OfSequence(executor, height, width, terms, Operand{left(row), false}, Operand{right(row), false});
    };
    const std::int64_t row_bytes = product_row_bytes(sequences, width, height, lod::detail::bytes_of<T>(height, width));
    // A thread's share may be less than a leaf, but leaves are never divided.
    const std::int64_t most = longest_alone(executor, sequences, row_bytes, OfSequence::leaf_terms);
    LongSequences long_ones(executor, sequences, most);
    const OfSequence longest = product(0, sequences.max_rows);
    const ThreadScratch<A> memory(executor, longest.thread_size(true));
    std::optional<typename OfSequence::Memory> of_long;
    if (long_ones.longest() > 0) of_long.emplace(longest, true);
    parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t terms = sequences.length(i);
        T* const to = z + i * numbers;
        if (terms == 0) {
          std::fill_n(to, numbers, T{});
        } else if (!long_ones.note(i, terms)) {
          const OfSequence own = product(sequences.begin(i), terms);
          for (std::int64_t tile = 0; tile < own.column_tiles(); ++tile) {
            own.run_alone(memory(thread), tile, 0, height, to, width);
          }
        }
      }
    });
    long_ones.for_each([&](std::int64_t i) {
      product(sequences.begin(i), sequences.length(i)).run(*of_long, A{1}, A{}, z + i * numbers, width);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Products of dense matrices on the CPU: cut into tiles that stay in the caches, each computed from small blocks that
/// stay in registers.
///
/// The additions that make up one number of the result have the same order wherever the number is: `leaf_terms`
/// products are added one after the other, by fused multiply-add where there is one, and the sums of such leaves are
/// added with compensation. So tiles may have any size, threads may share tiles or leaves, and the bits stay the same.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/product_block.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/matrix_product.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// In place of other work to do between parts of a product.
struct NothingElse {
  void operator()() const noexcept {}
};

/// The product of two operands, m x k and k x n, computed in numbers of type A.
template <class A, class Left, class Right>
class Product {
 public:
  /// The products that are added up one after the other.
  static constexpr std::int64_t leaf_terms = 256;
  /// Rows of a tile: parts of a product that are computed alone begin at multiples of it.
  static constexpr std::int64_t tile_rows = 96;

 private:
  /// Rows and columns of sums that are kept in registers: they take three quarters of them.
  static constexpr std::int64_t register_rows = sizeof(Vector<A>) == 64 ? 12 : 6;
  static constexpr std::int64_t register_columns = 2 * lanes<A>;
  static constexpr std::int64_t few_rows = register_rows / 3;

  /// Columns of a tile, which has tile_rows rows. The tile's part of the left operand and one leaf of the right one
  /// stay in the second-level cache.
  static constexpr std::int64_t tile_columns = 256;
  static_assert(tile_rows % register_rows == 0 && tile_columns % register_columns == 0);
  /// The number of leaves of the right operand that a tile keeps for the next rows.
  static constexpr std::int64_t kept_leaves = 4;
  /// The distance between two rows of a block of the left operand, or between two terms: not a power of two, so that
  /// they do not map to the same cache set.
  static constexpr std::int64_t left_row_stride = leaf_terms + 16;
  static constexpr std::int64_t left_term_stride = tile_rows + 16;

 public:
  Product(const CpuExecutor& executor, std::int64_t m, std::int64_t n, std::int64_t k, const Operand<Left>& left,
          const Operand<Right>& right)
      : executor_(executor), m_(m), n_(n), k_(k), left_(left), right_(right) {}

  /// The working memory of a product: taken before anything is written. With `any_fewer` it also does for products that
  /// have fewer terms.
  class Memory {
   public:
    explicit Memory(const Product& product, bool any_fewer = false)
        : threads_(product.executor_, product.thread_size(any_fewer)),
          state_(product.executor_.workspace(), product.shared_size(2)),
          partial_(product.executor_.workspace(), product.shared_size(product.leaves_at_a_time())) {}

   private:
    friend Product;
    ThreadScratch<A> threads_;
    Workspace::Loan<A> state_, partial_;
  };

  /// c = alpha * product + beta * c.
  template <class T>
  void run(A alpha, A beta, T* c, std::int64_t ldc) const {
    run(Memory(*this), alpha, beta, c, ldc);
  }
  template <class T>
  void run(const Memory& memory, A alpha, A beta, T* c, std::int64_t ldc) const {
    const Result<T> write{c, ldc, alpha, beta};
    if (shares_leaves()) {
      share_leaves(memory, write);
    } else {
      share_tiles(memory, write);
    }
  }

  std::int64_t column_tiles() const noexcept { return (n_ + tile_columns - 1) / tile_columns; }
  /// The size of the working memory of a thread. With `any_fewer` it also does for products that have fewer terms.
  std::int64_t thread_size(bool any_fewer = false) const noexcept {
    // The more leaves are kept, the more memory; but beyond some, only one is.
    const std::int64_t kept = keeps_right() ? leaves() : any_fewer ? kept_leaves : 1;
    return 2 * state_size() + scratch_size(kept);
  }
  /// The part of the right operand that a column tile needs: `lines` lines of `count` numbers from `first` on.
  struct Part {
    std::int64_t first;
    std::int64_t count;
    std::int64_t lines;
  };
  Part right_part(std::int64_t column_tile) const noexcept {
    const std::int64_t first = column_tile * tile_columns, width = columns(column_tile);
    return right_.along_terms ? Part{first * right_.lines.stride, k_, width} : Part{first, width, k_};
  }
  /// Writes rows [begin, end) of a column tile of the product, on the calling thread. Calls between() now and then.
  template <class T, class Between = NothingElse>
  void run_alone(A* memory, std::int64_t column_tile, std::int64_t begin, std::int64_t end, T* c, std::int64_t ldc,
                 const Between& between = {}) const noexcept {
    compute(memory, column_tile, begin, end, Result<T>{c, ldc, A{1}, A{}}, between);
  }

 private:
  /// c = alpha * product + beta * c.
  template <class T>
  struct Result {
    T* c;
    std::int64_t ldc;
    A alpha, beta;

    void operator()(std::int64_t row, std::int64_t column, std::int64_t count, const A* sums) const {
      T* const to = c + row * ldc + column;
      if (beta == A{}) {
        convert(sums, count, to, [scale = alpha](const auto& sum) { return scale * sum; });
      } else if (alpha == A{1} && beta == A{1}) {
        convert(sums, to, count, to, [](const auto& sum, const auto& before) { return sum + before; });
      } else {
        for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(alpha * sums[i] + beta * static_cast<A>(to[i]));
      }
    }
    /// Where the sums of rows and columns from these on go, if they are the result as they are.
    SumsPlace<A> place([[maybe_unused]] std::int64_t row, [[maybe_unused]] std::int64_t column) const noexcept {
      if constexpr (std::same_as<A, T>) {
        if (alpha == A{1} && (beta == A{} || beta == A{1})) return {c + row * ldc + column, ldc, beta == A{1}};
      }
      return {};
    }
  };

  std::int64_t leaves() const noexcept { return std::max<std::int64_t>((k_ + leaf_terms - 1) / leaf_terms, 1); }
  std::int64_t terms(std::int64_t leaf) const noexcept { return std::min(leaf_terms, k_ - leaf * leaf_terms); }
  std::int64_t columns(std::int64_t tile) const noexcept { return std::min(tile_columns, n_ - tile * tile_columns); }
  /// The size of the work in bytes: the memory of the right operand, or an equivalent, since waking another thread pays
  /// from a few hundred thousand products on.
  std::int64_t bytes() const noexcept {
    return std::max(m_ * n_ * std::max<std::int64_t>(k_ / 8, 1), n_ * k_ * static_cast<std::int64_t>(sizeof(A)));
  }

  /// The working memory of a thread.
  struct Scratch {
    A* left;   ///< tile_rows rows of a leaf, row by row or term by term, as they are read
    A* right;  ///< leaves of a column tile: panels of register_columns columns, term by term
    A* line;   ///< one line of the right operand
    A* tile;   ///< the sums that leave the registers
  };
  static constexpr std::int64_t left_size = std::max(tile_rows * left_row_stride, leaf_terms* left_term_stride);
  static constexpr std::int64_t line_size = std::max(leaf_terms, tile_columns);
  static constexpr std::int64_t register_size = register_rows * register_columns;
  std::int64_t right_leaf_size() const noexcept {
    const std::int64_t panels = (std::min(n_, tile_columns) + register_columns - 1) / register_columns;
    return panels * register_columns * std::min(k_, leaf_terms);
  }
  std::int64_t scratch_size(std::int64_t leaves_of_right) const noexcept {
    return left_size + line_size + register_size + right_leaf_size() * leaves_of_right;
  }
  bool keeps_right() const noexcept { return leaves() <= kept_leaves; }
  /// The size of the sums of a tile, which are kept from one leaf to the next, and as many rounding errors.
  std::int64_t state_size() const noexcept { return leaves() > 1 ? tile_rows * std::min(n_, tile_columns) : 0; }
  /// Few tiles of many terms are shared by their leaves. Products that differ in their terms only, and have several
  /// leaves, are shared alike.
  bool shares_leaves() const noexcept {
    return leaves() > 1 && (m_ + tile_rows - 1) / tile_rows * column_tiles() < max_threads(executor_);
  }
  std::int64_t leaves_at_a_time() const noexcept {
    return std::min<std::int64_t>(leaves(), 8 * max_threads(executor_));
  }
  /// The size of so many results, where leaves are shared.
  std::int64_t shared_size(std::int64_t results) const noexcept { return shares_leaves() ? results * m_ * n_ : 0; }
  Scratch scratch(A* memory) const noexcept {
    return {memory, memory + left_size + line_size + register_size, memory + left_size, memory + left_size + line_size};
  }

  /// The number of rows that are read from a block of the left operand that has `rows`: see multiply_rows.
  static constexpr std::int64_t padded(std::int64_t rows) noexcept {
    const std::int64_t few = rows % register_rows;
    return rows - few + (few <= 1 ? few : (few + few_rows - 1) / few_rows * few_rows);
  }
  /// The bytes from one row to the next up to which those of a block do not displace each other from the first-level
  /// cache, even if they are a power of two.
  static constexpr std::int64_t close_rows = 1024;
  /// Packs rows of the left operand, with zeros for additional rows that are read; or leaves them in place, if they are
  /// close to each other, and no additional ones are read.
  Block<A> pack_left(std::int64_t first_row, std::int64_t rows, std::int64_t leaf, A* to) const noexcept {
    const std::int64_t first = leaf * leaf_terms, count = terms(leaf);
    if constexpr (std::same_as<Left, StridedLines<A>>) {
      const auto& [numbers, stride] = left_.lines;
      if (left_.along_terms && padded(rows) == rows && count > 0 &&
          stride <= close_rows / static_cast<std::int64_t>(sizeof(A))) {
        return {numbers + first_row * stride + first, stride, 1};
      }
    }
    if (left_.along_terms) {
      for (std::int64_t row = 0; row < rows; ++row) {
        left_.lines.read(first_row + row, first, count, to + row * left_row_stride);
      }
      for (std::int64_t row = rows; row < padded(rows); ++row) fill(to + row * left_row_stride, count, A{});
      return {to, left_row_stride, 1};
    }
    for (std::int64_t term = 0; term < count; ++term) {
      left_.lines.read(first + term, first_row, rows, to + term * left_term_stride);
      fill(to + term * left_term_stride + rows, padded(rows) - rows, A{});
    }
    return {to, 1, left_term_stride};
  }

  static constexpr bool is_strided = std::same_as<Right, StridedLines<A>>;
  /// Packs the panels of a column tile, padded with zeros to whole ones, unless they are read in place.
  void pack_right(std::int64_t column_tile, std::int64_t leaf, A* to, A* line) const noexcept {
    const std::int64_t first = leaf * leaf_terms, count = terms(leaf), width = columns(column_tile);
    if (is_read_directly(register_columns) && width >= register_columns) return;
    const std::int64_t end = (width + register_columns - 1) / register_columns * register_columns;
    const std::int64_t first_column = column_tile * tile_columns;
    const auto panel = [&](std::int64_t column) { return to + column / register_columns * register_columns * count; };
    if (right_.along_terms) {
      for (std::int64_t column = 0; column < end; ++column) {
        if (column < width) {
          right_.lines.read(first_column + column, first, count, line);
        } else {
          fill(line, count, A{});
        }
        A* const numbers = panel(column) + column % register_columns;
        for (std::int64_t term = 0; term < count; ++term) numbers[term * register_columns] = line[term];
      }
    } else {
      fill(line + width, end - width, A{});
      for (std::int64_t term = 0; term < count; ++term) {
        std::int64_t column = 0;
        if constexpr (is_strided) {  // whole panels from where they are
          const A* const from = right_.lines.first + (first + term) * right_.lines.stride + first_column;
          for (; column + register_columns <= width; column += register_columns) {
            copy(from + column, register_columns, panel(column) + term * register_columns);
          }
        }
        if (column == width) continue;
        right_.lines.read(first + term, first_column + column, width - column, line + column);
        for (; column < end; column += register_columns) {
          copy(line + column, register_columns, panel(column) + term * register_columns);
        }
      }
    }
  }

  /// With few rows, a number of the right operand is used only a few times, and packing it would cost more than it
  /// gains. So a whole panel is read in place, if its layout there is the one needed.
  bool is_read_directly(std::int64_t panel_columns) const noexcept {
    return is_strided && !right_.along_terms && m_ <= tile_rows && panel_columns == register_columns;
  }
  Block<A> panel(std::int64_t column_tile, std::int64_t leaf, std::int64_t first, std::int64_t panel_columns,
                 const A* packed) const noexcept {
    if constexpr (is_strided) {
      // Without terms there may be no operand at all.
      if (is_read_directly(panel_columns) && terms(leaf) > 0) {
        const auto& [numbers, stride] = right_.lines;
        return {numbers + leaf * leaf_terms * stride + column_tile * tile_columns + first, 1, stride};
      }
    }
    return {packed + first * terms(leaf), 1, register_columns};
  }

  /// Writes the sums over one leaf of `rows` packed rows and a column tile to `place`. Where that is null, or there are
  /// not enough rows or columns for a whole block, calls consume(row, column, count, sums) instead, where row and
  /// column are counted from the start of the tile. Calls between() for each row of a panel.
  template <class Consume, class Between = NothingElse>
  void multiply(const Block<A>& left, std::int64_t rows, std::int64_t column_tile, std::int64_t leaf, const A* right,
                A* tile, const Consume& consume, const SumsPlace<A>& place = {},
                const Between& between = {}) const noexcept {
    const std::int64_t count = terms(leaf), width = columns(column_tile);
    std::int64_t first = 0;
    if (rows <= register_rows / 2 && is_read_directly(register_columns)) {
      constexpr std::int64_t wide = 2 * few_rows, half = register_rows / 2;
      const auto runs = [&]<std::int64_t most_rows, std::int64_t vectors>() {
        first = multiply_runs<most_rows, vectors>(first, left, rows, column_tile, leaf, tile, consume, place, between);
      };
      if (rows == 1) {
        if constexpr (16 * lanes<A> <= register_size) runs.template operator()<1, 16>();
        runs.template operator()<1, 8>();
      } else if (rows == 2) {
        runs.template operator()<2, wide>();
      } else if (rows == 3) {
        runs.template operator()<3, wide>();
      } else if (rows == 4) {
        runs.template operator()<std::min<std::int64_t>(half, 4), wide / 2>();
      } else {
        runs.template operator()<half, wide / 2>();
      }
    }
    for (; first < width; first += register_columns) {
      const std::int64_t some = std::min(register_columns, width - first);
      // A panel that is read in place is whole: the last one also has columns of the one before it.
      const std::int64_t again = first > 0 && is_read_directly(register_columns) ? register_columns - some : 0;
      const Block<A> b = panel(column_tile, leaf, first - again, some + again, right);
      const std::int64_t tile_stride = some + again > lanes<A> ? register_columns : lanes<A>;
      for (std::int64_t row = 0; row < rows; row += register_rows) {
        const Block<A> a{left.first + row * left.stride, left.stride, left.term_stride};
        const std::int64_t few = std::min(register_rows, rows - row);
        const bool is_whole = place.first && few == padded(few) && some == register_columns;
        const SumsPlace<A> to = is_whole ? place.at(row, first) : SumsPlace<A>{tile, tile_stride};
        if (some + again > lanes<A>) {
          multiply_rows<2>(few, a, b, count, to);
        } else {
          multiply_rows<1>(few, a, b, count, to);
        }
        for (std::int64_t r = 0; r < few; ++r) {
          between();
          if (!is_whole) consume(row + r, first, some, tile + r * tile_stride + again);
        }
      }
    }
  }
  template <std::int64_t vectors>
  static void multiply_rows(std::int64_t rows, const Block<A>& a, const Block<A>& b, std::int64_t count,
                            const SumsPlace<A>& to) noexcept {
    if (rows == 1) {
      multiply_registers<1, vectors>(a, b, count, to);
    } else if (rows <= few_rows) {
      multiply_registers<few_rows, vectors>(a, b, count, to);
    } else if (rows <= 2 * few_rows) {
      multiply_registers<2 * few_rows, vectors>(a, b, count, to);
    } else {
      multiply_registers<register_rows, vectors>(a, b, count, to);
    }
  }
  /// The same for up to `most_rows` rows and for columns that are read in place, from `first` on, `vectors` vectors
  /// side by side: the lines of such a run are read several times as fast as those of narrow panels, and with few rows
  /// there are registers for them. Returns the first column that is left.
  template <std::int64_t most_rows, std::int64_t vectors, class Consume, class Between>
  std::int64_t multiply_runs(std::int64_t first, const Block<A>& left, std::int64_t rows, std::int64_t column_tile,
                             std::int64_t leaf, A* tile, const Consume& consume, const SumsPlace<A>& place,
                             const Between& between) const noexcept {
    constexpr std::int64_t run = vectors * lanes<A>;
    static_assert(most_rows * run <= register_size);
    for (; first + run <= columns(column_tile); first += run) {
      const Block<A> b = panel(column_tile, leaf, first, register_columns, nullptr);
      const bool is_whole = place.first && rows == most_rows;
      const SumsPlace<A> to = is_whole ? place.at(0, first) : SumsPlace<A>{tile, run};
      multiply_registers<most_rows, vectors>(left, b, terms(leaf), to);
      for (std::int64_t r = 0; r < rows; ++r) {
        between();
        if (!is_whole) consume(r, first, run, tile + r * run);
      }
    }
    return first;
  }

  /// Adds the sums of a leaf to those of the leaves before it.
  static void add_leaf(bool first, const A* leaf, std::int64_t count, A* sums, A* errors) noexcept {
    if (first) {
      copy(leaf, count, sums);
      fill(errors, count, A{});
    } else {
      for (std::int64_t i = 0; i < count; ++i) add_compensated(sums[i], errors[i], leaf[i]);
    }
  }
  /// Writes the rows of `sums`, with the rounding errors added.
  template <class Write>
  static void finish(A* sums, const A* errors, std::int64_t row, std::int64_t column, std::int64_t count,
                     const Write& write) noexcept {
    for (std::int64_t i = 0; i < count; ++i) sums[i] += errors[i];
    write(row, column, count, sums);
  }

  /// Rows [begin, end) of a column tile.
  template <class Write, class Between = NothingElse>
  void compute(A* memory, std::int64_t column_tile, std::int64_t begin, std::int64_t end, const Write& write,
               const Between& between = {}) const {
    const bool several = leaves() > 1, kept = keeps_right();
    A* const sums = memory;
    A* const errors = sums + state_size();
    const Scratch here = scratch(errors + state_size());
    const std::int64_t first_column = column_tile * tile_columns, width = columns(column_tile);
    for (std::int64_t leaf = 0; kept && leaf < leaves(); ++leaf) {
      pack_right(column_tile, leaf, here.right + leaf * right_leaf_size(), here.line);
    }
    for (std::int64_t row = begin; row < end; row += tile_rows) {
      const std::int64_t rows = std::min(tile_rows, end - row);
      for (std::int64_t leaf = 0; leaf < leaves(); ++leaf) {
        A* const right = here.right + (kept ? leaf * right_leaf_size() : 0);
        if (!kept) pack_right(column_tile, leaf, right, here.line);
        const Block<A> left = pack_left(row, rows, leaf, here.left);
        multiply(
            left, rows, column_tile, leaf, right, here.tile,
            [&](std::int64_t r, std::int64_t column, std::int64_t count, const A* leaf_sums) {
              if (several) {
                const std::int64_t at = r * width + column;
                add_leaf(leaf == 0, leaf_sums, count, sums + at, errors + at);
              } else {
                write(row + r, first_column + column, count, leaf_sums);
              }
            },
            several ? SumsPlace<A>() : write.place(row, first_column), between);
      }
      for (std::int64_t r = 0; several && r < rows; ++r) {
        finish(sums + r * width, errors + r * width, row + r, first_column, width, write);
      }
    }
  }
  /// A task is a column tile of a range of rows.
  template <class Write>
  void share_tiles(const Memory& memory, const Write& write) const {
    // As many rows as still leave each thread several tasks: the more rows, the less often the right operand is packed.
    const std::int64_t row_tasks = 8 * max_threads(executor_) / column_tiles() + 1;
    const std::int64_t task_rows =
        std::clamp((m_ / row_tasks + tile_rows - 1) / tile_rows, std::int64_t{1}, std::int64_t{16}) * tile_rows;
    const std::int64_t row_parts = (m_ + task_rows - 1) / task_rows;
    parallel_for(executor_, row_parts * column_tiles(), bytes(), [&](std::int64_t task, int thread) {
      const std::int64_t begin = task % row_parts * task_rows, end = std::min(begin + task_rows, m_);
      compute(memory.threads_(thread), task / row_parts, begin, end, write);
    });
  }

  /// For few tiles and many terms: a task is one leaf of a tile, and the leaves are added in order afterwards.
  template <class Write>
  void share_leaves(const Memory& memory, const Write& write) const {
    const std::int64_t row_tiles = (m_ + tile_rows - 1) / tile_rows, tiles = row_tiles * column_tiles();
    const std::int64_t at_a_time = leaves_at_a_time();
    const Workspace::Loan<A>& partial = memory.partial_;
    A* const sums = memory.state_.data();
    A* const errors = sums + m_ * n_;
    for (std::int64_t first = 0; first < leaves(); first += at_a_time) {
      const std::int64_t some = std::min(at_a_time, leaves() - first);
      parallel_for(executor_, some * tiles, bytes(), [&](std::int64_t task, int thread) {
        const Scratch here = scratch(memory.threads_(thread));
        const std::int64_t leaf = first + task / tiles, tile = task % tiles;
        const std::int64_t column_tile = tile / row_tiles, row = tile % row_tiles * tile_rows;
        const std::int64_t rows = std::min(tile_rows, m_ - row);
        pack_right(column_tile, leaf, here.right, here.line);
        const Block<A> left = pack_left(row, rows, leaf, here.left);
        A* const to = partial.data() + task / tiles * m_ * n_ + row * n_ + column_tile * tile_columns;
        multiply(left, rows, column_tile, leaf, here.right, here.tile,
                 [&](std::int64_t r, std::int64_t column, std::int64_t count, const A* leaf_sums) {
                   copy(leaf_sums, count, to + r * n_ + column);
                 });
      });
      parallel_ranges(executor_, m_ * n_, some * m_ * n_ * static_cast<std::int64_t>(sizeof(A)),
                      [&](std::int64_t begin, std::int64_t end) {
                        for (std::int64_t leaf = 0; leaf < some; ++leaf) {
                          add_leaf(first + leaf == 0, partial.data() + leaf * m_ * n_ + begin, end - begin,
                                   sums + begin, errors + begin);
                        }
                      });
    }
    const FloatingPointControl standard;
    for (std::int64_t row = 0; row < m_; ++row) finish(sums + row * n_, errors + row * n_, row, 0, n_, write);
  }

  const CpuExecutor& executor_;
  std::int64_t m_, n_, k_;
  Operand<Left> left_;
  Operand<Right> right_;
};

/// c = alpha * left * right + beta * c, for operands of any kind.
template <class A, class Left, class Right, class T>
void multiply(const CpuExecutor& executor, std::int64_t m, std::int64_t n, std::int64_t k, A alpha,
              const Operand<Left>& left, const Operand<Right>& right, A beta, T* c, std::int64_t ldc) {
  if (m > 0 && n > 0) Product<A, Left, Right>(executor, m, n, k, left, right).run(alpha, beta, c, ldc);
}

template <>
struct Kernel<MatrixProduct> {
  template <class T>
  static void run(const CpuExecutor& executor, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                  std::int64_t k, double alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, double beta,
                  T* c, std::int64_t ldc) {
    using A = Accumulator<T>;
    cpu::multiply(executor, m, n, k, static_cast<A>(alpha), cpu::Operand{cpu::StridedLines<T>{a, lda}, !transpose_a},
                  cpu::Operand{cpu::StridedLines<T>{b, ldb}, transpose_b}, static_cast<A>(beta), c, ldc);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

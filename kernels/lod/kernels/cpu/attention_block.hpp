// SPDX-License-Identifier: Apache-2.0
/// @file
/// What attention computes from: blocks of rows, and tiles of the rows that they meet. Their products are small
/// products of matrices, computed in registers (matrix_product.hpp), and the scores of a block and a tile stay in the
/// first-level cache.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/matrix_product.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/sequence_tile.hpp>
#include <lod/kernels/cpu/transpose.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/partition_point.hpp>
#include <lod/ops/sequence_attention.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Numbers of a head, one row of a tensor after the other.
template <class T>
struct HeadRows {
  T* first;
  std::int64_t stride;  ///< from row to row
  std::int64_t size;    ///< numbers of the head

  HeadRows from(std::int64_t row) const noexcept { return {first + row * stride, stride, size}; }
};

/// A head of the rows of an argument, from row `first` on.
template <class T>
HeadRows<T> head_rows(T* x, std::int64_t first, std::int64_t heads, std::int64_t head, std::int64_t size) noexcept {
  // Without any rows there may be no argument.
  return {x ? x + (first * heads + head) * size : x, heads * size, size};
}

/// A block of rows that meet tiles of other rows.
template <class A>
class AttentionBlock {
 public:
  /// The rows of a block: a multiple of those that are multiplied in registers at a time.
  static constexpr std::int64_t rows = 96;
  /// The rows of a tile.
  static constexpr std::int64_t columns = 128;
  /// The width of a panel, and the size that rows of a head have in panels.
  static constexpr std::int64_t width = 2 * lanes<A>;
  static constexpr std::int64_t padded(std::int64_t size) noexcept { return (size + width - 1) / width * width; }
  static_assert(columns % width == 0);
  /// The rows that are multiplied in registers at a time.
  static constexpr std::int64_t register_rows = sizeof(Vector<A>) == 64 ? 12 : 6;
  static_assert(rows % register_rows == 0);

  /// Copies `count` rows, to be the left operand of a product: at to[row * size].
  template <class T>
  static void put_rows(const HeadRows<const T>& from, std::int64_t count, A* to) noexcept {
    for (std::int64_t row = 0; row < count; ++row)
      widen(from.first + row * from.stride, from.size, to + row * from.size);
  }
  /// The same for a right operand whose columns are the numbers of a head; zeros fill its last panel. Returns whether
  /// all are finite.
  template <class T>
  static bool put_tile(const HeadRows<const T>& from, std::int64_t count, A* to) noexcept {
    const std::int64_t stride = padded(from.size);
    xsimd::batch_bool<A> finite(true);
    for (std::int64_t row = 0; row < count; ++row) {
      const T* const x = from.first + row * from.stride;
      A* const line = to + row * stride;
      for (std::int64_t k = 0; k < stride; k += lanes<A>) {
        const Vector<A> some = numbers(x, k, from.size);
        finite = finite & finite_lanes(some);
        some.store_unaligned(line + k);
      }
    }
    return xsimd::all(finite);
  }
  /// The same for a right operand whose columns are the rows, in panels, with zeros for the rows that a tile lacks.
  template <class T>
  static void put_columns(const HeadRows<const T>& from, std::int64_t count, A* to) noexcept {
    for (std::int64_t column = 0; column < (count + width - 1) / width * width; column += lanes<A>) {
      A* const panel = to + column / width * width * from.size + column % width;
      for (std::int64_t k = 0; k < from.size; k += lanes<A>) {
        put_transposed(from.from(column), std::min(count - column, lanes<A>), k, panel + k * width, lane_numbers());
      }
    }
  }

  /// What rows see of a tile: for each `register_rows` of them, all that one of them sees.
  class Seen {
   public:
    /// `seen(row)` is what row < count sees, which neither begins nor ends before what the row before it sees.
    template <class RangeOf>
    Seen(std::int64_t count, const RangeOf& seen) noexcept {
      for (std::int64_t row = 0; row < count; row += register_rows) {
        const std::int64_t last = std::min(row + register_rows, count) - 1;
        // One whole panel after the other: what a row's own range leaves out has no weight.
        ranges_[row / register_rows] = {seen(row).begin / width * width, seen(last).end};
      }
    }
    const AttentionRange& of(std::int64_t row) const noexcept { return ranges_[row / register_rows]; }

   private:
    AttentionRange ranges_[static_cast<std::size_t>((std::max(rows, columns) + 11) / 6)] = {};
  };

  /// scores[row * columns + column] = the product of a row of `left` and a column of panels made by `put_columns`,
  /// where one of the rows beside it sees the column.
  static void multiply_columns(const A* left, std::int64_t count, const A* right, std::int64_t others,
                               std::int64_t size, const Seen& seen, A* scores) noexcept {
    for (std::int64_t column = 0; column < others; column += width) {
      for (std::int64_t row = 0; row < count; row += register_rows) {
        const auto [begin, end] = seen.of(row);
        if (column < begin || column >= end) continue;
        // There is room for all rows of a block.
        multiply_block<false>({left + row * size, size, 1}, std::min(register_rows, count - row),
                              {right + column * size, 1, width}, size, {scores + row * columns + column, columns});
      }
    }
  }
  /// Adds to sums[row * padded(size) + k] the product of a row of scores and the numbers k of a tile made by
  /// `put_tile`. range_of(row) are the rows of the tile that it sees; if the tile is `plain`, the scores of others are
  /// 0 where one of the rows beside it sees them, as `seen` says, and are multiplied, too.
  template <class RangeOf>
  static void add_products(const Block<A>& scores, std::int64_t count, const A* right, std::int64_t size, bool plain,
                           const RangeOf& range_of, const Seen& seen, A* sums) noexcept {
    const std::int64_t stride = padded(size), step = plain ? register_rows : 1;
    for (std::int64_t k = 0; k < stride; k += width) {
      for (std::int64_t row = 0; row < count; row += step) {
        const AttentionRange range = plain ? seen.of(row) : range_of(row);
        const A* const first = scores.first + row * scores.stride + range.begin * scores.term_stride;
        multiply_block<true>({first, scores.stride, scores.term_stride}, std::min(step, count - row),
                             {right + range.begin * stride + k, 1, stride}, range.end - range.begin,
                             {sums + row * stride + k, stride, true});
      }
    }
  }

 private:
  using Row = typename CompilerVector<A>::type;
  static constexpr std::int64_t few_rows = register_rows / 3;

  static constexpr auto lane_numbers() noexcept {
    return std::make_index_sequence<static_cast<std::size_t>(lanes<A>)>();
  }
  /// Numbers [k, k + lanes) of a row of `size`, as zeros where it has none.
  template <class T>
  [[gnu::always_inline]] static Vector<A> numbers(const T* x, std::int64_t k, std::int64_t size) noexcept {
    if (k + lanes<A> <= size) return load(x + k);
    return k < size ? load_vector(x + k, std::min(size - k, lanes<T>), A{}, size - k) : Vector<A>(A{});
  }
  template <class T, std::size_t... lane>
  static void put_transposed(const HeadRows<const T>& from, std::int64_t count, std::int64_t k, A* to,
                             std::index_sequence<lane...>) noexcept {
    Row block[sizeof...(lane)];
    ((block[lane] = __builtin_bit_cast(
          Row, static_cast<std::int64_t>(lane) < count
                   ? numbers(from.first + static_cast<std::int64_t>(lane) * from.stride, k, from.size)
                   : Vector<A>(A{}))),
     ...);
    transpose(block);
    const std::int64_t terms = std::min(from.size - k, lanes<A>);
    for (std::int64_t term = 0; term < terms; ++term) std::memcpy(to + term * width, &block[term], sizeof(Row));
  }
  /// The sums of a panel for up to `register_rows` rows; with `exact` no others are written.
  template <bool exact>
  static void multiply_block(const Block<A>& left, std::int64_t count, const Block<A>& right, std::int64_t terms,
                             const SumsPlace<A>& to) noexcept {
    if (count == 1) return multiply_registers<1, 2>(left, right, terms, to);
    if (exact && count != few_rows && count != 2 * few_rows && count != register_rows) {
      alignas(64) A sums[static_cast<std::size_t>(register_rows * width)];
      multiply_block<false>(left, count, right, terms, {sums, width});
      for (std::int64_t row = 0; row < count; ++row) {
        A* const at = to.at(row, 0).first;
        for (std::int64_t k = 0; k < width; k += lanes<A>) {
          const Vector<A> some = load<A>(sums + row * width + k);
          (to.is_added_to ? some + load<A>(at + k) : some).store_unaligned(at + k);
        }
      }
    } else if (count <= few_rows) {
      multiply_registers<few_rows, 2>(left, right, terms, to);
    } else if (count <= 2 * few_rows) {
      multiply_registers<2 * few_rows, 2>(left, right, terms, to);
    } else {
      multiply_registers<register_rows, 2>(left, right, terms, to);
    }
  }
};

/// The scores of a head, from products of q and k.
template <class A>
class AttentionScores {
  using V = Vector<A>;

 public:
  AttentionScores(const AttentionHeads& heads, A slope) noexcept
      : scale_(static_cast<A>(heads.scale)),
        softcap_(static_cast<A>(heads.softcap)),
        per_softcap_(static_cast<A>(heads.softcap > 0 ? 1 / heads.softcap : 0)),
        slope_(slope),
        caps_(heads.softcap > 0) {}

  /// A score, and its derivative by the scaled product.
  struct Score {
    V score, derivative;
  };
  /// `from` is the place of the row less that of the first column.
  Score operator()(const V& product, std::int64_t from) const noexcept {
    V score = product * scale_, derivative(A{1});
    if (caps_) {
      const V part = hyperbolic_tangent(score * per_softcap_);
      score = part * softcap_;
      derivative = V(A{1}) - part * part;
    }
    if (slope_ != A{}) score -= xsimd::abs(V(static_cast<A>(from)) - lane_places()) * slope_;
    return {score, derivative};
  }
  /// For columns from `column` on, whether a row sees them.
  static auto are_seen(std::int64_t column, const AttentionRange& seen) noexcept {
    const V places = lane_places();
    return (places >= V(static_cast<A>(seen.begin - column))) & (places < V(static_cast<A>(seen.end - column)));
  }

 private:
  static V lane_places() noexcept {
    alignas(64) static constexpr A places[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return V::load_aligned(places);
  }

  A scale_, softcap_, per_softcap_, slope_;
  bool caps_;
};

/// How many blocks so many rows are.
inline std::int64_t attention_blocks(std::int64_t rows) noexcept {
  return (rows + AttentionBlock<float>::rows - 1) / AttentionBlock<float>::rows;
}
/// The blocks of a task: several, for which a tile is put in place once, if there are enough for all threads.
inline constexpr std::int64_t most_attention_blocks = 4;
inline std::int64_t attention_blocks_of_task(const CpuExecutor& executor, std::int64_t blocks) noexcept {
  return std::clamp<std::int64_t>(blocks / (std::int64_t{8} * max_threads(executor)), 1, most_attention_blocks);
}
/// Which rows a task has: blocks that follow each other, of one head of a sequence i with blocks_of(i) of them.
class AttentionTasks {
 public:
  template <class BlocksOf>
  AttentionTasks(const CpuExecutor& executor, std::int64_t sequences, std::int64_t heads, const BlocksOf& blocks_of)
      : heads_(heads), sequences_(sequences), tasks_(executor.workspace(), sequences + 1) {
    std::int64_t blocks = 0;
    for (std::int64_t i = 0; i < sequences; ++i) blocks += blocks_of(i);
    blocks_of_task_ = attention_blocks_of_task(executor, lod::detail::saturated_product(blocks, heads));
    tasks_[0] = 0;
    for (std::int64_t i = 0; i < sequences; ++i) {
      tasks_[i + 1] = tasks_[i] + (blocks_of(i) + blocks_of_task_ - 1) / blocks_of_task_;
    }
  }
  std::int64_t size() const noexcept { return lod::detail::saturated_product(tasks_[sequences_], heads_); }
  /// The most rows of a task.
  std::int64_t rows() const noexcept { return blocks_of_task_ * AttentionBlock<float>::rows; }

  struct Task {
    std::int64_t sequence, head, first_row;
  };
  /// Tasks of a head of a sequence follow each other.
  Task operator[](std::int64_t task) const noexcept {
    const std::int64_t i =
        partition_point(std::int64_t{0}, sequences_, [&](std::int64_t at) { return tasks_[at + 1] * heads_ <= task; });
    const std::int64_t count = tasks_[i + 1] - tasks_[i], place = task - tasks_[i] * heads_;
    return {i, place / count, place % count * rows()};
  }

 private:
  std::int64_t heads_, sequences_, blocks_of_task_;
  Workspace::Loan<std::int64_t> tasks_;
};

/// What threads need to know of the work: the rows that meet, as bytes of one operand of their products.
inline std::int64_t attention_bytes(const AttentionHeads& heads, const Segments& queries,
                                    const Segments& keys) noexcept {
  std::int64_t pairs = 0;
  for (std::int64_t i = 0; i < queries.size; ++i) {
    pairs = lod::detail::saturated_sum(pairs, lod::detail::saturated_product(queries.length(i), keys.length(i)));
  }
  return lod::detail::saturated_product(pairs, heads.heads * (heads.size + heads.value_size)) / 8;
}

/// The tiles that a block meets: calls body(first, count) for rows [first, first + count) of those from `begin` to
/// `end`.
template <class A, class Body>
void for_each_attention_tile(std::int64_t begin, std::int64_t end, std::int64_t all, const Body& body) {
  constexpr std::int64_t columns = AttentionBlock<A>::columns;
  for (std::int64_t first = begin / columns * columns; first < end; first += columns) {
    body(first, std::min(columns, all - first));
  }
}

/// The blocks of a task of `count` rows that meet rows [begin, end): calls body(row, rows) for each. seen(row) is what
/// a row meets.
template <class A, class RangeOf, class Body>
void for_each_attention_block(std::int64_t count, std::int64_t begin, std::int64_t end, const RangeOf& seen,
                              const Body& body) {
  constexpr std::int64_t rows = AttentionBlock<A>::rows;
  for (std::int64_t row = 0; row < count; row += rows) {
    const std::int64_t some = std::min(rows, count - row);
    if (seen(row).begin < end && seen(row + some - 1).end > begin) body(row, some);
  }
}

/// The part of a range that lies in a tile, counted from the tile's first row.
inline AttentionRange within(const AttentionRange& range, std::int64_t first, std::int64_t count) noexcept {
  const std::int64_t begin = std::clamp<std::int64_t>(range.begin - first, 0, count);
  return {begin, std::clamp<std::int64_t>(range.end - first, begin, count)};
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The gradient of expansion in bulk: for each number of a sequence, the sum over its copies.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/ops/sequence_expand.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// The copies of a number of a sequence, as rows of a sum.
template <class T>
struct Copies {
  using A = Accumulator<T>;
  /// How many numbers of a copy, counted from its start, make up a row of a sum: the order of the additions depends on
  /// it.
  static constexpr std::int64_t tile = 1024;

  LOD_HOST_DEVICE Copies(const T* dy, const Segments& blocks, const Segments& sequences, std::int64_t i,
                         std::int64_t number, std::int64_t row_size)
      : numbers(sequences.length(i) * row_size),
        count(blocks.length(i) / sequences.length(i)),
        width(least(tile, numbers - number / tile * tile)),
        first(count > 0 ? dy + blocks.begin(i) * row_size + number : nullptr) {}

  LOD_HOST_DEVICE A operator()(std::int64_t copy) const { return static_cast<A>(first[copy * numbers]); }
  LOD_HOST_DEVICE std::int64_t leaves() const { return (count + leaf_rows - 1) / leaf_rows; }
  LOD_HOST_DEVICE A leaf(std::int64_t k) const {
    return sum_leaf<A>(*this, k * leaf_rows, least(count - k * leaf_rows, leaf_rows), width <= narrow_row_size);
  }

  std::int64_t numbers;  ///< of a copy
  std::int64_t count;
  std::int64_t width;  ///< numbers in the tile
  const T* first;
};

/// Places for the leaves of sequences with more than a leaf of copies: one at every `place_rows`-th row of all copies,
/// as in `Leaves`. The leaves of a sequence come in groups with one leaf for each of its rows; some places belong to no
/// leaf. A sequence of n rows and c copies has n * ceil(c / leaf_rows) leaves, and at least n * floor(c / place_rows)
/// places.
struct CopyLeaves {
  static constexpr std::int64_t place_rows = Leaves::place_rows;

  Segments blocks, sequences;

  std::int64_t places() const noexcept { return (blocks.rows() + place_rows - 1) / place_rows; }
  /// The place of the first leaf of a sequence; its other leaves follow.
  LOD_HOST_DEVICE std::int64_t first(std::int64_t i) const noexcept {
    return (blocks.begin(i) + place_rows - 1) / place_rows;
  }
  LOD_HOST_DEVICE std::int64_t sequence_at(std::int64_t place) const noexcept {
    return sequence_of(blocks, place * place_rows);
  }
};

template <>
struct Kernel<SequenceExpandGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const Segments& blocks, const Segments& sequences,
                  std::int64_t row_size, T* dx) {
    if (sequences.rows() == 0 || row_size == 0) return;
    using A = Accumulator<T>;
    const CopyLeaves leaves{blocks, sequences};
    // No sequence has more copies than its block has rows.
    const std::int64_t places = blocks.max_rows > leaf_rows ? leaves.places() : 0;
    const Scratch<E, A> loan(executor, places * row_size);
    A* const sums = loan.data();
    for_each_element(executor, places, row_size, [=] LOD_HOST_DEVICE(std::int64_t place, std::int64_t column) {
      const std::int64_t i = leaves.sequence_at(place), length = sequences.length(i), at = place - leaves.first(i);
      const Copies<T> copies(dy, blocks, sequences, i, at % length * row_size + column, row_size);
      if (copies.count <= leaf_rows || at / length >= copies.leaves()) return;
      sums[place * row_size + column] = copies.leaf(at / length);
    });
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t at = row * row_size + column, number = at - sequences.begin(i) * row_size;
      const Copies<T> copies(dy, blocks, sequences, i, number, row_size);
      A sum = {};
      if (copies.count > leaf_rows) {
        const A* const own = sums + leaves.first(i) * row_size + number;
        sum = join_leaves<A>([&](std::int64_t k) { return own[k * copies.numbers]; }, copies.count, copies.width);
      } else if (copies.count > 0) {
        sum = copies.leaf(0);
      }
      dx[at] = static_cast<T>(sum);
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

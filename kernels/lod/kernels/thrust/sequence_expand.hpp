// SPDX-License-Identifier: Apache-2.0
/// @file
/// The gradient of expansion over Thrust: for each number of a sequence the sum of those of its copies.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/row_sum.hpp>
#include <lod/ops/sequence_expand.hpp>
#include <lod/staging.hpp>
#include <lod/thrust_executor.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

/// The copies of a number of a sequence, as rows of a sum.
template <class T>
struct Copies {
  using A = Accumulator<T>;
  /// The numbers of a copy that are a row of a sum together, counted from its start: the order of the additions depends
  /// on how many there are.
  static constexpr std::int64_t tile = 1024;

  LOD_HOST_DEVICE Copies(const T* dy, const Segments& blocks, const Segments& sequences, std::int64_t i,
                         std::int64_t number, std::int64_t row_size)
      : numbers(sequences.length(i) * row_size),
        count(blocks.length(i) / sequences.length(i)),
        width(least(tile, numbers - number / tile * tile)),
        first(dy + blocks.begin(i) * row_size + number) {}

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

/// The leaves of all rows, numbered. Those of a sequence come in groups, which have one for each of its rows; some
/// numbers are no leaf's. No table is needed to go from a sequence to its leaves and back.
struct CopyLeaves {
  Segments blocks, sequences;

  /// A sequence of n rows and c copies has n * ceil(c / leaf_rows) leaves: never more than from its start to the next.
  LOD_HOST_DEVICE std::int64_t first(std::int64_t i) const noexcept {
    return blocks.begin(i) / leaf_rows + sequences.begin(i);
  }
  /// The sequence that a number belongs to: the last one whose leaves begin there or before.
  LOD_HOST_DEVICE std::int64_t sequence_of(std::int64_t leaf) const noexcept {
    std::int64_t low = 0, high = sequences.size - 1;
    while (low < high) {
      const std::int64_t middle = low + (high - low + 1) / 2;
      if (first(middle) <= leaf) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
};

struct SequenceExpandGrad {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const Segments& blocks, const Segments& sequences,
                  std::int64_t row_size, T* dx) {
    using A = Accumulator<T>;
    if (blocks.max_rows <= leaf_rows) {  // so that no sequence has more copies
      const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
        const std::int64_t at = row * row_size + column;
        const Copies<T> copies(dy, blocks, sequences, i, at - sequences.begin(i) * row_size, row_size);
        dx[at] = static_cast<T>(copies.count > 0 ? copies.leaf(0) : A{});
      };
      for_each_in_sequences(executor, sequences, row_size, write);
      return;
    }
    const std::int64_t count = blocks.rows() / leaf_rows + sequences.rows();
    const Scratch<E, A> loan(executor, count * row_size);
    A* const sums = loan.data();
    const CopyLeaves leaves{blocks, sequences};
    for_each(executor, count * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t leaf = at / row_size, i = leaves.sequence_of(leaf), length = sequences.length(i);
      const std::int64_t place = leaf - leaves.first(i), number = place % length * row_size + at % row_size;
      const Copies<T> copies(dy, blocks, sequences, i, number, row_size);
      if (place / length < copies.leaves()) sums[at] = copies.leaf(place / length);
    });
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t at = row * row_size + column, number = at - sequences.begin(i) * row_size;
      const Copies<T> copies(dy, blocks, sequences, i, number, row_size);
      const A* const own = sums + leaves.first(i) * row_size + number;
      const auto leaf = [&](std::int64_t k) { return own[k * copies.numbers]; };
      A sum = {};
      if (copies.count > leaf_rows) {
        sum = join_leaves<A>(leaf, copies.count, copies.width);
      } else if (copies.count > 0) {
        sum = own[0];
      }
      dx[at] = static_cast<T>(sum);
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

}  // namespace bulk

template <class Policy>
struct SequenceExpandGrad<ThrustExecutor<Policy>> : bulk::SequenceExpandGrad {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

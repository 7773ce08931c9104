// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sum of many rows, column by column, by the tree of sum_tree.hpp, over Thrust.
#pragma once

#include <lod/kernels/sum_tree.hpp>
#include <lod/kernels/thrust/bulk.hpp>
#include <lod/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel::bulk {

/// One column of at most a leaf of rows: term(row), row in [first, first + count).
template <class A, class Term>
LOD_HOST_DEVICE A sum_leaf(const Term& term, std::int64_t first, std::int64_t count, bool narrow) {
  if (narrow) {
    A sums[16] = {};
    for (std::int64_t row = 0; row < count; ++row) sums[row % 16] = plus<A>(sums[row % 16], term(first + row));
    for (int folded = 8; folded > 0; folded /= 2) {
      for (int i = 0; i < folded; ++i) sums[i] = plus(sums[i], sums[folded + i]);
    }
    return sums[0];
  }
  A sum = {};
  std::int64_t row = first;
  const std::int64_t end = first + count;
  for (; row + 4 <= end; row += 4) {
    sum = plus(sum, plus(plus<A>(term(row), term(row + 1)), plus<A>(term(row + 2), term(row + 3))));
  }
  for (; row < end; ++row) sum = plus<A>(sum, term(row));
  return sum;
}

/// The sequence that a number of `leaves` belongs to: the last one whose leaves begin there or before.
template <class AnyLeaves>
LOD_HOST_DEVICE std::int64_t sequence_of_leaf(const AnyLeaves& leaves, std::int64_t leaf) noexcept {
  std::int64_t low = 0, high = leaves.sequences.size - 1;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (leaves.first(middle) <= leaf) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// The leaves of all sequences, numbered. Sequence i has those from first(i) on; some numbers are no leaf's. No table
/// is needed to go from a sequence to its leaves and back.
struct Leaves {
  Segments sequences;

  static std::int64_t count(std::int64_t size, std::int64_t rows) noexcept { return rows / leaf_rows + size; }
  LOD_HOST_DEVICE std::int64_t first(std::int64_t i) const noexcept { return sequences.begin(i) / leaf_rows + i; }
};

/// Joins the sums of the leaves of `rows` rows, leaf(k) being the k-th.
template <class A, class Leaf>
LOD_HOST_DEVICE A join_leaves(const Leaf& leaf, std::int64_t rows, std::int64_t row_size) {
  const std::int64_t leaves = (rows + leaf_rows - 1) / leaf_rows, step = chunk_rows(row_size) / leaf_rows;
  A sum = {}, error = {};
  for (std::int64_t begin = 0; begin < leaves; begin += step) {
    const std::int64_t end = least(begin + step, leaves);
    A chunk = leaf(begin), chunk_error = {};
    for (std::int64_t k = begin + 1; k < end; ++k) add_compensated(chunk, chunk_error, leaf(k));
    if (begin == 0) {
      sum = chunk;
      error = chunk_error;
    } else {
      add_compensated(sum, error, chunk);
      error = plus(error, chunk_error);
    }
  }
  return plus(sum, error);
}

/// Calls finish(i, column, sum) for each sequence i and each column, sum being that of term(i, row, column) over the
/// sequence's rows, `row` counted from its start: 0 for an empty one. `rows` are those of all sequences.
template <class A, class E, class Term, class Finish>
void sum_sequences(const E& executor, const Segments& sequences, std::int64_t rows, std::int64_t row_size,
                   const Term& term, const Finish& finish) {
  const bool narrow = row_size <= narrow_row_size;
  if (sequences.max_rows <= leaf_rows) {
    for_each(executor, sequences.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t i = at / row_size, column = at % row_size;
      const auto of_row = [&](std::int64_t row) { return term(i, row, column); };
      finish(i, column, sum_leaf<A>(of_row, 0, sequences.length(i), narrow));
    });
    return;
  }
  const std::int64_t count = Leaves::count(sequences.size, rows);
  const Scratch<E, A> loan(executor, count * row_size);
  A* const sums = loan.data();
  const Leaves leaves{sequences};
  for_each(executor, count * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
    const std::int64_t leaf = at / row_size, column = at % row_size;
    const std::int64_t i = sequence_of_leaf(leaves, leaf), first = (leaf - leaves.first(i)) * leaf_rows;
    const std::int64_t length = sequences.length(i);
    if (first >= length) return;
    const auto of_row = [&](std::int64_t row) { return term(i, row, column); };
    sums[at] = sum_leaf<A>(of_row, first, least(length - first, leaf_rows), narrow);
  });
  for_each(executor, sequences.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
    const std::int64_t i = at / row_size, column = at % row_size, length = sequences.length(i);
    const A* const own = sums + leaves.first(i) * row_size + column;
    const auto leaf = [&](std::int64_t k) { return own[k * row_size]; };
    finish(i, column, length > leaf_rows ? join_leaves<A>(leaf, length, row_size) : length > 0 ? own[0] : A{});
  });
}

}  // namespace kernel::bulk
}  // namespace lod::inline LOD_TARGET

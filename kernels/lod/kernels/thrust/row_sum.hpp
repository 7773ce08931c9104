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

/// One column of at most a leaf of narrow rows: term(row), row in [first, first + count).
template <class A, class Lanes, class Term>
LOD_HOST_DEVICE A sum_narrow_leaf(const Lanes& lanes, const Term& term, std::int64_t first, std::int64_t count) {
  static_assert(lanes_at_a_time == 16, "the tree of a leaf has so many");
  return lanes.template fold<A>(
      [&](int lane) {
        A sum = {};
        for (std::int64_t row = lane; row < count; row += lanes_at_a_time) sum = plus<A>(sum, term(first + row));
        return sum;
      },
      [](A a, A b) { return plus(a, b); });
}

/// The same for rows of any size.
template <class A, class Term>
LOD_HOST_DEVICE A sum_leaf(const Term& term, std::int64_t first, std::int64_t count, bool narrow) {
  if (narrow) return sum_narrow_leaf<A>(OneLane(), term, first, count);
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

/// The sums of narrow rows, sequence by sequence: `number` counts their columns.
template <class A, class Term, class Finish>
struct NarrowSums {
  Segments sequences;
  std::int64_t row_size;
  Term term;
  Finish finish;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t number, const Lanes& lanes) const {
    const std::int64_t i = number / row_size, column = number % row_size;
    const auto of_row = [&](std::int64_t row) { return term(i, row, column); };
    const A sum = sum_narrow_leaf<A>(lanes, of_row, 0, sequences.length(i));
    if (lanes.is_first()) finish(i, column, sum);
  }
};
/// The same, leaf by leaf, to `sums`.
template <class A, class Term>
struct NarrowLeafSums {
  Leaves leaves;
  std::int64_t row_size;
  Term term;
  A* sums;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t number, const Lanes& lanes) const {
    const std::int64_t leaf = number / row_size, column = number % row_size;
    const std::int64_t i = sequence_of_leaf(leaves, leaf), first = (leaf - leaves.first(i)) * leaf_rows;
    const std::int64_t length = leaves.sequences.length(i);
    if (first >= length) return;
    const auto of_row = [&](std::int64_t row) { return term(i, row, column); };
    const A sum = sum_narrow_leaf<A>(lanes, of_row, first, least(length - first, leaf_rows));
    if (lanes.is_first()) sums[number] = sum;
  }
};

/// Calls finish(i, column, sum) for each sequence i and each column, sum being that of term(i, row, column) over the
/// sequence's rows, `row` counted from its start: 0 for an empty one. `rows` are those of all sequences.
template <class A, class E, class Term, class Finish>
void sum_sequences(const E& executor, const Segments& sequences, std::int64_t rows, std::int64_t row_size,
                   const Term& term, const Finish& finish) {
  const bool narrow = row_size <= narrow_row_size;
  if (sequences.max_rows <= leaf_rows) {
    if (narrow) {
      for_each_by_lanes(executor, sequences.size * row_size,
                        NarrowSums<A, Term, Finish>{sequences, row_size, term, finish});
      return;
    }
    for_each_element(executor, sequences.size, row_size, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column) {
      const auto of_row = [&](std::int64_t row) { return term(i, row, column); };
      finish(i, column, sum_leaf<A>(of_row, 0, sequences.length(i), false));
    });
    return;
  }
  const std::int64_t count = Leaves::count(sequences.size, rows);
  const Scratch<E, A> loan(executor, count * row_size);
  A* const sums = loan.data();
  const Leaves leaves{sequences};
  if (narrow) {
    for_each_by_lanes(executor, count * row_size, NarrowLeafSums<A, Term>{leaves, row_size, term, sums});
  } else {
    for_each_element(executor, count, row_size, [=] LOD_HOST_DEVICE(std::int64_t leaf, std::int64_t column) {
      const std::int64_t i = sequence_of_leaf(leaves, leaf), first = (leaf - leaves.first(i)) * leaf_rows;
      const std::int64_t length = sequences.length(i);
      if (first >= length) return;
      const auto of_row = [&](std::int64_t row) { return term(i, row, column); };
      sums[leaf * row_size + column] = sum_leaf<A>(of_row, first, least(length - first, leaf_rows), false);
    });
  }
  for_each_element(executor, sequences.size, row_size, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column) {
    const std::int64_t length = sequences.length(i);
    const A* const own = sums + leaves.first(i) * row_size + column;
    const auto leaf = [&](std::int64_t k) { return own[k * row_size]; };
    finish(i, column, length > leaf_rows ? join_leaves<A>(leaf, length, row_size) : length > 0 ? own[0] : A{});
  });
}

}  // namespace kernel::bulk
}  // namespace lod::inline LOD_TARGET

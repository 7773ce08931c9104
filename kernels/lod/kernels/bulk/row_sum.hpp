// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sum of many rows, column by column, by the tree of sum_tree.hpp in bulk.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/kernels/wide_sum.hpp>
#include <lod/ops/staging.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Sums one column of at most a leaf of rows: term(row) for row in [first, first + count).
template <class A, class Lanes, class Term>
LOD_HOST_DEVICE A sum_leaf(const Lanes& lanes, const Term& term, std::int64_t first, std::int64_t count) {
  if constexpr (Lanes::count > 1) {
    static_assert(Lanes::count == 16, "the tree of a leaf of narrow rows has so many");
    return lanes.template fold_rows<0>(
        static_cast<int>(count), empty_sum<A>(), [&](A& sum, int row, int) { sum = plus<A>(sum, term(first + row)); },
        [](A a, A b) { return plus(a, b); });
  } else {
    A sum = empty_sum<A>();
    int row = 0;
    const int rows = static_cast<int>(count);
    const auto number = [&](int k) { return term(first + k); };
    for (; row + 4 <= rows; row += 4) {
      sum = plus(sum, plus(plus<A>(number(row), number(row + 1)), plus<A>(number(row + 2), number(row + 3))));
    }
    for (; row < rows; ++row) sum = plus<A>(sum, number(row));
    return sum;
  }
}
/// The same by one thread.
template <class A, class Term>
LOD_HOST_DEVICE A sum_leaf(const Term& term, std::int64_t first, std::int64_t count, bool narrow) {
  return narrow ? sum_leaf<A>(OneThread(), term, first, count) : sum_leaf<A>(LaneAlone(), term, first, count);
}

/// Calls add(read(k)) for k = 0, ..., count - 1. Several numbers are read before those that came before them are added:
/// additions wait for each other, reads need not.
template <class A, class Read, class Add>
LOD_HOST_DEVICE void add_in_order(std::int64_t count, const Read& read, const Add& add) {
  constexpr std::size_t several = sizeof(A) < 16 ? 16 : 8;
  constexpr auto ahead = static_cast<std::int64_t>(several);
  std::int64_t k = 0;
  if (count >= ahead) {
    A numbers[several], next[several];
    for (std::int64_t i = 0; i < ahead; ++i) numbers[i] = read(i);
    for (k = ahead; k + ahead <= count; k += ahead) {
      for (std::int64_t i = 0; i < ahead; ++i) next[i] = read(k + i);
      for (const A& number : numbers) add(number);
      for (std::size_t i = 0; i < several; ++i) numbers[i] = next[i];
    }
    for (const A& number : numbers) add(number);
  }
  for (; k < count; ++k) add(read(k));
}

/// A sum and its rounding error.
template <class A>
struct CompensatedSum {
  A sum = empty_sum<A>();
  A error = empty_sum<A>();
  LOD_HOST_DEVICE void add(const A& term) noexcept { add_rounded(sum, error, term); }
  /// Adds the sum of a chunk.
  LOD_HOST_DEVICE void add(const CompensatedSum& chunk) noexcept {
    add(chunk.sum);
    error = plus(error, chunk.error);
  }
  LOD_HOST_DEVICE A total() const noexcept { return plus(sum, error); }
};

/// The number of leaves in a chunk.
LOD_HOST_DEVICE constexpr std::int64_t chunk_leaves(std::int64_t row_size) noexcept {
  return chunk_rows(row_size) / leaf_rows;
}
/// Joins the sums of the leaves of a chunk, which may be incomplete: leaf(k) for k in [begin, end).
template <class A, class ReadLeaf>
LOD_HOST_DEVICE CompensatedSum<A> join_chunk(const ReadLeaf& leaf, std::int64_t begin, std::int64_t end) {
  CompensatedSum<A> chunk{leaf(begin), empty_sum<A>()};
  add_in_order<A>(
      end - begin - 1, [&](std::int64_t k) { return leaf(begin + 1 + k); }, [&](A number) { chunk.add(number); });
  return chunk;
}
/// Joins the sums of the leaves of `rows` rows chunk by chunk; leaf(k) is the sum of the k-th.
template <class A, class ReadLeaf>
LOD_HOST_DEVICE A join_leaves(const ReadLeaf& leaf, std::int64_t rows, std::int64_t row_size) {
  const std::int64_t leaves = (rows + leaf_rows - 1) / leaf_rows, step = chunk_leaves(row_size);
  if (leaves == 0) return A{};
  CompensatedSum<A> all = join_chunk<A>(leaf, 0, least(step, leaves));
  for (std::int64_t begin = step; begin < leaves; begin += step) {
    all.add(join_chunk<A>(leaf, begin, least(begin + step, leaves)));
  }
  return all.total();
}

/// term(i, row, column) as a function of the row: if a Term has of_column, what it looks up for i and column is looked
/// up once. Lanes that share a column have narrow rows, for which 32 bits are enough for the offsets in a leaf.
template <class Lanes, class Term>
LOD_HOST_DEVICE auto term_of_row(const Term& term, std::int64_t i, std::int64_t column) {
  using Offset = std::conditional_t<(Lanes::count > 1), std::int32_t, std::int64_t>;
  if constexpr (requires { term.template of_column<Offset>(i, column); }) {
    return term.template of_column<Offset>(i, column);
  } else {
    return [term, i, column](std::int64_t row) { return term(i, row, column); };
  }
}

/// Whether A is several sums of floating-point numbers. sums_are_finite tells whether each of them is finite.
template <class A>
inline constexpr bool are_real_sums = false;
template <std::floating_point A, std::size_t count>
inline constexpr bool are_real_sums<Few<A, count>> = true;
template <std::floating_point A, std::size_t count>
LOD_HOST_DEVICE bool sums_are_finite(const Few<A, count>& sums) {
  bool finite = true;
  for (std::size_t n = 0; n < count; ++n) finite = finite && is_finite(sums.number[n]);
  return finite;
}

/// Calls a Finish that is `is_corrected` where sums have become infinite or NaN, perhaps only on the way: these are
/// summed again. A Finish that divides sums then receives them by finish.correct(i, column, n, sum), where n is the
/// index in the Few.
template <class A, std::size_t count, class Term, class Finish>
LOD_NOINLINE LOD_HOST_DEVICE void finish_carefully(const Finish& finish, std::int64_t i, std::int64_t column,
                                                   Few<A, count> sums, std::int64_t rows, const Term& term) {
  constexpr bool divides = requires(const WideSum<A>& sum) { finish.correct(i, column, std::size_t{}, sum); };
  if constexpr (divides) finish(i, column, sums);
  for (std::size_t n = 0; n < count; ++n) {
    if (is_finite(sums.number[n])) continue;
    WideSum<A> wide;
    for (std::int64_t row = 0; row < rows && !wide.is_nan(); ++row) wide.add(term(row).number[n]);
    if constexpr (divides) {
      finish.correct(i, column, n, wide);
    } else {
      sums.number[n] = wide.pooled(PoolType::SUM, rows);
    }
  }
  if constexpr (!divides) finish(i, column, sums);
}
/// Calls finish(i, column, sum) or finish(i, column, sum, rows) with the sum of `rows` rows; term(row) is one of its
/// terms.
template <class A, class Term, class Finish>
LOD_HOST_DEVICE void finish_sum(const Finish& finish, std::int64_t i, std::int64_t column, const A& sum,
                                std::int64_t rows, const Term& term) {
  if constexpr (are_real_sums<A> && requires { Finish::is_corrected; }) {
    if (rows > 1 && !sums_are_finite(sum)) {
      // Copies: for the address of an argument, every thread of a GPU would write the argument to memory, whether or
      // not it comes here, more bytes than many a sequence has.
      const Finish own_finish = finish;
      const Term own_term = term;
      return finish_carefully(own_finish, i, column, sum, rows, own_term);
    }
  }
  if constexpr (requires { finish(i, column, sum, rows); }) {
    finish(i, column, sum, rows);
  } else {
    finish(i, column, sum);
  }
}

/// Sums short sequences.
template <class A, class Term, class Finish>
struct SumShort {
  Segments sequences;
  Term term;
  Finish finish;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes& lanes) const {
    const std::int64_t rows = sequences.length(i);
    const auto of_row = term_of_row<Lanes>(term, i, column);
    const A sum = sum_leaf<A>(lanes, of_row, 0, rows);
    if (lanes.is_first()) finish_sum(finish, i, column, rows > 0 ? sum : A{}, rows, of_row);
  }
  /// @{
  /// For scalar rows whose numbers can be staged.
  template <class T, class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, int rows, const T* from, T*, const Lanes& lanes) const {
    const auto of_row = term.of_scalars(from);
    const A sum = sum_leaf<A>(lanes, of_row, 0, rows);
    if (lanes.is_first()) finish_sum(finish, i, 0, rows > 0 ? sum : A{}, rows, of_row);
  }
  auto input() const noexcept requires requires(const Term& of) { of.scalars(); }
  { return term.scalars(); }
  auto output() const noexcept requires requires(const Term& of) { of.scalars(); }
  { return static_cast<std::remove_const_t<std::remove_pointer_t<decltype(term.scalars())>>*>(nullptr); }
  /// @}
};
/// Sums the leaves of long sequences.
template <class A, class Term>
struct SumLeaf {
  Term term;
  LeafParts<CompensatedSum<A>> sums;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes& lanes) const {
    const A sum = sum_leaf<A>(lanes, term_of_row<Lanes>(term, leaf.sequence, column), leaf.first, leaf.rows);
    if (lanes.is_first()) sums.put(place, column, {sum, empty_sum<A>()});
  }
};

/// Calls finish(i, column, sum) for each long sequence i and each column with the sum of term(i, row, column); `sums`
/// has the sums of its leaves, `step` of which make a chunk. The additions follow the order of the tree: a thread adds
/// up a chunk, and the last of them to finish adds up the chunks of the sequence.
template <class A, class E, class Term, class Finish>
void join_sums(const E& executor, const Leaves& leaves, std::int64_t step, const LeafParts<CompensatedSum<A>>& sums,
               const Term& term, const Finish& finish) {
  const auto join = [=] LOD_HOST_DEVICE(std::int64_t place, std::int64_t column) {
    const Leaf leaf = leaves.at(place);
    if (leaf.rows == 0 || leaf.number % step != 0) return;
    const std::int64_t count = leaves.count(leaf.sequence), chunks = (count + step - 1) / step;
    CompensatedSum<A> all = join_chunk<A>([&](std::int64_t k) { return sums.of(place + k, column).sum; }, 0,
                                          least(step, count - leaf.number));
    if (chunks > 1) {
      const std::int64_t first = place - leaf.number;
      sums.of(place, column) = all;
      if (!comes_last(sums.counter(first, column), chunks)) return;
      all = sums.of(first, column);
      add_in_order<CompensatedSum<A>>(
          chunks - 1, [&](std::int64_t chunk) { return sums.of(first + (chunk + 1) * step, column); },
          [&](const CompensatedSum<A>& chunk) { all.add(chunk); });
    }
    const std::int64_t i = leaf.sequence;
    finish_sum(finish, i, column, all.total(), leaves.sequences.length(i), term_of_row<LaneAlone>(term, i, column));
  };
  for_each_element(executor, leaves.places(), sums.columns, join);
}

/// For each sequence i and each of `columns` columns, sums term(i, row, column) over the rows of the sequence, where
/// `row` is counted from its start: calls of_short(i, column, lanes) for sequences that are not long, which may sum up
/// the column by itself, and finish(i, column, sum) for the others. `step` leaves make a chunk.
template <class A, Columns sharing, class E, class Short, class Term, class Finish>
void sum_columns(const E& executor, const Segments& sequences, std::int64_t columns, std::int64_t step,
                 const Short& of_short, const Term& term, const Finish& finish) {
  if (sequences.size == 0 || columns == 0) return;  // there may be any number of rows without elements
  const Leaves leaves{sequences};
  const LeafScratch<E, CompensatedSum<A>> sums(executor, leaves, columns);
  for_each_short_and_leaf<sharing>(executor, sequences, columns, of_short, SumLeaf<A, Term>{term, sums.parts()});
  if (leaves.any()) join_sums<A>(executor, leaves, step, sums.parts(), term, finish);
}
/// The same where a column is a number of a row.
template <class A, class E, class Short, class Term, class Finish>
void sum_sequences(const E& executor, const Segments& sequences, std::int64_t row_size, const Short& of_short,
                   const Term& term, const Finish& finish) {
  sum_columns<A, Columns::shared>(executor, sequences, row_size, chunk_leaves(row_size), of_short, term, finish);
}
/// Calls finish(i, column, sum) for all sequences; the sum of an empty one is 0.
template <class A, class E, class Term, class Finish>
void sum_sequences(const E& executor, const Segments& sequences, std::int64_t row_size, const Term& term,
                   const Finish& finish) {
  sum_sequences<A>(executor, sequences, row_size, SumShort<A, Term, Finish>{sequences, term, finish}, term, finish);
}
/// The same where a column is `count` adjacent numbers of a row; only wide rows have several.
template <class A, std::size_t count, class E, class Term, class Finish>
void sum_few(const E& executor, const Segments& sequences, std::int64_t row_size, const Term& term,
             const Finish& finish) {
  using Numbers = Few<A, count>;
  sum_columns<Numbers, columns_of<count>>(executor, sequences, row_size / static_cast<std::int64_t>(count),
                                          chunk_leaves(row_size),
                                          SumShort<Numbers, Term, Finish>{sequences, term, finish}, term, finish);
}

struct WriteOffset {
  std::int64_t rows;
  std::int64_t* offsets;
  LOD_HOST_DEVICE void operator()(std::int64_t i) const { offsets[i] = i * rows; }
};
/// So many rows as one sequence, whose offsets are written by a kernel.
template <class E>
class OneSequence {
 public:
  OneSequence(const E& executor, std::int64_t rows) : rows_(rows), offsets_(executor, 2) {
    for_each(executor, 2, WriteOffset{rows, offsets_.data()});
  }
  Segments segments() const noexcept { return Segments(offsets_.data(), 1, rows_, 0, rows_); }

 private:
  std::int64_t rows_;
  Scratch<E, std::int64_t> offsets_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

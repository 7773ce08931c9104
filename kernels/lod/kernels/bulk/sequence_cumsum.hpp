// SPDX-License-Identifier: Apache-2.0
/// @file
/// Running sums in bulk: the totals of leaves of rows, the sums before each chunk of them, the sums within them.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/ops/sequence_cumsum.hpp>
#include <lod/ops/staging.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Sums up at most a leaf of rows in the direction of the sums, column by column; the order of the additions is that of
/// the CPU, where scalar rows are cut into groups.
template <class T, class Y>
struct RunningSums {
  using A = Accumulator<T>;

  const T* x;
  Segments sequences;
  std::int64_t row_size;
  bool exclusive;
  bool reverse;
  Y* y;

  /// Calls write(place, sum) for each of `count` rows of sequence i from `begin` on, counted in the direction of the
  /// sums, and returns their total.
  template <class Write>
  LOD_HOST_DEVICE A run(std::int64_t i, std::int64_t begin, std::int64_t count, std::int64_t column,
                        const Write& write) const {
    const std::int64_t row = sequences.begin(i) + (reverse ? sequences.length(i) - 1 - begin : begin);
    return run(x, row * row_size + column, reverse ? -row_size : row_size, count, write);
  }
  /// The same for numbers that are `step` apart, the first one at numbers[at].
  template <class Write>
  LOD_HOST_DEVICE A run(const T* numbers, std::int64_t at, std::int64_t step, std::int64_t count,
                        const Write& write) const {
    const A start = start_of_sums<A>(exclusive);
    A total = start;
    for (std::int64_t first = 0; first < count;) {
      const std::int64_t end = row_size == 1 ? least(first + cumsum_group_rows, count) : count;
      A group = start;
      for (; first < end; ++first, at += step) {
        const A before = group;
        group = plus(before, static_cast<A>(numbers[at]));
        write(at, plus(total, exclusive ? before : group));
      }
      total = plus(total, group);
    }
    return total;
  }
};

/// Computes the running sums of short sequences.
template <class T, class Y>
struct SumUpShort {
  RunningSums<T, Y> running;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes&) const {
    Y* const y = running.y;
    running.run(i, 0, running.sequences.length(i), column,
                [&](std::int64_t at, Accumulator<T> sum) { y[at] = static_cast<Y>(sum); });
  }
};
/// The same for scalar rows, which may be staged.
template <class T>
struct SumUpScalars {
  RunningSums<T, T> running;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t, int rows, const T* from, T* to, const Lanes& lanes) const {
    if (!lanes.is_first()) return;  // each sum depends on the one before it
    running.run(from, running.reverse ? rows - 1 : 0, running.reverse ? -1 : 1, rows,
                [&](std::int64_t at, Accumulator<T> sum) { to[at] = static_cast<T>(sum); });
  }
};
/// Computes the totals of the leaves of long sequences.
template <class T, class Y>
struct TotalOfLeaf {
  RunningSums<T, Y> running;
  LeafParts<Accumulator<T>> totals;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes&) const {
    totals.put(place, column, running.run(leaf.sequence, leaf.first, leaf.rows, column, [](std::int64_t, auto) {}));
  }
};
/// Computes the running sums of the leaves of long sequences. The sum before a leaf is the sum before its chunk of
/// `step` leaves plus the totals of the leaves before it in the chunk: so few that each leaf adds them up for itself.
template <class T, class Y>
struct SumUpLeaf {
  using A = Accumulator<T>;

  RunningSums<T, Y> running;
  LeafParts<A> totals;
  std::int64_t step;
  const CompensatedSum<A>* chunks;  ///< the sum before each chunk; null where no sequence has several

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes&) const {
    const std::int64_t before = leaf.number % step, chunk = place - before;
    CompensatedSum<A> base;
    if (chunks != nullptr) base = chunks[chunk * totals.columns + column];
    add_in_order<A>(
        before, [&](std::int64_t k) { return totals.of(chunk + k, column); }, [&](A total) { base.add(total); });
    Y* const y = running.y;
    running.run(leaf.sequence, leaf.first, leaf.rows, column,
                [&](std::int64_t at, A sum) { y[at] = static_cast<Y>(plus(base.sum, plus(sum, base.error))); });
  }
};

/// Turns the sums of the chunks of `step` leaves into the sums before the chunks. The last thread to finish processes
/// the chunks of its sequence.
template <class E, class A>
void sum_up_chunks(const E& executor, const Leaves& leaves, std::int64_t step, const LeafParts<A>& totals,
                   CompensatedSum<A>* chunks) {
  const auto sum_up = [=] LOD_HOST_DEVICE(std::int64_t place, std::int64_t column) {
    const Leaf leaf = leaves.at(place);
    if (leaf.rows == 0 || leaf.number % step != 0) return;
    const std::int64_t first = place - leaf.number, count = leaves.count(leaf.sequence);
    CompensatedSum<A> sum;
    add_in_order<A>(
        least(step, count - leaf.number), [&](std::int64_t k) { return totals.of(place + k, column); },
        [&](A total) { sum.add(total); });
    chunks[place * totals.columns + column] = sum;
    const std::int64_t size = (count + step - 1) / step, distance = step * totals.columns;
    if (!comes_last(totals.counter(first, column), size)) return;
    CompensatedSum<A>* const own = chunks + first * totals.columns + column;
    CompensatedSum<A>* next = own;
    CompensatedSum<A> before;
    add_in_order<CompensatedSum<A>>(
        size, [&](std::int64_t k) { return own[k * distance]; },
        [&](const CompensatedSum<A>& chunk) {
          *next = before;
          next += distance;
          before.add(chunk);
        });
  };
  for_each_element(executor, leaves.places(), totals.columns, sum_up);
}

template <>
struct Kernel<SequenceCumsum> {
  template <class E, class T, class Y>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, bool exclusive,
                  bool reverse, Y* y) {
    using A = Accumulator<T>;
    if (row_size == 0) return;  // there may be any number of rows without elements
    const RunningSums<T, Y> running{x, sequences, row_size, exclusive, reverse, y};
    const Leaves leaves{sequences};
    if constexpr (std::same_as<T, Y>) {
      if (row_size == 1 && !leaves.any()) {
        for_each_staged(executor, sequences, x, y, SumUpScalars<T>{running});
        return;
      }
    }
    const LeafScratch<E, A> loan(executor, leaves, row_size);
    const LeafParts<A> totals = loan.parts();
    // A column belongs to one thread: each of its sums depends on the one before it.
    for_each_short_and_leaf<Columns::own>(executor, sequences, row_size, SumUpShort<T, Y>{running},
                                          TotalOfLeaf<T, Y>{running, totals});
    if (!leaves.any()) return;
    const std::int64_t step = chunk_leaves(row_size);
    const bool in_chunks = leaves.most() > step;
    const Scratch<E, CompensatedSum<A>> chunks(executor, in_chunks ? leaves.places() * row_size : 0);
    if (in_chunks) sum_up_chunks(executor, leaves, step, totals, chunks.data());
    for_each_leaf<Columns::own>(executor, leaves, row_size,
                                SumUpLeaf<T, Y>{running, totals, step, in_chunks ? chunks.data() : nullptr});
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

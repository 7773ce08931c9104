// SPDX-License-Identifier: Apache-2.0
/// @file
/// Running sums over Thrust: the totals of leaves of rows, what stands before each leaf, the sums inside the leaves.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/leaves.hpp>
#include <lod/kernels/thrust/row_sum.hpp>
#include <lod/ops/sequence_cumsum.hpp>
#include <lod/staging.hpp>
#include <lod/thrust_executor.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

/// The rows of at most a leaf in the direction of the sums, column by column; the order of the additions is that of the
/// CPU, where scalar rows are cut into groups.
template <class T>
struct RunningSums {
  using A = Accumulator<T>;

  const T* x;
  Segments sequences;
  std::int64_t row_size;
  bool exclusive;
  bool reverse;
  T* y;

  /// Calls write(place, sum) for each of `count` rows of sequence i from `begin` on, counted in the direction, and
  /// returns their total.
  template <class Write>
  LOD_HOST_DEVICE A run(std::int64_t i, std::int64_t begin, std::int64_t count, std::int64_t column,
                        const Write& write) const {
    const std::int64_t row = sequences.begin(i) + (reverse ? sequences.length(i) - 1 - begin : begin);
    const std::int64_t step = reverse ? -row_size : row_size;
    std::int64_t at = row * row_size + column;
    A total{};
    for (std::int64_t first = 0; first < count;) {
      const std::int64_t end = row_size == 1 ? least(first + cumsum_group_rows, count) : count;
      A group{};
      for (; first < end; ++first, at += step) {
        const A before = group;
        group = plus(before, static_cast<A>(x[at]));
        write(at, plus(total, exclusive ? before : group));
      }
      total = plus(total, group);
    }
    return total;
  }
};

/// The running sums of short sequences.
template <class T>
struct SumUpShort {
  RunningSums<T> running;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes&) const {
    T* const y = running.y;
    running.run(i, 0, running.sequences.length(i), column,
                [&](std::int64_t at, Accumulator<T> sum) { y[at] = static_cast<T>(sum); });
  }
};
/// The totals of the leaves of long ones.
template <class T>
struct TotalOfLeaf {
  RunningSums<T> running;
  CompensatedSum<Accumulator<T>>* totals;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes&) const {
    const Accumulator<T> total =
        running.run(leaf.sequence, leaf.first, leaf.rows, column, [](std::int64_t, Accumulator<T>) {});
    totals[place * running.row_size + column].sum = total;
  }
};
/// The running sums of the leaves of long ones, `before` being what stands before each.
template <class T>
struct SumUpLeaf {
  RunningSums<T> running;
  const CompensatedSum<Accumulator<T>>* before;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes&) const {
    using A = Accumulator<T>;
    const CompensatedSum<A> base = before[place * running.row_size + column];
    T* const y = running.y;
    running.run(leaf.sequence, leaf.first, leaf.rows, column,
                [&](std::int64_t at, A sum) { y[at] = static_cast<T>(plus(base.sum, plus(sum, base.error))); });
  }
};

/// Of `count` sums, `step` places from each other, each becomes what stands before it: `before` and those in front of
/// it. added(sum) is what is added of one.
template <class A, class Added>
LOD_HOST_DEVICE void put_what_stands_before(std::int64_t count, std::int64_t step, CompensatedSum<A> before,
                                            CompensatedSum<A>* sums, const Added& added) {
  using Number = decltype(added(*sums));
  CompensatedSum<A>* next = sums;
  add_in_order<Number>(
      count, [&](std::int64_t k) { return added(sums[k * step]); },
      [&](const Number& number) {
        *next = before;
        next += step;
        before.add(number);
      });
}

struct SequenceCumsum {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, bool exclusive,
                  bool reverse, T* y) {
    using A = Accumulator<T>;
    const RunningSums<T> running{x, sequences, row_size, exclusive, reverse, y};
    const Leaves leaves{sequences};
    const Scratch<E, CompensatedSum<A>> loan(executor, leaves.places() * row_size);
    CompensatedSum<A>* const sums = loan.data();
    // A column is one thread's: each of its sums waits for the one before it.
    for_each_short_and_leaf<Columns::own>(executor, sequences, row_size, SumUpShort<T>{running},
                                          TotalOfLeaf<T>{running, sums});
    if (!leaves.any()) return;
    const std::int64_t step = chunk_leaves(row_size);
    const bool in_chunks = leaves.most() > step;
    const Scratch<E, CompensatedSum<A>> chunk_loan(executor, in_chunks ? leaves.places() * row_size : 0);
    CompensatedSum<A>* const chunks = chunk_loan.data();
    if (in_chunks) {  // the sums of chunks, which become what stands before them
      for_each_element(
          executor, leaves.places(), row_size, [=] LOD_HOST_DEVICE(std::int64_t place, std::int64_t column) {
            const Leaf leaf = leaves.at(place);
            if (leaf.rows == 0 || leaf.number % step != 0) return;
            const std::int64_t at = place * row_size + column;
            CompensatedSum<A> all;
            add_in_order<A>(
                least(step, leaves.count(leaf.sequence) - leaf.number),
                [&](std::int64_t k) { return sums[at + k * row_size].sum; }, [&](A total) { all.add(total); });
            chunks[at] = all;
          });
      for_each_element(executor, leaves.places(), row_size,
                       [=] LOD_HOST_DEVICE(std::int64_t place, std::int64_t column) {
                         const Leaf leaf = leaves.at(place);
                         if (leaf.rows == 0 || leaf.number != 0) return;
                         put_what_stands_before((leaves.count(leaf.sequence) + step - 1) / step, step * row_size,
                                                CompensatedSum<A>(), chunks + place * row_size + column,
                                                [](const CompensatedSum<A>& chunk) { return chunk; });
                       });
    }
    // The totals become what stands before the leaves.
    for_each_element(executor, leaves.places(), row_size, [=] LOD_HOST_DEVICE(std::int64_t place, std::int64_t column) {
      const Leaf leaf = leaves.at(place);
      if (leaf.rows == 0 || leaf.number % step != 0) return;
      const std::int64_t at = place * row_size + column;
      put_what_stands_before(least(step, leaves.count(leaf.sequence) - leaf.number), row_size,
                             in_chunks ? chunks[at] : CompensatedSum<A>(), sums + at,
                             [](const CompensatedSum<A>& total) { return total.sum; });
    });
    for_each_short_and_leaf<Columns::own>(executor, sequences, row_size, LeaveOut(), SumUpLeaf<T>{running, sums});
  }
};

}  // namespace bulk

template <class Policy>
struct SequenceCumsum<ThrustExecutor<Policy>> : bulk::SequenceCumsum {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

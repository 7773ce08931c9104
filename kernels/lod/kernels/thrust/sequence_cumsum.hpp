// SPDX-License-Identifier: Apache-2.0
/// @file
/// Running sums over Thrust: the totals of leaves of rows, what stands before each leaf, the sums inside the leaves.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/row_sum.hpp>
#include <lod/ops/sequence_cumsum.hpp>
#include <lod/staging.hpp>
#include <lod/thrust_executor.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

/// One column of at most a leaf of rows, counted in the direction of the sums; the order of the additions is that of
/// the CPU, where scalar rows are cut into groups.
template <class T>
struct RunningSums {
  using A = Accumulator<T>;

  bool is_scalar;
  bool exclusive;

  /// Calls write(k, sum) for each row k of a leaf and returns their total. x[k * step] is the number of row k.
  template <class Write>
  LOD_HOST_DEVICE A run(const T* x, std::int64_t step, std::int64_t count, const Write& write) const {
    A total{};
    for (std::int64_t begin = 0; begin < count;) {
      const std::int64_t end = is_scalar ? least(begin + cumsum_group_rows, count) : count;
      A group{};
      for (std::int64_t k = begin; k < end; ++k) {
        const A before = group;
        group = plus(before, static_cast<A>(x[k * step]));
        write(k, plus(total, exclusive ? before : group));
      }
      total = plus(total, group);
      begin = end;
    }
    return total;
  }
};

struct SequenceCumsum {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, bool exclusive,
                  bool reverse, T* y) {
    using A = Accumulator<T>;
    const RunningSums<T> running{row_size == 1, exclusive};
    const std::int64_t step = reverse ? -row_size : row_size;
    if (sequences.max_rows <= leaf_rows) {
      for_each(executor, sequences.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
        const std::int64_t i = at / row_size, length = sequences.length(i);
        if (length == 0) return;  // there may be no row at all, and x be null
        const std::int64_t first = (sequences.begin(i) + (reverse ? length - 1 : 0)) * row_size + at % row_size;
        T* const to = y + first;
        running.run(x + first, step, length, [&](std::int64_t k, A sum) { to[k * step] = static_cast<T>(sum); });
      });
      return;
    }

    const Leaves leaves{sequences};
    const std::int64_t count = Leaves::count(sequences.size, sequences.rows()) * row_size;
    // The totals of all leaves, which then become what stands before them, with what was rounded away.
    const Scratch<E, A> sum_loan(executor, count), error_loan(executor, count);
    A* const sums = sum_loan.data();
    A* const errors = error_loan.data();
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t leaf = at / row_size, i = sequence_of_leaf(leaves, leaf), length = sequences.length(i);
      const std::int64_t begin = (leaf - leaves.first(i)) * leaf_rows;
      if (begin >= length) return;
      const std::int64_t row = sequences.begin(i) + (reverse ? length - 1 - begin : begin);
      const T* const from = x + row * row_size + at % row_size;
      sums[at] = running.run(from, step, least(length - begin, leaf_rows), [](std::int64_t, A) {});
    });
    for_each(executor, sequences.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t i = at / row_size, column = at % row_size;
      const std::int64_t end = leaves.first(i) + (sequences.length(i) + leaf_rows - 1) / leaf_rows;
      A sum{}, error{};
      for (std::int64_t leaf = leaves.first(i); leaf < end; ++leaf) {
        const std::int64_t here = leaf * row_size + column;
        const A total = sums[here];
        sums[here] = sum;
        errors[here] = error;
        add_compensated(sum, error, total);
      }
    });
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t leaf = at / row_size, i = sequence_of_leaf(leaves, leaf), length = sequences.length(i);
      const std::int64_t begin = (leaf - leaves.first(i)) * leaf_rows;
      if (begin >= length) return;
      const std::int64_t row = sequences.begin(i) + (reverse ? length - 1 - begin : begin);
      const std::int64_t first = row * row_size + at % row_size;
      const A base = sums[at], error = errors[at];
      T* const to = y + first;
      running.run(x + first, step, least(length - begin, leaf_rows),
                  [&](std::int64_t k, A sum) { to[k * step] = static_cast<T>(plus(base, plus(sum, error))); });
    });
  }
};

}  // namespace bulk

template <class Policy>
struct SequenceCumsum<ThrustExecutor<Policy>> : bulk::SequenceCumsum {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reductions by a user's function in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/ops/reduce_sequences.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// A number, or none yet.
template <class U>
struct NumberOrNone {
  U number;
  bool any;
};

/// Joins numbers by a user's function.
template <class U, class Op>
struct JoinNumbers {
  U initial;
  Op op;

  LOD_HOST_DEVICE NumberOrNone<U> nothing() const { return {initial, false}; }
  LOD_HOST_DEVICE NumberOrNone<U> operator()(const NumberOrNone<U>& a, const NumberOrNone<U>& b) const {
    if (!a.any) return b;
    if (!b.any) return a;
    return {op(a.number, b.number), true};
  }
  LOD_HOST_DEVICE U finished(const NumberOrNone<U>& all) const { return all.any ? op(initial, all.number) : initial; }
};

/// Reduces rows in one column, which lanes share. The result is that of the first lane.
template <class T, class U, class Op>
struct ReduceColumn {
  const T* x;
  Segments sequences;
  std::int64_t row_size;
  JoinNumbers<U, Op> join;

  template <class Lanes>
  LOD_HOST_DEVICE NumberOrNone<U> operator()(std::int64_t i, std::int64_t first, std::int64_t rows, std::int64_t column,
                                             const Lanes& lanes) const {
    const T* const from = x + (sequences.begin(i) + first) * row_size + column;
    const auto add = [&](NumberOrNone<U>& all, std::int64_t row, int) {
      all = join(all, {static_cast<U>(from[row * row_size]), true});
    };
    return lanes.template fold_rows<0>(rows, join.nothing(), add, join);
  }
};
template <class T, class U, class Op>
struct ReduceShort {
  ReduceColumn<T, U, Op> reduce;
  U* y;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes& lanes) const {
    const NumberOrNone<U> all = reduce(i, 0, reduce.sequences.length(i), column, lanes);
    if (lanes.is_first()) y[i * reduce.row_size + column] = reduce.join.finished(all);
  }
};
template <class T, class U, class Op>
struct ReduceLeaf {
  ReduceColumn<T, U, Op> reduce;
  LeafParts<NumberOrNone<U>> parts;
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes& lanes) const {
    const NumberOrNone<U> all = reduce(leaf.sequence, leaf.first, leaf.rows, column, lanes);
    if (lanes.is_first()) parts.put(place, column, all);
  }
};
template <class T, class U, class Op>
struct FinishReduction {
  ReduceColumn<T, U, Op> reduce;
  U* y;
  LOD_HOST_DEVICE void operator()(std::int64_t, std::int64_t i, std::int64_t column, const NumberOrNone<U>& all) const {
    y[i * reduce.row_size + column] = reduce.join.finished(all);
  }
};

template <>
struct Kernel<ReduceSequences> {
  template <class E, class T, class U, class Op>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, const U& initial,
                  const Op& op, U* y) {
    if (row_size == 0) return;
    const ReduceColumn<T, U, Op> reduce{x, sequences, row_size, {initial, op}};
    const Leaves leaves{sequences};
    const LeafScratch<E, NumberOrNone<U>> loan(executor, leaves, row_size);
    const LeafParts<NumberOrNone<U>> parts = loan.parts();
    for_each_short_and_leaf(executor, sequences, row_size, ReduceShort<T, U, Op>{reduce, y},
                            ReduceLeaf<T, U, Op>{reduce, parts});
    if (!leaves.any()) return;
    join_parts(executor, leaves, parts, reduce.join, FinishReduction<T, U, Op>{reduce, y});
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

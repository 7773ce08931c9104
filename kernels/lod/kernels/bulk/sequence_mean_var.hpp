// SPDX-License-Identifier: Apache-2.0
/// @file
/// Means and variances of sequences in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/lane.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/kernels/bulk/sequence_pool.hpp>
#include <lod/kernels/moments.hpp>
#include <lod/ops/sequence_mean_var.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// The arithmetic of moments.hpp for numbers.
struct NumberArithmetic {
  template <class A>
  LOD_HOST_DEVICE A product(A a, A b) const noexcept {
    return bulk::product(a, b);
  }
  template <class A>
  LOD_HOST_DEVICE A positive(A a) const noexcept {
    return a < 0 ? A{} : a;
  }
  template <class A>
  LOD_HOST_DEVICE A least(A a, A b) const noexcept {
    return bulk::least(a, b);
  }
  template <class A>
  LOD_HOST_DEVICE A greatest(A a, A b) const noexcept {
    return bulk::greatest(a, b);
  }
};

/// The moments of at most a leaf of rows; number(row) for row in [first, first + count). Valid for the first lane.
template <class A, class Lanes, class Number>
LOD_HOST_DEVICE Moments<A> moments_of_leaf(const Lanes& lanes, const Number& number, std::int64_t first,
                                           std::int64_t count) {
  const NumberArithmetic arithmetic;
  const auto row = [&](std::int64_t k) { return number(first + k); };
  const A shift = shift_of<A>(count, row, arithmetic);
  const auto term = [&](std::int64_t k) {
    const A distance = number(k) - shift;
    return Few<A, 2>{{distance, product(distance, distance)}};
  };
  const Few<A, 2> sums = sum_leaf<Few<A, 2>>(lanes, term, first, count);
  return leaf_moments(shift, sums.number[0], sums.number[1], static_cast<A>(count), arithmetic);
}

/// Calls finish(i, column, numbers) with the MeanVarNumbers of a column.
template <class A, class Number, class Finish>
LOD_HOST_DEVICE void finish_moments(const Finish& finish, std::int64_t i, std::int64_t column, const Moments<A>& all,
                                    std::int64_t rows, bool unbiased, const Number& number) {
  MeanVarNumbers<A> numbers = mean_var_of(all, static_cast<A>(squares_divisor(rows, unbiased)));
  if (!is_finite(numbers.mean) || !is_finite(numbers.variance)) {
    numbers = careful_mean_var<A>(number, rows, unbiased, NumberArithmetic());
  }
  finish(i, column, numbers);
}

/// The numbers of a column in the type in which they are computed.
template <class A, class Row>
struct ColumnOfRows {
  Row row;
  LOD_HOST_DEVICE A operator()(std::int64_t k) const { return static_cast<A>(row(k).number[0]); }
};

/// Means and variances of short sequences.
template <class T, class Finish>
struct MomentsOfShort {
  using A = Accumulator<T>;

  NumbersOfRow<T, 1> numbers;
  bool unbiased;
  Finish finish;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes& lanes) const {
    compute(i, column, numbers.sequences.length(i), lanes, term_of_row<Lanes>(numbers, i, column));
  }
  /// @{
  /// For scalar rows that can be staged.
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, int rows, const T* from, T*, const Lanes& lanes) const {
    compute(i, 0, rows, lanes, numbers.of_scalars(from));
  }
  static constexpr bool is_costly = true;
  const T* input() const noexcept { return numbers.scalars(); }
  static T* output() noexcept { return nullptr; }
  /// @}

 private:
  template <class Lanes, class Row>
  LOD_HOST_DEVICE void compute(std::int64_t i, std::int64_t column, std::int64_t rows, const Lanes& lanes,
                               const Row& row) const {
    if (rows == 0) {
      if (lanes.is_first()) finish(i, column, MeanVarNumbers<A>{});
      return;
    }
    const ColumnOfRows<A, Row> number{row};
    const Moments<A> all = moments_of_leaf<A>(lanes, number, 0, rows);
    if (lanes.is_first()) finish_moments(finish, i, column, all, rows, unbiased, number);
  }
};
/// The moments of the leaves of long sequences.
template <class T>
struct MomentsOfLeaf {
  using A = Accumulator<T>;

  NumbersOfRow<T, 1> numbers;
  LeafParts<Moments<A>> parts;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes& lanes) const {
    const auto row = term_of_row<Lanes>(numbers, leaf.sequence, column);
    const Moments<A> all = moments_of_leaf<A>(lanes, ColumnOfRows<A, decltype(row)>{row}, leaf.first, leaf.rows);
    if (lanes.is_first()) parts.put(place, column, all);
  }
};
/// Joins the leaves of long sequences: a thread joins the leaves of a chunk, and the last thread to finish joins the
/// chunks.
template <class T, class Finish>
struct JoinMoments {
  using A = Accumulator<T>;

  NumbersOfRow<T, 1> numbers;
  Leaves leaves;
  LeafParts<Moments<A>> parts;
  std::int64_t step;  ///< the leaves of a chunk
  bool unbiased;
  Finish finish;

  LOD_HOST_DEVICE void operator()(std::int64_t place, std::int64_t column) const {
    const Leaf leaf = leaves.at(place);
    if (leaf.rows == 0 || leaf.number % step != 0) return;
    const std::int64_t rows = leaves.sequences.length(leaf.sequence), count = leaves.count(leaf.sequence);
    const std::int64_t first = place - leaf.number, chunks = (count + step - 1) / step;
    Moments<A> all = join(first, leaf.number, least(leaf.number + step, count), 1, rows, column);
    if (chunks > 1) {
      parts.of(place, column) = all;
      if (!comes_last(parts.counter(first, column), chunks)) return;
      all = join(first, 0, count, step, rows, column);
    }
    const auto row = term_of_row<LaneAlone>(numbers, leaf.sequence, column);
    finish_moments(finish, leaf.sequence, column, all, rows, unbiased, ColumnOfRows<A, decltype(row)>{row});
  }

 private:
  /// The moments at every `apart`-th leaf of [begin, end), each of which covers `apart` leaves, joined.
  LOD_HOST_DEVICE Moments<A> join(std::int64_t first, std::int64_t begin, std::int64_t end, std::int64_t apart,
                                  std::int64_t rows, std::int64_t column) const {
    Moments<A> all = parts.of(first + begin, column);
    for (std::int64_t k = begin + apart; k < end; k += apart) {
      const std::int64_t before = (k - begin) * leaf_rows, stop = least((k + apart) * leaf_rows, rows);
      join_moments<A>(all, before, parts.of(first + k, column), stop - k * leaf_rows, NumberArithmetic());
    }
    return all;
  }
};

/// Calls finish(i, column, numbers) for each column of each sequence; for an empty sequence, the numbers are 0.
template <class E, class T, class Finish>
void mean_var_of_sequences(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                           bool unbiased, const Finish& finish) {
  using A = Accumulator<T>;
  if (sequences.size == 0 || row_size == 0) return;
  const NumbersOfRow<T, 1> numbers{x, sequences, row_size};
  const Leaves leaves{sequences};
  const LeafScratch<E, Moments<A>> moments(executor, leaves, row_size);
  for_each_short_and_leaf(executor, sequences, row_size, MomentsOfShort<T, Finish>{numbers, unbiased, finish},
                          MomentsOfLeaf<T>{numbers, moments.parts()});
  if (!leaves.any()) return;
  for_each_element(executor, leaves.places(), row_size,
                   JoinMoments<T, Finish>{numbers, leaves, moments.parts(), chunk_leaves(row_size), unbiased, finish});
}

template <>
struct Kernel<SequenceMeanVar> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, bool unbiased,
                  T* mean, T* variance) {
    using A = Accumulator<T>;
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column, const MeanVarNumbers<A>& numbers) {
      mean[i * row_size + column] = static_cast<T>(numbers.mean);
      variance[i * row_size + column] = static_cast<T>(numbers.variance);
    };
    mean_var_of_sequences(executor, x, sequences, row_size, unbiased, write);
  }
};

template <>
struct Kernel<SequenceMeanVarGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dmean, const T* dvariance, const T* x, const Segments& sequences,
                  std::int64_t row_size, bool unbiased, T* dx) {
    using A = Accumulator<T>;
    const std::int64_t columns = sequences.rows() > 0 ? row_size : 0;
    const Scratch<E, Few<A, 2>> scratch(executor, sequences.size * columns);
    Few<A, 2>* const means = scratch.data();
    const auto keep = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column, const MeanVarNumbers<A>& numbers) {
      means[i * row_size + column] = {{numbers.mean, numbers.mean_error}};
    };
    mean_var_of_sequences(executor, x, sequences, columns, unbiased, keep);
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t at = row * row_size + column, of_sequence = i * row_size + column,
                         length = sequences.length(i);
      const Few<A, 2> mean = means[of_sequence];
      const A dy = static_cast<A>(dmean[of_sequence]), dz = static_cast<A>(dvariance[of_sequence]);
      const A number = static_cast<A>(x[at]), share = dy / static_cast<A>(length);
      const A factor = product(dz, A{2} / static_cast<A>(squares_divisor(length, unbiased)));
      const A plain = share + product(factor, (number - mean.number[0]) - mean.number[1]);
      dx[at] = static_cast<T>(
          careful_mean_var_gradient(plain, dy, dz, number, mean.number[0], mean.number[1], length, unbiased));
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Softmax over Thrust.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/row_sum.hpp>
#include <lod/ops/sequence_softmax.hpp>
#include <lod/staging.hpp>
#include <lod/thrust_executor.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

// Outside of functions, because those of numeric_limits are the host's.
template <class A>
inline constexpr A least_normal = std::numeric_limits<A>::min();
template <class A>
inline constexpr A negative_infinity = -std::numeric_limits<A>::infinity();

/// e^x; 0 where that is no normal number, as the softmax promises.
template <class A>
LOD_HOST_DEVICE A exponential(A x) {
  const A y = std::exp(x);
  return y < least_normal<A> ? A{} : y;
}

/// The greatest number of one column of `count` rows; -inf where there is none. NaN is passed over: it makes the sum of
/// the exponentials NaN.
template <class T>
LOD_HOST_DEVICE Accumulator<T> column_maximum(const T* x, std::int64_t count, std::int64_t row_size) {
  Accumulator<T> maximum = negative_infinity<Accumulator<T>>;
  for (std::int64_t row = 0; row < count; ++row) {
    maximum = greatest(maximum, static_cast<Accumulator<T>>(x[row * row_size]));
  }
  return maximum;
}

/// The maxima of narrow rows by lanes: of `count` sequences, or leaves of them, number `number` being column
/// number % row_size of one; `rows_of` says where it begins and how many rows it has, `maxima` is where they go.
template <class T, class RowsOf>
struct NarrowMaxima {
  using A = Accumulator<T>;
  const T* x;
  std::int64_t row_size;
  RowsOf rows_of;
  A* maxima;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t number, const Lanes& lanes) const {
    const auto [first, count] = rows_of(number / row_size);
    const std::int64_t begin = first * row_size + number % row_size, rows = count;
    const A maximum = lanes.template fold<A>(
        [&](int lane) {
          A most = negative_infinity<A>;
          for (std::int64_t row = lane; row < rows; row += lanes_at_a_time) {
            most = greatest(most, static_cast<A>(x[begin + row * row_size]));
          }
          return most;
        },
        [](A a, A b) { return greatest(a, b); });
    if (lanes.is_first()) maxima[number] = maximum;
  }
};
/// Rows of a batch, side by side.
struct RowRange {
  std::int64_t first, count;
};
struct RowsOfSequence {
  Segments sequences;
  LOD_HOST_DEVICE RowRange operator()(std::int64_t i) const noexcept {
    return {sequences.begin(i), sequences.length(i)};
  }
};
/// None for a number that is no leaf's.
struct RowsOfLeaf {
  Leaves leaves;
  LOD_HOST_DEVICE RowRange operator()(std::int64_t leaf) const noexcept {
    const Segments& sequences = leaves.sequences;
    const std::int64_t i = sequence_of_leaf(leaves, leaf), first = (leaf - leaves.first(i)) * leaf_rows;
    return {sequences.begin(i) + first, greatest<std::int64_t>(least(sequences.length(i) - first, leaf_rows), 0)};
  }
};

/// The maximum of each column of each sequence: maxima[i * row_size + column].
template <class E, class T>
void column_maxima(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                   Accumulator<T>* maxima) {
  using A = Accumulator<T>;
  const bool narrow = row_size <= narrow_row_size;
  if (sequences.max_rows <= leaf_rows) {
    const RowsOfSequence rows_of{sequences};
    if (narrow) {
      for_each_by_lanes(executor, sequences.size * row_size,
                        NarrowMaxima<T, RowsOfSequence>{x, row_size, rows_of, maxima});
      return;
    }
    for_each_element(executor, sequences.size, row_size, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column) {
      const RowRange rows = rows_of(i);
      // Where there is no row at all, x may be null.
      maxima[i * row_size + column] = rows.count == 0
                                          ? negative_infinity<A>
                                          : column_maximum(x + rows.first * row_size + column, rows.count, row_size);
    });
    return;
  }
  const std::int64_t count = Leaves::count(sequences.size, sequences.rows());
  const Scratch<E, A> loan(executor, count * row_size);
  A* const of_leaves = loan.data();
  const Leaves leaves{sequences};
  const RowsOfLeaf rows_of{leaves};
  if (narrow) {
    for_each_by_lanes(executor, count * row_size, NarrowMaxima<T, RowsOfLeaf>{x, row_size, rows_of, of_leaves});
  } else {
    for_each_element(executor, count, row_size, [=] LOD_HOST_DEVICE(std::int64_t leaf, std::int64_t column) {
      const RowRange rows = rows_of(leaf);
      if (rows.count == 0) return;
      of_leaves[leaf * row_size + column] = column_maximum(x + rows.first * row_size + column, rows.count, row_size);
    });
  }
  for_each_element(executor, sequences.size, row_size, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column) {
    const A* const leaf = of_leaves + leaves.first(i) * row_size + column;
    maxima[i * row_size + column] = column_maximum(leaf, (sequences.length(i) + leaf_rows - 1) / leaf_rows, row_size);
  });
}

/// What is subtracted from a column: its maximum; 0 for a column of -inf, so that its exponentials are 0.
template <class A>
LOD_HOST_DEVICE A softmax_shift(A maximum) {
  return maximum == negative_infinity<A> ? A{} : maximum;
}

struct SequenceSoftmax {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, bool logarithm,
                  T* y) {
    using A = Accumulator<T>;
    const std::int64_t rows = sequences.rows();
    const Scratch<E, A> shift_loan(executor, sequences.size * row_size);
    const Scratch<E, A> normaliser_loan(executor, sequences.size * row_size);
    A* const shifts = shift_loan.data();
    A* const normalisers = normaliser_loan.data();
    column_maxima(executor, x, sequences, row_size, shifts);
    sum_sequences<A>(
        executor, sequences, rows, row_size,
        [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
          const A number = static_cast<A>(x[(sequences.begin(i) + row) * row_size + column]);
          return exponential(number - softmax_shift(shifts[i * row_size + column]));
        },
        [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column, A sum) {
          // The sum is 0 for a column of -inf only.
          const A normaliser = logarithm ? (sum == A{} ? A{} : std::log(sum)) : (sum == A{} ? A{1} : sum);
          normalisers[i * row_size + column] = normaliser;
        });
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t at = row * row_size + column, of = i * row_size + column;
      const A shifted = static_cast<A>(x[at]) - softmax_shift(shifts[of]), normaliser = normalisers[of];
      y[at] = static_cast<T>(logarithm ? shifted - normaliser : exponential(shifted) / normaliser);
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

struct SequenceSoftmaxGrad {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const T* y, const Segments& sequences, std::int64_t row_size,
                  bool logarithm, T* dx) {
    using A = Accumulator<T>;
    const std::int64_t rows = sequences.rows();
    const Scratch<E, A> loan(executor, sequences.size * row_size);
    A* const sums = loan.data();
    sum_sequences<A>(
        executor, sequences, rows, row_size,
        [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
          const std::int64_t at = (sequences.begin(i) + row) * row_size + column;
          return logarithm ? static_cast<A>(dy[at]) : static_cast<A>(dy[at]) * static_cast<A>(y[at]);
        },
        [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column, A sum) { sums[i * row_size + column] = sum; });
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t at = row * row_size + column;
      const A sum = sums[i * row_size + column];
      const A gradient = static_cast<A>(dy[at]), result = static_cast<A>(y[at]);
      dx[at] = static_cast<T>(logarithm ? gradient - exponential(result) * sum : (gradient - sum) * result);
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

}  // namespace bulk

template <class Policy>
struct SequenceSoftmax<ThrustExecutor<Policy>> : bulk::SequenceSoftmax {};
template <class Policy>
struct SequenceSoftmaxGrad<ThrustExecutor<Policy>> : bulk::SequenceSoftmaxGrad {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

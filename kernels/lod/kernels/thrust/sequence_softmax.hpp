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

/// The maximum of each column of each sequence: maxima[i * row_size + column].
template <class E, class T>
void column_maxima(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                   Accumulator<T>* maxima) {
  using A = Accumulator<T>;
  if (sequences.max_rows <= leaf_rows) {
    for_each(executor, sequences.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t i = at / row_size, length = sequences.length(i);
      // Where there is no row at all, x may be null.
      maxima[at] = length == 0 ? negative_infinity<A>
                               : column_maximum(x + sequences.begin(i) * row_size + at % row_size, length, row_size);
    });
    return;
  }
  const std::int64_t count = Leaves::count(sequences.size, sequences.rows());
  const Scratch<E, A> loan(executor, count * row_size);
  A* const of_leaves = loan.data();
  const Leaves leaves{sequences};
  for_each(executor, count * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
    const std::int64_t leaf = at / row_size, i = sequence_of_leaf(leaves, leaf);
    const std::int64_t first = (leaf - leaves.first(i)) * leaf_rows, length = sequences.length(i);
    if (first >= length) return;
    const T* const column = x + (sequences.begin(i) + first) * row_size + at % row_size;
    of_leaves[at] = column_maximum(column, least(length - first, leaf_rows), row_size);
  });
  for_each(executor, sequences.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
    const std::int64_t i = at / row_size;
    const A* const column = of_leaves + leaves.first(i) * row_size + at % row_size;
    maxima[at] = column_maximum(column, (sequences.length(i) + leaf_rows - 1) / leaf_rows, row_size);
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
    for_each(executor, rows * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t column = sequence_of(sequences, at / row_size) * row_size + at % row_size;
      const A shifted = static_cast<A>(x[at]) - softmax_shift(shifts[column]), normaliser = normalisers[column];
      y[at] = static_cast<T>(logarithm ? shifted - normaliser : exponential(shifted) / normaliser);
    });
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
    for_each(executor, rows * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const A sum = sums[sequence_of(sequences, at / row_size) * row_size + at % row_size];
      const A gradient = static_cast<A>(dy[at]), result = static_cast<A>(y[at]);
      dx[at] = static_cast<T>(logarithm ? gradient - exponential(result) * sum : (gradient - sum) * result);
    });
  }
};

}  // namespace bulk

template <class Policy>
struct SequenceSoftmax<ThrustExecutor<Policy>> : bulk::SequenceSoftmax {};
template <class Policy>
struct SequenceSoftmaxGrad<ThrustExecutor<Policy>> : bulk::SequenceSoftmaxGrad {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

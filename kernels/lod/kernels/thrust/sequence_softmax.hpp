// SPDX-License-Identifier: Apache-2.0
/// @file
/// Softmax over Thrust.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/lane.hpp>
#include <lod/kernels/thrust/lanes.hpp>
#include <lod/kernels/thrust/leaves.hpp>
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

/// The greater of two numbers; -inf where there is none. NaN is passed over: it makes sums of exponentials NaN.
template <class A>
struct Greatest {
  LOD_HOST_DEVICE A nothing() const { return negative_infinity<A>; }
  LOD_HOST_DEVICE A operator()(A a, A b) const { return greatest(a, b); }
};

/// A column of some rows, as lanes go through it. If there are `kept` at most, they are read once and stay in
/// registers; else they are read again and again, from a cache.
template <class T, class Lanes, int kept>
class ColumnRows {
  using A = Accumulator<T>;

 public:
  /// x[row * row_size] is the number of a row.
  LOD_HOST_DEVICE ColumnRows(const Lanes& lanes, const T* x, std::int64_t rows, std::int64_t row_size)
      : lanes_(lanes), x_(x), rows_(rows), row_size_(row_size) {
    if constexpr (kept > 0) {
      lanes.template for_each_row<kept>(
          rows, [&](std::int64_t row, int k) { kept_.of(k) = static_cast<A>(x[row * row_size]); });
    }
  }

  /// Calls f(row, number) for each row.
  template <class F>
  LOD_HOST_DEVICE void for_each(const F& f) const {
    lanes_.template for_each_row<kept>(rows_, [&](std::int64_t row, int k) { f(row, number(row, k)); });
  }
  /// The greatest number, for the first lane.
  LOD_HOST_DEVICE A maximum() const {
    const Greatest<A> greater;
    const auto take = [&](A& most, std::int64_t row, int k) { most = greater(most, number(row, k)); };
    return lanes_.template fold_rows<kept>(rows_, greater.nothing(), take, greater);
  }
  /// The sum of term(row, number) by the tree of a leaf, for the first lane.
  template <class Term>
  LOD_HOST_DEVICE A sum(const Term& term) const {
    if constexpr (kept > 0) {
      const auto add = [&](A& sum, std::int64_t row, int k) { sum = plus(sum, term(row, number(row, k))); };
      return lanes_.template fold_rows<kept>(rows_, A{}, add, [](A a, A b) { return plus(a, b); });
    } else {
      return sum_leaf<A>(
          lanes_, [&](std::int64_t row) { return term(row, number(row, 0)); }, 0, rows_);
    }
  }

 private:
  LOD_HOST_DEVICE A number(std::int64_t row, int k) const {
    if constexpr (kept > 0) {
      return kept_.of(k);
    } else {
      return static_cast<A>(x_[row * row_size_]);
    }
  }

  const Lanes& lanes_;
  const T* x_;
  std::int64_t rows_;
  std::int64_t row_size_;
  typename Lanes::template Kept<A, (kept > 0 ? kept : lanes_at_a_time)> kept_;
};

/// Calls f(column) with the ColumnRows of some rows.
template <class T, class Lanes, class F>
LOD_HOST_DEVICE void with_column(const Lanes& lanes, const T* x, std::int64_t rows, std::int64_t row_size, const F& f) {
  constexpr int kept = 4 * lanes_at_a_time;
  if constexpr (Lanes::count > 1) {
    if (rows <= kept) return f(ColumnRows<T, Lanes, kept>(lanes, x, rows, row_size));
  }
  f(ColumnRows<T, Lanes, 0>(lanes, x, rows, row_size));
}

/// What some rows of a column are to a sum of exponentials: their maximum, and the sum of their exponentials, shifted
/// by the maximum where that is a finite number.
template <class A>
struct ExponentialSum {
  A maximum;
  A sum;
};
/// What is subtracted from a column before its exponentials are added up: its maximum, where that is a finite number.
/// Else the exponentials are 0 or infinite, and so is their sum.
template <class A>
LOD_HOST_DEVICE A finite_shift(A maximum) {
  return maximum - maximum == A{} ? maximum : A{};
}
template <class A>
struct JoinExponentials {
  LOD_HOST_DEVICE ExponentialSum<A> nothing() const { return {negative_infinity<A>, A{}}; }
  LOD_HOST_DEVICE ExponentialSum<A> operator()(const ExponentialSum<A>& a, const ExponentialSum<A>& b) const {
    const A maximum = greatest(a.maximum, b.maximum);
    return {maximum, plus(shifted(a, maximum), shifted(b, maximum))};
  }

 private:
  /// The sum, shifted by `maximum`. It is 0 or NaN where there is nothing but -inf and NaN.
  static LOD_HOST_DEVICE A shifted(const ExponentialSum<A>& part, A maximum) {
    if (part.maximum == negative_infinity<A> || maximum - maximum != A{}) return part.sum;
    return product(part.sum, exponential(part.maximum - maximum));
  }
};

/// The exponential sums of leaves.
template <class T>
struct ExponentialsOfLeaf {
  using A = Accumulator<T>;

  const T* x;
  Segments sequences;
  std::int64_t row_size;
  ExponentialSum<A>* parts;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes& lanes) const {
    const T* const first = x + (sequences.begin(leaf.sequence) + leaf.first) * row_size + column;
    const ColumnRows<T, Lanes, 0> numbers(lanes, first, leaf.rows, row_size);
    const A maximum = lanes.shared(numbers.maximum()), shift = finite_shift(maximum);
    const A sum = numbers.sum([&](std::int64_t, A number) { return exponential(number - shift); });
    if (lanes.is_first()) parts[place * row_size + column] = {maximum, sum};
  }
};
/// Calls of_short(i, column, lanes) for each column of each sequence that is not long, and finish(place, i, column,
/// total) for each column of each of the others, `place` being that of its first leaf. Reads x once, but for a leaf
/// that is in a cache.
template <class E, class T, class Short, class Finish>
void sum_exponentials(const E& executor, const T* x, const Leaves& leaves, std::int64_t row_size, const Short& of_short,
                      const Finish& finish) {
  using A = Accumulator<T>;
  const Scratch<E, ExponentialSum<A>> loan(executor, leaves.places() * row_size);
  for_each_short_and_leaf(executor, leaves.sequences, row_size, of_short,
                          ExponentialsOfLeaf<T>{x, leaves.sequences, row_size, loan.data()});
  if (leaves.any()) join_parts(executor, leaves, row_size, loan.data(), JoinExponentials<A>(), finish);
}

/// What is subtracted from a column: its maximum; 0 for a column of -inf, so that its exponentials are 0.
template <class A>
LOD_HOST_DEVICE A softmax_shift(A maximum) {
  return maximum == negative_infinity<A> ? A{} : maximum;
}
/// What exponentials are divided by, or what is subtracted from logarithms; the sum is 0 for a column of -inf only.
template <class A>
LOD_HOST_DEVICE A softmax_normaliser(bool logarithm, A sum) {
  return logarithm ? (sum == A{} ? A{} : std::log(sum)) : (sum == A{} ? A{1} : sum);
}
template <class A>
struct SoftmaxScale {
  A shift;
  A normaliser;
};
template <class T, class A>
LOD_HOST_DEVICE T softmax(bool logarithm, A shifted, A normaliser) {
  return static_cast<T>(logarithm ? shifted - normaliser : exponential(shifted) / normaliser);
}

/// The softmax of short sequences, which are read once.
template <class T>
struct SoftmaxOfShort {
  using A = Accumulator<T>;

  const T* x;
  Segments sequences;
  std::int64_t row_size;
  bool logarithm;
  T* y;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes& lanes) const {
    const std::int64_t first = sequences.begin(i) * row_size + column, rows = sequences.length(i);
    if (rows == 0) return;  // there may be no row at all, and x be null
    with_column(lanes, x + first, rows, row_size, [&](const auto& numbers) {
      const A shift = softmax_shift(lanes.shared(numbers.maximum()));
      const A sum = numbers.sum([&](std::int64_t, A number) { return exponential(number - shift); });
      const A normaliser = softmax_normaliser(logarithm, lanes.shared(sum));
      numbers.for_each([&](std::int64_t row, A number) {
        y[first + row * row_size] = softmax<T>(logarithm, number - shift, normaliser);
      });
    });
  }
};
/// Calls write(i, row, column) for the rows of leaves, counted from the start of the batch.
template <class Write>
struct WriteLeaf {
  Segments sequences;
  Write write;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t, const Leaf& leaf, std::int64_t column, const Lanes& lanes) const {
    const std::int64_t first = sequences.begin(leaf.sequence) + leaf.first;
    lanes.template for_each_row<0>(leaf.rows,
                                   [&](std::int64_t row, int) { write(leaf.sequence, first + row, column); });
  }
};

struct SequenceSoftmax {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, bool logarithm,
                  T* y) {
    using A = Accumulator<T>;
    const Leaves leaves{sequences};
    // Of a long sequence, at the place of its first leaf.
    const Scratch<E, SoftmaxScale<A>> loan(executor, leaves.places() * row_size);
    SoftmaxScale<A>* const scales = loan.data();
    sum_exponentials(
        executor, x, leaves, row_size, SoftmaxOfShort<T>{x, sequences, row_size, logarithm, y},
        [=] LOD_HOST_DEVICE(std::int64_t place, std::int64_t, std::int64_t column, const ExponentialSum<A>& total) {
          const A shift = softmax_shift(total.maximum);
          // With an infinite number, all of the softmax is NaN.
          scales[place * row_size + column] = {shift, softmax_normaliser(logarithm, plus(total.sum, shift - shift))};
        });
    if (!leaves.any()) return;
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t at = row * row_size + column;
      const SoftmaxScale<A> scale = scales[leaves.first(i) * row_size + column];
      y[at] = softmax<T>(logarithm, static_cast<A>(x[at]) - scale.shift, scale.normaliser);
    };
    for_each_short_and_leaf(executor, sequences, row_size, LeaveOut(), WriteLeaf<decltype(write)>{sequences, write});
  }
};

template <class T, class A>
LOD_HOST_DEVICE T softmax_grad(bool logarithm, A gradient, A result, A sum) {
  return static_cast<T>(logarithm ? gradient - exponential(result) * sum : (gradient - sum) * result);
}

/// The gradients of short sequences, which are read once.
template <class T>
struct SoftmaxGradOfShort {
  using A = Accumulator<T>;

  const T* dy;
  const T* y;
  Segments sequences;
  std::int64_t row_size;
  bool logarithm;
  T* dx;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes& lanes) const {
    const std::int64_t first = sequences.begin(i) * row_size + column, rows = sequences.length(i);
    if (rows == 0) return;
    const auto result = [&](std::int64_t row) { return static_cast<A>(y[first + row * row_size]); };
    with_column(lanes, dy + first, rows, row_size, [&](const auto& gradients) {
      const A sum = lanes.shared(gradients.sum(
          [&](std::int64_t row, A gradient) { return logarithm ? gradient : product(gradient, result(row)); }));
      gradients.for_each([&](std::int64_t row, A gradient) {
        dx[first + row * row_size] = softmax_grad<T>(logarithm, gradient, result(row), sum);
      });
    });
  }
};

struct SequenceSoftmaxGrad {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const T* y, const Segments& sequences, std::int64_t row_size,
                  bool logarithm, T* dx) {
    using A = Accumulator<T>;
    const Leaves leaves{sequences};
    const Scratch<E, A> loan(executor, leaves.places() * row_size);
    A* const sums = loan.data();
    sum_sequences<A>(
        executor, sequences, row_size, SoftmaxGradOfShort<T>{dy, y, sequences, row_size, logarithm, dx},
        [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
          const std::int64_t at = (sequences.begin(i) + row) * row_size + column;
          return logarithm ? static_cast<A>(dy[at]) : product(static_cast<A>(dy[at]), static_cast<A>(y[at]));
        },
        [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column, A sum) {
          sums[leaves.first(i) * row_size + column] = sum;
        });
    if (!leaves.any()) return;
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t at = row * row_size + column;
      const A sum = sums[leaves.first(i) * row_size + column];
      dx[at] = softmax_grad<T>(logarithm, static_cast<A>(dy[at]), static_cast<A>(y[at]), sum);
    };
    for_each_short_and_leaf(executor, sequences, row_size, LeaveOut(), WriteLeaf<decltype(write)>{sequences, write});
  }
};

}  // namespace bulk

template <class Policy>
struct SequenceSoftmax<ThrustExecutor<Policy>> : bulk::SequenceSoftmax {};
template <class Policy>
struct SequenceSoftmaxGrad<ThrustExecutor<Policy>> : bulk::SequenceSoftmaxGrad {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

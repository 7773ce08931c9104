// SPDX-License-Identifier: Apache-2.0
/// @file
/// Softmax in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/kernels/bulk/lane.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/bulk/leaves.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/ops/sequence_softmax.hpp>
#include <lod/ops/staging.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

// A constant, because device code cannot call the functions of numeric_limits.
template <class A>
inline constexpr A least_normal = std::numeric_limits<A>::min();
template <class A>
inline constexpr A negative_infinity = -std::numeric_limits<A>::infinity();

/// e^x; 0 if that is not a normal number, as the softmax promises.
template <class A>
LOD_HOST_DEVICE A exponential(A x) {
  const A y = std::exp(x);
  return y < least_normal<A> ? A{} : y;
}

/// The greater of two numbers; -inf if there is none. NaN is skipped: it makes the sums of exponentials NaN anyway.
template <class A>
struct Greatest {
  LOD_HOST_DEVICE A nothing() const { return negative_infinity<A>; }
  LOD_HOST_DEVICE A operator()(A a, A b) const { return greatest(a, b); }
};

/// A column of at most a leaf of rows, `count` adjacent numbers wide, as lanes process it. If there are at most `kept`
/// rows, they are read once and stay in registers; otherwise they are reread, from a cache.
template <class T, std::size_t count, class Lanes, int kept>
class ColumnRows {
  using Numbers = Few<Accumulator<T>, count>;
  // Rows whose columns lanes share are narrow.
  using Offset = std::conditional_t<(Lanes::count > 1), std::int32_t, std::int64_t>;

 public:
  static constexpr bool keeps = kept > 0;

  /// x[row * row_size] is the first number of a row.
  LOD_HOST_DEVICE ColumnRows(const Lanes& lanes, const T* x, std::int64_t rows, std::int64_t row_size)
      : lanes_(lanes), rows_(static_cast<int>(rows)), row_size_(static_cast<Offset>(row_size)), x_(start(x)) {
    if constexpr (keeps) {
      lanes.template for_each_place<kept>(rows_, [&](int row, int k) {
        Numbers& numbers = kept_.of(k);
        if (row < rows_) {
          numbers = read(offset(row, k));
        } else {
          for (auto& number : numbers.number) number = negative_infinity<Accumulator<T>>;
        }
      });
    }
  }

  /// The origin of row offsets, for rows that begin at `first`: with kept rows, the thread's first row, if there is
  /// one, so that its other rows follow at steps that the compiler knows.
  template <class Number>
  LOD_HOST_DEVICE Number* start(Number* first) const {
    if constexpr (keeps) {
      const int row = lanes_.first_row();
      return first + (row < rows_ ? static_cast<Offset>(row) * row_size_ : Offset{});
    } else {
      return first;
    }
  }
  /// Calls f(offset, numbers) for each row.
  template <class F>
  LOD_HOST_DEVICE void for_each(const F& f) const {
    lanes_.template for_each_row<kept>(rows_, [&](int row, int k) { f(offset(row, k), numbers(row, k)); });
  }
  /// The greatest numbers, for the first lane.
  LOD_HOST_DEVICE Numbers maximum() const {
    const JoinEach<Greatest<Accumulator<T>>, count> greater;
    const auto take = [&](Numbers& most, int row, int k) { most = greater(most, numbers(row, k)); };
    if constexpr (keeps) {
      return lanes_.template fold_places<kept>(rows_, greater.nothing(), take, greater);
    } else {
      return lanes_.template fold_rows<0>(rows_, greater.nothing(), take, greater);
    }
  }
  /// The sums of term(offset, numbers) by the tree of a leaf, for the first lane.
  template <class Term>
  LOD_HOST_DEVICE Numbers sum(const Term& term) const {
    if constexpr (keeps) {
      const auto add = [&](Numbers& sum, int row, int k) { sum = plus(sum, term(offset(row, k), numbers(row, k))); };
      return lanes_.template fold_rows<kept>(rows_, Numbers{}, add, Plus());
    } else {
      return sum_leaf<Numbers>(
          lanes_,
          [&](std::int64_t in_leaf) {
            const Offset at = offset(static_cast<int>(in_leaf), 0);
            return term(at, read(at));
          },
          0, rows_);
    }
  }
  /// The same for term(numbers), which is 0 for -inf; kept numbers are replaced by next(numbers, their term).
  template <class Term, class Next>
  LOD_HOST_DEVICE Numbers sum(const Term& term, const Next& next) {
    if constexpr (keeps) {
      const auto add = [&](Numbers& sum, int, int k) {
        Numbers& numbers = kept_.of(k);
        const Numbers added = term(numbers);
        numbers = next(numbers, added);
        sum = plus(sum, added);
      };
      return lanes_.template fold_places<kept>(rows_, Numbers{}, add, Plus());
    } else {
      return sum([&](Offset, const Numbers& numbers) { return term(numbers); });
    }
  }

 private:
  struct Plus {
    LOD_HOST_DEVICE Numbers operator()(const Numbers& a, const Numbers& b) const { return plus(a, b); }
  };
  LOD_HOST_DEVICE Offset offset(int row, int k) const {
    return keeps ? static_cast<Offset>(k * Lanes::row_step) * row_size_ : static_cast<Offset>(row) * row_size_;
  }
  LOD_HOST_DEVICE Numbers read(Offset offset) const { return converted<Accumulator<T>>(read_few<count>(x_ + offset)); }
  LOD_HOST_DEVICE Numbers numbers(int row, int k) const {
    if constexpr (keeps) {
      return kept_.of(k);
    } else {
      return read(offset(row, k));
    }
  }

  const Lanes& lanes_;
  int rows_;
  Offset row_size_;
  const T* x_;
  typename Lanes::template Kept<Numbers, (keeps ? kept : lanes_at_a_time)> kept_;
};

/// Calls f(column) with the ColumnRows of some rows.
template <std::size_t count, class T, class Lanes, class F>
LOD_HOST_DEVICE void with_column(const Lanes& lanes, const T* x, std::int64_t rows, std::int64_t row_size, const F& f) {
  // Each of four threads keeps 16 words: with more, the registers would be enough for too few threads.
  constexpr int kept = (sizeof(Accumulator<T>) > sizeof(float) ? 2 : 4) * lanes_at_a_time;
  if constexpr (Lanes::count > 1) {
    if (rows <= kept) {
      ColumnRows<T, count, Lanes, kept> all(lanes, x, rows, row_size);
      return f(all);
    }
  }
  ColumnRows<T, count, Lanes, 0> all(lanes, x, rows, row_size);
  f(all);
}

/// The contribution of some rows of a column to a sum of exponentials: their maximum, and the sum of their
/// exponentials, shifted by the maximum if that is finite.
template <class A>
struct ExponentialSum {
  A maximum;
  A sum;
};
/// What is subtracted from a column before its exponentials are added up: its maximum, if that is finite. Otherwise the
/// exponentials are 0 or infinite, and so is their sum.
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
  /// The sum, shifted by `maximum`. It is 0 or NaN if all numbers are -inf or NaN.
  static LOD_HOST_DEVICE A shifted(const ExponentialSum<A>& part, A maximum) {
    if (part.maximum == negative_infinity<A> || maximum - maximum != A{}) return part.sum;
    return product(part.sum, exponential(part.maximum - maximum));
  }
};

/// The exponentials of numbers, each shifted by a number of its own.
struct ShiftedExponential {
  template <class A>
  LOD_HOST_DEVICE A operator()(A number, A shift) const {
    return exponential(number - shift);
  }
};

/// Computes the exponential sums of leaves.
template <class T, std::size_t count>
struct ExponentialsOfLeaf {
  using A = Accumulator<T>;

  const T* x;
  Segments sequences;
  std::int64_t row_size;
  LeafParts<Few<ExponentialSum<A>, count>> parts;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes& lanes) const {
    constexpr auto side_by_side = static_cast<std::int64_t>(count);
    const T* const first = x + (sequences.begin(leaf.sequence) + leaf.first) * row_size + column * side_by_side;
    const ColumnRows<T, count, Lanes, 0> rows(lanes, first, leaf.rows, row_size);
    const auto maximum = lanes.shared(rows.maximum());
    const auto shift = each([](A number) { return finite_shift(number); }, maximum);
    const auto sum = rows.sum([&](auto, const auto& numbers) { return each(ShiftedExponential(), numbers, shift); });
    if (!lanes.is_first()) return;
    const auto part = [](A most, A total) { return ExponentialSum<A>{most, total}; };
    parts.put(place, column, each(part, maximum, sum));
  }
};
/// Calls of_short(i, column, lanes) for each column of each sequence that is not long, and finish(place, i, column,
/// totals) for each column of each of the others, where `place` is that of its first leaf; a column is `count` numbers
/// of a row. Reads x once, apart from leaves that are in a cache.
template <std::size_t count, class E, class T, class Short, class Finish>
void sum_exponentials(const E& executor, const T* x, const Leaves& leaves, std::int64_t row_size, const Short& of_short,
                      const Finish& finish) {
  using A = Accumulator<T>;
  const std::int64_t columns = row_size / static_cast<std::int64_t>(count);
  const LeafScratch<E, Few<ExponentialSum<A>, count>> parts(executor, leaves, columns);
  for_each_short_and_leaf<columns_of<count>>(
      executor, leaves.sequences, columns, of_short,
      ExponentialsOfLeaf<T, count>{x, leaves.sequences, row_size, parts.parts()});
  if (!leaves.any()) return;
  join_parts<columns_of<count>>(executor, leaves, parts.parts(), JoinEach<JoinExponentials<A>, count>(), finish);
}

/// What is subtracted from a column: its maximum; 0 for a column of -inf, so that its exponentials are 0.
template <class A>
LOD_HOST_DEVICE A softmax_shift(A maximum) {
  return maximum == negative_infinity<A> ? A{} : maximum;
}
/// What exponentials are divided by, or what is subtracted from logarithms; the sum is 0 only for a column of -inf.
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

/// Computes the softmax of short sequences, which are read once.
template <class T, std::size_t count>
struct SoftmaxOfShort {
  using A = Accumulator<T>;

  const T* x;
  Segments sequences;
  std::int64_t row_size;
  bool logarithm;
  T* y;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes& lanes) const {
    const std::int64_t first = sequences.begin(i) * row_size + column * static_cast<std::int64_t>(count);
    const std::int64_t rows = sequences.length(i);
    // There may be no rows at all, and x may be null.
    const T* const from = rows > 0 ? x + first : x;
    T* const to = rows > 0 ? y + first : y;
    with_column<count>(lanes, from, rows, row_size, [&](auto& all) {
      constexpr bool keeps = std::remove_reference_t<decltype(all)>::keeps;
      const auto shift = each([](A number) { return softmax_shift(number); }, lanes.shared(all.maximum()));
      // Kept numbers are replaced by what remains to be normalised, so that no exponential is computed twice.
      const auto shifted = [&](A number, A by, A exponential_of_it) {
        return logarithm ? number - by : exponential_of_it;
      };
      const auto sum = all.sum(
          [&](const auto& numbers) { return each(ShiftedExponential(), numbers, shift); },
          [&](const auto& numbers, const auto& exponentials) { return each(shifted, numbers, shift, exponentials); });
      const auto normaliser = each([&](A total) { return softmax_normaliser(logarithm, total); }, lanes.shared(sum));
      T* const start = all.start(to);
      all.for_each([&](auto offset, const auto& numbers) {
        const auto result = [&](A number, [[maybe_unused]] A by, A divisor) {
          if constexpr (keeps) {
            return static_cast<T>(logarithm ? number - divisor : number / divisor);
          } else {
            return softmax<T>(logarithm, number - by, divisor);
          }
        };
        write_few(start + offset, each(result, numbers, shift, normaliser));
      });
    });
  }
  /// One launch less, and Zipf lengths take 6 % less.
  static constexpr bool with_leaves = true;
  /// @{
  /// For scalar rows that can be staged. The exponentials replace the numbers, unless they would be rounded.
  LOD_HOST_DEVICE void operator()(std::int64_t i, const T* from, T* to) const {
    constexpr bool fits = std::is_same_v<T, A>;
    const int rows = static_cast<int>(sequences.length(i));
    A maximum = negative_infinity<A>;
    for (int row = 0; row < rows; ++row) maximum = greatest(maximum, static_cast<A>(from[row]));
    const A shift = softmax_shift(maximum);
    const auto shifted = [&](std::int64_t row) { return static_cast<A>(from[row]) - shift; };
    const auto term = [&](std::int64_t row) {
      const A number = exponential(shifted(row));
      if constexpr (fits) {
        if (!logarithm) to[row] = number;
      }
      return number;
    };
    const A normaliser = softmax_normaliser(logarithm, sum_leaf<A>(OneThread(), term, 0, rows));
    for (int row = 0; row < rows; ++row) {
      if (fits && !logarithm) {
        to[row] = static_cast<T>(static_cast<A>(to[row]) / normaliser);
      } else {
        to[row] = softmax<T>(logarithm, shifted(row), normaliser);
      }
    }
  }
  const T* input() const noexcept requires(count == 1) { return x; }
  T* output() const noexcept { return y; }
  /// @}
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

template <std::size_t count, class E, class T>
void softmax_columns(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, bool logarithm,
                     T* y) {
  using A = Accumulator<T>;
  const Leaves leaves{sequences};
  const std::int64_t columns = row_size / static_cast<std::int64_t>(count);
  // For each long sequence, at the place of its first leaf.
  const Scratch<E, Few<SoftmaxScale<A>, count>> loan(executor, leaves.places() * columns);
  Few<SoftmaxScale<A>, count>* const scales = loan.data();
  sum_exponentials<count>(
      executor, x, leaves, row_size, SoftmaxOfShort<T, count>{x, sequences, row_size, logarithm, y},
      [=] LOD_HOST_DEVICE(std::int64_t place, std::int64_t, std::int64_t column,
                          const Few<ExponentialSum<A>, count>& totals) {
        const auto scale = [&](const ExponentialSum<A>& total) {
          const A shift = softmax_shift(total.maximum);
          // If a number is infinite, the whole softmax is NaN.
          return SoftmaxScale<A>{shift, softmax_normaliser(logarithm, plus(total.sum, shift - shift))};
        };
        scales[place * columns + column] = each(scale, totals);
      });
  if (!leaves.any()) return;
  const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
    const std::int64_t at = row * row_size + column * static_cast<std::int64_t>(count);
    const auto result = [&](T number, const SoftmaxScale<A>& scale) {
      return softmax<T>(logarithm, static_cast<A>(number) - scale.shift, scale.normaliser);
    };
    write_few(y + at, each(result, read_few<count>(x + at), scales[leaves.first(i) * columns + column]));
  };
  for_each_short_and_leaf<columns_of<count>>(executor, sequences, columns, LeaveOut(),
                                             WriteLeaf<decltype(write)>{sequences, write});
}

template <>
struct Kernel<SequenceSoftmax> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, bool logarithm,
                  T* y) {
    if (sequences.rows() == 0 || row_size == 0) return;
    const auto of_columns = [&]<std::size_t count>() {
      softmax_columns<count>(executor, x, sequences, row_size, logarithm, y);
    };
    with_count(of_columns, row_size, x, y);
  }
};

template <class T, class A>
LOD_HOST_DEVICE T softmax_grad(bool logarithm, A gradient, A result, A sum) {
  sum += A{};  // turns a sum of negative zeros into a positive zero
  return static_cast<T>(logarithm ? gradient - exponential(result) * sum : (gradient - sum) * result);
}
/// The terms of the sum in the gradient of a softmax.
template <class A>
LOD_HOST_DEVICE A softmax_grad_term(bool logarithm, A gradient, A result) {
  return logarithm ? gradient : product(gradient, result);
}

/// Computes the gradients of short sequences, which are read once.
template <class T, std::size_t count>
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
    const std::int64_t first = sequences.begin(i) * row_size + column * static_cast<std::int64_t>(count);
    const std::int64_t rows = sequences.length(i);
    if (rows == 0) return;
    with_column<count>(lanes, dy + first, rows, row_size, [&](const auto& gradients) {
      const T* const from = gradients.start(y + first);
      T* const to = gradients.start(dx + first);
      const auto results = [&](auto offset) { return read_few<count>(from + offset); };
      const auto term = [&](A gradient, T result) {
        return softmax_grad_term(logarithm, gradient, static_cast<A>(result));
      };
      const auto sum = lanes.shared(gradients.sum([&](auto offset, const auto& numbers) {
        // The results of a logarithm are not needed, and not read.
        return logarithm ? numbers : each(term, numbers, results(offset));
      }));
      gradients.for_each([&](auto offset, const auto& numbers) {
        const auto grad = [&](A gradient, T result, A total) {
          return softmax_grad<T>(logarithm, gradient, static_cast<A>(result), total);
        };
        write_few(to + offset, each(grad, numbers, results(offset), sum));
      });
    });
  }
};

template <std::size_t count, class E, class T>
void softmax_grad_columns(const E& executor, const T* dy, const T* y, const Segments& sequences, std::int64_t row_size,
                          bool logarithm, T* dx) {
  using A = Accumulator<T>;
  using Sums = Few<A, count>;
  constexpr auto side_by_side = static_cast<std::int64_t>(count);
  const Leaves leaves{sequences};
  const std::int64_t columns = row_size / side_by_side;
  const Scratch<E, Sums> loan(executor, leaves.places() * columns);
  Sums* const sums = loan.data();
  sum_columns<Sums, columns_of<count>>(
      executor, sequences, columns, chunk_leaves(row_size),
      SoftmaxGradOfShort<T, count>{dy, y, sequences, row_size, logarithm, dx},
      [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
        const std::int64_t at = (sequences.begin(i) + row) * row_size + column * side_by_side;
        const auto term = [&](A gradient, T result) {
          return softmax_grad_term(logarithm, gradient, static_cast<A>(result));
        };
        const Sums gradients = converted<A>(read_few<count>(dy + at));
        return logarithm ? gradients : each(term, gradients, read_few<count>(y + at));
      },
      [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column, const Sums& sum) {
        sums[leaves.first(i) * columns + column] = sum;
      });
  if (!leaves.any()) return;
  const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
    const std::int64_t at = row * row_size + column * side_by_side;
    const auto grad = [&](T gradient, T result, A total) {
      return softmax_grad<T>(logarithm, static_cast<A>(gradient), static_cast<A>(result), total);
    };
    write_few(dx + at,
              each(grad, read_few<count>(dy + at), read_few<count>(y + at), sums[leaves.first(i) * columns + column]));
  };
  for_each_short_and_leaf<columns_of<count>>(executor, sequences, columns, LeaveOut(),
                                             WriteLeaf<decltype(write)>{sequences, write});
}

template <>
struct Kernel<SequenceSoftmaxGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const T* y, const Segments& sequences, std::int64_t row_size,
                  bool logarithm, T* dx) {
    if (sequences.rows() == 0 || row_size == 0) return;
    const auto of_columns = [&]<std::size_t count>() {
      softmax_grad_columns<count>(executor, dy, y, sequences, row_size, logarithm, dx);
    };
    with_count(of_columns, row_size, dy, y, dx);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

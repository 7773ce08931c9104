// SPDX-License-Identifier: Apache-2.0
/// @file
/// Softmax in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/column_rows.hpp>
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

/// e^x; 0 if that is not a normal number, as the softmax promises.
template <class A>
LOD_HOST_DEVICE A exponential(A x) {
  const A y = std::exp(x);
  return y < least_normal<A> ? A{} : y;
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
/// What exponentials are multiplied by, or what is subtracted from logarithms; the sum is 0 only for a column of -inf,
/// and otherwise not less than 1. A quotient would take a GPU ten times as long as a product.
template <class A>
LOD_HOST_DEVICE A softmax_normaliser(bool logarithm, A sum) {
  if (sum == A{}) return logarithm ? A{} : A{1};
  return logarithm ? std::log(sum) : A{1} / sum;
}
template <class A>
struct SoftmaxScale {
  A shift;
  A normaliser;
};
template <class T, class A>
LOD_HOST_DEVICE T softmax(bool logarithm, A shifted, A normaliser) {
  return static_cast<T>(logarithm ? shifted - normaliser : exponential(shifted) * normaliser);
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
    of_rows(rows, rows > 0 ? x + first : x, rows > 0 ? y + first : y, lanes);
  }
  /// For wide rows that can be staged.
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const T* from, T* to) const {
    const std::int64_t in_row = column * static_cast<std::int64_t>(count), rows = sequences.length(i);
    if constexpr (std::is_same_v<T, A>) {
      if (!logarithm) return of_exponentials(rows, from + in_row, to + in_row);
    }
    of_rows(rows, from + in_row, to + in_row, LaneAlone());
  }
  /// @{
  /// For scalar rows that can be staged. Few numbers stay in registers.
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t, int rows, const T* from, T* to, const Lanes& lanes) const {
    of_rows(rows, from, to, lanes);
  }
  LOD_HOST_DEVICE void operator()(std::int64_t, int rows, const T* from, T* to, const FewRows&) const {
    constexpr int most = FewRows::most + 1, step = 4;
    A number[most];
    for (A& each : number) each = negative_infinity<A>;
    // Steps of some numbers are left out where no neighbour has any.
    const auto for_each_step = [&](const auto& call) {
#ifdef __CUDA_ARCH__
#  pragma unroll
#endif
      for (int first = 0; first < most; first += step) {
        if (first >= rows) break;
        for (int row = first; row < first + step; ++row) call(row);
      }
    };
    A maximum = negative_infinity<A>;
    for_each_step([&](int row) {
      if (row < rows) number[row] = static_cast<A>(from[row]);
      maximum = greatest(maximum, number[row]);
    });
    const A shift = softmax_shift(maximum);
    A sums[lanes_at_a_time] = {};
    for_each_step([&](int row) {
      const A shifted = number[row] - shift, term = exponential(shifted);
      number[row] = logarithm ? shifted : term;
      sums[row % lanes_at_a_time] += term;
    });
    for (int folded = lanes_at_a_time / 2; folded > 0; folded /= 2) {
      for (int lane = 0; lane < folded; ++lane) sums[lane] += sums[folded + lane];
    }
    const A normaliser = softmax_normaliser(logarithm, sums[0]);
    for_each_step([&](int row) {
      if (row < rows) to[row] = static_cast<T>(logarithm ? number[row] - normaliser : number[row] * normaliser);
    });
  }
  static constexpr bool is_costly = true;
  const T* input() const noexcept requires(count == 1) { return x; }
  T* output() const noexcept { return y; }
  /// @}

 private:
  /// The exponentials replace the numbers, and are not computed twice.
  LOD_HOST_DEVICE void of_exponentials(std::int64_t rows, const T* from, T* to) const {
    const LaneAlone alone{};
    const ColumnRows<T, count, LaneAlone, 0> all(alone, from, rows, row_size);
    const auto shift = each([](A number) { return softmax_shift(number); }, all.maximum());
    const auto sum = all.sum([&](std::int64_t offset, const auto& numbers) {
      const auto term = each(ShiftedExponential(), numbers, shift);
      write_few(to + offset, term);
      return term;
    });
    const auto normaliser = each([](A total) { return softmax_normaliser(false, total); }, sum);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* const at = to + row * row_size;
      write_few(at, each([](A term, A by) { return term * by; }, read_few<count>(at), normaliser));
    }
  }
  template <class Lanes>
  LOD_HOST_DEVICE void of_rows(std::int64_t rows, const T* from, T* to, const Lanes& lanes) const {
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
        const auto result = [&](A number, [[maybe_unused]] A by, A normal) {
          if constexpr (keeps) {
            return static_cast<T>(logarithm ? number - normal : number * normal);
          } else {
            return softmax<T>(logarithm, number - by, normal);
          }
        };
        write_few(start + offset, each(result, numbers, shift, normaliser));
      });
    });
  }
};
/// Writes the softmax of leaves; `scales` has those of each long sequence at the place of its first leaf.
template <class T, std::size_t count>
struct SoftmaxOfLeaf {
  using A = Accumulator<T>;

  const T* x;
  Segments sequences;
  std::int64_t row_size;
  bool logarithm;
  const Few<SoftmaxScale<A>, count>* scales;
  T* y;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes& lanes) const {
    constexpr auto side_by_side = static_cast<std::int64_t>(count);
    const std::int64_t first = (sequences.begin(leaf.sequence) + leaf.first) * row_size + column * side_by_side;
    const Few<SoftmaxScale<A>, count> scale = scales[(place - leaf.number) * (row_size / side_by_side) + column];
    lanes.template for_each_row<0>(static_cast<int>(leaf.rows), [&](int row, int) {
      const std::int64_t at = first + row * row_size;
      const auto result = [&](T number, const SoftmaxScale<A>& by) {
        return softmax<T>(logarithm, static_cast<A>(number) - by.shift, by.normaliser);
      };
      write_few(y + at, each(result, read_few<count>(x + at), scale));
    });
  }
};

template <std::size_t count, class E, class T>
void softmax_columns(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, bool logarithm,
                     T* y) {
  using A = Accumulator<T>;
  const Leaves leaves{sequences};
  const std::int64_t columns = row_size / static_cast<std::int64_t>(count);
  const SoftmaxOfShort<T, count> of_short{x, sequences, row_size, logarithm, y};
  if (row_size > narrow_row_size && !leaves.any() &&
      for_each_staged_column(executor, sequences, row_size, columns, x, y, of_short)) {
    return;
  }
  // For each long sequence, at the place of its first leaf.
  const Scratch<E, Few<SoftmaxScale<A>, count>> loan(executor, leaves.places() * columns);
  Few<SoftmaxScale<A>, count>* const scales = loan.data();
  sum_exponentials<count>(
      executor, x, leaves, row_size, of_short,
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
  for_each_leaf<columns_of<count>>(executor, leaves, columns,
                                   SoftmaxOfLeaf<T, count>{x, sequences, row_size, logarithm, scales, y});
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

/// Writes the gradients of leaves; `sums` has those of each long sequence at the place of its first leaf.
template <class T, std::size_t count>
struct SoftmaxGradOfLeaf {
  using A = Accumulator<T>;

  const T* dy;
  const T* y;
  Segments sequences;
  std::int64_t row_size;
  bool logarithm;
  const Few<A, count>* sums;
  T* dx;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, const Leaf& leaf, std::int64_t column, const Lanes& lanes) const {
    constexpr auto side_by_side = static_cast<std::int64_t>(count);
    const std::int64_t first = (sequences.begin(leaf.sequence) + leaf.first) * row_size + column * side_by_side;
    const Few<A, count> sum = sums[(place - leaf.number) * (row_size / side_by_side) + column];
    lanes.template for_each_row<0>(static_cast<int>(leaf.rows), [&](int row, int) {
      const std::int64_t at = first + row * row_size;
      const auto grad = [&](T gradient, T result, A total) {
        return softmax_grad<T>(logarithm, static_cast<A>(gradient), static_cast<A>(result), total);
      };
      write_few(dx + at, each(grad, read_few<count>(dy + at), read_few<count>(y + at), sum));
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
  for_each_leaf<columns_of<count>>(executor, leaves, columns,
                                   SoftmaxGradOfLeaf<T, count>{dy, y, sequences, row_size, logarithm, sums, dx});
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

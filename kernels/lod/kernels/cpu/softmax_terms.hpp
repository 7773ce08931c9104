// SPDX-License-Identifier: Apache-2.0
/// @file
/// The parts of softmax: the maximum of each column, what is subtracted from its numbers, and what their exponentials
/// are divided by.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/column_numbers.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/sum_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The greatest number; unspecified if one is a NaN.
template <class T>
inline Accumulator<T> greatest_number(const T* x, std::int64_t count) noexcept {
  using A = Accumulator<T>;
  constexpr A least = -std::numeric_limits<A>::infinity();
  Vector<T> best(least);
  for_each_vector<T>(count, 1, [&](std::int64_t i, std::int64_t some, std::int64_t) {
    best = xsimd::max(best, load_vector(x + i, some, least));
  });
  alignas(64) A lane[Vector<T>::size];
  best.store_aligned(lane);
  return *std::max_element(lane, lane + Vector<T>::size);
}

/// Writes the greatest number of each column to `maxima`, which it returns; unspecified for a column with a NaN.
template <class T>
const Accumulator<T>* column_maxima(const T* x, std::int64_t rows, std::int64_t row_size,
                                    Accumulator<T>* maxima) noexcept {
  using A = Accumulator<T>;
  constexpr A least = -std::numeric_limits<A>::infinity();
  if (row_size == 1) {
    *maxima = greatest_number(x, rows);
    return maxima;
  }
  if (masked<T> && row_size < lanes<T> && rows < 2 * lanes<T>) {
    Vector<T> best(least);
    for (std::int64_t row = 0; row < rows; ++row) best = xsimd::max(best, load(x + row * row_size, row_size, least));
    store(maxima, best, row_size);
    return maxima;
  }
  std::fill_n(maxima, row_size, least);
  const auto add_rows = [maxima, row_size](const auto* from, std::int64_t count) {
    for (; count > 0; --count, from += row_size) {
      for (std::int64_t i = 0; i < row_size; ++i) maxima[i] = std::max(maxima[i], static_cast<A>(from[i]));
    }
  };
  std::int64_t row = 0;
  if (row_size >= lanes<T>) {
    // Row by row, though four at a time would be fewer steps: it is one stream, which the hardware reads ahead.
    for (; row < rows; ++row) {
      const T* const from = x + row * row_size;
      std::int64_t i = 0;
      for (; i + lanes<T> <= row_size; i += lanes<T>) {
        xsimd::max(Vector<T>::load_unaligned(maxima + i), load(from + i)).store_unaligned(maxima + i);
      }
      for (; i < row_size; ++i) maxima[i] = std::max(maxima[i], static_cast<A>(from[i]));
    }
  } else {  // as many rows as there are lanes fill `row_size` vectors
    Vector<T> best[Vector<T>::size];
    for (auto& vector : best) vector = Vector<T>(least);
    for (; row + lanes<T> <= rows; row += lanes<T>) {
      for (std::int64_t v = 0; v < row_size; ++v) {
        best[v] = xsimd::max(best[v], load(x + row * row_size + v * lanes<T>));
      }
    }
    alignas(64) A numbers[Vector<T>::size * Vector<T>::size];
    for (std::int64_t v = 0; v < row_size; ++v) best[v].store_aligned(numbers + v * lanes<T>);
    add_rows(numbers, lanes<T>);
  }
  add_rows(x + row * row_size, rows - row);
  return maxima;
}
/// The size of scratch memory for the function below, for up to `count` rows.
inline std::int64_t shared_maxima_scratch(std::int64_t count, std::int64_t row_size) noexcept {
  const std::int64_t step = chunk_rows(row_size);
  return (count + step - 1) / step * row_size;
}
/// The same for one long sequence, by all threads of the executor; reading it touches `bytes` of memory.
template <class T>
const Accumulator<T>* column_maxima(const CpuExecutor& executor, const T* x, std::int64_t rows, std::int64_t row_size,
                                    std::int64_t bytes, const Workspace::Loan<Accumulator<T>>& of_chunks,
                                    Accumulator<T>* maxima) {
  const std::int64_t step = chunk_rows(row_size), chunks = (rows + step - 1) / step;
  parallel_for(executor, chunks, bytes, [&](std::int64_t chunk) {
    column_maxima(x + chunk * step * row_size, std::min(step, rows - chunk * step), row_size,
                  of_chunks.data() + chunk * row_size);
  });
  return column_maxima(of_chunks.data(), chunks, row_size, maxima);
}

/// What is subtracted from a column: its maximum; 0 for a column of -inf, so that its exponentials are 0.
template <class A>
inline xsimd::batch<A> softmax_shift(const xsimd::batch<A>& maximum) noexcept {
  using V = xsimd::batch<A>;
  return xsimd::select(maximum == V(-std::numeric_limits<A>::infinity()), V(A{}), maximum);
}
/// What a column's exponentials are divided by, their sum, or its logarithm, which is subtracted. The sum is 0 only for
/// a column of -inf: then it becomes 1.
template <bool logarithm, class A>
inline xsimd::batch<A> softmax_normaliser(const xsimd::batch<A>& sum) noexcept {
  using V = xsimd::batch<A>;
  const V some = xsimd::select(sum == V(A{}), V(A{1}), sum);
  if constexpr (logarithm) {
    return cpu::logarithm(some);
  } else {
    return some;
  }
}
/// term / sum, where `reciprocal` is 1 / sum: a product and its correction take a fifth of the time of a division, and
/// the result for a sequence of one row is still exactly 1.
template <class A>
inline xsimd::batch<A> softmax_quotient(const xsimd::batch<A>& term, const xsimd::batch<A>& sum,
                                        const xsimd::batch<A>& reciprocal) noexcept {
  if constexpr (fuses_multiply_add) {
    const xsimd::batch<A> quotient = term * reciprocal;
    return multiply_add(multiply_add(-quotient, sum, term), reciprocal, quotient);
  } else {
    return term / sum;
  }
}

/// In practice nearly all arguments of softmax are so small that their exponentials are finite and nonzero. Then the
/// maximum need not be known before the first exponential is computed, which saves a pass over x. The sum of a column's
/// exponentials shows whether that was so: within these bounds none has overflowed, and whatever has underflowed is
/// less than 2^-100 of the sum (an exponential is 0 below 2^-126). A logarithm would lose digits where the numbers are
/// greater than their differences: there the maximum is always subtracted.
template <class A>
inline constexpr A least_plain_sum = static_cast<A>(0x1p-26);
template <class A>
inline constexpr A greatest_plain_sum = static_cast<A>(0x1p100);
template <class A>
inline auto is_plain(const xsimd::batch<A>& sum) noexcept {
  using V = xsimd::batch<A>;
  return (sum >= V(least_plain_sum<A>)) & (sum <= V(greatest_plain_sum<A>));
}
/// Whether the greatest exponent alone shows that the sum of at most a leaf of exponentials is beyond these bounds.
template <class A>
inline bool needs_shift(A greatest) noexcept {
  return greatest > A{70} || greatest < A{-25};  // log 2^100 = 69.3..., log(2^-26 / leaf_rows) = -24.2...
}
/// Whether all sums are within these bounds.
template <class A>
inline bool are_plain(const A* sums, std::int64_t count) noexcept {
  for (std::int64_t i = 0; i < count; i += lanes<A>) {
    if (!xsimd::all(is_plain(load_vector(sums + i, std::min(count - i, lanes<A>), A{1})))) return false;
  }
  return true;
}
/// What is subtracted from a column whose unshifted exponentials have this sum.
template <class A>
inline xsimd::batch<A> softmax_shift(const xsimd::batch<A>& maximum, const xsimd::batch<A>& plain_sum) noexcept {
  return xsimd::select(is_plain(plain_sum), xsimd::batch<A>(A{}), softmax_shift(maximum));
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Convolution along sequences in bulk: matrix products in which one operand consists of windows of rows and is
/// never stored.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/matrix_product.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/ops/sequence_conv.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Line t consists of the rows of the window of row t, one after the other.
template <class T>
struct Windows {
  const T* x;
  Segments sequences;
  const std::int64_t* row_sequences;
  std::int64_t row_size;
  std::int64_t start;
  const T* padding;  ///< null: zeros
  std::int64_t rows_before;

  LOD_HOST_DEVICE Accumulator<T> operator()(std::int64_t t, std::int64_t at) const noexcept {
    const std::int64_t i = row_sequences[t], begin = sequences.begin(i), end = sequences.begin(i + 1);
    const std::int64_t row = t + start + at / row_size, column = at % row_size;
    if (row >= begin && row < end) return static_cast<Accumulator<T>>(x[row * row_size + column]);
    if (!padding) return {};
    const std::int64_t beyond = row < begin ? row - begin : row - end;
    return static_cast<Accumulator<T>>(padding[(rows_before + beyond) * row_size + column]);
  }
};

/// The same transposed: column t is the window of row t.
template <class T>
struct TransposedWindows {
  Windows<T> windows;
  LOD_HOST_DEVICE Accumulator<T> operator()(std::int64_t at, std::int64_t t) const noexcept { return windows(t, at); }
};

/// The filter with its windows transposed: column d is that of window row 0, then of window row 1, ...
template <class T>
struct TransposedFilter {
  const T* first;      ///< window row 0
  std::int64_t step;   ///< from one row of the window to the next
  std::int64_t width;  ///< columns of the result of the convolution
  LOD_HOST_DEVICE Accumulator<T> operator()(std::int64_t at, std::int64_t d) const noexcept {
    return static_cast<Accumulator<T>>(first[at / width * step + d * width + at % width]);
  }
};

/// Finds the sequence of each row.
template <class E>
void find_sequences(const E& executor, const Segments& sequences, std::int64_t rows, std::int64_t* row_sequences) {
  for_each(executor, rows, [=] LOD_HOST_DEVICE(std::int64_t row) { row_sequences[row] = sequence_of(sequences, row); });
}

template <>
struct Kernel<SequenceConv> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  const ContextWindow& window, const T* padding, const T* filter, std::int64_t columns, T* y) {
    if (sequences.rows() == 0 || columns == 0) return;
    using A = Accumulator<T>;
    const std::int64_t rows = sequences.rows();
    const Scratch<E, std::int64_t> loan(executor, rows);
    find_sequences(executor, sequences, rows, loan.data());
    const Windows<T> windows{x, sequences, loan.data(), row_size, window.start, padding, window.rows_before()};
    multiply(executor, rows, columns, window.length * row_size, A{1}, windows, StridedNumbers<T>{filter, columns, 1},
             A{}, y, columns);
  }
};

template <>
struct Kernel<SequenceConvInputGrad> {
  /// Row t of x is in the windows of the rows from t - start - length + 1 to t - start: its gradient is a convolution
  /// of dy with the window reversed.
  template <class E, class T>
  static void run(const E& executor, const T* dy, const Segments& sequences, std::int64_t columns,
                  const ContextWindow& window, const T* filter, std::int64_t row_size, T* dx) {
    if (sequences.rows() == 0 || row_size == 0) return;
    using A = Accumulator<T>;
    const std::int64_t rows = sequences.rows(), step = row_size * columns;
    const Scratch<E, std::int64_t> loan(executor, rows);
    find_sequences(executor, sequences, rows, loan.data());
    const Windows<T> windows{dy, sequences, loan.data(), columns, 1 - window.start - window.length, nullptr, 0};
    const TransposedFilter<T> transposed{filter + (window.length - 1) * step, -step, columns};
    multiply(executor, rows, row_size, window.length * columns, A{1}, windows, transposed, A{}, dx, row_size);
  }
};

template <>
struct Kernel<SequenceConvFilterGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const T* dy, const Segments& sequences, std::int64_t row_size,
                  const ContextWindow& window, const T* padding, std::int64_t columns, T* dfilter) {
    if (window.length * row_size == 0 || columns == 0) return;
    using A = Accumulator<T>;
    const std::int64_t rows = sequences.rows();
    const Scratch<E, std::int64_t> loan(executor, rows);
    find_sequences(executor, sequences, rows, loan.data());
    const Windows<T> windows{x, sequences, loan.data(), row_size, window.start, padding, window.rows_before()};
    multiply(executor, window.length * row_size, columns, rows, A{1}, TransposedWindows<T>{windows},
             StridedNumbers<T>{dy, columns, 1}, A{}, dfilter, columns);
  }
};

template <>
struct Kernel<SequenceConvPaddingGrad> {
  /// A row of the padding is at one position of the window of at most one row of each sequence. The rows of dy that
  /// belong to a position are summed, and the sums multiplied by the filter.
  template <class E, class T>
  static void run(const E& executor, const T* dy, const Segments& sequences, std::int64_t columns,
                  const ContextWindow& window, const T* filter, std::int64_t row_size, T* dpadding) {
    using A = Accumulator<T>;
    if (row_size == 0) return;
    const std::int64_t before = window.rows_before(), rows = before + window.rows_after();
    const std::int64_t length = window.length, start = window.start, size = sequences.size, places = rows * length;
    const Scratch<E, A> sum_loan(executor, places * columns);
    const Scratch<E, std::int64_t> offset_loan(executor, places + 1);
    A* const sums = sum_loan.data();
    std::int64_t* const offsets = offset_loan.data();
    // The sum for a position has a term for each sequence: zeros if the sequence has no row there.
    for_each(executor, places + 1, [=] LOD_HOST_DEVICE(std::int64_t place) { offsets[place] = place * size; });
    sum_sequences<A>(
        executor, Segments(offsets, places, size, 0, places * size), columns,
        [=] LOD_HOST_DEVICE(std::int64_t place, std::int64_t i, std::int64_t column) {
          const std::int64_t row = place / length, length_here = sequences.length(i);
          const std::int64_t t = (row < before ? 0 : length_here) + row - before - start - place % length;
          if (t < 0 || t >= length_here) return A{};
          return static_cast<A>(dy[(sequences.begin(i) + t) * columns + column]);
        },
        [=] LOD_HOST_DEVICE(std::int64_t place, std::int64_t column, A sum) { sums[place * columns + column] = sum; });
    multiply(executor, rows, row_size, length * columns, A{1}, StridedNumbers<A>{sums, length * columns, 1},
             TransposedFilter<T>{filter, row_size * columns, columns}, A{}, dpadding, row_size);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

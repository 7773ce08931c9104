// SPDX-License-Identifier: Apache-2.0
/// @file
/// Convolution along sequences on the CPU: matrix products in which one operand consists of windows of rows, read as
/// the product needs them.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/matrix_product.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_conv.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Line t consists of the rows of the window of row t, one after the other.
template <class T>
struct WindowLines {
  const T* x;
  Segments sequences;
  const std::int64_t* row_sequences;
  std::int64_t row_size;
  ContextWindow window;
  const T* padding;  ///< null: zeros

  void read(std::int64_t t, std::int64_t begin, std::int64_t count, Accumulator<T>* to) const noexcept {
    const std::int64_t sequence = row_sequences[t];
    const std::int64_t first = t + window.start, sequence_begin = sequences.begin(sequence);
    const std::int64_t sequence_end = sequence_begin + sequences.length(sequence);
    // The window consists of padding, rows of the sequence and padding again: each is a part of one array.
    const std::int64_t end = begin + count;
    const std::int64_t inside = std::clamp(sequence_begin - first, std::int64_t{0}, window.length) * row_size;
    const std::int64_t after = std::clamp(sequence_end - first, std::int64_t{0}, window.length) * row_size;
    const auto read_part = [&](const T* rows, std::int64_t row, std::int64_t from, std::int64_t until) {
      const std::int64_t low = std::max(from, begin), high = std::min(until, end);
      if (low >= high) return;
      if (rows) {
        widen(rows + row * row_size + low, high - low, to + low - begin);
      } else {
        fill(to + low - begin, high - low, Accumulator<T>{});
      }
    };
    read_part(padding, window.rows_before() + first - sequence_begin, 0, inside);
    read_part(x, first, inside, after);
    read_part(padding, window.rows_before() + first - sequence_end, after, window.length * row_size);
  }
};

/// The filter with its windows transposed: line d is column d of window row 0, then of window row 1, ...
template <class T>
struct FilterLines {
  const T* first;      ///< window row 0
  std::int64_t step;   ///< from one row of the window to the next
  std::int64_t width;  ///< columns of the result of the convolution
  void read(std::int64_t d, std::int64_t begin, std::int64_t count, Accumulator<T>* to) const noexcept {
    const std::int64_t end = begin + count;
    while (begin < end) {
      const std::int64_t column = begin % width, some = std::min(width - column, end - begin);
      widen(first + begin / width * step + d * width + column, some, to);
      to += some;
      begin += some;
    }
  }
};

template <>
struct Kernel<SequenceConv> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  const ContextWindow& window, const T* padding, const T* filter, std::int64_t columns, T* y) {
    if (sequences.rows() == 0 || columns == 0) return;
    using A = Accumulator<T>;
    const cpu::RowSequences rows(executor, sequences);
    const cpu::WindowLines<T> windows{x, sequences, rows.data(), row_size, window, padding};
    cpu::multiply(executor, sequences.rows(), columns, window.length * row_size, A{1}, cpu::Operand{windows, true},
                  cpu::Operand{cpu::StridedLines<T>{filter, columns}, false}, A{}, y, columns);
  }
};

template <>
struct Kernel<SequenceConvInputGrad> {
  /// Row t of x is in the windows of the rows from t - start - length + 1 to t - start: its gradient is a convolution
  /// of dy with the window reversed.
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const Segments& sequences, std::int64_t columns,
                  const ContextWindow& window, const T* filter, std::int64_t row_size, T* dx) {
    if (sequences.rows() == 0 || row_size == 0) return;
    using A = Accumulator<T>;
    const std::int64_t step = row_size * columns;
    const cpu::RowSequences rows(executor, sequences);
    const ContextWindow back{window.length, 1 - window.start - window.length};
    const cpu::WindowLines<T> windows{dy, sequences, rows.data(), columns, back, nullptr};
    const cpu::FilterLines<T> transposed{filter + (window.length - 1) * step, -step, columns};
    cpu::multiply(executor, sequences.rows(), row_size, window.length * columns, A{1}, cpu::Operand{windows, true},
                  cpu::Operand{transposed, true}, A{}, dx, row_size);
  }
};

template <>
struct Kernel<SequenceConvFilterGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const T* dy, const Segments& sequences,
                  std::int64_t row_size, const ContextWindow& window, const T* padding, std::int64_t columns,
                  T* dfilter) {
    if (window.length * row_size == 0 || columns == 0) return;
    using A = Accumulator<T>;
    const cpu::RowSequences rows(executor, sequences);
    const cpu::WindowLines<T> windows{x, sequences, rows.data(), row_size, window, padding};
    cpu::multiply(executor, window.length * row_size, columns, sequences.rows(), A{1}, cpu::Operand{windows, false},
                  cpu::Operand{cpu::StridedLines<T>{dy, columns}, false}, A{}, dfilter, columns);
  }
};

template <>
struct Kernel<SequenceConvPaddingGrad> {
  /// A row of the padding is at one position of the window of at most one row of each sequence. The rows of dy that
  /// belong to a position are summed, and the sums multiplied by the filter.
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const Segments& sequences, std::int64_t columns,
                  const ContextWindow& window, const T* filter, std::int64_t row_size, T* dpadding) {
    using A = Accumulator<T>;
    if (row_size == 0) return;
    const std::int64_t before = window.rows_before(), rows = before + window.rows_after();
    const Workspace::Loan<A> sums(executor.workspace(), rows * window.length * columns);
    const Workspace::Loan<std::int64_t> list(executor.workspace(), sequences.size);
    const cpu::ListedRows<T> listed{dy, columns, list.data()};
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(columns);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t place = 0; place < window.length; ++place) {
        std::int64_t count = 0;
        for (std::int64_t i = 0; i < sequences.size; ++i) {
          const std::int64_t length = sequences.length(i);
          const std::int64_t t = (row < before ? 0 : length) + row - before - window.start - place;
          if (t >= 0 && t < length) list[count++] = sequences.begin(i) + t;
        }
        A* const sum = sums.data() + (row * window.length + place) * columns;
        cpu::sum_rows<T>(
            executor, [&](int) { return listed; }, count, columns, count * row_bytes, sum);
      }
    }
    const cpu::FilterLines<T> transposed{filter, row_size * columns, columns};
    cpu::multiply(executor, rows, row_size, window.length * columns, A{1},
                  cpu::Operand{cpu::StridedLines<A>{sums.data(), window.length * columns}, true},
                  cpu::Operand{transposed, true}, A{}, dpadding, row_size);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Look-ahead convolution in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/kernels/fused.hpp>
#include <lod/ops/row_conv.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// y[t] = x[t] * filter[0] + x[t + 1] * filter[1] + ..., or x[t - 1], ... if `back`, within the sequence.
template <class E, class T>
void weigh_neighbours(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, const T* filter,
                      std::int64_t filter_rows, bool back, T* y) {
  using A = Accumulator<T>;
  for_each(executor, sequences.rows() * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
    const std::int64_t row = at / row_size, column = at % row_size, i = sequence_of(sequences, row);
    const std::int64_t neighbours = back ? row - sequences.begin(i) : sequences.begin(i + 1) - 1 - row;
    const std::int64_t count = least(filter_rows, neighbours + 1), step = back ? -row_size : row_size;
    A sum{};
    for (std::int64_t w = 0; w < count; ++w) {
      sum = fused(static_cast<A>(x[at + w * step]), static_cast<A>(filter[w * row_size + column]), sum);
    }
    y[at] = static_cast<T>(sum);
  });
}

template <>
struct Kernel<RowConv> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, const T* filter,
                  std::int64_t filter_rows, T* y) {
    weigh_neighbours(executor, x, sequences, row_size, filter, filter_rows, false, y);
  }
};

template <>
struct Kernel<RowConvInputGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const Segments& sequences, std::int64_t row_size, const T* filter,
                  std::int64_t filter_rows, T* dx) {
    weigh_neighbours(executor, dy, sequences, row_size, filter, filter_rows, true, dx);
  }
};

template <>
struct Kernel<RowConvFilterGrad> {
  /// The sum over all rows of dy[t] * {x[t], x[t + 1], ...}, with zeros after the end of the sequence.
  template <class E, class T>
  static void run(const E& executor, const T* x, const T* dy, const Segments& sequences, std::int64_t row_size,
                  std::int64_t filter_rows, T* dfilter) {
    if (filter_rows * row_size == 0) return;
    using A = Accumulator<T>;
    const std::int64_t rows = sequences.rows();
    const Scratch<E, std::int64_t> left_loan(executor, rows);
    std::int64_t* const left = left_loan.data();  // rows of the sequence from here on
    for_each(executor, rows, [=] LOD_HOST_DEVICE(std::int64_t row) {
      left[row] = sequences.begin(sequence_of(sequences, row) + 1) - row;
    });
    const OneSequence<E> all(executor, rows);
    sum_sequences<A>(
        executor, all.segments(), filter_rows * row_size,
        [=] LOD_HOST_DEVICE(std::int64_t, std::int64_t row, std::int64_t at) {
          const std::int64_t gradient = row * row_size + at % row_size;
          if (at / row_size >= left[row]) return A{};
          return static_cast<A>(x[row * row_size + at]) * static_cast<A>(dy[gradient]);
        },
        [=] LOD_HOST_DEVICE(std::int64_t, std::int64_t at, A sum) {
          dfilter[at] = rows == 0 ? T{} : static_cast<T>(sum);
        });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

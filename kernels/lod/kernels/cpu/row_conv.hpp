// SPDX-License-Identifier: Apache-2.0
/// @file
/// Look-ahead convolution on the CPU: a block of rows stays in the first-level cache while their neighbours are added
/// to it, with all columns as one array.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/column_numbers.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/row_conv.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// y[t] = x[t] * filter[0] + x[t + 1] * filter[1] + ..., or x[t - 1], ... if `back`, within the sequence.
///
/// A block of rows may span sequences of any length; each of its numbers has a count of the neighbours that its row has
/// in its sequence.
template <bool back, class T>
void weigh_neighbours(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                      const T* filter, std::int64_t filter_rows, T* y) {
  using A = Accumulator<T>;
  const std::int64_t rows = sequences.rows();
  if (rows == 0 || row_size == 0) return;
  const std::int64_t weights_size = ColumnNumbers<A>::scratch(row_size);
  const Workspace::Loan<A> weights(executor.workspace(), filter_rows * weights_size);
  const Workspace::Loan<A> filter_row(executor.workspace(), row_size);
  const auto weights_of = [&](std::int64_t w) { return ColumnNumbers<A>(weights.data() + w * weights_size, row_size); };
  for (std::int64_t w = 0; w < filter_rows; ++w) {
    widen(filter + w * row_size, row_size, filter_row.data());
    weights_of(w).set(filter_row.data());
  }
  const std::int64_t block_rows = std::max<std::int64_t>(2048 / row_size, 1);
  const ThreadScratch<A> blocks(executor, 2 * block_rows * row_size);
  const std::int64_t bytes = lod::detail::bytes_of<T>(lod::detail::saturated_sum(filter_rows, 1), rows, row_size);
  parallel_ranges(executor, rows, bytes, [&](std::int64_t part_begin, std::int64_t part_end, int thread) {
    A* const sums = blocks(thread);
    A* const neighbours = sums + block_rows * row_size;
    std::int64_t i = sequence_of(sequences, part_begin);
    for (std::int64_t begin = part_begin; begin < part_end; begin += block_rows) {
      const std::int64_t end = std::min(begin + block_rows, part_end);
      for (std::int64_t t = begin; t < end; ++i) {
        const std::int64_t first = sequences.begin(i), last = sequences.begin(i + 1) - 1,
                           until = std::min(last + 1, end);
        // Most rows have all neighbours; for those near the end, or near the start if `back`, they are counted.
        const std::int64_t low = std::clamp(back ? first + filter_rows - 1 : t, t, until);
        const std::int64_t high = std::clamp(back ? until : last - filter_rows + 2, low, until);
        const auto count = [&](std::int64_t row, std::int64_t stop) {
          for (; row < stop; ++row) {
            fill(neighbours + (row - begin) * row_size, row_size, static_cast<A>(back ? row - first : last - row));
          }
        };
        count(t, low);
        fill(neighbours + (low - begin) * row_size, (high - low) * row_size, static_cast<A>(filter_rows),
             (end - low) * row_size);
        count(high, until);
        t = until;
        if (last >= end) break;  // continues in the next block
      }
      fill(sums, (end - begin) * row_size, A{});
      for (std::int64_t w = 0; w < filter_rows; ++w) {
        // There is nothing to read beyond the first and the last row of the batch.
        const std::int64_t from = back ? std::max(begin, w) : begin, to = back ? end : std::min(end, rows - w);
        if (from >= to) break;
        const T* const shifted = x + (back ? from - w : from + w) * row_size;
        const std::int64_t here = (from - begin) * row_size;
        const ColumnNumbers<A> weight = weights_of(w);
        const Vector<A> distance(static_cast<A>(w));
        for_each_vector<T>(to - from, row_size, [&](std::int64_t at, std::int64_t count, std::int64_t column) {
          const Vector<A> sum = load_vector(sums + here + at, count);
          const Vector<A> more = multiply_add(load_vector(shifted + at, count), weight(column), sum);
          const auto is_there = load_vector(neighbours + here + at, count) >= distance;
          store_first(sums + here + at, xsimd::select(is_there, more, sum), count, 0);
        });
      }
      convert(sums, (end - begin) * row_size, y + begin * row_size);
    }
  });
}

template <>
struct Kernel<RowConv> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  const T* filter, std::int64_t filter_rows, T* y) {
    cpu::weigh_neighbours<false>(executor, x, sequences, row_size, filter, filter_rows, y);
  }
};

template <>
struct Kernel<RowConvInputGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const Segments& sequences, std::int64_t row_size,
                  const T* filter, std::int64_t filter_rows, T* dx) {
    cpu::weigh_neighbours<true>(executor, dy, sequences, row_size, filter, filter_rows, dx);
  }
};

template <>
struct Kernel<RowConvFilterGrad> {
  /// The sum over all rows of dy[t] * {x[t], x[t + 1], ...}, with zeros after the end of the sequence.
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const T* dy, const Segments& sequences,
                  std::int64_t row_size, std::int64_t filter_rows, T* dfilter) {
    using A = Accumulator<T>;
    const std::int64_t term_size = filter_rows * row_size;
    if (term_size == 0) return;
    const cpu::ThreadScratch<A> blocks(executor, cpu::computed_scratch(term_size));
    const Workspace::Loan<A> sums(executor.workspace(), term_size);
    const auto compute = [=](std::int64_t first, std::int64_t count, A* to) {
      std::int64_t i = cpu::sequence_of(sequences, first);
      for (std::int64_t t = first; t < first + count; ++t) {
        while (sequences.begin(i + 1) <= t) ++i;
        const std::int64_t kept = std::min(filter_rows, sequences.begin(i + 1) - t) * row_size;
        const T* const gradient = dy + t * row_size;
        const T* const from = x + t * row_size;
        for (std::int64_t w = 0; w < kept; w += row_size) {
          for (std::int64_t column = 0; column < row_size; ++column) {
            to[w + column] = static_cast<A>(from[w + column]) * static_cast<A>(gradient[column]);
          }
        }
        cpu::fill(to + kept, term_size - kept, A{});
        to += term_size;
      }
    };
    const std::int64_t rows = sequences.rows();
    cpu::sum_rows<A>(
        executor,
        [&](int thread) {
          return cpu::ComputedRows{compute, blocks(thread)};
        },
        rows, term_size, lod::detail::bytes_of<T>(rows, lod::detail::saturated_sum(term_size, row_size)), sums.data());
    cpu::convert(sums.data(), term_size, dfilter);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

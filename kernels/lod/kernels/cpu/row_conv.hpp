// SPDX-License-Identifier: Apache-2.0
/// @file
/// Look-ahead convolution on the CPU: a block of rows stays in the first-level cache while the weighted rows are added
/// to it, the columns of all its rows as one array.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/sequence_softmax.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/row_conv.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace cpu {

/// y[t] = x[t] * filter[0] + x[t + 1] * filter[1] + ..., or with `back` x[t - 1], ..., as far as the sequence goes.
template <bool back, class T>
void weigh_neighbours(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                      const T* filter, std::int64_t filter_rows, T* y) {
  using A = Accumulator<T>;
  if (row_size == 0) return;
  const std::int64_t block_rows = std::max<std::int64_t>(2048 / row_size, 1);
  const std::int64_t weights_size = ColumnNumbers<A>::scratch(row_size);
  const Workspace::Loan<A> weights(executor.workspace(), filter_rows * weights_size);
  const Workspace::Loan<A> numbers(executor.workspace(), row_size);
  const auto weights_of = [&](std::int64_t w) { return ColumnNumbers<A>(weights.data() + w * weights_size, row_size); };
  for (std::int64_t w = 0; w < filter_rows; ++w) {
    for (std::int64_t i = 0; i < row_size; ++i) numbers[i] = static_cast<A>(filter[w * row_size + i]);
    weights_of(w).set(numbers.data(), [](A number) { return number; });
  }
  const ThreadScratch<A> blocks(executor, block_rows * row_size);
  const std::int64_t row_bytes = (filter_rows + 1) * row_size * static_cast<std::int64_t>(sizeof(T));
  parallel_rows(
      executor, sequences, row_bytes,
      [&](std::int64_t i, std::int64_t part_begin, std::int64_t part_end, std::int64_t, int thread) {
        const std::int64_t length = sequences.length(i), first = sequences.begin(i);
        A* const sums = blocks(thread);
        for (std::int64_t begin = part_begin; begin < part_end; begin += block_rows) {
          const std::int64_t end = std::min(begin + block_rows, part_end);
          fill(sums, (end - begin) * row_size, A{});
          for (std::int64_t w = 0; w < filter_rows; ++w) {
            // The rows of the block that have such a neighbour.
            const std::int64_t from = back ? std::max(begin, w) : begin, to = back ? end : std::min(end, length - w);
            if (from >= to) break;
            const T* const neighbours = x + (first + from + (back ? -w : w)) * row_size;
            A* const here = sums + (from - begin) * row_size;
            const ColumnNumbers<A> weight = weights_of(w);
            for_each_vector<T>(to - from, row_size, [&](std::int64_t at, std::int64_t count, std::int64_t column) {
              const Vector<T> numbers_here = load_vector(neighbours + at, count);
              if (count == lanes<T>) {
                xsimd::fma(numbers_here, weight(column), Vector<A>::load_unaligned(here + at))
                    .store_unaligned(here + at);
              } else {
                store<A>(here + at, xsimd::fma(numbers_here, weight(column), load(here + at, count, A{})), count);
              }
            });
          }
          T* const out = y + (first + begin) * row_size;
          for (std::int64_t at = 0; at < (end - begin) * row_size; ++at) out[at] = static_cast<T>(sums[at]);
        }
      });
}

}  // namespace cpu

template <>
struct RowConv<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  const T* filter, std::int64_t filter_rows, T* y) {
    cpu::weigh_neighbours<false>(executor, x, sequences, row_size, filter, filter_rows, y);
  }
};

template <>
struct RowConvInputGrad<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const Segments& sequences, std::int64_t row_size,
                  const T* filter, std::int64_t filter_rows, T* dx) {
    cpu::weigh_neighbours<true>(executor, dy, sequences, row_size, filter, filter_rows, dx);
  }
};

template <>
struct RowConvFilterGrad<CpuExecutor> {
  /// The sum over all rows of dy[t] * {x[t], x[t + 1], ...}, zeros where the sequence has ended.
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const T* dy, const Segments& sequences,
                  std::int64_t row_size, std::int64_t filter_rows, T* dfilter) {
    using A = cpu::Accumulator<T>;
    const std::int64_t term_size = filter_rows * row_size;
    if (term_size == 0) return;
    const cpu::ThreadScratch<A> blocks(executor, cpu::computed_scratch(term_size));
    const Workspace::Loan<A> sums(executor.workspace(), term_size);
    const auto compute = [=](std::int64_t first, std::int64_t count, A* to) {
      const std::int64_t* const ends = sequences.offsets + 1;
      std::int64_t i = std::upper_bound(ends, ends + sequences.size, sequences.offsets[0] + first) - ends;
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
        rows, term_size, rows * (term_size + row_size) * static_cast<std::int64_t>(sizeof(T)), sums.data());
    for (std::int64_t i = 0; i < term_size; ++i) dfilter[i] = static_cast<T>(sums[i]);
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

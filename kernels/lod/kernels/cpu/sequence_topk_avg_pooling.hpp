// SPDX-License-Identifier: Apache-2.0
/// @file
/// Means of the greatest numbers of matrix rows, on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_order.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/wide_sum.hpp>
#include <lod/ops/sequence_topk_avg_pooling.hpp>

#include <algorithm>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Calls body(row, channel, first, columns, greatest, count) for each row of each matrix, where `row` counts the rows
/// of all sequences: the row's numbers are the `columns` from x[first] on, and the greatest `count` of them are in the
/// columns greatest.row(n). `count` is the greatest of `topks`, or the number of columns if that is less.
template <class T, class Body>
void for_each_matrix_row(const CpuExecutor& executor, const T* x, const ChannelMatrices& matrices,
                         const Segments& sequences, std::span<const std::int64_t> topks, const Body& body) {
  std::int64_t most = 0;
  for (const std::int64_t k : topks) most = std::max(most, k);
  most = std::min(most, matrices.columns.max_rows);
  with_rows<T>(matrices.columns, [&]<class Rows>(std::type_identity<Rows>) {
    const std::int64_t room = std::min(selection_rows(most), matrices.columns.max_rows);
    const ThreadScratch<std::int64_t> scratch(executor, Rows::words(room));
    const std::int64_t rows = matrices.rows.rows();
    parallel_ranges(executor, rows, sequences.rows() * static_cast<std::int64_t>(4 * sizeof(T)),
                    [&](std::int64_t begin, std::int64_t end, int thread) {
                      std::int64_t i = sequence_of(matrices.rows, begin);
                      const Rows greatest(scratch(thread), room);
                      for (std::int64_t row = begin; row < end; ++row) {
                        while (matrices.rows.begin(i + 1) <= row) ++i;
                        const std::int64_t columns = matrices.columns.length(i), height = matrices.rows.length(i);
                        for (std::int64_t channel = 0; channel < matrices.channels; ++channel) {
                          const std::int64_t first =
                              sequences.begin(i) + (channel * height + row - matrices.rows.begin(i)) * columns;
                          body(row, channel, first, columns, greatest, select_rows(x + first, columns, most, greatest));
                        }
                      }
                    });
  });
}

template <>
struct Kernel<SequenceTopKAvgPooling> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const ChannelMatrices& matrices, const Segments& sequences,
                  std::span<const std::int64_t> topks, T* y) {
    using A = Accumulator<T>;
    cpu::for_each_matrix_row(
        executor, x, matrices, sequences, topks,
        [&](std::int64_t row, std::int64_t channel, std::int64_t first, std::int64_t, const auto& greatest,
            std::int64_t count) {
          T* out = y + (row * matrices.channels + channel) * static_cast<std::int64_t>(topks.size());
          for (const std::int64_t k : topks) {
            const auto number = [&](std::int64_t n) { return static_cast<A>(x[first + greatest.row(n)]); };
            *out++ = static_cast<T>(mean_in_order<A>(number, std::min(k, count), k));
          }
        });
  }
};

template <>
struct Kernel<SequenceTopKAvgPoolingGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const T* x, const ChannelMatrices& matrices,
                  const Segments& sequences, std::span<const std::int64_t> topks, T* dx) {
    using A = Accumulator<T>;
    cpu::for_each_matrix_row(executor, x, matrices, sequences, topks,
                             [&](std::int64_t row, std::int64_t channel, std::int64_t first, std::int64_t columns,
                                 const auto& greatest, std::int64_t count) {
                               const T* const from =
                                   dy + (row * matrices.channels + channel) * static_cast<std::int64_t>(topks.size());
                               cpu::fill(dx + first, columns, T{});
                               for (std::int64_t n = 0; n < count; ++n) {
                                 A sum{};
                                 for (std::size_t k = 0; k < topks.size(); ++k) {
                                   if (n < topks[k]) sum += static_cast<A>(from[k]) / static_cast<A>(topks[k]);
                                 }
                                 dx[first + greatest.row(n)] = static_cast<T>(sum);
                               }
                             });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

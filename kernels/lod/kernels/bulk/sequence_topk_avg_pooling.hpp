// SPDX-License-Identifier: Apache-2.0
/// @file
/// Means of the greatest numbers of matrix rows in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/sequence_sort.hpp>
#include <lod/kernels/wide_sum.hpp>
#include <lod/ops/sequence_topk_avg_pooling.hpp>
#include <lod/ops/staging.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Where the matrix row begins that contains number `at` of x.
struct MatrixRowStart {
  Segments columns;
  Segments sequences;
  LOD_HOST_DEVICE std::int64_t operator()(std::int64_t at) const noexcept {
    const std::int64_t i = sequence_of(sequences, at);
    return at - (at - sequences.begin(i)) % columns.length(i);
  }
};

template <>
struct Kernel<SequenceTopKAvgPooling> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const ChannelMatrices& matrices, const Segments& sequences,
                  std::span<const std::int64_t> topks, T* y) {
    using A = Accumulator<T>;
    const std::int64_t numbers = sequences.rows();
    const Scratch<E, std::int64_t> loan(executor, numbers);
    std::int64_t* const order = loan.data();
    sort_groups(executor, x, numbers, numbers, MatrixRowStart{matrices.columns, sequences}, true, order);
    // The list of means is in host memory: each entry is passed to the bodies by value.
    const auto means = static_cast<std::int64_t>(topks.size());
    for (std::int64_t mean = 0; mean < means; ++mean) {
      const std::int64_t k = topks[static_cast<std::size_t>(mean)];
      for_each(executor, matrices.rows.rows() * matrices.channels, [=] LOD_HOST_DEVICE(std::int64_t at) {
        const std::int64_t row = at / matrices.channels, channel = at % matrices.channels;
        const std::int64_t i = sequence_of(matrices.rows, row), columns = matrices.columns.length(i);
        const std::int64_t line = channel * matrices.rows.length(i) + row - matrices.rows.begin(i);
        const std::int64_t first = sequences.begin(i) + line * columns, count = least(k, columns);
        const auto number = [=](std::int64_t n) { return static_cast<A>(x[order[first + n]]); };
        y[at * means + mean] = static_cast<T>(mean_in_order<A>(number, count, k));
      });
    }
  }
};

template <>
struct Kernel<SequenceTopKAvgPoolingGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const T* x, const ChannelMatrices& matrices,
                  const Segments& sequences, std::span<const std::int64_t> topks, T* dx) {
    using A = Accumulator<T>;
    const std::int64_t numbers = sequences.rows();
    const Scratch<E, std::int64_t> order_loan(executor, numbers);
    const Scratch<E, A> sum_loan(executor, numbers);
    std::int64_t* const order = order_loan.data();
    A* const sums = sum_loan.data();  // in the order of the sorted matrix rows
    sort_groups(executor, x, numbers, numbers, MatrixRowStart{matrices.columns, sequences}, true, order);
    for_each(executor, numbers, [=] LOD_HOST_DEVICE(std::int64_t place) { sums[place] = A{}; });
    const auto means = static_cast<std::int64_t>(topks.size());
    for (std::int64_t mean = 0; mean < means; ++mean) {
      const std::int64_t k = topks[static_cast<std::size_t>(mean)];
      for_each(executor, numbers, [=] LOD_HOST_DEVICE(std::int64_t place) {
        const std::int64_t i = sequence_of(sequences, place), columns = matrices.columns.length(i);
        const std::int64_t line = (place - sequences.begin(i)) / columns, height = matrices.rows.length(i);
        if ((place - sequences.begin(i)) % columns >= k) return;
        const std::int64_t row = matrices.rows.begin(i) + line % height, channel = line / height;
        const T from = dy[(row * matrices.channels + channel) * means + mean];
        sums[place] += static_cast<A>(from) / static_cast<A>(k);
      });
    }
    for_each(executor, numbers,
             [=] LOD_HOST_DEVICE(std::int64_t place) { dx[order[place]] = static_cast<T>(sums[place]); });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

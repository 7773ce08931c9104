// SPDX-License-Identifier: Apache-2.0
/// @file
/// The logarithm of sums of exponentials over Thrust: the maxima and the sums of the softmax.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/leaves.hpp>
#include <lod/kernels/thrust/sequence_softmax.hpp>
#include <lod/ops/sequence_logsumexp.hpp>
#include <lod/thrust_executor.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

/// Those of short sequences, which are read once.
template <class T>
struct LogsumexpOfShort {
  using A = Accumulator<T>;

  const T* x;
  Segments sequences;
  std::int64_t row_size;
  T* y;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column, const Lanes& lanes) const {
    const std::int64_t rows = sequences.length(i);
    // There may be no row at all, and x be null.
    const T* const first = rows == 0 ? x : x + sequences.begin(i) * row_size + column;
    with_column(lanes, first, rows, row_size, [&](const auto& numbers) {
      const A shift = finite_shift(lanes.shared(numbers.maximum()));
      const A sum = numbers.sum([&](std::int64_t, A number) { return exponential(number - shift); });
      if (lanes.is_first()) y[i * row_size + column] = static_cast<T>(shift + std::log(sum));
    });
  }
};

struct SequenceLogsumexp {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, T* y) {
    using A = Accumulator<T>;
    sum_exponentials(
        executor, x, Leaves{sequences}, row_size, LogsumexpOfShort<T>{x, sequences, row_size, y},
        [=] LOD_HOST_DEVICE(std::int64_t, std::int64_t i, std::int64_t column, const ExponentialSum<A>& total) {
          y[i * row_size + column] = static_cast<T>(finite_shift(total.maximum) + std::log(total.sum));
        });
  }
};

struct ScaleSequences {
  template <class E, class T>
  static void run(const E& executor, const T* factors, const Segments& sequences, std::int64_t row_size, T* y) {
    using A = Accumulator<T>;
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      T& number = y[row * row_size + column];
      number = static_cast<T>(static_cast<A>(number) * static_cast<A>(factors[i * row_size + column]));
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

}  // namespace bulk

template <class Policy>
struct SequenceLogsumexp<ThrustExecutor<Policy>> : bulk::SequenceLogsumexp {};
template <class Policy>
struct ScaleSequences<ThrustExecutor<Policy>> : bulk::ScaleSequences {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

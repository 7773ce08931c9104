// SPDX-License-Identifier: Apache-2.0
/// @file
/// The logarithm of sums of exponentials over Thrust: the maxima and the sums of the softmax.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/row_sum.hpp>
#include <lod/kernels/thrust/sequence_softmax.hpp>
#include <lod/ops/sequence_logsumexp.hpp>
#include <lod/staging.hpp>
#include <lod/thrust_executor.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

/// What is subtracted from a column: its maximum, where that is a finite number. Else the exponentials are 0 or
/// infinite, and so is their sum.
template <class A>
LOD_HOST_DEVICE A logsumexp_shift(A maximum) {
  return maximum - maximum == A{} ? maximum : A{};
}

struct SequenceLogsumexp {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, T* y) {
    using A = Accumulator<T>;
    const Scratch<E, A> loan(executor, sequences.size * row_size);
    A* const maxima = loan.data();
    column_maxima(executor, x, sequences, row_size, maxima);
    sum_sequences<A>(
        executor, sequences, sequences.rows(), row_size,
        [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
          const A number = static_cast<A>(x[(sequences.begin(i) + row) * row_size + column]);
          return exponential(number - logsumexp_shift(maxima[i * row_size + column]));
        },
        [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column, A sum) {
          const std::int64_t at = i * row_size + column;
          y[at] = static_cast<T>(logsumexp_shift(maxima[at]) + std::log(sum));
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

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pooling over Thrust.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/row_sum.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/thrust_executor.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

/// What the sum of `length` rows becomes, or the gradient by what such a sum became.
template <class T, class Sum>
LOD_HOST_DEVICE T pooled(PoolType type, std::int64_t length, Sum sum) {
  using A = Accumulator<T>;
  if (type == PoolType::SUM) return static_cast<T>(sum);
  const double root = std::sqrt(static_cast<double>(length));
  if constexpr (std::floating_point<A>) {
    const A divisor = type == PoolType::AVERAGE ? static_cast<A>(length) : static_cast<A>(root);
    return static_cast<T>(static_cast<A>(sum) / divisor);
  } else if (type == PoolType::AVERAGE) {
    return static_cast<T>(static_cast<A>(sum) / length);
  } else {
    return static_cast<T>(static_cast<std::int64_t>(static_cast<double>(sum) / root));
  }
}

/// Whether `candidate` takes the place of `best`, which stands before it.
template <class T>
LOD_HOST_DEVICE bool wins(bool minimum, const T& candidate, const T& best) {
  const auto a = static_cast<Accumulator<T>>(candidate), b = static_cast<Accumulator<T>>(best);
  return (minimum ? a < b : a > b) || (a != a && b == b);
}

/// The row, counted from the sequence's start, that wins the column that begins at x. At least one row.
template <class T>
LOD_HOST_DEVICE std::int64_t winner(bool minimum, const T* x, std::int64_t length, std::int64_t row_size) {
  std::int64_t best = 0;
  for (std::int64_t row = 1; row < length; ++row) {
    if (wins(minimum, x[row * row_size], x[best * row_size])) best = row;
  }
  return best;
}

struct SequencePool {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, PoolType type,
                  T pad_value, T* y) {
    using A = Accumulator<T>;
    if (type == PoolType::SUM || type == PoolType::AVERAGE || type == PoolType::SQRT) {
      sum_sequences<A>(
          executor, sequences, sequences.rows(), row_size,
          [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
            return static_cast<A>(x[(sequences.begin(i) + row) * row_size + column]);
          },
          [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column, A sum) {
            const std::int64_t length = sequences.length(i);
            y[i * row_size + column] = length > 0 ? pooled<T>(type, length, sum) : pad_value;
          });
      return;
    }
    for_each(executor, sequences.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t i = at / row_size, length = sequences.length(i);
      if (length == 0) {  // there may be no row at all, and x be null
        y[at] = pad_value;
        return;
      }
      const T* const column = x + sequences.begin(i) * row_size + at % row_size;
      if (type == PoolType::FIRST || type == PoolType::LAST) {
        y[at] = column[type == PoolType::FIRST ? 0 : (length - 1) * row_size];
      } else {
        y[at] = column[winner(type == PoolType::MIN, column, length, row_size) * row_size];
      }
    });
  }
};

struct SequenceMaxPool {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, bool minimum,
                  T pad_value, T* y, std::int64_t* index) {
    for_each(executor, sequences.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t i = at / row_size, first = sequences.begin(i), length = sequences.length(i);
      if (length == 0) {
        y[at] = pad_value;
        index[at] = -1;
        return;
      }
      const T* const column = x + first * row_size + at % row_size;
      const std::int64_t best = winner(minimum, column, length, row_size);
      y[at] = column[best * row_size];
      index[at] = first + best;
    });
  }
};

struct SequencePoolGrad {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const Segments& sequences, std::int64_t row_size, PoolType type,
                  T* dx) {
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t at = row * row_size + column, length = sequences.length(i);
      const T from = dy[i * row_size + column];
      if (type == PoolType::FIRST || type == PoolType::LAST) {
        dx[at] = row - sequences.begin(i) == (type == PoolType::FIRST ? 0 : length - 1) ? from : T{};
      } else {
        dx[at] = pooled<T>(type, length, from);
      }
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

struct SequenceMaxPoolGrad {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const std::int64_t* index, const Segments& sequences,
                  std::int64_t row_size, T* dx) {
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t won = i * row_size + column;
      dx[row * row_size + column] = index[won] == row ? dy[won] : T{};
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

struct DividePooled {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const Segments& sequences, std::int64_t row_size, PoolType type,
                  T* y) {
    for_each(executor, sequences.size * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t length = sequences.length(at / row_size);
      if (length > 0) y[at] = pooled<T>(type, length, dy[at]);
    });
  }
};

}  // namespace bulk

template <class Policy>
struct SequencePool<ThrustExecutor<Policy>> : bulk::SequencePool {};
template <class Policy>
struct SequenceMaxPool<ThrustExecutor<Policy>> : bulk::SequenceMaxPool {};
template <class Policy>
struct SequencePoolGrad<ThrustExecutor<Policy>> : bulk::SequencePoolGrad {};
template <class Policy>
struct SequenceMaxPoolGrad<ThrustExecutor<Policy>> : bulk::SequenceMaxPoolGrad {};
template <class Policy>
struct DividePooled<ThrustExecutor<Policy>> : bulk::DividePooled {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

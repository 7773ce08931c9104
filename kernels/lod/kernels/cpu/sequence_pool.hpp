// SPDX-License-Identifier: Apache-2.0
/// @file
/// Pooling on the CPU.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_pool.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace cpu {

/// What the sum of `length` rows is divided by.
template <class A>
inline A pool_divisor(PoolType type, std::int64_t length) {
  switch (type) {
    case PoolType::AVERAGE:
      return static_cast<A>(length);
    case PoolType::SQRT:
      return static_cast<A>(std::sqrt(static_cast<double>(length)));
    default:
      return A{1};
  }
}

/// y = sum / sqrt(length), ... of `row_size` sums, or of the gradients by what such sums became.
template <class T, class Sum>
inline void finish_sum(PoolType type, std::int64_t length, const Sum* sum, std::int64_t row_size, T* y) {
  using A = Accumulator<T>;
  if (type == PoolType::SUM) {
    for (std::int64_t i = 0; i < row_size; ++i) y[i] = static_cast<T>(sum[i]);
  } else if constexpr (std::floating_point<A>) {
    const A divisor = pool_divisor<A>(type, length);
    for (std::int64_t i = 0; i < row_size; ++i) y[i] = static_cast<T>(static_cast<A>(sum[i]) / divisor);
  } else if (type == PoolType::AVERAGE) {
    for (std::int64_t i = 0; i < row_size; ++i) y[i] = static_cast<T>(static_cast<A>(sum[i]) / length);
  } else {
    const double divisor = pool_divisor<double>(type, length);
    for (std::int64_t i = 0; i < row_size; ++i)
      y[i] = static_cast<T>(static_cast<std::int64_t>(static_cast<double>(sum[i]) / divisor));
  }
}

template <class T>
void pool_sums(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size, PoolType type,
               T pad_value, T* y) {
  const std::int64_t numbers = sequences.rows() * row_size;
  const auto rows_of = [=](std::int64_t i, int) {
    const std::int64_t first = sequences.begin(i) * row_size;
    return ContiguousRows<T>{x + first, row_size, numbers - first};
  };
  sum_sequences<T>(executor, sequences, row_size, rows_of, [=](std::int64_t i, const Accumulator<T>* sums) {
    if (sums) {
      finish_sum(type, sequences.length(i), sums, row_size, y + i * row_size);
    } else {
      fill(y + i * row_size, row_size, pad_value);
    }
  });
}

/// Whether `candidate` takes the place of `best`, which stands before it.
template <bool minimum, class T>
inline bool wins(const T& candidate, const T& best) {
  if constexpr (std::integral<T>) {
    return minimum ? candidate < best : candidate > best;
  } else {
    const auto a = static_cast<Accumulator<T>>(candidate), b = static_cast<Accumulator<T>>(best);
    return (minimum ? a < b : a > b) | ((a != a) & (b == b));  // no jumps: the outcome is a coin's
  }
}

/// The greatest (least) of each column of `length` rows, and set_row(column, row) for the row where it stands.
template <bool minimum, class T, class Rows, class SetRow>
void pool_extremes(const Rows& rows, std::int64_t length, std::int64_t row_size, T* y, const SetRow& set_row) {
  copy(rows(0), row_size, y);
  for (std::int64_t column = 0; column < row_size; ++column) set_row(column, 0);
  for (std::int64_t row = 1; row < length; ++row) {
    const T* candidates = rows(row);
    for (std::int64_t column = 0; column < row_size; ++column) {
      if (wins<minimum>(candidates[column], y[column])) {
        y[column] = candidates[column];
        set_row(column, row);
      }
    }
  }
}

/// The same without the row: whole vectors at a time, along the columns of wide rows, across scalar rows that lie one
/// behind the other.
template <bool minimum, class T, class Rows>
void pool_extremes(const Rows& rows, std::int64_t length, std::int64_t row_size, T* y) {
  const auto keep = [](const Vector<T>& candidate, const Vector<T>& best) {
    if constexpr (minimum) {
      return xsimd::select(falls_below(candidate, best), candidate, best);
    } else {
      return xsimd::select(exceeds(candidate, best), candidate, best);
    }
  };
  if constexpr (std::same_as<Rows, ContiguousRows<T>>) {
    if (row_size == 1) {
      using A = Accumulator<T>;
      const T* const x = rows.first;
      const auto first = static_cast<A>(*x);
      Vector<T> best(first);
      std::int64_t row = 0;
      for (; row + lanes<T> <= length; row += lanes<T>) best = keep(load(x + row), best);
      if (row < length) best = keep(load_first(x + row, length - row, first, rows.readable - row), best);
      if constexpr (std::floating_point<A>) {
        if (xsimd::any(xsimd::isnan(best))) {
          *y = *std::find_if(x, x + length, [](const T& number) { return number != number; });
          return;
        }
      }
      alignas(64) A lane[Vector<T>::size];
      best.store_aligned(lane);
      for (std::size_t folded = Vector<T>::size / 2; folded > 0; folded /= 2) {
        for (std::size_t i = 0; i < folded; ++i) {
          lane[i] = minimum ? std::min(lane[i], lane[folded + i]) : std::max(lane[i], lane[folded + i]);
        }
      }
      *y = static_cast<T>(lane[0]);
      if constexpr (std::floating_point<A>) {
        // Zeros of both signs are equal: the first one stands, in whatever lane it was.
        if (lane[0] == 0) *y = *std::find(x, x + length, *y);
      }
      return;
    }
  }
  if (row_size >= lanes<T>) {
    copy(rows(0), row_size, y);
    for (std::int64_t row = 1; row < length; ++row) transform<T>(rows(row), y, row_size, y, keep);
  } else {
    pool_extremes<minimum>(rows, length, row_size, y, [](std::int64_t, std::int64_t) {});
  }
}

}  // namespace cpu

template <>
struct SequencePool<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  PoolType type, T pad_value, T* y) {
    if (type == PoolType::SUM || type == PoolType::AVERAGE || type == PoolType::SQRT) {
      cpu::pool_sums(executor, x, sequences, row_size, type, pad_value, y);
      return;
    }
    const std::int64_t row_bytes = row_size * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t numbers = sequences.rows() * row_size;
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t length = sequences.length(i);
        const std::int64_t before = sequences.begin(i) * row_size;
        const cpu::ContiguousRows<T> rows{x + before, row_size, numbers - before};
        T* out = y + i * row_size;
        if (length == 0) {
          cpu::fill(out, row_size, pad_value);
        } else if (type == PoolType::MAX) {
          cpu::pool_extremes<false>(rows, length, row_size, out);
        } else if (type == PoolType::MIN) {
          cpu::pool_extremes<true>(rows, length, row_size, out);
        } else {
          cpu::copy(rows(type == PoolType::FIRST ? 0 : length - 1), row_size, out);
        }
      }
    });
  }
};

template <>
struct SequenceMaxPool<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size,
                  bool minimum, T pad_value, T* y, std::int64_t* index) {
    const std::int64_t row_bytes = row_size * static_cast<std::int64_t>(sizeof(T));
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first_row = sequences.begin(i);
        T* out = y + i * row_size;
        std::int64_t* rows = index + i * row_size;
        if (sequences.length(i) == 0) {
          cpu::fill(out, row_size, pad_value);
          cpu::fill<std::int64_t>(rows, row_size, -1);
          continue;
        }
        const auto set_row = [&](std::int64_t column, std::int64_t row) { rows[column] = first_row + row; };
        const cpu::ContiguousRows<T> at{x + first_row * row_size, row_size};
        if (minimum) {
          cpu::pool_extremes<true>(at, sequences.length(i), row_size, out, set_row);
        } else {
          cpu::pool_extremes<false>(at, sequences.length(i), row_size, out, set_row);
        }
      }
    });
  }
};

template <>
struct SequencePoolGrad<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const Segments& sequences, std::int64_t row_size,
                  PoolType type, T* dx) {
    const std::int64_t row_bytes = row_size * static_cast<std::int64_t>(sizeof(T));
    cpu::parallel_rows(executor, sequences, row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t room) {
                         const std::int64_t length = sequences.length(i);
                         const T* from = dy + i * row_size;
                         T* first = dx + (sequences.begin(i) + begin) * row_size;
                         if (type == PoolType::FIRST || type == PoolType::LAST) {
                           cpu::fill(first, (end - begin) * row_size, T{});
                           const std::int64_t row = type == PoolType::FIRST ? 0 : length - 1;
                           if (begin <= row && row < end) cpu::copy(from, row_size, first + (row - begin) * row_size);
                         } else if (type == PoolType::SUM) {
                           cpu::repeat_row(from, row_size, end - begin, first, room);
                         } else {
                           // One row is computed; the others are copies of what has been written.
                           cpu::finish_sum(type, length, from, row_size, first);
                           cpu::repeat_row(first, row_size, end - begin - 1, first + row_size, room - 1);
                         }
                       });
  }
};

template <>
struct SequenceMaxPoolGrad<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const std::int64_t* index, const Segments& sequences,
                  std::int64_t row_size, T* dx) {
    const std::int64_t row_bytes = row_size * static_cast<std::int64_t>(sizeof(T));
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        cpu::fill(dx + sequences.begin(i) * row_size, sequences.length(i) * row_size, T{});
        for (std::int64_t column = 0; column < row_size; ++column) {
          const std::int64_t row = index[i * row_size + column];
          if (row >= 0) dx[row * row_size + column] = dy[i * row_size + column];
        }
      }
    });
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

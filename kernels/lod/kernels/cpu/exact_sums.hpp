// SPDX-License-Identifier: Apache-2.0
/// @file
/// The exact sums of the rows of many sequences of 64-bit integers, on the CPU: of each number the upper half is summed
/// beside the number itself, whose sum wraps around.
#pragma once

#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/wide_sum.hpp>
#include <lod/sizes.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_TARGET {
namespace kernel::cpu {

/// Both sums of at most 2^31 numbers.
template <class T>
struct SumAndUpperHalves {
  static_assert(divides_wide_sums<T>);
  std::uint64_t all = 0;
  T upper = 0;

  void add(T number) noexcept {
    all += static_cast<std::uint64_t>(number);
    upper = static_cast<T>(upper + (number >> 32));
  }
  WideInteger sum() const noexcept {
    // The lower halves, which are not negative, are what is missing.
    const std::uint64_t upper_bits = static_cast<std::uint64_t>(upper) << 32;
    return WideInteger(upper_bits, static_cast<std::int64_t>(upper >> 32)) + WideInteger(all - upper_bits, 0);
  }
};

/// The same of a vector of numbers.
template <class T>
struct VectorSumAndUpperHalves {
  typedef T Numbers __attribute__((vector_size(sizeof(Vector<T>))));
  static constexpr std::size_t size = Vector<T>::size;
  Numbers all = {}, upper = {};

  [[gnu::always_inline]] void add(const Vector<T>& vector) noexcept {
    const auto numbers = __builtin_bit_cast(Numbers, vector);
    // Without a sign, of which overflow is none.
    typedef std::uint64_t Bits __attribute__((vector_size(sizeof(Vector<T>))));
    all = (Numbers)((Bits)all + (Bits)numbers);
    upper += numbers >> 32;
  }
  WideInteger sum(std::size_t lane) const noexcept {
    return SumAndUpperHalves<T>{static_cast<std::uint64_t>(all[lane]), upper[lane]}.sum();
  }
};

/// Rows of 1 to 7 columns one behind the other: so many vectors are whole rows.
template <std::size_t columns, class T>
inline void sum_narrow_exactly(const T* x, std::int64_t numbers, std::int64_t readable, WideInteger* sums) {
  constexpr std::size_t vectors = columns == 1 ? 2 : columns;
  constexpr std::int64_t block = static_cast<std::int64_t>(vectors) * lanes<T>;
  VectorSumAndUpperHalves<T> halves[vectors];
  std::int64_t left = numbers;
  for (; left >= block; left -= block, readable -= block, x += block) {
    for (std::size_t v = 0; v < vectors; ++v) halves[v].add(load(x + v * Vector<T>::size));
  }
  for (std::size_t v = 0; v < vectors && left > 0; ++v, left -= lanes<T>, readable -= lanes<T>, x += lanes<T>) {
    halves[v].add(load_first(x, left, 0, readable));
  }
  SumAndUpperHalves<T> of_columns[columns];
  for (std::size_t v = 0; v < vectors; ++v) {
    for (std::size_t lane = 0; lane < Vector<T>::size; ++lane) {
      SumAndUpperHalves<T>& sum = of_columns[(v * Vector<T>::size + lane) % columns];
      sum.all += static_cast<std::uint64_t>(halves[v].all[lane]);
      sum.upper = static_cast<T>(sum.upper + halves[v].upper[lane]);
    }
  }
  for (std::size_t column = 0; column < columns; ++column) sums[column] = sums[column] + of_columns[column].sum();
}

/// So many vectors of columns from `first` on.
template <std::size_t vectors, class T, class Rows>
inline void sum_columns_exactly(const Rows& rows, std::int64_t begin, std::int64_t end, std::int64_t first,
                                WideInteger* sums) {
  VectorSumAndUpperHalves<T> halves[vectors];
  for (std::int64_t row = begin; row < end; ++row) {
    const T* const numbers = rows(row) + first;
    for (std::size_t v = 0; v < vectors; ++v) halves[v].add(load(numbers + v * Vector<T>::size));
  }
  for (std::size_t v = 0; v < vectors; ++v) {
    for (std::size_t lane = 0; lane < Vector<T>::size; ++lane) {
      WideInteger& sum = sums[static_cast<std::size_t>(first) + v * Vector<T>::size + lane];
      sum = sum + halves[v].sum(lane);
    }
  }
}

/// Adds rows [begin, end), at most 2^31, to sums[0 .. row_size).
template <class T, class Rows>
void add_exactly(const Rows& rows, std::int64_t begin, std::int64_t end, std::int64_t row_size, WideInteger* sums) {
  if constexpr (std::same_as<Rows, ContiguousRows<T>>) {
    const T* const x = rows(begin);
    const std::int64_t numbers = (end - begin) * row_size, readable = rows.readable - begin * row_size;
    switch (row_size) {
      case 1:
        return sum_narrow_exactly<1>(x, numbers, readable, sums);
      case 2:
        return sum_narrow_exactly<2>(x, numbers, readable, sums);
      case 3:
        return sum_narrow_exactly<3>(x, numbers, readable, sums);
      case 4:
        return sum_narrow_exactly<4>(x, numbers, readable, sums);
      case 5:
        return sum_narrow_exactly<5>(x, numbers, readable, sums);
      case 6:
        return sum_narrow_exactly<6>(x, numbers, readable, sums);
      case 7:
        return sum_narrow_exactly<7>(x, numbers, readable, sums);
      default:
        break;
    }
  }
  constexpr std::int64_t vectors = 4;
  std::int64_t column = 0;
  for (; column + vectors * lanes<T> <= row_size; column += vectors * lanes<T>) {
    sum_columns_exactly<vectors, T>(rows, begin, end, column, sums);
  }
  for (; column + lanes<T> <= row_size; column += lanes<T>) {
    sum_columns_exactly<1, T>(rows, begin, end, column, sums);
  }
  for (; column < row_size; ++column) {
    SumAndUpperHalves<T> halves;
    for (std::int64_t row = begin; row < end; ++row) halves.add(rows(row)[column]);
    sums[column] = sums[column] + halves.sum();
  }
}

/// Calls finish(i, sums) as `sum_sequences` does, with the sums as `WideInteger`s.
template <class T, class RowsOf, class Finish>
void sum_sequences_exactly(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_size,
                           const RowsOf& rows_of, const Finish& finish) {
  // Of rows without elements there may be any number. See `Segments::none`: without sequences memory is taken for rows.
  if (row_size == 0 || (sequences.size == 0 && sequences.rows() == 0)) return;
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size), step = chunk_rows(row_size);
  const ThreadScratch<WideInteger> scratch(executor, row_size);
  LongSequences long_ones(executor, sequences, longest_alone(executor, sequences, row_bytes, step));
  const Workspace::Loan<WideInteger> partial(executor.workspace(), (long_ones.longest() + step - 1) / step * row_size);
  const auto add = [=](const auto& rows, std::int64_t begin, std::int64_t end, WideInteger* sums) {
    constexpr std::int64_t most = std::int64_t{1} << 31;
    fill(sums, row_size, WideInteger());
    for (; begin < end; begin += most) add_exactly<T>(rows, begin, std::min(begin + most, end), row_size, sums);
  };
  parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
    WideInteger* const sums = scratch(thread);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t length = sequences.length(i);
      if (long_ones.note(i, length)) continue;
      if (length == 0) {
        finish(i, static_cast<const WideInteger*>(nullptr));
        continue;
      }
      add(rows_of(i, thread), 0, length, sums);
      finish(i, static_cast<const WideInteger*>(sums));
    }
  });
  long_ones.for_each([&](std::int64_t i) {
    const std::int64_t length = sequences.length(i), chunks = (length + step - 1) / step;
    parallel_for(executor, chunks, length * row_bytes, [&](std::int64_t chunk, int thread) {
      add(rows_of(i, thread), chunk * step, std::min((chunk + 1) * step, length), partial.data() + chunk * row_size);
    });
    WideInteger* const sums = partial.data();
    for (std::int64_t at = row_size; at < chunks * row_size; ++at) {
      sums[at % row_size] = sums[at % row_size] + sums[at];
    }
    finish(i, static_cast<const WideInteger*>(sums));
  });
  finish_large_output();
}

}  // namespace kernel::cpu
}  // namespace lod::inline LOD_TARGET

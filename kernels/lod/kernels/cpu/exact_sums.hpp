// SPDX-License-Identifier: Apache-2.0
/// @file
/// The exact sums of the rows of many sequences of 64-bit integers, on the CPU: of each number the upper half is summed
/// beside the number itself, whose sum wraps around. It does not where the sum of the upper halves is small.
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
#include <cstring>

namespace lod::inline LOD_TARGET {
namespace kernel::cpu {

/// So many numbers at most are summed by halves: 2^31 sums of upper halves would not wrap around.
inline constexpr std::int64_t most_halves = std::int64_t{1} << 28;

/// Both sums of at most `most_halves` numbers. Where the one of the upper halves is small, less than 2^30 and not less
/// than -2^30, the other has not wrapped around.
template <class T>
struct SumAndUpperHalves {
  static_assert(divides_wide_sums<T>);
  std::uint64_t all = 0;
  T upper = 0;

  void add(T number) noexcept {
    all += static_cast<std::uint64_t>(number);
    upper = static_cast<T>(upper + (number >> 32));
  }
  bool is_small() const noexcept { return (static_cast<std::uint64_t>(upper) + (std::uint64_t{1} << 30)) >> 31 == 0; }
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
  typedef std::uint64_t Bits __attribute__((vector_size(sizeof(Vector<T>))));  // without a sign: none overflows
  Numbers all = {}, upper = {};

  [[gnu::always_inline]] void add(const Vector<T>& vector) noexcept {
    const auto numbers = __builtin_bit_cast(Numbers, vector);
    all = (Numbers)((Bits)all + (Bits)numbers);
    upper += numbers >> 32;
  }
};
/// Whether the sums of upper halves are so small that 16 of them add up to a small one.
template <std::size_t vectors, class T>
[[gnu::always_inline]] inline bool are_small(const VectorSumAndUpperHalves<T> (&halves)[vectors]) noexcept {
  typename VectorSumAndUpperHalves<T>::Bits ones = {};
  for (std::size_t v = 0; v < vectors; ++v) {
    ones |= (typename VectorSumAndUpperHalves<T>::Bits)halves[v].upper + (std::uint64_t{1} << 26);
  }
  return xsimd::all(__builtin_bit_cast(Vector<T>, ones >> 27) == Vector<T>(0));
}

/// No more rows are tried as ordinary ones.
inline constexpr std::int64_t most_ordinary = std::int64_t{1} << 14;

/// Sums at most `most_ordinary` rows of 1 to 7 columns one behind the other as numbers of 64 bits. Returns whether all
/// numbers are so small, at most 48 bits, that the sums are right.
template <std::size_t columns, class T>
[[gnu::always_inline]] inline bool sum_ordinary_rows(const T* x, std::int64_t numbers, std::int64_t readable,
                                                     std::int64_t* sums) {
  constexpr std::size_t vectors = narrow_vectors<columns, T>;
  constexpr std::int64_t block = static_cast<std::int64_t>(vectors) * lanes<T>;
  const Vector<T> middle(static_cast<Accumulator<T>>(std::signed_integral<T> ? std::int64_t{1} << 47 : 0));
  Vector<T> all[vectors], ones(0);
  for (std::size_t v = 0; v < vectors; ++v) all[v] = Vector<T>(0);
  std::int64_t left = numbers;
  for (; left >= block; left -= block, readable -= block, x += block) {
    for (std::size_t v = 0; v < vectors; ++v) {
      const Vector<T> some = load(x + v * Vector<T>::size);
      all[v] += some;
      ones = ones | (some + middle);
    }
  }
  for (std::size_t v = 0; v < vectors; ++v, left -= lanes<T>, readable -= lanes<T>, x += lanes<T>) {
    const Vector<T> some = load_first(x, left, 0, readable);
    all[v] += some;
    ones = ones | (some + middle);
  }
  add_tree<columns, T>(all, sums);
  return xsimd::all((ones >> 48) == Vector<T>(0));
}

/// Rows of 1 to 7 columns one behind the other: so many vectors are whole rows. The same as `sum_halves`.
template <std::size_t columns, class T>
inline bool sum_narrow_halves(const T* x, std::int64_t numbers, std::int64_t readable, std::int64_t* all, T* upper) {
  if (numbers <= most_ordinary && sum_ordinary_rows<columns>(x, numbers, readable, all)) return true;
  constexpr std::size_t vectors = columns <= 2 ? narrow_vectors<columns, T> : columns;
  constexpr std::size_t rows = vectors * Vector<T>::size / columns;
  constexpr std::int64_t block = static_cast<std::int64_t>(vectors) * lanes<T>;
  static_assert(rows <= 16);
  VectorSumAndUpperHalves<T> halves[vectors];
  std::int64_t left = numbers;
  for (; left >= block; left -= block, readable -= block, x += block) {
    for (std::size_t v = 0; v < vectors; ++v) halves[v].add(load(x + v * Vector<T>::size));
  }
  for (std::size_t v = 0; v < vectors; ++v, left -= lanes<T>, readable -= lanes<T>, x += lanes<T>) {
    halves[v].add(load_first(x, left, 0, readable));
  }
  const bool small = are_small(halves);
  if constexpr (columns <= 2) {
    Vector<T> sums[vectors];
    for (std::size_t v = 0; v < vectors; ++v) sums[v] = __builtin_bit_cast(Vector<T>, halves[v].all);
    add_tree<columns, T>(sums, all);
  } else {
    alignas(64) std::int64_t sums[vectors * Vector<T>::size];
    for (std::size_t v = 0; v < vectors; ++v)
      std::memcpy(sums + v * Vector<T>::size, &halves[v].all, sizeof(Vector<T>));
    add_tree<columns>(rows, sums, all);
  }
  if (small) return true;
  std::fill_n(upper, columns, T{});
  for (std::size_t i = 0; i < vectors * Vector<T>::size; ++i) {
    upper[i % columns] = static_cast<T>(upper[i % columns] + halves[i / Vector<T>::size].upper[i % Vector<T>::size]);
  }
  return false;
}

/// So many vectors of columns from `first` on.
template <std::size_t vectors, class T, class Rows>
inline bool sum_columns_by_halves(const Rows& rows, std::int64_t begin, std::int64_t end, std::int64_t first,
                                  std::int64_t* all, T* upper) {
  VectorSumAndUpperHalves<T> halves[vectors];
  for (std::int64_t row = begin; row < end; ++row) {
    const T* const numbers = rows(row) + first;
    for (std::size_t v = 0; v < vectors; ++v) halves[v].add(load(numbers + v * Vector<T>::size));
  }
  for (std::size_t v = 0; v < vectors; ++v) {
    std::memcpy(all + first + v * Vector<T>::size, &halves[v].all, sizeof(Vector<T>));
    std::memcpy(upper + first + v * Vector<T>::size, &halves[v].upper, sizeof(Vector<T>));
  }
  return are_small(halves);
}

/// The sums of rows [begin, end), at most `most_halves`: all[0 .. row_size), and those of their upper halves. Returns
/// whether all these are small; of narrow rows they may not be written then.
template <class T, class Rows>
bool sum_halves(const Rows& rows, std::int64_t begin, std::int64_t end, std::int64_t row_size, std::int64_t* all,
                T* upper) {
  if constexpr (std::same_as<Rows, ContiguousRows<T>>) {
    const T* const x = rows(begin);
    const std::int64_t numbers = (end - begin) * row_size, readable = rows.readable - begin * row_size;
    switch (row_size) {
      case 1:
        return sum_narrow_halves<1>(x, numbers, readable, all, upper);
      case 2:
        return sum_narrow_halves<2>(x, numbers, readable, all, upper);
      case 3:
        return sum_narrow_halves<3>(x, numbers, readable, all, upper);
      case 4:
        return sum_narrow_halves<4>(x, numbers, readable, all, upper);
      case 5:
        return sum_narrow_halves<5>(x, numbers, readable, all, upper);
      case 6:
        return sum_narrow_halves<6>(x, numbers, readable, all, upper);
      case 7:
        return sum_narrow_halves<7>(x, numbers, readable, all, upper);
      default:
        break;
    }
  }
  constexpr std::int64_t vectors = 4;
  std::int64_t column = 0;
  bool small = true;
  for (; column + vectors * lanes<T> <= row_size; column += vectors * lanes<T>) {
    small &= sum_columns_by_halves<vectors>(rows, begin, end, column, all, upper);
  }
  for (; column + lanes<T> <= row_size; column += lanes<T>) {
    small &= sum_columns_by_halves<1>(rows, begin, end, column, all, upper);
  }
  for (; column < row_size; ++column) {
    SumAndUpperHalves<T> halves;
    for (std::int64_t row = begin; row < end; ++row) halves.add(rows(row)[column]);
    all[column] = static_cast<std::int64_t>(halves.all);
    upper[column] = halves.upper;
    small &= halves.is_small();
  }
  return small;
}

/// Calls finish(i, sums) as `sum_sequences` does, with exact sums: as integers of 64 bits where all of a sequence have
/// room there, else as `WideInteger`s.
template <class T, class RowsOf, class Finish>
void sum_sequences_exactly(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_size,
                           const RowsOf& rows_of, const Finish& finish) {
  // Of rows without elements there may be any number. See `Segments::none`: without sequences memory is taken for rows.
  if (row_size == 0 || (sequences.size == 0 && sequences.rows() == 0)) return;
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size), step = chunk_rows(row_size);
  const ThreadScratch<std::int64_t> sums_of_all(executor, row_size);
  const ThreadScratch<T> sums_of_upper(executor, row_size);
  const ThreadScratch<WideInteger> wide_sums(executor, row_size);
  LongSequences long_ones(executor, sequences, longest_alone(executor, sequences, row_bytes, step));
  const Workspace::Loan<WideInteger> partial(executor.workspace(), (long_ones.longest() + step - 1) / step * row_size);
  // Rows [begin, end) by a thread; their upper halves are written.
  const auto add = [&](const auto& rows, std::int64_t begin, std::int64_t end, WideInteger* sums, int thread) {
    std::int64_t* const all = sums_of_all(thread);
    T* const upper = sums_of_upper(thread);
    fill(sums, row_size, WideInteger());
    for (; begin < end; begin += most_halves) {
      const bool small = sum_halves<T>(rows, begin, std::min(begin + most_halves, end), row_size, all, upper);
      for (std::int64_t column = 0; column < row_size; ++column) {
        const SumAndUpperHalves<T> halves{static_cast<std::uint64_t>(all[column]), upper[column]};
        sums[column] = sums[column] + (small ? WideInteger(all[column]) : halves.sum());
      }
    }
  };
  parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
    const RowsOf rows_at = rows_of;
    const Finish finish_one = finish;
    const std::int64_t size = row_size;
    std::int64_t* const all = sums_of_all(thread);
    T* const upper = sums_of_upper(thread);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t length = sequences.length(i);
      if (long_ones.note(i, length)) continue;
      if (length == 0) {
        finish_one(i, static_cast<const std::int64_t*>(nullptr));
        continue;
      }
      const auto rows = rows_at(i, thread);
      if constexpr (std::same_as<decltype(rows), const ContiguousRows<T>>) {
        if (size == 1 && length <= most_ordinary && sum_ordinary_rows<1>(rows.first, length, rows.readable, all)) {
          finish_one(i, static_cast<const std::int64_t*>(all));
          continue;
        }
      }
      if (length <= most_halves && sum_halves<T>(rows, 0, length, size, all, upper)) {
        finish_one(i, static_cast<const std::int64_t*>(all));
        continue;
      }
      add(rows, 0, length, wide_sums(thread), thread);
      finish_one(i, static_cast<const WideInteger*>(wide_sums(thread)));
    }
  });
  long_ones.for_each([&](std::int64_t i) {
    const std::int64_t length = sequences.length(i), chunks = (length + step - 1) / step;
    parallel_for(executor, chunks, length * row_bytes, [&](std::int64_t chunk, int thread) {
      WideInteger* const sums = partial.data() + chunk * row_size;
      add(rows_of(i, thread), chunk * step, std::min((chunk + 1) * step, length), sums, thread);
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

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The exact sums of the rows of many sequences of 64-bit integers, on the CPU. Sums of a few ordinary numbers, far
/// from the limits of their type, do not wrap around; whether all were ordinary is checked after they have been added.
#pragma once

#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/wide_sum.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The greatest number of bits of an ordinary number, including the sign.
inline constexpr int ordinary_bits = 48;
/// The greatest number of ordinary rows that are added up: their sums have 62 bits.
inline constexpr std::int64_t most_ordinary = std::int64_t{1} << 14;

using Int64s = Vector<std::int64_t>;
/// Added to an ordinary number of type T, makes it nonnegative.
template <class T>
inline constexpr std::int64_t ordinary_middle =
    std::signed_integral<T> ? std::int64_t{1} << (ordinary_bits - 1) : std::int64_t{0};

/// `bits` is the bitwise or of all numbers, each plus `ordinary_middle`.
inline bool were_ordinary(const Int64s& bits) { return xsimd::all((bits >> ordinary_bits) == Int64s(0)); }

/// Sums of at most `most_ordinary` contiguous rows of a few columns, in sums[0 .. columns). They are right if
/// `were_ordinary` holds for the returned bits.
template <std::size_t columns, class X>
[[gnu::always_inline]] inline Int64s sum_ordinary_rows(const ContiguousRows<X>& rows, std::int64_t length,
                                                       std::int64_t* sums) {
  using T = std::int64_t;
  constexpr std::size_t vectors = narrow_vectors<columns, T>;
  constexpr std::int64_t block = static_cast<std::int64_t>(vectors) * lanes<T>;
  const auto* x = reinterpret_cast<const std::int64_t*>(rows.first);
  std::int64_t left = length * static_cast<std::int64_t>(columns), readable = rows.readable, added = 16;
  Int64s all[vectors], bits(0);
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) all[v] = Int64s(0);
  const auto add = [&](std::size_t v, const Int64s& some) {
    const Int64s moved = read_once(some) + Int64s(ordinary_middle<X>);
    all[v] += moved;
    bits = bits | moved;
  };
  for (; left >= block; left -= block, readable -= block, x += block, added += 16) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) add(v, load(x + v * Int64s::size));
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v, left -= lanes<T>, readable -= lanes<T>, x += lanes<T>) {
    add(v, load_first(x, left, 0, readable));
  }
  add_tree<columns, T>(all).store(sums);
  for (std::size_t column = 0; column < columns; ++column)
    sums[column] = plus(sums[column], -added * ordinary_middle<X>);
  return bits;
}
/// The same for any row size from `columns` to 7.
template <std::size_t columns, class T>
Int64s sum_narrow_ordinary(const ContiguousRows<T>& rows, std::int64_t length, std::int64_t* sums) {
  if constexpr (columns < narrow_row_size) {
    if (rows.row_size != columns) return sum_narrow_ordinary<columns + 1>(rows, length, sums);
  }
  return sum_ordinary_rows<columns>(rows, length, sums);
}

/// The same for wider rows: several vectors of columns from `first` on, the last of which begins at column `last`.
template <std::size_t vectors, class T, class Rows>
inline Int64s sum_ordinary_columns(const Rows& rows, std::int64_t begin, std::int64_t end, std::int64_t row_size,
                                   std::int64_t first, std::int64_t last, std::int64_t* sums) {
  Int64s all[vectors], bits(0);
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) all[v] = Int64s((begin - end) * ordinary_middle<T>);
  const auto place = [=](std::size_t v) {
    return v + 1 < vectors ? first + static_cast<std::int64_t>(v) * lanes<T> : last;
  };
  const auto add = [&](const T* row) {
    const auto* const numbers = reinterpret_cast<const std::int64_t*>(row);
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      const Int64s moved = read_once(load(numbers + place(v))) + Int64s(ordinary_middle<T>);
      all[v] += moved;
      bits = bits | moved;
    }
  };
  std::int64_t row = begin;
  for (; row + 4 <= end; row += 4) {
    prefetch_after<4, T>(rows, row, row_size);
    for (std::int64_t k = 0; k < 4; ++k) add(row_at<T>(rows, row + k));
  }
  for (; row < end; ++row) {
    prefetch_after<1, T>(rows, row, row_size);
    add(row_at<T>(rows, row));
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) store<std::int64_t>(sums + place(v), all[v]);
  return bits;
}

/// The same for any rows, from `begin` on.
template <class T, class Rows>
Int64s sum_ordinary(const Rows& rows, std::int64_t begin, std::int64_t end, std::int64_t row_size, std::int64_t* sums) {
  if constexpr (std::same_as<Rows, ContiguousRows<T>>) {
    if (row_size <= narrow_row_size) {
      const ContiguousRows<T> part{rows(begin), row_size, rows.readable - begin * row_size};
      return sum_narrow_ordinary<1>(part, end - begin, sums);
    }
  }
  if (row_size < lanes<T>) {
    std::fill_n(sums, row_size, std::int64_t{0});
    std::uint64_t seen = 0;
    for (std::int64_t row = begin; row < end; ++row) {
      const T* const numbers = rows(row);
      for (std::int64_t column = 0; column < row_size; ++column) {
        const auto number = static_cast<std::uint64_t>(numbers[column]);
        sums[column] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sums[column]) + number);
        seen |= number + static_cast<std::uint64_t>(ordinary_middle<T>);
      }
    }
    return Int64s(static_cast<std::int64_t>(seen));
  }
  // If the last columns do not fill a vector, it overlaps the columns before them, which are added up twice.
  constexpr std::int64_t step = 4 * lanes<T>;
  Int64s bits(0);
  for (std::int64_t first = 0; first < row_size; first += step) {
    const std::int64_t left = row_size - first, last = row_size - lanes<T>;
    if (left > 3 * lanes<T>) {
      bits = bits |
             sum_ordinary_columns<4, T>(rows, begin, end, row_size, first, std::min(first + 3 * lanes<T>, last), sums);
    } else if (left > 2 * lanes<T>) {
      bits = bits | sum_ordinary_columns<3, T>(rows, begin, end, row_size, first, last, sums);
    } else if (left > lanes<T>) {
      bits = bits | sum_ordinary_columns<2, T>(rows, begin, end, row_size, first, last, sums);
    } else {
      bits = bits | sum_ordinary_columns<1, T>(rows, begin, end, row_size, first, last, sums);
    }
  }
  return bits;
}

/// Adds up any numbers exactly: their lower and upper halves separately, whose sums fit 64 bits.
template <class T>
class HalvesOfRows {
 public:
  HalvesOfRows(const CpuExecutor& executor, std::int64_t row_size)
      : row_size_(row_size),
        width_(row_size <= narrow_row_size ? rows_at_once * row_size : row_size),
        lower_(executor, width_),
        upper_(executor, width_) {}

  /// Adds fewer than 2^31 rows from `begin` on to sums[0 .. row_size); called by thread `thread`.
  template <class Rows>
  void add(const Rows& rows, std::int64_t begin, std::int64_t end, WideInteger* sums, int thread) const {
    std::uint64_t* const lower = lower_(thread);
    T* const upper = upper_(thread);
    std::fill_n(lower, width_, std::uint64_t{0});
    std::fill_n(upper, width_, T{});
    std::int64_t step = 1;
    if constexpr (std::same_as<Rows, ContiguousRows<T>>) step = width_ / row_size_;
    for (std::int64_t row = begin; row < end; row += step) {
      const T* const numbers = rows(row);
      const std::int64_t count = std::min(step, end - row) * row_size_;
      for (std::int64_t i = 0; i < count; ++i) {
        lower[i] += static_cast<std::uint64_t>(numbers[i]) & 0xffffffff;
        upper[i] = static_cast<T>(upper[i] + (numbers[i] >> 32));
      }
    }
    for (std::int64_t i = 0; i < width_; ++i) {
      const WideInteger high(static_cast<std::uint64_t>(upper[i]) << 32, static_cast<std::int64_t>(upper[i] >> 32));
      WideInteger& sum = sums[i % row_size_];
      sum = sum + high + WideInteger(lower[i]);
    }
  }

 private:
  static constexpr std::int64_t rows_at_once = 16;  // for narrow rows

  std::int64_t row_size_;
  std::int64_t width_;
  ThreadScratch<std::uint64_t> lower_;
  ThreadScratch<T> upper_;
};

/// Calls finish(i, sums) as `sum_sequences` does, with exact sums: as 64-bit integers where all numbers are ordinary,
/// otherwise as `WideInteger`s. It may be called twice for a sequence.
template <class T, class RowsOf, class Finish>
void sum_sequences_exactly(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_size,
                           const RowsOf& rows_of, const Finish& finish) {
  static_assert(divides_wide_sums<T>);
  // Rows without elements may be any number. `Segments::none`: without sequences, memory is still taken for the rows.
  if (row_size == 0 || (sequences.size == 0 && sequences.rows() == 0)) return;
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size), step = chunk_rows(row_size);
  const ThreadScratch<std::int64_t> ordinary_sums(executor, row_size);
  const ThreadScratch<WideInteger> wide_sums(executor, row_size);
  const HalvesOfRows<T> halves(executor, row_size);
  const std::int64_t longest = longest_alone(executor, sequences, row_bytes, step);
  LongSequences long_ones(executor, sequences, longest);
  const Workspace::Loan<WideInteger> partial(executor.workspace(), (long_ones.longest() + step - 1) / step * row_size);
  // Sums up rows [begin, end) on thread `thread`.
  const auto sum_up = [&](const auto& rows, std::int64_t begin, std::int64_t end, WideInteger* sums, int thread) {
    fill(sums, row_size, WideInteger());
    for (std::int64_t first = begin; first < end; first += most_ordinary) {
      const std::int64_t stop = std::min(first + most_ordinary, end);
      std::int64_t* const ordinary = ordinary_sums(thread);
      if (!were_ordinary(sum_ordinary<T>(rows, first, stop, row_size, ordinary))) {
        halves.add(rows, first, stop, sums, thread);
        continue;
      }
      for (std::int64_t column = 0; column < row_size; ++column) {
        sums[column] = sums[column] + WideInteger(ordinary[column]);
      }
    }
  };
  parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
    // Copies, as in `sum_sequences`.
    const Segments all = sequences;
    const RowsOf rows_at = rows_of;
    const Finish finish_one = finish;
    const std::int64_t size = row_size, most = std::min(longest, most_ordinary);
    std::int64_t* const sums = ordinary_sums(thread);
    const auto finish_exactly = [&](std::int64_t i) {
      sum_up(rows_at(i, thread), 0, all.length(i), wide_sums(thread), thread);
      finish_one(i, static_cast<const WideInteger*>(wide_sums(thread)));
    };
    // Numbers are checked for many sequences at a time.
    constexpr std::int64_t some = 64;
    for (std::int64_t first = begin; first < end; first += some) {
      const std::int64_t stop = std::min(first + some, end);
      Int64s bits(0);
      for (std::int64_t i = first; i < stop; ++i) {
        const std::int64_t length = all.length(i);
        if (long_ones.note(i, length)) continue;
        if (length > most) {
          finish_exactly(i);
        } else if (length > 0) {
          const auto rows = rows_at(i, thread);
          if constexpr (std::same_as<decltype(rows), const ContiguousRows<T>>) {
            bits = bits | (size == 1 ? sum_ordinary_rows<1>(rows, length, sums)
                                     : sum_ordinary<T>(rows, 0, length, size, sums));
          } else {
            bits = bits | sum_ordinary<T>(rows, 0, length, size, sums);
          }
          finish_one(i, static_cast<const std::int64_t*>(sums));
        } else {
          finish_one(i, static_cast<const std::int64_t*>(nullptr));
        }
      }
      for (std::int64_t i = first; i < stop && !were_ordinary(bits); ++i) {
        if (all.length(i) > 0 && all.length(i) <= most) finish_exactly(i);
      }
    }
  });
  long_ones.for_each([&](std::int64_t i) {
    const std::int64_t length = sequences.length(i), chunks = (length + step - 1) / step;
    parallel_for(executor, chunks, length * row_bytes, [&](std::int64_t chunk, int thread) {
      WideInteger* const sums = partial.data() + chunk * row_size;
      sum_up(rows_of(i, thread), chunk * step, std::min((chunk + 1) * step, length), sums, thread);
    });
    WideInteger* const sums = partial.data();
    for (std::int64_t at = row_size; at < chunks * row_size; ++at) {
      sums[at % row_size] = sums[at % row_size] + sums[at];
    }
    finish(i, static_cast<const WideInteger*>(sums));
  });
  finish_large_output();
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

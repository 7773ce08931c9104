// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sums of the rows of many sequences on the CPU: each short sequence on one thread, perhaps many at once; long
/// ones on all threads.
#pragma once

#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/cpu/for_each_short_sequence.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/kernels/unbounded.hpp>
#include <lod/kernels/wide_sum.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// A row as numbers to compute with: itself, or a copy in `scratch`.
template <class T>
inline const Accumulator<T>* single_row(const T* row, std::int64_t row_size, Accumulator<T>* scratch) {
  if constexpr (std::same_as<T, Accumulator<T>>) {
    return row;
  } else {
    convert(row, row_size, scratch);
    return scratch;
  }
}

/// Leaves all sequences to be summed one by one.
inline constexpr auto one_by_one = [](std::int64_t) { return all_short_sequences; };

/// Whether all of `count` sums are finite. Also false if the sums are so large that adding them up overflows.
template <class T>
inline bool seem_finite(const T* sums, std::int64_t count) {
  using A = Accumulator<T>;
  if constexpr (std::integral<T>) {
    return true;
  } else {
    constexpr std::int64_t size = lanes<T>;
    if (count < size) {  // a vector load would stall on numbers that have just been stored one by one
      A total{};
      for (std::int64_t i = 0; i < count; ++i) total += static_cast<A>(sums[i]);
      return is_finite(total);
    }
    Vector<T> total(A{});
    std::int64_t i = 0;
    if (count >= 4 * size) {  // independent additions
      Vector<T> totals[4] = {total, total, total, total};
      for (; i + 4 * size <= count; i += 4 * size) {
        for (std::int64_t v = 0; v < 4; ++v) totals[v] += load(sums + i + v * size);
      }
      total = (totals[0] + totals[1]) + (totals[2] + totals[3]);
    }
    for (; i + size <= count; i += size) total += load(sums + i);
    if (i < count) total += load(sums + i, count - i, A{});
    return all_finite(total);
  }
}

/// Calls f(row) for each of `count` rows; `row` is valid during the call.
template <class T, class Rows, class F>
void for_each_row(const Rows& rows, std::int64_t count, std::int64_t row_size, const F& f) {
  if constexpr (requires { rows.compute; }) {
    const std::int64_t step = computed_rows(row_size);
    for (std::int64_t first = 0; first < count; first += step) {
      const std::int64_t some = std::min(count - first, step);
      rows.compute(first, some, rows.block);
      for (std::int64_t row = 0; row < some; ++row) f(rows.block + row * row_size);
    }
  } else {
    for (std::int64_t row = 0; row < count; ++row) f(rows(row));
  }
}

/// Calls finish(i, sums) where sums have become infinite or NaN, perhaps only on the way: these columns are summed
/// again. A `finish` that divides sums then receives them by finish.correct(i, column, sum).
template <class T, class Rows, class Finish>
[[gnu::noinline]] void finish_carefully(const Finish& finish, std::int64_t i, const Rows& rows, std::int64_t count,
                                        std::int64_t row_size, Accumulator<T>* sums) {
  using A = Accumulator<T>;
  if constexpr (std::floating_point<A>) {
    constexpr std::int64_t some = 64;  // columns, whose sums are on the stack
    const auto correct_columns = [&](std::int64_t first, const auto& correct) {
      const std::int64_t columns = std::min(row_size - first, some);
      std::uint64_t wrong = 0;
      for (std::int64_t c = 0; c < columns; ++c) wrong |= std::uint64_t{!is_finite(sums[first + c])} << c;
      if (wrong == 0) return;
      WideSum<A> wide[some];
      for_each_row<T>(rows, count, row_size, [&](const T* row) {
        for (std::uint64_t left = wrong; left != 0; left &= left - 1) {
          const int c = std::countr_zero(left);
          wide[c].add(static_cast<A>(row[first + c]));
        }
      });
      for (std::uint64_t left = wrong; left != 0; left &= left - 1) {
        const int c = std::countr_zero(left);
        correct(first + c, wide[c]);
      }
    };
    constexpr bool corrects = requires(const WideSum<A>& sum) { finish.correct(i, i, sum); };
    if constexpr (corrects) finish(i, static_cast<const A*>(sums));
    for (std::int64_t first = 0; first < row_size; first += some) {
      correct_columns(first, [&](std::int64_t column, const WideSum<A>& sum) {
        if constexpr (corrects) {
          finish.correct(i, column, sum);
        } else {
          sums[column] = sum.pooled(PoolType::SUM, count);
        }
      });
    }
    if constexpr (!corrects) finish(i, static_cast<const A*>(sums));
  } else {
    finish(i, static_cast<const A*>(sums));
  }
}

/// Calls write(i, sums) for those of the `count` sequences, at most `short_sequences`, from `first` on that have 1 to
/// `leaf_rows` rows, of several vectors each: the sums are a `VectorRow`, the registers in which they add up. Returns a
/// bit for each of the other sequences, and for all of them if a sum is not finite. Sequence i has the rows rows_of(i,
/// thread), for any thread. Contiguous rows may be narrower: whole vectors are read all the same, with the first
/// numbers of the next row. Other rows of one vector may be narrower too, if `load` reads a part of it by a mask:
/// `narrow` ones have 2 to 7 columns.
template <std::size_t vectors, class T, bool narrow = false, class RowsOf, class Write>
unsigned sum_vector_rows(const Segments& all, std::int64_t first, std::int64_t count, const RowsOf& rows_at,
                         const Write& write_one) {
  // Copies, as in `sum_sequences`.
  const Segments sequences = all;
  const RowsOf rows_of = rows_at;
  const Write write = write_one;
  unsigned others = 0;
  [[maybe_unused]] Vector<T> total(T{});  // of all sums: finite only if they all are
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t i = first + k, length = sequences.length(i);
    if (length < 1 || length > leaf_rows) {
      others |= 1U << k;
      continue;
    }
    auto rows = rows_of(i, 0);
    constexpr bool contiguous = std::same_as<decltype(rows), ContiguousRows<T>>;
    const std::int64_t row_size = rows.row_size;
    const bool whole = row_size % lanes<T> == 0;
    if (whole) rows.set_row_size(static_cast<std::int64_t>(vectors) * lanes<T>);  // known to the compiler here
    VectorRow<vectors, T> sums;
    if (vectors == 1 && masked<T> && !contiguous && !whole) {
      if (length == 1) {
        sums[0] = load(rows(0), row_size, T{});
      } else if constexpr (narrow) {
        sums[0] = add_scattered_rows<T>(rows, 0, length, row_size);
      } else {
        sums[0] = add_partial_vectors<T>(rows, 0, length, row_size, Vector<T>(empty_sum<T>()));
      }
      if constexpr (std::floating_point<T>) {
        if (length > 1) total += sums[0];
      }
    } else if (length == 1) {
      const T* const row = rows(0);
#pragma GCC unroll 16
      for (std::size_t v = 0; v < vectors; ++v) sums[v] = load(row + v * Vector<T>::size);
    } else {
#pragma GCC unroll 16
      for (std::size_t v = 0; v < vectors; ++v) sums[v] = Vector<T>(empty_sum<T>());
      add_vector_rows<vectors, T>(rows, 0, length, sums);
      if constexpr (std::floating_point<T>) {
        Vector<T> of_sequence = sums[0];
        for (std::size_t v = 1; v < vectors; ++v) of_sequence += sums[v];
        total += of_sequence;
      }
    }
    write(i, sums);
  }
  if constexpr (std::floating_point<T>) {
    if (!all_finite(total)) [[unlikely]]
      return all_short_sequences;
  }
  return others;
}

/// The same for contiguous rows of 1 to 7 columns, where write(i, sums) receives a `NarrowRow`.
template <std::size_t columns, class T, class RowsOf, class Write>
unsigned sum_narrow_sequences(const Segments& all, std::int64_t first, std::int64_t count, const RowsOf& rows_at,
                              const Write& write_one) {
  const Segments sequences = all;
  const RowsOf rows_of = rows_at;
  const Write write = write_one;
  unsigned others = 0;
  [[maybe_unused]] Vector<T> total(Accumulator<T>{});  // as in `sum_vector_rows`
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t i = first + k, length = sequences.length(i);
    if (length < 1 || length > leaf_rows) {
      others |= 1U << k;
      continue;
    }
    auto rows = rows_of(i, 0);
    rows.set_row_size(static_cast<std::int64_t>(columns));
    NarrowRow<columns, T> sums = sum_narrow_rows<columns, T>(rows, 0, length);
    if constexpr (std::floating_point<Accumulator<T>>) {
      for (const Vector<T>& part : sums.part) total += part;
    }
    write(i, sums);
  }
  if constexpr (std::floating_point<Accumulator<T>>) {
    if (!all_finite(total)) [[unlikely]]
      return all_short_sequences;
  }
  return others;
}

/// Sums those of sequences [begin, end) again, on one thread, for which `finish` wrote something that is not finite.
template <class T, class RowsOf, class Finish>
[[gnu::noinline]] void sum_again(const Segments& sequences, std::int64_t begin, std::int64_t end, std::int64_t row_size,
                                 const RowsOf& rows_of, const Finish& finish, std::int64_t longest, int thread,
                                 Accumulator<T>* sum) {
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t length = sequences.length(i);
    if (length <= 1 || length > longest || finish.seem_finite(i, i + 1)) continue;
    const auto rows = rows_of(i, thread);
    sum_rows<T>(rows, length, row_size, sum);
    finish_carefully<T>(finish, i, rows, length, row_size, sum);
  }
}

/// With fewer columns, sums are checked for many sequences at a time.
inline constexpr std::int64_t few_columns = 32;

/// Calls finish(i, sums) with the sums of each sequence i, whose rows are rows_of(i, thread); `sums` is null for an
/// empty sequence. Sequences that are too long for one thread are shared by all. `some` is that of
/// `for_each_short_sequence`: it may have finished the sequences that it does not return. A `finish` whose results can
/// be checked, by finish.seem_finite(begin, end), may be called twice for a sequence.
template <class T, class RowsOf, class Finish, class Some = decltype(one_by_one)>
void sum_sequences(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_size, const RowsOf& rows_of,
                   const Finish& finish, const Some& some = one_by_one) {
  using A = Accumulator<T>;
  constexpr bool computed = requires { rows_of(0, 0).compute; };
  constexpr bool scattered = !computed && !std::same_as<decltype(rows_of(0, 0)), ContiguousRows<T>>;
  constexpr bool looks_at_results = std::floating_point<A> && requires { finish.seem_finite(0, 0); };
  // Rows without elements may be any number. `Segments::none`: without sequences, memory is still taken for the rows.
  if (row_size == 0 || (sequences.size == 0 && sequences.rows() == 0)) return;
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
  const ThreadScratch<A> scratch(executor, sum_scratch(row_size));
  const std::int64_t longest = longest_alone(executor, sequences, row_bytes, chunk_rows(row_size));
  LongSequences long_ones(executor, sequences, longest);
  const Workspace::Loan<A> partial(executor.workspace(),
                                   long_ones.longest() > 0 ? shared_sum_scratch(long_ones.longest(), row_size) : 0);
  bool later = false;  // whether sums are checked for many sequences at a time, after they have been written
  if constexpr (looks_at_results) {
    const bool alone = row_size == 1 || std::same_as<Some, decltype(one_by_one)>;
    later = alone && row_size < few_columns && finish.stays_in_caches();
  }
  parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
    A* const sum = scratch(thread);
    // Copies, so that the loop does not reload them through the captures.
    const Segments all = sequences;
    const RowsOf rows_at = rows_of;
    const Finish finish_one = finish;
    const std::int64_t size = row_size;
    const bool looks_later = later;
    const auto one = [&](std::int64_t i) {
      const std::int64_t length = all.length(i);
      if (long_ones.note(i, length)) return;
      if (length == 0) return finish_one(i, static_cast<const A*>(nullptr));
      const auto rows = rows_at(i, thread);
      if constexpr (scattered) {
        // Most ids of a sparse gradient occur once: such a row is its own sum.
        if (length == 1) return finish_one(i, single_row<T>(rows(0), size, sum));
      }
      if constexpr (!computed) {
        if (size == 1 && length <= leaf_rows) {  // the case in which every nanosecond counts
          sum_narrow_leaf<1, T>(rows, 0, length, sum);
          if (looks_later || seem_finite(sum, 1) || length == 1) return finish_one(i, static_cast<const A*>(sum));
          return finish_carefully<T>(finish_one, i, rows, length, size, sum);
        }
      }
      sum_rows<T>(rows, length, size, sum);
      if (looks_later || seem_finite(sum, size) || length == 1) return finish_one(i, static_cast<const A*>(sum));
      finish_carefully<T>(finish_one, i, rows, length, size, sum);
    };
    // Results of about a page at a time, for whole groups of short sequences.
    const std::int64_t step = looks_later ? std::clamp<std::int64_t>(4096 / size / 16 * 16, 16, 256) : end - begin;
    for (std::int64_t first = begin; first < end; first += step) {
      const std::int64_t stop = std::min(first + step, end);
      if constexpr (std::same_as<Some, decltype(one_by_one)>) {
        for (std::int64_t i = first; i < stop; ++i) one(i);
      } else {
        for_each_short_sequence(first, stop, some, one);
      }
      if constexpr (looks_at_results) {
        if (looks_later && !finish_one.seem_finite(first, stop)) [[unlikely]] {
          sum_again<T>(all, first, stop, size, rows_at, finish_one, longest, thread, sum);
        }
      }
    }
  });
  long_ones.for_each([&](std::int64_t i) {
    const std::int64_t length = sequences.length(i);
    const auto rows = [&](int thread) { return rows_of(i, thread); };
    sum_rows<T>(executor, rows, length, row_size, length * row_bytes, partial, scratch(0));
    if (!seem_finite(scratch(0), row_size))
      return finish_carefully<T>(finish, i, rows(0), length, row_size, scratch(0));
    finish(i, static_cast<const A*>(scratch(0)));
  });
  finish_large_output();
}

/// The same, but sums of at most `leaf_rows` rows of 1, 2, 4 or 8 vectors go to finish(i, VectorRow), and those of
/// contiguous narrow rows to finish(i, NarrowRow), from the registers in which they add up.
template <class T, class RowsOf, class Finish>
void sum_sequences_by_vectors(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_size,
                              const RowsOf& rows_of, const Finish& finish) {
  if constexpr (std::same_as<decltype(rows_of(0, 0)), ContiguousRows<T>>) {
    if (row_size <= narrow_row_size) {
      const auto some = [&](std::int64_t first, std::int64_t count) {
        return with_narrow_columns<2>(row_size, [&](auto columns) {
          return sum_narrow_sequences<columns, T>(sequences, first, count, rows_of, finish);
        });
      };
      return sum_sequences<T>(executor, sequences, row_size, rows_of, finish, some);
    }
  }
  if constexpr (std::same_as<T, Accumulator<T>>) {
    constexpr bool contiguous = std::same_as<decltype(rows_of(0, 0)), ContiguousRows<T>>;
    // Narrow rows are added in another order.
    const bool whole = row_size % lanes<T> == 0;
    const bool readable = whole || contiguous || (masked<T> && row_size < lanes<T>);
    const std::int64_t vectors = row_size > narrow_row_size && readable ? (row_size + lanes<T> - 1) / lanes<T> : 0;
    if constexpr (masked<T> && !contiguous) {
      if (row_size > 1 && row_size <= narrow_row_size) {
        const auto some = [&](std::int64_t first, std::int64_t count) {
          return sum_vector_rows<1, T, true>(sequences, first, count, rows_of, finish);
        };
        return sum_sequences<T>(executor, sequences, row_size, rows_of, finish, some);
      }
    }
    if (vectors == 1 || vectors == 2 || vectors == 4 || (vectors == 8 && whole)) {
      const std::int64_t more = contiguous ? vectors * lanes<T> - row_size : 0;  // what is read after the last row
      const auto some = [&](std::int64_t first, std::int64_t count) {
        if (more > 0 && (sequences.rows() - sequences.begin(first + count)) * row_size < more) {
          return all_short_sequences;
        }
        if (vectors == 1) return sum_vector_rows<1, T>(sequences, first, count, rows_of, finish);
        if (vectors == 2) return sum_vector_rows<2, T>(sequences, first, count, rows_of, finish);
        if (vectors == 4) return sum_vector_rows<4, T>(sequences, first, count, rows_of, finish);
        return sum_vector_rows<8, T>(sequences, first, count, rows_of, finish);
      };
      return sum_sequences<T>(executor, sequences, row_size, rows_of, finish, some);
    }
  }
  sum_sequences<T>(executor, sequences, row_size, rows_of, finish);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

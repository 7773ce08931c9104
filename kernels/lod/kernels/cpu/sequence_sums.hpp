// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sums of the rows of many sequences on the CPU: short ones by a thread each, or many at once, long ones by all.
#pragma once

#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/short_sequences.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel::cpu {

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

/// Nobody sums several sequences at once.
inline constexpr auto one_by_one = [](std::int64_t) { return all_short_sequences; };

/// How the sum of a single row begins: as the row, in which a -0 stays, or as 0 and the row.
enum class SingleRow { ITSELF, ADDED_TO_ZERO };

/// Calls write(i, sums) for those of the `short_sequences` sequences from `first` on that have 1 to `leaf_rows` rows,
/// which are so many vectors: the sums are a `VectorRow`, the registers in which they add up. Returns the others, one
/// bit each. Sequence i has the rows rows_of(i, thread), of whatever thread.
template <std::size_t vectors, SingleRow single, class T, class RowsOf, class Write>
unsigned sum_vector_rows(const Segments& all, std::int64_t first, const RowsOf& rows_at, const Write& write_one) {
  // Copies, as in `sum_sequences`.
  const Segments sequences = all;
  const RowsOf rows_of = rows_at;
  const Write write = write_one;
  unsigned others = 0;
  for (std::int64_t k = 0; k < short_sequences; ++k) {
    const std::int64_t i = first + k, length = sequences.length(i);
    if (length < 1 || length > leaf_rows) {
      others |= 1U << k;
      continue;
    }
    auto rows = rows_of(i, 0);
    rows.set_row_size(static_cast<std::int64_t>(vectors) * lanes<T>);  // known to the compiler from here on
    VectorRow<vectors, T> sums;
    if (single == SingleRow::ITSELF && length == 1) {
      const T* const row = rows(0);
      for (std::size_t v = 0; v < vectors; ++v) sums[v] = load(row + v * Vector<T>::size);
    } else {
      for (std::size_t v = 0; v < vectors; ++v) sums[v] = Vector<T>(T{});
      add_vector_rows<vectors, T>(rows, 0, length, sums);
    }
    write(i, sums);
  }
  return others;
}

/// Calls finish(i, sums) with the sums of each sequence i, whose rows, as many as it has, are rows_of(i, thread); null
/// for an empty sequence. Sequences that are too long for one thread are shared by all. `some` is that of
/// `for_each_short_sequence`: it may have finished what it does not return.
template <class T, class RowsOf, class Finish, class Some = decltype(one_by_one)>
void sum_sequences(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_size, const RowsOf& rows_of,
                   const Finish& finish, const Some& some = one_by_one) {
  using A = Accumulator<T>;
  constexpr bool computed = requires { rows_of(0, 0).compute; };
  constexpr bool scattered = !computed && !std::same_as<decltype(rows_of(0, 0)), ContiguousRows<T>>;
  const std::int64_t row_bytes = row_size * static_cast<std::int64_t>(sizeof(T));
  const ThreadScratch<A> scratch(executor, sum_scratch(row_size));
  LongSequences long_ones(executor, sequences, longest_alone(executor, sequences, row_bytes, chunk_rows(row_size)));
  const Workspace::Loan<A> partial(executor.workspace(),
                                   long_ones.longest() > 0 ? shared_sum_scratch(long_ones.longest(), row_size) : 0);
  parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
    A* const sum = scratch(thread);
    // Copies, so that the loop reads them without a detour by way of the captures.
    const Segments all = sequences;
    const RowsOf rows_at = rows_of;
    const Finish finish_one = finish;
    const std::int64_t size = row_size;
    const auto one = [&](std::int64_t i) {
      const std::int64_t length = all.length(i);
      if (long_ones.note(i, length)) return;
      if (length == 0) return finish_one(i, static_cast<const A*>(nullptr));
      const auto rows = rows_at(i, thread);
      if constexpr (scattered) {
        // As most ids of a sparse gradient occur once: such a row is its own sum.
        if (length == 1) return finish_one(i, single_row<T>(rows(0), size, sum));
      }
      if constexpr (!computed) {
        if (size == 1 && length <= leaf_rows) {  // the case in which every nanosecond counts
          sum_narrow_leaf<1, T>(rows, 0, length, sum);
          return finish_one(i, static_cast<const A*>(sum));
        }
      }
      finish_one(i, sum_rows<T>(rows, length, size, sum));
    };
    if constexpr (std::same_as<Some, decltype(one_by_one)>) {
      for (std::int64_t i = begin; i < end; ++i) one(i);
    } else {
      for_each_short_sequence(begin, end, some, one);
    }
  });
  long_ones.for_each([&](std::int64_t i) {
    const std::int64_t length = sequences.length(i);
    const auto rows = [&](int thread) { return rows_of(i, thread); };
    sum_rows<T>(executor, rows, length, row_size, length * row_bytes, partial, scratch(0));
    finish(i, static_cast<const A*>(scratch(0)));
  });
  finish_large_output();
}

/// The same. Sums of at most `leaf_rows` rows that are 1, 2, 4 or 8 vectors go to finish(i, VectorRow) instead, from
/// the registers in which they add up.
template <SingleRow single, class T, class RowsOf, class Finish>
void sum_sequences_by_vectors(const CpuExecutor& executor, const Segments& sequences, std::int64_t row_size,
                              const RowsOf& rows_of, const Finish& finish) {
  if constexpr (std::same_as<T, Accumulator<T>>) {
    // The sums of narrow rows follow another tree.
    const bool whole = row_size > narrow_row_size && row_size % lanes<T> == 0;
    const std::int64_t vectors = whole ? row_size / lanes<T> : 0;
    if (vectors == 1 || vectors == 2 || vectors == 4 || vectors == 8) {
      return sum_sequences<T>(executor, sequences, row_size, rows_of, finish, [&](std::int64_t first) {
        if (vectors == 1) return sum_vector_rows<1, single, T>(sequences, first, rows_of, finish);
        if (vectors == 2) return sum_vector_rows<2, single, T>(sequences, first, rows_of, finish);
        if (vectors == 4) return sum_vector_rows<4, single, T>(sequences, first, rows_of, finish);
        return sum_vector_rows<8, single, T>(sequences, first, rows_of, finish);
      });
    }
  }
  sum_sequences<T>(executor, sequences, row_size, rows_of, finish);
}

}  // namespace kernel::cpu
}  // namespace lod::inline LOD_TARGET

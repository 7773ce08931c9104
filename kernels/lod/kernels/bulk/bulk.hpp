// SPDX-License-Identifier: Apache-2.0
/// @file
/// The basis of kernels in bulk: one body for each of many numbers, run on whatever system the executor's policy
/// names. A body is a lambda that captures plain values and raw pointers by copy and reads offsets only inside: it may
/// run where host memory is not accessible.
///
/// A system may process a batch in its own way: one that knows which rows a thread block has need not look up the
/// sequence of each row, and one whose threads run side by side lets several of them share a sum.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/core/thrust_executor.hpp>
#include <lod/ops/kernel.hpp>

#include <bit>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// The kernel of a tag, for all executors that have a `System`: its static function `run(executor, ...)`.
template <class Tag>
struct Kernel;

/// Whether kernels in bulk are those of an executor: of ThrustExecutor, and of CudaExecutor where <lod/cuda.cuh> says
/// so.
template <class E>
inline constexpr bool runs_in_bulk = false;
template <class Policy>
inline constexpr bool runs_in_bulk<ThrustExecutor<Policy>> = true;

/// The algorithms that kernels in bulk are built on, for an executor: in system.hpp, the only file that includes
/// Thrust. Doorway headers such as <lod/thrust.hpp> include it together with the kernels.
template <class E>
class System;

/// Calls body(i) for each i in [0, count), in any order.
template <class E, class Body>
void for_each(const E& executor, std::int64_t count, const Body& body) {
  if (count > 0) System<E>(executor).for_each(count, body);
}

/// Calls body(row, column) for each column of each of `rows` rows, in any order.
template <class E, class Body>
void for_each_element(const E& executor, std::int64_t rows, std::int64_t row_size, const Body& body) {
  if (rows > 0 && row_size > 0) System<E>(executor).for_each_element(rows, row_size, body);
}

/// Calls body(i, row, column) for each column of each row of each sequence i, in any order; rows are counted from the
/// start of the first sequence.
template <class E, class Body>
void for_each_in_sequences(const E& executor, const Segments& sequences, std::int64_t row_size, const Body& body) {
  if (sequences.rows() > 0 && row_size > 0) System<E>(executor).for_each_in_sequences(sequences, row_size, body);
}

/// Calls body(i, column, lanes) for each column of each i in [0, count), in any order; `lanes` is `OneThread` of
/// lanes.hpp, or its equivalent for each of several threads.
template <class E, class Body>
void for_each_by_lanes(const E& executor, std::int64_t count, std::int64_t row_size, const Body& body) {
  if (count > 0 && row_size > 0) System<E>(executor).for_each_by_lanes(count, row_size, body);
}

/// Calls body(i, 0, lanes) for each i in [0, count), in any order, for columns of many scalar rows: a system whose
/// threads share lanes has a thread for each lane, so that they read side by side.
template <class E, class Body>
void for_each_by_all_lanes(const E& executor, std::int64_t count, const Body& body) {
  if (count > 0) System<E>(executor).for_each_by_all_lanes(count, body);
}

/// Calls body(i, lanes) for each i in [0, count), in any order; `lanes` is `OneWarp` of lanes.hpp, or its equivalent
/// for each of as many threads.
template <class E, class Body>
void for_each_by_warps(const E& executor, std::int64_t count, const Body& body) {
  if (count > 0) System<E>(executor).for_each_by_warps(count, body);
}

/// Calls body(i, rows, from, to, lanes) for each sequence i of scalar rows that is not longer than a leaf, in any
/// order: `from` points to its `rows` numbers, `to` to where the body writes as many results. These are in x and y, or
/// in staging memory that threads fill and empty together. There both are the same memory, so a body must read a number
/// before it writes to its place. If y is null, the body writes nothing there. `lanes` are `OneThread` or `FewRows` of
/// lanes.hpp, or the equivalent of the first for each of several threads. Side by side with these, calls
/// at_place(place, 0, lanes) for each place in [0, places), where leaves of long sequences may be, with a thread for
/// each lane.
template <class E, class T, class Body, class AtPlace>
void for_each_staged(const E& executor, const Segments& sequences, const T* x, T* y, const Body& body,
                     std::int64_t places, const AtPlace& at_place) {
  if (sequences.rows() > 0) System<E>(executor).for_each_staged(sequences, x, y, body, places, at_place);
}
/// The same where no sequence is long.
struct NothingAtPlace {
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t, std::int64_t, const Lanes&) const {}
};
template <class E, class T, class Body>
void for_each_staged(const E& executor, const Segments& sequences, const T* x, T* y, const Body& body) {
  for_each_staged(executor, sequences, x, y, body, 0, NothingAtPlace());
}
/// Whether a row costs a body so much that it is worthwhile to sort sequences by length, for threads in lockstep.
template <class Body>
inline constexpr bool is_costly = requires {
  Body::is_costly;
};

/// Calls body(i, column, from, to) for each of `columns` columns of each sequence i of rows, in any order, if the
/// system stages sequences whose rows are wide and are few enough; otherwise returns false. `from` and `to` point to
/// the first row of the sequence, in staging memory, where both are the same, or in x and y.
template <class E, class T, class Body>
bool for_each_staged_column(const E& executor, const Segments& sequences, std::int64_t row_size, std::int64_t columns,
                            const T* x, T* y, const Body& body) {
  return sequences.rows() > 0 && System<E>(executor).for_each_staged_column(sequences, row_size, columns, x, y, body);
}

/// Keys and the values that move with them.
template <class Key, class Value>
struct Pairs {
  Key* keys;
  Value* values;
};

/// The greatest number of bits of numbers in [0, greatest]; 1 if there are none.
inline int bits_up_to(std::int64_t greatest) noexcept {
  return greatest > 0 ? static_cast<int>(std::bit_width(static_cast<std::uint64_t>(greatest))) : 1;
}

template <class T>
LOD_HOST_DEVICE constexpr T least(T a, T b) noexcept {
  return b < a ? b : a;
}
template <class T>
LOD_HOST_DEVICE constexpr T greatest(T a, T b) noexcept {
  return a < b ? b : a;
}

/// The first sequence in [low, high) that ends after a row; `high` if there is none.
LOD_HOST_DEVICE inline std::int64_t sequence_between(const Segments& sequences, std::int64_t low, std::int64_t high,
                                                     std::int64_t row) noexcept {
  constexpr std::int64_t most = 0x7fffffff;
  while (high - low > most) {
    const std::int64_t middle = low + (high - low) / 2;
    if (sequences.begin(middle + 1) <= row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  // From here on in 32 bits, which needs a third fewer instructions on a GPU.
  const std::int64_t* const ends = sequences.offsets + low;
  const std::int64_t end = row + sequences.first;
  std::uint32_t found = 0;  // the number of sequences that end at or before the row
  for (auto left = static_cast<std::uint32_t>(high - low); left > 0;) {
    const std::uint32_t half = (left + 1) / 2;
    if (ends[found + half] <= end) found += half;
    left -= half;
  }
  return low + found;
}
/// The range in which to search for the sequence of a row: the first and the last sequence that may hold it. Without
/// marks these are all sequences, otherwise those between two marks.
struct SequenceRange {
  std::int64_t low, high;
};
LOD_HOST_DEVICE inline SequenceRange sequences_around(const Segments& sequences, std::int64_t row) noexcept {
  const detail::RowMarks& marks = sequences.marks;
  if (marks.sequences == nullptr) return {0, sequences.size};
  // Unsigned division by a power of two is a shift.
  constexpr auto distance = static_cast<std::uint64_t>(detail::RowMarks::distance);
  const auto in_level = static_cast<std::uint64_t>(sequences.first + row), mark = in_level / distance;
  // A mark before or after a part of the level may be in a sequence outside that part.
  const auto in_part = [&](std::int64_t i) {
    return least(greatest<std::int64_t>(i - marks.before, 0), sequences.size);
  };
  const std::int64_t low = in_part(marks.sequences[mark]);
  if (in_level % distance == 0) return {low, low};
  return {low, in_part(marks.sequences[mark + 1])};
}
/// The sequence that holds a row; `sequences.size` for a row after the last.
LOD_HOST_DEVICE inline std::int64_t sequence_of(const Segments& sequences, std::int64_t row) noexcept {
  const SequenceRange range = sequences_around(sequences, row);
  return sequence_between(sequences, range.low, range.high, row);
}
/// The same for `voters` that each examine one sequence at a time: vote(f) returns how many of f(0), ..., f(voters - 1)
/// hold.
template <class Vote>
LOD_HOST_DEVICE std::int64_t sequence_by_votes(const Segments& sequences, std::int64_t row, int voters,
                                               const Vote& vote) {
  std::int64_t low = 0, high = sequences.size;
  while (low < high) {
    const std::int64_t step = (high - low) / (voters + 1) + 1;
    // The voters whose sequences end at or before the row come first.
    const int before = vote([&](int voter) {
      const std::int64_t looked_at = low + (voter + 1) * step - 1;
      return looked_at < high && sequences.begin(looked_at + 1) <= row;
    });
    low += before * step;
    high = least(high, low + step - 1);
  }
  return low;
}

/// a + b; integers wrap around.
template <class A>
LOD_HOST_DEVICE constexpr A plus(A a, A b) noexcept {
  if constexpr (std::integral<A>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// Runs a kernel in bulk.
template <class Tag, class E, class... A>
  requires(bulk::runs_in_bulk<E>)
auto launch(Tag, const E& executor, const A&... arguments) { return bulk::Kernel<Tag>::run(executor, arguments...); }

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

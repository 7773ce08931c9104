// SPDX-License-Identifier: Apache-2.0
/// @file
/// How work on the rows of a batch is shared when each column of a sequence is reduced or scanned: one sequence of at
/// most a leaf of rows at a time, and longer ones leaf by leaf. So a giant in a batch slows nothing down.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/staging.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// A leaf of a sequence that has several.
struct Leaf {
  std::int64_t sequence;
  std::int64_t number;  ///< among the leaves of its sequence
  std::int64_t first;   ///< its first row, counted from the start of its sequence
  std::int64_t rows;    ///< 0 at a place that belongs to no leaf
};

/// Places for the leaves of long sequences, which have more than one leaf: one place at every `place_rows`-th row of
/// the batch. A place is half a leaf, so a long sequence has at least as many places as leaves; other places belong to
/// no leaf. So no table is needed to find the leaves of a sequence, and the marks of a LoD lead back.
struct Leaves {
  static constexpr std::int64_t place_rows = leaf_rows / 2;

  Segments sequences;

  /// False if no sequence is long.
  bool any() const noexcept { return sequences.max_rows > leaf_rows; }
  std::int64_t places() const noexcept { return any() ? whole(sequences.rows(), place_rows) : 0; }
  /// The number of leaves of the longest sequence.
  std::int64_t most() const noexcept { return whole(sequences.max_rows, leaf_rows); }
  /// rows / part, rounded up. There may be any 64-bit number of rows without elements.
  static constexpr std::int64_t whole(std::int64_t rows, std::int64_t part) noexcept {
    return rows / part + (rows % part != 0 ? 1 : 0);
  }

  /// The number of leaves of a sequence.
  LOD_HOST_DEVICE std::int64_t count(std::int64_t i) const noexcept {
    return (sequences.length(i) + leaf_rows - 1) / leaf_rows;
  }
  LOD_HOST_DEVICE bool is_long(std::int64_t i) const noexcept { return sequences.length(i) > leaf_rows; }
  /// The place of the first leaf of a long sequence; those of its other leaves follow.
  LOD_HOST_DEVICE std::int64_t first(std::int64_t i) const noexcept {
    return (sequences.begin(i) + place_rows - 1) / place_rows;
  }
  LOD_HOST_DEVICE Leaf at(std::int64_t place) const noexcept {
    const std::int64_t i = sequence_of(sequences, place * place_rows);
    if (i >= sequences.size || !is_long(i)) return {};  // a row may belong to no sequence
    const std::int64_t number = place - first(i), row = number * leaf_rows, length = sequences.length(i);
    if (row >= length) return {};
    return {i, number, row, least(length - row, leaf_rows)};
  }
};

/// Which threads process a column: lanes share those of narrow rows, or each thread has columns of its own. Columns of
/// wide rows are contiguous for the threads anyway.
enum class Columns { shared, own };
/// The same for columns of `count` numbers side by side; only wide rows have several.
template <std::size_t count>
inline constexpr Columns columns_of = count == 1 ? Columns::shared : Columns::own;
/// Calls body(i, column, lanes) from i and column, for columns that are not shared.
template <class Body>
struct OfLaneAlone {
  Body body;
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t column) const { body(i, column, LaneAlone()); }
};
/// Calls body(i, column, lanes) for each column of each i in [0, count), in any order.
template <Columns columns = Columns::shared, class E, class Body>
void for_each_column(const E& executor, std::int64_t count, std::int64_t row_size, const Body& body) {
  if constexpr (columns == Columns::shared) {
    if (row_size <= narrow_row_size) return for_each_by_lanes(executor, count, row_size, body);
  }
  for_each_element(executor, count, row_size, OfLaneAlone<Body>{body});
}

/// The leaves of long sequences, by their places.
template <class Long>
struct AtLeaves {
  Leaves leaves;
  Long of_leaf;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, std::int64_t column, const Lanes& lanes) const {
    const Leaf leaf = leaves.at(place);
    if (leaf.rows > 0) of_leaf(place, leaf, column, lanes);
  }
};
/// The leaves of long sequences, followed by the short sequences.
template <class Short, class Long>
struct LeavesAndShort {
  AtLeaves<Long> at_leaves;
  std::int64_t places;
  Short of_sequence;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t number, std::int64_t column, const Lanes& lanes) const {
    if (number < places) return at_leaves(number, column, lanes);
    const std::int64_t i = number - places;
    if (!at_leaves.leaves.is_long(i)) of_sequence(i, column, lanes);
  }
};
/// The rows of the others, where one sequence is long: these may be short.
inline std::int64_t rows_beside_longest(const Segments& sequences) noexcept {
  return sequences.rows() - (Leaves{sequences}.any() ? sequences.max_rows : 0);
}
/// Whether scalar rows are staged for threads that have a short sequence each. Lanes that share a sequence must start
/// and synchronise for every sequence, however short.
inline bool are_brought(const Segments& sequences) noexcept {
  constexpr std::int64_t most_on_average = 32;
  return sequences.rows() > 0 && rows_beside_longest(sequences) <= most_on_average * sequences.size;
}
/// Calls of_leaf(place, leaf, column, lanes) for each column of each leaf of long sequences, in any order.
template <Columns columns = Columns::shared, class E, class Long>
void for_each_leaf(const E& executor, const Leaves& leaves, std::int64_t row_size, const Long& of_leaf) {
  const AtLeaves<Long> at_leaves{leaves, of_leaf};
  if constexpr (columns == Columns::shared) {
    if (row_size == 1) return for_each_by_all_lanes(executor, leaves.places(), at_leaves);
  }
  for_each_column<columns>(executor, leaves.places(), row_size, at_leaves);
}
/// Calls of_sequence(i, column, lanes) for each column of each sequence that is not long, and of_leaf(place, leaf,
/// column, lanes) for each column of each leaf of those that are, in any order. If Short has input(), of_sequence may
/// be called instead as for_each_staged does for its input() and output().
template <Columns columns = Columns::shared, class E, class Short, class Long>
void for_each_short_and_leaf(const E& executor, const Segments& sequences, std::int64_t row_size,
                             const Short& of_sequence, const Long& of_leaf) {
  const Leaves leaves{sequences};
  if constexpr (requires { of_sequence.input(); }) {
    if (row_size == 1 && are_brought(sequences)) {
      for_each_staged(executor, sequences, of_sequence.input(), of_sequence.output(), of_sequence, leaves.places(),
                      AtLeaves<Long>{leaves, of_leaf});
      return;
    }
  }
  if (!leaves.any()) return for_each_column<columns>(executor, sequences.size, row_size, of_sequence);
  const std::int64_t places = leaves.places();
  for_each_column<columns>(executor, places + sequences.size, row_size,
                           LeavesAndShort<Short, Long>{{leaves, of_leaf}, places, of_sequence});
}

/// Increments a counter, which was 0 before the first of `count` arrivals. True for the last to arrive, which can read
/// what the others wrote before they arrived: it takes the next step, so nobody waits.
LOD_HOST_DEVICE inline bool comes_last(std::uint32_t& counter, std::int64_t count) {
#ifdef __CUDA_ARCH__
  __threadfence();
  const std::int64_t came = atomicAdd(&counter, 1u);
  __threadfence();
#else
  const std::int64_t came = std::atomic_ref<std::uint32_t>(counter).fetch_add(1, std::memory_order_acq_rel);
#endif
  return came + 1 == count;
}
/// The same for lanes that arrive together.
template <class Lanes>
LOD_HOST_DEVICE bool comes_last(const Lanes& lanes, std::uint32_t& counter, std::int64_t count) {
  const bool last = lanes.shared(lanes.is_first() && comes_last(counter, count));
  lanes.meet();
  return last;
}

/// The result of a leaf in a column, and a counter of arrivals.
template <class Part>
struct CountedPart {
  Part part;
  std::uint32_t came;
};
/// The results of the leaves of long sequences in each of `columns` columns, at their places.
template <class Part>
struct LeafParts {
  std::int64_t columns;
  CountedPart<Part>* parts;

  /// Sets the leaf's counter to 0: kernels after this one may increment it.
  LOD_HOST_DEVICE void put(std::int64_t place, std::int64_t column, const Part& part) const {
    parts[place * columns + column] = {part, 0};
  }
  LOD_HOST_DEVICE Part& of(std::int64_t place, std::int64_t column) const {
    return parts[place * columns + column].part;
  }
  LOD_HOST_DEVICE std::uint32_t& counter(std::int64_t place, std::int64_t column) const {
    return parts[place * columns + column].came;
  }
};
/// Scratch memory for them.
template <class E, class Part>
class LeafScratch {
 public:
  LeafScratch(const E& executor, const Leaves& leaves, std::int64_t columns)
      : columns_(columns), loan_(executor, leaves.places() * columns) {}
  LeafParts<Part> parts() const noexcept { return {columns_, loan_.data()}; }

 private:
  std::int64_t columns_;
  Scratch<E, CountedPart<Part>> loan_;
};

/// Joins the results of leaves, some of them at a time. The last thread to finish joins the joined results, and so on
/// until one is left.
template <class Joined, class Join, class Finish>
struct JoinParts {
  static constexpr std::int64_t at_a_time = 256;

  Leaves leaves;
  LeafParts<Joined> parts;
  Join join;
  Finish finish;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t place, std::int64_t column, const Lanes& lanes) const {
    const Leaf leaf = leaves.at(place);
    if (leaf.rows == 0 || leaf.number % at_a_time != 0) return;
    const std::int64_t first = place - leaf.number, count = leaves.count(leaf.sequence);
    // Joins those from `begin` on that are `step` apart.
    std::int64_t begin = leaf.number, step = 1, level = 0;
    while (true) {
      const Joined joined = lanes.template fold_rows<0>(
          static_cast<int>(members(begin, step, count)), join.nothing(),
          [&](Joined& all, int k, int) { all = join(all, parts.of(first + begin + k * step, column)); }, join);
      step *= at_a_time;
      if (step >= count) {
        if (lanes.is_first()) finish(first, leaf.sequence, column, joined);
        return;
      }
      if (lanes.is_first()) parts.of(first + begin, column) = joined;
      begin = begin / (step * at_a_time) * (step * at_a_time);
      // Nested groups that begin at the same place use the counters of the places that follow.
      if (!comes_last(lanes, parts.counter(first + begin + level++, column), members(begin, step, count))) return;
    }
  }

 private:
  static LOD_HOST_DEVICE std::int64_t members(std::int64_t begin, std::int64_t step, std::int64_t count) {
    return (least(begin + step * at_a_time, count) - begin + step - 1) / step;
  }
};
/// Calls finish(place, i, column, joined) for each column of each long sequence i; `place` is that of its first leaf,
/// and `parts` are the results of its leaves. The order in which they are joined depends only on their number.
template <Columns columns = Columns::shared, class Joined, class E, class Join, class Finish>
void join_parts(const E& executor, const Leaves& leaves, const LeafParts<Joined>& parts, const Join& join,
                const Finish& finish) {
  const JoinParts<Joined, Join, Finish> at_places{leaves, parts, join, finish};
  if constexpr (columns == Columns::shared) {
    if (parts.columns == 1) return for_each_by_all_lanes(executor, leaves.places(), at_places);
  }
  for_each_column<columns>(executor, leaves.places(), parts.columns, at_places);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Edit distances in bulk: lanes share the table of a pair of sequences, many columns each.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/distance_strip.hpp>
#include <lod/ops/edit_distance.hpp>
#include <lod/ops/staging.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// The ids of a sequence, or a part of them.
template <class T>
struct Ids {
  const T* first;
  std::int64_t count;
};

/// Neighbouring columns of the table, and their ids.
template <class T>
class Strip {
 public:
  static constexpr int width = DistanceStrip<std::uint32_t>::width;

  Strip() = default;
  /// The columns of the ids from `first` on, at most `width`, in the top row, before any id.
  LOD_HOST_DEVICE Strip(const T* first, std::int64_t columns) : columns_(columns) {
    for (int n = 0; n < width; ++n) ids_[n] = n < columns ? first[n] : T{};
  }

  /// Moves on to the row of an id. Takes the change of the column before the first one and returns that of the last
  /// column.
  LOD_HOST_DEVICE std::uint32_t next_row(T id, std::uint32_t change) noexcept {
    std::uint32_t equal = 0;
    for (int n = 0; n < width; ++n) equal |= (ids_[n] == id ? 1U : 0U) << n;
    return columns_.next_row(equal, change);
  }

 private:
  T ids_[width];
  DistanceStrip<std::uint32_t> columns_;
};

/// The part of the table that a lane has.
template <class T>
struct DistanceLane {
  Strip<T> strip;
  std::int64_t total;  ///< of the changes of its last column
};

/// The first k in [0, count) for which holds(k); `count` if there is none.
template <class Lanes, class Holds>
LOD_HOST_DEVICE std::int64_t first_of(const Lanes& lanes, std::int64_t count, const Holds& holds) {
  const auto take = [&](std::int64_t& first, std::int64_t k, int) { first = holds(k) ? least(first, k) : first; };
  const auto join = [](std::int64_t a, std::int64_t b) { return least(a, b); };
  return lanes.shared(lanes.template fold_rows<0>(count, count, take, join));
}

/// Calls finish(i, distance) with the number of edits from sequence i of a to that of b.
template <class T, class Finish>
struct DistanceOfPair {
  const T* a;
  Segments a_sequences;
  const T* b;
  Segments b_sequences;
  std::uint8_t* changes;  ///< for each row of b
  Finish finish;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t, const Lanes& lanes) const {
    (*this)(i, lanes);
  }
  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, const Lanes& lanes) const {
    constexpr std::int64_t at_a_time = std::int64_t{Lanes::runners} * Strip<T>::width;
    // The distance is symmetric: lanes share the longer sequence.
    Ids<T> columns{a + a_sequences.begin(i), a_sequences.length(i)};
    Ids<T> rows{b + b_sequences.begin(i), b_sequences.length(i)};
    if (columns.count < rows.count) {
      const Ids<T> longer = rows;
      rows = columns;
      columns = longer;
    }
    // A common prefix or suffix costs no edit.
    const std::int64_t begin =
        first_of(lanes, rows.count, [&](std::int64_t k) { return rows.first[k] != columns.first[k]; });
    const std::int64_t end = first_of(lanes, rows.count - begin, [&](std::int64_t k) {
      return rows.first[rows.count - 1 - k] != columns.first[columns.count - 1 - k];
    });
    rows = {rows.first + begin, rows.count - begin - end};
    columns = {columns.first + begin, columns.count - begin - end};
    if (rows.count == 0) {
      if (lanes.is_first()) finish(i, columns.count);
      return;
    }
    // For each row, the change of the last column of all lanes: where they continue with the columns after it.
    std::uint8_t* const last_changes = changes + b_sequences.begin(i);
    for (std::int64_t done = 0; done < columns.count; done += at_a_time) {
      const std::int64_t left = columns.count - done;
      const int used = static_cast<int>((least(left, at_a_time) + Strip<T>::width - 1) / Strip<T>::width);
      const auto start = [&](int lane) {
        const std::int64_t before = std::int64_t{lane} * Strip<T>::width;
        return DistanceLane<T>{Strip<T>(columns.first + done + before, left - before), 0};
      };
      const auto pass = [&](DistanceLane<T>& own, int lane, std::int64_t row, std::uint32_t change) {
        // To the left of the first column, each row begins with one more than the row above.
        if (lane == 0) change = done == 0 ? DistanceChange::increase : last_changes[row];
        change = own.strip.next_row(rows.first[row], change);
        own.total += DistanceChange::number(change);
        if (lane + 1 < used) return change;
        if (left > at_a_time) {
          last_changes[row] = static_cast<std::uint8_t>(change);
        } else if (row + 1 == rows.count) {
          finish(i, columns.count + own.total);
        }
        return change;
      };
      lanes.relay(used, rows.count, start, pass);
    }
  }
};

/// Writes a distance.
struct WriteDistance {
  Segments b_sequences;
  bool normalized;
  float* y;

  LOD_HOST_DEVICE void operator()(std::int64_t i, std::int64_t edits) const {
    y[i] = edit_distance_of(edits, b_sequences.length(i), normalized);
  }
};

template <>
struct Kernel<EditDistance> {
  /// The longest sequence that counts as short: four lanes are enough for a pair of these, so that a warp has eight
  /// pairs.
  static constexpr std::int64_t short_rows = 128;

  template <class E, class T>
  static void run(const E& executor, const T* a, const Segments& a_sequences, const T* b, const Segments& b_sequences,
                  bool normalized, float* y) {
    const Scratch<E, std::uint8_t> changes(executor, b_sequences.rows());
    const DistanceOfPair<T, WriteDistance> of_pair{
        a, a_sequences, b, b_sequences, changes.data(), WriteDistance{b_sequences, normalized, y}};
    if (std::max(a_sequences.max_rows, b_sequences.max_rows) <= short_rows) {
      for_each_by_lanes(executor, a_sequences.size, 1, of_pair);
    } else {
      for_each_by_warps(executor, a_sequences.size, of_pair);
    }
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

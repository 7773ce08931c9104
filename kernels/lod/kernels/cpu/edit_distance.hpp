// SPDX-License-Identifier: Apache-2.0
/// @file
/// Edit distances on the CPU: 64 columns of the table at a time, as the bits of a word.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_mask.hpp>
#include <lod/kernels/distance_strip.hpp>
#include <lod/ops/edit_distance.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<EditDistance> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* a, const Segments& a_sequences, const T* b,
                  const Segments& b_sequences, bool normalized, float* y) {
    const std::int64_t longest = std::max(a_sequences.max_rows, b_sequences.max_rows);
    const cpu::ThreadScratch<std::uint8_t> scratch(executor, longest);
    // A row of a costs a row of the table, about as much as reading its words eight times.
    const std::int64_t row_bytes = words(b_sequences.max_rows) * static_cast<std::int64_t>(8 * sizeof(std::uint64_t));
    cpu::parallel_sequences(executor, a_sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t edits = distance(rows_of(a, a_sequences, i), rows_of(b, b_sequences, i), scratch(thread));
        y[i] = edit_distance_of(edits, b_sequences.length(i), normalized);
      }
    });
  }

 private:
  using Strip = DistanceStrip<std::uint64_t>;

  template <class T>
  static std::span<const T> rows_of(const T* x, const Segments& sequences, std::int64_t i) noexcept {
    return {x + sequences.begin(i), static_cast<std::size_t>(sequences.length(i))};
  }
  /// The number of strips that hold `columns` columns.
  static std::int64_t words(std::int64_t columns) noexcept { return (columns + Strip::width - 1) / Strip::width; }

  /// `changes` has room for a number for each row of the longer sequence.
  template <class T>
  static std::int64_t distance(std::span<const T> columns, std::span<const T> rows, std::uint8_t* changes) noexcept {
    // A common prefix or suffix costs no edit.
    while (!columns.empty() && !rows.empty() && columns.front() == rows.front()) {
      columns = columns.subspan(1);
      rows = rows.subspan(1);
    }
    while (!columns.empty() && !rows.empty() && columns.back() == rows.back()) {
      columns = columns.first(columns.size() - 1);
      rows = rows.first(rows.size() - 1);
    }
    const auto width = static_cast<std::int64_t>(columns.size()), height = static_cast<std::int64_t>(rows.size());
    if (width == 0 || height == 0) return width + height;
    // The distance is symmetric.
    if (words(height) * width < words(width) * height) std::swap(columns, rows);
    const auto of_no_id = static_cast<std::int64_t>(columns.size());
    // Each strip hands the changes of its last column to the next; those of the last strip add up to the change of the
    // table's last column from the top row to the bottom one.
    std::int64_t change = 0;
    bool first = true;
    for (; !columns.empty(); first = false) {
      const std::size_t some = std::min(columns.size(), std::size_t{Strip::width});
      change = go_through(columns.first(some), rows, first, changes);
      columns = columns.subspan(some);
    }
    return of_no_id + change;
  }

  /// Computes the columns of one strip. For each row, `changes` holds the change of the column before the strip on
  /// entry (unless it is the first strip) and the change of the strip's last column on return. Returns their sum.
  template <std::int64_t compared = Strip::width, class T>
  static std::int64_t go_through(std::span<const T> columns, std::span<const T> rows, bool first,
                                 std::uint8_t* changes) noexcept {
    // With few columns, fewer ids are compared.
    constexpr std::int64_t fewer = compared / 2;
    if constexpr (fewer >= 16 && fewer * sizeof(T) >= 64) {
      if (columns.size() <= fewer) return go_through<fewer>(columns, rows, first, changes);
    }
    std::array<T, static_cast<std::size_t>(compared)> ids{};
    std::copy(columns.begin(), columns.end(), ids.begin());
    Strip strip(static_cast<std::int64_t>(columns.size()));
    std::int64_t sum = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::uint64_t equal = cpu::rows_equal<compared>(ids.data(), rows[row]);
      // To the left of the first strip, each row begins with one more than the row above.
      const std::uint32_t change = strip.next_row(equal, first ? DistanceChange::increase : changes[row]);
      changes[row] = static_cast<std::uint8_t>(change);
      sum += DistanceChange::number(change);
    }
    return sum;
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Marks among the rows of a LoD's level. To find the sequence of a row, read the marks on both sides of it and search
/// the few sequences in between; if both marks name the same long sequence, there is nothing to search. GPUs, whose
/// threads begin at any row, keep them with their copy of a LoD.
#pragma once

#include <lod/core/target.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::detail {

/// Mark k is the number of the sequence that holds row k * distance, or the number of sequences if that row is after
/// the last. Rows and sequences are counted from the start of the level, of which only a part may be in use.
struct RowMarks {
  static constexpr std::int64_t distance = 256;

  const std::int64_t* sequences = nullptr;  ///< null if there are none
  std::int64_t before = 0;                  ///< the sequences before the part in use

  /// The number of marks for a level of `rows` rows: at least one after any row.
  LOD_TAGGED static constexpr std::int64_t count(std::int64_t rows) noexcept { return rows / distance + 2; }
  /// Calls put(mark) for each mark in order, for a level of `size` sequences with these offsets in rows.
  template <class Put>
  LOD_TAGGED static void for_each(const std::int64_t* offsets, std::int64_t size, const Put& put) {
    const std::int64_t marks = count(offsets[size]);
    std::int64_t i = 0;
    for (std::int64_t mark = 0; mark < marks; ++mark) {
      while (i < size && offsets[i + 1] <= mark * distance) ++i;
      put(i);
    }
  }
};

}  // namespace lod::inline LOD_INTERFACE::detail

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Neighbouring columns of the table of an edit distance, as the bits of a word.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

#include <concepts>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The difference between a number of the table and the number above it.
struct DistanceChange {
  static constexpr std::uint32_t increase = 1, decrease = 2;
  static LOD_HOST_DEVICE std::int64_t number(std::uint32_t change) noexcept {
    return std::int64_t{change & increase} - (change >> 1);
  }
};

/// Columns of the table, all of which move from one row to the next at once: neighbouring numbers of a row differ by 1,
/// 0 or -1, which is kept as bits. G. Myers, A fast bit-vector algorithm for approximate string matching based on
/// dynamic programming (1999).
template <std::unsigned_integral Word>
class DistanceStrip {
 public:
  static constexpr int width = std::numeric_limits<Word>::digits;

  DistanceStrip() = default;
  /// The first `columns` columns, at most `width`, in the top row, before any id.
  explicit LOD_HOST_DEVICE DistanceStrip(std::int64_t columns)
      : last_(static_cast<int>(columns < width ? columns : width) - 1) {}

  /// Moves on to the row of an id; `equal` marks the columns that have this id. Takes the change of the column before
  /// the first one and returns that of the last column; columns after the last do not affect it.
  LOD_HOST_DEVICE std::uint32_t next_row(Word equal, std::uint32_t change) noexcept {
    const Word increased = change & DistanceChange::increase, decreased = change >> 1;
    const Word kept = equal | decreases_;
    equal |= decreased;
    const Word diagonal = (((equal & increases_) + increases_) ^ increases_) | equal;
    // The columns that are greater in this row than in the one above, and those that are less.
    Word more = decreases_ | ~(diagonal | increases_), less = increases_ & diagonal;
    const auto result = static_cast<std::uint32_t>((more >> last_ & 1) | (less >> last_ & 1) << 1);
    more = more << 1 | increased;
    less = less << 1 | decreased;
    increases_ = less | ~(kept | more);
    decreases_ = more & kept;
    return result;
  }

 private:
  int last_;                   ///< the index of the last column
  Word increases_ = ~Word{0};  ///< a bit for each column that is one more than the column before it
  Word decreases_ = 0;         ///< a bit for each column that is one less
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The levels of a batch as an argument, for gradients: their results are cut as the forward argument was, whose values
/// do not matter.
#pragma once

#include <lod/lod_index.hpp>

#include <cstdint>

namespace lod {

/// How a batch is cut: its LoD, a part of one, or, where there is no level, its number of rows. Converts from each of
/// them. For arguments: it borrows the LoD.
class BatchLevels {
 public:
  /// @{
  /// The levels of a batch, or of a part of one.
  BatchLevels(const LoD& lod) noexcept : view_(lod.view()), is_lod_without_level_(lod.levels() == 0) {}
  BatchLevels(const LoDView& part) noexcept : view_(part) {}
  /// @}
  /// Throws OutOfRange for a negative number.
  BatchLevels(std::int64_t rows) : view_(LoDView::plain(0, rows)) {
    if (rows < 0) throw OutOfRange(detail::text({"BatchLevels: ", rows, " rows, expected 0 or more"}));
  }

  /// The levels.
  const LoDView& view() const noexcept { return view_; }

  /// What ends the text of an error about the number of rows: a LoD without a level has none, whatever tensor it is of.
  const char* hint() const noexcept {
    return is_lod_without_level_
               ? " (a LoD without a level has no rows: give their number, or lod_view() of the tensor)"
               : "";
  }

 private:
  LoDView view_;
  bool is_lod_without_level_ = false;
};

}  // namespace lod

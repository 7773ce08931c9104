// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The levels of a batch as an argument. Gradients take them: their results have the levels of the forward argument,
/// whose values they do not need.
#pragma once

#include <lod/core/lod_index.hpp>
#include <lod/core/target.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE {

/// The structure of a batch: its LoD, a part of one, or, if there is no level, its number of rows. Converts from each
/// of these. For arguments: it borrows the LoD.
class BatchLevels {
 public:
  /// @{
  /// The levels of a batch, or of a part of one.
  LOD_TAGGED BatchLevels(const LoD& lod) noexcept : view_(lod.view()), is_lod_without_level_(lod.levels() == 0) {}
  LOD_TAGGED BatchLevels(const LoDView& part) noexcept : view_(part) {}
  /// @}
  /// Throws OutOfRange for a negative number.
  LOD_TAGGED BatchLevels(std::int64_t rows) : view_(LoDView::plain(0, rows)) {
    if (rows < 0) throw OutOfRange(detail::text({"BatchLevels: ", rows, " rows, expected 0 or more"}));
  }

  /// The levels.
  LOD_TAGGED const LoDView& view() const noexcept { return view_; }

  /// The end of an error's text about the number of rows: a LoD without a level has none, whatever its tensor.
  LOD_TAGGED const char* hint() const noexcept {
    return is_lod_without_level_
               ? " (a LoD without a level has no rows: give their number, or lod_view() of the tensor)"
               : "";
  }

 private:
  LoDView view_;
  bool is_lod_without_level_ = false;
};

}  // namespace lod::inline LOD_INTERFACE

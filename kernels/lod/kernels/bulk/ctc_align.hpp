// SPDX-License-Identifier: Apache-2.0
/// @file
/// Labels without blanks and repetitions in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/row_filter.hpp>
#include <lod/ops/ctc_align.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Selects the rows that spell a label.
template <class T>
struct SpellsLabel {
  const T* x;
  Segments sequences;
  CtcAlignOptions options;

  LOD_HOST_DEVICE bool operator()(std::int64_t row) const {
    const bool can_be_blank = std::signed_integral<T> || options.blank >= 0;
    if (can_be_blank && static_cast<std::int64_t>(x[row]) == options.blank) return false;
    if (!options.merge_repeated || row == 0 || x[row] != x[row - 1]) return true;
    // If the sequence begins with this row, the row before belongs to another one: few rows need a search to find out.
    return sequences.begin(sequence_of(sequences, row)) == row;
  }
};

template <>
struct Kernel<CtcAlign> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, const CtcAlignOptions& options,
                  std::int64_t* scratch, std::int64_t* kept) {
    RowFilter::count(executor, sequences, SpellsLabel<T>{x, sequences, options}, scratch, kept);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

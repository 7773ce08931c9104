// SPDX-License-Identifier: Apache-2.0
/// @file
/// Transposes square blocks of numbers in vectors.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/shuffle.hpp>

#include <cstddef>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Swaps the off-diagonal blocks of `distance` columns of two rows that are `distance` apart.
template <std::size_t distance, std::size_t row, class V, std::size_t size>
[[gnu::always_inline]] inline void swap_blocks(V (&rows)[size]) noexcept {
  if constexpr ((row & distance) == 0) {
    constexpr std::size_t columns = sizeof(V) / sizeof(rows[0][0]);
    const V upper = rows[row], lower = rows[row + distance];
    shuffle(
        upper, lower, [](std::size_t column) { return column & distance ? column - distance + columns : column; },
        rows[row]);
    shuffle(
        upper, lower, [](std::size_t column) { return column & distance ? column + columns : column + distance; },
        rows[row + distance]);
  }
}
/// Blocks of `distance` rows are already in place.
template <std::size_t distance, class V, std::size_t size, std::size_t... row>
[[gnu::always_inline]] inline void transpose_from(V (&rows)[size], std::index_sequence<row...> all) noexcept {
  if constexpr (distance < size) {
    (swap_blocks<distance, row>(rows), ...);
    transpose_from<2 * distance>(rows, all);
  }
}

/// Row i becomes column i, for as many of the compiler's own vectors as each has numbers, which is a power of two. Of
/// fewer rows, each block of as many columns is transposed by itself. Always inlined, and unrolled over the rows, which
/// stay in registers.
template <class V, std::size_t size>
[[gnu::always_inline]] inline void transpose(V (&rows)[size]) noexcept {
  static_assert(sizeof(V) % (size * sizeof(rows[0][0])) == 0 && (size & (size - 1)) == 0);
  transpose_from<1>(rows, std::make_index_sequence<size>());
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

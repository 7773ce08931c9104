// SPDX-License-Identifier: Apache-2.0
/// @file
/// The order of the additions in a sum of many rows: one fixed tree for each sequence, counted from its first row.
///
/// The bits of a sum depend on the order of its additions. Here the order depends on the number of rows and the row
/// size alone: not on threads, the vector width, or where a sequence lies in its batch.
///
/// - A *leaf* of `leaf_rows` rows is summed in float (double, int64). Narrow rows (under 8 columns): row k goes to
///   accumulator k mod 16 of its column, and the 16 are added as a tree. Wide rows: four rows are added as a tree, then
///   to the column's accumulator.
/// - The leaves of a *chunk* are added one after the other with compensation (Knuth's two-sum): the error of a sum is
///   that of one leaf, however long the sequence.
/// - The chunks are added likewise. Threads share a long sequence by chunks.
/// - Sums begin with `empty_sum`, so that a sum of negative zeros is a negative zero, as if only the numbers were
///   added.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The elements of a long sequence that a thread takes at a time.
#ifdef LOD_GRAIN
// A program may define it smaller, in decimal digits: then threads share small inputs too, for tests under slow tools.
// The last bits of long sums depend on it, so it is a part of LOD_TARGET.
inline constexpr std::int64_t grain = LOD_GRAIN;
#else
inline constexpr std::int64_t grain = 65536;
#endif
inline constexpr std::int64_t leaf_rows = 512;
/// The greatest row size that counts as narrow.
inline constexpr std::int64_t narrow_row_size = 7;

/// Rows of a chunk: whole leaves, about `grain` elements.
LOD_HOST_DEVICE constexpr std::int64_t chunk_rows(std::int64_t row_size) noexcept {
  const std::int64_t leaves = grain / leaf_rows / (row_size > 1 ? row_size : 1);
  return (leaves > 1 ? leaves : 1) * leaf_rows;
}

/// The initial value of a sum: adding to it changes nothing, not even the sign of a zero.
template <class A>
LOD_HOST_DEVICE constexpr A empty_sum() noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    return -A{};
  } else if constexpr (std::is_integral_v<A>) {
    return A{};
  } else {
    return A::empty_sum();
  }
}

/// The same for running sums: an exclusive one writes its sum of no numbers, which is a plain 0.
template <class A>
LOD_HOST_DEVICE constexpr A start_of_sums(bool exclusive) noexcept {
  return exclusive ? A{} : empty_sum<A>();
}

/// sum += term; the rounding error is added to `error`. Exact for integers.
template <class A>
LOD_HOST_DEVICE inline void add_compensated(A& sum, A& error, A term) noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    const A total = sum + term;
    const A back = total - sum;
    const A lost = (sum - (total - back)) + (term - back);
    // With an infinite or NaN total, `lost` is NaN: there is no rounding error to keep. Without any loss, the error
    // keeps the value that changes no sum.
    error += std::fabs(lost) > 0 ? lost : empty_sum<A>();
    sum = total;
  } else {
    sum = static_cast<A>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(term));
    static_cast<void>(error);
  }
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

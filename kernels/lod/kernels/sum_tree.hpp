// SPDX-License-Identifier: Apache-2.0
/// @file
/// The order of the additions in the sum of many rows: one fixed tree for each sequence, counted from its first row.
///
/// The bits of a sum depend on the order of the additions. Here the order follows from the number of rows and the row
/// size alone: not from threads, not from the vector width, not from where a sequence lies in its batch.
///
/// - A *leaf* of `leaf_rows` rows is summed in float (double, int64). Narrow rows (under 8 columns): row k goes to
///   accumulator k mod 16 of its column, and the 16 are added as a tree. Wide rows: four rows are added as a tree, then
///   to the column's accumulator.
/// - The leaves of a *chunk* are added one after the other with compensation (Knuth's two-sum): the error of a sum is
///   that of one leaf, however long the sequence.
/// - The chunks are added likewise. Threads share a long sequence by chunks.
/// - Sums begin with `empty_sum`: so a sum of negative zeros is a negative zero, as the additions alone have it.
#pragma once

#include <lod/float16.hpp>
#include <lod/target.hpp>

#include <cmath>
#include <cstdint>
#include <type_traits>

// A program may set less, everywhere alike: then small inputs are shared by threads too, for tests under slow tools.
// The last bits of long sums depend on it.
#ifndef LOD_GRAIN
#  define LOD_GRAIN 65536
#endif

namespace lod::inline LOD_TARGET {
namespace kernel {

/// The elements of a long sequence that are one thread's at a time.
inline constexpr std::int64_t grain = LOD_GRAIN;
inline constexpr std::int64_t leaf_rows = 512;
/// The columns of the widest rows that are narrow.
inline constexpr std::int64_t narrow_row_size = 7;

/// Rows of a chunk: whole leaves, about `grain` elements.
LOD_HOST_DEVICE constexpr std::int64_t chunk_rows(std::int64_t row_size) noexcept {
  const std::int64_t leaves = grain / leaf_rows / (row_size > 1 ? row_size : 1);
  return (leaves > 1 ? leaves : 1) * leaf_rows;
}

/// What a sum of numbers begins with: adding to it changes nothing, the sign of a zero included.
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

/// The same of running sums: that of no number is a 0 that is written where they are exclusive.
template <class A>
LOD_HOST_DEVICE constexpr A start_of_sums(bool exclusive) noexcept {
  return exclusive ? A{} : empty_sum<A>();
}

/// sum += term, and what was rounded away is added to `error`. Exact for integers.
template <class A>
LOD_HOST_DEVICE inline void add_compensated(A& sum, A& error, A term) noexcept {
  if constexpr (std::is_floating_point_v<A>) {
    const A total = sum + term;
    const A back = total - sum;
    const A lost = (sum - (total - back)) + (term - back);
    // With an infinite or NaN total, what was lost is NaN: there is no rounding error to keep. Without any, the error
    // stays what changes no sum.
    error += std::fabs(lost) > 0 ? lost : empty_sum<A>();
    sum = total;
  } else {
    sum = static_cast<A>(static_cast<std::uint64_t>(sum) + static_cast<std::uint64_t>(term));
    static_cast<void>(error);
  }
}

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Arithmetic of sizes: products and sums that stay at the greatest number where they would leave 64 bits.
///
/// Rows of no elements cost no memory, so there may be as many of them as 64 bits count, and rows may have as many
/// elements where there are none. What is made of such sizes (the bytes to move, the weight of some work, the places in
/// a tensor without elements) must not overflow on the way.
#pragma once

#include <lod/float16.hpp>

#include <cstdint>
#include <limits>

namespace lod::detail {

/// a * b, of numbers that are not negative; the greatest number where that is more.
LOD_HOST_DEVICE constexpr std::int64_t saturated_product(std::int64_t a, std::int64_t b) noexcept {
  if (b != 0 && a > std::numeric_limits<std::int64_t>::max() / b) return std::numeric_limits<std::int64_t>::max();
  return a * b;
}
/// a + b, of numbers that are not negative; the greatest number where that is more.
LOD_HOST_DEVICE constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) noexcept {
  return a > std::numeric_limits<std::int64_t>::max() - b ? std::numeric_limits<std::int64_t>::max() : a + b;
}

}  // namespace lod::detail

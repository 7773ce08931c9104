// SPDX-License-Identifier: Apache-2.0
/// @file
/// Arithmetic on sizes: products and sums that saturate at the greatest number instead of overflowing 64 bits.
///
/// Rows without elements cost no memory, so there may be as many of them as 64 bits can count; likewise, without rows,
/// a row shape may have that many elements. What is computed from such sizes (the bytes to move, the weight of some
/// work, positions in a tensor without elements) must not overflow on the way.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// For products of two sizes that are then divided.
__extension__ typedef unsigned __int128 UnsignedInt128;

/// a * b for nonnegative numbers; the greatest number if it is more.
constexpr std::int64_t saturated_product(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max() : product;
}
/// The product of several of them.
template <class... More>
constexpr std::int64_t saturated_product(std::int64_t a, std::int64_t b, std::int64_t c, More... more) noexcept {
  return saturated_product(saturated_product(a, b), c, more...);
}
/// The bytes of numbers of type T, as many as the product of the counts.
template <class T, class... Counts>
constexpr std::int64_t bytes_of(std::int64_t count, Counts... counts) noexcept {
  return saturated_product(count, counts..., static_cast<std::int64_t>(sizeof(T)));
}
/// a + b for nonnegative numbers; the greatest number if it is more.
constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}
/// `count` as the size of a list of T. Throws ShapeMismatch, with a text that begins with `what`, if memory cannot hold
/// that many; standard containers would throw std::length_error, which does not say what was wrong.
template <class T>
std::size_t checked_count(std::int64_t count, const char* what) {
  if (count < 0 || count > std::numeric_limits<std::int64_t>::max() / 2 / static_cast<std::int64_t>(sizeof(T))) {
    throw ShapeMismatch(text({what, ": a list of ", count, " is more than memory can hold"}));
  }
  return static_cast<std::size_t>(count);
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

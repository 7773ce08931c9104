// SPDX-License-Identifier: Apache-2.0
/// @file
/// Integer keys that order as the numbers do, for sorting.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// Whether keys of type T fit 32 bits.
template <class T>
inline constexpr bool has_narrow_key =
    std::integral<T> ? sizeof(T) < 4 || (sizeof(T) == 4 && std::signed_integral<T>) : sizeof(T) <= 4;

/// Ascending keys mean ascending numbers, or, if `descending`, descending ones, in both cases with NaNs last; -0 and 0
/// have the same key.
template <class T>
LOD_HOST_DEVICE std::int64_t sort_key(T number, bool descending) noexcept {
  if constexpr (std::integral<T>) {
    auto key = static_cast<std::int64_t>(number);
    if constexpr (sizeof(T) == 8 && std::unsigned_integral<T>) key ^= INT64_MIN;
    return descending ? ~key : key;
  } else {
    using A = Accumulator<T>;
    using Bits = std::conditional_t<sizeof(A) == 4, std::int32_t, std::int64_t>;
    constexpr auto greatest_key = static_cast<Bits>(sizeof(A) == 4 ? INT32_MAX : INT64_MAX);
    const auto wide = static_cast<A>(number);
    if (wide != wide) return greatest_key;
    const auto bits = __builtin_bit_cast(Bits, wide == A{} ? A{} : wide);
    const Bits key = bits < 0 ? bits ^ greatest_key : bits;
    return descending ? ~key : key;
  }
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Binary search, for CPUs and for bodies that GPUs run, which cannot call the standard library's.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

#include <concepts>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The first number in [low, high) for which `holds` is false; `high` where it is true for all of them. It is false for
/// all numbers after one for which it is false.
LOD_ON_THE_CALLERS_SIDE
template <std::integral Number, class Holds>
LOD_HOST_DEVICE constexpr Number partition_point(Number low, Number high, const Holds& holds) noexcept {
  while (low < high) {
    const Number middle = low + (high - low) / 2;
    if (holds(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What kernels over Thrust are made of: the same body for each of many numbers, on whatever system the policy of the
/// executor names. A body is a lambda that captures plain values and raw pointers by copy and reads offsets only
/// inside: it may run where the host's memory is not.
#pragma once

#include <lod/executor.hpp>
#include <lod/kernel.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel::bulk {

/// The algorithms that bodies are made of, where an executor has them done: system.hpp, where Thrust enters, and
/// nowhere else. A doorway, as <lod/thrust.hpp> is one, includes it beside the kernels.
template <class E>
class System;

/// Calls body(i) for each i in [0, count), in any order.
template <class E, class Body>
void for_each(const E& executor, std::int64_t count, const Body& body) {
  if (count > 0) System<E>(executor).for_each(count, body);
}

template <class T>
LOD_HOST_DEVICE constexpr T least(T a, T b) noexcept {
  return b < a ? b : a;
}
template <class T>
LOD_HOST_DEVICE constexpr T greatest(T a, T b) noexcept {
  return a < b ? b : a;
}

/// The sequence that holds a row; `sequences.size` for a row behind the last.
LOD_HOST_DEVICE inline std::int64_t sequence_of(const Segments& sequences, std::int64_t row) noexcept {
  std::int64_t low = 0, high = sequences.size;  // the first sequence that ends behind the row
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (sequences.begin(middle + 1) <= row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// a + b; integers wrap around.
template <class A>
LOD_HOST_DEVICE constexpr A plus(A a, A b) noexcept {
  if constexpr (std::integral<A>) {
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

}  // namespace kernel::bulk
}  // namespace lod::inline LOD_TARGET

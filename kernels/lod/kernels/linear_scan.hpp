// SPDX-License-Identifier: Apache-2.0
/// @file
/// What linear recurrences read and write: those of a scan, `ScanNumbers`, and those of its gradient, which is a scan
/// in the opposite direction, `ScanGradientNumbers`. Both go from row to row in the direction of their own scan. A
/// place is that of a number in the batch.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/fused.hpp>
#include <lod/ops/kernel.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// h[t] = a[t] * h[t - 1] + b[t]
template <class T>
struct ScanNumbers {
  static constexpr bool is_gradient = false;

  const T* a;
  const T* b;
  const T* initial;
  T* h;
  std::int64_t row_size;
  bool backwards;

  LOD_HOST_DEVICE std::int64_t step() const { return backwards ? -row_size : row_size; }
  /// The state before the first row of a sequence; null if there is none.
  LOD_HOST_DEVICE const T* start(std::int64_t sequence) const {
    return initial ? initial + sequence * row_size : nullptr;
  }
  LOD_HOST_DEVICE const T* factor(std::int64_t place) const { return a + place; }
  LOD_HOST_DEVICE const T* term(std::int64_t place) const { return b + place; }
  LOD_HOST_DEVICE T* state(std::int64_t place) const { return h + place; }
};

/// db[t] = dh[t] + a[t + 1] * db[t + 1], da[t] = db[t] * h[t - 1], dinitial = a[first] * db[first]
template <class T>
struct ScanGradientNumbers {
  static constexpr bool is_gradient = true;

  const T* dh;
  const T* a;
  const T* h;
  const T* initial;
  T* da;
  T* db;
  T* dinitial;
  std::int64_t row_size;
  bool backwards;

  LOD_HOST_DEVICE std::int64_t step() const { return backwards ? -row_size : row_size; }
  LOD_HOST_DEVICE const T* start(std::int64_t) const { return nullptr; }
  LOD_HOST_DEVICE const T* factor(std::int64_t place) const { return a + (place - step()); }
  LOD_HOST_DEVICE const T* term(std::int64_t place) const { return dh + place; }
  LOD_HOST_DEVICE T* state(std::int64_t place) const { return db + place; }
  /// What the factor of a row was multiplied by: the state of the row that the scan had before it. Null stands for 0.
  LOD_HOST_DEVICE const T* multiplied(std::int64_t place, bool is_last, std::int64_t sequence,
                                      std::int64_t column) const {
    if (!is_last) return h + (place + step());
    return initial ? initial + (sequence * row_size + column) : nullptr;
  }
};

/// The state after a leaf, from that before it, the product of the leaf's factors and the state that it has after
/// zero. A product that left the range of numbers does not change a state of 0.
template <class A>
LOD_HOST_DEVICE A after_leaf(A state, A factor, A term) {
  return state == A{} ? term : fused(factor, state, term);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

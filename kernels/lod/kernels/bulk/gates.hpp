// SPDX-License-Identifier: Apache-2.0
/// @file
/// Common parts of the steps of recurrent units in bulk.
#pragma once

#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// 1 / (1 + e^-x): 0 where the exponential overflows and 1 where it underflows.
template <class A>
LOD_HOST_DEVICE A sigmoid(A x) {
  return A{1} / (A{1} + std::exp(-x));
}

/// x[at]; 0 if x is null.
template <class T>
LOD_HOST_DEVICE Accumulator<T> number_or_zero(const T* x, std::int64_t at) {
  return x ? static_cast<Accumulator<T>>(x[at]) : Accumulator<T>{};
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the steps of recurrent units have in common, over Thrust.
#pragma once

#include <lod/kernel.hpp>
#include <lod/target.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel::bulk {

/// 1 / (1 + e^-x): 0 and 1 where the exponential overflows or vanishes.
template <class A>
LOD_HOST_DEVICE A sigmoid(A x) {
  return A{1} / (A{1} + std::exp(-x));
}

/// x[at]; 0 where x is null.
template <class T>
LOD_HOST_DEVICE Accumulator<T> number_or_zero(const T* x, std::int64_t at) {
  return x ? static_cast<Accumulator<T>>(x[at]) : Accumulator<T>{};
}

}  // namespace kernel::bulk
}  // namespace lod::inline LOD_TARGET

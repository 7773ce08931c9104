// SPDX-License-Identifier: Apache-2.0
/// @file
/// `fused`, for numbers: what `multiply_add` of <lod/kernels/cpu/vector.hpp> is for vectors.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

#include <cmath>
#include <concepts>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// a * b + c, rounded once if the processor can.
template <std::floating_point A>
LOD_HOST_DEVICE A fused(A a, A b, A c) {
#if defined(__CUDA_ARCH__) || defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

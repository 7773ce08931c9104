// SPDX-License-Identifier: Apache-2.0
/// @file
/// One number where formulas expect a vector, and products that are not fused with additions.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

#include <cmath>
#include <concepts>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// a * b, rounded before it is added to anything: compilers may fuse a product and a sum into one instruction, which
/// rounds once. Where CPU kernels store products and then add them up, the sums would have other bits.
template <std::floating_point A>
LOD_HOST_DEVICE A product(A a, A b) noexcept {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(A) == sizeof(float)) {
    return __fmul_rn(a, b);
  } else {
    return __dmul_rn(a, b);
  }
#else
  const volatile A rounded = a * b;
  return rounded;
#endif
}

/// A vector of one lane, for the formulas that CPU kernels call with whole vectors. On a GPU products are rounded
/// before they are added, so that it computes what CPUs do.
template <class A>
struct Lane {
  using value_type = A;

  A number;

  Lane() = default;
  LOD_HOST_DEVICE explicit Lane(A given) noexcept : number(given) {}

  friend LOD_HOST_DEVICE Lane operator-(const Lane& a) noexcept { return Lane(-a.number); }
  friend LOD_HOST_DEVICE Lane operator+(const Lane& a, const Lane& b) noexcept { return Lane(a.number + b.number); }
  friend LOD_HOST_DEVICE Lane operator-(const Lane& a, const Lane& b) noexcept { return Lane(a.number - b.number); }
  friend LOD_HOST_DEVICE Lane operator*(const Lane& a, const Lane& b) noexcept {
#ifdef __CUDA_ARCH__
    return Lane(product(a.number, b.number));
#else
    return Lane(a.number * b.number);
#endif
  }
  friend LOD_HOST_DEVICE Lane operator/(const Lane& a, const Lane& b) noexcept { return Lane(a.number / b.number); }
  friend LOD_HOST_DEVICE bool operator<(const Lane& a, const Lane& b) noexcept { return a.number < b.number; }
  friend LOD_HOST_DEVICE bool operator>(const Lane& a, const Lane& b) noexcept { return a.number > b.number; }

  friend LOD_HOST_DEVICE Lane select(bool condition, const Lane& yes, const Lane& no) noexcept {
    return condition ? yes : no;
  }
  friend LOD_HOST_DEVICE Lane abs(const Lane& a) noexcept { return Lane(std::fabs(a.number)); }
  friend LOD_HOST_DEVICE Lane sqrt(const Lane& a) noexcept { return Lane(std::sqrt(a.number)); }
  friend LOD_HOST_DEVICE Lane pow(const Lane& a, const Lane& b) noexcept { return Lane(std::pow(a.number, b.number)); }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The cross entropy of a row whose distances between logits leave the range of their type on the way.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/unbounded.hpp>
#include <lod/kernels/wide_sum.hpp>
#include <lod/ops/kernel.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The loss of a row of logits, times `scale`, from a quarter of all distances; +inf is the greatest finite number. The
/// logarithm of the sum of their exponentials is greatest + rest.
template <class T, std::floating_point A = Accumulator<T>>
LOD_HOST_DEVICE A scaled_loss(const T* logits, std::int64_t classes, std::int64_t label, A smoothing, A greatest,
                              A rest, A scale) {
  constexpr auto part = static_cast<A>(0.25), most = static_cast<A>(greatest_finite<A>);
  const auto below = [=](std::int64_t k) {
    const auto logit = static_cast<A>(logits[k]);
    return greatest * part - (logit > most ? most : logit) * part;
  };
  A loss = below(label);
  if (smoothing > A{}) {
    const A mean = mean_in_order<A>(below, classes, classes);
    loss = smoothing < A{1} ? (A{1} - smoothing) * loss + smoothing * mean : mean;
  }
  return (loss + rest * part) * (scale / part);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

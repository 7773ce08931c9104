// SPDX-License-Identifier: Apache-2.0
/// @file
/// The cross entropy of a row whose distances between logits leave the range of their type on the way.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/wide_sum.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The loss times `scale`, from a quarter of all distances; number(k) is the logit of class k, none of which is +inf.
/// The logarithm of the sum of their exponentials is greatest + rest.
LOD_ON_THE_CALLERS_SIDE
template <std::floating_point A, class Number>
LOD_HOST_DEVICE A scaled_loss(const Number& number, std::int64_t classes, std::int64_t label, A smoothing, A greatest,
                              A rest, A scale) {
  constexpr auto part = static_cast<A>(0.25);
  const auto below = [&](std::int64_t k) { return greatest * part - number(k) * part; };
  A loss = below(label);
  if (smoothing > A{}) {
    const A mean = mean_in_order<A>(below, classes, classes);
    loss = smoothing < A{1} ? (A{1} - smoothing) * loss + smoothing * mean : mean;
  }
  return (loss + rest * part) * (scale / part);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

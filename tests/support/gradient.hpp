// SPDX-License-Identifier: Apache-2.0
/// @file
/// Numeric gradients: the judge of every `_grad`, whatever executor works it out.
#pragma once

#include "support/grain.hpp"
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

namespace lod_test {

/// Checks `grad(dy)`, the gradient of y = f(x) for x, against central differences of sum(dy * f(x)) in double, for a
/// random dy. f takes a tensor and gives one; x is moved and put back. Against differences for every `stride`th
/// element, where all is slow for every seventh.
template <class F, class Grad>
void check_gradient(std::mt19937_64& random, lod::LoDTensor<double>& x, const F& f, const Grad& grad,
                    std::size_t stride = slow ? 7 : 1) {
  constexpr double step = 1e-5;
  lod::LoDTensor<double> dy = f(x);
  std::normal_distribution<double> number;
  for (double& value : dy.values()) value = number(random);
  const lod::LoDTensor<double> dx = grad(dy);
  REQUIRE(dx.shape() == x.shape());
  CHECK(dx.lod() == x.lod());
  const auto loss = [&] {
    const lod::LoDTensor<double> y = f(x);
    double sum = 0;
    for (std::size_t i = 0; i < y.values().size(); ++i) {
      // What an empty sequence has may be infinite, whatever x is.
      if (std::isfinite(y.values()[i])) sum += y.values()[i] * dy.values()[i];
    }
    return sum;
  };
  for (std::size_t i = random() % stride; i < x.values().size(); i += stride) {
    const double at = x.values()[i];
    x.values()[i] = at + step;
    const double above = loss();
    x.values()[i] = at - step;
    const double below = loss();
    x.values()[i] = at;
    CAPTURE(i);
    CHECK(dx.values()[i] == doctest::Approx((above - below) / (2 * step)).epsilon(1e-6).scale(1));
  }
}

}  // namespace lod_test

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The functions of gates, candidates and cells in the steps of recurrent units, <lod/ops/lstm_steps.hpp> and
/// <lod/ops/gru_steps.hpp>.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

namespace lod::inline LOD_INTERFACE::kernel {

/// The logistic function in a step. `back` turns the gradient with respect to its result `y` into that with respect to
/// its argument.
struct StepSigmoid {
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes, class V>
  LOD_TAGGED LOD_HOST_DEVICE V operator()(const Lanes& lanes, const V& x) const {
    return lanes.sigmoid(x);
  }
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes, class V>
  LOD_TAGGED LOD_HOST_DEVICE V back(const Lanes& lanes, const V& dy, const V& y) const {
    return dy * y * (lanes.one() - y);
  }
};
/// The hyperbolic tangent in a step, with the members of StepSigmoid.
struct StepTanh {
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes, class V>
  LOD_TAGGED LOD_HOST_DEVICE V operator()(const Lanes& lanes, const V& x) const {
    return lanes.hyperbolic_tangent(x);
  }
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes, class V>
  LOD_TAGGED LOD_HOST_DEVICE V back(const Lanes& lanes, const V& dy, const V& y) const {
    return dy * (lanes.one() - y * y);
  }
};
/// A function that a program names, with the members of StepSigmoid.
struct StepFunction {
  enum Name { SIGMOID, TANH, RELU, IDENTITY };

  Name name = IDENTITY;

  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes, class V>
  LOD_TAGGED LOD_HOST_DEVICE V operator()(const Lanes& lanes, const V& x) const {
    if (name == SIGMOID) return StepSigmoid()(lanes, x);
    if (name == TANH) return StepTanh()(lanes, x);
    return name == RELU ? lanes.if_positive(x, x) : x;
  }
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes, class V>
  LOD_TAGGED LOD_HOST_DEVICE V back(const Lanes& lanes, const V& dy, const V& y) const {
    if (name == SIGMOID) return StepSigmoid().back(lanes, dy, y);
    if (name == TANH) return StepTanh().back(lanes, dy, y);
    return name == RELU ? lanes.if_positive(y, dy) : dy;
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel

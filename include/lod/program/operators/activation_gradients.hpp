// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gradients of activations and other functions of one number: relu_grad and the like.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/elementary.hpp>
#include <lod/program/operators/formula.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/unary.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

// The slopes of activations, as functions of X or, with the base OfResult, of Out. Where a function has no slope, as
// relu at 0, the value is PaddlePaddle's.

struct OfResult {};

LOD_FORMULA(NoSlope : OfResult, , 0);
LOD_FORMULA(SlopeOfRelu : OfResult, y, y > 0);
LOD_FORMULA(SlopeOfSigmoid : OfResult, y, (y * (1 - y)));
LOD_FORMULA(SlopeOfTanh : OfResult, y, 1 - y * y);
LOD_FORMULA(SlopeOfExp : OfResult, y, y);
LOD_FORMULA(SlopeOfSqrt : OfResult, y, static_cast<T>(0.5) / y);
LOD_FORMULA(SlopeOfRsqrt : OfResult, y, static_cast<T>(-0.5) * y * y * y);
LOD_FORMULA(SlopeOfReciprocal : OfResult, y, (-y * y));
LOD_FORMULA(SlopeOfExpm1 : OfResult, y, y + 1);
struct SlopeOfSelu : Selu, OfResult {
  using Selu::Selu;
  template <class T>
  LOD_HOST_DEVICE T operator()(T y) const {
    return y > 0 ? T{scale} : y + scale * alpha;
  }
};
struct SlopeOfSoftRelu : SoftRelu, OfResult {
  using SoftRelu::SoftRelu;
  template <class T>
  LOD_HOST_DEVICE T operator()(T y) const {
    return y > -threshold && y < threshold ? -std::expm1(-y) : 0;
  }
};
struct SlopeOfRelu6 : Relu6, OfResult {
  using Relu6::Relu6;
  template <class T>
  LOD_HOST_DEVICE T operator()(T y) const {
    return y > 0 && y < threshold;
  }
};
struct SlopeOfHardSigmoid : HardSigmoid, OfResult {
  using HardSigmoid::HardSigmoid;
  template <class T>
  LOD_HOST_DEVICE T operator()(T y) const {
    return y > 0 && y < 1 ? slope : 0;
  }
};
LOD_FORMULA(SlopeOfLogSigmoid, x, Sigmoid()(-x));
LOD_FORMULA(SlopeOfLog, x, 1 / x);
LOD_FORMULA(SlopeOfSquare, x, 2 * x);
LOD_FORMULA(SlopeOfSine, x, std::cos(x));
LOD_FORMULA(SlopeOfCosine, x, -std::sin(x));
LOD_FORMULA(SlopeOfSoftsign, x, Square()(1 / (1 + std::abs(x))));
LOD_FORMULA(SlopeOfLog1p, x, 1 / (1 + x));
LOD_FORMULA(SlopeOfLog2, x, 1 / (x * std::log(T{2})));
LOD_FORMULA(SlopeOfLog10, x, 1 / (x * std::log(T{10})));
LOD_FORMULA(SlopeOfTangent, x, 1 / Square()(std::cos(x)));
LOD_FORMULA(SlopeOfArcSine, x, 1 / std::sqrt(1 - x * x));
LOD_FORMULA(SlopeOfArcCosine, x, -1 / std::sqrt(1 - x * x));
LOD_FORMULA(SlopeOfArcTangent, x, 1 / (1 + x * x));
LOD_FORMULA(SlopeOfTanhShrink, x, Square()(hyperbolic_tangent(x)));
struct SlopeOfErf {
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    constexpr double two_over_root_of_pi = 1.12837916709551257390;
    return static_cast<T>(two_over_root_of_pi) * exponential(-x * x);
  }
};
struct SlopeOfLeakyRelu : LeakyRelu {
  using LeakyRelu::LeakyRelu;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x > 0 ? 1 : T{alpha};
  }
};
struct SlopeOfElu : Elu {
  using Elu::Elu;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x > 0 ? 1 : alpha * std::exp(x);
  }
};
template <bool is_approximate>
struct SlopeOfGelu {
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    constexpr double root_of_half = 0.70710678118654752440, root_of_two_over_pi = 0.79788456080286535588;
    if constexpr (is_approximate) {
      constexpr auto factor = static_cast<T>(root_of_two_over_pi), cubic = static_cast<T>(0.044715);
      const T tanh = hyperbolic_tangent(factor * (x + cubic * x * x * x));
      return (1 + tanh) / 2 + x / 2 * (1 - tanh * tanh) * factor * (1 + 3 * cubic * x * x);
    } else {
      const T density = static_cast<T>(root_of_two_over_pi / 2) * exponential(-x * x / 2);
      return (1 + error_function(x * static_cast<T>(root_of_half))) / 2 + x * density;
    }
  }
};
struct SlopeOfSwish : Swish {
  using Swish::Swish;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    const T sigmoid = Sigmoid()(beta * x);
    return sigmoid + beta * x * sigmoid * (1 - sigmoid);
  }
};
struct SlopeOfSoftplus : Softplus {
  using Softplus::Softplus;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x * beta > threshold ? 1 : Sigmoid()(beta * x);
  }
};
struct SlopeOfMish : Mish {
  using Mish::Mish;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    const T softplus = inner(x), y = hyperbolic_tangent(softplus);
    return y - x * (1 - y * y) * std::expm1(-softplus);
  }
};
struct SlopeOfHardSwish : HardSwish {
  using HardSwish::HardSwish;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    if (x + offset <= 0) return 0;
    return x + offset < threshold ? (2 * x + offset) / divisor : threshold / divisor;
  }
};
struct SlopeOfHardShrink : HardShrink {
  using HardShrink::HardShrink;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return std::abs(x) > threshold;
  }
};
struct SlopeOfSoftShrink : SoftShrink {
  using SoftShrink::SoftShrink;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return std::abs(x) > lambda;
  }
};
struct SlopeOfThresholdedRelu : ThresholdedRelu {
  using ThresholdedRelu::ThresholdedRelu;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x > threshold;
  }
};
struct SlopeOfBoundedRelu : BoundedRelu {
  using BoundedRelu::BoundedRelu;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x > least && x < greatest;
  }
};
struct SlopeOfScaledTanh : ScaledTanh {
  using ScaledTanh::ScaledTanh;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return inner * outer * SlopeOfTanh()(hyperbolic_tangent(inner * x));
  }
};
struct SlopeOfPower : ToThePower {
  using ToThePower::ToThePower;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return factor * std::pow(x, T{factor} - 1);
  }
};
struct SlopeOfClip : Clip {
  using Clip::Clip;
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x > least && x < greatest;
  }
};

/// A gradient times the slope at a number.
template <class F>
struct TimesSlope {
  F slope;
  template <class T>
  LOD_HOST_DEVICE T operator()(T value, T gradient) const {
    return gradient * static_cast<T>(slope(value));
  }
};

/// relu_grad and the like: X or Out, whichever F needs, and Out@GRAD -> X@GRAD, with the levels of X or Out. floor,
/// whose slope is 0, needs neither.
template <class F, Executor E>
RunOperator<E> activation_grad(const OperatorArguments& op) {
  const Slot dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  const Slot at = std::same_as<F, NoSlope> ? dy : op.input(std::derived_from<F, OfResult> ? "Out" : "X");
  const F slope = made_for<F>(op);
  return [=](OperatorCall<E>& call) {
    call.with_floating(at, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto& from = call.tensor(at);
      const T* const given = numbers_of<T>(call, dy, from.shape());
      const T* const values = call.template view<T>(at).data();
      auto to = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      operation::combine_numbers(call.executor(), values, given, from.rows() * from.row_size(),
                                 to.template elements<T>(), TimesSlope<F>{slope});
    });
  };
}

/// gelu_grad: the attribute of gelu.
template <Executor E>
RunOperator<E> gelu_grad(const OperatorArguments& op) {
  return op.attr("approximate", false) ? activation_grad<SlopeOfGelu<true>, E>(op)
                                       : activation_grad<SlopeOfGelu<false>, E>(op);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

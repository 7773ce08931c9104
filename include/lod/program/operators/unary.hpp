// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators on each element: scale, activations, cast, clip.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/arithmetic.hpp>
#include <lod/ops/for_each_place.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/elementary.hpp>
#include <lod/program/operators/formula.hpp>
#include <lod/program/operators/shapes.hpp>

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// y = f(x), element by element, with the levels of x; y has elements of type U.
template <class U, class T, class E, class F>
void map_elements(const OperatorCall<E>& call, const Slot& x, const Slot& y, const F& f) {
  const auto& from = call.tensor(x);
  const auto values = call.template view<T>(x);
  auto to = call.output_bytes(y, data_type_v<U>, from.lod(), from.row_shape(), from.rows());
  operation::map_numbers(call.executor(), values.data(), values.rows() * values.row_size(), to.template elements<U>(),
                         f);
}

/// A number times a factor, plus a bias that is added before or after.
template <class T>
struct ScaledBy {
  T factor;
  T bias;
  bool is_after;
  LOD_HOST_DEVICE T operator()(T v) const {
    constexpr kernel::Add add;
    constexpr kernel::Multiply multiply;
    return is_after ? add(multiply(v, factor), bias) : multiply(add(v, bias), factor);
  }
};

/// scale: X -> Out; scale = 1, bias = 0, bias_after_scale = true. For integers, scale and bias are truncated, as in
/// PaddlePaddle.
template <Executor E>
RunOperator<E> scale(const OperatorArguments& op) {
  op.expect_no_input("ScaleTensor");
  const Slot x = op.input("X"), out = op.output("Out");
  const float factor = op.attr("scale", 1.0f), bias = op.attr("bias", 0.0f);
  const bool is_after = op.attr("bias_after_scale", true);
  return [=](OperatorCall<E>& call) {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      map_elements<T, T>(call, x, out, ScaledBy<T>{Scalar(factor).to<T>(), Scalar(bias).to<T>(), is_after});
    });
  };
}

/// The gradient of scale: scale without the bias.
inline std::vector<OpDesc> gradient_of_scale(const GradientArguments& op) {
  OpDesc made = op.describe("scale: X=Out@GRAD -> Out=X@GRAD");
  set_attr(made, make_attr("bias", 0.0f));
  return {std::move(made)};
}

/// increment: X -> Out; step = 1.
template <Executor E>
RunOperator<E> increment(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const float step = op.attr("step", 1.0f);
  return [=](OperatorCall<E>& call) {
    call.with_number(x, [&](auto element) {
      using T = typename decltype(element)::type;
      map_elements<T, T>(call, x, out, [b = Scalar(step).to<T>()](T v) { return kernel::Add()(v, b); });
    });
  };
}

/// x, or the bound that it exceeds; NaN stays. (Kernels for GPUs call no std::min.)
template <class T>
LOD_HOST_DEVICE T between(T x, T least, T greatest) {
  if (x < least) x = least;
  return greatest < x ? greatest : x;
}

// Activations. Those with attributes read them on construction. Of NaN all are NaN.

LOD_FORMULA(Relu, x, x < 0 ? T{0} : x);
LOD_FORMULA(Sigmoid, x, 1 / (1 + exponential(-x)));
LOD_FORMULA(LogSigmoid, x, (x > 0 ? T{0} : x) - std::log1p(std::exp(-std::abs(x))));
LOD_FORMULA(Tanh, x, hyperbolic_tangent(x));
LOD_FORMULA(Exp, x, exponential(x));
LOD_FORMULA(Log, x, std::log(x));
LOD_FORMULA(Sqrt, x, std::sqrt(x));
LOD_FORMULA(Rsqrt, x, 1 / std::sqrt(x));
LOD_FORMULA(Square, x, (x * x));
LOD_FORMULA(Abs, x, std::abs(x));
LOD_FORMULA(Reciprocal, x, 1 / x);
LOD_FORMULA(Floor, x, std::floor(x));
LOD_FORMULA(Ceil, x, std::ceil(x));
/// Halves away from zero.
LOD_FORMULA(Round, x, std::round(x));
LOD_FORMULA(Sine, x, std::sin(x));
LOD_FORMULA(Cosine, x, std::cos(x));
LOD_FORMULA(Sign, x, x != x ? x : static_cast<T>((x > 0) - (x < 0)));
LOD_FORMULA(Softsign, x, x / (1 + std::abs(x)));
LOD_FORMULA(TanhShrink, x, x - hyperbolic_tangent(x));
LOD_FORMULA(Erf, x, error_function(x));
LOD_FORMULA(Expm1, x, std::expm1(x));
LOD_FORMULA(Log1p, x, std::log1p(x));
LOD_FORMULA(Log2, x, std::log2(x));
LOD_FORMULA(Log10, x, std::log10(x));
LOD_FORMULA(Tangent, x, std::tan(x));
LOD_FORMULA(ArcSine, x, std::asin(x));
LOD_FORMULA(ArcCosine, x, std::acos(x));
LOD_FORMULA(ArcTangent, x, std::atan(x));
LOD_FORMULA(HyperbolicSine, x, std::sinh(x));
LOD_FORMULA(HyperbolicCosine, x, std::cosh(x));

struct Relu6 {
  float threshold;
  explicit Relu6(const OperatorArguments& op) : threshold(op.attr("threshold", 6.0f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return between(x, T{0}, T{threshold});
  }
};
struct LeakyRelu {
  float alpha;
  explicit LeakyRelu(const OperatorArguments& op) : alpha(op.attr("alpha", 0.02f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x < 0 ? alpha * x : x;
  }
};
struct Elu {
  float alpha;
  explicit Elu(const OperatorArguments& op) : alpha(op.attr("alpha", 1.0f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x < 0 ? alpha * std::expm1(x) : x;
  }
};
/// By a hyperbolic tangent or by the error function: the same for all numbers, so that compilers can vectorize.
template <bool is_approximate>
struct Gelu {
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    constexpr double root_of_half = 0.70710678118654752440, root_of_two_over_pi = 0.79788456080286535588;
    if constexpr (is_approximate) {
      const T inner = static_cast<T>(root_of_two_over_pi) * (x + static_cast<T>(0.044715) * x * x * x);
      return x * static_cast<T>(0.5) * (1 + hyperbolic_tangent(inner));
    } else {
      return x * static_cast<T>(0.5) * (1 + error_function(x * static_cast<T>(root_of_half)));
    }
  }
};
struct Swish {
  float beta;
  explicit Swish(const OperatorArguments& op) : beta(op.attr("beta", 1.0f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x / (1 + exponential(-beta * x));
  }
};
struct Softplus {
  float beta;
  float threshold;
  explicit Softplus(const OperatorArguments& op)
      : beta(op.attr("beta", 1.0f)), threshold(op.attr("threshold", 20.0f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x * beta > threshold ? x : std::log1p(std::exp(x * beta)) / beta;
  }
};
struct Mish {
  float threshold;
  explicit Mish(const OperatorArguments& op) : threshold(op.attr("threshold", 20.0f)) {}
  /// softplus, which far from 0 is x or e^x.
  template <class T>
  LOD_HOST_DEVICE T inner(T x) const {
    return x > threshold ? x : x < -threshold ? std::exp(x) : std::log1p(std::exp(x));
  }
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x * hyperbolic_tangent(inner(x));
  }
};
struct Selu {
  float scale;
  float alpha;
  explicit Selu(const OperatorArguments& op)
      : scale(op.attr("scale", 1.0507009873554805f)), alpha(op.attr("alpha", 1.6732632423543773f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return scale * (x > 0 ? x : alpha * std::expm1(x));
  }
};
struct SoftRelu {
  float threshold;
  explicit SoftRelu(const OperatorArguments& op) : threshold(op.attr("threshold", 40.0f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return std::log1p(std::exp(between(x, T{-threshold}, T{threshold})));
  }
};
struct HardSigmoid {
  float slope;
  float offset;
  explicit HardSigmoid(const OperatorArguments& op) : slope(op.attr("slope", 0.2f)), offset(op.attr("offset", 0.5f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return between(slope * x + offset, T{0}, T{1});
  }
};
struct HardSwish {
  float threshold;
  float divisor;
  float offset;
  explicit HardSwish(const OperatorArguments& op)
      : threshold(op.attr("threshold", 6.0f)), divisor(op.attr("scale", 6.0f)), offset(op.attr("offset", 3.0f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x * between(x + offset, T{0}, T{threshold}) / divisor;
  }
};
struct HardShrink {
  float threshold;
  explicit HardShrink(const OperatorArguments& op) : threshold(op.attr("threshold", 0.5f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return std::abs(x) <= threshold ? T{0} : x;
  }
};
struct SoftShrink {
  float lambda;
  explicit SoftShrink(const OperatorArguments& op) : lambda(op.attr("lambda", 0.5f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x > lambda ? x - lambda : x < -lambda ? x + lambda : x != x ? x : T{0};
  }
};
struct ThresholdedRelu {
  float threshold;
  explicit ThresholdedRelu(const OperatorArguments& op) : threshold(op.attr("threshold", 1.0f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x <= threshold ? T{0} : x;
  }
};
struct BoundedRelu {
  float least;
  float greatest;
  explicit BoundedRelu(const OperatorArguments& op)
      : least(op.attr("t_min", 0.0f)), greatest(op.attr("t_max", 24.0f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return between(x, T{least}, T{greatest});
  }
};
struct ScaledTanh {
  float inner;
  float outer;
  explicit ScaledTanh(const OperatorArguments& op)
      : inner(op.attr("scale_a", 0.67f)), outer(op.attr("scale_b", 1.7159f)) {}
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return outer * hyperbolic_tangent(inner * x);
  }
};
/// pow
struct ToThePower {
  float factor;
  explicit ToThePower(const OperatorArguments& op) : factor(op.attr("factor", 1.0f)) {
    op.expect_no_input("FactorTensor");
  }
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return std::pow(x, T{factor});
  }
};
struct Clip {
  float least;
  float greatest;
  explicit Clip(const OperatorArguments& op)
      : least(op.desc().attr<float>("min")), greatest(op.desc().attr<float>("max")) {
    op.expect_no_input("Min");
    op.expect_no_input("Max");
    if (!(least <= greatest)) op.refuse_attr("min", "a number that is not greater than max");
  }
  template <class T>
  LOD_HOST_DEVICE T operator()(T x) const {
    return x < least ? T{least} : greatest < x ? T{greatest} : x;
  }
};

/// Makes a function, with its attributes if it has any.
template <class F>
F made_for(const OperatorArguments& op) {
  if constexpr (std::constructible_from<F, const OperatorArguments&>) {
    return F(op);
  } else {
    return F();
  }
}

/// Activations and other functions of one floating-point number: X -> Out.
template <class F, Executor E>
RunOperator<E> activation(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  const F f = made_for<F>(op);
  return [=](OperatorCall<E>& call) {
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      map_elements<T, T>(call, x, out, f);
    });
  };
}

/// gelu: X -> Out; approximate = false.
template <Executor E>
RunOperator<E> gelu(const OperatorArguments& op) {
  return op.attr("approximate", false) ? activation<Gelu<true>, E>(op) : activation<Gelu<false>, E>(op);
}

/// A number as another type.
template <class U>
struct ConvertedTo {
  template <class T>
  LOD_HOST_DEVICE U operator()(T x) const {
    return Scalar(x).to<U>();
  }
};

/// cast: X -> Out; out_dtype. Real numbers are truncated to integers; those beyond the range of the type are clamped to
/// it, and NaN becomes 0. PaddlePaddle leaves these two cases to the processor.
template <Executor E>
RunOperator<E> cast(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  static_cast<void>(op.desc().attr<std::int32_t>("out_dtype"));
  const DataType type = output_type(op, "out_dtype", DataType::FP32);
  return [=](OperatorCall<E>& call) {
    const auto from = [&](auto element) {
      using T = typename decltype(element)::type;
      with_output_type(type, [&](auto other) {
        using U = typename decltype(other)::type;
        map_elements<U, T>(call, x, out, ConvertedTo<U>());
      });
    };
    if (call.tensor(x).data_type() == DataType::BOOL) return from(detail::ElementType<bool>());
    call.with_number(x, from);
  };
}

/// The gradient of cast: casts back.
inline std::vector<OpDesc> gradient_of_cast(const GradientArguments& op) {
  OpDesc made = op.describe("cast: X=Out@GRAD -> Out=X@GRAD");
  set_attr(made, make_attr("in_dtype", op.desc().attr<std::int32_t>("out_dtype")));
  set_attr(made, make_attr("out_dtype", op.desc().attr<std::int32_t>("in_dtype")));
  return {std::move(made)};
}

/// logical_not: X -> Out.
template <Executor E>
RunOperator<E> logical_not(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=](OperatorCall<E>& call) { map_elements<bool, bool>(call, x, out, [](bool v) { return !v; }); };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

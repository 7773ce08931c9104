// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operators that run on other devices than the CPU, by their types: those that call an operation with kernels
/// there, or compute element by element. Their gradients are described in the list of all operators, all.hpp.
#pragma once

#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/activation_gradients.hpp>
#include <lod/program/operators/elementwise.hpp>
#include <lod/program/operators/elementwise_gradients.hpp>
#include <lod/program/operators/embedding.hpp>
#include <lod/program/operators/filling.hpp>
#include <lod/program/operators/gradients_of_parameters.hpp>
#include <lod/program/operators/gru.hpp>
#include <lod/program/operators/losses.hpp>
#include <lod/program/operators/lstm.hpp>
#include <lod/program/operators/optimizers.hpp>
#include <lod/program/operators/products.hpp>
#include <lod/program/operators/reductions.hpp>
#include <lod/program/operators/sequence.hpp>
#include <lod/program/operators/sequence_gradients.hpp>
#include <lod/program/operators/softmax.hpp>
#include <lod/program/operators/unary.hpp>

#include <algorithm>
#include <functional>
#include <iterator>
#include <span>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// All of them, ascending. The last text names the arguments that they need in CPU memory: see Operator::on_cpu.
template <class E>
std::span<const detail::BuiltInOperator<E>> all_on_device() {
  static constexpr detail::BuiltInOperator<E> operators[] = {
      {"abs", activation<Abs, E>},
      {"abs_grad", activation_grad<Sign, E>},
      {"adagrad", optimizer<StepOfAdagrad, E>, nullptr, "LearningRate"},
      {"adam", adam_step<E>, nullptr, "LearningRate Beta1Pow Beta2Pow Beta1PowOut Beta2PowOut"},
      {"brelu", activation<BoundedRelu, E>},
      {"brelu_grad", activation_grad<SlopeOfBoundedRelu, E>},
      {"ceil", activation<Ceil, E>},
      {"ceil_grad", activation_grad<NoSlope, E>},
      {"clip_grad", activation_grad<SlopeOfClip, E>},
      {"cos", activation<Cosine, E>},
      {"cos_grad", activation_grad<SlopeOfCosine, E>},
      {"cross_entropy", cross_entropy<E>},
      {"cross_entropy_grad", cross_entropy_grad<E>},
      {"elementwise_add", elementwise<Adds, E>},
      {"elementwise_add_grad", elementwise_grad<GradientOfAdd, E>},
      {"elementwise_div", elementwise<Divides, E>},
      {"elementwise_div_grad", elementwise_grad<GradientOfDivide, E>},
      {"elementwise_max", elementwise<Maximum, E>},
      {"elementwise_min", elementwise<Minimum, E>},
      {"elementwise_mul", elementwise<Multiplies, E>},
      {"elementwise_mul_grad", elementwise_grad<GradientOfMultiply, E>},
      {"elementwise_sub", elementwise<Subtracts, E>},
      {"elementwise_sub_grad", elementwise_grad<GradientOfSubtract, E>},
      {"elu", activation<Elu, E>},
      {"elu_grad", activation_grad<SlopeOfElu, E>},
      {"erf", activation<Erf, E>},
      {"erf_grad", activation_grad<SlopeOfErf, E>},
      {"exp", activation<Exp, E>},
      {"exp_grad", activation_grad<SlopeOfExp, E>},
      {"fc", fc<E>},
      {"fill_constant", fill_constant<E>},
      {"fill_zeros_like", fill_zeros_like<E>},
      {"floor", activation<Floor, E>},
      {"floor_grad", activation_grad<NoSlope, E>},
      {"ftrl", optimizer<StepOfFtrl, E>, nullptr, "LearningRate"},
      {"gelu", gelu<E>},
      {"gelu_grad", gelu_grad<E>},
      {"gru", gru<E>},
      {"gru_grad", gru_grad<E>},
      {"hard_shrink", activation<HardShrink, E>},
      {"hard_shrink_grad", activation_grad<SlopeOfHardShrink, E>},
      {"hard_sigmoid", activation<HardSigmoid, E>},
      {"hard_sigmoid_grad", activation_grad<SlopeOfHardSigmoid, E>},
      {"hard_swish", activation<HardSwish, E>},
      {"hard_swish_grad", activation_grad<SlopeOfHardSwish, E>},
      {"im2sequence", im2sequence<E>},
      {"im2sequence_grad", im2sequence_grad<E>},
      {"leaky_relu", activation<LeakyRelu, E>},
      {"leaky_relu_grad", activation_grad<SlopeOfLeakyRelu, E>},
      {"lod_reset", lod_reset<E>},
      {"log", activation<Log, E>},
      {"log_grad", activation_grad<SlopeOfLog, E>},
      {"log_softmax", softmax<E, true>},
      {"log_softmax_grad", softmax_grad<E, true>},
      {"logsigmoid", activation<LogSigmoid, E>},
      {"logsigmoid_grad", activation_grad<SlopeOfLogSigmoid, E>},
      {"lookup_table", lookup_table<E, true>},
      {"lookup_table_grad", lookup_table_grad<E, true>},
      {"lookup_table_v2", lookup_table<E, false>},
      {"lookup_table_v2_grad", lookup_table_grad<E, false>},
      {"lstm", lstm<E>},
      {"lstm_grad", lstm_grad<E>},
      {"matmul", matmul<E>},
      {"matmul_grad", matmul<E, true>},
      {"matmul_v2", matmul_v2<E>},
      {"matmul_v2_grad", matmul_v2<E, true>},
      {"mean", mean<E>},
      {"mean_grad", reduction_grad<GradientOfMean, E, true>},
      {"momentum", optimizer<StepOfMomentum, E>, nullptr, "LearningRate"},
      {"mul", mul<E>},
      {"mul_grad", mul_grad<E>},
      {"pow", activation<ToThePower, E>},
      {"pow_grad", activation_grad<SlopeOfPower, E>},
      {"reciprocal", activation<Reciprocal, E>},
      {"reciprocal_grad", activation_grad<SlopeOfReciprocal, E>},
      {"relu", activation<Relu, E>},
      {"relu6", activation<Relu6, E>},
      {"relu6_grad", activation_grad<SlopeOfRelu6, E>},
      {"relu_grad", activation_grad<SlopeOfRelu, E>},
      {"rmsprop", rmsprop_step<E>, nullptr, "LearningRate"},
      {"round", activation<Round, E>},
      {"round_grad", activation_grad<NoSlope, E>},
      {"row_conv", row_conv<E>},
      {"row_conv_grad", row_conv_grad<E>},
      {"rsqrt", activation<Rsqrt, E>},
      {"rsqrt_grad", activation_grad<SlopeOfRsqrt, E>},
      {"scale", scale<E>},
      {"sequence_concat", sequence_concat<E>},
      {"sequence_concat_grad", sequence_concat_grad<E>},
      {"sequence_conv", sequence_conv<E>},
      {"sequence_conv_grad", sequence_conv_grad<E>},
      {"sequence_enumerate", sequence_enumerate<E>},
      {"sequence_expand", sequence_expand<E>},
      {"sequence_expand_as", sequence_expand_as<E>},
      {"sequence_expand_as_grad", sequence_expand_as_grad<E>},
      {"sequence_expand_grad", sequence_expand_grad<E>},
      {"sequence_pad", sequence_pad<E>, nullptr, "PadValue"},
      {"sequence_pool", sequence_pool<E>},
      {"sequence_pool_grad", sequence_pool_grad<E>},
      {"sequence_reshape", sequence_reshape<E>},
      {"sequence_reshape_grad", sequence_reshape_grad<E>},
      {"sequence_reverse", sequence_reverse<E>},
      {"sequence_scatter", sequence_scatter<E>},
      {"sequence_scatter_grad", sequence_scatter_grad<E>},
      {"sequence_softmax", sequence_softmax<E>},
      {"sequence_softmax_grad", sequence_softmax_grad<E>},
      {"sgd", optimizer<StepOfSgd, E>, nullptr, "LearningRate"},
      {"sigmoid", activation<Sigmoid, E>},
      {"sigmoid_grad", activation_grad<SlopeOfSigmoid, E>},
      {"sign", activation<Sign, E>},
      {"silu", activation<Swish, E>},
      {"silu_grad", activation_grad<SlopeOfSwish, E>},
      {"sin", activation<Sine, E>},
      {"sin_grad", activation_grad<SlopeOfSine, E>},
      {"softmax", softmax<E, false>},
      {"softmax_grad", softmax_grad<E, false>},
      {"softmax_with_cross_entropy", softmax_with_cross_entropy<E>},
      {"softmax_with_cross_entropy_grad", softmax_with_cross_entropy_grad<E>},
      {"softplus", activation<Softplus, E>},
      {"softplus_grad", activation_grad<SlopeOfSoftplus, E>},
      {"softshrink", activation<SoftShrink, E>},
      {"softshrink_grad", activation_grad<SlopeOfSoftShrink, E>},
      {"softsign", activation<Softsign, E>},
      {"softsign_grad", activation_grad<SlopeOfSoftsign, E>},
      {"sqrt", activation<Sqrt, E>},
      {"sqrt_grad", activation_grad<SlopeOfSqrt, E>},
      {"square", activation<Square, E>},
      {"square_grad", activation_grad<SlopeOfSquare, E>},
      {"stanh", activation<ScaledTanh, E>},
      {"stanh_grad", activation_grad<SlopeOfScaledTanh, E>},
      {"sum", sum<E>},
      {"swish", activation<Swish, E>},
      {"swish_grad", activation_grad<SlopeOfSwish, E>},
      {"tanh", activation<Tanh, E>},
      {"tanh_grad", activation_grad<SlopeOfTanh, E>},
      {"tanh_shrink", activation<TanhShrink, E>},
      {"tanh_shrink_grad", activation_grad<SlopeOfTanhShrink, E>},
      {"thresholded_relu", activation<ThresholdedRelu, E>},
      {"thresholded_relu_grad", activation_grad<SlopeOfThresholdedRelu, E>},
  };
  static_assert(std::ranges::adjacent_find(operators, std::ranges::greater_equal(),
                                           &detail::BuiltInOperator<E>::type) == std::end(operators),
                "types ascend");
  return operators;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

// SPDX-License-Identifier: Apache-2.0
// What runs programs, with no more operators than the programs of overlapped.cpp have: the thread sanitizer takes many
// times as long to compile all of them, as kernels/instantiate/operators.cpp does.
#include <lod/cpu.hpp>
#include <lod/program/backward_inl.hpp>
#include <lod/program/infer_shapes_inl.hpp>
#include <lod/program/interpreter.hpp>
#include <lod/program/minimize_inl.hpp>
#include <lod/program/operators/activation_gradients.hpp>
#include <lod/program/operators/compiled.hpp>
#include <lod/program/operators/elementwise.hpp>
#include <lod/program/operators/elementwise_gradients.hpp>
#include <lod/program/operators/filling.hpp>
#include <lod/program/operators/gradients_of_parameters.hpp>
#include <lod/program/operators/movement.hpp>
#include <lod/program/operators/optimizers.hpp>
#include <lod/program/operators/products.hpp>
#include <lod/program/operators/reductions.hpp>
#include <lod/program/operators/unary.hpp>
#include <lod/program/prune_inl.hpp>
#include <lod/program/scope_inl.hpp>
#include <lod/program/trace_inl.hpp>
#include <lod/program/variable_inl.hpp>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

template <class E>
std::span<const detail::BuiltInOperator<E>> few() {
  static constexpr detail::BuiltInOperator<E> operators[] = {
      // in the order of their names
      {"assign", assign<E>, gradient<"assign: X=Out@GRAD -> Out=X@GRAD">},
      {"cast", cast<E>, gradient_of_cast},
      {"elementwise_add", elementwise<Adds, E>, gradient<"X, Y, Out@GRAD -> X@GRAD, Y@GRAD">},
      {"elementwise_add_grad", elementwise_grad<GradientOfAdd, E>},
      {"elementwise_div", elementwise<Divides, E>},
      {"elementwise_max", elementwise<Maximum, E>},
      {"elementwise_mul", elementwise_mul<E>},
      {"elementwise_sub", elementwise<Subtracts, E>, gradient<"X, Y, Out@GRAD -> X@GRAD, Y@GRAD">},
      {"elementwise_sub_grad", elementwise_grad<GradientOfSubtract, E>},
      {"fill_constant", fill_constant<E>},
      {"mean", mean<E>, gradient<"X, Out@GRAD -> X@GRAD">},
      {"mean_grad", reduction_grad<GradientOfMean, E, true>},
      {"mul", mul<E>, gradient<"X, Y, Out@GRAD -> X@GRAD, Y@GRAD">},
      {"mul_grad", mul_grad<E>},
      {"reduce_sum", reduction<Summing, E>, gradient<"X, Out@GRAD -> X@GRAD">},
      {"reduce_sum_grad", reduction_grad<GradientOfSum, E>},
      {"sgd", optimizer<StepOfSgd, E>},
      {"size", size<E>},
      {"square", activation<Square, E>, gradient<"X, Out@GRAD -> X@GRAD">},
      {"square_grad", activation_grad<SlopeOfSquare, E>},
      {"sum", sum<E>, gradient_of_sum},
      {"tanh", activation<Tanh, E>, gradient<"Out, Out@GRAD -> X@GRAD">},
      {"tanh_grad", activation_grad<SlopeOfTanh, E>},
  };
  return operators;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

namespace lod::inline LOD_INTERFACE::compiled {

std::span<const lod::detail::BuiltInOperator<CpuExecutor>> operators_of_programs() {
  return lod::operators_of_programs::few<CpuExecutor>();
}
InferShape inference_of(std::string_view) { return {}; }
std::unique_ptr<lod::detail::ProgramToRun> prepare(const CpuExecutor& executor, const ProgramDesc& program,
                                                   Scope& scope, const std::vector<std::string>& fetch,
                                                   const RunLimits& limits, bool keep_values) {
  return std::make_unique<Interpreter<CpuExecutor>>(executor, program, scope, fetch, limits, keep_values);
}

}  // namespace lod::inline LOD_INTERFACE::compiled

namespace lod::inline LOD_INTERFACE::detail {

template std::vector<ParameterGradient> append_backward<CpuExecutor>(ProgramDesc& program, std::string_view loss,
                                                                     const BackwardOptions& options);

}  // namespace lod::inline LOD_INTERFACE::detail

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that update parameters, by dense or row-sparse gradients: sgd, momentum, adagrad, rmsprop, adam, ftrl.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/optimizers.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/row_sparse.hpp>
#include <lod/program/operators/shapes.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The single number in a tensor of float or double in CPU memory.
template <class E>
double one_number(const OperatorCall<E>& call, const Slot& slot) {
  double number = 0;
  call.on_cpu().with_floating(slot, [&](auto element) {
    number = static_cast<double>(only_number<typename decltype(element)::type>(call, slot));
  });
  return number;
}

/// A state of an optimizer: the names of its input and output, mostly the same variable.
struct StateOf {
  const char* input;
  const char* output;
};

// The optimizers: the inputs and outputs of their states, their attributes, and a step, which calls the operation of
// that name with the executor, parameter, gradient, learning rate, and states.

/// Param, Grad, LearningRate -> ParamOut.
struct StepOfSgd {
  static constexpr std::array<StateOf, 0> states{};
  explicit StepOfSgd(const OperatorArguments&) {}
  template <class E, class P, class G>
  void operator()(const E& executor, P& parameter, const G& gradient, double rate) const {
    sgd(executor, parameter, gradient, {.learning_rate = rate});
  }
};
/// Velocity -> VelocityOut; mu, use_nesterov = false, regularization_method = "" or "l2_decay", regularization_coeff.
struct StepOfMomentum {
  static constexpr std::array states{StateOf{"Velocity", "VelocityOut"}};
  MomentumOptions options;
  explicit StepOfMomentum(const OperatorArguments& op) {
    op.expect_attr("rescale_grad", 1.0f);
    const std::string method = op.attr("regularization_method", "");
    if (!method.empty() && method != "l2_decay") op.refuse_attr("regularization_method", "\"\" or \"l2_decay\"");
    options.momentum = static_cast<double>(op.desc().attr<float>("mu"));
    options.nesterov = op.attr("use_nesterov", false);
    options.l2_decay = method.empty() ? 0 : static_cast<double>(op.attr("regularization_coeff", 0.0f));
  }
  template <class E, class P, class G>
  void operator()(const E& executor, P& parameter, const G& gradient, double rate, P& velocity) const {
    MomentumOptions now = options;
    now.learning_rate = rate;
    momentum(executor, parameter, velocity, gradient, now);
  }
};
/// Moment -> MomentOut; epsilon = 1e-6.
struct StepOfAdagrad {
  static constexpr std::array states{StateOf{"Moment", "MomentOut"}};
  double epsilon;
  explicit StepOfAdagrad(const OperatorArguments& op) : epsilon(static_cast<double>(op.attr("epsilon", 1e-6f))) {}
  template <class E, class P, class G>
  void operator()(const E& executor, P& parameter, const G& gradient, double rate, P& squares) const {
    adagrad(executor, parameter, squares, gradient, {.learning_rate = rate, .epsilon = epsilon});
  }
};
/// MeanSquare -> MeanSquareOut, Moment -> MomentOut; decay = 0.9, epsilon = 1e-10, momentum = 0. With the attribute
/// `centered`, here `is_centered`, also MeanGrad -> MeanGradOut.
template <bool is_centered>
struct StepOfRmsprop {
  static constexpr std::array all{StateOf{"MeanSquare", "MeanSquareOut"}, StateOf{"Moment", "MomentOut"},
                                  StateOf{"MeanGrad", "MeanGradOut"}};
  static constexpr auto states = [] {
    std::array<StateOf, is_centered ? 3 : 2> some{};
    std::copy_n(all.begin(), some.size(), some.begin());
    return some;
  }();
  RmspropOptions options;
  explicit StepOfRmsprop(const OperatorArguments& op) {
    options.rho = static_cast<double>(op.attr("decay", 0.9f));
    options.epsilon = static_cast<double>(op.attr("epsilon", 1e-10f));
    options.momentum = static_cast<double>(op.attr("momentum", 0.0f));
  }
  template <class E, class P, class G, class... Mean>
  void operator()(const E& executor, P& parameter, const G& gradient, double rate, P& squares, P& velocity,
                  Mean&... mean) const {
    RmspropOptions now = options;
    now.learning_rate = rate;
    rmsprop(executor, parameter, squares, velocity, mean..., gradient, now);
  }
};
/// SquaredAccumulator -> SquaredAccumOut, LinearAccumulator -> LinearAccumOut; l1 = 0, l2 = 0, lr_power = -0.5. Rows
/// that a row-sparse gradient does not list stay unchanged.
struct StepOfFtrl {
  static constexpr std::array states{StateOf{"SquaredAccumulator", "SquaredAccumOut"},
                                     StateOf{"LinearAccumulator", "LinearAccumOut"}};
  FtrlOptions options{.mode = Sparse::LAZY};
  explicit StepOfFtrl(const OperatorArguments& op) {
    options.l1 = static_cast<double>(op.attr("l1", 0.0f));
    options.l2 = static_cast<double>(op.attr("l2", 0.0f));
    options.learning_rate_power = static_cast<double>(op.attr("lr_power", -0.5f));
  }
  template <class E, class P, class G>
  void operator()(const E& executor, P& parameter, const G& gradient, double rate, P& squares, P& linear) const {
    FtrlOptions now = options;
    now.learning_rate = rate;
    ftrl(executor, parameter, squares, linear, gradient, now);
  }
};

/// Param, Grad (dense or row-sparse), LearningRate (one number, optional if `Step` has a `default_rate`) -> ParamOut,
/// and the states that `Step` names: one update, mostly in place.
template <class Step, Executor E>
RunOperator<E> optimizer(const OperatorArguments& op) {
  op.expect_attr("multi_precision", false);
  constexpr bool has_default = requires { Step::default_rate; };
  const Slot parameter = op.input("Param"), grad = op.input("Grad");
  const Slot rate = has_default ? op.optional_input("LearningRate") : op.input("LearningRate");
  const Slot out = op.output("ParamOut");
  constexpr std::size_t count = Step::states.size();
  std::array<Slot, count> before{}, after{};
  for (std::size_t i = 0; i != count; ++i) {
    before[i] = op.input(Step::states[i].input);
    after[i] = op.output(Step::states[i].output);
  }
  return [=, step = Step(op)](OperatorCall<E>& call) {
    double now = 0;
    if constexpr (has_default) now = Step::default_rate;
    if (rate) now = one_number(call, rate);
    call.with_floating(parameter, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto update = [&]<std::size_t... i>(const auto& gradient, std::index_sequence<i...>) {
        Changed<T, E> values(call, parameter, out);
        std::array<Changed<T, E>, count> all{Changed<T, E>(call, before[i], after[i])...};
        step(call.executor(), *values, gradient, now, *all[i]...);
      };
      if (is_row_sparse(call, grad)) {
        update(*InputRows<T, typename E::device>(call.variable(grad)), std::make_index_sequence<count>());
      } else {
        update(call.template view<T>(grad), std::make_index_sequence<count>());
      }
    });
  };
}

/// rmsprop, centered or not.
template <Executor E>
RunOperator<E> rmsprop_step(const OperatorArguments& op) {
  return op.attr("centered", false) ? optimizer<StepOfRmsprop<true>, E>(op) : optimizer<StepOfRmsprop<false>, E>(op);
}

/// Calls update(), and writes the powers for the next step, if an output is wanted.
template <class E, class F>
void update_and_advance(const OperatorCall<E>& call, const Slot (&powers)[2], const Slot (&out)[2],
                        const float (&betas)[2], const F& update, std::size_t i = 0) {
  if (i == 2) return update();
  if (!out[i]) return update_and_advance(call, powers, out, betas, update, i + 1);
  call.on_cpu().with_floating(powers[i], [&](auto element) {
    using T = typename decltype(element)::type;
    Changed<T, std::remove_cvref_t<decltype(call.on_cpu().executor())>> power(call.on_cpu(), powers[i], out[i]);
    update_and_advance(call, powers, out, betas, update, i + 1);
    *power.data() *= T{betas[i]};
  });
}

/// adam: Param, Grad, LearningRate, Moment1, Moment2, Beta1Pow, Beta2Pow -> ParamOut, Moment1Out, Moment2Out,
/// Beta1PowOut, Beta2PowOut; beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, lazy_mode = false. The powers are those of
/// this step on entry, of the next step on return. PaddlePaddle 2.6.2 already uses the next step's if the gradient is
/// row-sparse.
template <Executor E>
RunOperator<E> adam_step(const OperatorArguments& op) {
  op.expect_attr("multi_precision", false);
  op.expect_attr("use_global_beta_pow", false);
  for (const char* const input : {"SkipUpdate", "Beta1Tensor", "Beta2Tensor", "EpsilonTensor"}) {
    op.expect_no_input(input);
  }
  const Slot parameter = op.input("Param"), grad = op.input("Grad"), rate = op.input("LearningRate");
  const Slot mean = op.input("Moment1"), squares = op.input("Moment2");
  const Slot powers[] = {op.input("Beta1Pow"), op.input("Beta2Pow")};
  const Slot out = op.output("ParamOut"), mean_out = op.output("Moment1Out"), squares_out = op.output("Moment2Out");
  const Slot powers_out[] = {op.output("Beta1PowOut"), op.output("Beta2PowOut")};
  const float betas[] = {op.attr("beta1", 0.9f), op.attr("beta2", 0.999f)};
  if (!(betas[0] >= 0 && betas[0] <= 1)) op.refuse_attr("beta1", "0 to 1");
  if (!(betas[1] >= 0 && betas[1] <= 1)) op.refuse_attr("beta2", "0 to 1");
  const auto epsilon = static_cast<double>(op.attr("epsilon", 1e-8f));
  if (!(epsilon >= 0)) op.refuse_attr("epsilon", "0 or more");
  const Sparse mode = op.attr("lazy_mode", false) ? Sparse::LAZY : Sparse::EXACT;
  return [=](OperatorCall<E>& call) {
    const double of_mean = 1 - one_number(call, powers[0]), of_squares = 1 - one_number(call, powers[1]);
    kernel::AdamRule rule({.beta1 = static_cast<double>(betas[0]), .beta2 = static_cast<double>(betas[1]), .step = 1});
    const double correction = std::sqrt(of_squares);
    rule.rate = of_mean == 0 ? 0 : one_number(call, rate) * correction / of_mean;
    rule.epsilon = epsilon * correction;
    update_and_advance(call, powers, powers_out, betas, [&] {
      call.with_floating(parameter, [&](auto element) {
        using T = typename decltype(element)::type;
        const auto update = [&](const auto& gradient) {
          Changed<T, E> values(call, parameter, out);
          Changed<T, E> m(call, mean, mean_out), s(call, squares, squares_out);
          operation::update(call.executor(), rule, mode, {"adam: gradient", "adam: mean", "adam: squares"}, *values,
                            gradient, *m, *s);
        };
        if (is_row_sparse(call, grad)) {
          update(*InputRows<T, typename E::device>(call.variable(grad)));
        } else {
          update(call.template view<T>(grad));
        }
      });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that update parameters by dense gradients only: adadelta, adamax, decayed_adagrad, lamb, lars_momentum;
/// and average_accumulates, which adds up the parameters after each update.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/optimizers.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/optimizers.hpp>
#include <lod/program/operators/row_sparse.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/wide.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The numbers of a dense gradient. Throws ShapeMismatch for a row-sparse gradient, and unless the gradient and the
/// states have the shape of the parameter.
template <class P, class G, class... States>
auto dense_numbers(const P& parameter, const G& gradient, const States&... states) {
  if constexpr (operation::is_row_sparse<G>) {
    throw ShapeMismatch("a row-sparse gradient, expected a dense one");
    return parameter.data();
  } else {
    for (const Shape& shape : {gradient.shape(), states.shape()...}) {
      if (shape != parameter.shape()) {
        throw ShapeMismatch(detail::text({"a gradient or state of shape ", to_string(shape), ", expected that of the ",
                                          "parameter, ", to_string(parameter.shape())}));
      }
    }
    return gradient.data();
  }
}

// A finite parameter with finite states stays finite under finite gradients, as with the library's own optimizers.

/// A result as a number of type T: if it is finite but beyond the range of T, the greatest or least T.
template <class T>
T nearest(Wide<T> number) noexcept {
  constexpr auto greatest = static_cast<Wide<T>>(std::numeric_limits<T>::max());
  return static_cast<T>(std::isfinite(number) ? std::clamp(number, -greatest, greatest) : number);
}
/// a / b, or 0 if b is 0.
template <class W>
W quotient_or_0(W a, W b) noexcept {
  return b == 0 ? 0 : a / b;
}
/// The root of the sum of the squares of number(i), which are of type W.
template <class W, class F>
W length_of(std::int64_t count, const F& number) {
  W squares = 0;
  for (std::int64_t i = 0; i < count; ++i) squares += number(i) * number(i);
  return std::sqrt(squares);
}

/// Updates a running mean with `value`, and returns the new mean before it is rounded.
template <class T>
Wide<T> averaged(T& mean, double factor, Wide<T> value) {
  const Wide<T> now = factor * mean + (1 - factor) * value;
  mean = nearest<T>(now);
  return now;
}

/// Moment -> MomentOut; decay = 0.95, epsilon = 1e-6.
struct StepOfDecayedAdagrad {
  static constexpr std::array states{StateOf{"Moment", "MomentOut"}};
  double decay, epsilon;
  explicit StepOfDecayedAdagrad(const OperatorArguments& op)
      : decay(static_cast<double>(op.attr("decay", 0.95f))), epsilon(static_cast<double>(op.attr("epsilon", 1e-6f))) {}
  template <class E, class P, class G>
  void operator()(const E&, P& parameter, const G& gradient, double rate, P& squares) const {
    const auto* const given = dense_numbers(parameter, gradient, squares);
    using T = operation::element_t_of<P>;
    for (std::int64_t i = 0; i < parameter.rows() * parameter.row_size(); ++i) {
      const auto g = static_cast<Wide<T>>(given[i]);
      auto &s = squares.data()[i], &p = parameter.data()[i];
      const auto sum = averaged(s, decay, g * g);
      p = nearest<T>(p - quotient_or_0(rate * g, std::sqrt(sum) + epsilon));
    }
  }
};
/// AvgSquaredGrad -> AvgSquaredGradOut, AvgSquaredUpdate -> AvgSquaredUpdateOut; rho = 0.95, epsilon = 1e-6.
struct StepOfAdadelta {
  static constexpr std::array states{StateOf{"AvgSquaredGrad", "AvgSquaredGradOut"},
                                     StateOf{"AvgSquaredUpdate", "AvgSquaredUpdateOut"}};
  static constexpr double default_rate = 1;  ///< PaddlePaddle 1 had no LearningRate here
  double rho, epsilon;
  explicit StepOfAdadelta(const OperatorArguments& op)
      : rho(static_cast<double>(op.attr("rho", 0.95f))), epsilon(static_cast<double>(op.attr("epsilon", 1e-6f))) {}
  template <class E, class P, class G>
  void operator()(const E&, P& parameter, const G& gradient, double rate, P& squares, P& updates) const {
    const auto* const given = dense_numbers(parameter, gradient, squares, updates);
    using T = operation::element_t_of<P>;
    for (std::int64_t i = 0; i < parameter.rows() * parameter.row_size(); ++i) {
      const auto g = static_cast<Wide<T>>(given[i]);
      auto &s = squares.data()[i], &u = updates.data()[i], &p = parameter.data()[i];
      const auto before = u + static_cast<Wide<T>>(epsilon);
      const auto update = -std::sqrt(quotient_or_0(before, averaged(s, rho, g * g) + epsilon)) * g;
      averaged(u, rho, update * update);
      p = nearest<T>(p + rate * update);
    }
  }
};

/// adamax: Param, Grad, LearningRate, Moment, InfNorm, Beta1Pow -> ParamOut, MomentOut, InfNormOut; beta1 = 0.9, beta2
/// = 0.999, epsilon = 1e-8. The power is updated by another operator.
template <Executor E>
RunOperator<E> adamax_step(const OperatorArguments& op) {
  op.expect_attr("multi_precision", false);
  const Slot parameter = op.input("Param"), grad = op.input("Grad"), rate = op.input("LearningRate");
  const Slot mean = op.input("Moment"), norm = op.input("InfNorm"), power = op.input("Beta1Pow");
  const Slot out = op.output("ParamOut"), mean_out = op.output("MomentOut"), norm_out = op.output("InfNormOut");
  const auto beta1 = static_cast<double>(op.attr("beta1", 0.9f)), beta2 = static_cast<double>(op.attr("beta2", 0.999f));
  const auto epsilon = static_cast<double>(op.attr("epsilon", 1e-8f));
  return [=](OperatorCall<E>& call) {
    const double now = one_number(call, rate) / (1 - one_number(call, power));
    call.with_floating(parameter, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto* const given = dense_numbers(call.template view<T>(parameter), call.template view<T>(grad),
                                              call.template view<T>(mean), call.template view<T>(norm));
      Changed<T, E> p(call, parameter, out), m(call, mean, mean_out), n(call, norm, norm_out);
      for (std::int64_t i = 0; i < (*p).rows() * (*p).row_size(); ++i) {
        const auto g = static_cast<Wide<T>>(given[i]);
        const auto greatest = std::max(std::abs(g), beta2 * static_cast<Wide<T>>(n.data()[i]) + epsilon);
        n.data()[i] = nearest<T>(greatest);
        p.data()[i] = nearest<T>(p.data()[i] - quotient_or_0(now * averaged(m.data()[i], beta1, g), greatest));
      }
    });
  };
}

/// lamb: Param, Grad, LearningRate, Moment1, Moment2, Beta1Pow, Beta2Pow -> ParamOut, Moment1Out, Moment2Out,
/// Beta1PowOut?, Beta2PowOut?; weight_decay, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, always_adapt = false: whether
/// the step is scaled to the length of the parameter even without weight_decay.
template <Executor E>
RunOperator<E> lamb_step(const OperatorArguments& op) {
  op.expect_attr("multi_precision", false);
  op.expect_no_input("SkipUpdate");
  const Slot parameter = op.input("Param"), grad = op.input("Grad"), rate = op.input("LearningRate");
  const Slot mean = op.input("Moment1"), squares = op.input("Moment2");
  const Slot powers[] = {op.input("Beta1Pow"), op.input("Beta2Pow")};
  const Slot out = op.output("ParamOut"), mean_out = op.output("Moment1Out"), squares_out = op.output("Moment2Out");
  const Slot powers_out[] = {op.optional_output("Beta1PowOut"), op.optional_output("Beta2PowOut")};
  const float betas[] = {op.attr("beta1", 0.9f), op.attr("beta2", 0.999f)};
  const auto decay = static_cast<double>(op.desc().attr<float>("weight_decay"));
  const auto epsilon = static_cast<double>(op.attr("epsilon", 1e-6f));
  const bool adapts = decay > 0 || op.attr("always_adapt", false);
  return [=](OperatorCall<E>& call) {
    const double of_mean = 1 - one_number(call, powers[0]), of_squares = 1 - one_number(call, powers[1]);
    const double now = one_number(call, rate);
    update_and_advance(call, powers, powers_out, betas, [&] {
      call.with_floating(parameter, [&](auto element) {
        using T = typename decltype(element)::type;
        const auto* const given = dense_numbers(call.template view<T>(parameter), call.template view<T>(grad),
                                                call.template view<T>(mean), call.template view<T>(squares));
        const std::int64_t count = call.tensor(parameter).rows() * call.tensor(parameter).row_size();
        const Workspace::Loan<Wide<T>> steps(call.executor().workspace(), count);
        Changed<T, E> p(call, parameter, out), m(call, mean, mean_out), s(call, squares, squares_out);
        for (std::int64_t i = 0; i < count; ++i) {
          const auto g = static_cast<Wide<T>>(given[i]);
          const auto average = averaged(m.data()[i], static_cast<double>(betas[0]), g) / of_mean;
          const auto square = averaged(s.data()[i], static_cast<double>(betas[1]), g * g) / of_squares;
          steps[i] = quotient_or_0(average, std::sqrt(square) + epsilon) + decay * p.data()[i];
        }
        const auto length =
            length_of<Wide<T>>(count, [&](std::int64_t i) { return static_cast<Wide<T>>(p.data()[i]); });
        const auto step = length_of<Wide<T>>(count, [&](std::int64_t i) { return steps[i]; });
        const auto factor = adapts && length > 0 && step > 0 ? now * length / step : now;
        for (std::int64_t i = 0; i < count; ++i) p.data()[i] = nearest<T>(p.data()[i] - factor * steps[i]);
      });
    });
  };
}

/// Velocity -> VelocityOut; mu, lars_coeff = 0.001, lars_weight_decay = {0.0005}, in PaddlePaddle 1 a number rather
/// than a list, epsilon = 0: momentum with a rate that is scaled by the ratio of the lengths of parameter and gradient.
struct StepOfLarsMomentum {
  static constexpr std::array states{StateOf{"Velocity", "VelocityOut"}};
  double momentum, coefficient, decay, epsilon;
  explicit StepOfLarsMomentum(const OperatorArguments& op)
      : momentum(static_cast<double>(op.desc().attr<float>("mu"))),
        coefficient(static_cast<double>(op.attr("lars_coeff", 0.001f))),
        epsilon(static_cast<double>(op.attr("epsilon", 0.0f))) {
    op.expect_attr("rescale_grad", 1.0f);
    const OpDesc::Attr* const given = op.desc().find_attr("lars_weight_decay");
    if (given && given->type == AttrType::FLOAT) {
      decay = static_cast<double>(op.attr("lars_weight_decay", 0.0f));
      return;
    }
    const auto decays = op.attr("lars_weight_decay", std::vector<float>{0.0005f});
    if (decays.size() != 1) op.refuse_attr("lars_weight_decay", "one number");
    decay = static_cast<double>(decays[0]);
  }
  template <class E, class P, class G>
  void operator()(const E&, P& parameter, const G& gradient, double rate, P& velocity) const {
    using T = operation::element_t_of<P>;
    const auto* const given = dense_numbers(parameter, gradient, velocity);
    const std::int64_t count = parameter.rows() * parameter.row_size();
    const auto wide = [](T number) { return static_cast<Wide<T>>(number); };
    const auto length = length_of<Wide<T>>(count, [&](std::int64_t i) { return wide(parameter.data()[i]); });
    const auto slope = length_of<Wide<T>>(count, [&](std::int64_t i) { return wide(given[i]); });
    const bool adapts = decay > 0 && length > 0 && slope > 0;
    const auto now = adapts ? rate * coefficient * length / (slope + decay * length + epsilon) : Wide<T>(rate);
    for (std::int64_t i = 0; i < count; ++i) {
      auto &v = velocity.data()[i], &p = parameter.data()[i];
      v = nearest<T>(momentum * wide(v) + now * (wide(given[i]) + decay * wide(p)));
      p = nearest<T>(wide(p) - wide(v));
    }
  }
};

/// average_accumulates: param, and in_sum_1, in_sum_2, in_sum_3, in_num_accumulates, in_old_num_accumulates and
/// in_num_updates, mostly changed in place -> out_sum_1, and so on; max_average_window, min_average_window = 10000,
/// average_window = 0: counts an update, and adds the parameter to sum 1, so that the sums by both numbers of
/// accumulates together are its average over the last updates. Where these are at least `min_average_window`, and the
/// lesser of `max_average_window` and the part `average_window` of all updates, a new window begins: the sums become
/// sum 3, and their number the old one. Every 16384 updates sum 1 goes into sum 2, which keeps it exact.
template <Executor E>
RunOperator<E> average_accumulates(const OperatorArguments& op) {
  constexpr std::int64_t exact_updates = 16384;
  const Slot parameter = op.input("param");
  const Slot before[] = {op.input("in_sum_1"), op.input("in_sum_2"), op.input("in_sum_3")};
  const Slot after[] = {op.output("out_sum_1"), op.output("out_sum_2"), op.output("out_sum_3")};
  const Slot counts[] = {op.input("in_num_accumulates"), op.input("in_old_num_accumulates"),
                         op.input("in_num_updates")};
  const Slot counts_out[] = {op.output("out_num_accumulates"), op.output("out_old_num_accumulates"),
                             op.output("out_num_updates")};
  const float part = op.attr("average_window", 0.0f);
  const std::int64_t least = op.attr("min_average_window", std::int64_t{10000});
  const auto most = op.desc().attr<std::int64_t>("max_average_window");
  if (!(part >= 0)) op.refuse_attr("average_window", "0 or more");
  if (least > most) op.refuse_attr("min_average_window", "at most max_average_window");
  return [=](OperatorCall<E>& call) {
    call.with_floating(parameter, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto x = call.template view<T>(parameter);
      for (const Slot& sum : before) dense_numbers(x, call.template view<T>(sum));
      for (const Slot& count : counts) {
        const std::int64_t number = only_number<std::int64_t>(call, count);
        if (number < 0 || number == std::numeric_limits<std::int64_t>::max()) {
          throw OutOfRange(detail::text({call.name(count), ": ", number, ", expected a count"}));
        }
      }
      T* sums[3];
      std::int64_t* numbers[3];
      Changed<T, E> changed_sums[] = {
          {call, before[0], after[0]}, {call, before[1], after[1]}, {call, before[2], after[2]}};
      Changed<std::int64_t, E> changed_numbers[] = {
          {call, counts[0], counts_out[0]}, {call, counts[1], counts_out[1]}, {call, counts[2], counts_out[2]}};
      for (std::size_t i = 0; i < 3; ++i) sums[i] = changed_sums[i].data();
      for (std::size_t i = 0; i < 3; ++i) numbers[i] = changed_numbers[i].data();
      auto& [kept, old, updates] = numbers;
      ++*kept;
      ++*updates;
      const float share = part * static_cast<float>(*updates);
      const std::int64_t window = share < static_cast<float>(most) ? static_cast<std::int64_t>(share) : most;
      const bool begins = *kept >= least && *kept >= window, is_exact = *updates % exact_updates != 0;
      for (std::int64_t i = 0; i < x.rows() * x.row_size(); ++i) {
        const T sum = sums[0][i] + x.data()[i];
        sums[0][i] = begins || !is_exact ? T{0} : sum;
        if (begins) sums[2][i] = sums[1][i] + sum;
        sums[1][i] = begins ? T{0} : is_exact ? sums[1][i] : sums[1][i] + sum;
      }
      if (begins) *old = std::exchange(*kept, 0);
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

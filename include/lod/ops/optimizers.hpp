// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_sparse
/// Optimizers: updates of parameters by dense or row-sparse gradients.
///
/// An optimizer is a rule: the formula for one number of a parameter, its states and its gradient. Each rule is written
/// once, below; all share the loops over dense tensors and over listed rows.
///
/// For every optimizer, parameter and states are tensors or views of the same shape and are changed in place; the
/// gradient has that shape too, or is row-sparse with that height and row shape, its rows in any order. Repeated rows
/// are added up first, as by `merge_add`, but without a merged copy; a gradient and its `merge_add` give the same bits.
/// 16-bit parameters are computed as float, and their states may be float tensors, which hold small squares that 16
/// bits do not. One pass over the data involved. Parameter, states and gradient must not overlap. Throws ShapeMismatch
/// if the shapes do not agree, std::invalid_argument for an option that is NaN, infinite or out of its range
/// (`epsilon`, `l1` and `l2` are 0 or more, `rho` and the betas from 0 to 1), OutOfRange for a number that is not a
/// Sparse; all before anything is changed.
///
/// A finite parameter with finite states stays finite under finite gradients. If a step of the formula overflows, or a
/// square underflows so that a divisor is 0 or, for want of an `epsilon`, loses digits, the number is recomputed with
/// the significant bits of a double and unbounded exponents. A result beyond its tensor's type becomes the greatest or
/// least number of that type. A quotient with divisor 0, as when there has been no gradient and `epsilon` is 0, counts
/// as no change. Infinite and NaN numbers are handled as the formula implies.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/float16.hpp>
#include <lod/core/floating_point_control.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/optimizer_options.hpp>
#include <lod/ops/row_groups.hpp>

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::op {
struct sgd : elements::Floating {
  static constexpr Text text{"parameter, gradient", "In place: parameter -= learning_rate * gradient."};
};
struct momentum : elements::Floating {
  static constexpr Text text{
      "parameter, velocity, gradient",
      "In place: velocity = momentum * velocity + gradient; parameter -= learning_rate * velocity."};
};
struct adagrad : elements::Floating {
  static constexpr Text text{
      "parameter, squares, gradient",
      "In place: squares += gradient^2; parameter -= learning_rate * gradient / (sqrt(squares) + epsilon)."};
};
struct rmsprop : elements::Floating {
  static constexpr Text text{"parameter, squares, velocity, gradient, mean",
                             "In place: a step of RMSProp, centered if a mean is given."};
};
struct adam : elements::Floating {
  static constexpr Text text{"parameter, mean, squares, gradient", "In place: a step of Adam; `step` counts from 1."};
};
struct ftrl : elements::Floating {
  static constexpr Text text{"parameter, squares, linear, gradient", "In place: a step of FTRL-proximal."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::kernel {
/// Calls rule(parameter[i], {states[0][i], ...}, gradient[i]) for i in [0, count).
struct Update {};
/// The same for the rows to[g], whose gradient is the sum of the rows of group g, rounded to the parameter's type, and,
/// unless `listed_only`, with gradient 0 for all other rows of [0, height).
struct UpdateRows {};

// A rule is called with vectors of numbers of the parameter and of each state, which it changes, and of the gradient.
// The functions that it calls on them (sqrt, select, ...) are found by argument-dependent lookup.

template <class Vector>
LOD_TAGGED LOD_HOST_DEVICE Vector number(double x) noexcept {
  return Vector(static_cast<typename Vector::value_type>(x));
}

/// a / b. In the recomputation with unbounded exponents, the result is `of_zero` if b is 0.
template <class V>
LOD_TAGGED LOD_HOST_DEVICE V divided(const V& a, const V& b, [[maybe_unused]] const V& of_zero) noexcept {
  if constexpr (requires { quotient(a, b, of_zero); }) {
    return quotient(a, b, of_zero);
  } else {
    return a / b;
  }
}

struct SgdRule {
  using Tag = op::sgd;
  static constexpr std::size_t states = 0;  ///< the number of states

  double rate;

  template <class V>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(V& parameter, const V& gradient) const noexcept {
    parameter = parameter - number<V>(rate) * gradient;
  }
  /// Whether a zero gradient leaves parameter and states as they are.
  static constexpr bool rests_at_zero = true;
};

struct MomentumRule {
  using Tag = op::momentum;
  static constexpr std::size_t states = 1;

  double rate, momentum, l2_decay;
  bool nesterov;

  template <class V>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(V& parameter, V& velocity, const V& gradient) const noexcept {
    const V decayed = l2_decay == 0 ? gradient : gradient + number<V>(l2_decay) * parameter;
    velocity = number<V>(momentum) * velocity + decayed;
    const V direction = nesterov ? decayed + number<V>(momentum) * velocity : velocity;
    parameter = parameter - number<V>(rate) * direction;
  }
  static constexpr bool rests_at_zero = false;
};

/// Whether an epsilon that is added to the root of squares of type A does not hide what they lose below the normal
/// numbers. A rule that divides by such a root has `of_squares`, the number of the state that holds them, and
/// `needs_digits`.
template <class A>
LOD_TAGGED LOD_HOST_DEVICE constexpr bool shows_lost_digits(double epsilon) noexcept {
  return epsilon < (sizeof(A) == sizeof(double) ? 0x1p-480 : 0x1p-50);
}

struct AdagradRule {
  using Tag = op::adagrad;
  static constexpr std::size_t states = 1, of_squares = 0;

  double rate, epsilon;

  template <class A>
  LOD_TAGGED LOD_HOST_DEVICE bool needs_digits() const noexcept {
    return shows_lost_digits<A>(epsilon);
  }

  template <class V>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(V& parameter, V& squares, const V& gradient) const noexcept {
    squares = squares + gradient * gradient;
    parameter = parameter - number<V>(rate) * gradient / (sqrt(squares) + number<V>(epsilon));
  }
  static constexpr bool rests_at_zero = true;
};

struct RmspropRule {
  using Tag = op::rmsprop;
  static constexpr std::size_t states = 2, of_squares = 0;

  double rate, rho, epsilon, momentum;

  template <class A>
  LOD_TAGGED LOD_HOST_DEVICE bool needs_digits() const noexcept {
    return epsilon == 0 || shows_lost_digits<A>(std::sqrt(epsilon));
  }

  template <class V>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(V& parameter, V& squares, V& velocity, const V& gradient) const noexcept {
    squares = number<V>(rho) * squares + number<V>(1 - rho) * gradient * gradient;
    move(parameter, velocity, gradient, squares);
  }
  static constexpr bool rests_at_zero = false;

 protected:
  template <class V>
  LOD_TAGGED LOD_HOST_DEVICE void move(V& parameter, V& velocity, const V& gradient, const V& variance) const noexcept {
    velocity = number<V>(momentum) * velocity + number<V>(rate) * gradient / sqrt(variance + number<V>(epsilon));
    parameter = parameter - velocity;
  }
};

struct CenteredRmspropRule : RmspropRule {
  static constexpr std::size_t states = 3;

  template <class V>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(V& parameter, V& squares, V& velocity, V& mean,
                                             const V& gradient) const noexcept {
    squares = number<V>(rho) * squares + number<V>(1 - rho) * gradient * gradient;
    mean = number<V>(rho) * mean + number<V>(1 - rho) * gradient;
    // Rounding may make the difference of nearly equal numbers negative, by more than epsilon if they are large.
    const V difference = squares - mean * mean;
    const V variance = select(difference < number<V>(0), number<V>(0), difference);
    move(parameter, velocity, gradient, variance);
  }
};

struct AdamRule {
  using Tag = op::adam;
  static constexpr std::size_t states = 2, of_squares = 1;

  double rate, beta1, beta2, epsilon;  // rate and epsilon include the corrections for the step

  template <class A>
  LOD_TAGGED LOD_HOST_DEVICE bool needs_digits() const noexcept {
    return shows_lost_digits<A>(epsilon);
  }

  // Not inlined: compilers would move arithmetic on local variables past a change of the control word.
  LOD_TAGGED [[gnu::noinline]] explicit AdamRule(const AdamOptions& options)
      : beta1(options.beta1), beta2(options.beta2) {
    const detail::FloatingPointControl standard;
    const auto step = static_cast<double>(options.step);
    const double correction = std::sqrt(1 - std::pow(beta2, step)), of_mean = 1 - std::pow(beta1, step);
    rate = of_mean == 0 ? 0 : options.learning_rate * correction / of_mean;
    epsilon = options.epsilon * correction;
  }

  template <class V>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(V& parameter, V& mean, V& squares, const V& gradient) const noexcept {
    mean = number<V>(beta1) * mean + number<V>(1 - beta1) * gradient;
    squares = number<V>(beta2) * squares + number<V>(1 - beta2) * gradient * gradient;
    parameter = parameter - number<V>(rate) * mean / (sqrt(squares) + number<V>(epsilon));
  }
  static constexpr bool rests_at_zero = false;
};

struct FtrlRule {
  using Tag = op::ftrl;
  static constexpr std::size_t states = 2, of_squares = 0;

  double rate, l1, l2, power;

  template <class A>
  LOD_TAGGED LOD_HOST_DEVICE bool needs_digits() const noexcept {
    return true;
  }

  template <class V>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(V& parameter, V& squares, V& linear, const V& gradient) const noexcept {
    const V before = root(squares);
    squares = squares + gradient * gradient;
    const V after = root(squares);
    linear = linear + gradient - (after - before) / number<V>(rate) * parameter;
    const V zero = number<V>(0);
    const V threshold = number<V>(l1);
    const V shrunk = select(linear > zero, threshold - linear, zero - threshold - linear);
    const V moved = divided(shrunk, after / number<V>(rate) + number<V>(2 * l2), parameter);
    parameter = select(abs(linear) > threshold, moved, zero);
  }
  static constexpr bool rests_at_zero = false;

 private:
  template <class V>
  LOD_TAGGED LOD_HOST_DEVICE V root(const V& squares) const noexcept {
    return power == -0.5 ? sqrt(squares) : pow(squares, number<V>(-power));
  }
};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <class X>
using element_t_of = value_type_t<std::remove_cvref_t<X>>;
template <class X>
using device_t_of = device_t<std::remove_cvref_t<X>>;

/// A dense or a row-sparse gradient.
template <class G>
concept Gradient = LoDTensorLike<G> || is_row_sparse<G>;

template <class T, class Device>
LoDTensorView<const T, Device> values_of(const SelectedRows<T, Device>& gradient) noexcept {
  return gradient.value().view();
}
template <LoDTensorLike G>
auto values_of(const G& gradient) noexcept {
  return gradient.view();
}

/// The kernels of a rule. Its states may have the type in which 16-bit numbers are computed.
template <class Rule, class T, class S = std::conditional_t<Rule::states == 0, T, kernel::Accumulator<T>>>
using Updates =
    kernel::Instances<kernel::Instance<kernel::Update, Rule, T, T>, kernel::Instance<kernel::UpdateRows, Rule, T, T>,
                      kernel::Instance<kernel::Update, Rule, T, S>, kernel::Instance<kernel::UpdateRows, Rule, T, S>>;

template <class... Rules>
struct Optimizer {
  template <class T>
  using Kernels = kernel::Instances<Updates<Rules, T>...>;
};
template <>
struct Declared<op::sgd> : Optimizer<kernel::SgdRule> {};
template <>
struct Declared<op::momentum> : Optimizer<kernel::MomentumRule> {};
template <>
struct Declared<op::adagrad> : Optimizer<kernel::AdagradRule> {};
template <>
struct Declared<op::rmsprop> : Optimizer<kernel::RmspropRule, kernel::CenteredRmspropRule> {};
template <>
struct Declared<op::adam> : Optimizer<kernel::AdamRule> {};
template <>
struct Declared<op::ftrl> : Optimizer<kernel::FtrlRule> {};

/// One update. `names`, of the gradient and then of the states, begin the texts of errors.
template <class Rule, Executor E, class P, Gradient G, class... States>
void update(const E& executor, const Rule& rule, Sparse mode,
            const std::array<const char*, 1 + sizeof...(States)>& names, P& parameter, const G& gradient,
            States&... states) {
  using T = element_t_of<P>;
  using S = std::tuple_element_t<0, std::tuple<element_t_of<States>..., T>>;  // of the states, if there are any
  detail::check_elements<typename Rule::Tag, T>();
  static_assert(std::same_as<value_type_t<G>, T>, "an optimizer's gradient is of the type of the parameter");
  static_assert((std::same_as<element_t_of<States>, S> && ...), "an optimizer's states are all of one type");
  static_assert(std::same_as<S, T> || (detail::Half<T> && std::same_as<S, float>),
                "an optimizer's states are of the type of the parameter, or float where it is of 16 bits");
  static_assert(std::same_as<device_t<G>, device_t_of<P>> && (std::same_as<device_t_of<States>, device_t_of<P>> && ...),
                "parameter, states and gradient of an optimizer are on one device");
  const auto target = std::as_const(parameter).view();
  const Shape& row_shape = target.row_shape();
  const auto check = [&](const char* name, std::int64_t rows, const Shape& found) {
    check_row_shape(found, row_shape, name);
    check_row_count(rows, target.rows(), name);
  };
  if constexpr (is_row_sparse<G>) {
    detail::check_value_rows(gradient, names[0]);
    check(names[0], gradient.height(), gradient.row_shape());
  } else {
    check(names[0], gradient.view().rows(), gradient.view().row_shape());
  }
  [[maybe_unused]] std::size_t name = 0;  // without states
  (check(names[++name], states.rows(), states.row_shape()), ...);

  name = 0;
  const std::array memory{OtherMemory("the parameter", parameter), OtherMemory(names[0], values_of(gradient)),
                          OtherMemory(names[++name], states)...};
  for (std::size_t i = 1; i < memory.size(); ++i) {
    for (std::size_t other = 0; other < i; ++other) {
      if (!memory[i].overlaps(memory[other])) continue;
      const std::string_view known = memory[other].name();
      const std::size_t colon = known.find(": ");
      const std::string argument(known.substr(colon == std::string_view::npos ? 0 : colon + 2));
      throw std::invalid_argument(
          detail::text({memory[i].name(), " overlaps ", argument, ", expected memory of its own"}));
    }
  }
  const std::array<S*, sizeof...(States)> pointers = {states.data()...};
  if constexpr (is_row_sparse<G>) {
    const std::array sources{&gradient};
    const RowGroups<E, T> groups(executor, sources);
    const bool listed_only = mode == Sparse::LAZY || Rule::rests_at_zero;
    launch(kernel::UpdateRows(), executor, rule, parameter.data(), pointers, groups.rows(), groups.order(),
           groups.groups(), groups.ids(), target.rows(), target.row_size(), listed_only);
  } else {
    const auto view = gradient.view();
    launch(kernel::Update(), executor, rule, parameter.data(), pointers, view.data(), view.rows() * view.row_size());
  }
}

}  // namespace operation

/// parameter -= learning_rate * gradient. LAZY and EXACT are the same: rows without a gradient stay.
template <Executor E, MutableTensorLike P, operation::Gradient G>
void sgd(const E& executor, P&& parameter, const G& gradient, const SgdOptions& options = {}) {
  operation::check_options("sgd", options.mode, {{"learning_rate", options.learning_rate}});
  operation::update(executor, kernel::SgdRule{options.learning_rate}, options.mode, {"sgd: gradient"}, parameter,
                    gradient);
}
template <MutableTensorLike P, operation::Gradient G>
void sgd(P&& parameter, const G& gradient, const SgdOptions& options = {}) {
  sgd(default_executor<operation::device_t_of<P>>(), parameter, gradient, options);
}
template <Executor E, MutableTensorLike P, operation::Gradient G>
void sgd(const E& executor, P&& parameter, const G& gradient, double learning_rate) {
  sgd(executor, parameter, gradient, SgdOptions{.learning_rate = learning_rate});
}
template <MutableTensorLike P, operation::Gradient G>
void sgd(P&& parameter, const G& gradient, double learning_rate) {
  sgd(parameter, gradient, SgdOptions{.learning_rate = learning_rate});
}

/// velocity = momentum * velocity + gradient; parameter -= learning_rate * velocity. With `nesterov`, parameter -=
/// learning_rate * (gradient + momentum * velocity), with the new velocity. EXACT: velocities decay, and move the
/// parameter, in all rows. Semantics: PaddlePaddle's momentum operator, except for unsorted rows, some of which that
/// operator loses.
template <Executor E, MutableTensorLike P, MutableTensorLike S, operation::Gradient G>
void momentum(const E& executor, P&& parameter, S&& velocity, const G& gradient, const MomentumOptions& options = {}) {
  operation::check_options(
      "momentum", options.mode,
      {{"learning_rate", options.learning_rate}, {"momentum", options.momentum}, {"l2_decay", options.l2_decay}});
  const kernel::MomentumRule rule{options.learning_rate, options.momentum, options.l2_decay, options.nesterov};
  operation::update(executor, rule, options.mode, {"momentum: gradient", "momentum: velocity"}, parameter, gradient,
                    velocity);
}
template <MutableTensorLike P, MutableTensorLike S, operation::Gradient G>
void momentum(P&& parameter, S&& velocity, const G& gradient, const MomentumOptions& options = {}) {
  momentum(default_executor<operation::device_t_of<P>>(), parameter, velocity, gradient, options);
}

/// squares += gradient^2; parameter -= learning_rate * gradient / (sqrt(squares) + epsilon). LAZY and EXACT are the
/// same: rows without a gradient stay. Source: Duchi, Hazan, Singer, JMLR 12 (2011); semantics: PaddlePaddle's adagrad
/// operator.
template <Executor E, MutableTensorLike P, MutableTensorLike S, operation::Gradient G>
void adagrad(const E& executor, P&& parameter, S&& squares, const G& gradient, const AdagradOptions& options = {}) {
  operation::check_options(
      "adagrad", options.mode,
      {{"learning_rate", options.learning_rate}, operation::zero_or_more("epsilon", options.epsilon)});
  const kernel::AdagradRule rule{options.learning_rate, options.epsilon};
  operation::update(executor, rule, options.mode, {"adagrad: gradient", "adagrad: squares"}, parameter, gradient,
                    squares);
}
template <MutableTensorLike P, MutableTensorLike S, operation::Gradient G>
void adagrad(P&& parameter, S&& squares, const G& gradient, const AdagradOptions& options = {}) {
  adagrad(default_executor<operation::device_t_of<P>>(), parameter, squares, gradient, options);
}

/// squares = rho * squares + (1 - rho) * gradient^2; velocity = momentum * velocity + learning_rate * gradient /
/// sqrt(squares + epsilon); parameter -= velocity. EXACT: squares and velocities decay, and move the parameter, in all
/// rows. Semantics: PaddlePaddle's rmsprop operator, except for unsorted rows, some of which that operator loses.
template <Executor E, MutableTensorLike P, MutableTensorLike S, MutableTensorLike V, operation::Gradient G>
void rmsprop(const E& executor, P&& parameter, S&& squares, V&& velocity, const G& gradient,
             const RmspropOptions& options = {}) {
  operation::check_options(options);
  const kernel::RmspropRule rule{options.learning_rate, options.rho, options.epsilon, options.momentum};
  operation::update(executor, rule, options.mode, {"rmsprop: gradient", "rmsprop: squares", "rmsprop: velocity"},
                    parameter, gradient, squares, velocity);
}
template <MutableTensorLike P, MutableTensorLike S, MutableTensorLike V, operation::Gradient G>
void rmsprop(P&& parameter, S&& squares, V&& velocity, const G& gradient, const RmspropOptions& options = {}) {
  rmsprop(default_executor<operation::device_t_of<P>>(), parameter, squares, velocity, gradient, options);
}
/// The centered form, with one more state: mean = rho * mean + (1 - rho) * gradient, and squares - mean^2 in place of
/// squares under the root, or 0 if rounding makes that negative.
template <Executor E, MutableTensorLike P, MutableTensorLike S, MutableTensorLike V, MutableTensorLike M,
          operation::Gradient G>
void rmsprop(const E& executor, P&& parameter, S&& squares, V&& velocity, M&& mean, const G& gradient,
             const RmspropOptions& options = {}) {
  operation::check_options(options);
  const kernel::CenteredRmspropRule rule{{options.learning_rate, options.rho, options.epsilon, options.momentum}};
  operation::update(executor, rule, options.mode,
                    {"rmsprop: gradient", "rmsprop: squares", "rmsprop: velocity", "rmsprop: mean"}, parameter,
                    gradient, squares, velocity, mean);
}
template <MutableTensorLike P, MutableTensorLike S, MutableTensorLike V, MutableTensorLike M, operation::Gradient G>
void rmsprop(P&& parameter, S&& squares, V&& velocity, M&& mean, const G& gradient,
             const RmspropOptions& options = {}) {
  rmsprop(default_executor<operation::device_t_of<P>>(), parameter, squares, velocity, mean, gradient, options);
}

/// mean = beta1 * mean + (1 - beta1) * gradient; squares = beta2 * squares + (1 - beta2) * gradient^2; parameter -=
/// rate * mean / (sqrt(squares) + epsilon * c), where c = sqrt(1 - beta2^step) and rate = learning_rate * c / (1 -
/// beta1^step). EXACT: means and squares decay, and move the parameter, in all rows; LAZY is what other systems call
/// lazy or sparse Adam. A beta1 of 1, which ignores the gradient, moves nothing. Throws OutOfRange for a step below 1.
/// Source: Kingma, Ba, ICLR 2015; semantics: PaddlePaddle's adam operator, with the same epsilon in the rows that are
/// not listed.
template <Executor E, MutableTensorLike P, MutableTensorLike M, MutableTensorLike S, operation::Gradient G>
void adam(const E& executor, P&& parameter, M&& mean, S&& squares, const G& gradient, const AdamOptions& options) {
  if (options.step < 1) {
    throw OutOfRange(detail::text({"adam: step ", options.step, ", expected 1 or more: which update this is"}));
  }
  operation::check_options("adam", options.mode,
                           {{"learning_rate", options.learning_rate},
                            operation::zero_to_one("beta1", options.beta1),
                            operation::zero_to_one("beta2", options.beta2),
                            operation::zero_or_more("epsilon", options.epsilon)});
  operation::update(executor, kernel::AdamRule(options), options.mode,
                    {"adam: gradient", "adam: mean", "adam: squares"}, parameter, gradient, mean, squares);
}
template <MutableTensorLike P, MutableTensorLike M, MutableTensorLike S, operation::Gradient G>
void adam(P&& parameter, M&& mean, S&& squares, const G& gradient, const AdamOptions& options) {
  adam(default_executor<operation::device_t_of<P>>(), parameter, mean, squares, gradient, options);
}

/// Follow the regularised leader, proximal: with r(n) = n^-learning_rate_power and n the sum of squares, linear +=
/// gradient - (r(new n) - r(old n)) / learning_rate * parameter; the parameter is 0 if |linear| <= l1, otherwise
/// (sign(linear) * l1 - linear) / (r(new n) / learning_rate + 2 * l2). It follows from the states alone: an update in
/// EXACT mode sets rows that have had no gradient so far to 0, whatever their initial values. Source: McMahan et al.,
/// KDD 2013; semantics: PaddlePaddle's ftrl operator.
template <Executor E, MutableTensorLike P, MutableTensorLike S, MutableTensorLike L, operation::Gradient G>
void ftrl(const E& executor, P&& parameter, S&& squares, L&& linear, const G& gradient,
          const FtrlOptions& options = {}) {
  operation::check_options("ftrl", options.mode,
                           {{"learning_rate", options.learning_rate},
                            operation::zero_or_more("l1", options.l1),
                            operation::zero_or_more("l2", options.l2),
                            {"learning_rate_power", options.learning_rate_power}});
  const kernel::FtrlRule rule{options.learning_rate, options.l1, options.l2, options.learning_rate_power};
  operation::update(executor, rule, options.mode, {"ftrl: gradient", "ftrl: squares", "ftrl: linear"}, parameter,
                    gradient, squares, linear);
}
template <MutableTensorLike P, MutableTensorLike S, MutableTensorLike L, operation::Gradient G>
void ftrl(P&& parameter, S&& squares, L&& linear, const G& gradient, const FtrlOptions& options = {}) {
  ftrl(default_executor<operation::device_t_of<P>>(), parameter, squares, linear, gradient, options);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

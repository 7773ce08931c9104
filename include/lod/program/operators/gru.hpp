// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operators gru and gru_unit, and their gradients.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/gru.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/recurrent.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <array>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

// gru. Its weights are {D, 3 D} in all, but first a matrix for u and r, {D, 2 D}, then one for c, {D, D}; gates are u,
// r and c.

/// What one step of it takes.
template <class T>
struct GruParameters {
  std::int64_t size;
  const T* weights;
  const T* bias;  ///< null for zeros
  bool is_original;

  kernel::GruOrder order() const noexcept { return {.reset = size, .update = 0}; }
  const T* state_weights() const noexcept { return weights + 2 * size * size; }
};
/// A step from the states `before`, null for zeros: `gates` are the contributions of the input, on return u, r and c;
/// `reset` is r * before.
template <Executor E, class T>
void gru_step(const E& executor, const GruParameters<T>& gru, std::int64_t active, const T* before, T* gates, T* reset,
              T* states) {
  if (active == 0) return;
  const std::int64_t size = gru.size;
  if (before) {
    operation::matrix_product<E, T>(executor, false, false, active, 2 * size, size, 1, before, size, gru.weights,
                                    2 * size, 1, gates, 3 * size);
  }
  launch(kernel::StepStates(), executor, active,
         kernel::GruResetStep<T>{size, gru.order(), gru.bias, before, gates, reset});
  if (before) {
    operation::matrix_product<E, T>(executor, false, false, active, size, size, 1, reset, size, gru.state_weights(),
                                    size, 1, gates + 2 * size, 3 * size);
  }
  launch(kernel::StepStates(), executor, active,
         kernel::GruCandidateStep<T>{size, gru.order(), gru.bias ? gru.bias + 2 * size : nullptr, before, gates, states,
                                     gru.is_original});
}
/// Steps backwards.
template <Executor E, class T>
class GruStepsBack {
 public:
  /// Of at most `widest` sequences.
  GruStepsBack(const E& executor, const GruParameters<T>& gru, std::int64_t widest)
      : executor_(executor),
        gru_(gru),
        weights_(executor, 3 * gru.size * gru.size),
        dreset_(executor, widest * gru.size) {
    // Transposed once, so that a product with few rows, of which there is one per step, can read it in place.
    launch(kernel::TransposeMatrix(), executor, gru.weights, gru.size, 2 * gru.size, weights_.data());
    launch(kernel::TransposeMatrix(), executor, gru.state_weights(), gru.size, gru.size, state_weights());
  }
  /// From the gradients with respect to the states after the step, the sum of `dhidden` and `dstate`, to those with
  /// respect to the states before it, in `dstate`, and to the gates.
  void step(std::int64_t active, const T* before, const T* gates, const T* dhidden, T* dstate, T* dgates) const {
    if (active == 0) return;
    const std::int64_t size = gru_.size;
    launch(
        kernel::StepStates(), executor_, active,
        kernel::GruCandidateStepGrad<T>{size, gru_.order(), gates, before, dhidden, dstate, dgates, gru_.is_original});
    operation::matrix_product<E, T>(executor_, false, false, active, size, size, 1, dgates + 2 * size, 3 * size,
                                    state_weights(), size, 0, dreset_.data(), size);
    launch(kernel::StepStates(), executor_, active,
           kernel::GruResetStepGrad<T>{size, gru_.order(), gates, before, dreset_.data(), dstate, dgates});
    operation::matrix_product<E, T>(executor_, false, false, active, size, 2 * size, 1, dgates, 3 * size,
                                    weights_.data(), size, 1, dstate, size);
  }
  /// The gradient with respect to the matrix for c, of all `rows` rows of all steps.
  void state_weights_grad(std::int64_t rows, const T* reset, const T* dgates, T* dweights) const {
    const std::int64_t size = gru_.size;
    operation::matrix_product<E, T>(executor_, true, false, size, size, rows, 1, reset, size,
                                    rows > 0 ? dgates + 2 * size : dgates, 3 * size, 0, dweights + 2 * size * size,
                                    size);
  }

 private:
  T* state_weights() const noexcept { return weights_.data() + 2 * gru_.size * gru_.size; }

  const E& executor_;
  GruParameters<T> gru_;
  kernel::Scratch<E, T> weights_, dreset_;
};

/// From the arguments of gru or gru_unit.
template <class T, class E, class Arguments>
GruParameters<T> gru_parameters(const OperatorCall<E>& call, const Arguments& in, std::int64_t size) {
  return {size, matrix<T>(call, in.weight, size, 3 * size),
          optional_numbers<T>(call, in.bias, 3 * size, "those of update, reset and candidate"), in.is_original};
}

/// What gru and its gradient read.
struct GruArguments {
  Slot input, initial, weight, bias;
  bool reverse, is_original;

  explicit GruArguments(const OperatorArguments& op)
      : input(op.input("Input")),
        initial(op.optional_input("H0")),
        weight(op.input("Weight")),
        bias(op.optional_input("Bias")),
        reverse(op.attr("is_reverse", false)),
        is_original(op.attr("origin_mode", false)) {
    op.expect_attr("activation", "tanh");
    op.expect_attr("gate_activation", "sigmoid");
  }
};

/// gru: Input, H0?, Weight, Bias? -> Hidden, BatchGate?, BatchResetHiddenPrev?, BatchHidden?; is_reverse = false,
/// origin_mode = false. The last three are for the gradient: rows by time steps, those of step 0, longest sequences
/// first, those of step 1, and so on.
template <Executor E>
RunOperator<E> gru(const OperatorArguments& op) {
  const Slot output = op.output("Hidden"), gate = op.optional_output("BatchGate");
  const Slot reset = op.optional_output("BatchResetHiddenPrev"), state = op.optional_output("BatchHidden");
  return [=, in = GruArguments(op), table = RankTable(),
          spare = std::array<Variable, 3>()](OperatorCall<E>& call) mutable {
    call.with_floating(in.input, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto x = call.template view<T>(in.input);
      const std::int64_t size = state_size(call, in.input, x, 3);
      const auto parameters = gru_parameters<T>(call, in, size);
      rank_rows(call, in.input, x, table);
      const operation::StepOrder<E> order(executor, table, in.reverse);
      const kernel::Scratch<E, T> kept(executor, in.initial ? order.sequences() * size : 0);
      const T* const h0 = initial_states<T>(call, in.initial, order, size, kept.data());
      auto hidden = call.template output<T>(output);
      const auto out =
          operation::prepare<T>(executor, {"gru", "Hidden"}, *hidden, operation::SameLevels{x.lod_view()}, {size}, {});
      const BatchOutput<T, E> gates(call, gate, spare[0], order.rows(), 3 * size);
      const BatchOutput<T, E> resets(call, reset, spare[1], order.rows(), size);
      const BatchOutput<T, E> states(call, state, spare[2], order.rows(), size);
      order.to_steps(x.data(), 3 * size, gates.data());
      for (std::int64_t t = 0; t < order.steps(); ++t) {
        const std::int64_t start = order.start(t);
        gru_step(executor, parameters, order.active(t), t > 0 ? states.data() + order.start(t - 1) * size : h0,
                 gates.data() + start * 3 * size, resets.data() + start * size, states.data() + start * size);
      }
      order.from_steps(static_cast<const T*>(states.data()), size, out.data());
    });
  };
}

/// gru_grad: Input, H0?, Weight, Bias?, BatchGate, BatchResetHiddenPrev, BatchHidden, Hidden@GRAD -> Input@GRAD?,
/// H0@GRAD?, Weight@GRAD?, Bias@GRAD?; the attributes of gru.
template <Executor E>
RunOperator<E> gru_grad(const OperatorArguments& op) {
  const Slot gate = op.input("BatchGate"), reset = op.input("BatchResetHiddenPrev"), state = op.input("BatchHidden");
  const Slot dhidden = op.input("Hidden@GRAD"), dinput = op.optional_output("Input@GRAD");
  const Slot dinitial = op.optional_output("H0@GRAD"), dweight = op.optional_output("Weight@GRAD");
  const Slot dbias = op.optional_output("Bias@GRAD");
  return [=, in = GruArguments(op), table = RankTable(),
          spare = std::array<Variable, 4>()](OperatorCall<E>& call) mutable {
    call.with_floating(in.input, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto x = call.template view<T>(in.input);
      const std::int64_t size = state_size(call, in.input, x, 3), rows = x.rows();
      const auto parameters = gru_parameters<T>(call, in, size);
      rank_rows(call, in.input, x, table);
      const operation::StepOrder<E> order(executor, table, in.reverse);
      const T* const gates = matrix<T>(call, gate, rows, 3 * size);
      const T* const resets = matrix<T>(call, reset, rows, size);
      const T* const states = matrix<T>(call, state, rows, size);
      const T* const dstates = matrix<T>(call, dhidden, rows, size);
      const kernel::Scratch<E, T> kept(executor, in.initial ? order.sequences() * size : 0);
      const T* const h0 = initial_states<T>(call, in.initial, order, size, kept.data());
      const kernel::Scratch<E, T> dgates(executor, rows * 3 * size), dsteps(executor, rows * size);
      const kernel::Scratch<E, T> dstate(executor, order.sequences() * size);
      const GruStepsBack<E, T> back(executor, parameters, order.widest());
      const OutputLike<T, E> to_input(call, in.input, dinput, spare[0]);
      const OutputLike<T, E> to_weight(call, in.weight, dweight, spare[1]);
      order.to_steps(dstates, size, dsteps.data());
      order.to_ranks(static_cast<const T*>(nullptr), size, dstate.data());
      for (std::int64_t t = order.steps(); t-- > 0;) {
        const std::int64_t start = order.start(t);
        back.step(order.active(t), t > 0 ? states + order.start(t - 1) * size : h0, gates + start * 3 * size,
                  dsteps.data() + start * size, dstate.data(), dgates.data() + start * 3 * size);
      }
      const T* const by_steps = dgates.data();
      order.from_steps(by_steps, 3 * size, to_input.data());
      order.recur_grad(states, h0, size, 2 * size, by_steps, 3 * size, to_weight.data(), 2 * size);
      back.state_weights_grad(rows, resets, by_steps, to_weight.data());
      if (in.bias) {
        const OutputLike<T, E> to_bias(call, in.bias, dbias, spare[2]);
        operation::sum_columns(executor, by_steps, rows, 3 * size, to_bias.data());
      }
      if (in.initial) {
        const OutputLike<T, E> to_initial(call, in.initial, dinitial, spare[3]);
        order.from_ranks(static_cast<const T*>(dstate.data()), size, to_initial.data());
      }
    });
  };
}

/// What gru_unit and its gradient read.
struct GruUnitArguments {
  Slot input, before, weight, bias;
  bool is_original;

  explicit GruUnitArguments(const OperatorArguments& op)
      : input(op.input("Input")),
        before(op.input("HiddenPrev")),
        weight(op.input("Weight")),
        bias(op.optional_input("Bias")),
        is_original(op.attr("origin_mode", false)) {
    constexpr std::int32_t sigmoid = 1, tanh = 2;
    op.expect_attr("activation", tanh);
    op.expect_attr("gate_activation", sigmoid);
  }
};

/// gru_unit, one step of gru: Input, HiddenPrev, Weight, Bias? -> Hidden, Gate?, ResetHiddenPrev?; origin_mode = false.
/// The levels of Hidden are those of HiddenPrev.
template <Executor E>
RunOperator<E> gru_unit(const OperatorArguments& op) {
  const Slot hidden = op.output("Hidden"), gate = op.optional_output("Gate");
  const Slot reset = op.optional_output("ResetHiddenPrev");
  return [=, in = GruUnitArguments(op), spare = std::array<Variable, 3>()](OperatorCall<E>& call) mutable {
    call.with_floating(in.input, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto x = call.template view<T>(in.input);
      const std::int64_t size = state_size(call, in.input, x, 3);
      const auto parameters = gru_parameters<T>(call, in, size);
      const T* const before = matrix<T>(call, in.before, x.rows(), size);
      const OutputLike<T, E> states(call, in.before, hidden, spare[2]);
      const BatchOutput<T, E> gates(call, gate, spare[0], x.rows(), 3 * size);
      const BatchOutput<T, E> resets(call, reset, spare[1], x.rows(), size);
      std::copy_n(x.data(), x.rows() * 3 * size, gates.data());
      gru_step(call.executor(), parameters, x.rows(), before, gates.data(), resets.data(), states.data());
    });
  };
}

/// gru_unit_grad: Input, HiddenPrev, Weight, Bias?, Gate, ResetHiddenPrev, Hidden@GRAD -> Input@GRAD?,
/// HiddenPrev@GRAD?, Weight@GRAD?, Bias@GRAD?; the attributes of gru_unit.
template <Executor E>
RunOperator<E> gru_unit_grad(const OperatorArguments& op) {
  const Slot gate = op.input("Gate"), reset = op.input("ResetHiddenPrev"), dhidden = op.input("Hidden@GRAD");
  const Slot dinput = op.optional_output("Input@GRAD"), dbefore = op.optional_output("HiddenPrev@GRAD");
  const Slot dweight = op.optional_output("Weight@GRAD"), dbias = op.optional_output("Bias@GRAD");
  return [=, in = GruUnitArguments(op), spare = std::array<Variable, 4>()](OperatorCall<E>& call) mutable {
    call.with_floating(in.input, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto x = call.template view<T>(in.input);
      const std::int64_t size = state_size(call, in.input, x, 3), rows = x.rows();
      const auto parameters = gru_parameters<T>(call, in, size);
      const T* const before = matrix<T>(call, in.before, rows, size);
      const T* const gates = matrix<T>(call, gate, rows, 3 * size);
      const T* const resets = matrix<T>(call, reset, rows, size);
      const T* const dstates = matrix<T>(call, dhidden, rows, size);
      const GruStepsBack<E, T> back(executor, parameters, rows);
      const OutputLike<T, E> dgates(call, in.input, dinput, spare[0]);
      const OutputLike<T, E> to_before(call, in.before, dbefore, spare[1]);
      const OutputLike<T, E> to_weight(call, in.weight, dweight, spare[2]);
      std::fill_n(to_before.data(), rows * size, T{});
      back.step(rows, before, gates, dstates, to_before.data(), dgates.data());
      operation::matrix_product<E, T>(executor, true, false, size, 2 * size, rows, 1, before, size, dgates.data(),
                                      3 * size, 0, to_weight.data(), 2 * size);
      back.state_weights_grad(rows, resets, dgates.data(), to_weight.data());
      if (in.bias) {
        const OutputLike<T, E> to_bias(call, in.bias, dbias, spare[3]);
        operation::sum_columns(executor, static_cast<const T*>(dgates.data()), rows, 3 * size, to_bias.data());
      }
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

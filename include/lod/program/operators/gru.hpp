// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operators gru and gru_unit, and their gradients.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/gru_cell.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/ops/step_functions.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/recurrent.hpp>
#include <lod/program/variable.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

// The weights of gru, {D, 3 D}, consist of a matrix for u and r, {D, 2 D}, followed by one for c, {D, D}. The gates are
// u, r and c.

/// The units that the arguments of gru or gru_unit describe.
template <class T, class E, class Arguments>
operation::GruUnits<T> gru_units(const OperatorCall<E>& call, const Arguments& in, std::int64_t size) {
  const T* const weights = matrix<T>(call, in.weight, size, 3 * size);
  const T* const bias = optional_numbers<T>(call, in.bias, 3 * size, "those of update, reset and candidate");
  return {.size = size,
          .order = {.reset = size, .update = 0},
          .gates = weights,
          .gates_stride = 2 * size,
          .candidate = weights + 2 * size * size,
          .candidate_stride = size,
          .gates_bias = bias,
          .candidate_bias = bias ? bias + 2 * size : nullptr,
          .origin_mode = in.is_original,
          .functions = in.functions};
}
/// The functions of gates and of the candidate; none if they are those of `lod::gru`.
inline std::optional<kernel::GruFunctions> gru_functions(kernel::StepFunction gates, kernel::StepFunction candidate) {
  if (gates.name == kernel::StepFunction::SIGMOID && candidate.name == kernel::StepFunction::TANH) return {};
  return kernel::GruFunctions{gates, candidate};
}

/// The arguments of gru and its gradient.
struct GruArguments {
  Slot input, initial, weight, bias;
  bool reverse, is_original;
  std::optional<kernel::GruFunctions> functions;

  explicit GruArguments(const OperatorArguments& op)
      : input(op.input("Input")),
        initial(op.optional_input("H0")),
        weight(op.input("Weight")),
        bias(op.optional_input("Bias")),
        reverse(op.attr("is_reverse", false)),
        is_original(op.attr("origin_mode", false)),
        functions(gru_functions(step_function(op, "gate_activation", kernel::StepFunction::SIGMOID),
                                step_function(op, "activation", kernel::StepFunction::TANH))) {}
};

/// gru: Input, H0?, Weight, Bias? -> Hidden, BatchGate?, BatchResetHiddenPrev?, BatchHidden?; is_reverse = false,
/// origin_mode = false, gate_activation = "sigmoid", activation = "tanh", also "relu" and "identity". The last three
/// are for the gradient: rows by time steps, those of step 0, longest sequences first, those of step 1, and so on.
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
      const auto units = gru_units<T>(call, in, size);
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
        operation::gru_step<E, T>(
            executor, units, false, order.active(t), t > 0 ? states.data() + order.start(t - 1) * size : h0, nullptr,
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
      const auto units = gru_units<T>(call, in, size);
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
      const operation::GruStepsBack<E, T> back(executor, units, order.widest());
      const OutputLike<T, E> to_input(call, in.input, dinput, spare[0]);
      const OutputLike<T, E> to_weight(call, in.weight, dweight, spare[1]);
      order.to_steps(dstates, size, dsteps.data());
      order.to_ranks(static_cast<const T*>(nullptr), size, dstate.data());
      for (std::int64_t t = order.steps(); t-- > 0;) {
        const std::int64_t start = order.start(t);
        T* const dstep = dgates.data() + start * 3 * size;
        back.step(false, order.active(t), t > 0 ? states + order.start(t - 1) * size : h0, gates + start * 3 * size,
                  nullptr, dsteps.data() + start * size, dstate.data(), dstep, dstep);
      }
      const T* const by_steps = dgates.data();
      order.from_steps(by_steps, 3 * size, to_input.data());
      order.recur_grad(states, h0, size, 2 * size, by_steps, 3 * size, to_weight.data(), 2 * size);
      operation::candidate_grad(executor, units, rows, resets, by_steps, false, to_weight.data() + 2 * size * size);
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

/// The arguments of gru_unit and its gradient.
struct GruUnitArguments {
  Slot input, before, weight, bias;
  bool is_original;
  std::optional<kernel::GruFunctions> functions;

  explicit GruUnitArguments(const OperatorArguments& op)
      : input(op.input("Input")),
        before(op.input("HiddenPrev")),
        weight(op.input("Weight")),
        bias(op.optional_input("Bias")),
        is_original(op.attr("origin_mode", false)),
        functions(gru_functions(numbered_step_function(op, "gate_activation", kernel::StepFunction::SIGMOID),
                                numbered_step_function(op, "activation", kernel::StepFunction::TANH))) {}
};

/// gru_unit, one step of gru: Input, HiddenPrev, Weight, Bias? -> Hidden, Gate?, ResetHiddenPrev?; origin_mode = false,
/// gate_activation = 1, activation = 2: numbers of identity, sigmoid, tanh and relu. The levels of Hidden are those of
/// HiddenPrev.
template <Executor E>
RunOperator<E> gru_unit(const OperatorArguments& op) {
  const Slot hidden = op.output("Hidden"), gate = op.optional_output("Gate");
  const Slot reset = op.optional_output("ResetHiddenPrev");
  return [=, in = GruUnitArguments(op), spare = std::array<Variable, 3>()](OperatorCall<E>& call) mutable {
    call.with_floating(in.input, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto x = call.template view<T>(in.input);
      const std::int64_t size = state_size(call, in.input, x, 3);
      const auto units = gru_units<T>(call, in, size);
      const T* const before = matrix<T>(call, in.before, x.rows(), size);
      const OutputLike<T, E> states(call, in.before, hidden, spare[2]);
      const BatchOutput<T, E> gates(call, gate, spare[0], x.rows(), 3 * size);
      const BatchOutput<T, E> resets(call, reset, spare[1], x.rows(), size);
      std::copy_n(x.data(), x.rows() * 3 * size, gates.data());
      operation::gru_step<E, T>(call.executor(), units, false, x.rows(), before, nullptr, gates.data(), resets.data(),
                                states.data());
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
      const auto units = gru_units<T>(call, in, size);
      const T* const before = matrix<T>(call, in.before, rows, size);
      const T* const gates = matrix<T>(call, gate, rows, 3 * size);
      const T* const resets = matrix<T>(call, reset, rows, size);
      const T* const dstates = matrix<T>(call, dhidden, rows, size);
      const operation::GruStepsBack<E, T> back(executor, units, rows);
      const OutputLike<T, E> dgates(call, in.input, dinput, spare[0]);
      const OutputLike<T, E> to_before(call, in.before, dbefore, spare[1]);
      const OutputLike<T, E> to_weight(call, in.weight, dweight, spare[2]);
      std::fill_n(to_before.data(), rows * size, T{});
      back.step(false, rows, before, gates, nullptr, dstates, to_before.data(), dgates.data(), dgates.data());
      operation::matrix_product<E, T>(executor, true, false, size, 2 * size, rows, 1, before, size, dgates.data(),
                                      3 * size, 0, to_weight.data(), 2 * size);
      operation::candidate_grad<E, T>(executor, units, rows, resets, dgates.data(), false,
                                      to_weight.data() + 2 * size * size);
      if (in.bias) {
        const OutputLike<T, E> to_bias(call, in.bias, dbias, spare[3]);
        operation::sum_columns(executor, static_cast<const T*>(dgates.data()), rows, 3 * size, to_bias.data());
      }
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

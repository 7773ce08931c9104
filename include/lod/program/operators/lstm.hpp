// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operators lstm and lstm_unit, and their gradients. Gates of lstm are c, i, f and o, in this order; its peepholes
/// are after the bias.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/lstm_cell.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/ops/row_groups.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/staging.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/recurrent.hpp>
#include <lod/program/variable.hpp>

#include <array>
#include <cstdint>
#include <optional>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The arguments of lstm and its gradient.
struct LstmArguments {
  Slot input, initial, initial_cell, weight, bias;
  bool reverse, has_peepholes;
  std::optional<kernel::LstmFunctions> functions;

  /// `levels` is a parameter whose tensor has the levels and the data type of Input.
  explicit LstmArguments(const OperatorArguments& op, const char* levels = "Input")
      : input(op.input(levels)),
        initial(op.optional_input("H0")),
        initial_cell(op.optional_input("C0")),
        weight(op.input("Weight")),
        bias(op.input("Bias")),
        reverse(op.attr("is_reverse", false)),
        has_peepholes(op.attr("use_peepholes", true)) {
    const kernel::StepFunction gates = step_function(op, "gate_activation", kernel::StepFunction::SIGMOID);
    const kernel::StepFunction candidate = step_function(op, "candidate_activation", kernel::StepFunction::TANH);
    const kernel::StepFunction cell = step_function(op, "cell_activation", kernel::StepFunction::TANH);
    const bool are_usual = gates.name == kernel::StepFunction::SIGMOID &&
                           candidate.name == kernel::StepFunction::TANH && cell.name == kernel::StepFunction::TANH;
    if (!are_usual) functions = {gates, candidate, cell};
    if (initial.size != initial_cell.size) op.refuse({"expected both of 'H0' and 'C0', or neither"});
  }
  static kernel::LstmOrder order(std::int64_t size) noexcept {
    return {.input = size, .forget = 2 * size, .candidate = 0, .output = 3 * size};
  }
  /// For cells of `size` numbers and states of `width`.
  template <class T, class E>
  operation::LstmUnits<T> units(const OperatorCall<E>& call, std::int64_t size, std::int64_t width) const {
    const T* const numbers =
        optional_numbers<T>(call, bias, (has_peepholes ? 7 : 4) * size,
                            has_peepholes ? "those of c i f o and the peepholes of i f o" : "those of c i f o");
    return {size,
            order(size),
            matrix<T>(call, weight, width, 4 * size),
            numbers,
            has_peepholes ? numbers + 4 * size : nullptr,
            functions};
  }
};

/// lstm: Input, H0?, C0?, Weight, Bias -> Hidden, Cell, BatchGate?; is_reverse = false, use_peepholes = true,
/// gate_activation = "sigmoid", candidate_activation = "tanh", cell_activation = "tanh", also "relu" and "identity".
/// BatchGate is for the gradient: rows by time steps, those of step 0, longest sequences first, those of step 1, and so
/// on. BatchCellPreAct, which no gradient here needs, is not written.
template <Executor E>
RunOperator<E> lstm(const OperatorArguments& op) {
  const Slot output = op.output("Hidden"), output_cell = op.output("Cell"), gate = op.optional_output("BatchGate");
  return [=, in = LstmArguments(op), table = RankTable(), spare = Variable()](OperatorCall<E>& call) mutable {
    call.with_floating(in.input, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto x = call.template view<T>(in.input);
      const std::int64_t size = state_size(call, in.input, x, 4);
      const auto units = in.template units<T>(call, size, size);
      rank_rows(call, in.input, x, table);
      const operation::StepOrder<E> order(executor, table, in.reverse);
      const kernel::Scratch<E, T> kept(executor, in.initial ? order.sequences() * size : 0);
      const kernel::Scratch<E, T> kept_cell(executor, in.initial ? order.sequences() * size : 0);
      const T* const h0 = initial_states<T>(call, in.initial, order, size, kept.data());
      const T* const c0 = initial_states<T>(call, in.initial_cell, order, size, kept_cell.data());
      auto hidden = call.template output<T>(output);
      auto cell = call.template output<T>(output_cell);
      const operation::SameLevels levels{x.lod_view()};
      const auto out = operation::prepare<T>(executor, {"lstm", "Hidden"}, *hidden, levels, {size}, {});
      const auto out_cell = operation::prepare<T>(executor, {"lstm", "Cell"}, *cell, levels, {size}, {});
      const BatchOutput<T, E> gates(call, gate, spare, order.rows(), 4 * size);
      const kernel::Scratch<E, T> states(executor, order.rows() * size), cells(executor, order.rows() * size);
      order.to_steps(x.data(), 4 * size, gates.data());
      for (std::int64_t t = 0; t < order.steps(); ++t) {
        const std::int64_t start = order.start(t), last = t > 0 ? order.start(t - 1) * size : 0;
        operation::lstm_step<E, T>(executor, units, order.active(t), t > 0 ? states.data() + last : h0,
                                   t > 0 ? cells.data() + last : c0, gates.data() + start * 4 * size,
                                   cells.data() + start * size, states.data() + start * size);
      }
      order.from_steps(static_cast<const T*>(states.data()), size, out.data());
      order.from_steps(static_cast<const T*>(cells.data()), size, out_cell.data());
    });
  };
}

/// lstm_grad: Input, H0?, C0?, Weight, Bias, Hidden, Cell, BatchGate, Hidden@GRAD -> Input@GRAD?, H0@GRAD?, C0@GRAD?,
/// Weight@GRAD?, Bias@GRAD?; the attributes of lstm. As in PaddlePaddle, Cell@GRAD is ignored.
///
/// (PaddlePaddle 2.6.2's own gradient is zero for the gates c, i and f, on float and with a size that is a multiple of
/// 8.)
template <Executor E>
RunOperator<E> lstm_grad(const OperatorArguments& op) {
  const Slot output = op.input("Hidden"), output_cell = op.input("Cell"), gate = op.input("BatchGate");
  const Slot dhidden = op.input("Hidden@GRAD"), dinput = op.optional_output("Input@GRAD");
  const Slot dinitial = op.optional_output("H0@GRAD"), dinitial_cell = op.optional_output("C0@GRAD");
  const Slot dweight = op.optional_output("Weight@GRAD"), dbias = op.optional_output("Bias@GRAD");
  return [=, in = LstmArguments(op), table = RankTable(),
          spare = std::array<Variable, 5>()](OperatorCall<E>& call) mutable {
    call.with_floating(in.input, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto x = call.template view<T>(in.input);
      const std::int64_t size = state_size(call, in.input, x, 4), rows = x.rows();
      const auto units = in.template units<T>(call, size, size);
      const T* const peepholes = units.peepholes;
      rank_rows(call, in.input, x, table);
      const operation::StepOrder<E> order(executor, table, in.reverse);
      const T* const gates = matrix<T>(call, gate, rows, 4 * size);
      const kernel::Scratch<E, T> states(executor, rows * size), cells(executor, rows * size);
      const kernel::Scratch<E, T> dsteps(executor, rows * size);
      order.to_steps(matrix<T>(call, output, rows, size), size, states.data());
      order.to_steps(matrix<T>(call, output_cell, rows, size), size, cells.data());
      order.to_steps(matrix<T>(call, dhidden, rows, size), size, dsteps.data());
      const kernel::Scratch<E, T> kept(executor, in.initial ? order.sequences() * size : 0);
      const kernel::Scratch<E, T> kept_cell(executor, in.initial ? order.sequences() * size : 0);
      const T* const h0 = initial_states<T>(call, in.initial, order, size, kept.data());
      const T* const c0 = initial_states<T>(call, in.initial_cell, order, size, kept_cell.data());
      const kernel::Scratch<E, T> dgates(executor, rows * 4 * size);
      const kernel::Scratch<E, T> dpeepholes(executor, peepholes ? rows * 3 * size : 0);
      const kernel::Scratch<E, T> dstate(executor, order.sequences() * size), dcell(executor, order.sequences() * size);
      const OutputLike<T, E> to_input(call, in.input, dinput, spare[0]);
      const OutputLike<T, E> to_weight(call, in.weight, dweight, spare[1]);
      const OutputLike<T, E> to_bias(call, in.bias, dbias, spare[2]);
      order.to_ranks(static_cast<const T*>(nullptr), size, dstate.data());
      order.to_ranks(static_cast<const T*>(nullptr), size, dcell.data());
      const operation::LstmStepsBack<E, T> back(executor, units, order.widest());
      for (std::int64_t t = order.steps(); t-- > 0;) {
        const std::int64_t start = order.start(t);
        back.step(order.active(t), gates + start * 4 * size, t > 0 ? cells.data() + order.start(t - 1) * size : c0,
                  cells.data() + start * size, dsteps.data() + start * size, dstate.data(), dcell.data(),
                  dgates.data() + start * 4 * size, peepholes ? dpeepholes.data() + start * 3 * size : nullptr);
      }
      const T* const by_steps = dgates.data();
      order.from_steps(by_steps, 4 * size, to_input.data());
      order.recur_grad(static_cast<const T*>(states.data()), h0, size, 4 * size, by_steps, 4 * size, to_weight.data(),
                       4 * size);
      operation::sum_columns(executor, by_steps, rows, 4 * size, to_bias.data());
      if (peepholes) {
        operation::sum_columns(executor, static_cast<const T*>(dpeepholes.data()), rows, 3 * size,
                               to_bias.data() + 4 * size);
      }
      if (in.initial) {
        const OutputLike<T, E> to_initial(call, in.initial, dinitial, spare[3]);
        const OutputLike<T, E> to_cell(call, in.initial_cell, dinitial_cell, spare[4]);
        order.from_ranks(static_cast<const T*>(dstate.data()), size, to_initial.data());
        order.from_ranks(static_cast<const T*>(dcell.data()), size, to_cell.data());
      }
    });
  };
}

/// The arguments of lstm_unit and its gradient. Gates are i, f, o and c, in this order.
struct LstmUnitArguments {
  Slot x, before;
  float forget_bias;

  explicit LstmUnitArguments(const OperatorArguments& op)
      : x(op.input("X")), before(op.input("C_prev")), forget_bias(op.attr("forget_bias", 0.0F)) {}

  /// One step: `gates` holds X on entry, the gates on return.
  template <Executor E, class T>
  void step(const OperatorCall<E>& call, std::int64_t rows, std::int64_t size, T* gates, T* cell, T* hidden) const {
    const operation::Array<E, T> bias(call.executor(), 4 * size);
    for (std::int64_t i = 0; i < 4 * size; ++i) bias[i] = static_cast<T>(i / size == 1 ? forget_bias : 0);
    launch(kernel::CopyValues(), call.executor(), call.template view<T>(x).data(), rows * 4 * size, gates);
    const T* const cell_before = matrix<T>(call, before, rows, size);
    operation::lstm_step<E, T>(call.executor(), {size, order(size), nullptr, bias.on_device(), nullptr}, rows, nullptr,
                               cell_before, gates, cell, hidden);
  }
  static kernel::LstmOrder order(std::int64_t size) noexcept {
    return {.input = 0, .forget = size, .candidate = 3 * size, .output = 2 * size};
  }
};

/// lstm_unit, one step of lstm whose products have already been added up: X, C_prev -> C?, H?; forget_bias = 0, which
/// is added to the forget gate. The levels of C and H are those of C_prev.
template <Executor E>
RunOperator<E> lstm_unit(const OperatorArguments& op) {
  return [in = LstmUnitArguments(op), cell = op.optional_output("C"), hidden = op.optional_output("H"),
          spare = std::array<Variable, 2>()](OperatorCall<E>& call) mutable {
    call.with_floating(in.x, [&](auto element) {
      using T = typename decltype(element)::type;
      const auto x = call.template view<T>(in.x);
      const std::int64_t rows = x.rows(), size = state_size(call, in.x, x, 4);
      const kernel::Scratch<E, T> gates(call.executor(), rows * 4 * size);
      static_cast<void>(matrix<T>(call, in.before, rows, size));
      const OutputLike<T, E> to_cell(call, in.before, cell, spare[0]), to_hidden(call, in.before, hidden, spare[1]);
      in.step(call, rows, size, gates.data(), to_cell.data(), to_hidden.data());
    });
  };
}

/// lstm_unit_grad: X, C_prev, C, H, C@GRAD?, H@GRAD? -> X@GRAD?, C_prev@GRAD?; the attribute of lstm_unit.
template <Executor E>
RunOperator<E> lstm_unit_grad(const OperatorArguments& op) {
  const Slot dcell = op.optional_input("C@GRAD"), dhidden = op.optional_input("H@GRAD");
  const Slot dx = op.optional_output("X@GRAD"), dbefore = op.optional_output("C_prev@GRAD");
  return [=, in = LstmUnitArguments(op), spare = std::array<Variable, 2>()](OperatorCall<E>& call) mutable {
    call.with_floating(in.x, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto x = call.template view<T>(in.x);
      const std::int64_t rows = x.rows(), size = state_size(call, in.x, x, 4);
      const kernel::Scratch<E, T> gates(executor, rows * 4 * size), cell(executor, rows * size);
      const kernel::Scratch<E, T> hidden(executor, rows * size);
      const T* const dc = dcell ? matrix<T>(call, dcell, rows, size) : nullptr;
      const T* const dh = dhidden ? matrix<T>(call, dhidden, rows, size) : nullptr;
      in.step(call, rows, size, gates.data(), cell.data(), hidden.data());
      const OutputLike<T, E> to_x(call, in.x, dx, spare[0]), to_before(call, in.before, dbefore, spare[1]);
      if (dc) {
        launch(kernel::CopyValues(), executor, dc, rows * size, to_before.data());
      } else {
        launch(kernel::SetZero(), executor, to_before.data(), rows * size);
      }
      launch(kernel::StepStates(), executor, rows,
             kernel::PeepholeLstmStepGrad<T>{size, LstmUnitArguments::order(size), nullptr, gates.data(),
                                             matrix<T>(call, in.before, rows, size), cell.data(), dh, nullptr,
                                             to_before.data(), to_x.data(), nullptr});
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

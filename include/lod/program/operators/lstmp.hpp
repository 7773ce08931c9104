// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operator lstmp, an LSTM whose hidden states are projected to fewer numbers, and its gradient. Gates and
/// peepholes are those of lstm.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/lstm_cell.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/ops/row_groups.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/lstm.hpp>
#include <lod/program/operators/recurrent.hpp>
#include <lod/program/variable.hpp>

#include <array>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The arguments of lstmp and its gradient.
struct LstmpArguments : LstmArguments {
  Slot projection;
  kernel::StepFunction function;
  float limit, cell_limit;

  explicit LstmpArguments(const OperatorArguments& op, const char* levels = "Input")
      : LstmArguments(op, levels),
        projection(op.input("ProjWeight")),
        function(step_function(op, "proj_activation", kernel::StepFunction::TANH)),
        limit(op.attr("proj_clip", 0.0F)),
        cell_limit(op.attr("cell_clip", 0.0F)) {
    if (!(cell_limit >= 0)) op.refuse_attr("cell_clip", "0 or more");
    if (!(limit >= 0)) op.refuse_attr("proj_clip", "0 or more");
    using enum kernel::StepFunction::Name;
    if (function.name != IDENTITY) function = functions ? functions->cell : kernel::StepFunction{TANH};
  }
  /// For cells of `size` numbers, projected to states of `width`.
  template <class T, class E>
  operation::LstmUnits<T> units(const OperatorCall<E>& call, std::int64_t size, std::int64_t width) const {
    auto all = LstmArguments::units<T>(call, size, width);
    all.cell_clip = cell_limit;
    all.projection = {matrix<T>(call, projection, size, width), width, limit, function};
    return all;
  }
};

/// lstmp: Input, H0?, C0?, Weight, ProjWeight, Bias -> Projection, Cell, BatchGate?, BatchHidden?; cell_clip = 0 and
/// proj_clip = 0, the limits of cells and of projected states unless they are 0, proj_activation = "tanh", and the
/// attributes of lstm. As in PaddlePaddle, projected states go through the function cell_activation, unless
/// proj_activation is "identity". For cells of D numbers and states of P, Weight is {P, 4 D}, ProjWeight {D, P}, and H0
/// has P columns. BatchGate and BatchHidden, the states before they are projected, are for the gradient, with their
/// rows by time steps as in lstm. BatchCellPreAct is not written.
template <Executor E>
RunOperator<E> lstmp(const OperatorArguments& op) {
  const Slot output = op.output("Projection"), output_cell = op.output("Cell");
  const Slot gate = op.optional_output("BatchGate"), hidden = op.optional_output("BatchHidden");
  return [=, in = LstmpArguments(op), table = RankTable(),
          spare = std::array<Variable, 2>()](OperatorCall<E>& call) mutable {
    call.with_floating(in.input, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto x = call.template view<T>(in.input);
      const std::int64_t size = state_size(call, in.input, x, 4), width = call.tensor(in.projection).row_size();
      const auto units = in.template units<T>(call, size, width);
      rank_rows(call, in.input, x, table);
      const operation::StepOrder<E> order(executor, table, in.reverse);
      const kernel::Scratch<E, T> kept(executor, in.initial ? order.sequences() * width : 0);
      const kernel::Scratch<E, T> kept_cell(executor, in.initial ? order.sequences() * size : 0);
      const T* const h0 = initial_states<T>(call, in.initial, order, width, kept.data());
      const T* const c0 = initial_states<T>(call, in.initial_cell, order, size, kept_cell.data());
      auto projected = call.template output<T>(output);
      auto cell = call.template output<T>(output_cell);
      const operation::SameLevels levels{x.lod_view()};
      const auto out = operation::prepare<T>(executor, {"lstmp", "Projection"}, *projected, levels, {width}, {});
      const auto out_cell = operation::prepare<T>(executor, {"lstmp", "Cell"}, *cell, levels, {size}, {});
      const BatchOutput<T, E> gates(call, gate, spare[0], order.rows(), 4 * size);
      const BatchOutput<T, E> before(call, hidden, spare[1], order.rows(), size);
      const kernel::Scratch<E, T> states(executor, order.rows() * width), cells(executor, order.rows() * size);
      order.to_steps(x.data(), 4 * size, gates.data());
      for (std::int64_t t = 0; t < order.steps(); ++t) {
        const std::int64_t start = order.start(t), last = t > 0 ? order.start(t - 1) : 0;
        operation::lstm_step<E, T>(executor, units, order.active(t), t > 0 ? states.data() + last * width : h0,
                                   t > 0 ? cells.data() + last * size : c0, gates.data() + start * 4 * size,
                                   cells.data() + start * size, states.data() + start * width,
                                   before.data() + start * size);
      }
      order.from_steps(static_cast<const T*>(states.data()), width, out.data());
      order.from_steps(static_cast<const T*>(cells.data()), size, out_cell.data());
    });
  };
}

/// lstmp_grad: H0?, C0?, Weight, ProjWeight, Bias, Projection, Cell, BatchGate, BatchHidden, Projection@GRAD ->
/// Input@GRAD?, H0@GRAD?, C0@GRAD?, Weight@GRAD?, ProjWeight@GRAD?, Bias@GRAD?; the attributes of lstmp. As in
/// PaddlePaddle, Cell@GRAD is ignored.
template <Executor E>
RunOperator<E> lstmp_grad(const OperatorArguments& op) {
  const Slot output = op.input("Projection"), gate = op.input("BatchGate"), hidden = op.input("BatchHidden");
  const Slot dstates = op.input("Projection@GRAD");
  const Slot dinput = op.optional_output("Input@GRAD"), dinitial = op.optional_output("H0@GRAD");
  const Slot dinitial_cell = op.optional_output("C0@GRAD"), dweight = op.optional_output("Weight@GRAD");
  const Slot dprojection = op.optional_output("ProjWeight@GRAD"), dbias = op.optional_output("Bias@GRAD");
  return [=, in = LstmpArguments(op, "Cell"), table = RankTable(),
          spare = std::array<Variable, 6>()](OperatorCall<E>& call) mutable {
    call.with_floating(in.input, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto cell = call.template view<T>(in.input);
      const std::int64_t size = cell.row_size(), rows = cell.rows();
      const std::int64_t width = call.tensor(in.projection).row_size();
      const auto units = in.template units<T>(call, size, width);
      const T* const peepholes = units.peepholes;
      rank_rows(call, in.input, cell, table);
      const operation::StepOrder<E> order(executor, table, in.reverse);
      const std::int64_t sequences = order.sequences();
      const T *const gates = matrix<T>(call, gate, rows, 4 * size), *const before = matrix<T>(call, hidden, rows, size);
      const kernel::Scratch<E, T> states(executor, rows * width), cells(executor, rows * size);
      const kernel::Scratch<E, T> dprojected(executor, rows * width);
      order.to_steps(matrix<T>(call, output, rows, width), width, states.data());
      order.to_steps(cell.data(), size, cells.data());
      order.to_steps(matrix<T>(call, dstates, rows, width), width, dprojected.data());
      const kernel::Scratch<E, T> kept(executor, in.initial ? sequences * width : 0);
      const kernel::Scratch<E, T> kept_cell(executor, in.initial ? sequences * size : 0);
      const T* const h0 = initial_states<T>(call, in.initial, order, width, kept.data());
      const T* const c0 = initial_states<T>(call, in.initial_cell, order, size, kept_cell.data());
      const kernel::Scratch<E, T> dgates(executor, rows * 4 * size);
      const kernel::Scratch<E, T> dpeepholes(executor, peepholes ? rows * 3 * size : 0);
      const kernel::Scratch<E, T> dstate(executor, sequences * width), dcell(executor, sequences * size);
      const OutputLike<T, E> to_input(call, in.input, dinput, spare[0], {4 * size});
      const OutputLike<T, E> to_weight(call, in.weight, dweight, spare[1]);
      const OutputLike<T, E> to_bias(call, in.bias, dbias, spare[2]);
      const OutputLike<T, E> to_projection(call, in.projection, dprojection, spare[3]);
      order.to_ranks(static_cast<const T*>(nullptr), width, dstate.data());
      order.to_ranks(static_cast<const T*>(nullptr), size, dcell.data());
      const operation::LstmStepsBack<E, T> back(executor, units, order.widest());
      for (std::int64_t t = order.steps(); t-- > 0;) {
        const std::int64_t start = order.start(t);
        back.step(order.active(t), gates + start * 4 * size, t > 0 ? cells.data() + order.start(t - 1) * size : c0,
                  cells.data() + start * size, dprojected.data() + start * width, dstate.data(), dcell.data(),
                  dgates.data() + start * 4 * size, peepholes ? dpeepholes.data() + start * 3 * size : nullptr,
                  states.data() + start * width, dprojected.data() + start * width);
      }
      const T* const by_steps = dgates.data();
      order.from_steps(by_steps, 4 * size, to_input.data());
      order.recur_grad(static_cast<const T*>(states.data()), h0, width, 4 * size, by_steps, 4 * size, to_weight.data(),
                       4 * size);
      operation::matrix_product<E, T>(executor, true, false, size, width, rows, 1, before, size, dprojected.data(),
                                      width, 0, to_projection.data(), width);
      operation::sum_columns(executor, by_steps, rows, 4 * size, to_bias.data());
      if (peepholes) {
        operation::sum_columns(executor, static_cast<const T*>(dpeepholes.data()), rows, 3 * size,
                               to_bias.data() + 4 * size);
      }
      if (in.initial) {
        const OutputLike<T, E> to_initial(call, in.initial, dinitial, spare[4]);
        const OutputLike<T, E> to_cell(call, in.initial_cell, dinitial_cell, spare[5]);
        order.from_ranks(static_cast<const T*>(dstate.data()), width, to_initial.data());
        order.from_ranks(static_cast<const T*>(dcell.data()), size, to_cell.data());
      }
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

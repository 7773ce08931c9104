// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operator lstm, and its gradient. Gates are c, i, f and o, in this order; peepholes are after the bias.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/lstm.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/recurrent.hpp>
#include <lod/program/variable.hpp>

#include <array>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// What lstm and its gradient read.
struct LstmArguments {
  Slot input, initial, initial_cell, weight, bias;
  bool reverse, has_peepholes;

  explicit LstmArguments(const OperatorArguments& op)
      : input(op.input("Input")),
        initial(op.optional_input("H0")),
        initial_cell(op.optional_input("C0")),
        weight(op.input("Weight")),
        bias(op.input("Bias")),
        reverse(op.attr("is_reverse", false)),
        has_peepholes(op.attr("use_peepholes", true)) {
    op.expect_attr("gate_activation", "sigmoid");
    op.expect_attr("cell_activation", "tanh");
    op.expect_attr("candidate_activation", "tanh");
    if (initial.size != initial_cell.size) op.refuse({"expected both of 'H0' and 'C0', or neither"});
  }
  static kernel::LstmOrder order(std::int64_t size) noexcept {
    return {.input = size, .forget = 2 * size, .candidate = 0, .output = 3 * size};
  }
  template <class T, class E>
  const T* bias_numbers(const OperatorCall<E>& call, std::int64_t size) const {
    return optional_numbers<T>(call, bias, (has_peepholes ? 7 : 4) * size,
                               has_peepholes ? "those of c i f o and the peepholes of i f o" : "those of c i f o");
  }
};

/// lstm: Input, H0?, C0?, Weight, Bias -> Hidden, Cell, BatchGate?; is_reverse = false, use_peepholes = true. BatchGate
/// is for the gradient: rows by time steps, those of step 0, longest sequences first, those of step 1, and so on.
/// BatchCellPreAct, which no gradient here needs, is not written.
template <Executor E>
RunOperator<E> lstm(const OperatorArguments& op) {
  const Slot output = op.output("Hidden"), output_cell = op.output("Cell"), gate = op.optional_output("BatchGate");
  return [=, in = LstmArguments(op), table = RankTable(), spare = Variable()](OperatorCall<E>& call) mutable {
    call.with_floating(in.input, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto x = call.template view<T>(in.input);
      const std::int64_t size = state_size(call, in.input, x, 4);
      const T* const weights = matrix<T>(call, in.weight, size, 4 * size);
      const T* const b = in.template bias_numbers<T>(call, size);
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
        const std::int64_t active = order.active(t), start = order.start(t);
        const std::int64_t last = t > 0 ? order.start(t - 1) * size : 0;
        const T* const before = t > 0 ? states.data() + last : h0;
        T* const step = gates.data() + start * 4 * size;
        if (before) {
          operation::matrix_product<E, T>(executor, false, false, active, 4 * size, size, 1, before, size, weights,
                                          4 * size, 1, step, 4 * size);
        }
        launch(kernel::StepStates(), executor, active,
               kernel::PeepholeLstmStep<T>{size, LstmArguments::order(size), b,
                                           in.has_peepholes ? b + 4 * size : nullptr, t > 0 ? cells.data() + last : c0,
                                           step, cells.data() + start * size, states.data() + start * size});
      }
      order.from_steps(static_cast<const T*>(states.data()), size, out.data());
      order.from_steps(static_cast<const T*>(cells.data()), size, out_cell.data());
    });
  };
}

/// lstm_grad: Input, H0?, C0?, Weight, Bias, Hidden, Cell, BatchGate, Hidden@GRAD -> Input@GRAD?, H0@GRAD?, C0@GRAD?,
/// Weight@GRAD?, Bias@GRAD?; the attributes of lstm. As in PaddlePaddle, nothing is passed on from Cell@GRAD.
///
/// (PaddlePaddle 2.6.2's own, on float and with a size that is a multiple of 8, gives zeros for the gates c, i and f.)
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
      const T* const weights = matrix<T>(call, in.weight, size, 4 * size);
      const T* const b = in.template bias_numbers<T>(call, size);
      const T* const peepholes = in.has_peepholes ? b + 4 * size : nullptr;
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
      // Transposed once, so that a product with few rows, of which there is one per step, can read it in place.
      const kernel::Scratch<E, T> transposed(executor, 4 * size * size);
      launch(kernel::TransposeMatrix(), executor, weights, size, 4 * size, transposed.data());
      for (std::int64_t t = order.steps(); t-- > 0;) {
        const std::int64_t active = order.active(t), start = order.start(t);
        T* const step = dgates.data() + start * 4 * size;
        launch(kernel::StepStates(), executor, active,
               kernel::PeepholeLstmStepGrad<T>{size, LstmArguments::order(size), peepholes, gates + start * 4 * size,
                                               t > 0 ? cells.data() + order.start(t - 1) * size : c0,
                                               cells.data() + start * size, dsteps.data() + start * size, dstate.data(),
                                               dcell.data(), step,
                                               peepholes ? dpeepholes.data() + start * 3 * size : nullptr});
        operation::matrix_product<E, T>(executor, false, false, active, size, 4 * size, 1, step, 4 * size,
                                        transposed.data(), size, 0, dstate.data(), size);
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

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

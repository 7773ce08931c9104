// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators of recurrent networks: gru, lstm. Their input has been projected before, by `mul` and `elementwise_add`,
/// and their gates are in PaddlePaddle's order; so they take the steps of `lod::gru` and `lod::lstm` by themselves.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_view.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/gru.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/lstm.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/program/operator.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The numbers of an optional tensor that must have `count` of them; null if it is not there.
template <class T, class E>
const T* optional_numbers(const OperatorCall<E>& call, const Slot& slot, std::int64_t count, const char* expected) {
  if (!slot) return nullptr;
  const auto found = call.template view<T>(slot);
  if (found.rows() * found.row_size() != count) {
    throw ShapeMismatch(detail::text(
        {call.name(slot), " of shape ", to_string(found.shape()), ", expected ", count, " numbers: ", expected}));
  }
  return found.data();
}
/// The numbers of a matrix.
template <class T, class E>
const T* matrix(const OperatorCall<E>& call, const Slot& slot, std::int64_t rows, std::int64_t columns) {
  const auto found = call.template view<T>(slot);
  if (found.rows() != rows || found.row_size() != columns) {
    throw ShapeMismatch(detail::text(
        {call.name(slot), " of shape ", to_string(found.shape()), ", expected ", to_string(Shape{rows, columns})}));
  }
  return found.data();
}
/// The width of a state, of which a row of the input has `gates`.
template <class View, class E>
std::int64_t state_size(const OperatorCall<E>& call, const Slot& slot, const View& x, std::int64_t gates) {
  if (x.levels() == 0) operation::throw_no_level(call.name(slot).c_str());
  if (x.row_size() % gates != 0) {
    throw ShapeMismatch(detail::text(
        {call.name(slot), ": rows of ", x.row_size(), " numbers, expected ", gates, " numbers for each of the state"}));
  }
  return x.row_size() / gates;
}
/// The order of steps, whose table is kept from run to run.
template <class View>
void rank_rows(const View& x, RankTable& table) {
  std::optional<RankTable> next = operation::next_table(table, x.lod_view(), x.levels() - 1);
  if (next) table = std::move(*next);
}
/// The initial states by rank, in `kept`; null if there are none.
template <class T, class E>
const T* initial_states(const OperatorCall<E>& call, const Slot& slot, const operation::StepOrder<E>& order,
                        std::int64_t size, T* kept) {
  if (!slot) return nullptr;
  order.to_ranks(matrix<T>(call, slot, order.sequences(), size), size, kept);
  return kept;
}

/// gru: Input, H0?, Weight, Bias? -> Hidden. Its other outputs are there for the gradient, and are not written.
template <Executor E>
RunOperator<E> gru(const OperatorArguments& op) {
  op.expect_attr("activation", "tanh");
  op.expect_attr("gate_activation", "sigmoid");
  const Slot input = op.input("Input"), initial = op.optional_input("H0"), weight = op.input("Weight");
  const Slot bias = op.optional_input("Bias"), output = op.output("Hidden");
  const bool reverse = op.attr("is_reverse", false), is_original = op.attr("origin_mode", false);
  return [=, table = RankTable()](OperatorCall<E>& call) mutable {
    call.with_floating(input, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto x = call.template view<T>(input);
      const std::int64_t size = state_size(call, input, x, 3);
      // {D, 3 D} in all, but first a matrix for u and r, {D, 2 D}, then one for c, {D, D}.
      const T* const gate_weights = matrix<T>(call, weight, size, 3 * size);
      const T* const state_weights = gate_weights + 2 * size * size;
      const T* const b = optional_numbers<T>(call, bias, 3 * size, "those of update, reset and candidate");
      rank_rows(x, table);
      const operation::StepOrder<E> order(executor, table, reverse);
      const kernel::Scratch<E, T> kept(executor, initial ? order.sequences() * size : 0);
      const T* const h0 = initial_states<T>(call, initial, order, size, kept.data());
      auto hidden = call.template output<T>(output);
      const auto out =
          operation::prepare<T>(executor, {"gru", "Hidden"}, *hidden, operation::SameLevels{x.lod_view()}, {size}, {});
      const kernel::Scratch<E, T> gates(executor, order.rows() * 3 * size), states(executor, order.rows() * size);
      const kernel::Scratch<E, T> reset(executor, order.widest() * size);
      const kernel::GruOrder gate_order{.reset = size, .update = 0};
      order.to_steps(x.data(), 3 * size, gates.data());
      for (std::int64_t t = 0; t < order.steps(); ++t) {
        const std::int64_t active = order.active(t), start = order.start(t);
        const T* const before = t > 0 ? states.data() + order.start(t - 1) * size : h0;
        T* const step = gates.data() + start * 3 * size;
        if (before) {
          operation::matrix_product<E, T>(executor, false, false, active, 2 * size, size, 1, before, size, gate_weights,
                                          2 * size, 1, step, 3 * size);
        }
        launch(kernel::StepStates(), executor, active,
               kernel::GruResetStep<T>{size, gate_order, b, before, step, reset.data()});
        if (before) {
          operation::matrix_product<E, T>(executor, false, false, active, size, size, 1, reset.data(), size,
                                          state_weights, size, 1, step + 2 * size, 3 * size);
        }
        launch(kernel::StepStates(), executor, active,
               kernel::GruCandidateStep<T>{size, gate_order, b ? b + 2 * size : nullptr, before, step,
                                           states.data() + start * size, is_original});
      }
      order.from_steps(std::as_const(states).data(), size, out.data());
    });
  };
}

/// lstm: Input, H0?, C0?, Weight, Bias? -> Hidden, Cell. Its other outputs are there for the gradient, and are not
/// written.
template <Executor E>
RunOperator<E> lstm(const OperatorArguments& op) {
  op.expect_attr("gate_activation", "sigmoid");
  op.expect_attr("cell_activation", "tanh");
  op.expect_attr("candidate_activation", "tanh");
  const Slot input = op.input("Input"), initial = op.optional_input("H0"), initial_cell = op.optional_input("C0");
  const Slot weight = op.input("Weight"), bias = op.input("Bias");
  const Slot output = op.output("Hidden"), output_cell = op.output("Cell");
  const bool reverse = op.attr("is_reverse", false), has_peepholes = op.attr("use_peepholes", true);
  if (initial.size != initial_cell.size) op.refuse({"expected both of 'H0' and 'C0', or neither"});
  return [=, table = RankTable()](OperatorCall<E>& call) mutable {
    call.with_floating(input, [&](auto element) {
      using T = typename decltype(element)::type;
      const E& executor = call.executor();
      const auto x = call.template view<T>(input);
      const std::int64_t size = state_size(call, input, x, 4);
      const T* const weights = matrix<T>(call, weight, size, 4 * size);
      const T* const b =
          optional_numbers<T>(call, bias, (has_peepholes ? 7 : 4) * size,
                              has_peepholes ? "those of c i f o and the peepholes of i f o" : "those of c i f o");
      rank_rows(x, table);
      const operation::StepOrder<E> order(executor, table, reverse);
      const kernel::Scratch<E, T> kept(executor, initial ? 2 * order.sequences() * size : 0);
      const T* const h0 = initial_states<T>(call, initial, order, size, kept.data());
      const T* const c0 = initial_states<T>(call, initial_cell, order, size,
                                            initial ? kept.data() + order.sequences() * size : nullptr);
      auto hidden = call.template output<T>(output);
      auto cell = call.template output<T>(output_cell);
      const operation::SameLevels levels{x.lod_view()};
      const auto out = operation::prepare<T>(executor, {"lstm", "Hidden"}, *hidden, levels, {size}, {});
      const auto out_cell = operation::prepare<T>(executor, {"lstm", "Cell"}, *cell, levels, {size}, {});
      const kernel::Scratch<E, T> gates(executor, order.rows() * 4 * size);
      const kernel::Scratch<E, T> states(executor, order.rows() * size), cells(executor, order.rows() * size);
      const kernel::LstmOrder gate_order{.input = size, .forget = 2 * size, .candidate = 0, .output = 3 * size};
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
               kernel::PeepholeLstmStep<T>{size, gate_order, b, has_peepholes ? b + 4 * size : nullptr,
                                           t > 0 ? cells.data() + last : c0, step, cells.data() + start * size,
                                           states.data() + start * size});
      }
      order.from_steps(std::as_const(states).data(), size, out.data());
      order.from_steps(std::as_const(cells).data(), size, out_cell.data());
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

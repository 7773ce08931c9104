// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup recurrent
/// Long short-term memory over ragged batches.
///
/// For each row x of a sequence, with h' and c' the hidden state and the cell before it,
///
///     i = sigmoid(x Wi + h' Ui + bi)        what to take in
///     f = sigmoid(x Wf + h' Uf + bf)        what to keep
///     g =    tanh(x Wg + h' Ug + bg)        what is new
///     o = sigmoid(x Wo + h' Uo + bo)        what to show
///     c = f * c' + i * g
///     h = o * tanh(c)
///
/// The matrices of the four gates are side by side, in this order, which is that of torch::nn::LSTM. The differences: W
/// and U here are torch's weight_ih and weight_hh transposed, and there is one bias, the sum of torch's two.
/// (PaddlePaddle's dynamic_lstm has the order g, i, f, o.)
#pragma once

#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/output.hpp>
#include <lod/rank_table.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct lstm : elements::Floating {};
struct lstm_grad : elements::Floating {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The parameters for rows of d numbers and n hidden units; also their gradients.
template <class T, class Device = Cpu>
struct LstmWeights {
  LoDTensor<T, Device> input = {};      ///< {d, 4 n}: Wi Wf Wg Wo
  LoDTensor<T, Device> recurrent = {};  ///< {n, 4 n}: Ui Uf Ug Uo
  LoDTensor<T, Device> bias = {};       ///< 4 n numbers: bi bf bg bo; optional
};

/// The options of `lstm`.
template <class T, class Device = Cpu>
struct LstmOptions {
  /// h' and c' at the first step: a row for each sequence, in batch order. No rows: zero.
  LoDTensorView<const T, Device> initial_hidden = {};
  LoDTensorView<const T, Device> initial_cell = {};
  bool reverse = false;  ///< from the last row of each sequence to the first
  int level = -1;        ///< the level whose sequences are read, all rows under each; by default the last
};

/// What `lstm_grad` needs from `lstm`. The rows are ordered by time step: those of step 0, longest sequences first,
/// those of step 1, and so on. Memory is reused from call to call.
template <class T, class Device = Cpu>
struct LstmTrace {
  RankTable table;  ///< the sequences, one row per step
  int level = 0;    ///< their level
  bool reverse = false;
  LoDTensor<T, Device> gates;           ///< i f g o
  LoDTensor<T, Device> cell;            ///< c
  LoDTensor<T, Device> hidden;          ///< h
  LoDTensor<T, Device> initial_hidden;  ///< by rank; no rows if none were given
  LoDTensor<T, Device> initial_cell;
};

/// The result of `lstm`.
template <class T, class Device = Cpu>
struct Lstm {
  LoDTensor<T, Device> hidden;       ///< h after each row; LoD as x
  LoDTensor<T, Device> last_hidden;  ///< h after the last step of each sequence; LoD: the levels above
  LoDTensor<T, Device> last_cell;    ///< c after it
  LstmTrace<T, Device> trace;
};

/// Gradients with respect to the final states, for `lstm_grad`: one row for each sequence, in the order of the batch.
/// No rows: zero.
template <class T, class Device = Cpu>
struct LstmGradOptions {
  LoDTensorView<const T, Device> dlast_hidden = {};
  LoDTensorView<const T, Device> dlast_cell = {};
};

/// The result of `lstm_grad`: the gradients with respect to the arguments of `lstm`.
template <class T, class Device = Cpu>
struct LstmGrad {
  LoDTensor<T, Device> x;
  LstmWeights<T, Device> weights;
  LoDTensor<T, Device> initial_hidden;  ///< one row for each sequence, even if none were given
  LoDTensor<T, Device> initial_cell;
};

/// The weights of `lstm`, described. An omitted bias has no dimension, or no row.
struct LstmWeightsDesc {
  LoDTensorDesc input;
  LoDTensorDesc recurrent;
  LoDTensorDesc bias = {};
};

/// The options of `infer_lstm`: initial states described; omitted ones have no dimension, or no row.
struct LstmDescOptions {
  LoDTensorDesc initial_hidden = {};
  LoDTensorDesc initial_cell = {};
  int level = -1;
};

/// The result of `lstm`, described, except the trace, which is for `lstm_grad` alone.
struct LstmDesc {
  LoDTensorDesc hidden;
  LoDTensorDesc last_hidden;
  LoDTensorDesc last_cell;
};

/// The result of `lstm_grad`, described.
struct LstmGradDesc {
  LoDTensorDesc x;
  LstmWeightsDesc weights;
  LoDTensorDesc initial_hidden;
  LoDTensorDesc initial_cell;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
/// run(executor, rows, size, cell_before, gates, cell, hidden): one step. `gates` holds i f g o, on entry before their
/// activation functions, on return after. A null `cell_before` stands for zeros.
template <class Executor>
struct LstmStep : Missing<Executor> {};
/// run(executor, rows, size, gates, cell_before, cell, dhidden, dstate, dcell, dgates): the step backwards. The
/// gradient with respect to h is the sum of `dhidden`, which may be null, and `dstate`. `dcell` is the gradient with
/// respect to c, on return that with respect to c'; `dgates` those for the gates before activation.
template <class Executor>
struct LstmStepGrad : Missing<Executor> {};
}  // namespace kernel

namespace operation {

template <class X, class T, class Device>
void check_lstm_weights(const X& x, const LstmWeights<T, Device>& weights, const char* what) {
  detail::check_elements<op::lstm, T>();
  const std::int64_t size = weights.recurrent.rows();
  check_weights(weights.recurrent, size, 4 * size, what, "weights.recurrent");
  check_weights(weights.input, x.row_size(), 4 * size, what, "weights.input");
  check_bias(weights.bias, 4 * size, what, "weights.bias");
}

}  // namespace operation

/// Reads each sequence of `level` row by row; the rows of x may have any shape. `hidden` has a row of n numbers for
/// each row of x, and its LoD; `last_hidden` and `last_cell` have one for each sequence, and the levels of x above
/// `level`: the initial ones for an empty sequence. All sequences take their steps together: the products with the rows
/// of x are one matrix product over all of them, those with the states one per step, over the sequences that take it.
///
/// The bits depend neither on threads nor on the rest of the batch. float16 and bfloat16 are rounded after each product
/// and in each state. The outputs must not overlap the arguments. If memory runs out, the contents of the trace are
/// lost, and gradients reject it. Throws InvalidLoD if x has no level, OutOfRange for the level, ShapeMismatch for
/// weights or initial states that do not fit.
template <Executor E, LoDTensorLike X, class Hidden, class LastHidden, class LastCell>
void lstm_into(const E& executor, const X& x, const LstmWeights<value_type_t<X>, device_t<X>>& weights,
               const LstmOptions<value_type_t<X>, device_t<X>>& options, Hidden&& hidden, LastHidden&& last_hidden,
               LastCell&& last_cell, LstmTrace<value_type_t<X>, device_t<X>>& trace) {
  using T = value_type_t<X>;
  const auto view = x.view();
  operation::check_has_level(view, "lstm");
  const int level = detail::resolve_level(options.level, view.levels(), "lstm");
  operation::check_lstm_weights(view, weights, "lstm");
  const std::int64_t sequences = view.lod_view().size(level), rows = view.rows();
  const std::int64_t inputs = view.row_size(), size = weights.recurrent.rows();
  operation::check_states(options.initial_hidden, sequences, size, "lstm: initial_hidden");
  operation::check_states(options.initial_cell, sequences, size, "lstm: initial_cell");
  const operation::SameLevels as_x{view.lod_view()};
  const operation::LevelsAbove above{view.lod_view(), level};
  const operation::OtherMemory outputs[] = {{"hidden", hidden},
                                            {"last_hidden", last_hidden},
                                            {"last_cell", last_cell},
                                            {"trace.gates", trace.gates},
                                            {"trace.cell", trace.cell},
                                            {"trace.hidden", trace.hidden},
                                            {"trace.initial_hidden", trace.initial_hidden},
                                            {"trace.initial_cell", trace.initial_cell}};
  const operation::OtherMemory arguments[] = {{"x", view},
                                              {"weights.input", weights.input},
                                              {"weights.recurrent", weights.recurrent},
                                              {"weights.bias", weights.bias},
                                              {"initial_hidden", options.initial_hidden},
                                              {"initial_cell", options.initial_cell}};
  operation::check_apart("lstm", outputs, arguments);

  std::optional<RankTable> next = operation::next_table(trace.table, view.lod_view(), level);
  const operation::StepOrder<E> order(executor, next ? *next : trace.table, options.reverse);
  const auto prepare = [&](const char* name, auto& y, const auto& structure, const Shape& row_shape) {
    return operation::prepare<T>(executor, {"lstm", name}, y, structure, row_shape, {});
  };
  const auto out = prepare("hidden", hidden, as_x, {size});
  const auto out_hidden = prepare("last_hidden", last_hidden, above, {size});
  const auto out_cell = prepare("last_cell", last_cell, above, {size});
  const auto gates = prepare("trace.gates", trace.gates, operation::PlainRows{rows}, {4 * size});
  const auto cell = prepare("trace.cell", trace.cell, operation::PlainRows{rows}, {size});
  const auto states = prepare("trace.hidden", trace.hidden, operation::PlainRows{rows}, {size});
  const auto kept_hidden = prepare("trace.initial_hidden", trace.initial_hidden,
                                   operation::PlainRows{options.initial_hidden.rows()}, {size});
  const auto kept_cell =
      prepare("trace.initial_cell", trace.initial_cell, operation::PlainRows{options.initial_cell.rows()}, {size});
  const operation::NoTraceOnError no_trace(trace);
  const T* const initial_hidden = order.keep_states(options.initial_hidden, size, kept_hidden);
  const T* const initial_cell = order.keep_states(options.initial_cell, size, kept_cell);

  order.project(view.data(), inputs, weights.input.data(), operation::given(weights.bias), 4 * size, gates.data());
  for (std::int64_t t = 0; t < order.steps(); ++t) {
    const std::int64_t active = order.active(t), start = order.start(t);
    const T* const hidden_before = t > 0 ? states.data() + order.start(t - 1) * size : initial_hidden;
    const T* const cell_before = t > 0 ? cell.data() + order.start(t - 1) * size : initial_cell;
    T* const step = gates.data() + start * 4 * size;
    if (hidden_before) {
      operation::matrix_product(executor, false, false, active, 4 * size, size, 1, hidden_before, size,
                                weights.recurrent.data(), 4 * size, 1, step, 4 * size);
    }
    kernel::LstmStep<E>::run(executor, active, size, cell_before, step, cell.data() + start * size,
                             states.data() + start * size);
  }
  order.last_states(states.data(), initial_hidden, size, out_hidden.data());
  order.last_states(cell.data(), initial_cell, size, out_cell.data());
  order.from_steps(states.data(), size, out.data());
  if (next) trace.table = std::move(*next);
  trace.level = level;
  trace.reverse = options.reverse;
}
template <Executor E, LoDTensorLike X, class Hidden, class LastHidden, class LastCell>
void lstm_into(const E& executor, const X& x, const LstmWeights<value_type_t<X>, device_t<X>>& weights, Hidden&& hidden,
               LastHidden&& last_hidden, LastCell&& last_cell, LstmTrace<value_type_t<X>, device_t<X>>& trace) {
  lstm_into(executor, x, weights, {}, hidden, last_hidden, last_cell, trace);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] Lstm<value_type_t<X>, device_t<X>> lstm(const E& executor, const X& x,
                                                      const LstmWeights<value_type_t<X>, device_t<X>>& weights,
                                                      const LstmOptions<value_type_t<X>, device_t<X>>& options = {}) {
  using Tensor = LoDTensor<value_type_t<X>, device_t<X>>;
  Lstm<value_type_t<X>, device_t<X>> y{
      Tensor(executor.resource()), Tensor(executor.resource()), Tensor(executor.resource()), {}};
  lstm_into(executor, x, weights, options, y.hidden, y.last_hidden, y.last_cell, y.trace);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto lstm(const X& x, const LstmWeights<value_type_t<X>, device_t<X>>& weights,
                        const LstmOptions<value_type_t<X>, device_t<X>>& options = {}) {
  return lstm(default_executor<device_t<X>>(), x, weights, options);
}

/// The gradients of `lstm` with respect to x, the weights and the initial states, by back-propagation through time.
/// `dhidden` is the gradient with respect to `hidden`; one without rows stands for zeros, as do those of the final
/// states. x and weights are the arguments of `lstm`, `trace` is the one that it wrote.
///
/// Gradients with respect to the weights are overwritten, in the shapes of the weights. Each of them, a sum over all
/// time steps, is computed as one matrix product. The bits do not depend on threads. The outputs must not overlap the
/// arguments. If memory runs out, the contents of the outputs are lost. Throws ShapeMismatch if x, the weights or the
/// gradients do not fit the trace.
template <Executor E, LoDTensorLike DHidden, LoDTensorLike X, class DX, class DInitialHidden, class DInitialCell>
void lstm_grad_into(const E& executor, const DHidden& dhidden, const X& x,
                    const LstmWeights<value_type_t<X>, device_t<X>>& weights,
                    const LstmTrace<value_type_t<X>, device_t<X>>& trace,
                    const LstmGradOptions<value_type_t<X>, device_t<X>>& options, DX&& dx,
                    LstmWeights<value_type_t<X>, device_t<X>>& dweights, DInitialHidden&& dinitial_hidden,
                    DInitialCell&& dinitial_cell) {
  using T = value_type_t<X>;
  static_assert(std::same_as<value_type_t<DHidden>, T>, "lstm_grad: x and dhidden must have one element type");
  const auto view = x.view();
  const auto gradient = dhidden.view();
  operation::check_lstm_weights(view, weights, "lstm_grad");
  const std::int64_t rows = view.rows(), inputs = view.row_size(), size = weights.recurrent.rows();
  operation::check_trace(trace, view, size, "lstm_grad");
  const std::int64_t sequences = trace.table.size();
  operation::check_states(gradient, rows, size, "lstm_grad: dhidden");
  operation::check_states(options.dlast_hidden, sequences, size, "lstm_grad: dlast_hidden");
  operation::check_states(options.dlast_cell, sequences, size, "lstm_grad: dlast_cell");
  const operation::SameLevels as_x{view.lod_view()};
  const operation::LevelsAbove above{view.lod_view(), trace.level};
  const operation::OtherMemory outputs[] = {{"dx", dx},
                                            {"dweights.input", dweights.input},
                                            {"dweights.recurrent", dweights.recurrent},
                                            {"dweights.bias", dweights.bias},
                                            {"dinitial_hidden", dinitial_hidden},
                                            {"dinitial_cell", dinitial_cell}};
  const operation::OtherMemory arguments[] = {{"dhidden", gradient},
                                              {"x", view},
                                              {"weights.input", weights.input},
                                              {"weights.recurrent", weights.recurrent},
                                              {"weights.bias", weights.bias},
                                              {"trace.gates", trace.gates},
                                              {"trace.cell", trace.cell},
                                              {"trace.hidden", trace.hidden},
                                              {"trace.initial_hidden", trace.initial_hidden},
                                              {"trace.initial_cell", trace.initial_cell},
                                              {"dlast_hidden", options.dlast_hidden},
                                              {"dlast_cell", options.dlast_cell}};
  operation::check_apart("lstm_grad", outputs, arguments);
  const auto out = operation::prepare<T>(executor, {"lstm_grad", "dx"}, dx, as_x, view.row_shape(), {});
  const auto out_input =
      operation::prepare_like(executor, {"lstm_grad", "dweights.input"}, dweights.input, weights.input);
  const auto out_recurrent =
      operation::prepare_like(executor, {"lstm_grad", "dweights.recurrent"}, dweights.recurrent, weights.recurrent);
  const auto out_bias = operation::prepare_like(executor, {"lstm_grad", "dweights.bias"}, dweights.bias, weights.bias);
  const auto out_hidden =
      operation::prepare<T>(executor, {"lstm_grad", "dinitial_hidden"}, dinitial_hidden, above, {size}, {});
  const auto out_cell =
      operation::prepare<T>(executor, {"lstm_grad", "dinitial_cell"}, dinitial_cell, above, {size}, {});

  const operation::StepOrder<E> order(executor, trace.table, trace.reverse);
  const T* const initial_hidden = operation::given(trace.initial_hidden);
  const T* const initial_cell = operation::given(trace.initial_cell);
  const kernel::Scratch<E, T> dgates(executor, rows * 4 * size);
  const kernel::Scratch<E, T> dsteps(executor, rows * size);
  // By rank: for sequences that the steps so far have not reached, with respect to their last states; for the others,
  // with respect to the states before the step.
  const kernel::Scratch<E, T> dstate(executor, sequences * size);
  const kernel::Scratch<E, T> dcell(executor, sequences * size);
  // Transposed once, so that a product with few rows, of which there is one per step, can read it in place.
  const kernel::Scratch<E, T> recurrent(executor, 4 * size * size);
  kernel::TransposeMatrix<E>::run(executor, weights.recurrent.data(), size, 4 * size, recurrent.data());
  if (operation::given(gradient)) order.to_steps(gradient.data(), size, dsteps.data());
  order.to_ranks(operation::given(options.dlast_hidden), size, dstate.data());
  order.to_ranks(operation::given(options.dlast_cell), size, dcell.data());
  for (std::int64_t t = order.steps(); t-- > 0;) {
    const std::int64_t active = order.active(t), start = order.start(t);
    T* const step = dgates.data() + start * 4 * size;
    kernel::LstmStepGrad<E>::run(
        executor, active, size, trace.gates.data() + start * 4 * size,
        t > 0 ? trace.cell.data() + order.start(t - 1) * size : initial_cell, trace.cell.data() + start * size,
        operation::given(gradient) ? dsteps.data() + start * size : nullptr, dstate.data(), dcell.data(), step);
    operation::matrix_product<E, T>(executor, false, false, active, size, 4 * size, 1, step, 4 * size, recurrent.data(),
                                    size, 0, dstate.data(), size);
  }
  order.project_grad(view.data(), inputs, weights.input.data(), static_cast<const T*>(dgates.data()), 4 * size,
                     out.data(), out_input.data(), operation::given(weights.bias) ? out_bias.data() : nullptr);
  order.recur_grad(trace.hidden.data(), initial_hidden, size, 4 * size, static_cast<const T*>(dgates.data()),
                   out_recurrent.data());
  order.from_ranks(dstate.data(), size, out_hidden.data());
  order.from_ranks(dcell.data(), size, out_cell.data());
}
template <Executor E, LoDTensorLike DHidden, LoDTensorLike X, class DX, class DInitialHidden, class DInitialCell>
void lstm_grad_into(const E& executor, const DHidden& dhidden, const X& x,
                    const LstmWeights<value_type_t<X>, device_t<X>>& weights,
                    const LstmTrace<value_type_t<X>, device_t<X>>& trace, DX&& dx,
                    LstmWeights<value_type_t<X>, device_t<X>>& dweights, DInitialHidden&& dinitial_hidden,
                    DInitialCell&& dinitial_cell) {
  lstm_grad_into(executor, dhidden, x, weights, trace, {}, dx, dweights, dinitial_hidden, dinitial_cell);
}
template <Executor E, LoDTensorLike DHidden, LoDTensorLike X>
[[nodiscard]] LstmGrad<value_type_t<X>, device_t<X>> lstm_grad(
    const E& executor, const DHidden& dhidden, const X& x, const LstmWeights<value_type_t<X>, device_t<X>>& weights,
    const LstmTrace<value_type_t<X>, device_t<X>>& trace,
    const LstmGradOptions<value_type_t<X>, device_t<X>>& options = {}) {
  using Tensor = LoDTensor<value_type_t<X>, device_t<X>>;
  const auto tensor = [&] { return Tensor(executor.resource()); };
  LstmGrad<value_type_t<X>, device_t<X>> d{tensor(), {tensor(), tensor(), tensor()}, tensor(), tensor()};
  lstm_grad_into(executor, dhidden, x, weights, trace, options, d.x, d.weights, d.initial_hidden, d.initial_cell);
  return d;
}
template <LoDTensorLike DHidden, LoDTensorLike X>
[[nodiscard]] auto lstm_grad(const DHidden& dhidden, const X& x,
                             const LstmWeights<value_type_t<X>, device_t<X>>& weights,
                             const LstmTrace<value_type_t<X>, device_t<X>>& trace,
                             const LstmGradOptions<value_type_t<X>, device_t<X>>& options = {}) {
  return lstm_grad(default_executor<device_t<X>>(), dhidden, x, weights, trace, options);
}

/// The results of `lstm` and `lstm_grad`, described: see <lod/infer.hpp>.
inline LstmDesc infer_lstm(const LoDTensorDesc& x, const LstmWeightsDesc& weights,
                           const LstmDescOptions& options = {}) {
  infer::Batch hidden = infer::batch_for<op::lstm>(x, "lstm");
  infer::Batch last = hidden.pooled(options.level, "lstm");
  const std::int64_t size = operation::infer_hidden_size(hidden, weights.input, weights.recurrent, 4, "lstm");
  operation::infer_vector(weights.bias, hidden.type, infer::product({4, size}, "lstm"), "lstm: weights.bias");
  hidden.row_shape = last.row_shape = {size};
  operation::infer_initial(options.initial_hidden, last, "lstm: initial_hidden");
  operation::infer_initial(options.initial_cell, last, "lstm: initial_cell");
  return {hidden, last, last};
}
inline LstmGradDesc infer_lstm_grad(const LoDTensorDesc& x, const LstmWeightsDesc& weights,
                                    const LstmDescOptions& options = {}) {
  const LstmDesc forward = infer_lstm(x, weights, options);
  return {x, weights, forward.last_hidden, forward.last_cell};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

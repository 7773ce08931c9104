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
/// With peepholes, i and f also see the cell before the step, and o the cell after it: Pi * c', Pf * c' and Po * c,
/// where each P has one weight for each unit, are added before the sigmoid (Gers, Schraudolph, Schmidhuber, JMLR 3,
/// 2002).
///
/// The matrices of the four gates are side by side, in this order, which is that of torch::nn::LSTM. The differences: W
/// and U here are torch's weight_ih and weight_hh transposed, and there is one bias, the sum of torch's two.
/// (PaddlePaddle's dynamic_lstm has the order g, i, f, o, and the peepholes after its bias.)
#pragma once

#include <lod/core/rank_table.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/lstm_cell.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/recurrent.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct lstm : elements::Floating {
  static constexpr Text text{
      "x, weights",
      "The hidden states of an LSTM over each sequence, with the last states and the trace that `lstm_grad` needs."};
};
struct lstm_grad : elements::Floating {
  static constexpr Text text{"dhidden, x, weights, trace"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

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
  LoDTensor<T, Device> gates;           ///< i, f, g, o
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
  LoDTensor<T, Device> last_cell;    ///< c after the last step
  LstmTrace<T, Device> trace;
};

/// The options of `lstm_grad`: gradients with respect to the final states, one row for each sequence, in the order of
/// the batch. No rows: zero.
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

namespace operation {

template <>
struct Declared<op::lstm>
    : Takes<Tensor, Of<LstmWeights>>, WithTyped<LstmOptions>, GivesAll<Lstm, Tensor, Tensor, Tensor, Of<LstmTrace>> {
  static constexpr const char* name = "lstm";
  using Gradient = op::lstm_grad;
  template <class T>
  using Kernels = kernel::Instances<kernel::Instance<kernel::MatrixProduct, T>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const LstmWeights<T, typename E::device>& weights,
                  const LstmOptions<T, typename E::device>& options, const To<E, T>& hidden,
                  const To<E, T>& last_hidden, const To<E, T>& last_cell, LstmTrace<T, typename E::device>& trace) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    check_lstm_weights(x, weights, name);
    const std::int64_t sequences = x.lod_view().size(level), rows = x.rows();
    const std::int64_t inputs = x.row_size(), size = weights.recurrent.rows();
    check_states(options.initial_hidden, sequences, size, {name, "initial_hidden"});
    check_states(options.initial_cell, sequences, size, {name, "initial_cell"});
    const SameLevels as_x{x.lod_view()};
    const LevelsAbove above{x.lod_view(), level};
    const OtherMemory outputs[] = {{"hidden", hidden},
                                   {"last_hidden", last_hidden},
                                   {"last_cell", last_cell},
                                   {"trace.gates", trace.gates},
                                   {"trace.cell", trace.cell},
                                   {"trace.hidden", trace.hidden},
                                   {"trace.initial_hidden", trace.initial_hidden},
                                   {"trace.initial_cell", trace.initial_cell}};
    const OtherMemory arguments[] = {{"x", x},
                                     {"weights.input", weights.input},
                                     {"weights.recurrent", weights.recurrent},
                                     {"weights.bias", weights.bias},
                                     {"weights.peepholes", weights.peepholes},
                                     {"initial_hidden", options.initial_hidden},
                                     {"initial_cell", options.initial_cell}};
    check_apart(name, outputs, arguments);

    std::optional<RankTable> next = next_table(trace.table, x.lod_view(), level);
    const StepOrder<E> order(executor, next ? *next : trace.table, options.reverse);
    const auto prepared = [&](const char* output, auto& y, const auto& structure, const Shape& row_shape) {
      return prepare(executor, {name, output}, y, structure, row_shape, {});
    };
    const auto out = prepared("hidden", hidden, as_x, {size});
    const auto out_hidden = prepared("last_hidden", last_hidden, above, {size});
    const auto out_cell = prepared("last_cell", last_cell, above, {size});
    const auto gates = prepared("trace.gates", trace.gates, PlainRows{rows}, {4 * size});
    const auto cell = prepared("trace.cell", trace.cell, PlainRows{rows}, {size});
    const auto states = prepared("trace.hidden", trace.hidden, PlainRows{rows}, {size});
    const auto kept_hidden =
        prepared("trace.initial_hidden", trace.initial_hidden, PlainRows{options.initial_hidden.rows()}, {size});
    const auto kept_cell =
        prepared("trace.initial_cell", trace.initial_cell, PlainRows{options.initial_cell.rows()}, {size});
    const NoTraceOnError no_trace(trace);
    const T* const initial_hidden = order.keep_states(options.initial_hidden, size, kept_hidden);
    const T* const initial_cell = order.keep_states(options.initial_cell, size, kept_cell);

    order.project(x.data(), inputs, weights.input.data(), given(weights.bias), 4 * size, gates.data());
    const LstmUnits<T> units = lstm_units(weights);
    for (std::int64_t t = 0; t < order.steps(); ++t) {
      const std::int64_t start = order.start(t);
      lstm_step(executor, units, order.active(t), t > 0 ? states.data() + order.start(t - 1) * size : initial_hidden,
                t > 0 ? cell.data() + order.start(t - 1) * size : initial_cell, gates.data() + start * 4 * size,
                cell.data() + start * size, states.data() + start * size);
    }
    order.last_states(states.data(), initial_hidden, size, out_hidden.data());
    order.last_states(cell.data(), initial_cell, size, out_cell.data());
    order.from_steps(states.data(), size, out.data());
    if (next) trace.table = std::move(*next);
    trace.level = level;
    trace.reverse = options.reverse;
  }
};

template <>
struct Declared<op::lstm_grad> : Takes<Tensor, Tensor, Of<LstmWeights>, Of<LstmTrace>>,
                                 WithTyped<LstmGradOptions>,
                                 GivesAll<LstmGrad, Tensor, Of<LstmWeights>, Tensor, Tensor> {
  static constexpr const char* name = "lstm_grad";
  template <class T>
  using Kernels = kernel::Instances<kernel::Instance<kernel::TransposeMatrix, T>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dhidden, const Input<E, T>& x,
                  const LstmWeights<T, typename E::device>& weights, const LstmTrace<T, typename E::device>& trace,
                  const LstmGradOptions<T, typename E::device>& options, const To<E, T>& dx,
                  LstmWeights<T, typename E::device>& dweights, const To<E, T>& dinitial_hidden,
                  const To<E, T>& dinitial_cell) {
    check_lstm_weights(x, weights, name);
    const std::int64_t rows = x.rows(), inputs = x.row_size(), size = weights.recurrent.rows();
    check_trace(trace, x, size, name);
    const std::int64_t sequences = trace.table.size();
    check_states(dhidden, rows, size, {name, "dhidden"});
    check_states(options.dlast_hidden, sequences, size, {name, "dlast_hidden"});
    check_states(options.dlast_cell, sequences, size, {name, "dlast_cell"});
    const SameLevels as_x{x.lod_view()};
    const LevelsAbove above{x.lod_view(), trace.level};
    const OtherMemory outputs[] = {{"dx", dx},
                                   {"dweights.input", dweights.input},
                                   {"dweights.recurrent", dweights.recurrent},
                                   {"dweights.bias", dweights.bias},
                                   {"dweights.peepholes", dweights.peepholes},
                                   {"dinitial_hidden", dinitial_hidden},
                                   {"dinitial_cell", dinitial_cell}};
    const OtherMemory arguments[] = {{"dhidden", dhidden},
                                     {"x", x},
                                     {"weights.input", weights.input},
                                     {"weights.recurrent", weights.recurrent},
                                     {"weights.bias", weights.bias},
                                     {"weights.peepholes", weights.peepholes},
                                     {"trace.gates", trace.gates},
                                     {"trace.cell", trace.cell},
                                     {"trace.hidden", trace.hidden},
                                     {"trace.initial_hidden", trace.initial_hidden},
                                     {"trace.initial_cell", trace.initial_cell},
                                     {"dlast_hidden", options.dlast_hidden},
                                     {"dlast_cell", options.dlast_cell}};
    check_apart(name, outputs, arguments);
    const auto out = prepare(executor, {name, "dx"}, dx, as_x, x.row_shape(), {});
    const auto out_input = prepare_like(executor, {name, "dweights.input"}, dweights.input, weights.input);
    const auto out_recurrent =
        prepare_like(executor, {name, "dweights.recurrent"}, dweights.recurrent, weights.recurrent);
    const auto out_bias = prepare_like(executor, {name, "dweights.bias"}, dweights.bias, weights.bias);
    const auto out_peepholes =
        prepare_like(executor, {name, "dweights.peepholes"}, dweights.peepholes, weights.peepholes);
    const auto out_hidden = prepare(executor, {name, "dinitial_hidden"}, dinitial_hidden, above, {size}, {});
    const auto out_cell = prepare(executor, {name, "dinitial_cell"}, dinitial_cell, above, {size}, {});

    const StepOrder<E> order(executor, trace.table, trace.reverse);
    const T* const initial_hidden = given(trace.initial_hidden);
    const T* const initial_cell = given(trace.initial_cell);
    const T* const peepholes = given(weights.peepholes);
    const kernel::Scratch<E, T> dgates(executor, rows * 4 * size);
    const kernel::Scratch<E, T> dpeepholes(executor, peepholes ? rows * 3 * size : 0);
    const kernel::Scratch<E, T> dsteps(executor, rows * size);
    // The gradients by rank: with respect to the last states for sequences that the steps so far have not reached,
    // otherwise with respect to the states before the step.
    const kernel::Scratch<E, T> dstate(executor, sequences * size);
    const kernel::Scratch<E, T> dcell(executor, sequences * size);
    const LstmStepsBack<E, T> back(executor, lstm_units(weights));
    if (given(dhidden)) order.to_steps(dhidden.data(), size, dsteps.data());
    order.to_ranks(given(options.dlast_hidden), size, dstate.data());
    order.to_ranks(given(options.dlast_cell), size, dcell.data());
    for (std::int64_t t = order.steps(); t-- > 0;) {
      const std::int64_t active = order.active(t), start = order.start(t);
      back.step(active, trace.gates.data() + start * 4 * size,
                t > 0 ? trace.cell.data() + order.start(t - 1) * size : initial_cell, trace.cell.data() + start * size,
                given(dhidden) ? dsteps.data() + start * size : nullptr, dstate.data(), dcell.data(),
                dgates.data() + start * 4 * size, peepholes ? dpeepholes.data() + start * 3 * size : nullptr);
    }
    order.project_grad(x.data(), inputs, weights.input.data(), static_cast<const T*>(dgates.data()), 4 * size,
                       out.data(), out_input.data(), given(weights.bias) ? out_bias.data() : nullptr);
    order.recur_grad(trace.hidden.data(), initial_hidden, size, 4 * size, static_cast<const T*>(dgates.data()),
                     4 * size, out_recurrent.data(), 4 * size);
    if (peepholes) {
      sum_columns(executor, static_cast<const T*>(dpeepholes.data()), rows, 3 * size, out_peepholes.data());
    }
    order.from_ranks(dstate.data(), size, out_hidden.data());
    order.from_ranks(dcell.data(), size, out_cell.data());
  }
};

}  // namespace operation

/// Reads each sequence of `level` row by row; the rows of x may have any shape. `hidden` has a row of n numbers for
/// each row of x, and x's LoD; `last_hidden` and `last_cell` have one row for each sequence (the initial state for an
/// empty one), and the levels of x above `level`. All sequences take their steps together: the products with the rows
/// of x are a single matrix product, those with the states are one matrix product for each step, over the sequences
/// that take it.
///
/// The bits depend neither on threads nor on the rest of the batch. float16 and bfloat16 are rounded after each product
/// and in each state. The outputs must not overlap the arguments. If memory runs out, the contents of the trace are
/// lost, and gradients reject it. Throws InvalidLoD if x has no level, OutOfRange for the level, ShapeMismatch for
/// weights or initial states that do not fit.
inline constexpr operation::Call<op::lstm> lstm{};
inline constexpr operation::CallInto<op::lstm> lstm_into{};

/// The gradients of `lstm` with respect to x, the weights and the initial states, by back-propagation through time.
/// `dhidden` is the gradient with respect to `hidden`; without rows it stands for zeros, as do those of the final
/// states. x and weights are the arguments of `lstm`, `trace` is the one that it wrote.
///
/// Gradients with respect to the weights are overwritten, in the shapes of the weights. Each of them, a sum over all
/// time steps, is computed as one matrix product. The bits do not depend on threads. The outputs must not overlap the
/// arguments. If memory runs out, the contents of the outputs are lost. Throws ShapeMismatch if x, the weights or the
/// gradients do not fit the trace.
inline constexpr operation::Call<op::lstm_grad> lstm_grad{};
inline constexpr operation::CallInto<op::lstm_grad> lstm_grad_into{};

/// The results of `lstm` and `lstm_grad`, described: see <lod/infer.hpp>.
inline LstmDesc infer_lstm(const LoDTensorDesc& x, const LstmWeightsDesc& weights,
                           const LstmDescOptions& options = {}) {
  infer::Batch hidden = infer::batch_for<op::lstm>(x, "lstm");
  infer::Batch last = hidden.pooled(options.level, "lstm");
  const std::int64_t size = operation::infer_hidden_size(hidden, weights.input, weights.recurrent, 4, "lstm");
  operation::infer_vector(weights.bias, hidden.type, infer::product({4, size}, "lstm"), "lstm: weights.bias");
  operation::infer_vector(weights.peepholes, hidden.type, infer::product({3, size}, "lstm"), "lstm: weights.peepholes");
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

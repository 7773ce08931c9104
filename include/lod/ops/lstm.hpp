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
/// With a projection, a state is P times o * tanh(c), with fewer numbers than the cell (Sak, Senior, Beaufays,
/// Interspeech 2014): h = (o * tanh(c)) P. Cells and projected states may have limits, for each number.
///
/// The matrices of the four gates are side by side, in this order, which is that of torch::nn::LSTM. The differences: W
/// and U here are torch's weight_ih and weight_hh transposed, and there is one bias, the sum of torch's two.
/// With `proj_size`, torch's weight_hr is the projection transposed. (PaddlePaddle's dynamic_lstm has the order g, i,
/// f, o, and the peepholes after its bias; its dynamic_lstmp sends projected states through tanh unless told
/// otherwise.)
#pragma once

#include <lod/core/rank_table.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/lstm_cell.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/recurrent.hpp>

#include <cstdint>
#include <optional>

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
  double cell_clip = 0;  ///< the greatest size of a number in c; 0: no limit
  double projection_clip =
      0;  ///< the greatest size of a number in h after the projection, if there is one; 0: no limit
};

/// What `lstm_grad` needs from `lstm`. The rows are ordered by time step: those of step 0, longest sequences first,
/// those of step 1, and so on. Memory is reused from call to call.
template <class T, class Device = Cpu>
struct LstmTrace {
  RankTable table;  ///< the sequences, one row per step
  int level = 0;    ///< their level
  bool reverse = false;
  double cell_clip = 0;
  double projection_clip = 0;
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

/// The states of the sequences of a batch, or gradients with respect to them: null where there are none.
template <class T>
struct LstmStates {
  Columns<T> hidden, cell;
};

/// Runs an LSTM over x, whose arguments have been checked, in one direction.
template <Executor E, class T, class Options>
void run_lstm(const E& executor, const char* name, const Input<E, T>& x,
              const LstmWeights<T, typename E::device>& weights, const LstmStates<const T>& initial,
              const Options& options, bool reverse, int level, const Columns<T>& hidden, const LstmStates<T>& last,
              LstmTrace<T, typename E::device>& trace) {
  const std::int64_t rows = x.rows(), inputs = x.row_size(), sequences = x.lod_view().size(level);
  const LstmUnits<T> units = lstm_units(weights, options);
  const std::int64_t size = units.size, width = units.width();
  std::optional<RankTable> next = next_table(trace.table, x.lod_view(), level);
  const StepOrder<E> order(executor, next ? *next : trace.table, reverse);
  const auto prepared = [&](const char* output, auto& y, std::int64_t count, std::int64_t row_size) {
    return prepare(executor, {name, output}, y, PlainRows{count}, {row_size}, {});
  };
  const auto gates = prepared("trace.gates", trace.gates, rows, 4 * size);
  const auto cell = prepared("trace.cell", trace.cell, rows, size);
  const auto states = prepared("trace.hidden", trace.hidden, rows, width);
  const auto kept_hidden =
      prepared("trace.initial_hidden", trace.initial_hidden, initial.hidden.data ? sequences : 0, width);
  const auto kept_cell = prepared("trace.initial_cell", trace.initial_cell, initial.cell.data ? sequences : 0, size);
  const NoTraceOnError no_trace(trace);
  const kernel::Scratch<E, T> shown(executor, units.projection.weights ? order.widest() * size : 0);
  const T* const initial_hidden = order.keep_states(initial.hidden, width, kept_hidden);
  const T* const initial_cell = order.keep_states(initial.cell, size, kept_cell);

  order.project(x.data(), inputs, weights.input.data(), given(weights.bias), 4 * size, gates.data());
  for (std::int64_t t = 0; t < order.steps(); ++t) {
    const std::int64_t start = order.start(t);
    lstm_step(executor, units, order.active(t), t > 0 ? states.data() + order.start(t - 1) * width : initial_hidden,
              t > 0 ? cell.data() + order.start(t - 1) * size : initial_cell, gates.data() + start * 4 * size,
              cell.data() + start * size, states.data() + start * width, shown.data());
  }
  order.last_states(states.data(), initial_hidden, width, last.hidden);
  order.last_states(cell.data(), initial_cell, size, last.cell);
  order.from_steps(static_cast<const T*>(states.data()), width, hidden);
  if (next) trace.table = std::move(*next);
  trace.level = level;
  trace.reverse = reverse;
  trace.cell_clip = options.cell_clip;
  trace.projection_clip = options.projection_clip;
}

/// Throws ShapeMismatch unless the trace is that of a run over x with these weights.
template <class T, class Device, class View>
void check_lstm_trace(const LstmTrace<T, Device>& trace, const View& x, const LstmWeights<T, Device>& weights,
                      const char* what) {
  const auto [size, width] = lstm_sizes(weights);
  check_trace(trace, x, width, what, trace.cell.row_size() == size);
}

/// The gradients of `run_lstm`, whose arguments have been checked.
template <Executor E, class T>
void run_lstm_grad(const E& executor, const Columns<const T>& dhidden, const Input<E, T>& x,
                   const LstmWeights<T, typename E::device>& weights, const LstmTrace<T, typename E::device>& trace,
                   const LstmStates<const T>& dlast, T* dx, const LstmWeightOutputs<T, typename E::device>& dweights,
                   const LstmStates<T>& dinitial) {
  const LstmUnits<T> units = lstm_units(weights, trace);
  const std::int64_t rows = x.rows(), inputs = x.row_size(), sequences = trace.table.size();
  const std::int64_t size = units.size, width = units.width();
  const StepOrder<E> order(executor, trace.table, trace.reverse);
  const T* const initial_hidden = given(trace.initial_hidden);
  const T* const initial_cell = given(trace.initial_cell);
  const T *const peepholes = units.peepholes, *const projection = units.projection.weights;
  const kernel::Scratch<E, T> dgates(executor, rows * 4 * size);
  const kernel::Scratch<E, T> dpeepholes(executor, peepholes ? rows * 3 * size : 0);
  const kernel::Scratch<E, T> shown(executor, projection ? rows * size : 0);
  // With a projection, the gradients with respect to its products replace those with respect to the states.
  const kernel::Scratch<E, T> dsteps(executor, rows * width);
  // The gradients by rank: with respect to the last states for sequences that the steps so far have not reached,
  // otherwise with respect to the states before the step.
  const kernel::Scratch<E, T> dstate(executor, sequences * width);
  const kernel::Scratch<E, T> dcell(executor, sequences * size);
  const LstmStepsBack<E, T> back(executor, units, order.widest());
  if (dhidden.data) order.to_steps(dhidden, width, dsteps.data());
  order.to_ranks(dlast.hidden, width, dstate.data());
  order.to_ranks(dlast.cell, size, dcell.data());
  for (std::int64_t t = order.steps(); t-- > 0;) {
    const std::int64_t active = order.active(t), start = order.start(t);
    back.step(active, trace.gates.data() + start * 4 * size,
              t > 0 ? trace.cell.data() + order.start(t - 1) * size : initial_cell, trace.cell.data() + start * size,
              dhidden.data ? dsteps.data() + start * width : nullptr, dstate.data(), dcell.data(),
              dgates.data() + start * 4 * size, peepholes ? dpeepholes.data() + start * 3 * size : nullptr,
              trace.hidden.data() + start * width, dsteps.data() + start * width);
  }
  order.project_grad(x.data(), inputs, weights.input.data(), static_cast<const T*>(dgates.data()), 4 * size, dx,
                     dweights.input.data(), given(weights.bias) ? dweights.bias.data() : nullptr);
  order.recur_grad(trace.hidden.data(), initial_hidden, width, 4 * size, static_cast<const T*>(dgates.data()), 4 * size,
                   dweights.recurrent.data(), 4 * size);
  if (peepholes) {
    sum_columns(executor, static_cast<const T*>(dpeepholes.data()), rows, 3 * size, dweights.peepholes.data());
  }
  if (projection) {
    show_again(executor, units, rows, trace.gates.data(), trace.cell.data(), shown.data());
    matrix_product<E, T>(executor, true, false, size, width, rows, 1, shown.data(), size, dsteps.data(), width, 0,
                         dweights.projection.data(), width);
  }
  order.from_ranks(static_cast<const T*>(dstate.data()), width, dinitial.hidden);
  order.from_ranks(static_cast<const T*>(dcell.data()), size, dinitial.cell);
}

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
    check_lstm_weights(x, weights, options, name);
    const std::int64_t sequences = x.lod_view().size(level);
    const auto [size, width] = lstm_sizes(weights);
    check_states(options.initial_hidden, sequences, width, {name, "initial_hidden"});
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
                                     {"weights.projection", weights.projection},
                                     {"initial_hidden", options.initial_hidden},
                                     {"initial_cell", options.initial_cell}};
    check_apart(name, outputs, arguments);
    const auto out = prepare(executor, {name, "hidden"}, hidden, as_x, {width}, {});
    const auto out_hidden = prepare(executor, {name, "last_hidden"}, last_hidden, above, {width}, {});
    const auto out_cell = prepare(executor, {name, "last_cell"}, last_cell, above, {size}, {});
    run_lstm<E, T>(executor, name, x, weights,
                   {all_columns(options.initial_hidden, width), all_columns(options.initial_cell, size)}, options,
                   options.reverse, level, {out.data(), width}, {{out_hidden.data(), width}, {out_cell.data(), size}},
                   trace);
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
    check_lstm_weights(x, weights, trace, name);
    const auto [size, width] = lstm_sizes(weights);
    check_lstm_trace(trace, x, weights, name);
    const std::int64_t sequences = trace.table.size();
    check_states(dhidden, x.rows(), width, {name, "dhidden"});
    check_states(options.dlast_hidden, sequences, width, {name, "dlast_hidden"});
    check_states(options.dlast_cell, sequences, size, {name, "dlast_cell"});
    const SameLevels as_x{x.lod_view()};
    const LevelsAbove above{x.lod_view(), trace.level};
    const OtherMemory outputs[] = {{"dx", dx},
                                   {"dweights.input", dweights.input},
                                   {"dweights.recurrent", dweights.recurrent},
                                   {"dweights.bias", dweights.bias},
                                   {"dweights.peepholes", dweights.peepholes},
                                   {"dweights.projection", dweights.projection},
                                   {"dinitial_hidden", dinitial_hidden},
                                   {"dinitial_cell", dinitial_cell}};
    const OtherMemory arguments[] = {{"dhidden", dhidden},
                                     {"x", x},
                                     {"weights.input", weights.input},
                                     {"weights.recurrent", weights.recurrent},
                                     {"weights.bias", weights.bias},
                                     {"weights.peepholes", weights.peepholes},
                                     {"weights.projection", weights.projection},
                                     {"trace.gates", trace.gates},
                                     {"trace.cell", trace.cell},
                                     {"trace.hidden", trace.hidden},
                                     {"trace.initial_hidden", trace.initial_hidden},
                                     {"trace.initial_cell", trace.initial_cell},
                                     {"dlast_hidden", options.dlast_hidden},
                                     {"dlast_cell", options.dlast_cell}};
    check_apart(name, outputs, arguments);
    const auto out = prepare(executor, {name, "dx"}, dx, as_x, x.row_shape(), {});
    const auto out_weights = prepare_lstm_weights(executor, name, dweights, weights);
    const auto out_hidden = prepare(executor, {name, "dinitial_hidden"}, dinitial_hidden, above, {width}, {});
    const auto out_cell = prepare(executor, {name, "dinitial_cell"}, dinitial_cell, above, {size}, {});
    run_lstm_grad<E, T>(executor, all_columns(dhidden, width), x, weights, trace,
                        {all_columns(options.dlast_hidden, width), all_columns(options.dlast_cell, size)}, out.data(),
                        out_weights, {{out_hidden.data(), width}, {out_cell.data(), size}});
  }
};

}  // namespace operation

/// Reads each sequence of `level` row by row; the rows of x may have any shape. `hidden` has a row of n numbers, of p
/// with a projection, for each row of x, and x's LoD; `last_hidden` and `last_cell` have one row for each sequence (the
/// initial state for an empty one), and the levels of x above `level`. All sequences take their steps together: the
/// products with the rows of x are a single matrix product, those with the states are one matrix product for each step,
/// over the sequences that take it.
///
/// The bits depend neither on threads nor on the rest of the batch. float16 and bfloat16 are rounded after each product
/// and in each state. The outputs must not overlap the arguments. If memory runs out, the contents of the trace are
/// lost, and gradients reject it. Throws InvalidLoD if x has no level, OutOfRange for the level and for a negative
/// limit, ShapeMismatch for weights or initial states that do not fit.
inline constexpr operation::Call<op::lstm> lstm{};
inline constexpr operation::CallInto<op::lstm> lstm_into{};

/// The gradients of `lstm` with respect to x, the weights and the initial states, by back-propagation through time.
/// `dhidden` is the gradient with respect to `hidden`; without rows it stands for zeros, as do those of the final
/// states. x and weights are the arguments of `lstm`, `trace` is the one that it wrote.
///
/// A number that reached a limit passes on no gradient. Gradients with respect to the weights are overwritten, in the
/// shapes of the weights. Each of them, a sum over all time steps, is computed as one matrix product. The bits do not
/// depend on threads. The outputs must not overlap the arguments. If memory runs out, the contents of the outputs are
/// lost. Throws ShapeMismatch if x, the weights or the gradients do not fit the trace.
inline constexpr operation::Call<op::lstm_grad> lstm_grad{};
inline constexpr operation::CallInto<op::lstm_grad> lstm_grad_into{};

/// The results of `lstm` and `lstm_grad`, described: see <lod/infer.hpp>.
inline LstmDesc infer_lstm(const LoDTensorDesc& x, const LstmWeightsDesc& weights,
                           const LstmDescOptions& options = {}) {
  infer::Batch hidden = infer::batch_for<op::lstm>(x, "lstm");
  infer::Batch last_hidden = hidden.pooled(options.level, "lstm"), last_cell = last_hidden;
  const auto [size, width] = operation::infer_lstm_sizes(hidden, weights, "lstm");
  hidden.row_shape = last_hidden.row_shape = {width};
  last_cell.row_shape = {size};
  operation::infer_initial(options.initial_hidden, last_hidden, "lstm: initial_hidden");
  operation::infer_initial(options.initial_cell, last_cell, "lstm: initial_cell");
  return {hidden, last_hidden, last_cell};
}
inline LstmGradDesc infer_lstm_grad(const LoDTensorDesc& x, const LstmWeightsDesc& weights,
                                    const LstmDescOptions& options = {}) {
  const LstmDesc forward = infer_lstm(x, weights, options);
  return {x, weights, forward.last_hidden, forward.last_cell};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

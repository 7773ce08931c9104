// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup recurrent
/// Gated recurrent units over ragged batches.
///
/// For each row x of a sequence, with h' the hidden state before it,
///
///     r = sigmoid(x Wr + h' Ur + br)                what to use of h'
///     z = sigmoid(x Wz + h' Uz + bz)                what to keep of h'
///     n =    tanh(x Wn + bn + r * (h' Un + b'))     what is new
///     h = z * h' + (1 - z) * n
///
/// Without `reset_after`, n = tanh(x Wn + bn + (r * h') Un + b'); without `origin_mode`, h = (1 - z) * h' + z * n.
///
/// The matrices of the three are side by side, in this order, which is that of torch::nn::GRU. The differences: W and U
/// here are torch's weight_ih and weight_hh transposed; `bias` is torch's bias_ih with the parts r and z of bias_hh
/// added; b', the part n of bias_hh, is `recurrent_bias`. PaddlePaddle's dynamic_gru is the form without `reset_after`,
/// and by default without `origin_mode`; its matrices have the order z r n, and its `recurrent` is two matrices, one
/// after the other: {n, 2 n} for z and r, {n, n} for n.
#pragma once

#include <lod/core/rank_table.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/gru_cell.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/ops/recurrent_cell.hpp>

#include <cstdint>
#include <optional>

namespace lod::inline LOD_INTERFACE::op {
struct gru : elements::Floating {
  static constexpr Text text{
      "x, weights",
      "The hidden states of gated recurrent units over each sequence, and the trace that `gru_grad` needs."};
};
struct gru_grad : elements::Floating {
  static constexpr Text text{"dhidden, x, weights, trace"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `gru`.
template <class T, class Device = Cpu>
struct GruOptions {
  /// h' at the first step: one row for each sequence, in the order of the batch. No rows: zero.
  LoDTensorView<const T, Device> initial_hidden = {};
  bool reverse = false;     ///< from the last row of each sequence to the first
  int level = -1;           ///< the level whose sequences are read, all rows under each; by default the last
  bool reset_after = true;  ///< whether r is applied after the product with Un, as in cuDNN; else before it, to h'
  bool origin_mode = true;  ///< whether h' is weighted by z and n by 1 - z, as in the paper; else the other way round
};

/// What `gru_grad` needs from `gru`. The rows are ordered by time step: those of step 0, longest sequences first, those
/// of step 1, and so on. Memory is reused from call to call.
template <class T, class Device = Cpu>
struct GruTrace {
  RankTable table;  ///< the sequences, one row per step
  int level = 0;    ///< their level
  bool reverse = false;
  bool reset_after = true;
  bool origin_mode = true;
  LoDTensor<T, Device> gates;           ///< r, z, n
  LoDTensor<T, Device> memory;          ///< h' Un + b'; without `reset_after`, r * h'
  LoDTensor<T, Device> hidden;          ///< h
  LoDTensor<T, Device> initial_hidden;  ///< by rank; no rows if none were given
};

/// The result of `gru`.
template <class T, class Device = Cpu>
struct Gru {
  LoDTensor<T, Device> hidden;       ///< h after each row; LoD as x
  LoDTensor<T, Device> last_hidden;  ///< h after the last step of each sequence; LoD: the levels above
  GruTrace<T, Device> trace;
};

/// The options of `gru_grad`: the gradient with respect to the final states, one row for each sequence, in the order of
/// the batch. No rows: zero.
template <class T, class Device = Cpu>
struct GruGradOptions {
  LoDTensorView<const T, Device> dlast_hidden = {};
};

/// The result of `gru_grad`: the gradients with respect to the arguments of `gru`.
template <class T, class Device = Cpu>
struct GruGrad {
  LoDTensor<T, Device> x;
  GruWeights<T, Device> weights;
  LoDTensor<T, Device> initial_hidden;  ///< one row for each sequence, even if none were given
};

/// The options of `infer_gru`: an initial state described; an omitted one has no dimension, or no row.
struct GruDescOptions {
  LoDTensorDesc initial_hidden = {};
  int level = -1;
};

/// The result of `gru`, described, except the trace, which is for `gru_grad` alone.
struct GruDesc {
  LoDTensorDesc hidden;
  LoDTensorDesc last_hidden;
};

/// The result of `gru_grad`, described.
struct GruGradDesc {
  LoDTensorDesc x;
  GruWeightsDesc weights;
  LoDTensorDesc initial_hidden;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Runs gated recurrent units over x, whose arguments have been checked, in one direction.
template <Executor E, class T, class Options>
void run_gru(const E& executor, const char* name, const Input<E, T>& x,
             const GruWeights<T, typename E::device>& weights, const Columns<const T>& initial_hidden,
             const Options& options, bool reverse, int level, const Columns<T>& hidden, const Columns<T>& last_hidden,
             GruTrace<T, typename E::device>& trace) {
  const std::int64_t rows = x.rows(), inputs = x.row_size(), size = weights.recurrent.rows();
  std::optional<RankTable> next = next_table(trace.table, x.lod_view(), level);
  const StepOrder<E> order(executor, next ? *next : trace.table, reverse);
  const auto prepared = [&](const char* output, auto& y, std::int64_t count, std::int64_t row_size) {
    return prepare(executor, {name, output}, y, PlainRows{count}, {row_size}, {});
  };
  const auto gates = prepared("trace.gates", trace.gates, rows, 3 * size);
  const auto memory = prepared("trace.memory", trace.memory, rows, size);
  const auto states = prepared("trace.hidden", trace.hidden, rows, size);
  const auto kept =
      prepared("trace.initial_hidden", trace.initial_hidden, initial_hidden.data ? order.sequences() : 0, size);
  const NoTraceOnError no_trace(trace);
  const T* const initial = order.keep_states(initial_hidden, size, kept);
  const kernel::Scratch<E, T> products(executor, options.reset_after ? order.widest() * 3 * size : 0);

  order.project(x.data(), inputs, weights.input.data(), given(weights.bias), 3 * size, gates.data());
  const GruUnits<T> units = gru_units(weights, options.origin_mode);
  for (std::int64_t t = 0; t < order.steps(); ++t) {
    const std::int64_t start = order.start(t);
    gru_step(executor, units, options.reset_after, order.active(t),
             t > 0 ? states.data() + order.start(t - 1) * size : initial, products.data(),
             gates.data() + start * 3 * size, memory.data() + start * size, states.data() + start * size);
  }
  order.last_states(states.data(), initial, size, last_hidden);
  order.from_steps(static_cast<const T*>(states.data()), size, hidden);
  if (next) trace.table = std::move(*next);
  trace.level = level;
  trace.reverse = reverse;
  trace.reset_after = options.reset_after;
  trace.origin_mode = options.origin_mode;
}

/// The gradients of `run_gru`, whose arguments have been checked.
template <Executor E, class T>
void run_gru_grad(const E& executor, const Columns<const T>& dhidden, const Input<E, T>& x,
                  const GruWeights<T, typename E::device>& weights, const GruTrace<T, typename E::device>& trace,
                  const Columns<const T>& dlast_hidden, T* dx, const GruWeightOutputs<T, typename E::device>& dweights,
                  const Columns<T>& dinitial_hidden) {
  const std::int64_t rows = x.rows(), inputs = x.row_size(), size = weights.recurrent.rows();
  const StepOrder<E> order(executor, trace.table, trace.reverse);
  const T* const initial = given(trace.initial_hidden);
  const kernel::Scratch<E, T> dgates(executor, rows * 3 * size);
  // Without `reset_after`, x and h' contribute to the gates in one way, and have one gradient.
  const kernel::Scratch<E, T> of_products(executor, trace.reset_after ? rows * 3 * size : 0);
  const kernel::Scratch<E, T>& dproducts = trace.reset_after ? of_products : dgates;
  const kernel::Scratch<E, T> dsteps(executor, rows * size);
  // The gradients by rank: with respect to the last states for sequences that the steps so far have not reached,
  // otherwise with respect to the states before the step.
  const kernel::Scratch<E, T> dstate(executor, order.sequences() * size);
  const GruUnits<T> units = gru_units(weights, trace.origin_mode);
  const GruStepsBack<E, T> back(executor, units, trace.reset_after ? 0 : order.widest());
  if (dhidden.data) order.to_steps(dhidden, size, dsteps.data());
  order.to_ranks(dlast_hidden, size, dstate.data());
  for (std::int64_t t = order.steps(); t-- > 0;) {
    const std::int64_t start = order.start(t);
    back.step(trace.reset_after, order.active(t), t > 0 ? trace.hidden.data() + order.start(t - 1) * size : initial,
              trace.gates.data() + start * 3 * size, trace.memory.data() + start * size,
              dhidden.data ? dsteps.data() + start * size : nullptr, dstate.data(), dgates.data() + start * 3 * size,
              dproducts.data() + start * 3 * size);
  }
  order.project_grad(x.data(), inputs, weights.input.data(), static_cast<const T*>(dgates.data()), 3 * size, dx,
                     dweights.input.data(), given(weights.bias) ? dweights.bias.data() : nullptr);
  const T* const dgiven = dproducts.data();
  T* const drecurrent = dweights.recurrent.data();
  if (trace.reset_after) {
    order.recur_grad(trace.hidden.data(), initial, size, 3 * size, dgiven, 3 * size, drecurrent, 3 * size);
  } else {
    order.recur_grad(trace.hidden.data(), initial, size, 2 * size, dgiven, 3 * size, drecurrent, 3 * size);
    candidate_grad<E, T>(executor, units, rows, trace.memory.data(), dgiven, false, drecurrent + 2 * size);
  }
  if (given(weights.recurrent_bias)) {
    sum_some_columns<E, T>(executor, dgiven, rows, 3 * size, 2 * size, size, false, dweights.recurrent_bias.data());
  }
  order.from_ranks(static_cast<const T*>(dstate.data()), size, dinitial_hidden);
}

template <>
struct Declared<op::gru>
    : Takes<Tensor, Of<GruWeights>>, WithTyped<GruOptions>, GivesAll<Gru, Tensor, Tensor, Of<GruTrace>> {
  static constexpr const char* name = "gru";
  using Gradient = op::gru_grad;
  template <class T>
  using Kernels = kernel::Instances<kernel::Instance<kernel::MatrixProduct, T>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const GruWeights<T, typename E::device>& weights,
                  const GruOptions<T, typename E::device>& options, const To<E, T>& hidden, const To<E, T>& last_hidden,
                  GruTrace<T, typename E::device>& trace) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    check_gru_weights(x, weights, name);
    const std::int64_t size = weights.recurrent.rows();
    check_states(options.initial_hidden, x.lod_view().size(level), size, {name, "initial_hidden"});
    const SameLevels as_x{x.lod_view()};
    const LevelsAbove above{x.lod_view(), level};
    const OtherMemory outputs[] = {{"hidden", hidden},
                                   {"last_hidden", last_hidden},
                                   {"trace.gates", trace.gates},
                                   {"trace.memory", trace.memory},
                                   {"trace.hidden", trace.hidden},
                                   {"trace.initial_hidden", trace.initial_hidden}};
    const OtherMemory arguments[] = {{"x", x},
                                     {"weights.input", weights.input},
                                     {"weights.recurrent", weights.recurrent},
                                     {"weights.bias", weights.bias},
                                     {"weights.recurrent_bias", weights.recurrent_bias},
                                     {"initial_hidden", options.initial_hidden}};
    check_apart(name, outputs, arguments);
    const auto out = prepare(executor, {name, "hidden"}, hidden, as_x, {size}, {});
    const auto out_last = prepare(executor, {name, "last_hidden"}, last_hidden, above, {size}, {});
    run_gru<E, T>(executor, name, x, weights, all_columns(options.initial_hidden, size), options, options.reverse,
                  level, {out.data(), size}, {out_last.data(), size}, trace);
  }
};

template <>
struct Declared<op::gru_grad> : Takes<Tensor, Tensor, Of<GruWeights>, Of<GruTrace>>,
                                WithTyped<GruGradOptions>,
                                GivesAll<GruGrad, Tensor, Of<GruWeights>, Tensor> {
  static constexpr const char* name = "gru_grad";
  template <class T>
  using Kernels = kernel::Instances<kernel::Instance<kernel::TransposeMatrix, T>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dhidden, const Input<E, T>& x,
                  const GruWeights<T, typename E::device>& weights, const GruTrace<T, typename E::device>& trace,
                  const GruGradOptions<T, typename E::device>& options, const To<E, T>& dx,
                  GruWeights<T, typename E::device>& dweights, const To<E, T>& dinitial_hidden) {
    check_gru_weights(x, weights, name);
    const std::int64_t size = weights.recurrent.rows();
    check_trace(trace, x, size, name);
    check_states(dhidden, x.rows(), size, {name, "dhidden"});
    check_states(options.dlast_hidden, trace.table.size(), size, {name, "dlast_hidden"});
    const SameLevels as_x{x.lod_view()};
    const LevelsAbove above{x.lod_view(), trace.level};
    const OtherMemory outputs[] = {{"dx", dx},
                                   {"dweights.input", dweights.input},
                                   {"dweights.recurrent", dweights.recurrent},
                                   {"dweights.bias", dweights.bias},
                                   {"dweights.recurrent_bias", dweights.recurrent_bias},
                                   {"dinitial_hidden", dinitial_hidden}};
    const OtherMemory arguments[] = {{"dhidden", dhidden},
                                     {"x", x},
                                     {"weights.input", weights.input},
                                     {"weights.recurrent", weights.recurrent},
                                     {"weights.bias", weights.bias},
                                     {"weights.recurrent_bias", weights.recurrent_bias},
                                     {"trace.gates", trace.gates},
                                     {"trace.memory", trace.memory},
                                     {"trace.hidden", trace.hidden},
                                     {"trace.initial_hidden", trace.initial_hidden},
                                     {"dlast_hidden", options.dlast_hidden}};
    check_apart(name, outputs, arguments);
    const auto out = prepare(executor, {name, "dx"}, dx, as_x, x.row_shape(), {});
    const auto out_weights = prepare_gru_weights(executor, name, dweights, weights);
    const auto out_hidden = prepare(executor, {name, "dinitial_hidden"}, dinitial_hidden, above, {size}, {});
    run_gru_grad<E, T>(executor, all_columns(dhidden, size), x, weights, trace, all_columns(options.dlast_hidden, size),
                       out.data(), out_weights, {out_hidden.data(), size});
  }
};

}  // namespace operation

/// Reads each sequence of `level` row by row; the rows of x may have any shape. `hidden` has a row of n numbers for
/// each row of x, and x's LoD; `last_hidden` has one row for each sequence (the initial state for an empty one), and
/// the levels of x above `level`. All sequences take their steps together: the products with the rows of x are a single
/// matrix product, those with the states are one matrix product for each step, over the sequences that take it.
///
/// The bits depend neither on threads nor on the rest of the batch. float16 and bfloat16 are rounded after each product
/// and in each state. The outputs must not overlap the arguments. If memory runs out, the contents of the trace are
/// lost, and gradients reject it. Throws InvalidLoD if x has no level, OutOfRange for the level, ShapeMismatch for
/// weights or initial states that do not fit.
inline constexpr operation::Call<op::gru> gru{};
inline constexpr operation::CallInto<op::gru> gru_into{};

/// The gradients of `gru` with respect to x, the weights and the initial states, by back-propagation through time.
/// `dhidden` is the gradient with respect to `hidden`; without rows it stands for zeros, as does that of the final
/// states. x and weights are the arguments of `gru`, `trace` is the one that it wrote.
///
/// Gradients with respect to the weights are overwritten, in the shapes of the weights. Each of them, a sum over all
/// time steps, is computed as one matrix product. The bits do not depend on threads. The outputs must not overlap the
/// arguments. If memory runs out, the contents of the outputs are lost. Throws ShapeMismatch if x, the weights or the
/// gradients do not fit the trace.
inline constexpr operation::Call<op::gru_grad> gru_grad{};
inline constexpr operation::CallInto<op::gru_grad> gru_grad_into{};

/// The results of `gru` and `gru_grad`, described: see <lod/infer.hpp>.
inline GruDesc infer_gru(const LoDTensorDesc& x, const GruWeightsDesc& weights, const GruDescOptions& options = {}) {
  infer::Batch hidden = infer::batch_for<op::gru>(x, "gru");
  infer::Batch last = hidden.pooled(options.level, "gru");
  const std::int64_t size = operation::infer_gru_size(hidden, weights, "gru");
  hidden.row_shape = last.row_shape = {size};
  operation::infer_initial(options.initial_hidden, last, "gru: initial_hidden");
  return {hidden, last};
}
inline GruGradDesc infer_gru_grad(const LoDTensorDesc& x, const GruWeightsDesc& weights,
                                  const GruDescOptions& options = {}) {
  const GruDesc forward = infer_gru(x, weights, options);
  return {x, weights, forward.last_hidden};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

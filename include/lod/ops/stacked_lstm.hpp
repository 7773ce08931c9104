// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup recurrent
/// Layers of `lstm` on top of each other, in one direction or in both.
///
/// The first layer reads the rows of x, each other one the hidden states of the layer below it, those of its forward
/// direction and of its backward direction side by side. In torch::nn::LSTM, these are `num_layers`, `bidirectional`
/// and `dropout`; here each layer may have a size of its own, a projection or none, and either direction or both.
#pragma once

#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/lstm.hpp>
#include <lod/ops/recurrent_stack.hpp>
#include <lod/ops/sequence_dropout.hpp>

#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace lod::inline LOD_INTERFACE::op {
struct stacked_lstm : elements::Floating {
  static constexpr Text text{"x, layers",
                             "The hidden states of the last of several layers of `lstm`, each in one direction or in "
                             "both, with the last states of all and the trace that `stacked_lstm_grad` needs."};
};
struct stacked_lstm_grad : elements::Floating {
  static constexpr Text text{"dhidden, x, layers, trace"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The weights of a layer, for either direction or both, and also their gradients. A direction whose `recurrent` has no
/// rows is not there.
template <class T, class Device = Cpu>
struct LstmLayer {
  LstmWeights<T, Device> forward = {};
  LstmWeights<T, Device> backward = {};  ///< from the last row of each sequence to the first
};
/// The layers of a network, the one that reads x first.
template <class T, class Device = Cpu>
using LstmLayers = std::vector<LstmLayer<T, Device>>;

/// The options of `stacked_lstm`.
template <class T, class Device = Cpu>
struct StackedLstmOptions {
  /// h' and c' at the first step: a row for each sequence, in the order of the batch, with the numbers of all layers
  /// and directions side by side, as `last_hidden` and `last_cell` have them. No rows: zero.
  LoDTensorView<const T, Device> initial_hidden = {};
  LoDTensorView<const T, Device> initial_cell = {};
  int level = -1;              ///< the level whose sequences are read, all rows under each; by default the last
  double cell_clip = 0;        ///< as for `lstm`, in all layers
  double projection_clip = 0;  ///< as for `lstm`, in all layers
  double dropout = 0;          ///< the probability with which a number that a layer gives to the next one is set to 0
  std::uint64_t seed = 0;      ///< of dropout: the same seed drops the same numbers
};

/// What a layer keeps for the gradient.
template <class T, class Device = Cpu>
struct LstmLayerTrace {
  LoDTensor<T, Device> input;  ///< the rows that the layer read, if it is not the first, which reads x
  LstmTrace<T, Device> forward;
  LstmTrace<T, Device> backward;
};

/// What `stacked_lstm_grad` needs from `stacked_lstm`. Memory is reused from call to call.
template <class T, class Device = Cpu>
struct StackedLstmTrace {
  std::vector<LstmLayerTrace<T, Device>> layers;
  double dropout = 0;
  std::uint64_t seed = 0;
};

/// The result of `stacked_lstm`.
template <class T, class Device = Cpu>
struct StackedLstm {
  LoDTensor<T, Device> hidden;       ///< h of the last layer after each row, both directions side by side; LoD as x
  LoDTensor<T, Device> last_hidden;  ///< h of all layers after the last step of each sequence; LoD: the levels above
  LoDTensor<T, Device> last_cell;    ///< c after the last step
  StackedLstmTrace<T, Device> trace;
};

/// The options of `stacked_lstm_grad`: gradients with respect to the final states, one row for each sequence, in the
/// order of the batch. No rows: zero.
template <class T, class Device = Cpu>
struct StackedLstmGradOptions {
  LoDTensorView<const T, Device> dlast_hidden = {};
  LoDTensorView<const T, Device> dlast_cell = {};
};

/// The result of `stacked_lstm_grad`: the gradients with respect to the arguments of `stacked_lstm`.
template <class T, class Device = Cpu>
struct StackedLstmGrad {
  LoDTensor<T, Device> x;
  LstmLayers<T, Device> layers;
  LoDTensor<T, Device> initial_hidden;  ///< one row for each sequence, even if none were given
  LoDTensor<T, Device> initial_cell;
};

/// The weights of a layer, described. A direction whose `recurrent` has no dimension, or no row, is not there.
struct LstmLayerDesc {
  LstmWeightsDesc forward = {};
  LstmWeightsDesc backward = {};
};

/// The result of `stacked_lstm_grad`, described.
struct StackedLstmGradDesc {
  LoDTensorDesc x;
  std::vector<LstmLayerDesc> layers;
  LoDTensorDesc initial_hidden;
  LoDTensorDesc initial_cell;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <class T, class Device>
struct Unfilled<LstmLayer<T, Device>> {
  template <class Resource>
  static LstmLayer<T, Device> from(Resource* resource) {
    using Weights = Unfilled<LstmWeights<T, Device>>;
    return {Weights::from(resource), Weights::from(resource)};
  }
};

/// One direction of a layer: see recurrent_stack.hpp.
struct LstmDirection {
  static constexpr std::size_t states = 2;

  template <class T, class Device>
  static std::array<std::int64_t, 2> sizes(const LstmWeights<T, Device>& weights) {
    const auto [size, width] = lstm_sizes(weights);
    return std::array{width, size};
  }
  template <class X, class T, class Device, class Options>
  static void check(const X& x, const LstmWeights<T, Device>& weights, const Options& options, const char* what) {
    check_lstm_weights(x, weights, options, what);
  }
  template <class T, class Device, class View>
  static void check_trace(const LstmTrace<T, Device>& trace, const View& x, const LstmWeights<T, Device>& weights,
                          const char* what) {
    check_lstm_trace(trace, x, weights, what);
  }
  template <class T, class Device>
  static std::array<OtherMemory, 5> memory(const LstmWeights<T, Device>& weights) {
    return {{{"weights.input", weights.input},
             {"weights.recurrent", weights.recurrent},
             {"weights.bias", weights.bias},
             {"weights.peepholes", weights.peepholes},
             {"weights.projection", weights.projection}}};
  }
  template <class T, class Device>
  static std::array<OtherMemory, 5> memory(const LstmTrace<T, Device>& trace) {
    return {{{"trace.gates", trace.gates},
             {"trace.cell", trace.cell},
             {"trace.hidden", trace.hidden},
             {"trace.initial_hidden", trace.initial_hidden},
             {"trace.initial_cell", trace.initial_cell}}};
  }
  template <Executor E, class T, class Device, class Options>
  static void run(const E& executor, const char* name, const LoDTensorView<const T, Device>& x,
                  const LstmWeights<T, Device>& weights, const std::array<Columns<const T>, 2>& initial,
                  const Options& options, bool reverse, int level, const Columns<T>& hidden,
                  const std::array<Columns<T>, 2>& last, LstmTrace<T, Device>& trace) {
    run_lstm<E, T>(executor, name, x, weights, {initial[0], initial[1]}, options, reverse, level, hidden,
                   {last[0], last[1]}, trace);
  }
  template <Executor E, class T, class Device>
  static auto prepare(const E& executor, const char* name, LstmWeights<T, Device>& dweights,
                      const LstmWeights<T, Device>& weights) {
    return prepare_lstm_weights(executor, name, dweights, weights);
  }
  template <Executor E, class T>
  static void grad(const E& executor, const Columns<const T>& dhidden, const Input<E, T>& x,
                   const LstmWeights<T, typename E::device>& weights, const LstmTrace<T, typename E::device>& trace,
                   const std::array<Columns<const T>, 2>& dlast, T* dx,
                   const LstmWeightOutputs<T, typename E::device>& dweights,
                   const std::array<Columns<T>, 2>& dinitial) {
    run_lstm_grad<E, T>(executor, dhidden, x, weights, trace, {dlast[0], dlast[1]}, dx, dweights,
                        {dinitial[0], dinitial[1]});
  }
};

template <>
struct Declared<op::stacked_lstm> : Takes<Tensor, Of<LstmLayers>>,
                                    WithTyped<StackedLstmOptions>,
                                    GivesAll<StackedLstm, Tensor, Tensor, Tensor, Of<StackedLstmTrace>> {
  static constexpr const char* name = "stacked_lstm";
  using Gradient = op::stacked_lstm_grad;
  template <class T>
  using Kernels = kernel::Instances<kernel::Instance<kernel::StepStates, kernel::MoveColumns<T>>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const LstmLayers<T, typename E::device>& layers,
                  const StackedLstmOptions<T, typename E::device>& options, const To<E, T>& hidden,
                  const To<E, T>& last_hidden, const To<E, T>& last_cell,
                  StackedLstmTrace<T, typename E::device>& trace) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    check_layers<LstmDirection>(x, layers, options, name);
    check_dropout({.probability = options.dropout}, x.levels(), name);
    const auto [states, cells] = stack_sizes<LstmDirection>(layers);
    const std::int64_t sequences = x.lod_view().size(level);
    check_states(options.initial_hidden, sequences, states, {name, "initial_hidden"});
    check_states(options.initial_cell, sequences, cells, {name, "initial_cell"});
    const OtherMemory outputs[] = {{"hidden", hidden}, {"last_hidden", last_hidden}, {"last_cell", last_cell}};
    const OtherMemory arguments[] = {
        {"x", x}, {"initial_hidden", options.initial_hidden}, {"initial_cell", options.initial_cell}};
    check_stack_apart<LstmDirection>(name, outputs, arguments, trace.layers, layers);
    const SameLevels as_x{x.lod_view()};
    const LevelsAbove above{x.lod_view(), level};
    const std::int64_t width = layer_sizes<LstmDirection>(layers.back())[0];
    const auto out = prepare(executor, {name, "hidden"}, hidden, as_x, {width}, {});
    const auto out_hidden = prepare(executor, {name, "last_hidden"}, last_hidden, above, {states}, {});
    const auto out_cell = prepare(executor, {name, "last_cell"}, last_cell, above, {cells}, {});
    run_stack<LstmDirection, E, T>(
        executor, name, x, level, layers,
        {all_columns(options.initial_hidden, states), all_columns(options.initial_cell, cells)}, options,
        {out.data(), width}, {Columns<T>{out_hidden.data(), states}, Columns<T>{out_cell.data(), cells}}, trace);
  }
};

template <>
struct Declared<op::stacked_lstm_grad> : Takes<Tensor, Tensor, Of<LstmLayers>, Of<StackedLstmTrace>>,
                                         WithTyped<StackedLstmGradOptions>,
                                         GivesAll<StackedLstmGrad, Tensor, Of<LstmLayers>, Tensor, Tensor> {
  static constexpr const char* name = "stacked_lstm_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dhidden, const Input<E, T>& x,
                  const LstmLayers<T, typename E::device>& layers, const StackedLstmTrace<T, typename E::device>& trace,
                  const StackedLstmGradOptions<T, typename E::device>& options, const To<E, T>& dx,
                  LstmLayers<T, typename E::device>& dlayers, const To<E, T>& dinitial_hidden,
                  const To<E, T>& dinitial_cell) {
    check_layers<LstmDirection>(x, layers, LstmCellOptions(), name);
    const int level = check_stack_trace<LstmDirection>(x, layers, trace, name);
    const auto [states, cells] = stack_sizes<LstmDirection>(layers);
    const std::int64_t width = layer_sizes<LstmDirection>(layers.back())[0], sequences = x.lod_view().size(level);
    check_states(dhidden, x.rows(), width, {name, "dhidden"});
    check_states(options.dlast_hidden, sequences, states, {name, "dlast_hidden"});
    check_states(options.dlast_cell, sequences, cells, {name, "dlast_cell"});
    const OtherMemory outputs[] = {{"dx", dx}, {"dinitial_hidden", dinitial_hidden}, {"dinitial_cell", dinitial_cell}};
    const OtherMemory arguments[] = {
        {"dhidden", dhidden}, {"x", x}, {"dlast_hidden", options.dlast_hidden}, {"dlast_cell", options.dlast_cell}};
    check_stack_apart<LstmDirection>(name, outputs, arguments, dlayers, layers, trace.layers);
    const LevelsAbove above{x.lod_view(), level};
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{x.lod_view()}, x.row_shape(), {});
    const auto out_hidden = prepare(executor, {name, "dinitial_hidden"}, dinitial_hidden, above, {states}, {});
    const auto out_cell = prepare(executor, {name, "dinitial_cell"}, dinitial_cell, above, {cells}, {});
    LayerOutputs<LstmDirection, E, std::remove_cvref_t<decltype(layers)>> outputs_of_layers(executor, dlayers);
    outputs_of_layers.prepare(name, layers);
    run_stack_grad<LstmDirection, E, T>(
        executor, all_columns(dhidden, width), x, layers, trace,
        {all_columns(options.dlast_hidden, states), all_columns(options.dlast_cell, cells)}, out.data(),
        outputs_of_layers, {Columns<T>{out_hidden.data(), states}, Columns<T>{out_cell.data(), cells}});
    outputs_of_layers.finish();
  }
};

}  // namespace operation

/// Reads each sequence of `level` by each layer in turn. `hidden` has a row for each row of x, with the states of the
/// last layer: n numbers, or p with a projection, for each of its directions. `last_hidden` and `last_cell` have one
/// row for each sequence, and the levels of x above `level`: the last states of layer 0's forward direction, of its
/// backward direction, of layer 1's, and so on, side by side. The last state of a backward direction is that at the
/// first row.
///
/// The result is that of `lstm` for each direction, with `sequence_dropout` between layers, to the last bit. No copy is
/// made to join directions: each writes to its columns of what the next layer reads, which is kept for the gradient.
/// The outputs must not overlap the arguments. If memory runs out, the contents of the outputs and of the trace are
/// lost, and gradients reject the trace. Throws InvalidLoD if x has no level, OutOfRange for the level, for a negative
/// limit and for a probability outside [0, 1], ShapeMismatch for no layers, and for weights or initial states that do
/// not fit.
inline constexpr operation::Call<op::stacked_lstm> stacked_lstm{};
inline constexpr operation::CallInto<op::stacked_lstm> stacked_lstm_into{};

/// The gradients of `stacked_lstm` with respect to x, the weights of all layers and the initial states. `dhidden` is
/// the gradient with respect to `hidden`; without rows it stands for zeros, as do those of the final states. x and the
/// layers are the arguments of `stacked_lstm`, `trace` is the one that it wrote.
///
/// Gradients with respect to the weights are overwritten, in the shapes of the weights. The bits do not depend on
/// threads. The outputs must not overlap the arguments. If memory runs out, the contents of the outputs are lost.
/// Throws ShapeMismatch if x, the weights or the gradients do not fit the trace.
inline constexpr operation::Call<op::stacked_lstm_grad> stacked_lstm_grad{};
inline constexpr operation::CallInto<op::stacked_lstm_grad> stacked_lstm_grad_into{};

/// The results of `stacked_lstm` and `stacked_lstm_grad`, described: see <lod/infer.hpp>.
inline LstmDesc infer_stacked_lstm(const LoDTensorDesc& x, const std::vector<LstmLayerDesc>& layers,
                                   const LstmDescOptions& options = {}) {
  infer::Batch hidden = infer::batch_for<op::stacked_lstm>(x, "stacked_lstm");
  infer::Batch last_hidden = hidden.pooled(options.level, "stacked_lstm"), last_cell = last_hidden;
  const auto sizes = operation::infer_stack_sizes<operation::LstmDirection>(
      hidden, layers, "stacked_lstm", [](const infer::Batch& input, const LstmWeightsDesc& weights, const char* what) {
        const auto [size, width] = operation::infer_lstm_sizes(input, weights, what);
        return std::array{width, size};
      });
  hidden.row_shape = {sizes[0][0]};
  last_hidden.row_shape = {sizes[1][0]};
  last_cell.row_shape = {sizes[1][1]};
  operation::infer_initial(options.initial_hidden, last_hidden, "stacked_lstm: initial_hidden");
  operation::infer_initial(options.initial_cell, last_cell, "stacked_lstm: initial_cell");
  return {hidden, last_hidden, last_cell};
}
inline StackedLstmGradDesc infer_stacked_lstm_grad(const LoDTensorDesc& x, const std::vector<LstmLayerDesc>& layers,
                                                   const LstmDescOptions& options = {}) {
  const LstmDesc forward = infer_stacked_lstm(x, layers, options);
  return {x, layers, forward.last_hidden, forward.last_cell};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

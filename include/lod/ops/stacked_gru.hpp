// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup recurrent
/// Layers of `gru` on top of each other, in one direction or in both, as `stacked_lstm` has those of `lstm`.
#pragma once

#include <lod/ops/declaration.hpp>
#include <lod/ops/gru.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/recurrent_stack.hpp>
#include <lod/ops/sequence_dropout.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace lod::inline LOD_INTERFACE::op {
struct stacked_gru : elements::Floating {
  static constexpr Text text{"x, layers",
                             "The hidden states of the last of several layers of `gru`, each in one direction or in "
                             "both, with the last states of all and the trace that `stacked_gru_grad` needs."};
};
struct stacked_gru_grad : elements::Floating {
  static constexpr Text text{"dhidden, x, layers, trace"};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The weights of a layer, for either direction or both, and also their gradients. A direction whose `recurrent` has no
/// rows is not there.
template <class T, class Device = Cpu>
struct GruLayer {
  GruWeights<T, Device> forward = {};
  GruWeights<T, Device> backward = {};  ///< from the last row of each sequence to the first
};
/// The layers of a network, the one that reads x first.
template <class T, class Device = Cpu>
using GruLayers = std::vector<GruLayer<T, Device>>;

/// The options of `stacked_gru`.
template <class T, class Device = Cpu>
struct StackedGruOptions {
  /// h' at the first step: a row for each sequence, in the order of the batch, with the numbers of all layers and
  /// directions side by side, as `last_hidden` has them. No rows: zero.
  LoDTensorView<const T, Device> initial_hidden = {};
  int level = -1;           ///< the level whose sequences are read, all rows under each; by default the last
  bool reset_after = true;  ///< as for `gru`, in all layers
  bool origin_mode = true;  ///< as for `gru`, in all layers
  double dropout = 0;       ///< the probability with which a number that a layer gives to the next one is set to 0
  std::uint64_t seed = 0;   ///< of dropout: the same seed drops the same numbers
};

/// What a layer keeps for the gradient.
template <class T, class Device = Cpu>
struct GruLayerTrace {
  LoDTensor<T, Device> input;  ///< the rows that the layer read, if it is not the first, which reads x
  GruTrace<T, Device> forward;
  GruTrace<T, Device> backward;
};

/// What `stacked_gru_grad` needs from `stacked_gru`. Memory is reused from call to call.
template <class T, class Device = Cpu>
struct StackedGruTrace {
  std::vector<GruLayerTrace<T, Device>> layers;
  double dropout = 0;
  std::uint64_t seed = 0;
};

/// The result of `stacked_gru`.
template <class T, class Device = Cpu>
struct StackedGru {
  LoDTensor<T, Device> hidden;       ///< h of the last layer after each row, both directions side by side; LoD as x
  LoDTensor<T, Device> last_hidden;  ///< h of all layers after the last step of each sequence; LoD: the levels above
  StackedGruTrace<T, Device> trace;
};

/// The options of `stacked_gru_grad`: the gradient with respect to the final states, one row for each sequence, in the
/// order of the batch. No rows: zero.
template <class T, class Device = Cpu>
struct StackedGruGradOptions {
  LoDTensorView<const T, Device> dlast_hidden = {};
};

/// The result of `stacked_gru_grad`: the gradients with respect to the arguments of `stacked_gru`.
template <class T, class Device = Cpu>
struct StackedGruGrad {
  LoDTensor<T, Device> x;
  GruLayers<T, Device> layers;
  LoDTensor<T, Device> initial_hidden;  ///< one row for each sequence, even if none were given
};

/// The weights of a layer, described. A direction whose `recurrent` has no dimension, or no row, is not there.
struct GruLayerDesc {
  GruWeightsDesc forward = {};
  GruWeightsDesc backward = {};
};

/// The result of `stacked_gru_grad`, described.
struct StackedGruGradDesc {
  LoDTensorDesc x;
  std::vector<GruLayerDesc> layers;
  LoDTensorDesc initial_hidden;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <class T, class Device>
struct Unfilled<GruLayer<T, Device>> {
  template <class Resource>
  static GruLayer<T, Device> from(Resource* resource) {
    using Weights = Unfilled<GruWeights<T, Device>>;
    return {Weights::from(resource), Weights::from(resource)};
  }
};

/// One direction of a layer: see recurrent_stack.hpp.
struct GruDirection {
  static constexpr std::size_t states = 1;

  template <class T, class Device>
  static std::array<std::int64_t, 1> sizes(const GruWeights<T, Device>& weights) {
    return std::array{weights.recurrent.rows()};
  }
  template <class X, class T, class Device, class Options>
  static void check(const X& x, const GruWeights<T, Device>& weights, const Options&, const char* what) {
    check_gru_weights(x, weights, what);
  }
  template <class T, class Device, class View>
  static void check_trace(const GruTrace<T, Device>& trace, const View& x, const GruWeights<T, Device>& weights,
                          const char* what) {
    operation::check_trace(trace, x, weights.recurrent.rows(), what);
  }
  template <class T, class Device>
  static std::array<OtherMemory, 4> memory(const GruWeights<T, Device>& weights) {
    return {{{"weights.input", weights.input},
             {"weights.recurrent", weights.recurrent},
             {"weights.bias", weights.bias},
             {"weights.recurrent_bias", weights.recurrent_bias}}};
  }
  template <class T, class Device>
  static std::array<OtherMemory, 4> memory(const GruTrace<T, Device>& trace) {
    return {{{"trace.gates", trace.gates},
             {"trace.memory", trace.memory},
             {"trace.hidden", trace.hidden},
             {"trace.initial_hidden", trace.initial_hidden}}};
  }
  template <Executor E, class T, class Device, class Options>
  static void run(const E& executor, const char* name, const LoDTensorView<const T, Device>& x,
                  const GruWeights<T, Device>& weights, const std::array<Columns<const T>, 1>& initial,
                  const Options& options, bool reverse, int level, const Columns<T>& hidden,
                  const std::array<Columns<T>, 1>& last, GruTrace<T, Device>& trace) {
    run_gru<E, T>(executor, name, x, weights, initial[0], options, reverse, level, hidden, last[0], trace);
  }
  template <Executor E, class T, class Device>
  static auto prepare(const E& executor, const char* name, GruWeights<T, Device>& dweights,
                      const GruWeights<T, Device>& weights) {
    return prepare_gru_weights(executor, name, dweights, weights);
  }
  template <Executor E, class T>
  static void grad(const E& executor, const Columns<const T>& dhidden, const Input<E, T>& x,
                   const GruWeights<T, typename E::device>& weights, const GruTrace<T, typename E::device>& trace,
                   const std::array<Columns<const T>, 1>& dlast, T* dx,
                   const GruWeightOutputs<T, typename E::device>& dweights, const std::array<Columns<T>, 1>& dinitial) {
    run_gru_grad<E, T>(executor, dhidden, x, weights, trace, dlast[0], dx, dweights, dinitial[0]);
  }
};

template <>
struct Declared<op::stacked_gru> : Takes<Tensor, Of<GruLayers>>,
                                   WithTyped<StackedGruOptions>,
                                   GivesAll<StackedGru, Tensor, Tensor, Of<StackedGruTrace>> {
  static constexpr const char* name = "stacked_gru";
  using Gradient = op::stacked_gru_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const GruLayers<T, typename E::device>& layers,
                  const StackedGruOptions<T, typename E::device>& options, const To<E, T>& hidden,
                  const To<E, T>& last_hidden, StackedGruTrace<T, typename E::device>& trace) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    check_layers<GruDirection>(x, layers, options, name);
    check_dropout({.probability = options.dropout}, x.levels(), name);
    const std::int64_t states = stack_sizes<GruDirection>(layers)[0];
    check_states(options.initial_hidden, x.lod_view().size(level), states, {name, "initial_hidden"});
    const OtherMemory outputs[] = {{"hidden", hidden}, {"last_hidden", last_hidden}};
    const OtherMemory arguments[] = {{"x", x}, {"initial_hidden", options.initial_hidden}};
    check_stack_apart<GruDirection>(name, outputs, arguments, trace.layers, layers);
    const std::int64_t width = layer_sizes<GruDirection>(layers.back())[0];
    const auto out = prepare(executor, {name, "hidden"}, hidden, SameLevels{x.lod_view()}, {width}, {});
    const auto out_hidden =
        prepare(executor, {name, "last_hidden"}, last_hidden, LevelsAbove{x.lod_view(), level}, {states}, {});
    run_stack<GruDirection, E, T>(executor, name, x, level, layers, {all_columns(options.initial_hidden, states)},
                                  options, {out.data(), width}, {Columns<T>{out_hidden.data(), states}}, trace);
  }
};

template <>
struct Declared<op::stacked_gru_grad> : Takes<Tensor, Tensor, Of<GruLayers>, Of<StackedGruTrace>>,
                                        WithTyped<StackedGruGradOptions>,
                                        GivesAll<StackedGruGrad, Tensor, Of<GruLayers>, Tensor> {
  static constexpr const char* name = "stacked_gru_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dhidden, const Input<E, T>& x,
                  const GruLayers<T, typename E::device>& layers, const StackedGruTrace<T, typename E::device>& trace,
                  const StackedGruGradOptions<T, typename E::device>& options, const To<E, T>& dx,
                  GruLayers<T, typename E::device>& dlayers, const To<E, T>& dinitial_hidden) {
    check_layers<GruDirection>(x, layers, options, name);
    const int level = check_stack_trace<GruDirection>(x, layers, trace, name);
    const std::int64_t states = stack_sizes<GruDirection>(layers)[0];
    const std::int64_t width = layer_sizes<GruDirection>(layers.back())[0];
    check_states(dhidden, x.rows(), width, {name, "dhidden"});
    check_states(options.dlast_hidden, x.lod_view().size(level), states, {name, "dlast_hidden"});
    const OtherMemory outputs[] = {{"dx", dx}, {"dinitial_hidden", dinitial_hidden}};
    const OtherMemory arguments[] = {{"dhidden", dhidden}, {"x", x}, {"dlast_hidden", options.dlast_hidden}};
    check_stack_apart<GruDirection>(name, outputs, arguments, dlayers, layers, trace.layers);
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{x.lod_view()}, x.row_shape(), {});
    const auto out_hidden =
        prepare(executor, {name, "dinitial_hidden"}, dinitial_hidden, LevelsAbove{x.lod_view(), level}, {states}, {});
    LayerOutputs<GruDirection, E, std::remove_cvref_t<decltype(layers)>> outputs_of_layers(executor, dlayers);
    outputs_of_layers.prepare(name, layers);
    run_stack_grad<GruDirection, E, T>(executor, all_columns(dhidden, width), x, layers, trace,
                                       {all_columns(options.dlast_hidden, states)}, out.data(), outputs_of_layers,
                                       {Columns<T>{out_hidden.data(), states}});
    outputs_of_layers.finish();
  }
};

}  // namespace operation

/// Reads each sequence of `level` by each layer in turn. `hidden` has a row for each row of x, with the n states of
/// each direction of the last layer. `last_hidden` has one row for each sequence, and the levels of x above `level`:
/// the last states of layer 0's forward direction, of its backward direction, of layer 1's, and so on, side by side.
/// The last state of a backward direction is that at the first row.
///
/// The result is that of `gru` for each direction, with `sequence_dropout` between layers, to the last bit. The outputs
/// must not overlap the arguments. If memory runs out, the contents of the outputs and of the trace are lost, and
/// gradients reject the trace. Throws InvalidLoD if x has no level, OutOfRange for the level and for a probability
/// outside [0, 1], ShapeMismatch for no layers, and for weights or initial states that do not fit.
inline constexpr operation::Call<op::stacked_gru> stacked_gru{};
inline constexpr operation::CallInto<op::stacked_gru> stacked_gru_into{};

/// The gradients of `stacked_gru` with respect to x, the weights of all layers and the initial states. `dhidden` is the
/// gradient with respect to `hidden`; without rows it stands for zeros, as does that of the final states. x and the
/// layers are the arguments of `stacked_gru`, `trace` is the one that it wrote.
///
/// Gradients with respect to the weights are overwritten, in the shapes of the weights. The bits do not depend on
/// threads. The outputs must not overlap the arguments. If memory runs out, the contents of the outputs are lost.
/// Throws ShapeMismatch if x, the weights or the gradients do not fit the trace.
inline constexpr operation::Call<op::stacked_gru_grad> stacked_gru_grad{};
inline constexpr operation::CallInto<op::stacked_gru_grad> stacked_gru_grad_into{};

/// The results of `stacked_gru` and `stacked_gru_grad`, described: see <lod/infer.hpp>.
inline GruDesc infer_stacked_gru(const LoDTensorDesc& x, const std::vector<GruLayerDesc>& layers,
                                 const GruDescOptions& options = {}) {
  infer::Batch hidden = infer::batch_for<op::stacked_gru>(x, "stacked_gru");
  infer::Batch last = hidden.pooled(options.level, "stacked_gru");
  const auto sizes = operation::infer_stack_sizes<operation::GruDirection>(
      hidden, layers, "stacked_gru", [](const infer::Batch& input, const GruWeightsDesc& weights, const char* what) {
        return std::array{operation::infer_gru_size(input, weights, what)};
      });
  hidden.row_shape = {sizes[0][0]};
  last.row_shape = {sizes[1][0]};
  operation::infer_initial(options.initial_hidden, last, "stacked_gru: initial_hidden");
  return {hidden, last};
}
inline StackedGruGradDesc infer_stacked_gru_grad(const LoDTensorDesc& x, const std::vector<GruLayerDesc>& layers,
                                                 const GruDescOptions& options = {}) {
  const GruDesc forward = infer_stacked_gru(x, layers, options);
  return {x, layers, forward.last_hidden};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What stacked_lstm.hpp and stacked_gru.hpp have in common: layers on top of each other, each in one direction or in
/// both.
///
/// A `Unit` says what one direction of one layer is: how many states it has, of which the first is shown;
/// `sizes(weights)`, the numbers of each; `check` and `check_trace`, which throw for what does not fit; `memory`, for
/// checks of overlap; `run`, and for the gradient `prepare` and `grad`.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/arithmetic.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/ops/sequence_dropout.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The numbers of each state of a unit.
template <class Unit>
using StateSizes = std::array<std::int64_t, Unit::states>;
/// Each state of a unit, for all sequences.
template <class Unit, class T>
using StateColumns = std::array<Columns<T>, Unit::states>;

/// Calls f(weights, other, reverse) for each direction that the layer has. `others` belongs to the same layer.
template <class Layer, class Others, class F>
void for_each_direction(Layer& layer, Others& others, const F& f) {
  if (given(layer.forward.recurrent)) f(layer.forward, others.forward, false);
  if (given(layer.backward.recurrent)) f(layer.backward, others.backward, true);
}
template <class Layer, class F>
void for_each_direction(Layer& layer, const F& f) {
  for_each_direction(layer, layer, [&](auto& weights, auto&, bool reverse) { f(weights, reverse); });
}

/// The numbers of each state of a layer, all directions side by side.
template <class Unit, class Layer>
StateSizes<Unit> layer_sizes(const Layer& layer) {
  StateSizes<Unit> all{};
  for_each_direction(layer, [&](const auto& weights, bool) {
    const StateSizes<Unit> sizes = Unit::sizes(weights);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += sizes[i];
  });
  return all;
}
template <class Unit, class Layers>
StateSizes<Unit> stack_sizes(const Layers& layers) {
  StateSizes<Unit> all{};
  for (const auto& layer : layers) {
    const StateSizes<Unit> sizes = layer_sizes<Unit>(layer);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += sizes[i];
  }
  return all;
}

/// The states of one direction, which begin at these columns of all states.
template <class T, std::size_t count>
std::array<Columns<T>, count> columns_at(std::array<Columns<T>, count> all,
                                         const std::array<std::int64_t, count>& first) {
  for (std::size_t i = 0; i < count; ++i) all[i] = all[i].from(first[i]);
  return all;
}

/// Rows of this size: all that a check of weights needs to know of an input.
struct RowsOfSize {
  std::int64_t size;
  std::int64_t row_size() const noexcept { return size; }
};

/// Throws ShapeMismatch for weights that do not fit x or the layer below, and OutOfRange for options.
template <class Unit, class X, class Layers, class Options>
void check_layers(const X& x, const Layers& layers, const Options& options, const char* name) {
  if (layers.empty()) throw ShapeMismatch(detail::text({name, ": no layers, expected at least one"}));
  RowsOfSize input{x.row_size()};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::array<char, 96> what;  // as text that takes no memory of the heap
    bool has_one = false;
    for_each_direction(layers[i], [&](const auto& weights, bool reverse) {
      std::snprintf(what.data(), what.size(), "%s: layers[%zu].%s", name, i, reverse ? "backward" : "forward");
      Unit::check(input, weights, options, what.data());
      has_one = true;
    });
    if (!has_one) throw ShapeMismatch(detail::text({name, ": layers[", i, "] has weights for no direction"}));
    input.size = layer_sizes<Unit>(layers[i])[0];
  }
}
/// Throws std::invalid_argument if an output overlaps another one, or an argument. `outputs` and `arguments` are those
/// besides the layers: `written` are the layers of traces or of gradients, `read` those of weights and of traces.
template <class Unit, class Written, class... Read>
void check_stack_apart(const char* name, std::span<const OtherMemory> outputs, std::span<const OtherMemory> arguments,
                       const Written& written, const Read&... read) {
  const auto for_each = [](const auto& layers, const auto& f) {
    for (const auto& layer : layers) {
      for (const auto* direction : {&layer.forward, &layer.backward}) f(Unit::memory(*direction));
    }
  };
  check_apart(name, outputs, arguments);
  (for_each(read, [&](const auto& argument) { check_apart(name, outputs, argument); }), ...);
  std::size_t one = 0;
  for_each(written, [&](const auto& output) {
    check_apart(name, output, arguments);
    check_apart(name, output, outputs);
    (for_each(read, [&](const auto& argument) { check_apart(name, output, argument); }), ...);
    std::size_t other = 0;
    for_each(written, [&](const auto& before) {
      if (other++ < one) check_apart(name, output, before);
    });
    ++one;
  });
}

/// If a run fails, removes the layers of its trace, so that gradients reject it.
template <class Trace>
class NoLayersOnError {
 public:
  explicit NoLayersOnError(Trace& trace) noexcept : trace_(trace), exceptions_(std::uncaught_exceptions()) {}
  NoLayersOnError(const NoLayersOnError&) = delete;
  NoLayersOnError& operator=(const NoLayersOnError&) = delete;
  ~NoLayersOnError() {
    if (std::uncaught_exceptions() != exceptions_) trace_.layers.clear();
  }

 private:
  Trace& trace_;
  int exceptions_;
};

/// Drops numbers of what a layer gives to the next one, or of the gradient, in place. Each layer drops others.
template <Executor E, class T, class Options>
void drop_between(const E& executor, const Options& options, std::size_t layer, std::size_t layers, std::int64_t rows,
                  std::int64_t width, T* x) {
  if (!(options.dropout > 0)) return;
  const std::uint64_t seed = options.seed * layers + layer;
  launch(kernel::SequenceDropout(), executor, static_cast<const T*>(x), rows, width, kernel::Segments(),
         kernel::DropoutRule::of(options.dropout, seed), x);
}

/// Runs all layers over x, whose arguments have been checked.
template <class Unit, Executor E, class T, class Layers, class Options, class Trace>
void run_stack(const E& executor, const char* name, const Input<E, T>& x, int level, const Layers& layers,
               const StateColumns<Unit, const T>& initial, const Options& options, const Columns<T>& hidden,
               const StateColumns<Unit, T>& last, Trace& trace) {
  using LayerTrace = typename decltype(trace.layers)::value_type;
  const NoLayersOnError none_on_error(trace);
  if (trace.layers.size() > layers.size()) trace.layers.resize(layers.size());
  while (trace.layers.size() < layers.size()) trace.layers.push_back(Unfilled<LayerTrace>::from(executor.resource()));
  StateSizes<Unit> first{};
  const auto run_layer = [&](std::size_t i, const Columns<T>& out) {
    const Input<E, T> input = i > 0 ? Input<E, T>(trace.layers[i].input.view()) : x;
    std::int64_t column = 0;
    for_each_direction(layers[i], trace.layers[i], [&](const auto& weights, auto& of_direction, bool reverse) {
      const StateSizes<Unit> sizes = Unit::sizes(weights);
      Unit::run(executor, name, input, weights, columns_at(initial, first), options, reverse, level, out.from(column),
                columns_at(last, first), of_direction);
      column += sizes[0];
      for (std::size_t state = 0; state < sizes.size(); ++state) first[state] += sizes[state];
    });
  };
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    const std::int64_t width = layer_sizes<Unit>(layers[i])[0];
    const auto next =
        prepare(executor, {name, "trace.input"}, trace.layers[i + 1].input, SameLevels{x.lod_view()}, {width}, {});
    run_layer(i, {next.data(), width});
    drop_between(executor, options, i, layers.size(), x.rows(), width, next.data());
  }
  run_layer(layers.size() - 1, hidden);
  trace.dropout = options.dropout;
  trace.seed = options.seed;
}

/// Throws ShapeMismatch unless the trace is that of a run over x with these layers. Gives the level of the run.
template <class Unit, class X, class Layers, class Trace>
int check_stack_trace(const X& x, const Layers& layers, const Trace& trace, const char* name) {
  int level = 0;
  bool fits = trace.layers.size() == layers.size();
  for (std::size_t i = 0; fits && i < layers.size(); ++i) {
    if (i > 0) {
      const auto& input = trace.layers[i].input;
      fits = input.rows() == x.rows() && input.row_size() == layer_sizes<Unit>(layers[i - 1])[0];
    }
    for_each_direction(layers[i], trace.layers[i], [&](const auto& weights, const auto& of_direction, bool reverse) {
      Unit::check_trace(of_direction, x, weights, name);
      fits = fits && of_direction.reverse == reverse;
      level = of_direction.level;
    });
  }
  check_trace_fits(fits, name);
  return level;
}

/// Gradients with respect to layers, each in the shape of its weights, prepared before any is written. Until `finish`,
/// what the caller has keeps its shapes.
template <class Unit, Executor E, class Layers>
class LayerOutputs {
  using Layer = typename Layers::value_type;
  using Weights = decltype(Layer::forward);
  using One = decltype(Unit::prepare(std::declval<const E&>(), "", std::declval<Weights&>(), std::declval<Weights>()));

 public:
  LayerOutputs(const E& executor, Layers& dlayers)
      : executor_(executor), dlayers_(dlayers), kept_(executor.workspace()) {}
  LayerOutputs(const LayerOutputs&) = delete;
  LayerOutputs& operator=(const LayerOutputs&) = delete;
  ~LayerOutputs() { kept_->clear(); }

  void prepare(const char* name, const Layers& layers) {
    Layers& to = dlayers_.size() == layers.size() ? dlayers_ : made_;
    while (to.size() < layers.size()) to.push_back(Unfilled<Layer>::from(executor_.resource()));
    kept_->reserve(2 * layers.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      kept_->push_back(Unit::prepare(executor_, name, to[i].forward, layers[i].forward));
      kept_->push_back(Unit::prepare(executor_, name, to[i].backward, layers[i].backward));
    }
  }
  const One& of(std::size_t layer, bool reverse) const { return (*kept_)[2 * layer + (reverse ? 1 : 0)]; }
  void finish() {
    kept_->clear();
    if (!made_.empty()) dlayers_ = std::move(made_);
  }

 private:
  const E& executor_;
  Layers& dlayers_;
  Layers made_;
  Workspace::Kept<std::vector<One>> kept_;
};

/// The gradients of `run_stack`, whose arguments have been checked.
template <class Unit, Executor E, class T, class Layers, class Trace>
void run_stack_grad(const E& executor, Columns<const T> dhidden, const Input<E, T>& x, const Layers& layers,
                    const Trace& trace, const StateColumns<Unit, const T>& dlast, T* dx,
                    const LayerOutputs<Unit, E, Layers>& dlayers, const StateColumns<Unit, T>& dinitial) {
  const std::int64_t rows = x.rows();
  std::int64_t widest = 0;
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    widest = std::max(widest, layer_sizes<Unit>(layers[i])[0]);
  }
  // Of the inputs of one layer, and of the layer above it.
  const kernel::Scratch<E, T> dinputs[] = {{executor, rows * widest}, {executor, rows * widest}};
  const kernel::Scratch<E, T> of_one_direction(executor, rows * std::max(widest, x.row_size()));
  StateSizes<Unit> first = stack_sizes<Unit>(layers);
  for (std::size_t i = layers.size(); i-- > 0;) {
    const StateSizes<Unit> of_layer = layer_sizes<Unit>(layers[i]);
    for (std::size_t state = 0; state < first.size(); ++state) first[state] -= of_layer[state];
    const Input<E, T> input = i > 0 ? Input<E, T>(trace.layers[i].input.view()) : x;
    T* const dinput = i > 0 ? dinputs[i % 2].data() : dx;
    StateSizes<Unit> at = first;
    for_each_direction(layers[i], trace.layers[i], [&](const auto& weights, const auto& of_direction, bool reverse) {
      const StateSizes<Unit> sizes = Unit::sizes(weights);
      const std::int64_t column = at[0] - first[0];
      T* const to = column == 0 ? dinput : of_one_direction.data();
      Unit::template grad<E, T>(executor, dhidden.from(column), input, weights, of_direction, columns_at(dlast, at), to,
                                dlayers.of(i, reverse), columns_at(dinitial, at));
      if (to != dinput) {
        launch(kernel::Combine(), executor, kernel::Add(), dinput, static_cast<const T*>(to), rows * input.row_size(),
               dinput);
      }
      for (std::size_t state = 0; state < sizes.size(); ++state) at[state] += sizes[state];
    });
    if (i == 0) break;
    drop_between(executor, trace, i - 1, layers.size(), rows, input.row_size(), dinput);
    dhidden = {dinput, input.row_size()};
  }
}

/// The numbers of each state of a layer and of all, from descriptions. `infer_sizes(input, weights, what)` are those of
/// one direction. Throws ShapeMismatch for weights that do not fit.
template <class Unit, class Layers, class InferSizes>
std::array<StateSizes<Unit>, 2> infer_stack_sizes(infer::Batch input, const Layers& layers, const char* name,
                                                  const InferSizes& infer_sizes) {
  if (layers.empty()) throw ShapeMismatch(detail::text({name, ": no layers, expected at least one"}));
  StateSizes<Unit> all{}, of_layer{};
  const auto add = [](std::int64_t& sum, std::int64_t more) {
    sum = sum == infer::unknown || more == infer::unknown ? infer::unknown : sum + more;
  };
  for (std::size_t i = 0; i < layers.size(); ++i) {
    of_layer = {};
    bool has_one = false;
    for (const bool reverse : {false, true}) {
      const auto& weights = reverse ? layers[i].backward : layers[i].forward;
      if (weights.recurrent.tensor.dims.empty() || weights.recurrent.tensor.dims.front() == 0) continue;
      const std::string what = detail::text({name, ": layers[", i, "].", reverse ? "backward" : "forward"});
      const StateSizes<Unit> sizes = infer_sizes(input, weights, what.c_str());
      for (std::size_t state = 0; state < sizes.size(); ++state) {
        add(of_layer[state], sizes[state]);
        add(all[state], sizes[state]);
      }
      has_one = true;
    }
    if (!has_one) throw ShapeMismatch(detail::text({name, ": layers[", i, "] has weights for no direction"}));
    input.row_shape = {of_layer[0]};
  }
  return {of_layer, all};
}

}  // namespace operation
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup recurrent
/// Recurrent networks with a user-defined cell. A step of a cell may be a whole sub-sequence, which another network
/// reads: so networks can be nested.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/rank_table.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/supports.hpp>
#include <lod/ops/tensor_array.hpp>
#include <lod/ops/time_major.hpp>

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE::op {
struct dynamic_rnn : elements::Any {
  static constexpr Text text{"x, table, initial_state, cell",
                             "Runs cell(state, step) -> (state, output) over the steps of all sequences that the table "
                             "ranks, those that take a step together. The tensors that the cell is given are its own."};
};
struct dynamic_rnn_grad : elements::Any {
  static constexpr Text text{
      "doutput, dstate, x, table, initial_state, cell, cell_grad",
      "The gradients of `dynamic_rnn`, by cell_grad(state, step, dstate, doutput) -> (dstate, dstep)."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The result of `dynamic_rnn`.
template <class Output, class State, class Device = Cpu>
struct DynamicRnn {
  /// The cell's output for each step, at the positions of the steps. LoD: the levels of the table down to the ranked
  /// one, then those of the cell's outputs.
  LoDTensor<Output, Device> output;
  /// The state after the last step of each sequence, the initial state for an empty sequence: one row each, in the
  /// order of the batch. LoD: the levels of the table above the ranked one.
  LoDTensor<State, Device> state;
};

/// The result of `dynamic_rnn_grad`.
template <class T, class State, class Device = Cpu>
struct DynamicRnnGrad {
  LoDTensor<T, Device> x;                  ///< rows and levels as x
  LoDTensor<State, Device> initial_state;  ///< one row for each sequence; LoD: the levels above the ranked one
};

/// The result of `dynamic_rnn`, described.
struct DynamicRnnDesc {
  LoDTensorDesc output;
  LoDTensorDesc state;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// What one run over the steps keeps for the next.
template <class T, class S, class Device>
struct RnnMemory {
  explicit RnnMemory(typename Device::memory_resource* resource)
      : steps(LoDTensor<T, Device>(resource)), states(resource) {}
  TimeMajor<T, Device> steps;
  LoDTensor<S, Device> states;
};
/// Tensors, one for each step.
template <class T, class Device>
struct StepTensors {
  explicit StepTensors(typename Device::memory_resource* from) : resource(from), like(from) {}
  typename Device::memory_resource* resource;
  std::vector<LoDTensor<T, Device>> tensors;
  LoDTensor<T, Device> like;
};

/// The tensors that a user's function returns for each step, kept until all of them are complete. `Given` is the type
/// of the name that is bound to a result. A tensor that the result itself holds is taken over and destroyed at the end;
/// for a view, a reference or a const tensor the rows are copied, into memory that is kept for the next run.
template <class E, class Given>
class GivenSteps {
 public:
  using T = value_type_t<std::remove_reference_t<Given>>;
  using Device = typename E::device;

  GivenSteps(const E& executor, std::int64_t steps)
      : executor_(executor), kept_(executor.workspace(), executor.resource()), size_(steps) {
    while (static_cast<std::int64_t>(kept_->tensors.size()) < steps) kept_->tensors.emplace_back(kept_->resource);
  }
  ~GivenSteps() {
    if constexpr (takes) {
      kept_->tensors.clear();
      kept_->like = LoDTensor<T, Device>(kept_->resource);
    }
  }
  GivenSteps(const GivenSteps&) = delete;
  GivenSteps& operator=(const GivenSteps&) = delete;

  void set(std::int64_t t, Given&& given) {
    keep(std::forward<Given>(given), kept_->tensors[static_cast<std::size_t>(t)]);
  }
  void set_like(Given&& given) { keep(std::forward<Given>(given), kept_->like); }
  void set_like_copy(const LoDTensorView<const T, Device>& like) const { copy(like, kept_->like); }
  /// The sequences of the table. `step` begins the texts of errors, followed by the number of the step.
  JoinedSteps<E, T> joined(const RankTable& table, const char* what, const char* step) const {
    const std::span<const LoDTensor<T, Device>> given(kept_->tensors.data(), static_cast<std::size_t>(size_));
    return JoinedSteps<E, T>(executor_, given, kept_->like, table, what, step);
  }

 private:
  static constexpr bool takes = std::is_same_v<Given, LoDTensor<T, Device>>;
  // Each has memory of its own: the memory resource of a user's tensor may be gone by the next run.
  struct Taken : StepTensors<T, Device> {
    using StepTensors<T, Device>::StepTensors;
  };

  void keep(Given&& given, LoDTensor<T, Device>& to) const {
    if constexpr (takes) {
      to = std::move(given);
    } else {
      copy(LoDTensorView<const T, Device>(given.view()), to);
    }
  }
  void copy(const LoDTensorView<const T, Device>& from, LoDTensor<T, Device>& to) const {
    copy_into(executor_, "dynamic_rnn", from, "what the cell gave", SameLevels{from.lod_view()}, to);
  }

  const E& executor_;
  Workspace::Kept<std::conditional_t<takes, Taken, StepTensors<T, Device>>> kept_;
  std::int64_t size_;
};

/// Throws ShapeMismatch unless the tensor of step t has the row shape and the levels of `expected`. `name` begins the
/// text, followed by the number of the step; `of` says whose levels are expected.
template <class View, class Expected>
void check_step(const View& found, const Expected& expected, const char* name, std::int64_t t, const char* of) {
  if (found.lod_view() == expected.lod_view() && found.row_shape() == expected.row_shape()) return;
  throw ShapeMismatch(detail::text({name, t, " has shape ", to_string(found.shape()), " with ", found.levels(),
                                    " levels, expected ", to_string(expected.shape()), " and the levels of ", of}));
}

/// The names of a run's arguments in errors.
struct RnnNames {
  const char* operation;
  const char* x;
  const char* states;       ///< the initial states, after the name of the operation
  const char* next_states;  ///< the states of a step, followed by its number
};

/// States by rank, to be written in the order of the batch under the levels above the ranked one.
template <class E, class S>
class LastStates {
 public:
  /// Prepares the output.
  template <class State>
  LastStates(const E& executor, const char* what, const LoDTensorView<const S, typename E::device>& states,
             const RankTable& table, State& state)
      : ranks_(executor.workspace(), table.size()),
        order_((list(table), executor), what, states, table.size(), [&](std::int64_t i) { return ranks_[i]; }),
        rows_(order_.rows()),
        out_(prepare<S>(executor, {what, "the states"}, state, LevelsAbove{table.lod().view(), table.level()},
                        states.row_shape(), {})) {}
  LastStates(const LastStates&) = delete;
  LastStates& operator=(const LastStates&) = delete;

  void write() const { rows_.copy(out_.data()); }

 private:
  void list(const RankTable& table) const noexcept {
    for (std::int64_t rank = 0; rank < table.size(); ++rank) ranks_[table[rank].index] = rank;
  }

  Workspace::Loan<std::int64_t> ranks_;
  Rearrangement<E, LoDTensorView<const S, typename E::device>> order_;
  RunSources<E, S> rows_;
  Output<S, typename E::device> out_;
};

/// The steps of x by a table, and one row of state for each sequence, in the order of the table.
template <class E, class T, class S>
class RnnRun {
 public:
  using Device = typename E::device;

  /// Checks x and the states.
  template <class X, class State>
  RnnRun(const E& executor, const X& x, const RankTable& table, const State& state, const RnnNames& names)
      : executor_(executor), table_(table), names_(names), kept_(executor.workspace(), executor.resource()) {
    const auto view = x.view();
    check_ranked(view.lod_view(), table, names.operation, names.x);
    check_row_count(state.view().rows(), table.size(), names.states);
    to_time_major_into(executor, view, table, kept_->steps);
    none_ = View(view.data(), levels_below(view.lod_view(), table.level()).between(0, 0), &view.row_shape(),
                 view.row_size());
    reorder_lod_tensor_by_rank_into(executor, state.view().with_lod(LoD()), table, kept_->states);
  }
  RnnRun(const RnnRun&) = delete;
  RnnRun& operator=(const RnnRun&) = delete;

  /// The input of step t; from the last step on, a step without sequences.
  LoDTensorView<const T, Device> step(std::int64_t t) const {
    return t < table_.steps() ? std::as_const(kept_->steps).step(t) : none_;
  }
  /// The states of the sequences that take step t.
  LoDTensorView<const S, Device> states(std::int64_t t) const {
    return std::as_const(kept_->states).between(0, table_.active(t));
  }
  /// Takes the states returned by step t. Throws ShapeMismatch unless they have the shape of those that it received.
  template <class State>
  void set_states(std::int64_t t, const State& state) {
    static_assert(std::is_same_v<value_type_t<State>, S>, "dynamic_rnn: the cell must return states of the same type");
    const auto next = state.view();
    if (next.rows() != table_.active(t) || next.row_shape() != kept_->states.row_shape()) {
      throw ShapeMismatch(detail::text({names_.next_states, t, " has shape ", to_string(next.shape()), ", expected ",
                                        to_string(states(t).shape())}));
    }
    // A cell may return the view that it received.
    if (next.data() != kept_->states.data()) copy_rows(executor_, next, kept_->states.data());
  }
  /// All states in the order of the batch.
  template <class State>
  LastStates<E, S> last_states(State& state) const {
    return LastStates<E, S>(executor_, names_.operation, std::as_const(kept_->states).view(), table_, state);
  }

 private:
  using View = LoDTensorView<const T, Device>;

  const E& executor_;
  const RankTable& table_;
  const RnnNames names_;
  Workspace::Kept<RnnMemory<T, S, Device>> kept_;
  View none_;
};

template <class Result>
auto output_type(Result& result) {
  auto& [state, output] = result;
  static_cast<void>(state);
  return std::type_identity<decltype(output)>();
}
/// The second of two results of a function: the type of the name that is bound to it.
template <class Result>
using second_t = typename decltype(output_type(std::declval<std::remove_cvref_t<Result>&>()))::type;
/// What a cell returns besides the state.
template <class Cell, class S, class T, class Device>
using cell_output_t =
    second_t<std::invoke_result_t<Cell&, LoDTensorView<const S, Device>, LoDTensorView<const T, Device>>>;

}  // namespace operation

/// Runs a cell over all sequences of the level that the table ranks together: step 0 of every sequence, then step 1 of
/// those that have one, and so on. `cell(state, step)` receives two views:
///
/// - `state`: one row for each sequence that takes the step, in the order of the table;
/// - `step`: the input of these sequences at that step, in the same order: a row each if the ranked level is the last,
///   otherwise a sub-sequence each, with the levels below.
///
/// It returns two tensors or views, as a pair or anything that a structured binding can split: the states after the
/// step, of the same shape, and the step's output, which has a row, or a sequence of any number of levels, for each
/// sequence. A tensor that the result itself holds is taken over; for a view or a reference, such as `std::tie` of
/// tensors that the cell keeps, the rows are copied. The states of sequences that have ended are dropped: nothing is
/// padded, nothing is masked.
///
/// `initial_state` has one row for each sequence of the ranked level, in the order of the batch; its levels are
/// ignored. If no sequence has a step, the cell is called once without sequences, so that the output has its row shape
/// and its levels. Semantics: PaddlePaddle's DynamicRNN, over any level. What the cell throws is passed on.
///
/// Keeps x in the order of steps, and the cell's outputs until they are in place; a second call allocates nothing
/// except what the cell does. For ready-made cells see `lstm` and `gru`. Throws ShapeMismatch unless x has the levels
/// of the table's LoD down to the ranked one, for another number of initial states, and for states or outputs of the
/// cell that do not fit.
template <Executor E, LoDTensorLike X, LoDTensorLike State, class Cell, class Output, class LastState>
void dynamic_rnn_into(const E& executor, const X& x, const RankTable& table, const State& initial_state, Cell&& cell,
                      Output&& output, LastState&& state) {
  using T = value_type_t<X>;
  using S = value_type_t<State>;
  operation::RnnRun<E, T, S> run(
      executor, x, table, initial_state,
      {"dynamic_rnn", "x", "dynamic_rnn: the initial state", "dynamic_rnn: the state after step "});
  operation::GivenSteps<E, operation::cell_output_t<Cell, S, T, typename E::device>> outputs(executor, table.steps());
  const std::int64_t calls = table.steps() > 0 ? table.steps() : 1;
  for (std::int64_t t = 0; t < calls; ++t) {
    auto result = cell(run.states(t), run.step(t));
    auto& [next, given] = result;
    // First the output: it may be a view of the states, which the next states overwrite.
    if (t < table.steps()) {
      outputs.set(t, std::forward<decltype(given)>(given));
    } else {
      outputs.set_like(std::forward<decltype(given)>(given));
    }
    run.set_states(t, next);
  }
  using O = value_type_t<std::remove_reference_t<operation::cell_output_t<Cell, S, T, typename E::device>>>;
  const operation::JoinedSteps<E, O> steps =
      outputs.joined(table, "dynamic_rnn", "dynamic_rnn: the output of the cell at step ");
  const auto out = operation::prepare<O>(executor, {"dynamic_rnn", "output"}, output, steps.levels(), steps.row_shape(),
                                         {{"the states", state}});
  const operation::LastStates<E, S> last = run.last_states(state);
  steps.copy(out.data());
  last.write();
}
template <Executor E, LoDTensorLike X, LoDTensorLike State, class Cell>
[[nodiscard]] auto dynamic_rnn(const E& executor, const X& x, const RankTable& table, const State& initial_state,
                               Cell&& cell) {
  using Device = typename E::device;
  using S = value_type_t<State>;
  using O = value_type_t<std::remove_reference_t<operation::cell_output_t<Cell, S, value_type_t<X>, Device>>>;
  DynamicRnn<O, S, Device> y{LoDTensor<O, Device>(executor.resource()), LoDTensor<S, Device>(executor.resource())};
  dynamic_rnn_into(executor, x, table, initial_state, cell, y.output, y.state);
  return y;
}
template <LoDTensorLike X, LoDTensorLike State, class Cell>
[[nodiscard]] auto dynamic_rnn(const X& x, const RankTable& table, const State& initial_state, Cell&& cell) {
  return dynamic_rnn(default_executor<device_t<X>>(), x, table, initial_state, cell);
}

/// The gradient of `dynamic_rnn` by back-propagation through time. `doutput` and `dstate` are the gradients with
/// respect to its two results; x, table, initial state and cell are those of the forward call. The cell is called once
/// more for every step, and the states are kept; then, from the last step to the first, `cell_grad(state, step, dstate,
/// doutput)` receives the arguments of the cell, and the gradients with respect to its results. It returns the
/// gradients with respect to `state` and `step`, which have their shapes and levels, in any of the forms that
/// `dynamic_rnn` accepts. It must accumulate gradients with respect to anything else (the cell's parameters) itself. If
/// no sequence has a step, neither is called.
///
/// Throws as `dynamic_rnn`, and ShapeMismatch if `doutput`, `dstate` or the results of `cell_grad` do not fit. Without
/// a step there is nothing to compare the rows of `doutput` with: only its levels down to the ranked one are checked.
template <Executor E, LoDTensorLike DOutput, LoDTensorLike DState, LoDTensorLike X, LoDTensorLike State, class Cell,
          class CellGrad, class DX, class DInitialState>
void dynamic_rnn_grad_into(const E& executor, const DOutput& doutput, const DState& dstate, const X& x,
                           const RankTable& table, const State& initial_state, Cell&& cell, CellGrad&& cell_grad,
                           DX&& dx, DInitialState&& dinitial_state) {
  using T = value_type_t<X>;
  using S = value_type_t<State>;
  using Device = typename E::device;
  using States = LoDTensorView<const S, Device>;
  operation::RnnRun<E, T, S> run(
      executor, x, table, initial_state,
      {"dynamic_rnn_grad", "x", "dynamic_rnn_grad: the initial state", "dynamic_rnn_grad: the state after step "});
  operation::RnnRun<E, value_type_t<DOutput>, S> back(executor, doutput, table, dstate,
                                                      {"dynamic_rnn_grad", "doutput", "dynamic_rnn_grad: dstate",
                                                       "dynamic_rnn_grad: the gradient by the state before step "});
  operation::check_row_shape(dstate.view().row_shape(), initial_state.view().row_shape(), "dynamic_rnn_grad: dstate");
  // The states before each step, one after the other: they have as many rows as there are steps.
  const Shape& state_shape = initial_state.view().row_shape();
  const std::int64_t state_size = initial_state.view().row_size();
  std::int64_t taken = 0;
  for (std::int64_t t = 0; t < table.steps(); ++t) taken += table.active(t);
  const Workspace::Kept<LoDTensor<S, Device>> states(executor.workspace(), executor.resource());
  states->resize(LoD(), state_shape, taken);
  const auto states_before = [&](std::int64_t first, std::int64_t t) {
    return States(states->data() + first * state_size, LoDView::plain(0, table.active(t)), &state_shape, state_size);
  };
  std::int64_t first = 0;
  for (std::int64_t t = 0; t < table.steps(); ++t) {
    operation::copy_rows(executor, run.states(t), states->data() + first * state_size);
    first += table.active(t);
    auto result = cell(run.states(t), run.step(t));
    auto& [next, given] = result;
    operation::check_step(back.step(t), given.view(), "dynamic_rnn_grad: doutput at step ", t, "the cell's output");
    run.set_states(t, next);
  }
  using DStep = operation::second_t<std::invoke_result_t<CellGrad&, States, LoDTensorView<const T, Device>, States,
                                                         LoDTensorView<const value_type_t<DOutput>, Device>>>;
  operation::GivenSteps<E, DStep> dsteps(executor, table.steps());
  if (table.steps() == 0) dsteps.set_like_copy(run.step(0));
  for (std::int64_t t = table.steps(); t-- > 0;) {
    first -= table.active(t);
    auto result = cell_grad(states_before(first, t), run.step(t), back.states(t), back.step(t));
    auto& [dbefore, dstep] = result;
    operation::check_step(dstep.view(), run.step(t), "dynamic_rnn_grad: the gradient by step ", t, "the step");
    dsteps.set(t, std::forward<decltype(dstep)>(dstep));
    back.set_states(t, dbefore);
  }
  const operation::JoinedSteps<E, T> steps =
      dsteps.joined(table, "dynamic_rnn_grad", "dynamic_rnn_grad: the gradient by step ");
  const auto out = operation::prepare<T>(executor, {"dynamic_rnn_grad", "dx"}, dx, steps.levels(), steps.row_shape(),
                                         {{"the states", dinitial_state}});
  const operation::LastStates<E, S> last = back.last_states(dinitial_state);
  steps.copy(out.data());
  last.write();
}
template <Executor E, LoDTensorLike DOutput, LoDTensorLike DState, LoDTensorLike X, LoDTensorLike State, class Cell,
          class CellGrad>
[[nodiscard]] DynamicRnnGrad<value_type_t<X>, value_type_t<State>, device_t<X>> dynamic_rnn_grad(
    const E& executor, const DOutput& doutput, const DState& dstate, const X& x, const RankTable& table,
    const State& initial_state, Cell&& cell, CellGrad&& cell_grad) {
  using Device = device_t<X>;
  DynamicRnnGrad<value_type_t<X>, value_type_t<State>, Device> d{
      LoDTensor<value_type_t<X>, Device>(executor.resource()),
      LoDTensor<value_type_t<State>, Device>(executor.resource())};
  dynamic_rnn_grad_into(executor, doutput, dstate, x, table, initial_state, cell, cell_grad, d.x, d.initial_state);
  return d;
}
template <LoDTensorLike DOutput, LoDTensorLike DState, LoDTensorLike X, LoDTensorLike State, class Cell, class CellGrad>
[[nodiscard]] auto dynamic_rnn_grad(const DOutput& doutput, const DState& dstate, const X& x, const RankTable& table,
                                    const State& initial_state, Cell&& cell, CellGrad&& cell_grad) {
  return dynamic_rnn_grad(default_executor<device_t<X>>(), doutput, dstate, x, table, initial_state, cell, cell_grad);
}

/// The result of `dynamic_rnn`, described, with a cell whose output for a step is described by `step_output`: see
/// <lod/infer.hpp>. `ranked` describes a tensor with the LoD of the table, which was made with these options.
inline DynamicRnnDesc infer_dynamic_rnn(const LoDTensorDesc& x, const LoDTensorDesc& ranked,
                                        const LoDTensorDesc& initial_state, const LoDTensorDesc& step_output,
                                        const RankOptions& options = {}) {
  const infer::Batch steps(x, "dynamic_rnn");
  const int levels = operation::infer_ranked_levels(steps, ranked, options, "dynamic_rnn");
  infer::Batch output(step_output, "dynamic_rnn: the output of the cell");
  infer::Batch state(initial_state, "dynamic_rnn: the initial state");
  output.rows = output.levels == 0 && steps.levels == levels ? steps.rows : infer::unknown;
  output.levels += levels;
  state.levels = levels - 1;
  return {output, state};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup recurrent
/// One step of long short-term memory, for users' own loops over steps; `lstm` is such a loop. The formulas are in
/// <lod/ops/lstm.hpp>.
///
///     const lod::TimeMajor<float> x = lod::to_time_major(executor, batch, table);
///     lod::TimeMajor<float> h(table, {n}), c(table, {n}), gates(table, {4 * n});
///     const auto before = [&](const lod::TimeMajor<float>& states, std::int64_t t) {
///       return t > 0 ? states.step(t - 1).between(0, table.active(t)) : none;  // those that go on are the first ones
///     };
///     for (std::int64_t t = 0; t < table.steps(); ++t) {
///       lod::lstm_cell_into(executor, x.step(t), before(h, t), before(c, t), weights, h.step(t), c.step(t),
///                           gates.step(t));
///     }
#pragma once

#include <lod/core/scalar.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/lstm_steps.hpp>
#include <lod/ops/lstm_units.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/ops/recurrent_cell.hpp>

#include <cstdint>
#include <limits>
#include <string>

namespace lod::inline LOD_INTERFACE::op {
struct lstm_cell : elements::Floating {
  static constexpr Text text{"x, hidden, cell, weights", "One step of `lstm` for each row of x, from its state."};
};
struct lstm_cell_grad : elements::Floating {
  static constexpr Text text{"dhidden, dcell, x, hidden, cell, weights, new_cell, gates",
                             "The gradients of `lstm_cell`, from its results."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The parameters for rows of d numbers and n hidden units; also their gradients.
template <class T, class Device = Cpu>
struct LstmWeights {
  LoDTensor<T, Device> input = {};      ///< {d, 4 n}: Wi Wf Wg Wo
  LoDTensor<T, Device> recurrent = {};  ///< {n, 4 n}: Ui Uf Ug Uo
  LoDTensor<T, Device> bias = {};       ///< 4 n numbers: bi bf bg bo; optional
  LoDTensor<T, Device> peepholes = {};  ///< 3 n numbers: Pi Pf Po; optional
  /// {n, p}: states are o * tanh(c) times this, so that they have p numbers, and `recurrent` is {p, 4 n}; optional
  LoDTensor<T, Device> projection = {};
};

/// The result of `lstm_cell`: a row for each row of x, LoD as x.
template <class T, class Device = Cpu>
struct LstmCell {
  LoDTensor<T, Device> hidden;  ///< h
  LoDTensor<T, Device> cell;    ///< c
  LoDTensor<T, Device> gates;   ///< i, f, g, o, for `lstm_cell_grad`
};

/// The options of `lstm_cell`, which are as those of `lstm`.
struct LstmCellOptions {
  double cell_clip = 0;
  double projection_clip = 0;
};

/// The options of `lstm_cell_grad`: those of `lstm_cell`, and more.
struct LstmCellGradOptions {
  /// Whether gradients with respect to the weights are added to the outputs' values, as in a loop over steps that
  /// begins with zeros; the outputs must then have the shapes of the weights. By default they are overwritten.
  bool accumulate = false;
  double cell_clip = 0;
  double projection_clip = 0;
};

/// The result of `lstm_cell_grad`: the gradients with respect to the arguments of `lstm_cell`.
template <class T, class Device = Cpu>
struct LstmCellGrad {
  LoDTensor<T, Device> x;
  LstmWeights<T, Device> weights;
  LoDTensor<T, Device> hidden;  ///< a row for each row of x, even if none were given
  LoDTensor<T, Device> cell;
};

/// The weights of `lstm`, described. An omitted bias has no dimension, or no row; likewise omitted peepholes and an
/// omitted projection.
struct LstmWeightsDesc {
  LoDTensorDesc input;
  LoDTensorDesc recurrent;
  LoDTensorDesc bias = {};
  LoDTensorDesc peepholes = {};
  LoDTensorDesc projection = {};
};

/// The result of `lstm_cell`, described.
struct LstmCellDesc {
  LoDTensorDesc hidden;
  LoDTensorDesc cell;
  LoDTensorDesc gates;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The numbers of a cell and of a state.
struct LstmSizes {
  std::int64_t cell, state;
};
template <class T, class Device>
LstmSizes lstm_sizes(const LstmWeights<T, Device>& weights) {
  const std::int64_t state = weights.recurrent.rows();
  return {given(weights.projection) ? weights.projection.rows() : state, state};
}

/// Throws OutOfRange for a limit that is none.
inline void check_clip(double clip, const char* what, const char* name) {
  if (clip >= 0) return;
  throw OutOfRange(detail::text({what, ": ", name, " ", to_string(Scalar(clip)), ", expected 0 or more"}));
}
/// A limit, if it is not 0, as a T: numbers that reached it equal it, also once they are stored. At least the smallest
/// number above 0, since 0 stands for no limit.
template <class T>
kernel::Accumulator<T> limit_as(double clip) {
  const auto limit = static_cast<T>(clip);
  return static_cast<kernel::Accumulator<T>>(clip > 0 && limit == T{} ? std::numeric_limits<T>::denorm_min() : limit);
}
/// Throws ShapeMismatch for weights that do not fit the rows of x, OutOfRange for limits that are none.
template <class X, class T, class Device, class Options>
void check_lstm_weights(const X& x, const LstmWeights<T, Device>& weights, const Options& options, const char* what,
                        bool may_omit_input = false) {
  const auto [size, width] = lstm_sizes(weights);
  check_weights(weights.recurrent, width, 4 * size, what, "weights.recurrent");
  if (!may_omit_input || is_projected(x, weights.input, 4 * size)) {
    check_weights(weights.input, x.row_size(), 4 * size, what, "weights.input");
  }
  check_bias(weights.bias, 4 * size, what, "weights.bias");
  check_bias(weights.peepholes, 3 * size, what, "weights.peepholes");
  if (given(weights.projection)) check_weights(weights.projection, size, width, what, "weights.projection");
  check_clip(options.cell_clip, what, "cell_clip");
  check_clip(options.projection_clip, what, "projection_clip");
}

/// The units for weights in the order i, f, g, o. Their bias is already in the contributions of x.
template <class T, class Device, class Options>
LstmUnits<T> lstm_units(const LstmWeights<T, Device>& weights, const Options& options) {
  const auto [size, width] = lstm_sizes(weights);
  return {.size = size,
          .order = {0, size, 2 * size, 3 * size},
          .recurrent = weights.recurrent.data(),
          .bias = nullptr,
          .peepholes = given(weights.peepholes),
          .cell_clip = limit_as<T>(options.cell_clip),
          .projection = {given(weights.projection), width, limit_as<T>(options.projection_clip)}};
}

/// Gradients with respect to the weights, prepared.
template <class T, class Device>
struct LstmWeightOutputs {
  Output<T, Device> input, recurrent, bias, peepholes, projection;
};
template <Executor E, class T, class Device>
LstmWeightOutputs<T, Device> prepare_lstm_weights(const E& executor, const char* name, LstmWeights<T, Device>& dweights,
                                                  const LstmWeights<T, Device>& weights, bool adds = false) {
  const auto prepared = [&](const char* which, auto& dweight, const auto& weight) {
    return prepare_sum(executor, {name, which}, dweight, weight, adds);
  };
  return {prepared("dweights.input", dweights.input, weights.input),
          prepared("dweights.recurrent", dweights.recurrent, weights.recurrent),
          prepared("dweights.bias", dweights.bias, weights.bias),
          prepared("dweights.peepholes", dweights.peepholes, weights.peepholes),
          prepared("dweights.projection", dweights.projection, weights.projection)};
}

template <class T, class Device>
struct Unfilled<LstmWeights<T, Device>> {
  template <class Resource>
  static LstmWeights<T, Device> from(Resource* resource) {
    using One = LoDTensor<T, Device>;
    return {One(resource), One(resource), One(resource), One(resource), One(resource)};
  }
};

template <>
struct Declared<op::lstm_cell> : Takes<Tensor, Tensor, Tensor, Of<LstmWeights>>,
                                 With<LstmCellOptions>,
                                 GivesAll<LstmCell, Tensor, Tensor, Tensor> {
  static constexpr const char* name = "lstm_cell";
  using Gradient = op::lstm_cell_grad;
  template <class T>
  using Kernels = kernel::Instances<
      kernel::Instance<kernel::StepStates, kernel::LstmStep<T>>,
      kernel::Instance<kernel::StepStates, kernel::PeepholeLstmStep<T>>,
      kernel::Instance<kernel::StepStates, kernel::PeepholeLstmStep<T, kernel::StepFunction, kernel::StepFunction>>,
      kernel::Instance<kernel::StepStates, kernel::LstmProjected<T>>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const Input<E, T>& hidden, const Input<E, T>& cell,
                  const LstmWeights<T, typename E::device>& weights, const LstmCellOptions& options,
                  const To<E, T>& new_hidden, const To<E, T>& new_cell, const To<E, T>& gates) {
    check_lstm_weights(x, weights, options, name, true);
    const LstmUnits<T> units = lstm_units(weights, options);
    check_states(hidden, x.rows(), units.width(), {name, "hidden"});
    check_states(cell, x.rows(), units.size, {name, "cell"});
    const OtherMemory outputs[] = {{"hidden", new_hidden}, {"cell", new_cell}, {"gates", gates}};
    const OtherMemory arguments[] = {{"x", x},
                                     {"hidden", hidden},
                                     {"cell", cell},
                                     {"weights.input", weights.input},
                                     {"weights.recurrent", weights.recurrent},
                                     {"weights.bias", weights.bias},
                                     {"weights.peepholes", weights.peepholes},
                                     {"weights.projection", weights.projection}};
    check_apart(name, outputs, arguments);
    const SameLevels as_x{x.lod_view()};
    const auto out_hidden = prepare(executor, {name, "hidden"}, new_hidden, as_x, {units.width()}, {});
    const auto out_cell = prepare(executor, {name, "cell"}, new_cell, as_x, {units.size}, {});
    const auto out_gates = prepare(executor, {name, "gates"}, gates, as_x, {4 * units.size}, {});
    const kernel::Scratch<E, T> shown(executor, given(weights.projection) ? x.rows() * units.size : 0);
    cell_gates(executor, x, weights.input, weights.bias, 4 * units.size, out_gates.data());
    lstm_step(executor, units, x.rows(), given(hidden), given(cell), out_gates.data(), out_cell.data(),
              out_hidden.data(), shown.data());
  }
};

template <>
struct Declared<op::lstm_cell_grad> : Takes<Tensor, Tensor, Tensor, Tensor, Tensor, Of<LstmWeights>, Tensor, Tensor>,
                                      With<LstmCellGradOptions>,
                                      GivesAll<LstmCellGrad, Tensor, Of<LstmWeights>, Tensor, Tensor> {
  static constexpr const char* name = "lstm_cell_grad";
  template <class T>
  using Kernels = kernel::Instances<
      kernel::Instance<kernel::StepStates, kernel::LstmStepGrad<T>>,
      kernel::Instance<kernel::StepStates, kernel::PeepholeLstmStepGrad<T>>,
      kernel::Instance<kernel::StepStates, kernel::PeepholeLstmStepGrad<T, kernel::StepFunction, kernel::StepFunction>>,
      kernel::Instance<kernel::StepStates, kernel::LstmShown<T>>,
      kernel::Instance<kernel::StepStates, kernel::LstmProjectedGrad<T>>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dhidden, const Input<E, T>& dcell, const Input<E, T>& x,
                  const Input<E, T>& hidden, const Input<E, T>& cell, const LstmWeights<T, typename E::device>& weights,
                  const Input<E, T>& new_cell, const Input<E, T>& gates, const LstmCellGradOptions& options,
                  const To<E, T>& dx, LstmWeights<T, typename E::device>& dweights, const To<E, T>& dhidden_before,
                  const To<E, T>& dcell_before) {
    check_lstm_weights(x, weights, options, name, true);
    const LstmUnits<T> units = lstm_units(weights, options);
    const std::int64_t rows = x.rows(), size = units.size, width = units.width(), columns = 4 * size;
    check_states(dhidden, rows, width, {name, "dhidden"});
    check_states(dcell, rows, size, {name, "dcell"});
    check_states(hidden, rows, width, {name, "hidden"});
    check_states(cell, rows, size, {name, "cell"});
    check_matrix(new_cell, rows, size, {name, "new_cell"});
    check_matrix(gates, rows, columns, {name, "gates"});
    const OtherMemory outputs[] = {{"dx", dx},
                                   {"dweights.input", dweights.input},
                                   {"dweights.recurrent", dweights.recurrent},
                                   {"dweights.bias", dweights.bias},
                                   {"dweights.peepholes", dweights.peepholes},
                                   {"dweights.projection", dweights.projection},
                                   {"dhidden", dhidden_before},
                                   {"dcell", dcell_before}};
    const OtherMemory arguments[] = {{"dhidden", dhidden},
                                     {"dcell", dcell},
                                     {"x", x},
                                     {"hidden", hidden},
                                     {"cell", cell},
                                     {"weights.input", weights.input},
                                     {"weights.recurrent", weights.recurrent},
                                     {"weights.bias", weights.bias},
                                     {"weights.peepholes", weights.peepholes},
                                     {"weights.projection", weights.projection},
                                     {"new_cell", new_cell},
                                     {"gates", gates}};
    check_apart(name, outputs, arguments);
    const bool adds = options.accumulate, projects = is_projected(x, weights.input, columns);
    const SameLevels as_x{x.lod_view()};
    const auto out_weights = prepare_lstm_weights(executor, name, dweights, weights, adds);
    const auto out = prepare(executor, {name, "dx"}, dx, as_x, x.row_shape(), {});
    const auto out_hidden = prepare(executor, {name, "dhidden"}, dhidden_before, as_x, {width}, {});
    const auto out_cell = prepare(executor, {name, "dcell"}, dcell_before, as_x, {size}, {});

    const T* const projection = units.projection.weights;
    const LstmStepsBack<E, T> back(executor, units, rows);
    const kernel::Scratch<E, T> of_products(executor, projects ? rows * columns : 0);
    const kernel::Scratch<E, T> dpeepholes(executor, units.peepholes ? rows * 3 * size : 0);
    const kernel::Scratch<E, T> shown(executor, projection ? rows * size : 0);
    const kernel::Scratch<E, T> projected(executor, projection ? rows * width : 0);
    const kernel::Scratch<E, T> dprojected(executor, projection ? rows * width : 0);
    T* const dgates = projects ? of_products.data() : out.data();
    copy_states(executor, dhidden, rows * width, out_hidden.data());
    copy_states(executor, dcell, rows * size, out_cell.data());
    if (projection) {
      show_again<E, T>(executor, units, rows, gates.data(), new_cell.data(), shown.data());
      if (units.projection.clip > 0) {
        matrix_product<E, T>(executor, false, false, rows, width, size, 1, shown.data(), size, projection, width, 0,
                             projected.data(), width);
      }
    }
    back.step(rows, gates.data(), given(cell), new_cell.data(), nullptr, out_hidden.data(), out_cell.data(), dgates,
              units.peepholes ? dpeepholes.data() : nullptr, units.projection.clip > 0 ? projected.data() : nullptr,
              dprojected.data());
    if (projects) {
      cell_gates_grad<E, T>(executor, x, weights.input, dgates, columns, adds, out_weights.input.data(), out.data());
    }
    recurrent_grad<E, T>(executor, hidden, width, columns, dgates, columns, adds, out_weights.recurrent.data());
    if (projection) {
      matrix_product<E, T>(executor, true, false, size, width, rows, 1, shown.data(), size, dprojected.data(), width,
                           adds ? 1 : 0, out_weights.projection.data(), width);
    }
    if (given(weights.bias))
      sum_some_columns<E, T>(executor, dgates, rows, columns, 0, columns, adds, out_weights.bias.data());
    if (units.peepholes) {
      sum_some_columns<E, T>(executor, dpeepholes.data(), rows, 3 * size, 0, 3 * size, adds,
                             out_weights.peepholes.data());
    }
  }
};

}  // namespace operation

/// One step of `lstm`: computes h and c from h' and c', which have a row for each row of x, or no rows for zeros.
/// Called for the steps of a batch one after the other, it gives the results of `lstm`, on the CPU to the last bit. If
/// `weights.input` has no rows, the rows of x are already the products x W, or sums of such: so a loop may compute the
/// products of all its steps beforehand.
///
/// The outputs are a row for each row of x, and may be views, such as steps of a `TimeMajor`; they must not overlap the
/// arguments. If memory runs out, their contents are lost. Throws ShapeMismatch for weights or states that do not fit,
/// OutOfRange for a negative limit.
inline constexpr operation::Call<op::lstm_cell> lstm_cell{};
inline constexpr operation::CallInto<op::lstm_cell> lstm_cell_into{};

/// The gradients of `lstm_cell` with respect to x, the weights, h' and c'. `dhidden` and `dcell` are the gradients with
/// respect to h and c; without rows they stand for zeros. x, h', c' and the weights are the arguments of `lstm_cell`;
/// `new_cell` and `gates` are its results.
///
/// Gradients with respect to the weights, in their shapes, are overwritten, or added to with `accumulate`. If the rows
/// of x are products, dx is the gradient with respect to these, from which a loop may compute the gradients of its own
/// weights for all steps at once. The options are those of `lstm_cell`. The outputs must not overlap the arguments. If
/// memory runs out, the contents of the outputs are lost. Throws as `lstm_cell`, and ShapeMismatch for gradients that
/// do not fit.
inline constexpr operation::Call<op::lstm_cell_grad> lstm_cell_grad{};
inline constexpr operation::CallInto<op::lstm_cell_grad> lstm_cell_grad_into{};

namespace operation {

/// The numbers of a cell and of a state, from the weights' descriptions. Throws ShapeMismatch for weights that do not
/// fit.
inline LstmSizes infer_lstm_sizes(const infer::Batch& x, const LstmWeightsDesc& weights, const char* what,
                                  bool may_omit_input = false) {
  const auto named = [&](const char* member) { return detail::text({what, ": weights.", member}); };
  const bool projects = !weights.projection.tensor.dims.empty() && weights.projection.tensor.dims.front() != 0;
  LoDTensorDesc recurrent = weights.recurrent;
  std::int64_t width = infer::unknown;
  if (projects) {
    const infer::Batch states(recurrent, named("recurrent").c_str());
    const infer::Batch projection(weights.projection, named("projection").c_str());
    infer::check_type(projection.type, x.type, named("projection").c_str());
    const std::int64_t columns = projection.row_size(what);
    width = states.rows == infer::unknown ? columns : states.rows;
    if (!infer::agree(states.rows, columns)) {
      throw ShapeMismatch(detail::text(
          {named("projection"), ": ", columns, " columns, expected ", states.rows, ", the rows of weights.recurrent"}));
    }
    recurrent.tensor.dims = {projection.rows, states.row_size(what)};
  }
  const std::int64_t size = infer_hidden_size(x, weights.input, recurrent, 4, what, may_omit_input);
  infer_vector(weights.bias, x.type, infer::product({4, size}, what), named("bias").c_str());
  infer_vector(weights.peepholes, x.type, infer::product({3, size}, what), named("peepholes").c_str());
  return {size, projects ? width : size};
}

}  // namespace operation

/// The result of `lstm_cell`, described: see <lod/infer.hpp>.
inline LstmCellDesc infer_lstm_cell(const LoDTensorDesc& x, const LoDTensorDesc& hidden, const LoDTensorDesc& cell,
                                    const LstmWeightsDesc& weights, const LstmCellOptions& = {}) {
  infer::Batch states = infer::batch_for<op::lstm_cell>(x, "lstm_cell"), cells = states, gates = states;
  const auto [size, width] = operation::infer_lstm_sizes(states, weights, "lstm_cell", true);
  states.row_shape = {width};
  cells.row_shape = {size};
  gates.row_shape = {infer::product({4, size}, "lstm_cell")};
  operation::infer_initial(hidden, states, "lstm_cell: hidden");
  operation::infer_initial(cell, cells, "lstm_cell: cell");
  return {states, cells, gates};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

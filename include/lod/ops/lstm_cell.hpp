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

#include <lod/core/target.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/lstm_steps.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/ops/recurrent_cell.hpp>

#include <cstdint>
#include <optional>
#include <utility>

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
};

/// The result of `lstm_cell`: a row for each row of x, LoD as x.
template <class T, class Device = Cpu>
struct LstmCell {
  LoDTensor<T, Device> hidden;  ///< h
  LoDTensor<T, Device> cell;    ///< c
  LoDTensor<T, Device> gates;   ///< i, f, g, o, for `lstm_cell_grad`
};

/// The options of `lstm_cell_grad`.
struct LstmCellGradOptions {
  /// Whether gradients with respect to the weights are added to the outputs' values, as in a loop over steps that
  /// begins with zeros; the outputs must then have the shapes of the weights. By default they are overwritten.
  bool accumulate = false;
};

/// The result of `lstm_cell_grad`: the gradients with respect to the arguments of `lstm_cell`.
template <class T, class Device = Cpu>
struct LstmCellGrad {
  LoDTensor<T, Device> x;
  LstmWeights<T, Device> weights;
  LoDTensor<T, Device> hidden;  ///< a row for each row of x, even if none were given
  LoDTensor<T, Device> cell;
};

/// The weights of `lstm`, described. An omitted bias has no dimension, or no row; likewise omitted peepholes.
struct LstmWeightsDesc {
  LoDTensorDesc input;
  LoDTensorDesc recurrent;
  LoDTensorDesc bias = {};
  LoDTensorDesc peepholes = {};
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

/// The arguments of a step besides the states.
template <class T>
struct LstmUnits {
  std::int64_t size;
  kernel::LstmOrder order;
  const T* recurrent;  ///< {size, 4 size}
  const T* bias;       ///< added to the contributions of x, in the order of the gates; null for zeros
  const T* peepholes;  ///< null for zeros
  std::optional<kernel::LstmFunctions> functions = {};  ///< replace those of `lstm`
};

/// Launches a step with peepholes, or its gradient, passing the units' functions after `arguments`.
template <template <class...> class Step, Executor E, class T, class... Arguments>
void launch_with_peepholes(const E& executor, const LstmUnits<T>& units, std::int64_t active,
                           const Arguments&... arguments) {
  if (const auto& f = units.functions) {
    using Function = kernel::StepFunction;
    launch(kernel::StepStates(), executor, active,
           Step<T, Function, Function>{units.size, units.order, arguments..., f->gates, f->candidate, f->cell,
                                       f->cell_limit});
  } else {
    launch(kernel::StepStates(), executor, active, Step<T>{units.size, units.order, arguments...});
  }
}

/// One step of `active` sequences from the states before it, null for zeros. `gates` holds the contributions of x, on
/// return i, f, g and o.
template <Executor E, class T>
void lstm_step(const E& executor, const LstmUnits<T>& units, std::int64_t active, const T* hidden_before,
               const T* cell_before, T* gates, T* cell, T* hidden) {
  const std::int64_t size = units.size;
  if (hidden_before) {
    matrix_product(executor, false, false, active, 4 * size, size, 1, hidden_before, size, units.recurrent, 4 * size, 1,
                   gates, 4 * size);
  }
  if (units.bias || units.peepholes || units.functions) {
    launch_with_peepholes<kernel::PeepholeLstmStep>(executor, units, active, units.bias, units.peepholes, cell_before,
                                                    gates, cell, hidden);
  } else {
    launch(kernel::StepStates(), executor, active, kernel::LstmStep<T>{size, cell_before, gates, cell, hidden});
  }
}

/// The steps of the gradient, from the last to the first.
template <Executor E, class T>
class LstmStepsBack {
 public:
  LstmStepsBack(const E& executor, const LstmUnits<T>& units)
      : executor_(executor), units_(units), recurrent_(executor, 4 * units.size * units.size) {
    // Transposed once, so that the product of each step, which may have few rows, can read it in place.
    launch(kernel::TransposeMatrix(), executor, units.recurrent, units.size, 4 * units.size, recurrent_.data());
  }
  /// Takes the gradients with respect to the states after the step: `dhidden` (may be null) plus `dstate`, and `dcell`.
  /// Writes those with respect to the states before it to `dstate` and `dcell`, and with respect to the gates to
  /// `dgates`. `dpeepholes` as in PeepholeLstmStepGrad.
  void step(std::int64_t active, const T* gates, const T* cell_before, const T* cell, const T* dhidden, T* dstate,
            T* dcell, T* dgates, T* dpeepholes) const {
    const std::int64_t size = units_.size;
    if (units_.bias || units_.peepholes || units_.functions) {
      launch_with_peepholes<kernel::PeepholeLstmStepGrad>(executor_, units_, active, units_.peepholes, gates,
                                                          cell_before, cell, dhidden, dstate, dcell, dgates,
                                                          dpeepholes);
    } else {
      launch(kernel::StepStates(), executor_, active,
             kernel::LstmStepGrad<T>{size, gates, cell_before, cell, dhidden, dstate, dcell, dgates});
    }
    matrix_product<E, T>(executor_, false, false, active, size, 4 * size, 1, dgates, 4 * size, recurrent_.data(), size,
                         0, dstate, size);
  }

 private:
  const E& executor_;
  LstmUnits<T> units_;
  kernel::Scratch<E, T> recurrent_;
};

/// Throws ShapeMismatch for weights that do not fit the rows of x.
template <class X, class T, class Device>
void check_lstm_weights(const X& x, const LstmWeights<T, Device>& weights, const char* what,
                        bool may_omit_input = false) {
  const std::int64_t size = weights.recurrent.rows();
  check_weights(weights.recurrent, size, 4 * size, what, "weights.recurrent");
  if (!may_omit_input || is_projected(x, weights.input, 4 * size)) {
    check_weights(weights.input, x.row_size(), 4 * size, what, "weights.input");
  }
  check_bias(weights.bias, 4 * size, what, "weights.bias");
  check_bias(weights.peepholes, 3 * size, what, "weights.peepholes");
}

/// The units for weights in the order i, f, g, o. Their bias is already in the contributions of x.
template <class T, class Device>
LstmUnits<T> lstm_units(const LstmWeights<T, Device>& weights) {
  const std::int64_t size = weights.recurrent.rows();
  return {size, {0, size, 2 * size, 3 * size}, weights.recurrent.data(), nullptr, given(weights.peepholes)};
}

template <class T, class Device>
struct Unfilled<LstmWeights<T, Device>> {
  template <class Resource>
  static LstmWeights<T, Device> from(Resource* resource) {
    using One = LoDTensor<T, Device>;
    return {One(resource), One(resource), One(resource), One(resource)};
  }
};

template <>
struct Declared<op::lstm_cell> : Takes<Tensor, Tensor, Tensor, Of<LstmWeights>>,
                                 GivesAll<LstmCell, Tensor, Tensor, Tensor> {
  static constexpr const char* name = "lstm_cell";
  using Gradient = op::lstm_cell_grad;
  template <class T>
  using Kernels = kernel::Instances<
      kernel::Instance<kernel::StepStates, kernel::LstmStep<T>>,
      kernel::Instance<kernel::StepStates, kernel::PeepholeLstmStep<T>>,
      kernel::Instance<kernel::StepStates, kernel::PeepholeLstmStep<T, kernel::StepFunction, kernel::StepFunction>>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const Input<E, T>& hidden, const Input<E, T>& cell,
                  const LstmWeights<T, typename E::device>& weights, const To<E, T>& new_hidden,
                  const To<E, T>& new_cell, const To<E, T>& gates) {
    check_lstm_weights(x, weights, name, true);
    const LstmUnits<T> units = lstm_units(weights);
    check_states(hidden, x.rows(), units.size, {name, "hidden"});
    check_states(cell, x.rows(), units.size, {name, "cell"});
    const OtherMemory outputs[] = {{"hidden", new_hidden}, {"cell", new_cell}, {"gates", gates}};
    const OtherMemory arguments[] = {{"x", x},
                                     {"hidden", hidden},
                                     {"cell", cell},
                                     {"weights.input", weights.input},
                                     {"weights.recurrent", weights.recurrent},
                                     {"weights.bias", weights.bias},
                                     {"weights.peepholes", weights.peepholes}};
    check_apart(name, outputs, arguments);
    const SameLevels as_x{x.lod_view()};
    const auto out_hidden = prepare(executor, {name, "hidden"}, new_hidden, as_x, {units.size}, {});
    const auto out_cell = prepare(executor, {name, "cell"}, new_cell, as_x, {units.size}, {});
    const auto out_gates = prepare(executor, {name, "gates"}, gates, as_x, {4 * units.size}, {});
    cell_gates(executor, x, weights.input, weights.bias, 4 * units.size, out_gates.data());
    lstm_step(executor, units, x.rows(), given(hidden), given(cell), out_gates.data(), out_cell.data(),
              out_hidden.data());
  }
};

template <>
struct Declared<op::lstm_cell_grad> : Takes<Tensor, Tensor, Tensor, Tensor, Tensor, Of<LstmWeights>, Tensor, Tensor>,
                                      With<LstmCellGradOptions>,
                                      GivesAll<LstmCellGrad, Tensor, Of<LstmWeights>, Tensor, Tensor> {
  static constexpr const char* name = "lstm_cell_grad";
  template <class T>
  using Kernels =
      kernel::Instances<kernel::Instance<kernel::StepStates, kernel::LstmStepGrad<T>>,
                        kernel::Instance<kernel::StepStates, kernel::PeepholeLstmStepGrad<T>>,
                        kernel::Instance<kernel::StepStates,
                                         kernel::PeepholeLstmStepGrad<T, kernel::StepFunction, kernel::StepFunction>>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dhidden, const Input<E, T>& dcell, const Input<E, T>& x,
                  const Input<E, T>& hidden, const Input<E, T>& cell, const LstmWeights<T, typename E::device>& weights,
                  const Input<E, T>& new_cell, const Input<E, T>& gates, const LstmCellGradOptions& options,
                  const To<E, T>& dx, LstmWeights<T, typename E::device>& dweights, const To<E, T>& dhidden_before,
                  const To<E, T>& dcell_before) {
    check_lstm_weights(x, weights, name, true);
    const LstmUnits<T> units = lstm_units(weights);
    const std::int64_t rows = x.rows(), size = units.size, columns = 4 * size;
    for (const auto& [states, argument] :
         {std::pair(&dhidden, "dhidden"), {&dcell, "dcell"}, {&hidden, "hidden"}, {&cell, "cell"}}) {
      check_states(*states, rows, size, {name, argument});
    }
    check_matrix(new_cell, rows, size, {name, "new_cell"});
    check_matrix(gates, rows, columns, {name, "gates"});
    const OtherMemory outputs[] = {{"dx", dx},
                                   {"dweights.input", dweights.input},
                                   {"dweights.recurrent", dweights.recurrent},
                                   {"dweights.bias", dweights.bias},
                                   {"dweights.peepholes", dweights.peepholes},
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
                                     {"new_cell", new_cell},
                                     {"gates", gates}};
    check_apart(name, outputs, arguments);
    const bool adds = options.accumulate, projects = is_projected(x, weights.input, columns);
    const SameLevels as_x{x.lod_view()};
    const auto prepared = [&](const char* which, auto& dweight, const auto& weight) {
      return prepare_sum(executor, {name, which}, dweight, weight, adds);
    };
    const auto out_input = prepared("dweights.input", dweights.input, weights.input);
    const auto out_recurrent = prepared("dweights.recurrent", dweights.recurrent, weights.recurrent);
    const auto out_bias = prepared("dweights.bias", dweights.bias, weights.bias);
    const auto out_peepholes = prepared("dweights.peepholes", dweights.peepholes, weights.peepholes);
    const auto out = prepare(executor, {name, "dx"}, dx, as_x, x.row_shape(), {});
    const auto out_hidden = prepare(executor, {name, "dhidden"}, dhidden_before, as_x, {size}, {});
    const auto out_cell = prepare(executor, {name, "dcell"}, dcell_before, as_x, {size}, {});

    const LstmStepsBack<E, T> back(executor, units);
    const kernel::Scratch<E, T> of_products(executor, projects ? rows * columns : 0);
    const kernel::Scratch<E, T> dpeepholes(executor, units.peepholes ? rows * 3 * size : 0);
    T* const dgates = projects ? of_products.data() : out.data();
    copy_states(executor, dhidden, rows * size, out_hidden.data());
    copy_states(executor, dcell, rows * size, out_cell.data());
    back.step(rows, gates.data(), given(cell), new_cell.data(), nullptr, out_hidden.data(), out_cell.data(), dgates,
              units.peepholes ? dpeepholes.data() : nullptr);
    if (projects) {
      cell_gates_grad<E, T>(executor, x, weights.input, dgates, columns, adds, out_input.data(), out.data());
    }
    recurrent_grad<E, T>(executor, hidden, size, columns, dgates, columns, adds, out_recurrent.data());
    if (given(weights.bias)) sum_some_columns<E, T>(executor, dgates, rows, columns, 0, columns, adds, out_bias.data());
    if (units.peepholes) {
      sum_some_columns<E, T>(executor, dpeepholes.data(), rows, 3 * size, 0, 3 * size, adds, out_peepholes.data());
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
/// arguments. If memory runs out, their contents are lost. Throws ShapeMismatch for weights or states that do not fit.
inline constexpr operation::Call<op::lstm_cell> lstm_cell{};
inline constexpr operation::CallInto<op::lstm_cell> lstm_cell_into{};

/// The gradients of `lstm_cell` with respect to x, the weights, h' and c'. `dhidden` and `dcell` are the gradients with
/// respect to h and c; without rows they stand for zeros. x, h', c' and the weights are the arguments of `lstm_cell`;
/// `new_cell` and `gates` are its results.
///
/// Gradients with respect to the weights, in their shapes, are overwritten, or added to with `accumulate`. If the rows
/// of x are products, dx is the gradient with respect to these, from which a loop may compute the gradients of its own
/// weights for all steps at once. The outputs must not overlap the arguments. If memory runs out, the contents of the
/// outputs are lost. Throws ShapeMismatch for arguments or gradients that do not fit.
inline constexpr operation::Call<op::lstm_cell_grad> lstm_cell_grad{};
inline constexpr operation::CallInto<op::lstm_cell_grad> lstm_cell_grad_into{};

/// The result of `lstm_cell`, described: see <lod/infer.hpp>.
inline LstmCellDesc infer_lstm_cell(const LoDTensorDesc& x, const LoDTensorDesc& hidden, const LoDTensorDesc& cell,
                                    const LstmWeightsDesc& weights) {
  infer::Batch states = infer::batch_for<op::lstm_cell>(x, "lstm_cell"), gates = states;
  const std::int64_t size =
      operation::infer_hidden_size(states, weights.input, weights.recurrent, 4, "lstm_cell", true);
  const std::int64_t columns = infer::product({4, size}, "lstm_cell");
  operation::infer_vector(weights.bias, states.type, columns, "lstm_cell: weights.bias");
  operation::infer_vector(weights.peepholes, states.type, infer::product({3, size}, "lstm_cell"),
                          "lstm_cell: weights.peepholes");
  states.row_shape = {size};
  gates.row_shape = {columns};
  operation::infer_initial(hidden, states, "lstm_cell: hidden");
  operation::infer_initial(cell, states, "lstm_cell: cell");
  return {states, states, gates};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

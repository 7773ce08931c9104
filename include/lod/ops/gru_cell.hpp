// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup recurrent
/// One step of gated recurrent units, for users' own loops over steps; `gru` is such a loop. The formulas are in
/// <lod/ops/gru.hpp>, an example of a loop in <lod/ops/lstm_cell.hpp>.
#pragma once

#include <lod/core/target.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/gru_steps.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/recurrent.hpp>
#include <lod/ops/recurrent_cell.hpp>

#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE::op {
struct gru_cell : elements::Floating {
  static constexpr Text text{"x, hidden, weights", "One step of `gru` for each row of x, from the state in `hidden`."};
};
struct gru_cell_grad : elements::Floating {
  static constexpr Text text{"dhidden, x, hidden, weights, gates, memory",
                             "The gradients of `gru_cell`, with its options, from its results."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The parameters for rows of d numbers and n hidden units; also their gradients.
template <class T, class Device = Cpu>
struct GruWeights {
  LoDTensor<T, Device> input = {};           ///< {d, 3 n}: Wr Wz Wn
  LoDTensor<T, Device> recurrent = {};       ///< {n, 3 n}: Ur Uz Un
  LoDTensor<T, Device> bias = {};            ///< 3 n numbers: br bz bn; optional
  LoDTensor<T, Device> recurrent_bias = {};  ///< n numbers: b'; optional
};

/// The options of `gru_cell`: the form of the unit, as those of `gru`.
struct GruCellOptions {
  bool reset_after = true;
  bool origin_mode = true;
};

/// The result of `gru_cell`: a row for each row of x, LoD as x.
template <class T, class Device = Cpu>
struct GruCell {
  LoDTensor<T, Device> hidden;  ///< h
  LoDTensor<T, Device> gates;   ///< r, z, n, for `gru_cell_grad`
  LoDTensor<T, Device> memory;  ///< h' Un + b' or, without `reset_after`, r * h'; for `gru_cell_grad`
};

/// The options of `gru_cell_grad`.
struct GruCellGradOptions {
  bool reset_after = true;
  bool origin_mode = true;
  /// Whether gradients with respect to the weights are added to the outputs' values, as in a loop over steps that
  /// begins with zeros; the outputs must then have the shapes of the weights. By default they are overwritten.
  bool accumulate = false;
};

/// The result of `gru_cell_grad`: the gradients with respect to the arguments of `gru_cell`.
template <class T, class Device = Cpu>
struct GruCellGrad {
  LoDTensor<T, Device> x;
  GruWeights<T, Device> weights;
  LoDTensor<T, Device> hidden;  ///< a row for each row of x, even if none were given
};

/// The weights of `gru`, described. An omitted bias has no dimension, or no row.
struct GruWeightsDesc {
  LoDTensorDesc input;
  LoDTensorDesc recurrent;
  LoDTensorDesc bias = {};
  LoDTensorDesc recurrent_bias = {};
};

/// The result of `gru_cell`, described.
struct GruCellDesc {
  LoDTensorDesc hidden;
  LoDTensorDesc gates;
  LoDTensorDesc memory;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The arguments of a step besides the states.
template <class T>
struct GruUnits {
  std::int64_t size;
  kernel::GruOrder order;
  const T* gates;  ///< weights of r and z: `size` rows, in the order of the gates, which are `gates_stride` apart
  std::int64_t gates_stride;
  const T* candidate;  ///< and of n
  std::int64_t candidate_stride;
  const T* gates_bias;      ///< added to the contributions of x; null for zeros
  const T* candidate_bias;  ///< with `reset_after` to those of h'
  bool origin_mode;
  std::optional<kernel::GruFunctions> functions = {};  ///< in place of those of `gru`; not with `reset_after`
};

/// Calls f(the function of the gates r and z, that of the candidate n).
template <class T, class F>
void with_functions(const GruUnits<T>& units, const F& f) {
  if (units.functions) {
    f(units.functions->gates, units.functions->candidate);
  } else {
    f(kernel::StepSigmoid(), kernel::StepTanh());
  }
}

/// Calls f(std::bool_constant<origin_mode>()).
template <class F>
void with_mode(bool origin_mode, const F& f) {
  if (origin_mode) {
    f(std::true_type());
  } else {
    f(std::false_type());
  }
}

/// One step of `active` sequences from the states before it, null for zeros. `gates` holds the contributions of x, on
/// return r, z and n; `memory` is that of `GruTrace`. With `reset_after` the weights of all gates are one matrix, in
/// the order r, z, n, and `products` is scratch memory of the size of `gates`.
template <Executor E, class T>
void gru_step(const E& executor, const GruUnits<T>& units, bool reset_after, std::int64_t active, const T* before,
              T* products, T* gates, T* memory, T* hidden) {
  if (active == 0) return;
  const std::int64_t size = units.size;
  // y = beta y + x U.
  const auto multiply = [&](const T* x, const T* weights, std::int64_t stride, std::int64_t columns, double beta,
                            T* y) {
    if (!before) return;
    matrix_product<E, T>(executor, false, false, active, columns, size, 1, x, size, weights, stride, beta, y, 3 * size);
  };
  if (reset_after) {
    multiply(before, units.gates, units.gates_stride, 3 * size, 0, products);
    with_mode(units.origin_mode, [&]<bool mode>(std::bool_constant<mode>) {
      launch(kernel::StepStates(), executor, active,
             kernel::GruStep<T, mode>{size, before ? products : nullptr, units.candidate_bias, before, gates, memory,
                                      hidden});
    });
    return;
  }
  multiply(before, units.gates, units.gates_stride, 2 * size, 1, gates);
  with_functions(units, [&]<class Gate, class State>(const Gate& of_gates, const State& of_candidate) {
    launch(kernel::StepStates(), executor, active,
           kernel::GruResetStep<T, Gate>{size, units.order, units.gates_bias, before, gates, memory, of_gates});
    multiply(memory, units.candidate, units.candidate_stride, size, 1, gates + 2 * size);
    launch(kernel::StepStates(), executor, active,
           kernel::GruCandidateStep<T, State>{size, units.order, units.candidate_bias, before, gates, hidden,
                                              units.origin_mode, of_candidate});
  });
}

/// The steps of the gradient, from the last to the first.
template <Executor E, class T>
class GruStepsBack {
 public:
  /// For at most `widest` sequences a step; the number is used only without `reset_after`.
  GruStepsBack(const E& executor, const GruUnits<T>& units, std::int64_t widest)
      : executor_(executor),
        units_(units),
        recurrent_(executor, 3 * units.size * units.size),
        dreset_(executor, widest * units.size) {
    // Transposed once, so that the product of each step, which may have few rows, can read it in place.
    const std::int64_t size = units.size;
    const bool are_one = units.gates_stride == 3 * size;
    launch(kernel::TransposeMatrix(), executor, units.gates, size, units.gates_stride, recurrent_.data());
    if (!are_one) launch(kernel::TransposeMatrix(), executor, units.candidate, size, size, candidate());
  }
  /// Takes the gradient with respect to the states after the step, which is `dhidden` (may be null) plus `dstate`.
  /// Writes the gradient with respect to the states before it to `dstate`, with respect to the gates to `dgates`, and
  /// with respect to the products of the states to `dproducts`, which is `dgates` without `reset_after`.
  void step(bool reset_after, std::int64_t active, const T* before, const T* gates, const T* memory, const T* dhidden,
            T* dstate, T* dgates, T* dproducts) const {
    if (active == 0) return;
    const std::int64_t size = units_.size;
    // y = beta y + the gradient through `count` of the gates.
    const auto multiply = [&](const T* dgate, const T* weights, std::int64_t count, double beta, T* y) {
      matrix_product<E, T>(executor_, false, false, active, size, count, 1, dgate, 3 * size, weights, size, beta, y,
                           size);
    };
    if (reset_after) {
      with_mode(units_.origin_mode, [&]<bool mode>(std::bool_constant<mode>) {
        launch(kernel::StepStates(), executor_, active,
               kernel::GruStepGrad<T, mode>{size, gates, memory, before, dhidden, dstate, dgates, dproducts});
      });
      return multiply(dproducts, recurrent_.data(), 3 * size, 1, dstate);
    }
    with_functions(units_, [&]<class Gate, class State>(const Gate& of_gates, const State& of_candidate) {
      launch(kernel::StepStates(), executor_, active,
             kernel::GruCandidateStepGrad<T, Gate, State>{size, units_.order, gates, before, dhidden, dstate, dgates,
                                                          units_.origin_mode, of_gates, of_candidate});
      multiply(dgates + 2 * size, candidate(), size, 0, dreset_.data());
      launch(kernel::StepStates(), executor_, active,
             kernel::GruResetStepGrad<T, Gate>{size, units_.order, gates, before, dreset_.data(), dstate, dgates,
                                               of_gates});
    });
    multiply(dgates, recurrent_.data(), 2 * size, 1, dstate);
  }

 private:
  T* candidate() const noexcept { return recurrent_.data() + 2 * units_.size * units_.size; }

  const E& executor_;
  GruUnits<T> units_;
  kernel::Scratch<E, T> recurrent_, dreset_;
};

/// The gradient with respect to the weights of n without `reset_after`, from the `rows` rows of all steps.
template <Executor E, class T>
void candidate_grad(const E& executor, const GruUnits<T>& units, std::int64_t rows, const T* memory, const T* dgates,
                    bool adds, T* dcandidate) {
  const std::int64_t size = units.size;
  const T* const dcandidates = rows > 0 ? dgates + 2 * size : dgates;
  matrix_product<E, T>(executor, true, false, size, size, rows, 1, memory, size, dcandidates, 3 * size, adds ? 1 : 0,
                       dcandidate, units.candidate_stride);
}

/// Throws ShapeMismatch for weights that do not fit the rows of x.
template <class X, class T, class Device>
void check_gru_weights(const X& x, const GruWeights<T, Device>& weights, const char* what,
                       bool may_omit_input = false) {
  const std::int64_t size = weights.recurrent.rows();
  check_weights(weights.recurrent, size, 3 * size, what, "weights.recurrent");
  if (!may_omit_input || is_projected(x, weights.input, 3 * size)) {
    check_weights(weights.input, x.row_size(), 3 * size, what, "weights.input");
  }
  check_bias(weights.bias, 3 * size, what, "weights.bias");
  check_bias(weights.recurrent_bias, size, what, "weights.recurrent_bias");
}

/// The units for weights in the order r, z, n. Their bias is already in the contributions of x.
template <class T, class Device>
GruUnits<T> gru_units(const GruWeights<T, Device>& weights, bool origin_mode) {
  const std::int64_t size = weights.recurrent.rows();
  const T* const recurrent = weights.recurrent.data();
  return {size,
          {0, size},
          recurrent,
          3 * size,
          recurrent + 2 * size,
          3 * size,
          nullptr,
          given(weights.recurrent_bias),
          origin_mode};
}

/// Gradients with respect to the weights, prepared.
template <class T, class Device>
struct GruWeightOutputs {
  Output<T, Device> input, recurrent, bias, recurrent_bias;
};
template <Executor E, class T, class Device>
GruWeightOutputs<T, Device> prepare_gru_weights(const E& executor, const char* name, GruWeights<T, Device>& dweights,
                                                const GruWeights<T, Device>& weights, bool adds = false) {
  const auto prepared = [&](const char* which, auto& dweight, const auto& weight) {
    return prepare_sum(executor, {name, which}, dweight, weight, adds);
  };
  return {prepared("dweights.input", dweights.input, weights.input),
          prepared("dweights.recurrent", dweights.recurrent, weights.recurrent),
          prepared("dweights.bias", dweights.bias, weights.bias),
          prepared("dweights.recurrent_bias", dweights.recurrent_bias, weights.recurrent_bias)};
}

template <class T, class Device>
struct Unfilled<GruWeights<T, Device>> {
  template <class Resource>
  static GruWeights<T, Device> from(Resource* resource) {
    using One = LoDTensor<T, Device>;
    return {One(resource), One(resource), One(resource), One(resource)};
  }
};

template <>
struct Declared<op::gru_cell>
    : Takes<Tensor, Tensor, Of<GruWeights>>, With<GruCellOptions>, GivesAll<GruCell, Tensor, Tensor, Tensor> {
  static constexpr const char* name = "gru_cell";
  using Gradient = op::gru_cell_grad;
  template <class T>
  using Kernels =
      kernel::Instances<kernel::Instance<kernel::StepStates, kernel::GruStep<T, true>>,
                        kernel::Instance<kernel::StepStates, kernel::GruStep<T, false>>,
                        kernel::Instance<kernel::StepStates, kernel::GruResetStep<T>>,
                        kernel::Instance<kernel::StepStates, kernel::GruResetStep<T, kernel::StepFunction>>,
                        kernel::Instance<kernel::StepStates, kernel::GruCandidateStep<T, kernel::StepFunction>>,
                        kernel::Instance<kernel::StepStates, kernel::GruCandidateStep<T>>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const Input<E, T>& hidden,
                  const GruWeights<T, typename E::device>& weights, const GruCellOptions& options,
                  const To<E, T>& new_hidden, const To<E, T>& gates, const To<E, T>& memory) {
    check_gru_weights(x, weights, name, true);
    const GruUnits<T> units = gru_units(weights, options.origin_mode);
    const std::int64_t rows = x.rows(), size = units.size;
    check_states(hidden, rows, size, {name, "hidden"});
    const OtherMemory outputs[] = {{"hidden", new_hidden}, {"gates", gates}, {"memory", memory}};
    const OtherMemory arguments[] = {{"x", x},
                                     {"hidden", hidden},
                                     {"weights.input", weights.input},
                                     {"weights.recurrent", weights.recurrent},
                                     {"weights.bias", weights.bias},
                                     {"weights.recurrent_bias", weights.recurrent_bias}};
    check_apart(name, outputs, arguments);
    const SameLevels as_x{x.lod_view()};
    const auto out_hidden = prepare(executor, {name, "hidden"}, new_hidden, as_x, {size}, {});
    const auto out_gates = prepare(executor, {name, "gates"}, gates, as_x, {3 * size}, {});
    const auto out_memory = prepare(executor, {name, "memory"}, memory, as_x, {size}, {});
    const kernel::Scratch<E, T> products(executor, options.reset_after ? rows * 3 * size : 0);
    cell_gates(executor, x, weights.input, weights.bias, 3 * size, out_gates.data());
    gru_step(executor, units, options.reset_after, rows, given(hidden), products.data(), out_gates.data(),
             out_memory.data(), out_hidden.data());
  }
};

template <>
struct Declared<op::gru_cell_grad> : Takes<Tensor, Tensor, Tensor, Of<GruWeights>, Tensor, Tensor>,
                                     With<GruCellGradOptions>,
                                     GivesAll<GruCellGrad, Tensor, Of<GruWeights>, Tensor> {
  static constexpr const char* name = "gru_cell_grad";
  template <class T>
  using Kernels = kernel::Instances<
      kernel::Instance<kernel::StepStates, kernel::GruStepGrad<T, true>>,
      kernel::Instance<kernel::StepStates, kernel::GruStepGrad<T, false>>,
      kernel::Instance<kernel::StepStates, kernel::GruCandidateStepGrad<T>>,
      kernel::Instance<kernel::StepStates, kernel::GruResetStepGrad<T, kernel::StepFunction>>,
      kernel::Instance<kernel::StepStates, kernel::GruCandidateStepGrad<T, kernel::StepFunction, kernel::StepFunction>>,
      kernel::Instance<kernel::StepStates, kernel::GruResetStepGrad<T>>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dhidden, const Input<E, T>& x, const Input<E, T>& hidden,
                  const GruWeights<T, typename E::device>& weights, const Input<E, T>& gates, const Input<E, T>& memory,
                  const GruCellGradOptions& options, const To<E, T>& dx, GruWeights<T, typename E::device>& dweights,
                  const To<E, T>& dhidden_before) {
    check_gru_weights(x, weights, name, true);
    const GruUnits<T> units = gru_units(weights, options.origin_mode);
    const std::int64_t rows = x.rows(), size = units.size, columns = 3 * size;
    check_states(dhidden, rows, size, {name, "dhidden"});
    check_states(hidden, rows, size, {name, "hidden"});
    check_matrix(gates, rows, columns, {name, "gates"});
    check_matrix(memory, rows, size, {name, "memory"});
    const OtherMemory outputs[] = {{"dx", dx},
                                   {"dweights.input", dweights.input},
                                   {"dweights.recurrent", dweights.recurrent},
                                   {"dweights.bias", dweights.bias},
                                   {"dweights.recurrent_bias", dweights.recurrent_bias},
                                   {"dhidden", dhidden_before}};
    const OtherMemory arguments[] = {{"dhidden", dhidden},
                                     {"x", x},
                                     {"hidden", hidden},
                                     {"weights.input", weights.input},
                                     {"weights.recurrent", weights.recurrent},
                                     {"weights.bias", weights.bias},
                                     {"weights.recurrent_bias", weights.recurrent_bias},
                                     {"gates", gates},
                                     {"memory", memory}};
    check_apart(name, outputs, arguments);
    const bool after = options.reset_after, adds = options.accumulate;
    const bool projects = is_projected(x, weights.input, columns);
    const SameLevels as_x{x.lod_view()};
    const auto out_weights = prepare_gru_weights(executor, name, dweights, weights, adds);
    const auto out = prepare(executor, {name, "dx"}, dx, as_x, x.row_shape(), {});
    const auto out_hidden = prepare(executor, {name, "dhidden"}, dhidden_before, as_x, {size}, {});

    const GruStepsBack<E, T> back(executor, units, after ? 0 : rows);
    const kernel::Scratch<E, T> of_gates(executor, projects ? rows * columns : 0);
    const kernel::Scratch<E, T> of_products(executor, after ? rows * columns : 0);
    T* const dgates = projects ? of_gates.data() : out.data();
    T* const dproducts = after ? of_products.data() : dgates;
    copy_states(executor, dhidden, rows * size, out_hidden.data());
    back.step(after, rows, given(hidden), gates.data(), memory.data(), nullptr, out_hidden.data(), dgates, dproducts);
    if (projects) {
      cell_gates_grad<E, T>(executor, x, weights.input, dgates, columns, adds, out_weights.input.data(), out.data());
    }
    recurrent_grad<E, T>(executor, hidden, size, after ? columns : 2 * size, dproducts, columns, adds,
                         out_weights.recurrent.data());
    if (!after) {
      candidate_grad<E, T>(executor, units, rows, memory.data(), dproducts, adds,
                           out_weights.recurrent.data() + 2 * size);
    }
    if (given(weights.bias))
      sum_some_columns<E, T>(executor, dgates, rows, columns, 0, columns, adds, out_weights.bias.data());
    if (given(weights.recurrent_bias)) {
      sum_some_columns<E, T>(executor, dproducts, rows, columns, 2 * size, size, adds,
                             out_weights.recurrent_bias.data());
    }
  }
};

}  // namespace operation

/// One step of `gru`: computes h from h', which has a row for each row of x, or no rows for zeros. Called for the steps
/// of a batch one after the other, it gives the results of `gru`, on the CPU to the last bit. If `weights.input` has no
/// rows, the rows of x are already the products x W, or sums of such: so a loop may compute the products of all its
/// steps beforehand.
///
/// The outputs are a row for each row of x, and may be views, such as steps of a `TimeMajor`; they must not overlap the
/// arguments. If memory runs out, their contents are lost. Throws ShapeMismatch for weights or states that do not fit.
inline constexpr operation::Call<op::gru_cell> gru_cell{};
inline constexpr operation::CallInto<op::gru_cell> gru_cell_into{};

/// The gradients of `gru_cell` with respect to x, the weights and h'. `dhidden` is the gradient with respect to h;
/// without rows it stands for zeros. x, h', the weights and the form of the unit are those of `gru_cell`; `gates` and
/// `memory` are its results.
///
/// Gradients with respect to the weights, in their shapes, are overwritten, or added to with `accumulate`. If the rows
/// of x are products, dx is the gradient with respect to these, from which a loop may compute the gradients of its own
/// weights for all steps at once. The outputs must not overlap the arguments. If memory runs out, the contents of the
/// outputs are lost. Throws ShapeMismatch for arguments or gradients that do not fit.
inline constexpr operation::Call<op::gru_cell_grad> gru_cell_grad{};
inline constexpr operation::CallInto<op::gru_cell_grad> gru_cell_grad_into{};

namespace operation {

/// The numbers of a state, from the weights' descriptions. Throws ShapeMismatch for weights that do not fit.
inline std::int64_t infer_gru_size(const infer::Batch& x, const GruWeightsDesc& weights, const char* what,
                                   bool may_omit_input = false) {
  const auto named = [&](const char* member) { return detail::text({what, ": weights.", member}); };
  const std::int64_t size = infer_hidden_size(x, weights.input, weights.recurrent, 3, what, may_omit_input);
  infer_vector(weights.bias, x.type, infer::product({3, size}, what), named("bias").c_str());
  infer_vector(weights.recurrent_bias, x.type, size, named("recurrent_bias").c_str());
  return size;
}

}  // namespace operation

/// The result of `gru_cell`, described: see <lod/infer.hpp>.
inline GruCellDesc infer_gru_cell(const LoDTensorDesc& x, const LoDTensorDesc& hidden, const GruWeightsDesc& weights,
                                  const GruCellOptions& = {}) {
  infer::Batch states = infer::batch_for<op::gru_cell>(x, "gru_cell"), gates = states;
  const std::int64_t size = operation::infer_gru_size(states, weights, "gru_cell", true);
  states.row_shape = {size};
  gates.row_shape = {infer::product({3, size}, "gru_cell")};
  operation::infer_initial(hidden, states, "gru_cell: hidden");
  return {states, gates, states};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

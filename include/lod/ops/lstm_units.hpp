// SPDX-License-Identifier: Apache-2.0
/// @file
/// A step of long short-term memory on an executor, forward and back: the products of matrices, and between them what
/// <lod/ops/lstm_steps.hpp> does with each number. `lstm`, `lstm_cell` and operators of programs are loops over these.
#pragma once

#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/lstm_steps.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/recurrent.hpp>

#include <cstdint>
#include <optional>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// How states are projected; they are not if there are no weights.
template <class T>
struct LstmProjection {
  const T* weights = nullptr;  ///< {size of a cell, width}
  std::int64_t width = 0;      ///< of the states
  kernel::Accumulator<T> clip = 0;
  kernel::StepFunction function = {};  ///< of a program
};
/// The arguments of a step besides the states.
template <class T>
struct LstmUnits {
  std::int64_t size;  ///< of a cell
  kernel::LstmOrder order;
  const T* recurrent;  ///< {width, 4 size}
  const T* bias;       ///< added to the contributions of x, in the order of the gates; null for zeros
  const T* peepholes;  ///< null for zeros
  std::optional<kernel::LstmFunctions> functions = {};  ///< replace those of `lstm`
  kernel::Accumulator<T> cell_clip = 0;
  LstmProjection<T> projection = {};

  /// The numbers of a state.
  std::int64_t width() const noexcept { return projection.weights ? projection.width : size; }
  /// Whether steps need no more than LstmStep knows.
  bool are_plain() const noexcept { return !bias && !peepholes && !functions && !(cell_clip > 0); }
  /// Whether states are more than a product after their projection.
  bool change_projected() const noexcept {
    return projection.clip > 0 || projection.function.name != kernel::StepFunction::IDENTITY;
  }
};

/// Launches a step with peepholes, or its gradient, passing the units' functions after `arguments`.
template <template <class...> class Step, Executor E, class T, class... Arguments>
void launch_with_peepholes(const E& executor, const LstmUnits<T>& units, std::int64_t active,
                           const Arguments&... arguments) {
  if (const auto& f = units.functions) {
    using Function = kernel::StepFunction;
    launch(kernel::StepStates(), executor, active,
           Step<T, Function, Function>{units.size, units.order, arguments..., units.cell_clip, f->gates, f->candidate,
                                       f->cell});
  } else {
    launch(kernel::StepStates(), executor, active, Step<T>{units.size, units.order, arguments..., units.cell_clip});
  }
}

/// One step of `active` sequences from the states before it, null for zeros. `gates` holds the contributions of x, on
/// return i, f, g and o. `shown` receives the states before they are projected, if they are.
template <Executor E, class T>
void lstm_step(const E& executor, const LstmUnits<T>& units, std::int64_t active, const T* hidden_before,
               const T* cell_before, T* gates, T* cell, T* hidden, T* shown = nullptr) {
  const std::int64_t size = units.size, width = units.width();
  const LstmProjection<T>& projection = units.projection;
  T* const made = projection.weights ? shown : hidden;
  if (hidden_before) {
    matrix_product(executor, false, false, active, 4 * size, width, 1, hidden_before, width, units.recurrent, 4 * size,
                   1, gates, 4 * size);
  }
  if (units.are_plain()) {
    launch(kernel::StepStates(), executor, active, kernel::LstmStep<T>{size, cell_before, gates, cell, made});
  } else {
    launch_with_peepholes<kernel::PeepholeLstmStep>(executor, units, active, units.bias, units.peepholes, cell_before,
                                                    gates, cell, made);
  }
  if (!projection.weights) return;
  matrix_product<E, T>(executor, false, false, active, width, size, 1, shown, size, projection.weights, width, 0,
                       hidden, width);
  if (units.change_projected()) {
    launch(kernel::StepStates(), executor, active,
           kernel::LstmProjected<T>{width, hidden, projection.clip, projection.function});
  }
}

/// The steps of the gradient, from the last to the first.
template <Executor E, class T>
class LstmStepsBack {
 public:
  /// For steps of at most `widest` sequences.
  LstmStepsBack(const E& executor, const LstmUnits<T>& units, std::int64_t widest)
      : executor_(executor),
        units_(units),
        recurrent_(executor, 4 * units.size * units.width()),
        projection_(executor, units.projection.weights ? units.size * units.width() : 0),
        dshown_(executor, units.projection.weights ? widest * units.size : 0) {
    // Transposed once, so that the products of each step, which may have few rows, can read them in place.
    launch(kernel::TransposeMatrix(), executor, units.recurrent, units.width(), 4 * units.size, recurrent_.data());
    if (units.projection.weights) {
      launch(kernel::TransposeMatrix(), executor, units.projection.weights, units.size, units.width(),
             projection_.data());
    }
  }
  /// Takes the gradients with respect to the states after the step: `dhidden` (may be null) plus `dstate`, and `dcell`.
  /// Writes those with respect to the states before it to `dstate` and `dcell`, and with respect to the gates to
  /// `dgates`. `dpeepholes` as in PeepholeLstmStepGrad. If states are projected, `hidden` are those after the step, and
  /// `dprojected` receives the gradients with respect to the products by the projection; it may be `dhidden`.
  void step(std::int64_t active, const T* gates, const T* cell_before, const T* cell, const T* dhidden, T* dstate,
            T* dcell, T* dgates, T* dpeepholes, const T* hidden = nullptr, T* dprojected = nullptr) const {
    const std::int64_t size = units_.size, width = units_.width();
    const LstmProjection<T>& projection = units_.projection;
    const T *dmade = dhidden, *dnext = dstate;
    if (projection.weights) {
      launch(kernel::StepStates(), executor_, active,
             kernel::LstmProjectedGrad<T>{width, hidden, projection.clip, projection.function, dhidden, dstate,
                                          dprojected});
      matrix_product<E, T>(executor_, false, false, active, size, width, 1, dprojected, width, projection_.data(), size,
                           0, dshown_.data(), size);
      dmade = dshown_.data();
      dnext = nullptr;
    }
    if (units_.are_plain()) {
      launch(kernel::StepStates(), executor_, active,
             kernel::LstmStepGrad<T>{size, gates, cell_before, cell, dmade, dnext, dcell, dgates});
    } else {
      launch_with_peepholes<kernel::PeepholeLstmStepGrad>(executor_, units_, active, units_.peepholes, gates,
                                                          cell_before, cell, dmade, dnext, dcell, dgates, dpeepholes);
    }
    matrix_product<E, T>(executor_, false, false, active, width, 4 * size, 1, dgates, 4 * size, recurrent_.data(),
                         width, 0, dstate, width);
  }

 private:
  const E& executor_;
  LstmUnits<T> units_;
  kernel::Scratch<E, T> recurrent_, projection_, dshown_;
};

/// The states of `rows` rows before they were projected, from the results of their steps.
template <Executor E, class T>
void show_again(const E& executor, const LstmUnits<T>& units, std::int64_t rows, const T* gates, const T* cell,
                T* shown) {
  launch(kernel::StepStates(), executor, rows,
         kernel::LstmShown<T>{units.size, units.order.output, gates, cell, shown});
}

}  // namespace operation
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

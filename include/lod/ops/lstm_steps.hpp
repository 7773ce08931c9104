// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of long short-term memory, forward and back, for `StepStates`: <lod/ops/lstm.hpp>, which has the formulas,
/// and operators of programs launch them.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/step_functions.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel {

/// One step, for `StepStates`. `gates` holds i, f, g, o, on entry before their activation functions, on return after. A
/// null `cell_before` stands for zeros.
template <class T>
struct LstmStep {
  using value_type = T;

  std::int64_t size;
  const T* cell_before;
  T* gates;
  T* cell;
  T* hidden;

  static constexpr std::int64_t arrays = 11;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    T* const gate = gates + row * 4 * size + column;
    const std::int64_t at = row * size + column;
    const auto i = lanes.sigmoid(lanes.load(gate));
    const auto f = lanes.sigmoid(lanes.load(gate, size));
    const auto g = lanes.hyperbolic_tangent(lanes.load(gate, 2 * size));
    const auto o = lanes.sigmoid(lanes.load(gate, 3 * size));
    const auto c = f * lanes.load(cell_before, at) + i * g;
    lanes.store(gate, i);
    lanes.store(gate + size, f);
    lanes.store(gate + 2 * size, g);
    lanes.store(gate + 3 * size, o);
    lanes.store(cell + at, c);
    lanes.store(hidden + at, o * lanes.hyperbolic_tangent(c));
  }
};
/// The functions of the gates i, f and o, of the candidate g, and of the cell, if a program names them.
struct LstmFunctions {
  StepFunction gates, candidate, cell;
};
/// Where each gate begins in a row of gates.
struct LstmOrder {
  std::int64_t input, forget, candidate, output;
};
/// A step with peepholes: `peepholes` are Pi, Pf, Po. `bias` is in the order of the gates. Null pointers stand for
/// zeros. Cells are kept between -cell_clip and cell_clip, unless that is 0. `Gate` is the type of the function for the
/// gates i, f and o, `State` of the functions for g and c.
template <class T, class Gate = StepSigmoid, class State = StepTanh>
struct PeepholeLstmStep {
  using value_type = T;

  std::int64_t size;
  LstmOrder order;
  const T* bias;
  const T* peepholes;
  const T* cell_before;
  T* gates;
  T* cell;
  T* hidden;
  Accumulator<T> cell_clip = 0;
  Gate of_gates = {};
  State of_candidate = {}, of_cell = {};

  static constexpr std::int64_t arrays = 12;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    T* const gate = gates + row * 4 * size + column;
    const std::int64_t at = row * size + column;
    const auto before = lanes.load(cell_before, at);
    const auto i = of_gates(lanes, lanes.load(gate, order.input) + lanes.load(bias, column + order.input) +
                                       lanes.load(peepholes, column) * before);
    const auto f = of_gates(lanes, lanes.load(gate, order.forget) + lanes.load(bias, column + order.forget) +
                                       lanes.load(peepholes, column + size) * before);
    const auto g = of_candidate(lanes, lanes.load(gate, order.candidate) + lanes.load(bias, column + order.candidate));
    auto c = f * before + i * g;
    if (cell_clip > 0) c = lanes.within(c, cell_clip);
    const auto o = of_gates(lanes, lanes.load(gate, order.output) + lanes.load(bias, column + order.output) +
                                       lanes.load(peepholes, column + 2 * size) * c);
    lanes.store(gate + order.input, i);
    lanes.store(gate + order.forget, f);
    lanes.store(gate + order.candidate, g);
    lanes.store(gate + order.output, o);
    lanes.store(cell + at, c);
    lanes.store(hidden + at, o * of_cell(lanes, c));
  }
};
/// The gradient of a step. The gradient with respect to h is `dhidden`, which may be null, plus `dstate`. `dcell` is
/// the gradient with respect to c, on return with respect to c'; `dgates` receives that with respect to the gates
/// before activation.
template <class T>
struct LstmStepGrad {
  using value_type = T;

  std::int64_t size;
  const T* gates;
  const T* cell_before;
  const T* cell;
  const T* dhidden;
  const T* dstate;
  T* dcell;
  T* dgates;

  static constexpr std::int64_t arrays = 14;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    const std::int64_t first = row * 4 * size + column, at = row * size + column;
    const T* const gate = gates + first;
    T* const dgate = dgates + first;
    const auto one = lanes.one();
    const auto i = lanes.load(gate), f = lanes.load(gate, size);
    const auto g = lanes.load(gate, 2 * size), o = lanes.load(gate, 3 * size);
    const auto shown = lanes.hyperbolic_tangent(lanes.load(cell, at));
    const auto dh = lanes.load(dhidden, at) + lanes.load(dstate, at);
    const auto dc = lanes.load(dcell, at) + dh * o * (one - shown * shown);
    const auto before = lanes.load(cell_before, at);
    lanes.store(dgate, dc * g * i * (one - i));
    lanes.store(dgate + size, dc * before * f * (one - f));
    lanes.store(dgate + 2 * size, dc * i * (one - g * g));
    lanes.store(dgate + 3 * size, dh * shown * o * (one - o));
    lanes.store(dcell + at, dc * f);
  }
};
/// The gradient of a step with peepholes. `dpeepholes` receives the products whose sums over all rows are the gradients
/// with respect to Pi, Pf, Po; null, like `peepholes`, if there are none.
template <class T, class Gate = StepSigmoid, class State = StepTanh>
struct PeepholeLstmStepGrad {
  using value_type = T;

  std::int64_t size;
  LstmOrder order;
  const T* peepholes;
  const T* gates;
  const T* cell_before;
  const T* cell;
  const T* dhidden;
  const T* dstate;
  T* dcell;
  T* dgates;
  T* dpeepholes;
  Accumulator<T> cell_clip = 0;
  Gate of_gates = {};
  State of_candidate = {}, of_cell = {};

  static constexpr std::int64_t arrays = 20;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    const std::int64_t first = row * 4 * size + column, at = row * size + column;
    const T* const gate = gates + first;
    T* const dgate = dgates + first;
    const auto i = lanes.load(gate, order.input), f = lanes.load(gate, order.forget);
    const auto g = lanes.load(gate, order.candidate), o = lanes.load(gate, order.output);
    const auto c = lanes.load(cell, at), before = lanes.load(cell_before, at);
    const auto shown = of_cell(lanes, c);
    const auto dh = lanes.load(dhidden, at) + lanes.load(dstate, at);
    const auto doutput = of_gates.back(lanes, dh * shown, o);
    auto dc =
        lanes.load(dcell, at) + of_cell.back(lanes, dh * o, shown) + doutput * lanes.load(peepholes, column + 2 * size);
    if (cell_clip > 0) dc = lanes.if_within(c, cell_clip, dc);
    const auto dinput = of_gates.back(lanes, dc * g, i), dforget = of_gates.back(lanes, dc * before, f);
    lanes.store(dgate + order.input, dinput);
    lanes.store(dgate + order.forget, dforget);
    lanes.store(dgate + order.candidate, of_candidate.back(lanes, dc * i, g));
    lanes.store(dgate + order.output, doutput);
    lanes.store(dcell + at,
                dc * f + dinput * lanes.load(peepholes, column) + dforget * lanes.load(peepholes, column + size));
    if (!dpeepholes) return;
    T* const dpeephole = dpeepholes + row * 3 * size + column;
    lanes.store(dpeephole, dinput * before);
    lanes.store(dpeephole + size, dforget * before);
    lanes.store(dpeephole + 2 * size, doutput * c);
  }
};
/// What a step shows before it is projected, o * tanh(c): computed anew for the gradient with respect to the
/// projection. `output` is where o begins in a row of gates.
template <class T>
struct LstmShown {
  using value_type = T;

  std::int64_t size;
  std::int64_t output;
  const T* gates;
  const T* cell;
  T* shown;

  static constexpr std::int64_t arrays = 3;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * size + column;
    const auto o = lanes.load(gates, row * 4 * size + output + column);
    lanes.store(shown + at, o * lanes.hyperbolic_tangent(lanes.load(cell, at)));
  }
};
/// States of `size` numbers after their projection, in place: the function of a program, and then the nearest numbers
/// between -clip and clip, unless that is 0.
template <class T>
struct LstmProjected {
  using value_type = T;

  std::int64_t size;
  T* hidden;
  Accumulator<T> clip;
  StepFunction function;

  static constexpr std::int64_t arrays = 2;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    T* const h = hidden + row * size + column;
    const auto shown = function(lanes, lanes.load(h));
    lanes.store(h, clip > 0 ? lanes.within(shown, clip) : shown);
  }
};
/// The gradient of that: with respect to the products, from those with respect to `hidden`, their results, which are
/// `dhidden`, which may be null, plus `dstate`. `dproducts` may be `dhidden`.
template <class T>
struct LstmProjectedGrad {
  using value_type = T;

  std::int64_t size;
  const T* hidden;
  Accumulator<T> clip;
  StepFunction function;
  const T* dhidden;
  const T* dstate;
  T* dproducts;

  static constexpr std::int64_t arrays = 4;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * size + column;
    const auto h = lanes.load(hidden, at);
    auto dh = lanes.load(dhidden, at) + lanes.load(dstate, at);
    if (clip > 0) dh = lanes.if_within(h, clip, dh);
    lanes.store(dproducts + at, function.back(lanes, dh, h));
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of gated recurrent units, forward and back, for `StepStates`: <lod/ops/gru.hpp>, which has the formulas,
/// and operators of programs launch them.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/step_functions.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel {

/// One step, for `StepStates`. `gates` holds the contribution of x to r, z and n, on return r, z and n; `products` that
/// of h'. Null pointers stand for zeros.
template <class T, bool origin_mode>
struct GruStep {
  using value_type = T;

  std::int64_t size;
  const T* products;
  const T* recurrent_bias;
  const T* hidden_before;
  T* gates;
  T* memory;
  T* hidden;

  static constexpr std::int64_t arrays = 12;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    const std::int64_t first = row * 3 * size + column, at = row * size + column;
    T* const gate = gates + first;
    const auto r = lanes.sigmoid(lanes.load(gate) + lanes.load(products, first));
    const auto z = lanes.sigmoid(lanes.load(gate, size) + lanes.load(products, first + size));
    const auto m = lanes.load(products, first + 2 * size) + lanes.load(recurrent_bias, column);
    const auto n = lanes.hyperbolic_tangent(lanes.load(gate, 2 * size) + r * m);
    const auto before = lanes.load(hidden_before, at);
    lanes.store(gate, r);
    lanes.store(gate + size, z);
    lanes.store(gate + 2 * size, n);
    lanes.store(memory + at, m);
    if constexpr (origin_mode) {
      lanes.store(hidden + at, z * before + (lanes.one() - z) * n);
    } else {
      lanes.store(hidden + at, (lanes.one() - z) * before + z * n);
    }
  }
};
/// The functions of the gates r and z, and of the candidate n, where a program names them.
struct GruFunctions {
  StepFunction gates, candidate;
};
/// Where in a row of gates r and z begin; n always comes last.
struct GruOrder {
  std::int64_t reset, update;
};
/// One step without `reset_after`, in two halves, since the second product is with r * h'. `gates` holds the
/// contributions of x and h' to r and z, on return r and z. Null pointers stand for zeros. `Gate` is the type of the
/// function of r and z.
template <class T, class Gate = StepSigmoid>
struct GruResetStep {
  using value_type = T;

  std::int64_t size;
  GruOrder order;
  const T* bias;  ///< in the order of the gates
  const T* hidden_before;
  T* gates;
  T* reset_hidden;
  Gate of_gates = {};

  static constexpr std::int64_t arrays = 7;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    T* const gate = gates + row * 3 * size + column;
    const std::int64_t at = row * size + column;
    const auto r = of_gates(lanes, lanes.load(gate, order.reset) + lanes.load(bias, column + order.reset));
    const auto z = of_gates(lanes, lanes.load(gate, order.update) + lanes.load(bias, column + order.update));
    lanes.store(gate + order.reset, r);
    lanes.store(gate + order.update, z);
    lanes.store(reset_hidden + at, r * lanes.load(hidden_before, at));
  }
};
/// The second half. `gates` holds the contributions of x and r * h' to n, on return n. `State` is the type of the
/// function of n.
template <class T, class State = StepTanh>
struct GruCandidateStep {
  using value_type = T;

  std::int64_t size;
  GruOrder order;
  const T* bias;  ///< of n only
  const T* hidden_before;
  T* gates;
  T* hidden;
  bool origin_mode;
  State of_candidate = {};

  static constexpr std::int64_t arrays = 6;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    T* const gate = gates + row * 3 * size + column;
    const std::int64_t at = row * size + column;
    const auto z = lanes.load(gate, order.update), before = lanes.load(hidden_before, at);
    const auto n = of_candidate(lanes, lanes.load(gate, 2 * size) + lanes.load(bias, column));
    const auto kept = origin_mode ? z : lanes.one() - z;
    lanes.store(gate + 2 * size, n);
    lanes.store(hidden + at, kept * before + (lanes.one() - kept) * n);
  }
};
/// The gradient of a step. The gradient with respect to h is `dhidden`, which may be null, plus `dstate`. On return
/// `dstate` holds the part of the gradient with respect to h' that does not go through the products, and `dgates` and
/// `dproducts` hold the gradients with respect to the contributions of x and of h' to r, z and n.
template <class T, bool origin_mode>
struct GruStepGrad {
  using value_type = T;

  std::int64_t size;
  const T* gates;
  const T* memory;
  const T* hidden_before;
  const T* dhidden;
  T* dstate;
  T* dgates;
  T* dproducts;

  static constexpr std::int64_t arrays = 14;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    const std::int64_t first = row * 3 * size + column, at = row * size + column;
    const auto one = lanes.one();
    const auto r = lanes.load(gates, first), z = lanes.load(gates, first + size);
    const auto n = lanes.load(gates, first + 2 * size), m = lanes.load(memory, at);
    const auto before = lanes.load(hidden_before, at);
    const auto dh = lanes.load(dhidden, at) + lanes.load(dstate, at);
    const auto kept = origin_mode ? z : one - z;
    const auto dn = dh * (origin_mode ? one - z : z) * (one - n * n);
    const auto dr = dn * m * r * (one - r);
    const auto dz = dh * (origin_mode ? before - n : n - before) * z * (one - z);
    lanes.store(dgates + first, dr);
    lanes.store(dgates + first + size, dz);
    lanes.store(dgates + first + 2 * size, dn);
    lanes.store(dproducts + first, dr);
    lanes.store(dproducts + first + size, dz);
    lanes.store(dproducts + first + 2 * size, dn * r);
    lanes.store(dstate + at, dh * kept);
  }
};
/// The gradient of a step without `reset_after`: of its second half, for z and n. `dstate` and `dgates` as above.
template <class T, class Gate = StepSigmoid, class State = StepTanh>
struct GruCandidateStepGrad {
  using value_type = T;

  std::int64_t size;
  GruOrder order;
  const T* gates;
  const T* hidden_before;
  const T* dhidden;
  T* dstate;
  T* dgates;
  bool origin_mode;
  Gate of_gates = {};
  State of_candidate = {};

  static constexpr std::int64_t arrays = 8;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    const std::int64_t first = row * 3 * size + column, at = row * size + column;
    const auto one = lanes.one();
    const auto z = lanes.load(gates, first + order.update), n = lanes.load(gates, first + 2 * size);
    const auto before = lanes.load(hidden_before, at);
    const auto dh = lanes.load(dhidden, at) + lanes.load(dstate, at);
    const auto kept = origin_mode ? z : one - z;
    lanes.store(dgates + first + order.update, of_gates.back(lanes, dh * (origin_mode ? before - n : n - before), z));
    lanes.store(dgates + first + 2 * size, of_candidate.back(lanes, dh * (one - kept), n));
    lanes.store(dstate + at, dh * kept);
  }
};
/// The gradient of the first half: from that with respect to r * h' to that of r; adds to `dstate`.
template <class T, class Gate = StepSigmoid>
struct GruResetStepGrad {
  using value_type = T;

  std::int64_t size;
  GruOrder order;
  const T* gates;
  const T* hidden_before;
  const T* dreset_hidden;
  T* dstate;
  T* dgates;
  Gate of_gates = {};

  static constexpr std::int64_t arrays = 6;
  LOD_ON_THE_CALLERS_SIDE
  template <class Lanes>
  LOD_TAGGED LOD_HOST_DEVICE void operator()(const Lanes& lanes, std::int64_t row, std::int64_t column) const {
    const std::int64_t first = row * 3 * size + column, at = row * size + column;
    const auto r = lanes.load(gates, first + order.reset), d = lanes.load(dreset_hidden, at);
    lanes.store(dgates + first + order.reset, of_gates.back(lanes, d * lanes.load(hidden_before, at), r));
    lanes.store(dstate + at, lanes.load(dstate, at) + d * r);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel

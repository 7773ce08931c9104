// SPDX-License-Identifier: Apache-2.0
/// @file
/// A gated recurrent unit over one level of a LoD tensor, with its gradient.
#pragma once

#include "parameter.hpp"
#include "random.hpp"
#include <lod/lod.hpp>

#include <cstdint>

/// Reads every sequence of the last level, row by row, and says after each row what it knows so far:
///
///     u = sigmoid(x Wu + h' Uu + bu)            what to keep of the state h' before
///     r = sigmoid(x Wr + h' Ur + br)            what to use of it
///     c = tanh(x Wc + r * (h' Uc) + bc)         what is new
///     h = u * h' + (1 - u) * c                  h' = 0 at the first row
///
/// All sequences take a step together, the longest first (lod::RankTable), so that step t has as many rows as there are
/// sequences longer than t: there is nothing to pad or to mask. x W of all steps is one matrix product, h' U one a
/// step.
template <class T>
class Gru {
 public:
  /// What the backward pass needs of the forward one. All in time-major order: the rows of step 0, of step 1, ...
  struct Trace {
    lod::RankTable table;
    lod::TimeMajor<T> x;
    lod::LoDTensor<T> gates;   ///< u, r and c of each row
    lod::LoDTensor<T> memory;  ///< h' Uc
    lod::TimeMajor<T> h;
  };

  Gru(std::int64_t input_size, std::int64_t hidden_size, Random& random);

  std::int64_t hidden_size() const { return recurrent.value.rows(); }

  /// The states: one row for each of x, LoD as x.
  lod::LoDTensor<T> forward(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& x, Trace& trace) const;
  /// The gradient by x from that by the states. Adds those by the parameters to `gradient` of each.
  lod::LoDTensor<T> backward(const lod::CpuExecutor& executor, const lod::LoDTensor<T>& dh, const Trace& trace);

  Parameter<T> input;      ///< Wu Wr Wc side by side
  Parameter<T> recurrent;  ///< Uu Ur Uc
  Parameter<T> bias;       ///< bu br bc
};

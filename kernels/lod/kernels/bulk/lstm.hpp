// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of a long short-term memory in bulk, except for their matrix products.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/gates.hpp>
#include <lod/kernels/bulk/recurrent.hpp>
#include <lod/ops/lstm.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<LstmStep> {
  template <class E, class T>
  static void run(const E& executor, std::int64_t rows, std::int64_t size, const T* cell_before, T* gates, T* cell,
                  T* hidden) {
    using A = Accumulator<T>;
    for_each(executor, rows * size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      T* const gate = gates + at / size * 4 * size + at % size;
      const A i = sigmoid(static_cast<A>(gate[0])), f = sigmoid(static_cast<A>(gate[size]));
      const A g = std::tanh(static_cast<A>(gate[2 * size])), o = sigmoid(static_cast<A>(gate[3 * size]));
      const A c = f * number_or_zero(cell_before, at) + i * g;
      gate[0] = static_cast<T>(i);
      gate[size] = static_cast<T>(f);
      gate[2 * size] = static_cast<T>(g);
      gate[3 * size] = static_cast<T>(o);
      cell[at] = static_cast<T>(c);
      hidden[at] = static_cast<T>(o * std::tanh(c));
    });
  }
};

template <>
struct Kernel<LstmStepGrad> {
  template <class E, class T>
  static void run(const E& executor, std::int64_t rows, std::int64_t size, const T* gates, const T* cell_before,
                  const T* cell, const T* dhidden, const T* dstate, T* dcell, T* dgates) {
    using A = Accumulator<T>;
    for_each(executor, rows * size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      constexpr A one{1};
      const std::int64_t first = at / size * 4 * size + at % size;
      const T* const gate = gates + first;
      T* const dgate = dgates + first;
      const A i = static_cast<A>(gate[0]), f = static_cast<A>(gate[size]);
      const A g = static_cast<A>(gate[2 * size]), o = static_cast<A>(gate[3 * size]);
      const A shown = std::tanh(static_cast<A>(cell[at]));
      const A dh = number_or_zero(dhidden, at) + static_cast<A>(dstate[at]);
      const A dc = static_cast<A>(dcell[at]) + dh * o * (one - shown * shown);
      const A before = number_or_zero(cell_before, at);
      dgate[0] = static_cast<T>(dc * g * i * (one - i));
      dgate[size] = static_cast<T>(dc * before * f * (one - f));
      dgate[2 * size] = static_cast<T>(dc * i * (one - g * g));
      dgate[3 * size] = static_cast<T>(dh * shown * o * (one - o));
      dcell[at] = static_cast<T>(dc * f);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

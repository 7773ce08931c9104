// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of gated recurrent units in bulk, except for their matrix products.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/gates.hpp>
#include <lod/kernels/bulk/recurrent.hpp>
#include <lod/ops/gru.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<GruStep> {
  template <class E, class T>
  static void run(const E& executor, std::int64_t rows, std::int64_t size, const T* products, const T* recurrent_bias,
                  const T* hidden_before, T* gates, T* memory, T* hidden) {
    using A = Accumulator<T>;
    for_each(executor, rows * size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t column = at % size, first = at / size * 3 * size + column;
      T* const gate = gates + first;
      const A r = sigmoid(static_cast<A>(gate[0]) + number_or_zero(products, first));
      const A z = sigmoid(static_cast<A>(gate[size]) + number_or_zero(products, first + size));
      const A m = number_or_zero(products, first + 2 * size) + number_or_zero(recurrent_bias, column);
      const A n = std::tanh(static_cast<A>(gate[2 * size]) + r * m);
      const A before = number_or_zero(hidden_before, at);
      gate[0] = static_cast<T>(r);
      gate[size] = static_cast<T>(z);
      gate[2 * size] = static_cast<T>(n);
      memory[at] = static_cast<T>(m);
      hidden[at] = static_cast<T>(z * before + (A{1} - z) * n);
    });
  }
};

template <>
struct Kernel<GruStepGrad> {
  template <class E, class T>
  static void run(const E& executor, std::int64_t rows, std::int64_t size, const T* gates, const T* memory,
                  const T* hidden_before, const T* dhidden, T* dstate, T* dgates, T* dproducts) {
    using A = Accumulator<T>;
    for_each(executor, rows * size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      constexpr A one{1};
      const std::int64_t first = at / size * 3 * size + at % size;
      const A r = static_cast<A>(gates[first]), z = static_cast<A>(gates[first + size]);
      const A n = static_cast<A>(gates[first + 2 * size]), m = static_cast<A>(memory[at]);
      const A before = number_or_zero(hidden_before, at);
      const A dh = number_or_zero(dhidden, at) + static_cast<A>(dstate[at]);
      const A dn = dh * (one - z) * (one - n * n);
      const A dr = dn * m * r * (one - r), dz = dh * (before - n) * z * (one - z);
      dgates[first] = static_cast<T>(dr);
      dgates[first + size] = static_cast<T>(dz);
      dgates[first + 2 * size] = static_cast<T>(dn);
      dproducts[first] = static_cast<T>(dr);
      dproducts[first + size] = static_cast<T>(dz);
      dproducts[first + 2 * size] = static_cast<T>(dn * r);
      dstate[at] = static_cast<T>(dh * z);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of gated recurrent units on the CPU, except for their matrix products.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/recurrent.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/gru.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<GruStep> {
  template <class T>
  static void run(const CpuExecutor& executor, std::int64_t rows, std::int64_t size, const T* products,
                  const T* recurrent_bias, const T* hidden_before, T* gates, T* memory, T* hidden) {
    using V = cpu::Vector<T>;
    cpu::for_each_state<T>(executor, rows, size, 12, [&](std::int64_t row, std::int64_t column, std::int64_t count) {
      T* const gate = gates + row * 3 * size + column;
      const T* const product = cpu::optional(products, row * 3 * size + column);
      const std::int64_t at = row * size + column;
      const auto preactivation = [&](std::int64_t which) {
        return cpu::load_state(gate + which * size, count) +
               cpu::load_state(cpu::optional(product, which * size), count);
      };
      const V r = cpu::sigmoid(preactivation(0)), z = cpu::sigmoid(preactivation(1));
      const V m = cpu::load_state(cpu::optional(product, 2 * size), count) +
                  cpu::load_state(cpu::optional(recurrent_bias, column), count);
      const V n = cpu::hyperbolic_tangent(cpu::load_state(gate + 2 * size, count) + r * m);
      const V before = cpu::load_state(cpu::optional(hidden_before, at), count);
      cpu::store_state(gate, r, count);
      cpu::store_state(gate + size, z, count);
      cpu::store_state(gate + 2 * size, n, count);
      cpu::store_state(memory + at, m, count);
      cpu::store_state(hidden + at, z * before + (V(1) - z) * n, count);
    });
  }
};

template <>
struct Kernel<GruStepGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, std::int64_t rows, std::int64_t size, const T* gates, const T* memory,
                  const T* hidden_before, const T* dhidden, T* dstate, T* dgates, T* dproducts) {
    using V = cpu::Vector<T>;
    const V one(1);
    cpu::for_each_state<T>(executor, rows, size, 14, [&](std::int64_t row, std::int64_t column, std::int64_t count) {
      const std::int64_t at = row * size + column, first = row * 3 * size + column;
      const V r = cpu::load_state(gates + first, count), z = cpu::load_state(gates + first + size, count);
      const V n = cpu::load_state(gates + first + 2 * size, count), m = cpu::load_state(memory + at, count);
      const V before = cpu::load_state(cpu::optional(hidden_before, at), count);
      const V dh = cpu::load_state(cpu::optional(dhidden, at), count) + cpu::load_state(dstate + at, count);
      const V dn = dh * (one - z) * (one - n * n);
      const V dr = dn * m * r * (one - r), dz = dh * (before - n) * z * (one - z);
      for (T* const part : {dgates + first, dproducts + first}) {
        cpu::store_state(part, dr, count);
        cpu::store_state(part + size, dz, count);
      }
      cpu::store_state(dgates + first + 2 * size, dn, count);
      cpu::store_state(dproducts + first + 2 * size, dn * r, count);
      cpu::store_state(dstate + at, dh * z, count);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

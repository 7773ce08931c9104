// SPDX-License-Identifier: Apache-2.0
/// @file
/// The steps of a long short-term memory on the CPU, except for their matrix products.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/recurrent.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/lstm.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<LstmStep> {
  template <class T>
  static void run(const CpuExecutor& executor, std::int64_t rows, std::int64_t size, const T* cell_before, T* gates,
                  T* cell, T* hidden) {
    using V = cpu::Vector<T>;
    cpu::for_each_state<T>(executor, rows, size, 11, [&](std::int64_t row, std::int64_t column, std::int64_t count) {
      T* const gate = gates + row * 4 * size + column;
      const std::int64_t at = row * size + column;
      const V i = cpu::sigmoid(cpu::load_state(gate, count));
      const V f = cpu::sigmoid(cpu::load_state(gate + size, count));
      const V g = cpu::hyperbolic_tangent(cpu::load_state(gate + 2 * size, count));
      const V o = cpu::sigmoid(cpu::load_state(gate + 3 * size, count));
      const V c = f * cpu::load_state(cpu::optional(cell_before, at), count) + i * g;
      cpu::store_state(gate, i, count);
      cpu::store_state(gate + size, f, count);
      cpu::store_state(gate + 2 * size, g, count);
      cpu::store_state(gate + 3 * size, o, count);
      cpu::store_state(cell + at, c, count);
      cpu::store_state(hidden + at, o * cpu::hyperbolic_tangent(c), count);
    });
  }
};

template <>
struct Kernel<LstmStepGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, std::int64_t rows, std::int64_t size, const T* gates,
                  const T* cell_before, const T* cell, const T* dhidden, const T* dstate, T* dcell, T* dgates) {
    using V = cpu::Vector<T>;
    const V one(1);
    cpu::for_each_state<T>(executor, rows, size, 14, [&](std::int64_t row, std::int64_t column, std::int64_t count) {
      const T* const gate = gates + row * 4 * size + column;
      T* const dgate = dgates + row * 4 * size + column;
      const std::int64_t at = row * size + column;
      const V i = cpu::load_state(gate, count), f = cpu::load_state(gate + size, count);
      const V g = cpu::load_state(gate + 2 * size, count), o = cpu::load_state(gate + 3 * size, count);
      const V shown = cpu::hyperbolic_tangent(cpu::load_state(cell + at, count));
      const V dh = cpu::load_state(cpu::optional(dhidden, at), count) + cpu::load_state(dstate + at, count);
      const V dc = cpu::load_state(dcell + at, count) + dh * o * (one - shown * shown);
      const V before = cpu::load_state(cpu::optional(cell_before, at), count);
      cpu::store_state(dgate, dc * g * i * (one - i), count);
      cpu::store_state(dgate + size, dc * before * f * (one - f), count);
      cpu::store_state(dgate + 2 * size, dc * i * (one - g * g), count);
      cpu::store_state(dgate + 3 * size, dh * shown * o * (one - o), count);
      cpu::store_state(dcell + at, dc * f, count);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A user's function for each row on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/for_each_sequence.hpp>
#include <lod/ops/map_rows.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<MapRows> {
  template <class Body>
  static void run(const CpuExecutor& executor, std::int64_t rows, const Body& body) {
    const auto callers = cpu::FloatingPointControl::read();
    operation::FirstError error;
    // The cost of a call is unknown: a row counts as several times what it reads and writes.
    const std::int64_t bytes = lod::detail::saturated_product(rows, 4 * body.bytes() + 16);
    cpu::parallel_ranges(executor, rows, bytes, [&](std::int64_t begin, std::int64_t end) {
      const cpu::FloatingPointControl control(callers);
      error.guard(begin, [&] {
        for (std::int64_t row = begin; row < end; ++row) body(row);
      });
    });
    error.rethrow();
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

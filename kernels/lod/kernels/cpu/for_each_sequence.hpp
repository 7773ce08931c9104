// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calling a user's function for each sequence on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/for_each_sequence.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<ForEachSequence> {
  template <class Body>
  static void run(const CpuExecutor& executor, const Segments& sequences, const Body& body) {
    const auto callers = cpu::FloatingPointControl::read();
    // The cost of a call is unknown: each row counts as enough work to wake a thread for.
    cpu::parallel_sequences(executor, sequences, cpu::serial_bytes, [&](std::int64_t begin, std::int64_t end) {
      const cpu::FloatingPointControl control(callers);
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

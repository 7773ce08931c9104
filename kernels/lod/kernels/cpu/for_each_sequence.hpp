// SPDX-License-Identifier: Apache-2.0
/// @file
/// A function of the user's on the CPU.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/for_each_sequence.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct ForEachSequence<InlineCpu> {
  template <class Body>
  static void run(const CpuExecutor& executor, const Segments& sequences, const Body& body) {
    const auto callers = cpu::FloatingPointControl::read();
    // Nobody knows what a call costs: each row counts as what a thread is woken for.
    cpu::parallel_sequences(executor, sequences, cpu::serial_bytes, [&](std::int64_t begin, std::int64_t end) {
      const cpu::FloatingPointControl control(callers);
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What is computed about sequences, by the threads of a CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/new_offsets.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace kernel {

template <>
struct ForEachRange<InlineCpu> {
  static std::int64_t parts(const CpuExecutor& executor, std::int64_t count) noexcept {
    return std::clamp<std::int64_t>(count, 1, cpu::pieces(executor, bytes(count)));
  }
  template <class Body>
  static void run(const CpuExecutor& executor, std::int64_t count, const Body& body) {
    const std::int64_t all = parts(executor, count);
    const auto cut = [=](std::int64_t part) { return count / all * part + std::min(part, count % all); };
    cpu::parallel_for(executor, all, bytes(count), [&](std::int64_t part) { body(part, cut(part), cut(part + 1)); });
  }

 private:
  /// For each sequence a few numbers are read and one or two written.
  static std::int64_t bytes(std::int64_t count) noexcept {
    return 4 * count * static_cast<std::int64_t>(sizeof(std::int64_t));
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

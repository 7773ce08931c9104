// SPDX-License-Identifier: Apache-2.0
/// @file
/// Computations about sequences, on the threads of a CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/ops/new_offsets.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

namespace cpu {
/// For each sequence a few numbers are read and one or two written.
inline std::int64_t range_bytes(std::int64_t count) noexcept {
  return 4 * count * static_cast<std::int64_t>(sizeof(std::int64_t));
}
}  // namespace cpu

inline std::int64_t launch(RangeCount, const CpuExecutor& executor, std::int64_t count, std::int64_t bytes) noexcept {
  return std::clamp<std::int64_t>(count, 1, cpu::pieces(executor, bytes));
}
inline std::int64_t launch(RangeCount, const CpuExecutor& executor, std::int64_t count) noexcept {
  return launch(RangeCount(), executor, count, cpu::range_bytes(count));
}
template <class Body>
void launch(ForEachRange, const CpuExecutor& executor, std::int64_t count, std::int64_t bytes, const Body& body) {
  const std::int64_t all = launch(RangeCount(), executor, count, bytes);
  const auto cut = [=](std::int64_t part) { return count / all * part + std::min(part, count % all); };
  cpu::parallel_for(executor, all, bytes, [&](std::int64_t part) { body(part, cut(part), cut(part + 1)); });
}
template <class Body>
void launch(ForEachRange, const CpuExecutor& executor, std::int64_t count, const Body& body) {
  launch(ForEachRange(), executor, count, cpu::range_bytes(count), body);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

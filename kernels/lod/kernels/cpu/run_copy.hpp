// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs of rows, copied on the CPU by all threads: cut by rows, not by runs.
#pragma once

#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/run_copy.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct RunCopy<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* const* sources, const Segments& destination,
                  std::int64_t row_size, T* y) {
    const std::int64_t row_bytes = row_size * static_cast<std::int64_t>(sizeof(T));
    const cpu::LargeOutput output(destination.rows() * row_bytes);
    cpu::parallel_rows(executor, destination, 2 * row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
                         output.copy(sources[i] + begin * row_size, (end - begin) * row_size,
                                     y + (destination.begin(i) + begin) * row_size);
                       });
  }
};

template <>
struct CopyValues<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, std::int64_t count, T* y) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    const cpu::LargeOutput output(bytes);
    cpu::parallel_ranges(executor, count, 2 * bytes,
                         [&](std::int64_t begin, std::int64_t end) { output.copy(x + begin, end - begin, y + begin); });
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

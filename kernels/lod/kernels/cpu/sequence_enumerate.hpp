// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sliding windows on the CPU: one pass over the result.
#pragma once

#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_enumerate.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct SequenceEnumerate<CpuExecutor> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t window, T pad_value,
                  T* y) {
    const std::int64_t row_bytes = (window + 1) * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t all = sequences.rows();
    cpu::parallel_rows(executor, sequences, row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t room) {
                         const std::int64_t first = sequences.begin(i), length = sequences.length(i);
                         for (std::int64_t row = begin; row < end; ++row) {
                           T* const out = y + (first + row) * window;
                           const std::int64_t count = std::min(window, length - row);
                           const std::int64_t writable = (room - (row - begin)) * window;
                           cpu::copy(x + first + row, count, out, std::min(writable, all - first - row));
                           cpu::fill(out + count, window - count, pad_value, writable - count);
                         }
                       });
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The gradient of slicing inside sequences on the CPU: one pass over the rows.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_slice.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<SequenceSliceGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const Segments& parts, const std::int64_t* first_rows,
                  const Segments& sequences, std::int64_t row_size, T* dx) {
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(2, row_size);
    cpu::parallel_rows(
        executor, sequences, row_bytes, [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
          const std::int64_t first = first_rows[i];
          const std::int64_t from = std::clamp(first, begin, end);
          const std::int64_t to = std::clamp(first + parts.length(i), begin, end);
          T* const out = dx + sequences.begin(i) * row_size;
          cpu::fill(out + begin * row_size, (from - begin) * row_size, T{});
          cpu::copy(dy + (parts.begin(i) + from - first) * row_size, (to - from) * row_size, out + from * row_size);
          cpu::fill(out + to * row_size, (end - to) * row_size, T{});
        });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Scattering into rows on the CPU: each row belongs to one thread.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_scatter.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<SequenceScatter> {
  template <class T>
  static void run(const CpuExecutor& executor, const std::int64_t* ids, const T* updates, const Segments& sequences,
                  std::int64_t columns, T* y) {
    using A = Accumulator<T>;
    // Rows of 16-bit numbers are summed in float.
    const cpu::ThreadScratch<A> scratch(executor, detail::Half<T> ? columns : 0);
    const auto row_bytes = static_cast<std::int64_t>(sizeof(std::int64_t) + 3 * sizeof(T));
    cpu::parallel_sequences(executor, sequences, row_bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        T* const row = y + i * columns;
        const std::int64_t first = sequences.begin(i), last = first + sequences.length(i);
        if (first == last) continue;
        if constexpr (detail::Half<T>) {
          A* const sums = scratch(thread);
          cpu::widen(row, columns, sums);
          for (std::int64_t k = first; k < last; ++k) {
            sums[ids[k]] = cpu::plus(sums[ids[k]], static_cast<A>(updates[k]));
          }
          cpu::convert(sums, columns, row);
        } else {
          for (std::int64_t k = first; k < last; ++k) {
            row[ids[k]] = static_cast<T>(cpu::plus(static_cast<A>(row[ids[k]]), static_cast<A>(updates[k])));
          }
        }
      }
    });
  }
};

template <>
struct Kernel<SequenceScatterUpdatesGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const std::int64_t* ids, const Segments& sequences,
                  std::int64_t columns, T* dupdates) {
    const auto row_bytes = static_cast<std::int64_t>(sizeof(std::int64_t) + 2 * sizeof(T));
    cpu::parallel_rows(executor, sequences, row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
                         const std::int64_t first = sequences.begin(i);
                         for (std::int64_t k = first + begin; k < first + end; ++k) {
                           dupdates[k] = dy[i * columns + ids[k]];
                         }
                       });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

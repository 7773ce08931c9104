// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reversal of rows on the CPU.
#pragma once

#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_reverse.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct SequenceReverse<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t row_size, T* y) {
    const std::int64_t row_bytes = row_size * static_cast<std::int64_t>(sizeof(T));
    const cpu::LargeOutput output(sequences.rows() * row_bytes);
    cpu::parallel_rows(executor, sequences, 2 * row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
                         const T* last = x + (sequences.begin(i) + sequences.length(i) - 1) * row_size;
                         T* out = y + sequences.begin(i) * row_size;
                         if (row_size == 1) {
                           for (std::int64_t row = begin; row < end; ++row) out[row] = last[-row];
                           return;
                         }
                         // In the order of what is read: the machine reads ahead upwards, from one sequence to the
                         // next.
                         for (std::int64_t row = end - 1; row >= begin; --row) {
                           output.copy(last - row * row_size, row_size, out + row * row_size);
                         }
                       });
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

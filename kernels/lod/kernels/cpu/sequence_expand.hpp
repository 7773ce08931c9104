// SPDX-License-Identifier: Apache-2.0
/// @file
/// The gradient of expansion on the CPU: the copies of a sequence are summed as if each copy were one long row.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_expand.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Reads rows that are `stride` numbers apart.
template <class T>
struct StridedRows {
  const T* first;
  std::int64_t stride;
  const T* operator()(std::int64_t row) const noexcept { return first + row * stride; }
};

template <>
struct Kernel<SequenceExpandGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const Segments& blocks, const Segments& sequences,
                  std::int64_t row_size, T* dx) {
    using A = Accumulator<T>;
    if (row_size == 0) return;
    constexpr std::int64_t tile = 1024;  // numbers of a copy that are summed at a time, counted from its start
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    const std::int64_t all = blocks.rows() * row_size;
    const auto copies_of = [&](std::int64_t i) { return blocks.length(i) / sequences.length(i); };
    // Copies of a short sequence that are too many for one thread.
    const auto is_shared = [&](std::int64_t numbers, std::int64_t copies) {
      return cpu::max_threads(executor) > 1 && numbers <= tile && copies > chunk_rows(numbers);
    };
    const bool far = all * static_cast<std::int64_t>(sizeof(T)) >= cpu::large_output_bytes;
    const auto whole = [&](std::int64_t i, std::int64_t numbers) {
      const std::int64_t first = blocks.begin(i) * row_size;
      return cpu::ContiguousRows<T>{dy + first, numbers, all - first, far};
    };
    const auto write = [&](const A* sum, std::int64_t numbers, T* to) { cpu::convert(sum, numbers, to); };
    const cpu::ThreadScratch<A> scratch(executor, cpu::sum_scratch(std::min(tile, sequences.max_rows * row_size)));

    cpu::parallel_rows(executor, blocks, row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t, int thread) {
                         const std::int64_t numbers = sequences.length(i) * row_size, copies = copies_of(i);
                         if (is_shared(numbers, copies)) return;
                         T* const to = dx + sequences.begin(i) * row_size;
                         // A share of the block is the same share of the tiles.
                         const std::int64_t tiles = (numbers + tile - 1) / tile, rows = blocks.length(i);
                         for (std::int64_t t = (begin * tiles + rows - 1) / rows; t < (end * tiles + rows - 1) / rows;
                              ++t) {
                           const std::int64_t first = t * tile, width = std::min(tile, numbers - first);
                           if (tiles == 1) {
                             write(cpu::sum_rows<T>(whole(i, numbers), copies, numbers, scratch(thread)), numbers, to);
                           } else {
                             const cpu::StridedRows<T> strided{dy + blocks.begin(i) * row_size + first, numbers};
                             write(cpu::sum_rows<T>(strided, copies, width, scratch(thread)), width, to + first);
                           }
                         }
                       });
    // Sequences that are dropped, or too long for one thread.
    for (std::int64_t i = 0; i < sequences.size; ++i) {
      const std::int64_t numbers = sequences.length(i) * row_size;
      if (numbers == 0) continue;
      T* const to = dx + sequences.begin(i) * row_size;
      if (blocks.length(i) == 0) {
        cpu::fill(to, numbers, T{});
      } else if (is_shared(numbers, copies_of(i))) {
        const auto rows = [&](int) { return whole(i, numbers); };
        cpu::sum_rows<T>(executor, rows, copies_of(i), numbers, blocks.length(i) * row_bytes, scratch(0));
        write(scratch(0), numbers, to);
      }
    }
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Dropout on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_dropout.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<SequenceDropout> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, std::int64_t rows, std::int64_t row_size,
                  const Segments& sequences, const DropoutRule& rule, T* y) {
    const auto scale = static_cast<Accumulator<T>>(rule.scale);
    const auto scaled = [=](T number) { return static_cast<T>(static_cast<Accumulator<T>>(number) * scale); };
    if (sequences.offsets) {
      cpu::parallel_rows(executor, sequences, lod::detail::bytes_of<T>(2, row_size),
                         [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
                           const std::int64_t first = (sequences.begin(i) + begin) * row_size;
                           const std::int64_t last = (sequences.begin(i) + end) * row_size;
                           if (!rule.keeps(i)) return cpu::fill(y + first, last - first, T{});
                           for (std::int64_t at = first; at < last; ++at) y[at] = scaled(x[at]);
                         });
      return;
    }
    const std::int64_t numbers = rows * row_size;
    cpu::parallel_ranges(executor, numbers, lod::detail::bytes_of<T>(4, numbers),
                         [&](std::int64_t begin, std::int64_t end) {
                           for (std::int64_t at = begin; at < end; ++at) y[at] = rule.keeps(at) ? scaled(x[at]) : T{};
                         });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Labels without blanks and repetitions, on the CPU.
#pragma once

#include <lod/kernels/cpu/row_filter.hpp>
#include <lod/ops/ctc_align.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct CtcAlign<CpuExecutor> {
  static std::int64_t scratch(std::int64_t rows) noexcept { return cpu::RowFilter::scratch(rows); }

  template <class T>
  static void count(const CpuExecutor& executor, const T* x, const Segments& sequences, const CtcAlignOptions& options,
                    std::int64_t* scratch, std::int64_t* kept) {
    cpu::RowFilter::count(executor, sequences, static_cast<std::int64_t>(sizeof(T)), rule(x, options), scratch, kept);
  }

  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, const CtcAlignOptions& options,
                  const std::int64_t* scratch, T* y) {
    cpu::RowFilter::copy(executor, x, sequences, rule(x, options), scratch, y);
  }

 private:
  template <class T>
  static auto rule(const T* x, const CtcAlignOptions& options) noexcept {
    return [x, options](std::int64_t row, std::int64_t first) {
      const bool repeated = options.merge_repeated && row > first && x[row] == x[row - 1];
      return !repeated && static_cast<std::int64_t>(x[row]) != options.blank;
    };
  }
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Labels without blanks and repetitions, on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/row_filter.hpp>
#include <lod/kernels/cpu/row_mask.hpp>
#include <lod/ops/ctc_align.hpp>

#include <concepts>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<CtcAlign> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, const CtcAlignOptions& options,
                  std::int64_t* scratch, std::int64_t* kept) {
    cpu::RowFilter::count(executor, sequences, static_cast<std::int64_t>(sizeof(T)), rule(x, options), scratch, kept);
  }

 private:
  template <class T>
  static auto rule(const T* x, const CtcAlignOptions& options) noexcept {
    const auto blank = static_cast<T>(options.blank);
    const bool can_be_blank =
        static_cast<std::int64_t>(blank) == options.blank && (std::signed_integral<T> || options.blank >= 0);
    return [x, blank, can_be_blank, merge = options.merge_repeated](std::int64_t row, std::int64_t count,
                                                                    std::uint64_t starts) {
      std::uint64_t gone = 0;
      if (can_be_blank) gone = cpu::rows_equal(x + row, count, std::span<const T>(&blank, 1));
      if (merge && row > 0) gone |= cpu::rows_repeated(x + row, count) & ~starts;
      // The very first row has no row before it.
      if (merge && row == 0) gone |= cpu::rows_repeated(x + 1, count - 1) << 1 & ~starts;
      return ~gone & (~std::uint64_t{0} >> (cpu::mask_rows - count));
    };
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Erasing ids on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/row_filter.hpp>
#include <lod/kernels/cpu/row_mask.hpp>
#include <lod/ops/sequence_erase.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<SequenceErase> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::span<const T> tokens,
                  std::int64_t* scratch, std::int64_t* kept) {
    cpu::RowFilter::count(executor, sequences, static_cast<std::int64_t>(sizeof(T)), rule(x, tokens), scratch, kept);
  }

 private:
  /// With few tokens, comparing with each of them is quicker.
  static constexpr std::size_t few = 16;

  template <class T>
  static auto rule(const T* x, std::span<const T> tokens) noexcept {
    return [x, tokens](std::int64_t row, std::int64_t count) {
      const std::uint64_t all = ~std::uint64_t{0} >> (cpu::mask_rows - count);
      if (tokens.size() <= few) return all & ~cpu::rows_equal(x + row, count, tokens);
      return cpu::row_mask(
          count, [&](std::int64_t k) { return !std::binary_search(tokens.begin(), tokens.end(), x[row + k]); });
    };
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

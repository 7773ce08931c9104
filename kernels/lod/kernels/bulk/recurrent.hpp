// SPDX-License-Identifier: Apache-2.0
/// @file
/// Matrix transposition in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/divisor.hpp>
#include <lod/ops/recurrent.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<TransposeMatrix> {
  /// By squares of elements, each of which neighbouring threads take: whole sectors of memory are read and written,
  /// where threads that follow a row of y would read one element of each.
  static constexpr std::int64_t side = 8;

  template <class E, class T>
  static void run(const E& executor, const T* x, std::int64_t rows, std::int64_t columns, T* y) {
    const std::int64_t squares_across = (columns + side - 1) / side, squares_down = (rows + side - 1) / side;
    const std::int64_t squares = squares_across * squares_down;
    const LongDivisor across(greatest<std::int64_t>(squares_across, 1), squares);
    for_each(executor, squares * side * side, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t square = at / (side * side), down = across.quotient(square);
      const std::int64_t i = down * side + at / side % side;
      const std::int64_t j = across.remainder(square, down) * side + at % side;
      if (i < rows && j < columns) y[j * rows + i] = x[i * columns + j];
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

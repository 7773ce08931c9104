// SPDX-License-Identifier: Apache-2.0
/// @file
/// Gathering rows in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/pieces.hpp>
#include <lod/ops/embedding.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<GatherRows> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const std::int64_t* ids, std::int64_t count, std::int64_t row_size,
                  std::int64_t skipped, T* y) {
    const Pieces<T> pieces(y, row_size);
    for_each_element(executor, count, pieces.in_row(), [=] LOD_HOST_DEVICE(std::int64_t row, std::int64_t piece) {
      const std::int64_t id = ids[row];
      if (id < 0 || id == skipped) {
        pieces.fill(y + row * row_size + piece * pieces.width(), T{});
      } else {
        pieces.copy(y + row * row_size, x + id * row_size, piece);
      }
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

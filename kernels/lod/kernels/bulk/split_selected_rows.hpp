// SPDX-License-Identifier: Apache-2.0
/// @file
/// The ids of the sections of row-sparse tensors, computed where the ids are.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/split_selected_rows.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<ShiftRows> {
  template <class E>
  static void run(const E& executor, const std::int64_t* ids, std::int64_t count, std::int64_t first,
                  std::int64_t height, std::int64_t shift, std::int64_t* y) {
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t i) {
      // An id that names no row is negative, hence less than `first`.
      y[i] = ids[i] >= first && ids[i] - first < height ? ids[i] + shift : -1;
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

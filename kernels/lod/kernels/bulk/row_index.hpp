// SPDX-License-Identifier: Apache-2.0
/// @file
/// Converting row numbers to another origin in bulk.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/row_index.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<RenumberRows> {
  template <class E>
  static void run(const E& executor, const std::int64_t* index, const Segments& parts, std::int64_t row_size,
                  const Segments& sequences, const std::int64_t* places, int renumbering, std::int64_t* to) {
    const auto how = static_cast<Renumbering>(renumbering);
    if (parts.offsets == nullptr) {
      for_each_element(executor, sequences.size, row_size, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t column) {
        const std::int64_t k = i * row_size + column;
        to[k] = renumbered(index[k], i, sequences, places, how);
      });
    } else {
      for_each_in_sequences(executor, parts, 1, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t k, std::int64_t) {
        to[k] = renumbered(index[k], i, sequences, places, how);
      });
    }
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A user's function for each row in bulk: a thread has a row.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/map_rows.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<MapRows> {
  template <class E, class Body>
  static void run(const E& executor, std::int64_t rows, const Body& body) {
    for_each(executor, rows, body);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

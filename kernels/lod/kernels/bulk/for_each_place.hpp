// SPDX-License-Identifier: Apache-2.0
/// @file
/// A function of the caller's for each of many numbers, in bulk.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/for_each_place.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<ForEachPlace> {
  template <class E, class Body>
  static void run(const E& executor, std::int64_t count, const Body& body) {
    for_each(executor, count, body);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Masks in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/sequence_mask.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<SequenceMask> {
  template <class E, class U>
  static void run(const E& executor, const std::int64_t* lengths, std::int64_t count, std::int64_t max_length, U* y) {
    for_each(executor, count * max_length, [=] LOD_HOST_DEVICE(std::int64_t at) {
      y[at] = static_cast<U>(at % max_length < lengths[at / max_length] ? 1 : 0);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

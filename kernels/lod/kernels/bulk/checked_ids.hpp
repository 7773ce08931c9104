// SPDX-License-Identifier: Apache-2.0
/// @file
/// Checking ids in the memory that they are in, in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/cross_entropy.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<CheckIds> {
  template <class E>
  static void run(const E& executor, const std::int64_t* ids, std::int64_t count, std::int64_t height,
                  std::int64_t padding_idx, bool minus_one, std::int64_t* checked, std::int64_t* fault) {
    const PaddingIds padding{padding_idx, minus_one};
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t i) {
      const bool good = ids[i] >= padding.least() && ids[i] < height;
      checked[i] = good && !padding.contains(ids[i]) ? ids[i] : -1;
      if (!good) *fault = i;
    });
  }
};

template <>
struct Kernel<WidenIds> {
  template <class E>
  static void run(const E& executor, const std::int32_t* ids, std::int64_t count, std::int64_t* wide, std::int64_t*) {
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t i) { wide[i] = ids[i]; });
  }
};

template <>
struct Kernel<CheckLabels> {
  template <class E>
  static void run(const E& executor, const std::int64_t* labels, std::int64_t count, std::int64_t classes,
                  std::int64_t ignored, std::int64_t* checked, std::int64_t* fault) {
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t i) {
      const bool counts = labels[i] != ignored, good = labels[i] >= 0 && labels[i] < classes;
      checked[i] = counts && good ? labels[i] : -1;
      if (counts && !good) *fault = i;
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

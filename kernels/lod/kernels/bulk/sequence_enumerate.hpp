// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sliding windows in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/sequence_enumerate.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<SequenceEnumerate> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t window, T pad_value, T* y) {
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t ahead) {
      const std::int64_t from = row + ahead;
      y[row * window + ahead] = from < sequences.begin(i + 1) ? x[from] : pad_value;
    };
    for_each_in_sequences(executor, sequences, window, write);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

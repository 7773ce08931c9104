// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copies of runs of rows in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/pieces.hpp>
#include <lod/ops/run_copy.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<RunCopy> {
  template <class E, class T>
  static void run(const E& executor, const T* const* sources, const Segments& destination, std::int64_t row_size,
                  T* y) {
    const Pieces<T> pieces(y, row_size);
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t piece) {
      pieces.copy(y + row * row_size, sources[i] + (row - destination.begin(i)) * row_size, piece);
    };
    for_each_in_sequences(executor, destination, pieces.in_row(), write);
  }
};

template <>
struct Kernel<CopyValues> {
  template <class E, class T>
  static void run(const E& executor, const T* x, std::int64_t count, T* y) {
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t at) { y[at] = x[at]; });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

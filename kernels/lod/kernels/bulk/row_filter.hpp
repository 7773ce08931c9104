// SPDX-License-Identifier: Apache-2.0
/// @file
/// Removing rows from their sequences in bulk: a running sum tells where each row goes.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/sequence_erase.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Whether the row before is kept.
template <class IsLeft>
struct CountLeft {
  IsLeft is_left;
  LOD_HOST_DEVICE std::int64_t operator()(std::int64_t i) const { return i > 0 && is_left(i - 1) ? 1 : 0; }
};

/// The first step of a kernel that keeps some rows of one number each. `is_left(row)` says whether row `row` is kept.
/// Between the steps, `scratch` holds for each row, and for the end, the number of rows kept before it.
struct RowFilter {
  /// Sets kept[i] to the number of rows kept before sequence i, for i in [0, sequences.size].
  template <class E, class IsLeft>
  static void count(const E& executor, const Segments& sequences, const IsLeft& is_left, std::int64_t* scratch,
                    std::int64_t* kept) {
    System<E>(executor).scan(sequences.rows() + 1, CountLeft<IsLeft>{is_left},
                             [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t before) { scratch[i] = before; });
    for_each(executor, sequences.size + 1,
             [=] LOD_HOST_DEVICE(std::int64_t i) { kept[i] = scratch[sequences.begin(i)]; });
  }
};

template <>
struct Kernel<CopyKept> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, const std::int64_t* scratch, T* y) {
    for_each(executor, sequences.rows(), [=] LOD_HOST_DEVICE(std::int64_t row) {
      const std::int64_t to = scratch[row];
      if (scratch[row + 1] > to) y[to] = x[row];
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

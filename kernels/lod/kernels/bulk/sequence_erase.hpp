// SPDX-License-Identifier: Apache-2.0
/// @file
/// Erasing ids in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/row_filter.hpp>
#include <lod/kernels/partition_point.hpp>
#include <lod/ops/sequence_erase.hpp>

#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Selects the rows that equal none of `count` ascending tokens.
template <class T>
struct NoToken {
  const T* x;
  const T* tokens;
  std::int64_t count;

  LOD_HOST_DEVICE bool operator()(std::int64_t row) const {
    const T id = x[row];
    const std::int64_t found =  // the first token that is not less than the id
        partition_point<std::int64_t>(0, count, [&](std::int64_t i) { return tokens[i] < id; });
    return found == count || tokens[found] != id;
  }
};

template <>
struct Kernel<SequenceErase> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::span<const T> tokens,
                  std::int64_t* scratch, std::int64_t* kept) {
    const NoToken<T> is_left{x, tokens.data(), static_cast<std::int64_t>(tokens.size())};
    RowFilter::count(executor, sequences, is_left, scratch, kept);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

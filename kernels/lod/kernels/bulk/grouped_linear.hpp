// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rows of sequences by groups, in bulk: sorted by the group of their sequence.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/partition_point.hpp>
#include <lod/ops/grouped_linear.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<RowsByGroup> {
  template <class E>
  static void run(const E& executor, const Segments& sequences, const std::int64_t* group_of, std::int64_t groups,
                  std::int64_t* offsets, std::int64_t* rows) {
    const std::int64_t count = sequences.rows();
    const Scratch<E, std::int64_t> keys_loan(executor, count), other_keys(executor, count), other_rows(executor, count);
    std::int64_t* const keys = keys_loan.data();
    const std::int64_t* sorted = keys;
    const std::int64_t* moved = rows;
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t row) {
      const std::int64_t group = group_of[sequence_of(sequences, row)];
      keys[row] = group < 0 ? groups : group;
      rows[row] = row;
    });
    if (count > 0) {
      const Pairs<std::int64_t, std::int64_t> pairs =
          System<E>(executor).sort_pairs(Pairs<std::int64_t, std::int64_t>{keys, rows},
                                         {other_keys.data(), other_rows.data()}, count, bits_up_to(groups));
      sorted = pairs.keys;
      moved = pairs.values;
    }
    for_each(executor, greatest(count, groups + 1), [=] LOD_HOST_DEVICE(std::int64_t n) {
      if (n < count && moved != rows) rows[n] = moved[n];
      if (n > groups) return;
      offsets[n] = partition_point<std::int64_t>(0, count, [=](std::int64_t k) { return sorted[k] < n; });
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

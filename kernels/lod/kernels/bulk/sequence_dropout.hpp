// SPDX-License-Identifier: Apache-2.0
/// @file
/// Dropout in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/sequence_dropout.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<SequenceDropout> {
  template <class E, class T>
  static void run(const E& executor, const T* x, std::int64_t rows, std::int64_t row_size, const Segments& sequences,
                  const DropoutRule& rule, T* y) {
    const auto scale = static_cast<Accumulator<T>>(rule.scale);
    for_each_element(executor, rows, row_size, [=] LOD_HOST_DEVICE(std::int64_t row, std::int64_t column) {
      const std::int64_t at = row * row_size + column;
      const bool is_kept = rule.keeps(sequences.offsets ? sequence_of(sequences, row) : at);
      y[at] = is_kept ? static_cast<T>(static_cast<Accumulator<T>>(x[at]) * scale) : T{};
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

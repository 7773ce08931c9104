// SPDX-License-Identifier: Apache-2.0
/// @file
/// The gradient of slicing inside sequences in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/sequence_slice.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<SequenceSliceGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const Segments& parts, const std::int64_t* first_rows,
                  const Segments& sequences, std::int64_t row_size, T* dx) {
    const auto write = [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
      const std::int64_t place = row - sequences.begin(i) - first_rows[i];  // within the part
      const bool in_part = place >= 0 && place < parts.length(i);
      dx[row * row_size + column] = in_part ? dy[(parts.begin(i) + place) * row_size + column] : T{};
    };
    for_each_in_sequences(executor, sequences, row_size, write);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

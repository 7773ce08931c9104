// SPDX-License-Identifier: Apache-2.0
/// @file
/// Reversal of rows over Thrust.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/ops/sequence_reverse.hpp>
#include <lod/thrust_executor.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

struct SequenceReverse {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t row_size, T* y) {
    for_each(executor, sequences.rows() * row_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t row = at / row_size, i = sequence_of(sequences, row);
      const std::int64_t mirrored = sequences.begin(i) + sequences.begin(i + 1) - 1 - row;
      y[at] = x[mirrored * row_size + at % row_size];
    });
  }
};

}  // namespace bulk

template <class Policy>
struct SequenceReverse<ThrustExecutor<Policy>> : bulk::SequenceReverse {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

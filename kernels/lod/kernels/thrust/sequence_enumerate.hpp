// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sliding windows over Thrust.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/ops/sequence_enumerate.hpp>
#include <lod/thrust_executor.hpp>

#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

struct SequenceEnumerate {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t window, T pad_value, T* y) {
    for_each(executor, sequences.rows() * window, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t row = at / window, from = row + at % window;
      y[at] = from < sequences.begin(sequence_of(sequences, row) + 1) ? x[from] : pad_value;
    });
  }
};

}  // namespace bulk

template <class Policy>
struct SequenceEnumerate<ThrustExecutor<Policy>> : bulk::SequenceEnumerate {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A function of the user's over Thrust: only on systems that can call what the host can.
#pragma once

#include <lod/kernels/thrust/bulk.hpp>
#include <lod/ops/for_each_sequence.hpp>
#include <lod/thrust_executor.hpp>

namespace lod::inline LOD_TARGET {
namespace kernel {

namespace bulk {

struct ForEachSequence {
  template <class E, class Body>
  static void run(const E& executor, const Segments& sequences, const Body& body) {
    for_each(executor, sequences.size, body);
  }
};

}  // namespace bulk

template <class Policy>
struct ForEachSequence<ThrustExecutor<Policy>> : bulk::ForEachSequence {};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

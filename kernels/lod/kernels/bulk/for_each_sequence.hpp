// SPDX-License-Identifier: Apache-2.0
/// @file
/// Calling a user's function for each sequence in bulk: only on systems that can call host functions.
#pragma once

#include <lod/core/floating_point_control.hpp>
#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/for_each_sequence.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<ForEachSequence> {
  template <class E, class Body>
  static void run(const E& executor, const Segments& sequences, const Body& body) {
    const auto callers = detail::FloatingPointControl::read();
    for_each(executor, sequences.size, [callers, body](std::int64_t i) {
      const detail::FloatingPointControl control(callers);
      body(i);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

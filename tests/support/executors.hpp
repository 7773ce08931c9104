// SPDX-License-Identifier: Apache-2.0
/// @file
/// The executors that every case runs on.
#pragma once

#include "support/grain.hpp"
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#ifdef LOD_TEST_THRUST
#  include "support/thrust_system.hpp"
#endif

#include <doctest/doctest.h>

#include <iterator>
#include <vector>

namespace lod_test {

/// The numbers of threads that cases are run with; where all is slow, that which shares most.
inline const std::vector<int> thread_counts = slow ? std::vector{7} : std::vector{1, 2, 7};

/// An executor of the same back end that works alone: results of all executors of a back end have the same bits. Of
/// different ones they have where nothing but sums, products, quotients and roots is computed.
inline lod::CpuExecutor working_alone(const lod::CpuExecutor&) { return lod::CpuExecutor(1); }
#ifdef LOD_TEST_THRUST
inline ThrustExecutor working_alone(const ThrustExecutor&) { return ThrustExecutor(); }
#endif

/// Calls f(executor) for each.
template <class F>
void for_each_executor(const F& f) {
  for (const int threads : thread_counts) {
    CAPTURE(threads);
    f(lod::CpuExecutor(threads));
  }
#ifdef LOD_TEST_THRUST
  for (const NamedSystem& system : systems) {
    if (slow && &system != std::end(systems) - 1) continue;
    CAPTURE(system.name);
    f(ThrustExecutor(AnySystem(system.kind)));
  }
#endif
}

}  // namespace lod_test

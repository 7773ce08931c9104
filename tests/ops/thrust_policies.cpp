// SPDX-License-Identifier: Apache-2.0
/// @file
/// Thrust's own policies. That every operation runs over Thrust, all other files of this room see to.
#ifdef LOD_TEST_THRUST

#  include "support/executors.hpp"
#  include "support/random_batch.hpp"
#  include "support/repeatable.hpp"
#  include <lod/lod.hpp>
#  include <lod/thrust.hpp>

#  include <doctest/doctest.h>
#  include <thrust/system/cpp/execution_policy.h>

#  include <cstdint>
#  include <utility>
#  ifdef _OPENMP
#    include <thrust/system/omp/execution_policy.h>
#  endif
#  ifdef LOD_TEST_TBB
#    include <thrust/system/tbb/execution_policy.h>
#  endif

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;

namespace {

/// Calls f(policy) for each.
template <class F>
void for_each_policy(const F& f) {
  f(thrust::cpp::par);
#  ifdef _OPENMP
  f(thrust::omp::par);
#  endif
#  ifdef LOD_TEST_TBB
  f(thrust::tbb::par);
#  endif
}

}  // namespace

TEST_CASE("ThrustExecutor: sums have the bits of those by CpuExecutor, whatever the policy") {
  Engine engine(7);
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 300, 3 * grain / row_size + 700), {row_size});
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT}) {
      const auto expected = lod::sequence_pool(lod::CpuExecutor(1), x, type);
      for_each_policy([&](const auto& policy) {
        CHECK(same_bits(lod::sequence_pool(lod::ThrustExecutor(policy), x, type), expected));
      });
    }
  }
}

TEST_CASE("ThrustExecutor: results and scratch memory come from its resource; copies share the scratch memory") {
  Engine engine(7);
  const auto x = real_numbers<float>(engine, giant_among_short(engine, 30, 3 * grain), {3});
  for_each_policy([&](const auto& policy) {
    CountingResource resource;
    {
      const lod::ThrustExecutor executor(policy, &resource);
      auto y = lod::sequence_pool(executor, x, PoolType::SUM);
      CHECK(y.resource() == &resource);
      CHECK(executor.resource() == &resource);
      CHECK(resource.allocations == 2);
      const auto copy = executor;
      check_no_allocation(resource, [&] { lod::sequence_pool_into(copy, x, PoolType::SUM, y); });
    }
    CHECK(resource.live == 0);
  });
}

TEST_CASE("ThrustExecutor: one that was moved from works on") {
  for_each_policy([](const auto& policy) {
    lod::ThrustExecutor executor(policy);
    const lod::ThrustExecutor moved = std::move(executor);
    CHECK(&executor.workspace() == &moved.workspace());
  });
}

#endif

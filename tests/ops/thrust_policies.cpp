// SPDX-License-Identifier: Apache-2.0
/// @file
/// Thrust's own policies. That every operation runs over Thrust, all other files of this room see to.
#ifdef LOD_TEST_THRUST

#  include "support/executors.hpp"
#  include "support/random_batch.hpp"
#  include "support/repeatable.hpp"
#  include <lod/kernels/bulk/leaves.hpp>
#  include <lod/lod.hpp>
#  include <lod/thrust.hpp>

#  include <doctest/doctest.h>
#  include <thrust/system/cpp/execution_policy.h>

#  include <cstddef>
#  include <cstdint>
#  include <type_traits>
#  include <utility>
#  include <vector>
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

struct JoinNumbers {
  LOD_HOST_DEVICE std::int64_t nothing() const { return 0; }
  LOD_HOST_DEVICE std::int64_t operator()(std::int64_t a, std::int64_t b) const { return a + b; }
};
struct WriteNumber {
  std::vector<std::int64_t>* to;
  LOD_HOST_DEVICE void operator()(std::int64_t, std::int64_t i, std::int64_t, std::int64_t number) const {
    (*to)[static_cast<std::size_t>(i)] = number;
  }
};

}  // namespace

TEST_CASE("ThrustExecutor: what leaves became is joined in as many steps as there must be, whatever the policy") {
  namespace bulk = lod::kernel::bulk;
  constexpr std::int64_t leaf = lod::kernel::leaf_rows;
  // 256 are joined at a time: the longest takes three steps. Nobody reads rows, so there are none.
  const std::vector<std::int64_t> leaf_counts = {257, 70000, 0, 256 * 256, 2, 256, 256 * 256 + 1};
  std::vector<std::int64_t> offsets = {0};
  for (const std::int64_t count : leaf_counts) offsets.push_back(offsets.back() + count * leaf);
  const auto size = static_cast<std::int64_t>(leaf_counts.size());
  const bulk::Leaves leaves{lod::kernel::Segments(offsets.data(), size, 70000 * leaf)};
  for_each_policy([&](const auto& policy) {
    const lod::ThrustExecutor executor(policy);
    const bulk::LeafScratch<std::remove_cvref_t<decltype(executor)>, std::int64_t> scratch(executor, leaves, 1);
    for (std::int64_t place = 0; place < leaves.places(); ++place) scratch.parts().put(place, 0, place);
    std::vector<std::int64_t> found(leaf_counts.size(), -1);
    bulk::join_parts(executor, leaves, scratch.parts(), JoinNumbers(), WriteNumber{&found});
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t first = leaves.first(i), count = leaf_counts[static_cast<std::size_t>(i)];
      CAPTURE(count);
      CHECK(found[static_cast<std::size_t>(i)] == (count > 1 ? count * first + count * (count - 1) / 2 : -1));
    }
  });
}

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

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Each operation by any number of threads, on short sequences and on some that threads share: the same bits, and a
/// second call allocates nothing.
#include "catalogue/catalogue.hpp"

#include "support/device_call.hpp"
#include "support/grain.hpp"
#include "support/register_cases.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace {

using namespace lod_test;

struct Repeatable {
  static constexpr const char* name = "the same bits by any number of threads, and a second call allocates nothing";
  /// What functions of the user's allocate is theirs.
  template <class Op>
  static constexpr bool holds_for = !calls_users<Op>;
  template <class Op>
  static void check() {
    const lod::LoD nested = lod::LoD::from_lengths({{2, 0, 1, 4}, {2, 0, 3, 1, 5, 0, 2}});
    const lod::LoD shared = lod::LoD::from_lengths({{3, 0, grain + 5, 1, grain / 2, 2}});
    for (Draws batch : {Draws(Engine(3), nested, 3, 40), Draws(Engine(4), shared, 1, grain + 3)}) {
      for_each_variant<Op, ElementOf<Op>>(batch, [](Draws&, const auto& run) {
        std::vector<Result> expected;
        for (const int threads : thread_counts) {
          CAPTURE(threads);
          CountingResource resource;
          const lod::CpuExecutor executor(threads, &resource);
          DeviceCall<lod::CpuExecutor> call(executor);
          call.make(run);
          check_no_allocation(resource, [&] { call.make(run); });
          const std::vector<Result> found = call.results();
          if (expected.empty()) expected = found;
          REQUIRE(found.size() == expected.size());
          for (std::size_t i = 0; i < found.size(); ++i) {
            CHECK(found[i].lod == expected[i].lod);
            CHECK(found[i].shape == expected[i].shape);
            CHECK(found[i].values == expected[i].values);
          }
        }
      });
    }
  }
};
[[maybe_unused]] const bool registered_repeatable = register_cases<Repeatable>(__FILE__, __LINE__);

}  // namespace

// SPDX-License-Identifier: Apache-2.0
/// @file
/// How many kernels operations launch: of short sequences, and of a giant among them. A sort and a scan are one each
/// here; on a GPU a sort is as many as its passes, and a scan is two. What the CPU has worked out is copied beside
/// them, and is no part of graphs.
#include "catalogue/catalogue.hpp"
#include "support/check_on_gpu.hpp"
#include "support/random_batch.hpp"
#include "support/register_cases.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#ifdef LOD_TEST_EMULATED_GPU

namespace {

using namespace lod_test;

/// Short sequences of rows of one number and of eight; a giant among them; several levels. Many ids are listed, once
/// more than a block takes.
std::vector<Draws> counted_batches() {
  Engine engine(64);
  const lod::LoD flat = giant_among_short(engine, 100, 20),
                 giant = giant_among_short(engine, 100, 257 * lod::kernel::leaf_rows),
                 nested = lod::LoD::from_lengths({{2, 0, 3, 1}, {3, 1, 0, 2, 4, 1}});
  std::vector<Draws> all = {Draws(engine, flat, 1, 1000, 900), Draws(engine, flat, 8, 1000, 900),
                            Draws(engine, giant, 1, 2 * lod::kernel::chunk_rows(1), 900),
                            Draws(engine, nested, 3, 1000, 900)};
  for (Draws& draws : all) {
    draws.level = draws.index.levels() - 1;
    draws.most_steps = 4;
    draws.restores = false;
  }
  return all;
}

struct FewLaunches {
  static constexpr const char* name = "on a GPU, three launches at most, but where the catalogue says why";
  template <class Op>
  static constexpr bool holds_for = !lod::on_cpu_only<Op>;
  template <class Op>
  static void check() {
    const lod::CudaExecutor executor;
    Launches found;
    for (const Draws& draws : counted_batches()) {
      for_each_variant<Op, ElementOf<Op>>(draws, [&](Draws& drawn, const auto& run) {
        DeviceCall<lod::CudaExecutor> call(executor);
        const std::int64_t count = launches_of(executor, [&] { call.make(run); });
        std::int64_t& most = found[drawn.form];
        most = std::max(most, count);
      });
    }
    const Launches expected = launches(Op());
    for (const auto& each : expected) {
      CAPTURE(each.first);
      CHECK(found.contains(each.first));
    }
    for (const auto& each : found) {
      CAPTURE(each.first);
      const auto more = expected.find(each.first);
      if (more == expected.end()) {
        CHECK(each.second <= 3);
      } else {
        CHECK(each.second == more->second);
      }
    }
  }
};
[[maybe_unused]] const bool registered_few_launches = register_cases<FewLaunches>(__FILE__, __LINE__);

}  // namespace

#endif

// SPDX-License-Identifier: Apache-2.0
// A real network, which PaddlePaddle 2.6.2 built and ran: a lexical analyser of Chinese, by two levels of bidirectional
// GRUs.
#include "programs/one_operator.hpp"
#include "support/count_allocations.hpp"
#include <lod/io/npy.hpp>
#include <lod/io/paddle.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace {

const std::string lac_folder = LOD_TEST_LAC;

/// Five sentences as ids.
lod::LoDTensor<std::int64_t> lac_words() {
  const auto ids = lod::load_npy<std::int64_t>(lac_folder + "/expected.ids.npy");
  const auto lengths = lod::load_npy<std::int64_t>(lac_folder + "/expected.lengths.npy");
  const std::vector<std::int64_t> each(lengths.values().begin(), lengths.values().end());
  return lod::LoDTensor<std::int64_t>::from_values(lod::LoD::from_lengths({each}), {1}, ids.values());
}
lod::Scope& with_parameters(lod::Scope& scope, const lod::paddle::Model& model) {
  for (const auto& one : model.parameters) scope.var(one.first).get<lod::AnyLoDTensor>() = one.second;
  return scope;
}
}  // namespace

#ifdef LOD_TEST_THRUST
TEST_CASE("lac: over Thrust, tags are those of PaddlePaddle too") {
  const auto model = lod::paddle::load_model(lac_folder);
  const auto expected = lod::load_npy<std::int64_t>(lac_folder + "/expected.tags.npy");
  lod::Scope scope;
  const auto out =
      lod_test::run_on_thrust(model.program, with_parameters(scope, model), {.feed = {{"word", lac_words()}}});
  REQUIRE(out.size() == 2);
  CHECK(std::ranges::equal(out[0].view<std::int64_t>().values(), expected.values()));
}
#endif

TEST_CASE("lac: tags and emissions are those of PaddlePaddle, and a further run allocates nothing") {
  const auto model = lod::paddle::load_model(lac_folder);
  const auto expected = lod::load_npy<float>(lac_folder + "/expected.emission.npy");
  const auto expected_tags = lod::load_npy<std::int64_t>(lac_folder + "/expected.tags.npy");
  lod::Scope scope;
  lod::PreparedProgram prepared(lod::CpuExecutor(2), model.program, with_parameters(scope, model));
  const lod::Feed feed = {{"word", lod::AnyLoDTensor(lac_words())}};
  for (int run = 0; run < 3; ++run) {
    const std::int64_t before = lod_test::allocations;
    const auto& out = prepared.run(feed);
    if (run == 2 && lod_test::counts_allocations) CHECK(lod_test::allocations == before);
    REQUIRE(out.size() == 2);
    CHECK(out[0].shape() == expected_tags.shape());
    CHECK(std::ranges::equal(out[0].view<std::int64_t>().values(), expected_tags.values()));
    REQUIRE(out[1].shape() == expected.shape());
    CHECK(out[1].lod() == feed.at("word").lod());
    float worst = 0;
    for (std::size_t i = 0; i < expected.values().size(); ++i) {
      worst = std::max(worst, std::abs(out[1].view<float>().values()[i] - expected.values()[i]));
    }
    CHECK(worst < 1e-4f);
  }
}

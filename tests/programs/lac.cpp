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
/// The program up to the emissions.
lod::ProgramDesc without_tags(lod::ProgramDesc program) {
  auto& ops = program.blocks[0].ops;
  ops.erase(std::find_if(ops.begin(), ops.end(), [](const auto& one) { return one.type == "crf_decoding"; }),
            ops.end());
  return program;
}

}  // namespace

TEST_CASE("lac: emissions are those of PaddlePaddle, and a second run allocates nothing") {
  const auto model = lod::paddle::load_model(lac_folder);
  lod::Scope scope;
  lod::PreparedProgram prepared(lod::CpuExecutor(2), without_tags(model.program), with_parameters(scope, model),
                                {"tmp_29"});
  const auto expected = lod::load_npy<float>(lac_folder + "/expected.emission.npy");
  const lod::Feed feed = {{"word", lod::AnyLoDTensor(lac_words())}};
  for (int run = 0; run < 3; ++run) {
    const std::int64_t before = lod_test::allocations;
    const auto& emission = prepared.run(feed)[0];
    if (run == 2 && lod_test::counts_allocations) CHECK(lod_test::allocations == before);
    REQUIRE(emission.shape() == expected.shape());
    CHECK(emission.lod() == feed.at("word").lod());
    float worst = 0;
    for (std::size_t i = 0; i < expected.values().size(); ++i) {
      worst = std::max(worst, std::abs(emission.view<float>().values()[i] - expected.values()[i]));
    }
    CHECK(worst < 1e-4f);
  }
}

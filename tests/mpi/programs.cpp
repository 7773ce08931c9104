// SPDX-License-Identifier: Apache-2.0
// Programs that several ranks run, against the same program in one process, bit for bit.
#include "programs/one_operator.hpp"
#include "ranks.hpp"
#include <lod/mpi_programs.hpp>

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

using lod::AnyLoDTensor;
using lod::LoD;
using lod::LoDTensor;
using lod::ProgramDesc;
using lod_test::all_ranks;
using lod_test::attr;
using lod_test::check_fails_together;
using lod_test::op;
using lod_test::program_of;
namespace mpi = lod::mpi;

namespace {

using Placement = std::vector<std::int64_t>;

/// loss = mean((pooled rows of a table times w - y)^2), with a row-sparse gradient, and its training by Adam.
ProgramDesc training(ProgramDesc& startup) {
  ProgramDesc program = program_of(
      {op("lookup_table_v2", {{"W", {"table"}}, {"Ids", {"ids"}}}, {{"Out", {"rows"}}}, {attr("is_sparse", true)}),
       op("sequence_pool", {{"X", {"rows"}}}, {{"Out", {"pooled"}}}, {attr("pooltype", std::string("SUM"))}),
       op("mul", {{"X", {"pooled"}}, {"Y", {"w"}}}, {{"Out", {"z"}}}),
       op("elementwise_sub", {{"X", {"z"}}, {"Y", {"y"}}}, {{"Out", {"d"}}}),
       op("square", {{"X", {"d"}}}, {{"Out", {"q"}}}), op("mean", {{"X", {"q"}}}, {{"Out", {"loss"}}})},
      {"table", "w"});
  const auto is_of = [](const std::vector<std::int64_t>& dims) {
    return lod::LoDTensorDesc{.tensor = {.data_type = lod::DataType::FP32, .dims = dims}};
  };
  for (lod::VarDesc& var : program.blocks[0].vars) {
    var.is_parameter = var.persistable.value();
    if (var.name == "w") var.type.lod_tensor = is_of({3, 2});
    if (var.name == "table") var.type.lod_tensor = is_of({40, 3});
    if (var.name == "loss") var.type.lod_tensor = is_of({1});
  }
  lod::minimize(program, startup, "loss", lod::Adam{.learning_rate = 0.1F, .lazy_mode = true});
  return program;
}
lod::Feed batch(lod_test::Engine& engine) {
  const LoD lod = LoD::from_lengths({{3, 0, 5, 1}});
  LoDTensor<std::int64_t> ids(lod, {});
  for (std::int64_t& id : ids.values()) id = lod_test::random_number(engine, 0, 39);
  return {{"ids", ids}, {"y", lod_test::real_numbers<float>(engine, {4, 2})}};
}
void initialise(lod::Scope& scope, const ProgramDesc& startup) {
  lod_test::Engine engine(5);
  lod::run(startup, scope);
  scope.var("table").get<AnyLoDTensor>() = lod_test::real_numbers<float>(engine, {40, 3});
  scope.var("w").get<AnyLoDTensor>() = lod_test::real_numbers<float>(engine, {3, 2});
}
std::vector<float> values(const AnyLoDTensor& x) {
  const auto all = x.view<float>().values();
  return {all.begin(), all.end()};
}
std::map<std::string, std::vector<float>> persistable(const ProgramDesc& program, const lod::Scope& scope) {
  std::map<std::string, std::vector<float>> all;
  for (const lod::VarDesc& var : program.blocks[0].vars) {
    if (var.persistable.value() && var.type.type == lod::VarType::LOD_TENSOR) {
      all[var.name] = values(scope.at(var.name).get<AnyLoDTensor>());
    }
  }
  return all;
}
/// One operator after the other, over all ranks; or at random.
Placement placement_of(lod_test::Engine& engine, const mpi::Communicator& ranks, std::size_t ops, bool in_turn) {
  Placement placement(ops);
  for (std::size_t i = 0; i < ops; ++i) {
    placement[i] =
        in_turn ? static_cast<std::int64_t>(i) % ranks.size() : lod_test::random_number(engine, 0, ranks.size() - 1);
  }
  return placement;
}

}  // namespace

TEST_CASE("run: a program that trains, wherever its operators run, has the losses and parameters of one process") {
  const auto ranks = all_ranks();
  ProgramDesc startup;
  const ProgramDesc program = training(startup);
  constexpr int steps = 4;

  lod::Scope alone;
  initialise(alone, startup);
  std::vector<std::vector<float>> losses;
  {
    lod_test::Engine engine(9);
    lod::PreparedProgram step(ranks.executor(), program, alone, {"loss"});
    for (int i = 0; i < steps; ++i) losses.push_back(values(step.run(batch(engine))[0]));
  }
  const auto expected = persistable(program, alone);

  lod_test::Engine engine(lod_test::first_seed());
  for (int sample = 0; sample < 5; ++sample) {
    const Placement placement = placement_of(engine, ranks, program.blocks[0].ops.size(), sample == 0);
    lod::Scope scope;
    // Only rank 0 has anything.
    const bool is_root = ranks.rank() == 0;
    if (is_root) initialise(scope, startup);
    lod_test::Engine of_batches(9);
    mpi::PreparedProgram step(ranks, is_root ? program : ProgramDesc(), is_root ? placement : Placement(), scope,
                              {"loss", "pooled"});
    for (int i = 0; i < steps; ++i) {
      const lod::Feed feed = batch(of_batches);
      const auto& fetched = step.run(is_root ? feed : lod::Feed());
      REQUIRE(fetched.size() == (is_root ? 2 : 0));
      if (is_root) CHECK(values(fetched[0]) == losses[static_cast<std::size_t>(i)]);
    }
    step.collect();
    if (is_root) CHECK(persistable(program, scope) == expected);
  }
}

TEST_CASE("run: arrays, rank tables and nested batches go from rank to rank") {
  const auto ranks = all_ranks();
  ProgramDesc program =
      program_of({op("lod_rank_table", {{"X", {"x"}}}, {{"Out", {"table"}}}, {attr("level", 0)}),
                  op("lod_tensor_to_array", {{"X", {"x"}}, {"RankTable", {"table"}}}, {{"Out", {"array"}}}),
                  op("array_to_lod_tensor", {{"X", {"array"}}, {"RankTable", {"table"}}}, {{"Out", {"back"}}}),
                  op("scale", {{"X", {"back"}}}, {{"Out", {"y"}}}, {attr("scale", 2.0F)})});
  lod_test::retype(program, lod::VarType::LOD_RANK_TABLE, {"table"});
  lod_test::retype(program, lod::VarType::LOD_TENSOR_ARRAY, {"array"});
  lod_test::Engine engine(lod_test::first_seed());
  const auto x = lod_test::real_numbers<float>(engine, LoD::from_lengths({{3, 0, 5, 1}}), {2});
  const lod::RunOptions options{.feed = {{"x", x}}, .fetch = {"y", "x"}};
  lod::Scope alone;
  const auto expected = lod::run(ranks.executor(), program, alone, options);
  for (int sample = 0; sample < 4; ++sample) {
    const Placement placement = placement_of(engine, ranks, program.blocks[0].ops.size(), sample == 0);
    lod::Scope scope;
    const auto fetched = mpi::run(ranks, program, placement, scope, options);
    if (ranks.rank() > 0) continue;
    REQUIRE(fetched.size() == 2);
    CHECK(lod_test::same_bits(fetched[0].copy<float>(), expected[0].copy<float>()));
    CHECK(lod_test::same_bits(fetched[1].copy<float>(), x));
  }
}

TEST_CASE("run: the program's own feed and fetch, on any rank, say what enters and leaves") {
  const auto ranks = all_ranks();
  ProgramDesc program = program_of({op("feed", {{"X", {"feed"}}}, {{"Out", {"x"}}}, {attr("col", 0)}),
                                    op("scale", {{"X", {"x"}}}, {{"Out", {"y"}}}, {attr("scale", 2.0F)}),
                                    op("scale", {{"X", {"y"}}}, {{"Out", {"z"}}}, {attr("scale", 2.0F)}),
                                    op("fetch", {{"X", {"z"}}}, {{"Out", {"fetch"}}}, {attr("col", 1)}),
                                    op("fetch", {{"X", {"y"}}}, {{"Out", {"fetch"}}}, {attr("col", 0)})});
  lod_test::retype(program, lod::VarType::FEED_MINIBATCH, {"feed"});
  lod_test::retype(program, lod::VarType::FETCH_LIST, {"fetch"});
  lod_test::Engine engine(lod_test::first_seed());
  const auto x = lod_test::real_numbers<float>(engine, LoD::from_lengths({{3, 0, 5}}), {2});
  for (int sample = 0; sample < 4; ++sample) {
    const Placement placement = placement_of(engine, ranks, program.blocks[0].ops.size(), sample == 0);
    lod::Scope scope;
    const auto fetched = mpi::run(ranks, program, placement, scope, {.feed = {{"x", x}}});
    if (ranks.rank() > 0) continue;
    REQUIRE(fetched.size() == 2);
    CHECK(lod_test::same_bits(fetched[0].copy<float>(), lod::add(x, x)));
    CHECK(lod_test::same_bits(fetched[1].copy<float>(), lod::add(fetched[0].copy<float>(), fetched[0].copy<float>())));
  }
}

TEST_CASE("run: what fails on one rank fails on all, and the next run works") {
  const auto ranks = all_ranks();
  // The last rank multiplies; its factors may not fit. The others wait for it, and it for them.
  const ProgramDesc program = program_of({op("scale", {{"X", {"x"}}}, {{"Out", {"a"}}}, {attr("scale", 2.0F)}),
                                          op("mul", {{"X", {"a"}}, {"Y", {"w"}}}, {{"Out", {"b"}}}),
                                          op("scale", {{"X", {"b"}}}, {{"Out", {"c"}}}, {attr("scale", 2.0F)}),
                                          op("elementwise_add", {{"X", {"c"}}, {"Y", {"b"}}}, {{"Out", {"y"}}})});
  const int last = ranks.size() - 1;
  lod_test::Engine engine(3);
  const auto x = lod_test::real_numbers<float>(engine, {4, 3});
  const lod::Feed fits = {{"x", x}, {"w", lod_test::real_numbers<float>(engine, {3, 2})}};
  const lod::Feed does_not = {{"x", x}, {"w", lod_test::real_numbers<float>(engine, {5, 2})}};
  lod::Scope scope;
  mpi::PreparedProgram prepared(ranks, program, Placement{0, last, 0, last}, scope, {"y"});
  lod::Scope alone;
  const auto expected = lod::run(ranks.executor(), program, alone, {.feed = fits, .fetch = {"y"}});
  for (int round = 0; round < 3; ++round) {
    check_fails_together<std::exception>(ranks, last, "operator", [&] { prepared.run(does_not); });
    const auto& fetched = prepared.run(fits);
    if (ranks.rank() == 0) CHECK(values(fetched[0]) == values(expected[0]));
  }
  // A feed that is missing is found by the rank that reads it.
  check_fails_together<lod::InvalidProgram>(ranks, last, "w", [&] { prepared.run({{"x", x}}); });
  CHECK_NOTHROW(prepared.run(fits));
}

TEST_CASE("run: a program or a placement that cannot be shared out is refused on all ranks") {
  const auto ranks = all_ranks();
  ProgramDesc program = program_of({op("scale", {{"X", {"x"}}}, {{"Out", {"y"}}}, {attr("scale", 2.0F)})});
  lod::Scope scope;
  const auto prepare = [&](const ProgramDesc& of, const Placement& placement) {
    return [&] { mpi::PreparedProgram(ranks, of, placement, scope, {"y"}); };
  };
  check_fails_together<lod::OutOfRange>(ranks, 0, "operator 0 to part", prepare(program, {ranks.size()}));
  check_fails_together<lod::ShapeMismatch>(ranks, 0, "numbers of parts for 1 operators", prepare(program, {0, 0}));
  program.blocks[0].ops[0].type = "unknown";
  check_fails_together<lod::InvalidProgram>(ranks, ranks.size() - 1, "unknown", prepare(program, {ranks.size() - 1}));
  check_fails_together<std::runtime_error>(ranks, ranks.size() - 1, "by itself", [&] {
    mpi::together(ranks, [&] {
      if (ranks.rank() == ranks.size() - 1) throw std::runtime_error("by itself");
    });
  });
  CHECK(scope.local_names().empty());
}

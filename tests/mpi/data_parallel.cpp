// SPDX-License-Identifier: Apache-2.0
// Programs that train on batches of each rank's own, against one process that has all of them in one batch.
#include "models.hpp"
#include "ranks.hpp"
#include <lod/infer.hpp>
#include <lod/mpi_programs.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using lod::AnyLoDTensor;
using lod::LoD;
using lod::LoDTensor;
using lod::ProgramDesc;
using lod_test::all_ranks;
using lod_test::attr;
using lod_test::batches_of_parts;
using lod_test::check_fails_together;
using lod_test::check_same;
using lod_test::Engine;
using lod_test::fill_scope;
using lod_test::for_each_training;
using lod_test::gate;
using lod_test::joined;
using lod_test::Model;
using lod_test::model_of;
using lod_test::Numbers;
using lod_test::numbers_of;
using lod_test::op;
using lod_test::Outcome;
using lod_test::Part;
using lod_test::part_of;
using lod_test::parts_in_batch;
using lod_test::perceptron;
using lod_test::random_number;
using lod_test::remember;
using lod_test::sentiment;
using lod_test::Training;
using lod_test::trainings;
namespace mpi = lod::mpi;

namespace {

/// What the programs do as those of one process, with whole batches.
Outcome run_alone(const Model& model, const ProgramDesc& program, const ProgramDesc& startup,
                  const std::vector<std::vector<Part>>& batches) {
  lod::Scope scope;
  fill_scope(model, startup, scope);
  Outcome outcome;
  lod::PreparedProgram step(lod::CpuExecutor(1), program, scope, {"loss"});
  for (const auto& parts : batches) outcome.losses.push_back(numbers_of(step.run(model.feed(joined(parts)))[0]));
  remember(program, scope, outcome);
  return outcome;
}
/// One process with whole batches.
Outcome trained_alone(const Model& model, const Training& way, const std::vector<std::vector<Part>>& batches) {
  ProgramDesc program = model.program, startup;
  lod::minimize(program, startup, "loss", way.optimizer, way.options);
  return run_alone(model, program, startup, batches);
}
/// The parts of this rank, if all are shared out at these places: those of rank r begin at cuts[r].
std::vector<Part> parts_of(const mpi::Communicator& ranks, const std::vector<std::int64_t>& cuts,
                           const std::vector<Part>& all) {
  const auto rank = static_cast<std::size_t>(ranks.rank());
  return {all.begin() + cuts[rank], all.begin() + cuts[rank + 1]};
}
/// All ranks, each with its parts; one batch, or as they are.
Outcome trained_on(const mpi::Communicator& ranks, const Model& model, const Training& way,
                   const std::vector<std::vector<Part>>& batches, const std::vector<std::int64_t>& cuts, bool joins,
                   const mpi::DataParallelOptions& options) {
  ProgramDesc program = model.program, startup;
  mpi::minimize(program, startup, "loss", way.optimizer, way.options);
  lod::Scope scope;
  const bool is_root = ranks.rank() == 0;
  if (is_root) fill_scope(model, startup, scope);  // only rank 0 has anything
  Outcome outcome;
  mpi::DataParallelProgram step(ranks, is_root ? program : ProgramDesc(), scope, {"loss"}, options);
  for (const auto& all : batches) {
    const std::vector<Part> own = parts_of(ranks, cuts, all);
    if (joins) {
      Engine none(1);
      outcome.losses.push_back(numbers_of(step.run(model.feed(own.empty() ? part_of(none, 0) : joined(own)))[0]));
    } else {
      outcome.losses.push_back(numbers_of(step.run_parts(model.feeds(own))[0]));
    }
  }
  remember(program, scope, outcome);
  return outcome;
}

void check_close(const Numbers& found, const Numbers& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(std::abs(found[i] - expected[i]) <= 1e-5F + 1e-4F * std::abs(expected[i]));
  }
}
void check_close(const Outcome& found, const Outcome& expected) {
  for (std::size_t i = 0; i < expected.losses.size(); ++i) check_close(found.losses[i], expected.losses[i]);
  for (const auto& one : expected.persistable) {
    INFO(one.first);
    check_close(found.persistable.at(one.first), one.second);
  }
}
/// Checks that all ranks have what rank 0 has, bit for bit.
void check_same_on_all(const mpi::Communicator& ranks, const Outcome& outcome) {
  for (const auto& one : outcome.persistable) {
    INFO(one.first);
    const auto count = static_cast<std::int64_t>(one.second.size());
    CHECK(numbers_of(mpi::broadcast(ranks, 0, lod_test::plain<float>({count}, one.second))) == one.second);
  }
}

/// Where the parts of each rank begin: at random; in sample 0 rank 0 has all, in sample 1 the last one.
std::vector<std::int64_t> random_cuts(Engine& engine, const mpi::Communicator& ranks, int sample) {
  std::vector<std::int64_t> cuts{0};
  for (int rank = 1; rank < ranks.size(); ++rank) {
    const std::int64_t all[] = {parts_in_batch, 0, random_number(engine, 0, parts_in_batch)};
    cuts.push_back(all[std::min(sample, 2)]);
  }
  cuts.push_back(parts_in_batch);
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

}  // namespace

TEST_CASE("DataParallelProgram: losses and parameters are those of one process with all sequences in one batch") {
  const auto ranks = all_ranks();
  Engine engine(lod_test::first_seed());
  for_each_training([&](const Model& model, const Training& way) {
    const auto batches = batches_of_parts(engine);
    const Outcome expected = trained_alone(model, way, batches);
    for (int sample = 0; sample < 3; ++sample) {
      INFO("LOD_TEST_SEED=", lod_test::first_seed(), ": ", way.name, ", sample ", sample);
      const auto cuts = random_cuts(engine, ranks, sample);
      const bool joins = sample != 1;
      const Outcome found = trained_on(ranks, model, way, batches, cuts, joins, {.joined_bytes = joins ? 64 : 1});
      check_close(found, expected);
      check_same_on_all(ranks, found);
    }
  });
}

TEST_CASE("DataParallelProgram: with a fixed tree, the same parts give the same bits wherever they are") {
  const auto ranks = all_ranks();
  Engine engine(lod_test::first_seed());
  for_each_training([&](const Model& model, const Training& way) {
    const auto batches = batches_of_parts(engine);
    mpi::DataParallelOptions options{.fixed_tree = true};
    const Outcome expected = lod_test::trained_in_parts(model, way, batches);
    for (int sample = 0; sample < 3; ++sample) {
      INFO("LOD_TEST_SEED=", lod_test::first_seed(), ": ", way.name, ", sample ", sample);
      options.joined_bytes = sample == 0 ? 1 : 64;
      const auto cuts = random_cuts(engine, ranks, sample);
      check_same(trained_on(ranks, model, way, batches, cuts, false, options), expected);
    }
  });
}

TEST_CASE("DataParallelProgram: numbers that nobody rounds are those of one batch, bit for bit") {
  const auto ranks = all_ranks();
  // Small integers, 32 rows and a learning rate that is a power of two. Ranks have different numbers of rows.
  const Model model =
      model_of({op("mul", {{"X", {"x"}}, {"Y", {"w"}}}, {{"Out", {"z"}}}),
                op("elementwise_sub", {{"X", {"z"}}, {"Y", {"y"}}}, {{"Out", {"d"}}}),
                op("square", {{"X", {"d"}}}, {{"Out", {"q"}}}), op("mean", {{"X", {"q"}}}, {{"Out", {"loss"}}})},
               {{"w", {3, 1}}}, false);
  Engine engine(lod_test::first_seed());
  std::vector<Part> parts(parts_in_batch);
  const std::int64_t rows[parts_in_batch] = {1, 7, 0, 4, 9, 2, 6, 3};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i].x = lod_test::small_integers<float>(engine, {rows[i], 3});
    parts[i].y = lod_test::small_integers<float>(engine, {rows[i], 1});
  }
  const auto trained = [&](const mpi::Communicator* on, const std::vector<Part>& own) {
    ProgramDesc program = model.program, startup;
    lod::Scope scope;
    const lod::SGD sgd{.learning_rate = 0.25F};
    on ? mpi::minimize(program, startup, "loss", sgd) : lod::minimize(program, startup, "loss", sgd);
    lod::run(startup, scope);
    scope.var("w").get<AnyLoDTensor>() = lod_test::plain<float>({3, 1}, {1, -2, 3});
    const lod::Feed feed = {{"x", joined(own, &Part::x)}, {"y", joined(own, &Part::y)}};
    Numbers all;
    const auto take = [&](const std::vector<AnyLoDTensor>& fetched) {
      for (const AnyLoDTensor& one : fetched) {
        const Numbers numbers = numbers_of(one);
        all.insert(all.end(), numbers.begin(), numbers.end());
      }
    };
    if (on) {
      take(mpi::DataParallelProgram(*on, program, scope, {"loss", "w"}).run(feed));
    } else {
      take(lod::run(lod::CpuExecutor(1), program, scope, {.feed = feed, .fetch = {"loss", "w"}}));
    }
    return all;
  };
  const Numbers expected = trained(nullptr, parts);
  for (int sample = 2; sample < 6; ++sample) {
    std::vector<Part> own = parts_of(ranks, random_cuts(engine, ranks, sample), parts);
    own.push_back({{}, {}, LoDTensor<float>({0, 3}), LoDTensor<float>({0, 1})});
    CHECK(trained(&ranks, own) == expected);
  }
}

TEST_CASE("DataParallelProgram: without any sequence, gradients and the loss are zero") {
  const auto ranks = all_ranks();
  Engine engine(1);
  const Model model = sentiment();
  const Training way{"SGD", lod::SGD{.learning_rate = 1}, {}};
  const std::vector<std::vector<Part>> none{
      std::vector<Part>(static_cast<std::size_t>(ranks.size()), part_of(engine, 0))};
  std::vector<std::int64_t> cuts;
  for (int rank = 0; rank <= ranks.size(); ++rank) cuts.push_back(rank);
  const Outcome found = trained_on(ranks, model, way, none, cuts, true, {});
  CHECK(found.losses == std::vector<Numbers>{{0}});
  lod::Scope untouched;
  ProgramDesc program = model.program, startup;
  lod::minimize(program, startup, "loss", way.optimizer);
  fill_scope(model, startup, untouched);
  Outcome before;
  remember(program, untouched, before);
  CHECK(found.persistable == before.persistable);
}

TEST_CASE("minimize of several ranks: a sum begins after the last operator that computes its gradient") {
  for (const Model& model : {sentiment(), perceptron()}) {
    ProgramDesc program = model.program, startup;
    const auto pairs = mpi::minimize(program, startup, "loss", lod::SGD{}, {.grad_clip = lod::ClipGradByGlobalNorm{1}});
    CHECK(pairs.size() == model.parameters.size());
    const auto& ops = program.blocks[0].ops;
    const auto wait =
        std::find_if(ops.begin(), ops.end(), [](const auto& one) { return one.type == "c_sync_comm_stream"; });
    REQUIRE(wait != ops.end());
    const auto uses = [](const lod::OpDesc& one, const std::string& name) {
      return lod::detail::has_argument(one.inputs, name) || lod::detail::has_argument(one.outputs, name);
    };
    for (const auto& pair : pairs) {
      const auto sums = [&](const lod::OpDesc& one) {
        return one.type == "c_allreduce_sum" && uses(one, pair.gradient);
      };
      const auto begins = std::find_if(ops.begin(), wait, sums);
      REQUIRE(begins != wait);
      const auto is_used = [&](const lod::OpDesc& one) { return uses(one, pair.gradient); };
      CHECK(std::none_of(begins + 1, wait, is_used));
      // Operators that begin sums of the same operator's gradients may be between.
      const auto last = std::find_if(std::make_reverse_iterator(begins), ops.rend(),
                                     [](const auto& one) { return one.type != "c_allreduce_sum"; });
      CHECK(lod::detail::has_argument(last->outputs, pair.gradient));
    }
    lod::infer_shapes(program);
    CHECK(program.blocks[0].find_var("loss")->type.lod_tensor->tensor.dims == std::vector<std::int64_t>{1});
  }
}

TEST_CASE("minimize of several ranks: one process runs the program by itself") {
  const mpi::Communicator alone(MPI_COMM_SELF);
  const Model model = sentiment();
  const Training way = trainings().front();
  Engine engine(lod_test::first_seed());
  const auto batches = batches_of_parts(engine);
  const Outcome expected = trained_on(alone, model, way, batches, {0, parts_in_batch}, true, {});
  ProgramDesc program = model.program, startup;
  mpi::minimize(program, startup, "loss", way.optimizer);
  check_same(run_alone(model, program, startup, batches), expected);
}

TEST_CASE("DataParallelProgram: row-sparse gradients travel by their rows") {
  const auto ranks = all_ranks();
  constexpr std::int64_t words = 1 << 18;  // of 16 bytes
  ProgramDesc program, startup;
  const Model model = sentiment(words);
  program = model.program;
  mpi::minimize(program, startup, "loss", lod::Adam{.lazy_mode = true});
  lod::Scope scope;
  fill_scope(model, startup, scope);
  mpi::DataParallelProgram step(ranks, program, scope, {"loss"});
  Engine engine(lod_test::first_seed());
  const lod::Feed feed = model.feed(part_of(engine, 4));
  step.run(feed);
  const std::int64_t before = ranks.traffic().bytes;
  step.run(feed);
  CHECK(ranks.traffic().bytes - before < words);
}

TEST_CASE("DataParallelProgram: what fails on one rank fails on all, changes nothing, and the next run works") {
  const auto ranks = all_ranks();
  const int last = ranks.size() - 1;
  std::vector<int> ranks_that_fail;
  lod_test::add_gate();
  gate.backward = [&] {
    if (std::count(ranks_that_fail.begin(), ranks_that_fail.end(), ranks.rank()) > 0) {
      throw std::runtime_error("the gate is closed");
    }
  };
  Engine engine(lod_test::first_seed());
  const Training way = trainings()[1];
  // Gradients of w2 and b1 are there before that of the gate, which that of w1 waits for.
  const Model model = perceptron("gate_of_test");
  std::vector<std::vector<Part>> batches(2);
  for (auto& parts : batches) {
    for (int rank = 0; rank < ranks.size(); ++rank) parts.push_back(part_of(engine, 3));
  }
  const Outcome expected = trained_alone(perceptron(), way, batches);
  for (const std::int64_t joined_bytes : {1, 1 << 18}) {
    ProgramDesc program = model.program, startup;
    mpi::minimize(program, startup, "loss", way.optimizer, way.options);
    lod::Scope scope;
    fill_scope(model, startup, scope);
    mpi::DataParallelProgram step(ranks, program, scope, {"loss"}, {.joined_bytes = joined_bytes});
    Outcome found;
    for (const auto& parts : batches) {
      const lod::Feed feed = model.feed(parts[static_cast<std::size_t>(ranks.rank())]);
      Outcome before, after;
      remember(program, scope, before);
      // In the backward pass, when some sums have begun: on one rank, then on two.
      ranks_that_fail = {last};
      check_fails_together<std::runtime_error>(ranks, last, "closed", [&] { step.run(feed); });
      ranks_that_fail = {0, last};
      CHECK_THROWS_AS(step.run(feed), std::runtime_error);
      ranks_that_fail.clear();
      // Before anything has run.
      lod::Feed too_little = feed;
      if (ranks.rank() == last) too_little.erase("y");
      check_fails_together<lod::InvalidProgram>(ranks, last, "'y' is missing", [&] { step.run(too_little); });
      // In the second of two parts, which only one rank has.
      std::vector<lod::Feed> twice(1, feed);
      if (ranks.rank() == last) twice.push_back(too_little);
      check_fails_together<lod::InvalidProgram>(ranks, last, "'y' is missing", [&] { step.run_parts(twice); });
      // No rank has a part: the same error on all.
      CHECK_THROWS_AS(step.run_parts({}), lod::ShapeMismatch);
      remember(program, scope, after);
      CHECK(after.persistable == before.persistable);
      found.losses.push_back(numbers_of(step.run(feed)[0]));
    }
    remember(program, scope, found);
    check_close(found, expected);
    check_same_on_all(ranks, found);
  }
  gate = {};
}

TEST_CASE("DataParallelProgram: programs that it cannot run are refused on all ranks") {
  const auto ranks = all_ranks();
  const Model model = perceptron();
  lod::Scope scope;
  ProgramDesc startup;
  const auto refused = [&](ProgramDesc program, const char* text) {
    lod::ProgramDesc before = program;
    CHECK_THROWS_WITH_AS(mpi::minimize(program, startup, "loss", lod::SGD{}), doctest::Contains(text),
                         lod::InvalidProgram);
    CHECK(program == before);
  };
  ProgramDesc other = model.program;
  other.blocks[0].ops.back().type = "reduce_mean";
  refused(other, "operator 'reduce_mean' writes it, expected one operator `mean`");
  other = model.program;
  other.blocks[0].ops.pop_back();
  refused(other, "no operator writes it");
  other = model.program;
  other.blocks[0].ops.push_back(op("square", {{"X", {"loss"}}}, {{"Out", {"d"}}}));
  refused(other, "an operator reads it");
  other = model.program;
  other.blocks[0].vars.push_back(lod_test::tensor_var("loss@COUNT"));
  refused(other, "'loss@COUNT' already");

  ProgramDesc program = model.program;
  const auto prepare = [&](const ProgramDesc& of, const std::vector<std::string>& fetch) {
    return [&, fetch] { mpi::DataParallelProgram(ranks, of, scope, fetch); };
  };
  lod::minimize(program, startup, "loss", lod::SGD{});
  CHECK_THROWS_WITH_AS(prepare(program, {"loss"})(), doctest::Contains("c_sync_comm_stream"), lod::InvalidProgram);
  program = model.program;
  startup = {};
  mpi::minimize(program, startup, "loss", lod::SGD{});
  fill_scope(model, startup, scope);
  program.blocks[0].ops.push_back(op("square", {{"X", {"h"}}}, {{"Out", {"q"}}}));
  CHECK_THROWS_WITH_AS(prepare(program, {"loss"})(), doctest::Contains("reads variable 'h'"), lod::InvalidProgram);
  program.blocks[0].ops.pop_back();
  const bool is_last = ranks.rank() == ranks.size() - 1;
  check_fails_together<lod::InvalidProgram>(ranks, ranks.size() - 1, "unknown",
                                            prepare(program, {is_last ? "unknown" : "loss"}));
  CHECK_NOTHROW(prepare(program, {"loss", "h", "w1"})());
  const std::vector<std::string> names = scope.local_names();
  CHECK(std::none_of(names.begin(), names.end(), [](const std::string& name) { return name[0] == '@'; }));
}

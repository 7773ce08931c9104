// SPDX-License-Identifier: Apache-2.0
// Programs that train as pipelines over the parts of a batch, against the same parts in one process, bit for bit.
#include "models.hpp"
#include "ranks.hpp"
#include <lod/mpi_programs.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using lod::ProgramDesc;
using lod_test::all_ranks;
using lod_test::check_fails_together;
using lod_test::Engine;
using lod_test::gate;
using lod_test::Model;
using lod_test::Outcome;
using lod_test::random_number;
using lod_test::Training;
namespace mpi = lod::mpi;

namespace {

/// Ranks in the order of layers, of which the last one begins the backward pass; or at random.
std::vector<std::int64_t> places_of(Engine& engine, const mpi::Communicator& ranks, const ProgramDesc& program,
                                    bool in_layers) {
  std::vector<std::int64_t> forward, backward, places;
  std::size_t wait = 0, back = 0;
  const auto& ops = program.blocks[0].ops;
  while (ops[wait].type != "c_sync_comm_stream") ++wait;
  while (ops[back].type != "fill_constant") ++back;  // the gradient of the loss
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto size = static_cast<std::size_t>(ranks.size());
    const std::size_t layer = i < back ? i * size / back : i < wait ? size - 1 - (i - back) * size / (wait - back) : 0;
    places.push_back(in_layers ? static_cast<std::int64_t>(layer) : random_number(engine, 0, ranks.size() - 1));
  }
  return places;
}

/// A pipeline that only rank 0 knows anything of.
struct Pipeline {
  Pipeline(const mpi::Communicator& ranks, Engine& engine, const Model& of, const Training& way, bool in_layers)
      : model(of), is_root(ranks.rank() == 0) {
    ProgramDesc startup;
    mpi::minimize(program, startup, "loss", way.optimizer, way.options);
    const auto places = places_of(engine, ranks, program, in_layers);
    if (is_root) lod_test::fill_scope(model, startup, scope);
    step.emplace(ranks, is_root ? program : ProgramDesc(), is_root ? places : std::vector<std::int64_t>(), scope,
                 std::vector<std::string>{"loss"});
  }
  /// The loss, on rank 0.
  lod_test::Numbers run(const std::vector<lod_test::Part>& parts) {
    const auto& fetched = step->run_parts(is_root ? model.feeds(parts) : std::vector<lod::Feed>());
    return is_root ? lod_test::numbers_of(fetched.at(0)) : lod_test::Numbers();
  }
  /// All variables, on rank 0.
  void collect(Outcome& outcome) {
    step->collect();
    if (is_root) lod_test::remember(program, scope, outcome);
  }

  Model model;
  bool is_root;
  ProgramDesc program = model.program;
  lod::Scope scope;
  std::optional<mpi::PreparedProgram<>> step;
};

}  // namespace

TEST_CASE("run_parts: a pipeline, wherever its operators run, has the losses and variables of one process") {
  const auto ranks = all_ranks();
  Engine engine(lod_test::first_seed());
  lod_test::for_each_training([&](const Model& model, const Training& way) {
    const auto batches = lod_test::batches_of_parts(engine);
    const Outcome expected = lod_test::trained_in_parts(model, way, batches);
    for (int sample = 0; sample < 2; ++sample) {
      INFO("LOD_TEST_SEED=", lod_test::first_seed(), ": ", way.name, ", sample ", sample);
      Pipeline pipeline(ranks, engine, model, way, sample == 0);
      Outcome found;
      for (const auto& parts : batches) found.losses.push_back(pipeline.run(parts));
      pipeline.collect(found);
      if (pipeline.is_root) lod_test::check_same(found, expected);
    }
  });
}

TEST_CASE("run_parts: a rank goes on to the next part while another one is at this part") {
  const auto ranks = all_ranks();
  if (ranks.size() == 1) return;
  lod_test::add_gate();
  Model model = lod_test::perceptron("gate_of_test");
  // Rank 0 has the gate of the first layer; the last rank has one before its loss, and waits there, in the first part,
  // until rank 0 has come to the second one.
  auto& ops = model.program.blocks[0].ops;
  const auto square = std::find_if(ops.begin(), ops.end(), [](const auto& one) { return one.type == "square"; });
  REQUIRE(square != ops.end());
  square->inputs[0].arguments = {"d_too"};
  model.program.blocks[0].vars.push_back(lod_test::tensor_var("d_too"));
  ops.insert(square, lod_test::op("gate_of_test", {{"X", {"d"}}}, {{"Out", {"d_too"}}}));
  const int last = ranks.size() - 1;
  int part = 0;
  gate.forward = [&] {
    char token = 0;
    if (ranks.rank() == 0 && part == 1) MPI_Send(&token, 1, MPI_CHAR, last, 0, MPI_COMM_WORLD);
    if (ranks.rank() == last && part == 0) MPI_Recv(&token, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ++part;
  };
  Engine engine(lod_test::first_seed());
  const Training way = lod_test::trainings().front();
  const auto batches = lod_test::batches_of_parts(engine);
  Pipeline pipeline(ranks, engine, model, way, true);
  const auto loss = pipeline.run(batches[0]);
  gate = {};
  if (pipeline.is_root) CHECK(loss == lod_test::trained_in_parts(model, way, {batches[0]}).losses[0]);
}

TEST_CASE("run_parts: what fails on one rank fails on all, changes nothing, and the next run works") {
  const auto ranks = all_ranks();
  lod_test::add_gate();
  Engine engine(lod_test::first_seed());
  const Training way = lod_test::trainings()[1];
  const auto batches = lod_test::batches_of_parts(engine);
  const Model model = lod_test::perceptron("gate_of_test");
  const Outcome expected = lod_test::trained_in_parts(model, way, batches);
  for (const bool in_layers : {true, false}) {
    Pipeline pipeline(ranks, engine, model, way, in_layers);
    Outcome found;
    for (std::size_t step = 0; step < batches.size(); ++step) {
      // In the forward pass, or in the backward pass, of the third part.
      int part = 0;
      bool has_failed = false;
      const auto fail = [&] {
        if (++part != 3) return;
        has_failed = true;
        throw std::runtime_error("the gate is closed");
      };
      (step == 1 ? gate.forward : gate.backward) = fail;
      Outcome before, after;
      pipeline.collect(before);
      std::string text;
      try {
        pipeline.run(batches[step]);
      } catch (const mpi::RankError& error) {
        text = error.what();
        CHECK(!has_failed);
      } catch (const std::runtime_error& error) {
        text = error.what();
        CHECK(has_failed);
      }
      CHECK(text.find("the gate is closed") != std::string::npos);
      gate = {};
      pipeline.collect(after);
      CHECK(after.persistable == before.persistable);
      found.losses.push_back(pipeline.run(batches[step]));
    }
    CHECK_THROWS_AS(pipeline.run({}), std::exception);
    pipeline.collect(found);
    if (pipeline.is_root) lod_test::check_same(found, expected);
  }
}

TEST_CASE("run_parts: what is no pipeline is refused on all ranks") {
  const auto ranks = all_ranks();
  const Model model = lod_test::perceptron();
  lod::Scope scope;
  ProgramDesc program = model.program, startup;
  lod::minimize(program, startup, "loss", lod::SGD{});
  lod_test::fill_scope(model, startup, scope);
  const std::vector<std::int64_t> places(program.blocks[0].ops.size(), 0);
  mpi::PreparedProgram step(ranks, program, places, scope, {"loss"});
  CHECK_THROWS_AS(step.run_parts({}), std::invalid_argument);
  program = model.program;
  startup = {};
  mpi::minimize(program, startup, "loss", lod::SGD{});
  check_fails_together<lod::ShapeMismatch>(ranks, 0, "numbers of parts",
                                           [&] { mpi::PreparedProgram(ranks, program, {}, scope, {"loss"}); });
}

// SPDX-License-Identifier: Apache-2.0
// What goes on between ranks while they compute, under the thread sanitizer: sums that have begun during the backward
// pass, pipelines, handles, and the exchanges of a table. The kernels share inputs of a few numbers between threads
// here. Results are compared elsewhere as well, with more models.
#include "models.hpp"
#include "ranks.hpp"
#include <lod/mpi_programs.hpp>

#include <cstdint>
#include <numeric>
#include <vector>

using lod::LoDTensor;
using lod_test::all_ranks;
using lod_test::Engine;
using lod_test::own;
using lod_test::same_bits;
namespace mpi = lod::mpi;

namespace {

const lod_test::Training descent{"SGD", lod::SGD{.learning_rate = 0.5F}, {}};

/// The parts of this rank: rank r has those from r * 8 / ranks on.
std::vector<lod_test::Part> parts_of(const mpi::Communicator& ranks, const std::vector<lod_test::Part>& all) {
  const auto begin = [&](int rank) { return all.begin() + rank * lod_test::parts_in_batch / ranks.size(); };
  return {begin(ranks.rank()), begin(ranks.rank() + 1)};
}

}  // namespace

TEST_CASE("overlapped: gradients are added up while the backward pass goes on") {
  const auto ranks = all_ranks();
  Engine engine(lod_test::first_seed());
  const lod_test::Model model = lod_test::perceptron();
  const auto batches = lod_test::batches_of_parts(engine);
  const auto expected = lod_test::trained_in_parts(model, descent, batches);
  lod::ProgramDesc program = model.program, startup;
  mpi::minimize(program, startup, "loss", descent.optimizer, descent.options);
  lod::Scope scope;
  lod_test::fill_scope(model, startup, scope);
  lod_test::Outcome outcome;
  mpi::DataParallelProgram step(ranks, program, scope, {"loss"}, {.fixed_tree = true});
  for (const auto& parts : batches) {
    outcome.losses.push_back(lod_test::numbers_of(step.run_parts(model.feeds(parts_of(ranks, parts)))[0]));
  }
  lod_test::remember(program, scope, outcome);
  check_same(outcome, expected);
}

TEST_CASE("overlapped: layers on several ranks work on parts of a batch at the same time") {
  const auto ranks = all_ranks();
  Engine engine(lod_test::first_seed());
  const lod_test::Model model = lod_test::perceptron();
  const auto batches = lod_test::batches_of_parts(engine);
  const auto expected = lod_test::trained_in_parts(model, descent, batches);
  const bool is_root = ranks.rank() == 0;
  lod::ProgramDesc program = model.program, startup;
  mpi::minimize(program, startup, "loss", descent.optimizer, descent.options);
  std::vector<std::int64_t> places(program.blocks[0].ops.size());
  for (auto& place : places) place = lod_test::random_number(engine, 0, ranks.size() - 1);
  lod::Scope scope;
  if (is_root) lod_test::fill_scope(model, startup, scope);
  mpi::PreparedProgram step(ranks, is_root ? program : lod::ProgramDesc(),
                            is_root ? places : std::vector<std::int64_t>(), scope, {"loss"});
  lod_test::Outcome outcome;
  for (const auto& parts : batches) {
    const auto& fetched = step.run_parts(is_root ? model.feeds(parts) : std::vector<lod::Feed>());
    if (is_root) outcome.losses.push_back(lod_test::numbers_of(fetched.at(0)));
  }
  step.collect();
  if (!is_root) return;
  lod_test::remember(program, scope, outcome);
  check_same(outcome, expected);
}

TEST_CASE("overlapped: several operations under way, while others exchange sequences and rows of a table") {
  const auto ranks = all_ranks();
  Engine engine(lod_test::first_seed());
  for (int levels = 0; levels <= 2; ++levels) {
    // Rows of which some batches have so many that they are written past the caches.
    const auto all = lod_test::batches<float>(engine, ranks, levels, 500);
    const auto& x = own(all, ranks);
    auto gathered = mpi::start_all_gather(ranks, x);
    auto sent = mpi::start_broadcast(ranks, 0, x);
    std::vector<std::int64_t> to;  // without random numbers, of which all ranks draw the same
    for (std::int64_t i = 0; i < x.size(); ++i) to.push_back((i * i + ranks.rank()) % ranks.size());
    const auto y = mpi::all_to_all(ranks, x, to);
    mpi::ShardedTable<float> table(ranks, {4});
    const auto ids = LoDTensor<std::int64_t>::from_values({}, {}, {7, 3, 7, ranks.rank() + std::int64_t{100}});
    const auto rows = table.look_up(ids);
    table.sgd(table.gradient(rows, ids), {.learning_rate = 0.5});
    CHECK(same_bits(sent.wait(), all[0]));
    CHECK(same_bits(gathered.wait(), lod::concat(all)));
    CHECK(same_bits(mpi::all_to_all_grad(ranks, y, x.view().lod_view(), to), x));
  }
}

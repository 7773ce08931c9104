// SPDX-License-Identifier: Apache-2.0
// Programs that train on batches of each rank's own, against one process that has all of them in one batch.
#include "programs/one_operator.hpp"
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
using lod_test::check_fails_together;
using lod_test::Engine;
using lod_test::op;
using lod_test::random_number;
namespace mpi = lod::mpi;

namespace {

/// A part of a batch: sentences with labels, and plain rows with targets. It may have none of them.
struct Part {
  LoDTensor<std::int64_t> ids;
  LoDTensor<std::int64_t> labels;
  LoDTensor<float> x;
  LoDTensor<float> y;
};
Part part_of(Engine& engine, std::int64_t sentences) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < sentences; ++i) lengths.push_back(random_number(engine, 0, 5));
  LoDTensor<std::int64_t> labels({sentences, 1});
  for (std::int64_t& label : labels.values()) label = random_number(engine, 0, 1);
  return {lod_test::random_ids(engine, LoD::from_lengths({lengths}), 40), labels,
          lod_test::real_numbers<float>(engine, {sentences, 3}), lod_test::real_numbers<float>(engine, {sentences, 1})};
}
template <class T>
LoDTensor<T> joined(const std::vector<Part>& parts, LoDTensor<T> Part::*member) {
  std::vector<LoDTensor<T>> all;
  for (const Part& part : parts) all.push_back(part.*member);
  return lod::concat(all);
}
Part joined(const std::vector<Part>& parts) {
  return {joined(parts, &Part::ids), joined(parts, &Part::labels), joined(parts, &Part::x), joined(parts, &Part::y)};
}

/// A program that computes a loss, its parameters with their shapes, and what it is fed of a part.
struct Model {
  ProgramDesc program;
  std::map<std::string, std::vector<std::int64_t>> parameters;
  bool reads_sentences;

  lod::Feed feed(const Part& part) const {
    return reads_sentences ? lod::Feed{{"ids", part.ids}, {"label", part.labels}}
                           : lod::Feed{{"x", part.x}, {"y", part.y}};
  }
};
Model model_of(std::vector<lod::OpDesc> ops, std::map<std::string, std::vector<std::int64_t>> parameters,
               bool reads_sentences) {
  std::vector<std::string> names;
  for (const auto& one : parameters) names.push_back(one.first);
  Model model{lod_test::program_of(std::move(ops), names), std::move(parameters), reads_sentences};
  for (lod::VarDesc& var : model.program.blocks[0].vars) {
    var.is_parameter = var.persistable.value();
    std::vector<std::int64_t> dims = {1};
    if (var.is_parameter) dims = model.parameters.at(var.name);
    if (var.is_parameter || var.name == "loss") {
      var.type.lod_tensor = lod::LoDTensorDesc{.tensor = {.data_type = lod::DataType::FP32, .dims = dims}};
    }
  }
  return model;
}
/// Whether a sentence is kind: a table with row-sparse gradients, an LSTM, and its last state.
Model sentiment(std::int64_t words = 40) {
  return model_of(
      {op("lookup_table_v2", {{"W", {"table"}}, {"Ids", {"ids"}}}, {{"Out", {"words"}}}, {attr("is_sparse", true)}),
       op("mul", {{"X", {"words"}}, {"Y", {"w_in"}}}, {{"Out", {"gates"}}}),
       op("lstm", {{"Input", {"gates"}}, {"Weight", {"w_state"}}, {"Bias", {"b_state"}}},
          {{"Hidden", {"hidden"}}, {"Cell", {"cell"}}, {"BatchGate", {"by_step"}}}, {attr("use_peepholes", false)}),
       op("sequence_pool", {{"X", {"hidden"}}}, {{"Out", {"last"}}}, {attr("pooltype", std::string("LAST"))}),
       op("mul", {{"X", {"last"}}, {"Y", {"w_out"}}}, {{"Out", {"scores"}}}),
       op("softmax_with_cross_entropy", {{"Logits", {"scores"}}, {"Label", {"label"}}},
          {{"Softmax", {"kind"}}, {"Loss", {"losses"}}}),
       op("mean", {{"X", {"losses"}}}, {{"Out", {"loss"}}})},
      {{"table", {words, 4}}, {"w_in", {4, 12}}, {"w_state", {3, 12}}, {"b_state", {1, 12}}, {"w_out", {3, 2}}}, true);
}
/// Two dense layers. `gate` is an operator between their values, such as `assign`.
Model perceptron(const char* gate = "assign") {
  return model_of(
      {op("mul", {{"X", {"x"}}, {"Y", {"w1"}}}, {{"Out", {"a"}}}), op(gate, {{"X", {"a"}}}, {{"Out", {"a_too"}}}),
       op("elementwise_add", {{"X", {"a_too"}}, {"Y", {"b1"}}}, {{"Out", {"b"}}}),
       op("tanh", {{"X", {"b"}}}, {{"Out", {"h"}}}), op("mul", {{"X", {"h"}}, {"Y", {"w2"}}}, {{"Out", {"z"}}}),
       op("elementwise_sub", {{"X", {"z"}}, {"Y", {"y"}}}, {{"Out", {"d"}}}),
       op("square", {{"X", {"d"}}}, {{"Out", {"q"}}}), op("mean", {{"X", {"q"}}}, {{"Out", {"loss"}}})},
      {{"w1", {3, 4}}, {"b1", {4}}, {"w2", {4, 1}}}, false);
}

struct Training {
  const char* name;
  lod::Optimizer optimizer;
  lod::MinimizeOptions options;
};
/// Epsilons are such that rounding stays rounding where a gradient is about zero.
std::vector<Training> trainings() {
  return {
      {"SGD", lod::SGD{.learning_rate = 0.5F}, {}},
      {"momentum with decay", lod::Momentum{.learning_rate = 0.1F}, {.weight_decay = lod::L2Decay{0.01F}}},
      {"Adam, clipped by the norm of all",
       lod::Adam{.learning_rate = 0.05F, .epsilon = 0.01F},
       {.grad_clip = lod::ClipGradByGlobalNorm{.clip_norm = 0.05F}}},
      {"SGD, clipped by value", lod::SGD{.learning_rate = 0.5F}, {.grad_clip = lod::ClipGradByValue{.max = 0.01F}}},
      {"lazy Adam, clipped by norm",
       lod::Adam{.learning_rate = 0.05F, .epsilon = 0.01F, .lazy_mode = true},
       {.grad_clip = lod::ClipGradByNorm{.clip_norm = 0.05F}}},
      {"Adam", lod::Adam{.learning_rate = 0.05F, .epsilon = 0.01F}, {}},
      {"Adagrad with decay",
       lod::Adagrad{.learning_rate = 0.1F, .epsilon = 0.01F},
       {.weight_decay = lod::L1Decay{0.01F}}},
  };
}

/// Calls body(model, training) for all trainings, by turns of either model.
template <class Body>
void for_each_training(const Body& body) {
  bool reads_sentences = false;
  for (const Training& way : trainings()) {
    reads_sentences = !reads_sentences;
    body(reads_sentences ? sentiment() : perceptron(), way);
  }
}

using Numbers = std::vector<float>;
Numbers numbers_of(const AnyLoDTensor& x) { return lod_test::numbers<float>(x); }

/// What training has come to.
struct Outcome {
  std::vector<Numbers> losses;
  std::map<std::string, Numbers> persistable;
};
void remember(const ProgramDesc& program, const lod::Scope& scope, Outcome& outcome) {
  for (const lod::VarDesc& var : program.blocks[0].vars) {
    if (var.persistable.value()) outcome.persistable[var.name] = numbers_of(scope.at(var.name).get<AnyLoDTensor>());
  }
}
void fill_scope(const Model& model, const ProgramDesc& startup, lod::Scope& scope) {
  Engine engine(5);
  lod::run(startup, scope);
  for (const auto& [name, dims] : model.parameters) {
    scope.var(name).get<AnyLoDTensor>() = lod_test::small_reals<float>(engine, dims);
  }
}
/// One process with whole batches.
Outcome trained_alone(const Model& model, const Training& way, const std::vector<std::vector<Part>>& batches) {
  ProgramDesc program = model.program, startup;
  lod::minimize(program, startup, "loss", way.optimizer, way.options);
  lod::Scope scope;
  fill_scope(model, startup, scope);
  Outcome outcome;
  lod::PreparedProgram step(lod::CpuExecutor(1), program, scope, {"loss"});
  for (const auto& parts : batches) outcome.losses.push_back(numbers_of(step.run(model.feed(joined(parts)))[0]));
  remember(program, scope, outcome);
  return outcome;
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
      std::vector<lod::Feed> feeds;
      for (const Part& part : own) feeds.push_back(model.feed(part));
      outcome.losses.push_back(numbers_of(step.run_parts(feeds)[0]));
    }
  }
  remember(program, scope, outcome);
  return outcome;
}

void check_same(const Outcome& found, const Outcome& expected) {
  CHECK(found.losses == expected.losses);
  CHECK(found.persistable == expected.persistable);
}
void check_close(const Numbers& found, const Numbers& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CHECK(std::abs(found[i] - expected[i]) <= 1e-5F + 1e-4F * std::abs(expected[i]));
  }
}
void check_close(const Outcome& found, const Outcome& expected) {
  for (std::size_t i = 0; i < expected.losses.size(); ++i) check_close(found.losses[i], expected.losses[i]);
  for (const auto& [name, numbers] : expected.persistable) {
    INFO(name);
    check_close(found.persistable.at(name), numbers);
  }
}
/// Checks that all ranks have what rank 0 has, bit for bit.
void check_same_on_all(const mpi::Communicator& ranks, const Outcome& outcome) {
  for (const auto& [name, numbers] : outcome.persistable) {
    const auto of_root =
        mpi::broadcast(ranks, 0, lod_test::plain<float>({static_cast<std::int64_t>(numbers.size())}, numbers));
    INFO(name);
    CHECK(numbers_of(of_root) == numbers);
  }
}

constexpr std::int64_t parts_in_batch = 8;
/// Three batches in eight parts of up to four sentences; the second batch has a part without any, at least.
std::vector<std::vector<Part>> batches_of_parts(Engine& engine) {
  std::vector<std::vector<Part>> batches(3);
  for (auto& parts : batches) {
    for (std::int64_t i = 0; i < parts_in_batch; ++i) parts.push_back(part_of(engine, random_number(engine, 0, 4)));
    parts[3] = part_of(engine, 2);
  }
  batches[1][5] = part_of(engine, 0);
  return batches;
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
  const mpi::Communicator alone(MPI_COMM_SELF);
  Engine engine(lod_test::first_seed());
  for_each_training([&](const Model& model, const Training& way) {
    const auto batches = batches_of_parts(engine);
    mpi::DataParallelOptions options{.fixed_tree = true};
    const Outcome expected = trained_on(alone, model, way, batches, {0, parts_in_batch}, false, options);
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
  lod::Scope scope;
  fill_scope(model, startup, scope);
  Outcome found;
  lod::PreparedProgram step(lod::CpuExecutor(1), program, scope, {"loss"});
  for (const auto& parts : batches) found.losses.push_back(numbers_of(step.run(model.feed(joined(parts)))[0]));
  remember(program, scope, found);
  check_same(found, expected);
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

namespace {

/// The gradient of the operator `gate_of_test` throws on these ranks.
std::vector<int> ranks_that_fail;
int rank_of_test = 0;

void add_gate() {
  if (lod::operators().find("gate_of_test")) return;
  const auto pass = [](const char* from, const char* to, bool fails) {
    return [=](const lod::OperatorArguments& op) -> lod::RunOperator<> {
      return [fails, x = op.input(from), y = op.output(to)](lod::OperatorCall<>& call) {
        if (fails && std::count(ranks_that_fail.begin(), ranks_that_fail.end(), rank_of_test) > 0) {
          throw std::runtime_error("the gate is closed");
        }
        call.variable(y).get<AnyLoDTensor>() = call.tensor(x);
      };
    };
  };
  lod::operators().add("gate_of_test",
                       {.prepare = pass("X", "Out", false), .gradient = lod::gradient<"Out@GRAD -> X@GRAD">});
  lod::operators().add("gate_of_test_grad", {.prepare = pass("Out@GRAD", "X@GRAD", true)});
}

}  // namespace

TEST_CASE("DataParallelProgram: what fails on one rank fails on all, changes nothing, and the next run works") {
  const auto ranks = all_ranks();
  rank_of_test = ranks.rank();
  const int last = ranks.size() - 1;
  add_gate();
  Engine engine(lod_test::first_seed());
  const Training way = trainings()[1];
  // Gradients of w2 and b1 are there before that of the gate, which that of w1 waits for.
  const Model model = perceptron("gate_of_test");
  std::vector<std::vector<Part>> batches(3);
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

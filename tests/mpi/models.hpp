// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs to train on several ranks, their batches in parts, and ways to train them.
#pragma once

#include "programs/one_operator.hpp"
#include "support/random_batch.hpp"
#include <lod/mpi_programs.hpp>
#include <lod/ops.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lod_test {

/// A part of a batch: sentences with labels, and plain rows with targets. It may have none of them.
struct Part {
  lod::LoDTensor<std::int64_t> ids;
  lod::LoDTensor<std::int64_t> labels;
  lod::LoDTensor<float> x;
  lod::LoDTensor<float> y;
};
inline Part part_of(Engine& engine, std::int64_t sentences) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < sentences; ++i) lengths.push_back(random_number(engine, 0, 5));
  lod::LoDTensor<std::int64_t> labels({sentences, 1});
  for (std::int64_t& label : labels.values()) label = random_number(engine, 0, 1);
  return {random_ids(engine, lod::LoD::from_lengths({lengths}), 40), labels,
          real_numbers<float>(engine, {sentences, 3}), real_numbers<float>(engine, {sentences, 1})};
}
template <class T>
lod::LoDTensor<T> joined(const std::vector<Part>& parts, lod::LoDTensor<T> Part::*member) {
  std::vector<lod::LoDTensor<T>> all;
  for (const Part& part : parts) all.push_back(part.*member);
  return lod::concat(all);
}
inline Part joined(const std::vector<Part>& parts) {
  return {joined(parts, &Part::ids), joined(parts, &Part::labels), joined(parts, &Part::x), joined(parts, &Part::y)};
}

/// A program that computes a loss, its parameters with their shapes, and what it is fed of a part.
struct Model {
  lod::ProgramDesc program;
  std::map<std::string, std::vector<std::int64_t>> parameters;
  bool reads_sentences;

  lod::Feed feed(const Part& part) const {
    return reads_sentences ? lod::Feed{{"ids", part.ids}, {"label", part.labels}}
                           : lod::Feed{{"x", part.x}, {"y", part.y}};
  }
  std::vector<lod::Feed> feeds(const std::vector<Part>& parts) const {
    std::vector<lod::Feed> all;
    for (const Part& part : parts) all.push_back(feed(part));
    return all;
  }
};
inline Model model_of(std::vector<lod::OpDesc> ops, std::map<std::string, std::vector<std::int64_t>> parameters,
                      bool reads_sentences) {
  std::vector<std::string> names;
  for (const auto& one : parameters) names.push_back(one.first);
  Model model{program_of(std::move(ops), names), std::move(parameters), reads_sentences};
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
inline Model sentiment(std::int64_t words = 40) {
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
inline Model perceptron(const char* gate = "assign") {
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
inline std::vector<Training> trainings() {
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
inline Numbers numbers_of(const lod::AnyLoDTensor& x) { return numbers<float>(x); }

/// What training has come to.
struct Outcome {
  std::vector<Numbers> losses;
  std::map<std::string, Numbers> persistable;
};
inline void remember(const lod::ProgramDesc& program, const lod::Scope& scope, Outcome& outcome) {
  for (const lod::VarDesc& var : program.blocks[0].vars) {
    if (var.persistable.value())
      outcome.persistable[var.name] = numbers_of(scope.at(var.name).get<lod::AnyLoDTensor>());
  }
}
inline void fill_scope(const Model& model, const lod::ProgramDesc& startup, lod::Scope& scope) {
  Engine engine(5);
  lod::run(startup, scope);
  for (const auto& [name, dims] : model.parameters) {
    scope.var(name).get<lod::AnyLoDTensor>() = small_reals<float>(engine, dims);
  }
}
inline void check_same(const Outcome& found, const Outcome& expected) {
  CHECK(found.losses == expected.losses);
  CHECK(found.persistable == expected.persistable);
}
inline constexpr std::int64_t parts_in_batch = 8;
/// Two batches in eight parts of up to four sentences; the second batch has a part without any, at least.
inline std::vector<std::vector<Part>> batches_of_parts(Engine& engine) {
  std::vector<std::vector<Part>> batches(2);
  for (auto& parts : batches) {
    for (std::int64_t i = 0; i < parts_in_batch; ++i) parts.push_back(part_of(engine, random_number(engine, 0, 4)));
    parts[3] = part_of(engine, 2);
  }
  batches[1][5] = part_of(engine, 0);
  return batches;
}

/// One process with the same parts of batches, whose gradients are added up.
inline Outcome trained_in_parts(const Model& model, const Training& way,
                                const std::vector<std::vector<Part>>& batches) {
  const lod::mpi::Communicator alone(MPI_COMM_SELF);
  lod::ProgramDesc program = model.program, startup;
  lod::mpi::minimize(program, startup, "loss", way.optimizer, way.options);
  lod::Scope scope;
  fill_scope(model, startup, scope);
  Outcome outcome;
  lod::mpi::DataParallelProgram step(alone, program, scope, {"loss"}, {.fixed_tree = true});
  for (const auto& parts : batches) outcome.losses.push_back(numbers_of(step.run_parts(model.feeds(parts))[0]));
  remember(program, scope, outcome);
  return outcome;
}

/// What the operator `gate_of_test`, which passes its input on, and its gradient do before that.
struct Gate {
  std::function<void()> forward;
  std::function<void()> backward;
};
inline Gate gate;
/// Adds that operator.
inline void add_gate() {
  if (lod::operators().find("gate_of_test")) return;
  const auto pass = [](const char* from, const char* to, std::function<void()> Gate::*call_first) {
    return [=](const lod::OperatorArguments& op) -> lod::RunOperator<> {
      return [call_first, x = op.input(from), y = op.output(to)](lod::OperatorCall<>& call) {
        if (gate.*call_first) (gate.*call_first)();
        call.variable(y).get<lod::AnyLoDTensor>() = call.tensor(x);
      };
    };
  };
  lod::operators().add("gate_of_test",
                       {.prepare = pass("X", "Out", &Gate::forward), .gradient = lod::gradient<"Out@GRAD -> X@GRAD">});
  lod::operators().add("gate_of_test_grad", {.prepare = pass("Out@GRAD", "X@GRAD", &Gate::backward)});
}

}  // namespace lod_test

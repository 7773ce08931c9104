// SPDX-License-Identifier: Apache-2.0
// Programs on a GPU that is emulated: what the CPU computes, what waits, and what is refused.
#include "programs/one_operator.hpp"
#include "support/check_on_gpu.hpp"
#include <lod/program/device_values.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using lod::AnyLoDTensor;
using lod::CudaExecutor;
using lod_test::attr;
using lod_test::numbers;
using lod_test::op;
using lod_test::plain;
using lod_test::ragged;

namespace {

/// The parameters of a model, by shape.
struct Parameter {
  std::string name;
  std::vector<std::int64_t> shape;
};
/// A program with these parameters and a loss.
lod::ProgramDesc model(std::vector<lod::OpDesc> ops, const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& one : parameters) names.push_back(one.name);
  lod::ProgramDesc program = lod_test::program_of(std::move(ops), names);
  for (lod::VarDesc& var : program.blocks[0].vars) {
    if (var.name == "loss") var.type = lod::VarDesc::lod_tensor({}, {lod::DataType::FP32, {1}}).type;
    for (const Parameter& one : parameters) {
      if (var.name != one.name) continue;
      var.type = lod::VarDesc::lod_tensor({}, {lod::DataType::FP32, one.shape}).type;
      var.is_parameter = true;
    }
  }
  return program;
}
void initialise(lod::Scope& scope, const std::vector<Parameter>& parameters) {
  int seed = 0;
  for (const Parameter& one : parameters) {
    lod::LoDTensor<float> value{lod::Shape(one.shape)};
    for (float& number : value.values()) number = static_cast<float>(std::sin(++seed)) / 2;
    scope.var(one.name) = lod::Variable(AnyLoDTensor(std::move(value)));
  }
}

/// Which of three classes a sentence has: the sum of its words' rows, two layers, and the cross entropy.
const std::vector<Parameter> classifier_parameters = {{"table", {7, 4}}, {"w", {4, 5}}, {"b", {5}}, {"v", {5, 3}}};
lod::ProgramDesc classifier(bool is_sparse) {
  return model(
      {op("lookup_table", {{"W", {"table"}}, {"Ids", {"words"}}}, {{"Out", {"rows"}}}, {attr("is_sparse", is_sparse)}),
       op("sequence_pool", {{"X", {"rows"}}}, {{"Out", {"pooled"}}, {"MaxIndex", {"index"}}},
          {attr("pooltype", std::string("SUM"))}),
       op("mul", {{"X", {"pooled"}}, {"Y", {"w"}}}, {{"Out", {"product"}}}),
       op("elementwise_add", {{"X", {"product"}}, {"Y", {"b"}}}, {{"Out", {"sum"}}}, {attr("axis", 1)}),
       op("tanh", {{"X", {"sum"}}}, {{"Out", {"hidden"}}}),
       op("mul", {{"X", {"hidden"}}, {"Y", {"v"}}}, {{"Out", {"scores"}}}),
       op("softmax", {{"X", {"scores"}}}, {{"Out", {"probabilities"}}}),
       op("cross_entropy", {{"X", {"probabilities"}}, {"Label", {"label"}}}, {{"Y", {"costs"}}}),
       op("mean", {{"X", {"costs"}}}, {{"Out", {"loss"}}})},
      classifier_parameters);
}
lod::Feed sentences() {
  return {{"words", ragged<std::int64_t>({2, 0, 3}, {1}, {4, 0, 6, 2, 4})},
          {"label", plain<std::int64_t>({3, 1}, {2, 0, 1})}};
}

void train(const lod::Optimizer& optimizer, bool is_sparse) {
  lod::ProgramDesc program = classifier(is_sparse), startup;
  static_cast<void>(lod::minimize(program, startup, "loss", optimizer));
  const auto begin = [&](lod::Scope& scope) {
    initialise(scope, classifier_parameters);
    lod::run(startup, scope);
  };
  lod::Scope on_cpu, on_gpu;
  begin(on_cpu);
  begin(on_gpu);
  lod_test::CountingCudaResource resource;
  const CudaExecutor executor(&resource);
  {
    lod::PreparedProgram expected(lod::CpuExecutor(1), program, on_cpu, {"loss"});
    lod::PreparedProgram step(executor, program, on_gpu, {"loss"});
    const lod::Feed feed = sentences();
    for (int i = 0; i < 10; ++i) {
      CAPTURE(i);
      const std::int64_t allocations = resource.allocations;
      const auto before = lod_test::emulated_cuda::counters();
      const float loss = numbers<float>(step.run(feed)[0])[0];
      const auto made = lod_test::emulated_cuda::counters() - before;
      CHECK(loss == doctest::Approx(numbers<float>(expected.run(feed)[0])[0]).epsilon(1e-5));
      if (i < 2) continue;
      CHECK(resource.allocations == allocations);
      CHECK(made.allocations == 0);
      CHECK(made.synchronisations == 1);  // that of the loss
    }
  }
  CHECK_THROWS_AS(static_cast<void>(on_gpu.at("w").get<AnyLoDTensor>()), lod::ShapeMismatch);
  lod::move_to_cpu(executor, on_gpu);
  for (const Parameter& one : classifier_parameters) {
    const auto found = numbers<float>(on_gpu.at(one.name).get<AnyLoDTensor>());
    const auto other = numbers<float>(on_cpu.at(one.name).get<AnyLoDTensor>());
    REQUIRE(found.size() == other.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(other[i]).epsilon(1e-4));
  }
}

}  // namespace

TEST_CASE("PreparedProgram on a GPU: ten steps of training give the losses of the CPU, and wait for the loss alone") {
  for (const bool is_sparse : {false, true}) {
    CAPTURE(is_sparse);
    train(lod::SGD{.learning_rate = 0.1F}, is_sparse);
    train(lod::Momentum{.learning_rate = 0.1F}, is_sparse);
    train(lod::Adagrad{.learning_rate = 0.1F}, is_sparse);
    train(lod::Adam{.learning_rate = 0.01F}, is_sparse);
  }
}

TEST_CASE("PreparedProgram on a GPU: a recurrent layer gives what the CPU gives") {
  const std::vector<Parameter> parameters = {{"table", {7, 4}}, {"w", {4, 8}}, {"u", {2, 8}}, {"bias", {1, 14}}};
  const lod::ProgramDesc program =
      model({op("lookup_table_v2", {{"W", {"table"}}, {"Ids", {"words"}}}, {{"Out", {"rows"}}}),
             op("mul", {{"X", {"rows"}}, {"Y", {"w"}}}, {{"Out", {"x"}}}),
             op("lstm", {{"Input", {"x"}}, {"Weight", {"u"}}, {"Bias", {"bias"}}},
                {{"Hidden", {"hidden"}}, {"Cell", {"cell"}}, {"BatchGate", {"gates"}}}),
             op("sequence_pool", {{"X", {"hidden"}}}, {{"Out", {"y"}}, {"MaxIndex", {"index"}}},
                {attr("pooltype", std::string("MAX"))})},
            parameters);
  lod::Scope on_cpu, on_gpu;
  initialise(on_cpu, parameters);
  initialise(on_gpu, parameters);
  const CudaExecutor executor;
  lod::PreparedProgram expected(lod::CpuExecutor(1), program, on_cpu, {"hidden", "y", "index"});
  lod::PreparedProgram prepared(executor, program, on_gpu, {"hidden", "y", "index"});
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{1, 3, 0}, {}, {2}}) {
    std::vector<std::int64_t> words;
    for (const std::int64_t length : lengths) words.insert(words.end(), static_cast<std::size_t>(length), length);
    const lod::Feed feed = {{"words", ragged<std::int64_t>(lengths, {}, words)}};
    const auto& found = prepared.run(feed);
    const auto& other = expected.run(feed);
    for (std::size_t i = 0; i < 3; ++i) lod_test::check_close(found[i], other[i]);
  }
}

TEST_CASE("PreparedProgram on a GPU: what the CPU must see, such as a learning rate, is computed there") {
  // The rate grows by 1 in each step; sgd subtracts rate * g.
  const lod::ProgramDesc program = lod_test::program_of(
      {op("increment", {{"X", {"rate"}}}, {{"Out", {"rate"}}}, {attr("step", 1.0F)}),
       op("sgd", {{"Param", {"w"}}, {"Grad", {"g"}}, {"LearningRate", {"rate"}}}, {{"ParamOut", {"w"}}}),
       op("scale", {{"X", {"rate"}}}, {{"Out", {"twice"}}}, {attr("scale", 2.0F)})},
      {"w", "rate"});
  lod::Scope scope;
  scope.var("w").get<AnyLoDTensor>() = plain<float>({2}, {10, 20});
  scope.var("rate").get<AnyLoDTensor>() = plain<float>({1}, {0});
  const CudaExecutor executor;
  lod::PreparedProgram step(executor, program, scope, {"w", "twice"});
  const lod::Feed feed = {{"g", plain<float>({2}, {1, 2})}};
  step.run(feed);
  const auto& out = step.run(feed);
  CHECK(numbers<float>(out[0]) == lod_test::Floats{7, 14});
  CHECK(numbers<float>(out[1]) == lod_test::Floats{4});
  CHECK(numbers<float>(scope.at("rate").get<AnyLoDTensor>()) == lod_test::Floats{2});
  // What the user puts there is taken to where it is needed.
  scope.at("w") = lod::Variable(AnyLoDTensor(plain<float>({2}, {0, 0})));
  CHECK(numbers<float>(step.run(feed)[0]) == lod_test::Floats{-3, -6});
}

TEST_CASE(
    "PreparedProgram on a GPU: operators without kernels are refused, errors of kernels are thrown at the fetch") {
  const CudaExecutor executor;
  lod::Scope scope;
  const lod::ProgramDesc program =
      lod_test::program_of({op("relu", {{"X", {"x"}}}, {{"Out", {"y"}}}),
                            op("top_k", {{"X", {"y"}}}, {{"Out", {"z"}}, {"Indices", {"i"}}})});
  CHECK_THROWS_WITH_AS(lod::PreparedProgram(executor, program, scope),
                       "block 0, operator 1: operator 'top_k': it is there for the CPU, not for a CudaExecutor",
                       lod::InvalidProgram);
  CHECK(scope.children().empty());
  CHECK_THROWS_WITH_AS(
      lod::PreparedProgram(executor, lod_test::program_of({op("no_such", {}, {{"Out", {"y"}}})}), scope),
      doctest::Contains("no operators of the types 'no_such'"), lod::InvalidProgram);
  initialise(scope, {{"table", {7, 4}}});
  lod::PreparedProgram lookup(
      executor,
      lod_test::program_of({op("lookup_table_v2", {{"W", {"table"}}, {"Ids", {"words"}}}, {{"Out", {"y"}}})},
                           {"table"}),
      scope, {"y"});
  CHECK_THROWS_AS(lookup.run({{"words", plain<std::int64_t>({2}, {1, 7})}}), lod::OutOfRange);
  CHECK(lookup.run({{"words", plain<std::int64_t>({2}, {1, 6})}})[0].rows() == 2);
}

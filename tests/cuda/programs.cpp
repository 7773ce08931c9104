// SPDX-License-Identifier: Apache-2.0
// Programs on a GPU that is emulated: what the CPU computes, what waits, and what is refused.
#include "programs/one_operator.hpp"
#include "support/check_on_gpu.hpp"
#include "support/operator_text.hpp"
#include "support/run_on_thrust.hpp"
#include <lod/program/device_values.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
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
#ifdef LOD_TEST_EMULATED_GPU
      const auto before = lod_test::emulated_cuda::counters();
#endif
      const float loss = numbers<float>(step.run(feed)[0])[0];
#ifdef LOD_TEST_EMULATED_GPU
      const auto made = lod_test::emulated_cuda::counters() - before;
      if (i >= 2) {
        CHECK(made.allocations == 0);
        CHECK(made.synchronisations == 1);  // that of the loss
      }
#endif
      CHECK(loss == doctest::Approx(numbers<float>(expected.run(feed)[0])[0]).epsilon(1e-5));
      if (i >= 2) CHECK(resource.allocations == allocations);
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

// Every operator that runs on GPUs and is not of the form X -> Out, without attributes.
constexpr const char* operators_on_gpus = R"(
clip_grad X=x Out@GRAD=x2 -> X@GRAD=y min:f=0.3 max:f=0.8
cross_entropy X=x Label=label -> Y=y
elementwise_add X=x Y=b -> Out=y axis:i=1
elementwise_add X=x Y=x2 -> Out=y axis:i=-1
elementwise_div X=x Y=b -> Out=y axis:i=1
elementwise_div X=image Y=middle -> Out=y axis:i=1
elementwise_max X=x Y=b -> Out=y axis:i=1
elementwise_min X=x Y=x2 -> Out=y axis:i=-1
elementwise_mul X=image Y=middle -> Out=y axis:i=1
elementwise_sub X=x Y=x2 -> Out=y axis:i=-1
fc Input=x W=w Bias=b -> Out=y in_num_col_dims:i=1 activation_type:s=relu
fill_constant -> Out=y shape:L=2,3 value:f=1.5 dtype:i=5
gru Input=x12 H0=s Weight=w12 Bias=b12 -> Hidden=y BatchGate=n BatchResetHiddenPrev=k BatchHidden=m is_reverse:b=1
im2sequence X=pixels -> Out=y kernels:I=2,2 strides:I=1,1 paddings:I=0,1,0,1
lod_reset X=x -> Out=y target_lod:I=0,1,7
log_softmax X=image -> Out=y axis:i=1
log_softmax X=x -> Out=y axis:i=-1
lookup_table W=w Ids=label -> Out=y padding_idx:l=1
lookup_table_v2 W=w Ids=ids -> Out=y padding_idx:l=-1
lstm Input=x16 H0=s C0=s Weight=w16 Bias=b28 -> Hidden=y Cell=n BatchGate=k BatchCellPreAct=m use_peepholes:b=1
matmul X=s Y=w -> Out=y transpose_X:b=0 transpose_Y:b=1 alpha:f=2
matmul_v2 X=w Y=w12 -> Out=y trans_x:b=1 trans_y:b=0
mul X=x Y=w12 -> Out=y x_num_col_dims:i=1 y_num_col_dims:i=1
pow X=x -> Out=y factor:f=2
row_conv X=x Filter=s -> Out=y
scale X=x -> Out=y scale:f=2 bias:f=1 bias_after_scale:b=0
sequence_concat X=x X=x2 -> Out=y
sequence_conv X=x Filter=w12t -> Out=y contextLength:i=3 contextStart:i=-1 contextStride:i=1
sequence_enumerate X=label -> Out=y win_size:i=2 pad_value:i=0
sequence_expand X=s Y=x -> Out=y ref_level:i=-1
sequence_expand_as X=s Y=x -> Out=y
sequence_pad X=x PadValue=one -> Out=y Length=n padded_length:i=-1
sequence_pool X=x -> Out=y MaxIndex=n pooltype:s=SUM pad_value:f=0
sequence_pool X=x -> Out=y MaxIndex=n pooltype:s=AVERAGE pad_value:f=0.5
sequence_pool X=x -> Out=y MaxIndex=n pooltype:s=SQRT pad_value:f=0
sequence_pool X=x -> Out=y MaxIndex=n pooltype:s=MAX pad_value:f=0
sequence_pool X=x -> Out=y MaxIndex=n pooltype:s=FIRST pad_value:f=0
sequence_pool X=x -> Out=y MaxIndex=n pooltype:s=LAST pad_value:f=0
sequence_reshape X=x -> Out=y new_dim:i=2
sequence_reverse X=x -> Y=y
sequence_scatter X=s Ids=label Updates=x1 -> Out=y
sequence_softmax X=x1 -> Out=y
softmax X=image -> Out=y axis:i=1
softmax X=x -> Out=y axis:i=-1
softmax_with_cross_entropy Logits=x Label=label -> Softmax=n Loss=y soft_label:b=0 axis:i=-1
sum X=x X=x2 -> Out=y
adagrad Param=w Grad=z1 Moment=z2 LearningRate=one -> ParamOut=w MomentOut=z2 epsilon:f=0.5
adam Param=w Grad=z1 LearningRate=one Moment1=z2 Moment2=z3 Beta1Pow=one1 Beta2Pow=one2 -> ParamOut=w Moment1Out=z2 Moment2Out=z3 Beta1PowOut=one1 Beta2PowOut=one2
ftrl Param=w Grad=z1 SquaredAccumulator=z2 LinearAccumulator=z3 LearningRate=one -> ParamOut=w SquaredAccumOut=z2 LinearAccumOut=z3 l1:f=0.5 lr_power:f=-0.5
momentum Param=w Grad=z1 Velocity=z2 LearningRate=one -> ParamOut=w VelocityOut=z2 mu:f=0.5 use_nesterov:b=1
rmsprop Param=w Grad=z1 MeanSquare=z2 MeanGrad=z3 Moment=z4 LearningRate=one -> ParamOut=w MomentOut=z4 MeanSquareOut=z2 MeanGradOut=z3 centered:b=1
sgd Param=w Grad=z1 LearningRate=one -> ParamOut=w
)";
std::vector<lod::OpDesc> each_operator_on_gpus() {
  std::vector<lod::OpDesc> ops;
  std::set<std::string> types;
  std::istringstream lines(operators_on_gpus);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) types.insert(ops.emplace_back(lod_test::operator_of(line)).type);
  }
  for (const std::string& type : lod::operators<CudaExecutor>().types()) {
    if (!type.ends_with("_grad") && !types.contains(type)) ops.push_back(lod_test::operator_of(type + " X=x -> Out=y"));
  }
  return ops;
}

/// What the lines above name.
std::map<std::string, AnyLoDTensor> arguments_on_gpus() {
  const lod::LoD sequences = lod::LoD::from_lengths({{2, 0, 5}});
  std::map<std::string, AnyLoDTensor> all;
  int seed = 0;
  const auto add = [&](const std::string& name, const lod::LoD& lod, const lod::Shape& shape) {
    lod::LoDTensor<float> made = lod.levels() > 0 ? lod::LoDTensor<float>(lod, shape) : lod::LoDTensor<float>(shape);
    for (float& value : made.values()) value = 0.55F + 0.45F * static_cast<float>(std::sin(++seed));
    all.emplace(name, std::move(made));
  };
  for (const char* const name : {"x", "x2"}) add(name, sequences, {4});
  for (const std::int64_t size : {1, 12, 16}) add("x" + std::to_string(size), sequences, {size});
  for (const char* const name : {"w", "z1", "z2", "z3", "z4"}) add(name, {}, {4, 4});
  for (const char* const name : {"one", "one1", "one2"}) add(name, {}, {1});
  add("s", {}, {3, 4});
  add("b", {}, {4});
  add("b12", {}, {1, 12});
  add("b28", {}, {1, 28});
  add("w12", {}, {4, 12});
  add("w12t", {}, {12, 4});
  add("w16", {}, {4, 16});
  add("image", {}, {2, 3, 4});
  add("middle", {}, {3});
  add("pixels", {}, {2, 2, 4, 3});
  all.emplace("label", lod::LoDTensor<std::int64_t>::from_values(sequences, {1}, {0, 3, 1, 2, 2, 1, 0}));
  all.emplace("ids", plain<std::int64_t>({3}, {2, 0, 2}));
  return all;
}

TEST_CASE("PreparedProgram on a GPU: each operator there, and its gradient, gives what it gives on the CPU") {
  const std::map<std::string, AnyLoDTensor> arguments = arguments_on_gpus();
  const auto runs_there = [](const lod::OpDesc& op) {
    return lod::operators<CudaExecutor>().find(op.type).has_value();
  };
  const CudaExecutor executor;
  std::set<std::string> seen;
  for (const lod::OpDesc& one : each_operator_on_gpus()) {
    CAPTURE(one.type);
    lod::ProgramDesc program = lod_test::program_of({one});
    for (lod::VarDesc& var : program.blocks[0].vars) {
      const auto found = arguments.find(var.name);
      if (found == arguments.end()) continue;
      var.type.lod_tensor = lod_test::described(found->second, true);
      var.persistable = true;
      var.is_parameter = found->second.data_type() == lod::DataType::FP32;
    }
    std::vector<std::string> fetch;
    for (const auto& output : one.outputs) {
      for (const std::string& name : output.arguments) {
        if (name == "y" || arguments.contains(name)) fetch.push_back(name);
      }
    }
    lod::ProgramDesc trained = program;
    trained.blocks[0].vars.push_back(lod::VarDesc::lod_tensor("loss", {lod::DataType::FP32, {1}}));
    trained.blocks[0].ops.push_back(op("mean", {{"X", {"y"}}}, {{"Out", {"loss"}}}));
    if (fetch == std::vector<std::string>{"y"} && lod::operators().find(one.type)->gradient && !one.inputs.empty()) {
      const auto gradients = lod::append_backward(trained, "loss");
      if (std::ranges::all_of(trained.blocks[0].ops, runs_there)) {
        for (const auto& each : gradients) fetch.push_back(each.gradient);
        program = trained;
      }
    }
    for (const lod::OpDesc& each : program.blocks[0].ops) seen.insert(each.type);
    lod::Scope on_cpu, on_gpu;
    for (lod::Scope* const scope : {&on_cpu, &on_gpu}) {
      for (const lod::VarDesc& var : program.blocks[0].vars) {
        if (const auto found = arguments.find(var.name); found != arguments.end()) scope->var(var.name) = found->second;
      }
    }
    lod::PreparedProgram expected(lod::CpuExecutor(1), program, on_cpu, fetch);
    lod::PreparedProgram prepared(executor, program, on_gpu, fetch);
    for (int run = 0; run < 2; ++run) {
      const auto& found = prepared.run({});
      const auto& other = expected.run({});
      for (std::size_t i = 0; i < fetch.size(); ++i) {
        CAPTURE(fetch[i]);
        lod_test::check_close(found[i], other[i]);
      }
    }
  }
  for (const std::string& type : lod::operators<CudaExecutor>().types()) {
    CAPTURE(type);
    CHECK(seen.contains(type));
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

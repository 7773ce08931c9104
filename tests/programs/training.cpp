// SPDX-License-Identifier: Apache-2.0
// Gradients of operators, against differences. paddle_training_test.py compares training with PaddlePaddle itself.
#include "programs/operator_gradients.hpp"
#include "programs/other_libraries.hpp"
#include "support/count_allocations.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::Shape;
using lod_test::attr;
using lod_test::Attrs;
using lod_test::numbers;
using lod_test::op;
using lod_test::plain;
using lod_test::program_of;

namespace {

using Doubles = std::vector<double>;
using Inputs = std::vector<std::pair<std::string, std::vector<Shape>>>;

/// An operator on numbers between 0.2 and 2, of which every second one is negative unless they must be `positive`.
struct DenseSample {
  std::string type;
  Inputs inputs;
  std::string output = "Out";
  Attrs attrs = {};
  std::vector<std::string> hidden = {};                              ///< further outputs; see GradientSample
  std::vector<std::pair<std::string, AnyLoDTensor>> constants = {};  ///< inputs without a gradient
  bool positive = false;
};

lod::LoDTensor<double> drawn(const Shape& shape, lod_test::Engine& random, bool positive) {
  std::uniform_real_distribution<double> draw(0.2, 2);
  Doubles values(static_cast<std::size_t>(shape.elements()));
  double sign = 1;
  for (double& value : values) value = draw(random) * (sign = positive ? 1 : -sign);
  return plain<double>(shape, values);
}

Inputs pairs(const Shape& x, const Shape& y) { return {{"X", {x}}, {"Y", {y}}}; }

void check_gradient(const DenseSample& sample) {
  lod_test::Engine random(lod_test::first_seed());
  lod_test::GradientSample all{sample.type, {}, {sample.output}, sample.attrs, {}, sample.type != "cast"};
  for (const auto& [parameter, shapes] : sample.inputs) {
    auto& tensors = all.inputs.emplace_back(parameter, std::vector<AnyLoDTensor>()).second;
    for (const Shape& shape : shapes) tensors.push_back(drawn(shape, random, sample.positive));
  }
  for (const auto& [parameter, value] : sample.constants) {
    all.inputs.push_back({parameter, {value}});
    all.constants.insert(parameter);
  }
  all.outputs.insert(all.outputs.end(), sample.hidden.begin(), sample.hidden.end());
  lod_test::check_gradients(random, all);
}

}  // namespace

TEST_CASE("activations: gradients are those of differences") {
  std::istringstream types(
      "abs atan brelu ceil cos cosh elu erf exp expm1 floor gelu hard_shrink hard_sigmoid hard_swish leaky_relu "
      "logsigmoid mish reciprocal relu relu6 round selu sigmoid silu sin sinh soft_relu softplus softshrink softsign "
      "square stanh swish tan tanh tanh_shrink thresholded_relu");
  for (std::string type; types >> type;) check_gradient({type, {{"X", {Shape{3, 4}}}}});
  for (const char* const type : {"log", "log10", "log1p", "log2", "pow", "rsqrt", "sqrt"}) {
    check_gradient({type, {{"X", {Shape{3, 4}}}}, "Out", {attr("factor", 1.5f)}, {}, {}, true});
  }
  const Inputs x = {{"X", {Shape{3, 4}}}};
  check_gradient({"gelu", x, "Out", {attr("approximate", true)}});
  check_gradient({"clip", x, "Out", {attr("min", -0.5f), attr("max", 1.0f)}});
  check_gradient({"swish", x, "Out", {attr("beta", 0.7f)}});
}

TEST_CASE("products of matrices: gradients are those of differences") {
  lod_test::by_each_library(
      [] {
        check_gradient({"mul", pairs({2, 3, 2}, {6, 2})});
        check_gradient({"mul", pairs({2, 3, 2}, {2, 1, 3}), "Out", {attr("x_num_col_dims", 2)}});
        for (const bool x : {false, true}) {  // transposed
          for (const bool y : {false, true}) {
            const Shape left = x ? Shape{3, 2} : Shape{2, 3}, right = y ? Shape{4, 3} : Shape{3, 4};
            const Attrs attrs = {attr("trans_x", x), attr("trans_y", y)};
            check_gradient({"matmul",
                            pairs(Shape(2, left), right),
                            "Out",
                            {attr("transpose_X", x), attr("transpose_Y", y), attr("alpha", 0.5f)}});
            check_gradient({"matmul_v2", pairs(left, Shape(2, right)), "Out", attrs});
            check_gradient({"matmul_v2", pairs({3}, right), "Out", attrs});
            check_gradient({"matmul_v2", pairs(left, {3}), "Out", attrs});
          }
        }
        check_gradient({"bmm", pairs({2, 3, 2}, {2, 2, 3})});
      },
      lod_test::replace_by_blas);
}

TEST_CASE("operators on dense tensors: gradients are those of differences") {
  for (const char* const type : {"add", "sub", "mul", "div", "max", "min", "pow"}) {
    const std::string name = std::string("elementwise_") + type;
    const bool positive = name == "elementwise_pow";
    check_gradient({name, pairs({2, 3}, {2, 3}), "Out", {}, {}, {}, positive});
    check_gradient({name, pairs({2, 3}, {3}), "Out", {}, {}, {}, positive});
    check_gradient({name, pairs({2, 3, 2}, {3, 1}), "Out", {attr("axis", 1)}, {}, {}, positive});
  }
  check_gradient({"elementwise_mul", pairs({3, 3}, {3, 1})});
  check_gradient({"elementwise_sub", pairs({4}, {2, 3, 4})});
  const Inputs x = {{"X", {Shape{2, 3, 4}}}};
  check_gradient({"mean", x});
  check_gradient({"scale", x, "Out", {attr("scale", 2.0f), attr("bias", 1.0f)}});
  check_gradient({"assign", x});
  check_gradient({"cast", x, "Out", {attr("in_dtype", 6), attr("out_dtype", 6)}});
  check_gradient({"sum", {{"X", {Shape{2, 3}, Shape{2, 3}}}}});
  for (const char* const type : {"reduce_sum", "reduce_mean", "reduce_prod", "reduce_max", "reduce_min"}) {
    check_gradient({type, x, "Out", {attr("dim", std::vector<int>{0, -1})}});
    check_gradient({type, x, "Out", {attr("dim", std::vector<int>{1}), attr("keep_dim", true)}});
    check_gradient({type, x, "Out", {attr("reduce_all", true)}});
  }
  for (const int axis : {-1, 0, 1}) {
    for (const char* const type : {"softmax", "log_softmax"}) check_gradient({type, x, "Out", {attr("axis", axis)}});
    check_gradient({"concat", {{"X", {Shape{2, 3}, Shape{2, 3}}}}, "Out", {attr("axis", axis)}});
    check_gradient({"stack", {{"X", {Shape{2, 3}, Shape{2, 3}}}}, "Y", {attr("axis", axis)}});
  }
  check_gradient({"top_k", {{"X", {Shape{2, 5}}}}, "Out", {attr("k", 3)}, {"Indices"}});
  check_gradient({"split", x, "Out", {attr("axis", 1), attr("num", 1)}});
  check_gradient({"reshape2", x, "Out", {attr("shape", std::vector<int>{6, -1})}, {"XShape"}});
  check_gradient({"squeeze2", {{"X", {Shape{2, 1, 3}}}}, "Out", {attr("axes", std::vector<int>{1})}, {"XShape"}});
  check_gradient({"reshape", x, "Out", {attr("shape", std::vector<int>{6, -1})}});
  check_gradient({"transpose", x, "Out", {attr("axis", std::vector<int>{2, 0, 1})}});
  check_gradient({"transpose2", x, "Out", {attr("axis", std::vector<int>{1, -1, 0})}, {"XShape"}});
  check_gradient({"slice",
                  {{"Input", {Shape{4, 3}}}},
                  "Out",
                  {attr("axes", std::vector<int>{0, 1}), attr("starts", std::vector<int>{1, -2}),
                   attr("ends", std::vector<int>{3, -1}), attr("decrease_axis", std::vector<int>{1})}});
  check_gradient({"expand", {{"X", {Shape{2, 3}}}}, "Out", {attr("expand_times", std::vector<int>{2, 3})}});
  check_gradient({"tile", {{"X", {Shape{2, 3}}}}, "Out", {attr("repeat_times", std::vector<int>{2, 1, 3})}});
  check_gradient({"expand_v2", {{"X", {Shape{2, 1}}}}, "Out", {attr("shape", std::vector<int>{2, 2, 3})}});
  check_gradient({"expand_as_v2", {{"X", {Shape{2, 1}}}}, "Out", {attr("target_shape", std::vector<int>{2, 3})}});
  for (const char* const type : {"flip", "reverse"}) {
    check_gradient({type, x, "Out", {attr("axis", std::vector<int>{0, -1})}});
  }
  for (const int axis : {0, -1}) {
    check_gradient({"argsort", x, "Out", {attr("axis", axis), attr("descending", axis == 0)}, {"Indices"}});
    check_gradient({"cumsum", x, "Out", {attr("axis", axis), attr("exclusive", axis == 0), attr("reverse", true)}});
  }
  check_gradient({"cumsum", x, "Out", {attr("flatten", true)}});
  check_gradient({"maxout", {{"X", {Shape{2, 4, 3}}}}, "Out", {attr("groups", 2)}});
  for (const auto& [mode, count] : {std::pair("all", 1), std::pair("channel", 3), std::pair("element", 12)}) {
    check_gradient(
        {"prelu", {{"X", {Shape{2, 3, 4}}}, {"Alpha", {Shape{count}}}}, "Out", {attr("mode", std::string(mode))}});
  }
  check_gradient({"bilinear_tensor_product",
                  {{"X", {Shape{2, 3}}}, {"Y", {Shape{2, 4}}}, {"Weight", {Shape{2, 3, 4}}}, {"Bias", {Shape{1, 2}}}}});
  check_gradient({"strided_slice",
                  {{"Input", {Shape{4, 3}}}},
                  "Out",
                  {attr("axes", std::vector<int>{0, 1}), attr("starts", std::vector<int>{-1, 0}),
                   attr("ends", std::vector<int>{-9, 3}), attr("strides", std::vector<int>{-2, 2})}});
  const auto columns = plain<std::int64_t>({3}, {2, 0, 2});
  check_gradient({"index_select", x, "Out", {attr("dim", 1)}, {}, {{"Index", columns}}});
  check_gradient({"gather", x, "Out", {attr("axis", -1)}, {}, {{"Index", columns}}});
  const auto choice = plain<std::int32_t>({3, 1}, {1, 0, 1});
  check_gradient({"multiplex", {{"X", {Shape{3, 2}, Shape{3, 2}}}}, "Out", {}, {}, {{"Ids", choice}}});
  check_gradient({"add_position_encoding", {{"X", {Shape{2, 3, 4}}}}, "Out", {attr("alpha", 0.5f)}});
  check_gradient({"pad", {{"X", {Shape{2, 3}}}}, "Out", {attr("paddings", std::vector<int>{1, 0, 0, 2})}});
  check_gradient({"unstack", {{"X", {Shape{2, 1}}}}, "Y", {attr("axis", 1), attr("num", 1)}});
  check_gradient({"unbind", {{"X", {Shape{1, 2}}}}});
  check_gradient(
      {"gather_nd", {{"X", {Shape{3, 2, 2}}}}, "Out", {}, {}, {{"Index", plain<std::int64_t>({2, 2}, {2, 0, 2, 0})}}});
  lod::LoDTensor<bool> holds({2, 2});
  for (std::size_t i = 0; i < 4; ++i) holds.values()[i] = i % 3 == 0;
  check_gradient({"where",
                  {{"X", {Shape{2, 2}}}, {"Y", {Shape{2, 2}}}},
                  "Out",
                  {},
                  {},
                  {{"Condition", AnyLoDTensor(std::move(holds))}}});
  check_gradient({"smooth_l1_loss", pairs({2, 3}, {2, 3}), "Out", {attr("sigma", 2.0F)}, {"Diff"}});
  const auto weights = plain<double>({2, 2}, {1, 0, -2, 0.5});
  check_gradient({"smooth_l1_loss",
                  pairs({2, 2}, {2, 2}),
                  "Out",
                  {},
                  {"Diff"},
                  {{"InsideWeight", weights}, {"OutsideWeight", weights}}});
  check_gradient({"minus", pairs({2, 3}, {2, 3})});
  for (const std::int64_t rows : {3, 1}) {
    check_gradient({"squared_l2_distance", pairs({3, 2}, {rows, 2}), "Out", {}, {"sub_result"}});
  }
  check_gradient({"crop",
                  {{"X", {Shape{3, 4}}}},
                  "Out",
                  {attr("shape", std::vector<int>{-1, 2}), attr("offsets", std::vector<int>{0, 1})}});
  check_gradient(
      {"pad_constant_like", {{"Y", {Shape{2, 2}}}}, "Out", {}, {}, {{"X", plain<double>({2, 3}, Doubles(6))}}});
  check_gradient({"scatter_nd_add",
                  {{"X", {Shape{3, 2, 2}}}, {"Updates", {Shape{3, 2}}}},
                  "Out",
                  {},
                  {},
                  {{"Index", plain<std::int64_t>({3, 2}, {2, 0, 0, 1, 2, 0})}}});
  const auto places = plain<std::int64_t>({2}, {2, 0});
  check_gradient({"scatter", {{"X", {Shape{3, 2}}}, {"Updates", {Shape{2, 2}}}}, "Out", {}, {}, {{"Ids", places}}});
  check_gradient({"gather", {{"X", {Shape{4, 2}}}}, "Out", {}, {}, {{"Index", plain<std::int64_t>({3}, {2, 0, 2})}}});
}

TEST_CASE("layer_norm, batch_norm: gradients are those of differences") {
  const auto inputs = [](const Shape& x, const Shape& each) {
    return Inputs{{"X", {x}}, {"Scale", {each}}, {"Bias", {each}}};
  };
  check_gradient({"layer_norm", inputs({3, 2, 2}, {4}), "Y", {}, {"Mean", "Variance"}});
  check_gradient({"layer_norm", {{"X", {Shape{3, 2, 2}}}}, "Y", {attr("begin_norm_axis", 2)}, {"Mean", "Variance"}});
  const auto mean = plain<double>({2}, {0.5, -1}), variance = plain<double>({2}, {2, 0.5});
  for (const bool is_global : {false, true}) {
    for (const bool is_last : {false, true}) {
      const Shape shape = is_last ? Shape{3, 2, 2} : Shape{3, 2, 3};
      check_gradient(
          {"batch_norm",
           inputs(shape, {2}),
           "Y",
           {attr("use_global_stats", is_global), attr("data_layout", std::string(is_last ? "NHWC" : "NCHW"))},
           {"SavedMean", "SavedVariance", "MeanOut=Mean0", "VarianceOut=Variance0"},
           {{"Mean", mean}, {"Variance", variance}}});
    }
  }
}

TEST_CASE("losses: gradients are those of differences") {
  const auto labels = plain<std::int64_t>({3, 1}, {1, 0, 3});
  const auto soft = plain<double>({3, 4}, {0.5, 0.5, 0, 0, 0.25, 0.25, 0.25, 0.25, 0, 0, 1, 0});
  const Attrs is_soft = {attr("soft_label", true)};
  const Inputs x = {{"X", {Shape{3, 4}}}}, logits = {{"Logits", {Shape{3, 4}}}};
  check_gradient({"cross_entropy", x, "Y", {}, {}, {{"Label", labels}}, true});
  check_gradient({"cross_entropy", x, "Y", is_soft, {}, {{"Label", soft}}, true});
  for (const int ignored : {-100, 3}) {
    const Attrs attrs = {attr("ignore_index", ignored)};
    check_gradient({"cross_entropy2", x, "Y", attrs, {"MatchX", "XShape"}, {{"Label", labels}}, true});
    check_gradient({"softmax_with_cross_entropy", logits, "Loss", attrs, {"Softmax"}, {{"Label", labels}}});
  }
  check_gradient({"softmax_with_cross_entropy", logits, "Loss", is_soft, {"Softmax"}, {{"Label", soft}}});
  for (const std::int64_t rows : {3, 1}) {
    check_gradient({"cos_sim", {{"X", {Shape{3, 4}}}, {"Y", {Shape{rows, 4}}}}, "Out", {}, {"XNorm", "YNorm"}});
  }
  check_gradient({"hinge_loss", logits, "Loss", {}, {}, {{"Labels", soft}}});
  check_gradient(
      {"huber_loss", {{"X", {Shape{3, 4}}}, {"Y", {Shape{3, 4}}}}, "Out", {attr("delta", 0.7f)}, {"Residual"}});
  check_gradient(
      {"log_loss", {{"Predicted", {Shape{3, 4}}}}, "Loss", {attr("epsilon", 5.0f)}, {}, {{"Labels", soft}}, true});
  check_gradient({"margin_rank_loss",
                  {{"X1", {Shape{3, 4}}}, {"X2", {Shape{3, 4}}}},
                  "Out",
                  {attr("margin", 0.1f)},
                  {"Activated"},
                  {{"Label", soft}}});
  check_gradient({"modified_huber_loss", x, "Out", {}, {"IntermediateVal"}, {{"Y", soft}}});
  const auto teacher = plain<double>({3, 4}, {-2, -1, 0.5, 1.5, -2, -1, 0, 2, -2, -1, 1, 1.25});
  check_gradient({"teacher_student_sigmoid_loss", x, "Y", {}, {}, {{"Label", teacher}}});
  check_gradient({"bpr_loss", x, "Y", {}, {}, {{"Label", labels}}});
  check_gradient({"label_smooth", x, "Out", {attr("epsilon", 0.25f)}});
  for (const char* const reduction : {"none", "sum", "mean", "batchmean"}) {
    check_gradient({"kldiv_loss", x, "Loss", {attr("reduction", std::string(reduction))}, {}, {{"Target", soft}}});
  }
  for (const int axis : {0, -1}) check_gradient({"norm", x, "Out", {attr("axis", axis)}, {"Norm"}});
  const Inputs nodes = {{"X", {Shape{3, 2}}}, {"W", {Shape{4, 2}}}, {"Bias", {Shape{4, 1}}}};
  check_gradient({"hierarchical_sigmoid", nodes, "Out", {attr("num_classes", 5)}, {"PreOut"}, {{"Label", labels}}});
  check_gradient({"hierarchical_sigmoid",
                  nodes,
                  "Out",
                  {attr("num_classes", 5)},
                  {"PreOut"},
                  {{"Label", labels},
                   {"PathTable", plain<std::int64_t>({3, 2}, {0, 2, 3, -1, 0, 1})},
                   {"PathCode", plain<std::int64_t>({3, 2}, {1, 0, 1, -1, 0, 1})}}});
  check_gradient({"rank_loss", {{"Left", {Shape{3, 4}}}, {"Right", {Shape{3, 4}}}}, "Out", {}, {}, {{"Label", soft}}});
  for (const bool normalize : {false, true}) {
    const Attrs attrs = {attr("normalize", normalize), attr("ignore_index", 0)};
    check_gradient({"sigmoid_cross_entropy_with_logits", x, "Out", attrs, {}, {{"Label", soft}}});
  }
}

namespace {
/// Says what a variable is.
void describe(lod::ProgramDesc& program, const char* name, lod::DataType type, const std::vector<std::int64_t>& dims) {
  for (lod::VarDesc& var : program.blocks[0].vars) {
    if (var.name == name) var.type = lod::VarDesc::lod_tensor({}, {type, dims}).type;
  }
}

/// loss = mean(tanh(x w) w2 + x w), so that x w and w have several uses; w is a parameter, w2 one that is constant.
lod::ProgramDesc small_network() {
  lod::ProgramDesc program = program_of(
      {op("mul", {{"X", {"x"}}, {"Y", {"w"}}}, {{"Out", {"h"}}}), op("tanh", {{"X", {"h"}}}, {{"Out", {"t"}}}),
       op("mul", {{"X", {"t"}}, {"Y", {"w2"}}}, {{"Out", {"u"}}}),
       op("mul", {{"X", {"u"}}, {"Y", {"w"}}}, {{"Out", {"v"}}}),
       op("elementwise_add", {{"X", {"v"}}, {"Y", {"h"}}}, {{"Out", {"s"}}}),
       op("mean", {{"X", {"s"}}}, {{"Out", {"loss"}}})},
      {"w", "w2"});
  for (const std::size_t i : {0U, 1U}) program.blocks[0].vars[i].is_parameter = true;
  program.blocks[0].vars[1].stop_gradient = true;
  describe(program, "loss", lod::DataType::FP64, {1});
  return program;
}

}  // namespace

TEST_CASE("append_backward: several uses are summed, constants have no gradient") {
  lod::ProgramDesc program = small_network();
  CHECK(lod::append_backward(program, "loss") == std::vector<lod::ParameterGradient>{{"w", "w@GRAD"}});
  const lod::BlockDesc& block = program.block(0);
  std::vector<std::string> types;
  for (std::size_t i = 6; i < block.ops.size(); ++i) types.push_back(block.ops[i].type);
  CHECK(types == std::vector<std::string>{"fill_constant", "mean_grad", "elementwise_add_grad", "mul_grad", "mul_grad",
                                          "tanh_grad", "sum", "mul_grad", "sum"});
  const auto names = [&](std::size_t i, const char* parameter) {
    const auto found = block.ops[i].output(parameter);
    return std::vector<std::string>(found.begin(), found.end());
  };
  CHECK(names(8, "Y@GRAD") == std::vector<std::string>{"h@GRAD@RENAME@block0@0"});
  CHECK((names(10, "Y@GRAD").empty() && block.ops[14].input("X").size() == 2));
  CHECK(names(14, "Out") == std::vector<std::string>{"w@GRAD"});
  CHECK(block.ops[5].attr<std::int32_t>("op_role") == lod::OpRole::LOSS);
  CHECK(block.ops[14].attr<std::int32_t>("op_role") == lod::OpRole::BACKWARD);
  CHECK(block.ops[14].attr<std::vector<std::string>>("op_role_var") == std::vector<std::string>{"w", "w@GRAD"});

  lod::Scope scope;
  auto& w = scope.var("w").get<AnyLoDTensor>();
  scope.var("w2").get<AnyLoDTensor>() = plain<double>({2, 2}, {1, 2, 3, -4});
  const auto loss_at = [&](double number) {
    w = plain<double>({2, 2}, {0.1, -0.2, number, 0.4});
    return lod::run(program, scope,
                    {.feed = {{"x", plain<double>({2, 2}, {1, 2, -1, 3})}}, .fetch = {"loss", "w@GRAD"}});
  };
  const double difference =
      (numbers<double>(loss_at(0.3 + 1e-6)[0])[0] - numbers<double>(loss_at(0.3 - 1e-6)[0])[0]) / 2e-6;
  CHECK(numbers<double>(loss_at(0.3)[1])[2] == doctest::Approx(difference).epsilon(1e-6));
}

TEST_CASE("append_backward: programs of PaddlePaddle 1, which mark no parameters and constants") {
  lod::ProgramDesc program;
  program.blocks.resize(1);
  for (const char* const name : {"ids", "labels", "e", "y", "saved_mean", "saved_variance", "costs", "pre", "loss"}) {
    program.blocks[0].vars.push_back(lod_test::tensor_var(name));
  }
  for (const char* const name : {"table", "scale", "shift", "mean", "variance", "w"}) {
    program.blocks[0].vars.push_back(lod_test::tensor_var(name));
    program.blocks[0].vars.back().persistable = true;
  }
  program.blocks[0].ops = {
      op("lookup_table", {{"W", {"table"}}, {"Ids", {"ids"}}}, {{"Out", {"e"}}}, {attr("is_sparse", true)}),
      op("batch_norm",
         {{"X", {"e"}}, {"Scale", {"scale"}}, {"Bias", {"shift"}}, {"Mean", {"mean"}}, {"Variance", {"variance"}}},
         {{"Y", {"y"}},
          {"MeanOut", {"mean"}},
          {"VarianceOut", {"variance"}},
          {"SavedMean", {"saved_mean"}},
          {"SavedVariance", {"saved_variance"}}}),
      op("hierarchical_sigmoid", {{"X", {"y"}}, {"W", {"w"}}, {"Label", {"labels"}}},
         {{"Out", {"costs"}}, {"PreOut", {"pre"}}, {"W_Out", {"w"}}}, {attr("num_classes", 3)}),
      op("mean", {{"X", {"costs"}}}, {{"Out", {"loss"}}})};
  const auto pairs = lod::append_backward(program, "loss", {.parameters = {"table", "scale", "w"}});
  CHECK(pairs.size() == 3);
  lod::Scope scope;
  scope.var("table") = AnyLoDTensor(plain<float>({4, 2}, {1, 2, -1, 0, 3, 1, 0.5f, -2}));
  scope.var("w") = AnyLoDTensor(plain<float>({2, 2}, {1, -1, 0.5f, 2}));
  for (const char* const name : {"scale", "shift", "mean", "variance"}) {
    scope.var(name) = AnyLoDTensor(plain<float>({2}, {1, 1}));
  }
  const auto ids = AnyLoDTensor(plain<std::int64_t>({3, 1}, {2, 0, 1}));
  lod::run(program, scope, {.feed = {{"ids", ids}, {"labels", ids}}, .fetch = {"loss"}});
  CHECK(program.find_var("table@GRAD")->type.type == lod::VarType::SELECTED_ROWS);
}

TEST_CASE("append_backward: refused programs stay as they were") {
  lod::ProgramDesc program = small_network();
  const auto refused = [&](const char* loss, const char* text, const lod::BackwardOptions& options = {}) {
    const lod::ProgramDesc before = program;
    CHECK_THROWS_WITH_AS(lod::append_backward(program, loss, options), doctest::Contains(text), lod::InvalidProgram);
    CHECK(program == before);
  };
  refused("cost", "no such variable");
  refused("x", "depends on no parameter");
  refused("loss", "no such variable", {.parameters = {"w3"}});
  refused("loss", "depends on no parameter", {.constants = {"s"}});
  program.blocks[0].ops.insert(program.blocks[0].ops.begin() + 2, op("relu", {{"X", {"t"}}}, {{"Out", {"t"}}}));
  refused("loss", "operator 2 'relu': its gradient needs a value of variable 't' that an operator has overwritten");
  program = small_network();
  lod::append_backward(program, "loss");
  refused("loss", "its gradient is there already");
}

TEST_CASE("append_backward: gradients of outputs that nothing uses are zeros") {
  lod::ProgramDesc program =
      program_of({op("split", {{"X", {"w"}}}, {{"Out", {"a", "b"}}}, {attr("axis", 1), attr("num", 2)}),
                  op("mean", {{"X", {"b"}}}, {{"Out", {"loss"}}})},
                 {"w"});
  describe(program, "loss", lod::DataType::FP64, {1});
  lod::append_backward(program, "loss", {.parameters = {"w"}});
  lod::Scope scope;
  scope.var("w").get<AnyLoDTensor>() = plain<double>({1, 4}, {1, 2, 3, 4});
  CHECK(numbers<double>(lod::run(program, scope, {.fetch = {"w@GRAD"}})[0]) == Doubles{0, 0, 0.5, 0.5});
}

namespace {
/// A regression: loss = mean((x w + b - y)^2), where rows of a table are added to x if it is `sparse`.
lod::ProgramDesc regression(bool sparse) {
  std::vector<lod::OpDesc> ops = {op("mul", {{"X", {sparse ? "s" : "x"}}, {"Y", {"w"}}}, {{"Out", {"h"}}}),
                                  op("elementwise_add", {{"X", {"h"}}, {"Y", {"b"}}}, {{"Out", {"z"}}}),
                                  op("elementwise_sub", {{"X", {"z"}}, {"Y", {"y"}}}, {{"Out", {"d"}}}),
                                  op("square", {{"X", {"d"}}}, {{"Out", {"q"}}}),
                                  op("mean", {{"X", {"q"}}}, {{"Out", {"loss"}}})};
  if (sparse) {
    const lod::OpDesc rows[] = {
        op("lookup_table_v2", {{"W", {"table"}}, {"Ids", {"ids"}}}, {{"Out", {"r"}}}, {attr("is_sparse", true)}),
        op("elementwise_add", {{"X", {"x"}}, {"Y", {"r"}}}, {{"Out", {"s"}}})};
    ops.insert(ops.begin(), std::begin(rows), std::end(rows));
  }
  lod::ProgramDesc program = program_of(ops, {"b", "table", "w"});
  for (lod::VarDesc& var : program.blocks[0].vars) var.is_parameter = var.persistable.value();
  describe(program, "w", lod::DataType::FP32, {3, 2});
  describe(program, "b", lod::DataType::FP32, {2});
  describe(program, "table", lod::DataType::FP32, {6, 3});
  describe(program, "loss", lod::DataType::FP32, {1});
  return program;
}

void train(const lod::Optimizer& optimizer, const lod::MinimizeOptions& options, bool sparse) {
  lod::ProgramDesc program = regression(sparse), startup;
  CHECK(lod::minimize(program, startup, "loss", optimizer, options).size() == (sparse ? 3 : 2));
  const auto initialise = [&](lod::Scope& scope) {
    scope.var("w").get<AnyLoDTensor>() = plain<float>({3, 2}, {0.5F, -1, 1, 0.25F, -0.5F, 1});
    scope.var("b").get<AnyLoDTensor>() = plain<float>({2}, {1, -1});
    scope.var("table").get<AnyLoDTensor>() = lod::LoDTensor<float>({6, 3});
    lod::run(startup, scope);
  };
  lod::Scope scope;
  initialise(scope);
  const lod::Feed batch = {{"x", plain<float>({4, 3}, {1, 2, 3, -1, 0, 1, 2, 2, -2, 0, 1, 1})},
                           {"y", plain<float>({4, 2}, {1, 0, 2, -1, 0, 1, -1, 1})},
                           {"ids", plain<std::int64_t>({4}, {4, 1, 4, 0})}};
  lod::PreparedProgram step(lod::default_executor<lod::Cpu>(), program, scope, {"loss"});
  lod::Feed given = batch;
  if (!sparse) given.erase("ids");
  const float before = numbers<float>(step.run(given)[0])[0];
#ifdef LOD_TEST_THRUST
  lod::Scope other;
  initialise(other);
  const lod::RunOptions once{.feed = given, .fetch = {"loss"}};
  CHECK(numbers<float>(lod_test::run_on_thrust(program, other, once)[0])[0] == doctest::Approx(before));
  for (int i = 0; i < 3; ++i) {
    lod_test::check_close(lod_test::run_on_thrust(program, other, once)[0], step.run(given)[0]);
  }
#else
  for (int i = 0; i < 3; ++i) step.run(given);
#endif
  const std::int64_t allocations = lod_test::allocations;
  step.run(given);
  CHECK((lod_test::allocations == allocations || !lod_test::counts_allocations));
  for (int i = 0; i < 15; ++i) step.run(given);
  CHECK(numbers<float>(step.run(given)[0])[0] < 0.95F * before);
  if (sparse) CHECK(numbers<float>(scope.var("table").get<AnyLoDTensor>())[15] == 0);  // row 5 is never looked up
}

}  // namespace

TEST_CASE("minimize: a loss becomes smaller, and steps allocate nothing") {
  for (const bool sparse : {false, true}) {
    CAPTURE(sparse);
    train(lod::SGD{.learning_rate = 0.05F}, {}, sparse);
    train(lod::Momentum{.learning_rate = 0.02F, .use_nesterov = true}, {.weight_decay = lod::L2Decay{0.01F}}, sparse);
    train(lod::Adagrad{.learning_rate = 0.2F}, {.grad_clip = lod::ClipGradByNorm{1}}, sparse);
    train(lod::RMSProp{.learning_rate = 0.02F, .momentum = 0.5F}, {}, sparse);
    train(lod::RMSProp{.learning_rate = 0.02F, .centered = true}, {.grad_clip = lod::ClipGradByValue{1}}, sparse);
    train(lod::Adam{.learning_rate = 0.1F}, {.grad_clip = lod::ClipGradByGlobalNorm{1}}, sparse);
    train(lod::Adam{.learning_rate = 0.1F, .lazy_mode = true}, {.weight_decay = lod::L2Decay{0.001F}}, sparse);
    train(lod::Ftrl{.learning_rate = 0.2F}, {.weight_decay = lod::L1Decay{0.001F}}, sparse);
  }
  for (const lod::Optimizer& dense : std::vector<lod::Optimizer>{
           lod::DecayedAdagrad{.learning_rate = 0.05F}, lod::Adadelta{.learning_rate = 20}, lod::Adamax{0.05F},
           lod::Lamb{0.05F}, lod::LarsMomentum{.learning_rate = 0.1F, .lars_coeff = 0.5F}}) {
    CAPTURE(dense.index());
    train(dense, {}, false);
    lod::ProgramDesc program = regression(true), startup;
    CHECK_THROWS_WITH_AS(static_cast<void>(lod::minimize(program, startup, "loss", dense)),
                         doctest::Contains("a row-sparse gradient, expected a dense one"), lod::InvalidProgram);
    CHECK(program == regression(true));
  }
}

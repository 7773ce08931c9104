// SPDX-License-Identifier: Apache-2.0
// What is worked out of programs: before they run the shapes of their variables, and what some of them need; while they
// run what each operator takes. That each
// operator gives what its rule says is checked where operators are tested (one_operator.hpp).
#include "programs/one_operator.hpp"
#include "support/decimal_comma.hpp"
#include "support/operator_samples.hpp"
#include <lod/program/trace.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

using lod::DataType;
using lod::infer_shapes;
using lod::InvalidProgram;
using lod::LoDTensorDesc;
using lod::ProgramDesc;
using lod::prune;
using lod::VarDesc;
using lod::VarType;
using lod_test::attr;
using lod_test::op;
using lod_test::program_of;
using Dims = std::vector<std::int64_t>;

namespace {

void describe(ProgramDesc& program, const std::string& name, const Dims& dims, int levels = 0,
              DataType type = DataType::FP32, std::int32_t block = 0) {
  for (VarDesc& var : program.block(block).vars) {
    if (var.name == name) var.type.lod_tensor = {{type, dims}, levels};
  }
}
/// "FP32 {-1, 2} 1"; "?" where nothing is known.
std::string known(const ProgramDesc& program, const std::string& name, std::int32_t block = 0) {
  const VarType& type = program.find_var(name, block)->type;
  const auto words = [&](const lod::TensorDesc& tensor, int levels) {
    return std::string(to_string(tensor.data_type)) + " " + lod::infer::to_string(tensor.dims) +
           (levels > 0 ? " " + std::to_string(levels) : "");
  };
  if (type.lod_tensor) return words(type.lod_tensor->tensor, type.lod_tensor->lod_level);
  if (type.selected_rows) return "SELECTED_ROWS " + words(*type.selected_rows, 0);
  if (type.tensor_array) return "LOD_TENSOR_ARRAY " + words(type.tensor_array->tensor, type.tensor_array->lod_level);
  return type.type == VarType::LOD_TENSOR ? "?" : to_string(type.type);
}
std::string refusal(ProgramDesc program) {
  const ProgramDesc before = program;
  std::string words = "nothing";
  try {
    infer_shapes(program);
  } catch (const InvalidProgram& error) {
    words = error.what();
    CHECK(program == before);
  }
  return words;
}

/// A text classifier: word ids, an embedding, a convolution, a pool and a softmax.
ProgramDesc classifier() {
  ProgramDesc program =
      program_of({op("lookup_table", {{"W", {"table"}}, {"Ids", {"words"}}}, {{"Out", {"rows"}}}),
                  op("sequence_conv", {{"X", {"rows"}}, {"Filter", {"filter"}}}, {{"Out", {"windows"}}},
                     {attr("contextLength", 3), attr("contextStart", -1)}),
                  op("sequence_pool", {{"X", {"windows"}}}, {{"Out", {"pooled"}}, {"MaxIndex", {"index"}}},
                     {attr("pooltype", std::string("MAX"))}),
                  op("mul", {{"X", {"pooled"}}, {"Y", {"w"}}}, {{"Out", {"scores"}}}),
                  op("softmax", {{"X", {"scores"}}}, {{"Out", {"classes"}}}),
                  op("cross_entropy", {{"X", {"classes"}}, {"Label", {"label"}}}, {{"Y", {"losses"}}}),
                  op("mean", {{"X", {"losses"}}}, {{"Out", {"loss"}}})},
                 {"table", "filter", "w"});
  describe(program, "table", {100, 8});
  describe(program, "filter", {24, 5});
  describe(program, "w", {5, 2});
  describe(program, "words", {-1, 1}, 1, DataType::INT64);
  describe(program, "label", {-1, 1}, 0, DataType::INT64);
  return program;
}

/// A loop whose body, block 1, doubles `x` into an array, and reads the array again.
ProgramDesc loop() {
  ProgramDesc program = program_of(
      {op("fill_constant", {}, {{"Out", {"i"}}},
          {attr("shape", Dims{1}), attr("dtype", static_cast<int>(DataType::INT64))}),
       op("while", {{"X", {"x", "i"}}, {"Condition", {"goes_on"}}}, {{"Out", {"array"}}, {"StepScopes", {"scopes"}}}),
       op("read_from_array", {{"X", {"array"}}, {"I", {"i"}}}, {{"Out", {"last"}}})});
  describe(program, "x", {-1, 4}, 1);
  for (VarDesc& var : program.blocks[0].vars) {
    if (var.name == "array") var.type = {.type = VarType::LOD_TENSOR_ARRAY};
    if (var.name == "scopes") var.type = {.type = VarType::STEP_SCOPES};
  }
  lod::BlockDesc& body = program.blocks.emplace_back();
  body.idx = 1;
  body.parent_idx = 0;
  body.vars = {lod_test::tensor_var("double")};
  body.ops = {op("scale", {{"X", {"x"}}}, {{"Out", {"double"}}}),
              op("write_to_array", {{"X", {"double"}}, {"I", {"i"}}}, {{"Out", {"array"}}})};
  program.blocks[0].ops[1].attrs = {{.name = "sub_block", .type = lod::AttrType::BLOCK, .block_idx = 1}};
  return program;
}

}  // namespace

TEST_CASE("infer_shapes describes what each operator gives, from parameters and feeds") {
  ProgramDesc program = classifier();
  infer_shapes(program);
  CHECK(known(program, "rows") == "FP32 {-1, 8} 1");
  CHECK(known(program, "windows") == "FP32 {-1, 5} 1");
  CHECK(known(program, "pooled") == "FP32 {-1, 5}");
  CHECK(known(program, "index") == "INT32 {-1, 5}");
  CHECK(known(program, "classes") == "FP32 {-1, 2}");
  CHECK(known(program, "losses") == "FP32 {-1, 1}");
  CHECK(known(program, "loss") == "FP32 {}");
  const ProgramDesc once = program;
  infer_shapes(program);
  CHECK(program == once);
}

TEST_CASE("infer_shapes goes through inner blocks, at the place of their owner") {
  ProgramDesc program = loop();
  infer_shapes(program);
  CHECK(known(program, "i") == "INT64 {1}");
  CHECK(known(program, "double", 1) == "FP32 {-1, 4} 1");
  CHECK(known(program, "array") == "LOD_TENSOR_ARRAY FP32 {-1, 4} 1");
  CHECK(known(program, "last") == "FP32 {-1, 4} 1");
}

TEST_CASE("infer_shapes describes gradients as what they are gradients of, and updates as what they update") {
  ProgramDesc program = classifier();
  auto& block = program.blocks[0];
  for (const char* const name : {"table@GRAD", "w@GRAD", "pooled@GRAD@RENAME@block0@1", "sparse", "both", "new_w"}) {
    block.vars.push_back(lod_test::tensor_var(name));
  }
  for (const auto& made :
       {op("mul_grad", {{"X", {"pooled"}}, {"Y", {"w"}}, {"Out@GRAD", {"scores@GRAD"}}},
           {{"X@GRAD", {"pooled@GRAD@RENAME@block0@1"}}, {"Y@GRAD", {"w@GRAD"}}}),
        op("lookup_table_grad", {{"W", {"table"}}, {"Ids", {"words"}}, {"Out@GRAD", {"rows@GRAD"}}},
           {{"W@GRAD", {"table@GRAD"}}}, {attr("is_sparse", true)}),
        op("sum", {{"X", {"table@GRAD", "table@GRAD"}}}, {{"Out", {"sparse"}}}),
        op("sum", {{"X", {"table@GRAD", "table"}}}, {{"Out", {"both"}}}),
        op("sgd", {{"Param", {"w"}}, {"Grad", {"w@GRAD"}}, {"LearningRate", {"rate"}}}, {{"ParamOut", {"new_w"}}})}) {
    block.ops.push_back(made);
  }
  infer_shapes(program);
  CHECK(known(program, "pooled@GRAD@RENAME@block0@1") == "FP32 {-1, 5}");
  CHECK(known(program, "w@GRAD") == "FP32 {5, 2}");
  CHECK(known(program, "table@GRAD") == "SELECTED_ROWS FP32 {100, 8}");
  CHECK(known(program, "sparse") == "SELECTED_ROWS FP32 {100, 8}");
  CHECK(known(program, "both") == "FP32 {100, 8}");
  CHECK(known(program, "new_w") == "FP32 {5, 2}");
}

TEST_CASE("infer_shapes refuses operators that contradict, naming the place, and changes nothing") {
  ProgramDesc program = classifier();
  describe(program, "w", {6, 2});
  CHECK(refusal(program) ==
        "block 0, operator 3 'mul' (X: 'pooled', Y: 'w'; Out: 'scores'): shapes {-1, 5} with 1 dimensions of rows and "
        "{6, 2} with 1, expected as many columns of the first as rows of the second");
  program = classifier();
  describe(program, "words", {-1, 1}, 0, DataType::INT64);
  CHECK(refusal(program) ==
        "block 0, operator 1 'sequence_conv' (X: 'rows', Filter: 'filter'; Out: 'windows'): sequence_conv: the tensor "
        "has no level, expected at least one");
  program = classifier();
  program.blocks[0].ops[3].outputs[0].arguments = {"filter"};
  CHECK(refusal(program) ==
        "block 0, operator 3 'mul' (X: 'pooled', Y: 'w'; Out: 'filter'): variable 'filter' would be FP32 of shape "
        "{-1, 2}, expected FP32 of shape {24, 5}, since it is persistable");
  program = classifier();
  program.blocks[0].ops[3].inputs.pop_back();
  CHECK(refusal(program) == "block 0, operator 3 'mul' (X: 'pooled'; Out: 'scores'): input 'Y' has no argument 0");
  program = loop();
  program.blocks[1].ops[0] = op("concat", {{"X", {"x", "i"}}}, {{"Out", {"double"}}}, {attr("axis", 1)});
  CHECK(refusal(program) ==
        "block 1, operator 0 'concat' (X: 'x', X: 'i'; Out: 'double'): input 'X': elements of INT64, expected FP32");
}

TEST_CASE("infer_shapes leaves as described what it cannot know") {
  ProgramDesc program = classifier();
  for (VarDesc& var : program.blocks[0].vars) {
    if (var.name == "words") var.type.lod_tensor.reset();
  }
  describe(program, "pooled", {-1, 5});
  program.blocks[0].ops.push_back(op("no such type", {{"X", {"loss"}}}, {{"Out", {"rows"}}}));
  program.blocks[0].ops.push_back(op("scale", {{"X", {"loss"}}}, {{"Out", {"in the scope"}}}));
  infer_shapes(program);
  CHECK(known(program, "rows") == "?");
  CHECK(known(program, "scores") == "FP32 {-1, 2}");
  CHECK(program.find_var("in the scope") == nullptr);
}

TEST_CASE("infer_shapes takes the rules of the user's operators") {
  const auto prepare = [](const lod::OperatorArguments&) { return [](lod::OperatorCall<>&) {}; };
  lod::operators().add("shapes_test_pairs", {.prepare = prepare, .infer = [](lod::InferShapeContext& call) {
                                               LoDTensorDesc x = call.input("X");
                                               x.tensor.dims.push_back(call.attr("number", 2));
                                               call.set_output("Out", x);
                                               call.set_output("Missing", x);
                                               call.set_output("Table", VarType::LOD_RANK_TABLE);
                                             }});
  lod::operators().add("shapes_test_without", {.prepare = prepare});
  ProgramDesc program = program_of({op("shapes_test_pairs", {{"X", {"x"}}}, {{"Out", {"y"}}, {"Table", {"table"}}}),
                                    op("shapes_test_without", {{"X", {"y"}}}, {{"Out", {"z"}}})});
  describe(program, "x", {-1, 3}, 2);
  infer_shapes(program);
  CHECK(known(program, "y") == "FP32 {-1, 3, 2} 2");
  CHECK(known(program, "table") == "LOD_RANK_TABLE");
  CHECK(known(program, "z") == "?");
}

TEST_CASE("infer_shapes has a rule for each operator of the library") {
  for (const auto& one : lod::operators_of_programs::built_in<lod::CpuExecutor>()) {
    INFO(one.type);
    CHECK((one.type.find("_grad") != one.type.npos || lod::operators_of_programs::inference_of(one.type)));
  }
}

namespace {

/// A variable described at random: as a tensor of any or no dimensions, or as something else.
VarDesc described_at_random(const std::string& name, std::minstd_rand& random) {
  static const std::vector<Dims> shapes = {{},
                                           {},
                                           {-1},
                                           {0},
                                           {1},
                                           {3},
                                           {-1, 1},
                                           {-1, 4},
                                           {4, 4},
                                           {0, 0},
                                           {-1, -1, -1},
                                           {2, 3, 4},
                                           {2, 2, 4, 3},
                                           {-1, -1, -1, -1, -1, -1, -1},
                                           {1, 1, 1, 1, 1, 1, 1, 1, 1},
                                           {std::int64_t{1} << 40, std::int64_t{1} << 40}};
  static constexpr VarType::Type kinds[] = {VarType::LOD_TENSOR,     VarType::LOD_TENSOR_ARRAY, VarType::SELECTED_ROWS,
                                            VarType::LOD_RANK_TABLE, VarType::READER,           VarType::RAW};
  const auto of = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  if (of(8) == 0) return VarDesc::of_type(name, kinds[of(std::size(kinds))]);
  const DataType type = of(3) > 0 ? DataType::FP32 : DataType::INT64;
  const Dims& dims = shapes[of(shapes.size())];
  if (of(16) == 0) return VarDesc::selected_rows(name, {type, dims});
  return VarDesc::lod_tensor(name, {type, dims}, static_cast<std::int32_t>(of(3)));
}

}  // namespace

TEST_CASE("infer_shapes gives dimensions or refuses, whatever is described, and whatever is missing") {
  std::minstd_rand random(7);
  const auto drop_one = [&](auto& list) {
    if (!list.empty()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(random() % list.size()));
  };
  for (const lod::OpDesc& sample : lod_test::sample_operators()) {
    INFO(sample.type);
    for (int trial = 0; trial < 40; ++trial) {
      lod::OpDesc op = sample;
      // All of it in some trials; in others without a parameter, an argument or an attribute.
      if (trial % 4 == 1) drop_one(op.inputs);
      if (trial % 4 == 2) drop_one(op.attrs);
      if (trial % 8 == 3 && !op.inputs.empty()) op.inputs[random() % op.inputs.size()].arguments.clear();
      if (trial % 8 == 7) drop_one(op.outputs);
      ProgramDesc program = program_of({op});
      lod_test::add_block(program, {});
      for (const auto& parameter : op.inputs) {
        for (const std::string& name : parameter.arguments) {
          for (VarDesc& var : program.blocks[0].vars) {
            if (var.name == name) var = described_at_random(name, random);
            if (var.name == name && random() % 4 == 0) var.persistable = true;
          }
        }
      }
      if (refusal(program) != "nothing") continue;
      infer_shapes(program);
      for (const VarDesc& var : program.blocks[0].vars) {
        if (!var.type.lod_tensor) continue;
        for (const std::int64_t dim : var.type.lod_tensor->tensor.dims) CHECK(dim >= -1);
      }
    }
  }
}

TEST_CASE("infer_shapes of images") {
  ProgramDesc program =
      program_of({op("conv2d", {{"Input", {"images"}}, {"Filter", {"filter"}}}, {{"Output", {"found"}}},
                     {attr("strides", Dims{2, 2}), attr("paddings", Dims{1, 1}), attr("dilations", Dims{1, 1})}),
                  op("pool2d", {{"X", {"found"}}}, {{"Out", {"small"}}},
                     {attr("ksize", Dims{2, 2}), attr("strides", Dims{2, 2}), attr("ceil_mode", true)})});
  describe(program, "images", {-1, 3, 20, 30});
  describe(program, "filter", {6, 3, 3, 3});
  infer_shapes(program);
  CHECK(known(program, "found") == "FP32 {-1, 6, 10, 15}");
  CHECK(known(program, "small") == "FP32 {-1, 6, 5, 8}");
  program.blocks[0].ops[1].attrs[0] = attr("ksize", Dims{11, 2});
  CHECK(refusal(program) == "block 0, operator 1 'pool2d' (X: 'found'; Out: 'small'): a window of 11 on a side of 10");
}

namespace {

std::string types(const lod::BlockDesc& block) {
  std::string all;
  for (const auto& one : block.ops) all += one.type + " ";
  return all;
}
std::string names(const lod::BlockDesc& block) {
  std::string all;
  for (const auto& one : block.vars) all += one.name + " ";
  return all;
}

}  // namespace

TEST_CASE("prune keeps what targets need, and numbers what enters and leaves anew") {
  ProgramDesc program = classifier();
  auto& ops = program.blocks[0].ops;
  for (const auto& [name, column] : {std::pair("label", 0), std::pair("words", 1)}) {
    ops.insert(ops.begin(), op("feed", {{"X", {"feed"}}}, {{"Out", {name}}}, {attr("col", column)}));
  }
  for (const auto& [name, column] : {std::pair("loss", 0), std::pair("classes", 1), std::pair("pooled", 2)}) {
    ops.push_back(op("fetch", {{"X", {name}}}, {{"Out", {"fetch"}}}, {attr("col", column)}));
  }
  ops.push_back(op("sgd", {{"Param", {"w"}}, {"Grad", {"w@GRAD"}}}, {{"ParamOut", {"w"}}}));
  const ProgramDesc part = prune(program, {"classes", "pooled"});
  const lod::BlockDesc& block = part.block(0);
  CHECK(types(block) == "feed lookup_table sequence_conv sequence_pool mul softmax fetch fetch ");
  CHECK(names(block) == "table filter w words rows windows pooled index scores classes ");
  CHECK(block.ops[0].output("Out")[0] == "words");
  CHECK(block.ops[0].attr<std::int32_t>("col") == 0);
  CHECK(block.ops[6].attr<std::int32_t>("col") == 0);
  CHECK(block.ops[7].attr<std::int32_t>("col") == 1);
  CHECK(prune(part, {"classes", "pooled"}) == part);
  CHECK(types(prune(program, {"w"}).block(0)) == "sgd ");
  CHECK(types(prune(program, {"words"}).block(0)) == "feed ");
  CHECK(names(prune(program, {"filter"}).block(0)) == "filter ");
  CHECK_THROWS_WITH_AS(prune(program, {"classes", "nothing"}),
                       "prune: target 'nothing', expected a variable of block 0, or one that is written there",
                       InvalidProgram);
}

TEST_CASE("prune keeps values that are written over only if they are read, and all that makes an array grow") {
  const auto scale = [](const char* x, const char* y) { return op("scale", {{"X", {x}}}, {{"Out", {y}}}); };
  ProgramDesc program = program_of({scale("a", "x"), scale("b", "x"), scale("x", "x"), scale("x", "y"), scale("c", "y"),
                                    op("write_to_array", {{"X", {"y"}}, {"I", {"i"}}}, {{"Out", {"array"}}}),
                                    op("write_to_array", {{"X", {"b"}}, {"I", {"i"}}}, {{"Out", {"array"}}})});
  for (VarDesc& var : program.blocks[0].vars) {
    if (var.name == "array") var.type = {.type = VarType::LOD_TENSOR_ARRAY};
  }
  CHECK(names(prune(program, {"y"}).block(0)) == "y c ");
  CHECK(names(prune(program, {"x"}).block(0)) == "x b ");
  CHECK(types(prune(program, {"array"}).block(0)) == "scale write_to_array write_to_array ");
}

TEST_CASE("prune keeps the blocks of loops, with what they use, and what may be there if they never run") {
  ProgramDesc program = loop();
  program.blocks[1].vars.push_back(lod_test::tensor_var("unused"));
  lod::BlockDesc& other = program.blocks.emplace_back(program.blocks[1]);
  other.idx = 2;
  auto& ops = program.blocks[0].ops;
  ops.insert(ops.begin() + 1, ops[1]);  // of two loops, the second owns block 2
  ops[2].attrs[0].block_idx = 2;
  ops[2].outputs[0].arguments = {"other array"};
  program.blocks[2].ops[1].outputs[0].arguments = {"other array"};
  CHECK(prune(program, {"last"}).blocks.size() == 2);
  const ProgramDesc part = prune(program, {"other array"});
  CHECK(types(part.block(0)) == "fill_constant while ");
  CHECK(types(part.block(1)) == "scale write_to_array ");
  CHECK(names(part.block(1)) == "double ");
  CHECK(part.block(1).ops[1].output("Out")[0] == "other array");
  CHECK(part.block(0).ops[1].attr<std::int32_t>("sub_block") == 1);
}

TEST_CASE("Trace notes time and bytes of each operator, those of inner blocks inside of their owners") {
  ProgramDesc program = loop();
  auto& root = program.blocks[0];
  root.ops.erase(root.ops.begin() + 2);
  root.ops.insert(root.ops.begin() + 1,
                  op("less_than", {{"X", {"i"}}, {"Y", {"two \"\x01\""}}}, {{"Out", {"goes_on"}}}));
  root.vars.push_back(lod_test::tensor_var("two \"\x01\""));
  program.blocks[1].ops.push_back(op("increment", {{"X", {"i"}}}, {{"Out", {"i"}}}));
  program.blocks[1].ops.push_back(root.ops[1]);
  const lod::Feed feed = {{"x", lod_test::ragged<float>({1, 2}, {4}, std::vector<float>(12))},
                          {"two \"\x01\"", lod_test::plain<std::int64_t>({1}, {2})}};
  lod::Scope scope;
  lod::Trace trace;
  lod::PreparedProgram prepared(lod::CpuExecutor(1), program, scope, {"i"});
  prepared.run(feed);
  CHECK(trace.events().empty());
  prepared.run(feed, &trace);
  REQUIRE(trace.operators().size() == 7);
  REQUIRE(trace.events().size() == 3 + 2 * 4);
  CHECK(trace.operators()[0].type == "fill_constant");
  CHECK(trace.operators()[0].place == "block 0, operator 0 'fill_constant' (Out: 'i')");
  CHECK(trace.operators()[6].place == "block 0, operator 2 'while'");
  CHECK(trace.events()[2].bytes == 2 * 48);  // scale of 12 numbers
  CHECK(trace.events()[10].duration >= trace.events()[2].duration + trace.events()[6].duration);
  std::chrono::nanoseconds all{};
  for (const auto& sum : lod::detail::sums_of(trace)) {
    CHECK(sum.runs == (sum.op < 2 || sum.op == 6 ? 1 : 2));
    CHECK(sum.time.count() >= 0);
    all += sum.time;
  }
  CHECK(all == trace.events()[0].duration + trace.events()[1].duration + trace.events()[10].duration);
  const std::string table = trace.table(), json = trace.json();
  CHECK(table.find(" 192  block 1, operator 0 'scale' (X: 'x'; Out: 'double')\n") != table.npos);
  CHECK(table.find("100.0%       11 ") != table.npos);
  CHECK(json.find("\"name\":\"while\",\"args\":{\"operator\":\"block 0, operator 2 'while'\",\"bytes\":") != json.npos);
  CHECK(json.find("Y: 'two \\\"\\u0001\\\"'") != json.npos);
  const lod_test::DecimalComma locale;
  CHECK(trace.table() == table);
  CHECK(trace.json() == json);
}

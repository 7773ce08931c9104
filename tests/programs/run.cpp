// SPDX-License-Identifier: Apache-2.0
// The interpreter: what enters and leaves a program, where its variables are, what is refused, and what a failed run
// leaves.
#include "programs/one_operator.hpp"
#include "support/count_allocations.hpp"
#include "support/counting_resource.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::InvalidProgram;
using lod::LoDTensor;
using lod::ProgramDesc;
using lod::Scope;
using lod::ShapeMismatch;
using lod_test::attr;
using lod_test::Floats;
using lod_test::numbers;
using lod_test::op;
using lod_test::plain;
using lod_test::program_of;
using lod_test::ragged;
using lod_test::tensor_var;

namespace {

/// y = 2 x + 1, z = 3 y.
ProgramDesc two_steps() {
  return program_of({op("scale", {{"X", {"x"}}}, {{"Out", {"y"}}}, {attr("scale", 2.0f), attr("bias", 1.0f)}),
                     op("scale", {{"X", {"y"}}}, {{"Out", {"z"}}}, {attr("scale", 3.0f)})});
}
/// z = x w + b, with a name for what is fed and what is fetched.
ProgramDesc linear_layer() {
  ProgramDesc program = program_of({op("mul", {{"X", {"x"}}, {"Y", {"w"}}}, {{"Out", {"y"}}}),
                                    op("elementwise_add", {{"X", {"y"}}, {"Y", {"b"}}}, {{"Out", {"z"}}})},
                                   {"w", "b"});
  auto& block = program.blocks[0];
  block.vars.push_back({.name = "feed", .type = {.type = lod::VarType::FEED_MINIBATCH}});
  block.vars.push_back({.name = "fetch", .type = {.type = lod::VarType::FETCH_LIST}});
  for (std::size_t i = block.vars.size() - 2; i < block.vars.size(); ++i) block.vars[i].persistable = true;
  block.ops.insert(block.ops.begin(), op("feed", {{"X", {"feed"}}}, {{"Out", {"x"}}}, {attr("col", 0)}));
  block.ops.push_back(op("fetch", {{"X", {"z"}}}, {{"Out", {"fetch"}}}, {attr("col", 1)}));
  block.ops.push_back(op("fetch", {{"X", {"y"}}}, {{"Out", {"fetch"}}}, {attr("col", 0)}));
  return program;
}
void set(Scope& scope, const std::string& name, AnyLoDTensor value) {
  scope.var(name).get<AnyLoDTensor>() = std::move(value);
}
Scope& with_parameters(Scope& scope) {
  set(scope, "w", plain<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  set(scope, "b", plain<float>({3}, {10, 20, 30}));
  return scope;
}

/// The two directions of a recurrent layer, on the same input, side by side.
ProgramDesc both_directions() {
  const auto projection = [](const std::string& name) {
    return op("mul", {{"X", {"x"}}, {"Y", {"w" + name}}}, {{"Out", {"gates" + name}}});
  };
  const auto layer = [](const std::string& name, bool is_reverse) {
    return op("gru", {{"Input", {"gates" + name}}, {"Weight", {"v" + name}}}, {{"Hidden", {"h" + name}}},
              {attr("is_reverse", is_reverse)});
  };
  return program_of({projection("0"), layer("0", false), projection("1"), layer("1", true),
                     op("concat", {{"X", {"h0", "h1"}}}, {{"Out", {"y"}}}, {attr("axis", 1)})},
                    {"w0", "w1", "v0", "v1"});
}

/// The book's stacked LSTM for sentiment, for inference, in an eighth of its sizes: embeddings of 16, gates of 64.
ProgramDesc stacked_lstm(Scope& scope) {
  std::vector<std::string> parameters;
  std::vector<lod::OpDesc> ops;
  const auto parameter = [&](std::int64_t rows, std::int64_t columns) {
    const std::string name = "p" + std::to_string(parameters.size());
    parameters.push_back(name);
    Floats values;
    for (std::int64_t i = 0; i < rows * columns; ++i) values.push_back(static_cast<float>(i * 37 % 19) / 40 - 0.2f);
    scope.var(name).get<AnyLoDTensor>() = plain<float>({rows, columns}, std::move(values));
    return name;
  };
  const auto add = [&](const std::string& type, const lod_test::Arguments& inputs, const std::string& output,
                       std::vector<std::string> more = {}, lod_test::Attrs attrs = {}) {
    std::string name = "t" + std::to_string(ops.size());
    lod_test::Arguments outputs = {{output, {name}}};
    for (const std::string& other : more) outputs.push_back({other, {name + other}});
    ops.push_back(op(type, inputs, outputs, std::move(attrs)));
    return name;
  };
  const auto mul = [&](const std::string& x, std::int64_t size) {
    return add("mul", {{"X", {x}}, {"Y", {parameter(size, 64)}}}, "Out");
  };
  const auto layer = [&](std::string x, bool is_reverse) {
    x = add("elementwise_add", {{"X", {x}}, {"Y", {parameter(1, 64)}}}, "Out");
    return std::pair(x, add("lstm", {{"Input", {x}}, {"Weight", {parameter(16, 64)}}, {"Bias", {parameter(1, 64)}}},
                            "Hidden", {"Cell", "BatchGate", "BatchCellPreAct"},
                            {attr("is_reverse", is_reverse), attr("use_peepholes", false)}));
  };
  const std::string x = add("lookup_table", {{"W", {parameter(9, 16)}}, {"Ids", {"words"}}}, "Out");
  auto [fc, lstm] = layer(mul(x, 16), false);
  for (const bool is_reverse : {true, false}) {
    const std::string a = mul(fc, 64), b = mul(lstm, 16);
    std::tie(fc, lstm) = layer(add("sum", {{"X", {a, b}}}, "Out"), is_reverse);
  }
  for (std::string* const last : {&fc, &lstm}) {
    *last = add("sequence_pool", {{"X", {*last}}}, "Out", {"MaxIndex"}, {attr("pooltype", "MAX")});
  }
  ops.push_back(op("concat", {{"X", {fc, lstm}}}, {{"Out", {"y"}}}, {attr("axis", 1)}));
  return program_of(ops, parameters);
}
lod::Feed words_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), 0L)));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 5 % 9);
  return {{"words", ragged<std::int64_t>(lengths, {1}, std::move(ids))}};
}

}  // namespace

TEST_CASE("run: variables are fed and fetched by name") {
  Scope scope;
  const auto out = lod::run(two_steps(), scope, {.feed = {{"x", plain<float>({3}, {0, 1, -1})}}, .fetch = {"z", "y"}});
  REQUIRE(out.size() == 2);
  CHECK(numbers<float>(out[0]) == Floats{3, 9, -3});
  CHECK(numbers<float>(out[1]) == Floats{1, 3, -1});
  CHECK(scope.local_names().empty());
  CHECK(scope.children().empty());
}

TEST_CASE("run: a program's own feed and fetch operators name what enters and leaves, in the order of their columns") {
  Scope scope;
  with_parameters(scope);
  const auto x = ragged<float>({1, 0, 1}, {2}, {1, 0, 1, 1});
  const auto out = lod::run(linear_layer(), scope, {.feed = {{"x", x}}});
  REQUIRE(out.size() == 2);
  CHECK(numbers<float>(out[0]) == Floats{1, 2, 3, 5, 7, 9});
  CHECK(numbers<float>(out[1]) == Floats{11, 22, 33, 15, 27, 39});
  CHECK(out[1].lod() == x.lod());
  // What was asked for replaces that.
  const auto y = lod::run(lod::CpuExecutor(1), linear_layer(), scope, {.feed = {{"x", x}}, .fetch = {"y"}});
  REQUIRE(y.size() == 1);
  CHECK(numbers<float>(y[0]) == numbers<float>(out[0]));
}

TEST_CASE("run: a batch without rows goes through") {
  Scope scope;
  with_parameters(scope);
  for (const auto& lengths : {std::vector<std::int64_t>{}, std::vector<std::int64_t>{0, 0}}) {
    const auto out = lod::run(linear_layer(), scope, {.feed = {{"x", ragged<float>(lengths, {2}, {})}}});
    CHECK(out[1].shape() == lod::Shape{0, 3});
    CHECK(out[1].lod() == lod::LoD::from_lengths({lengths}));
  }
}

TEST_CASE("run: persistable variables are in the outermost scope, the others go with the run") {
  Scope outer;
  Scope& inner = with_parameters(outer).new_scope();
  const ProgramDesc program = program_of({op("scale", {{"X", {"x"}}}, {{"Out", {"kept"}}}, {attr("scale", 2.0f)}),
                                          op("scale", {{"X", {"x"}}}, {{"Out", {"gone"}}}, {attr("scale", 2.0f)})},
                                         {"kept"});
  lod::run(program, inner, {.feed = {{"x", plain<float>({2}, {1, 2})}}, .fetch = {"gone"}});
  CHECK(numbers<float>(outer.at("kept").get<AnyLoDTensor>()) == Floats{2, 4});
  CHECK(inner.local_names().empty());
  CHECK(inner.find("gone") == nullptr);
  CHECK(inner.children().empty());
}

TEST_CASE("run: what was fed stays as it was, even if an operator writes to its variable") {
  Scope scope;
  AnyLoDTensor x = plain<float>({2}, {1, 2});
  const ProgramDesc program = program_of({op("scale", {{"X", {"x"}}}, {{"Out", {"x"}}}, {attr("scale", 2.0f)})});
  for (int run = 0; run < 2; ++run) {
    const auto out = lod::run(program, scope, {.feed = {{"x", x}}, .fetch = {"x"}});
    CHECK(numbers<float>(out[0]) == Floats{2, 4});
    CHECK(numbers<float>(x) == Floats{1, 2});
  }
  // A variable that operators write again and again.
  lod::PreparedProgram twice(lod::CpuExecutor(1),
                             program_of({op("scale", {{"X", {"x"}}}, {{"Out", {"y"}}}, {attr("scale", 2.0f)}),
                                         op("scale", {{"X", {"y"}}}, {{"Out", {"y"}}}, {attr("bias", 1.0f)})}),
                             scope, {"y"});
  for (int run = 0; run < 3; ++run) CHECK(numbers<float>(twice.run({{"x", x}})[0]) == Floats{3, 5});
}

TEST_CASE("PreparedProgram: a second run of the same shapes allocates nothing") {
  Scope scope;
  with_parameters(scope);
  lod::PreparedProgram prepared(lod::CpuExecutor(1), linear_layer(), scope);
  const lod::Feed feed = {{"x", AnyLoDTensor(ragged<float>({2, 1}, {2}, {1, 0, 1, 1, 0, 1}))}};
  const lod::Feed other = {{"x", AnyLoDTensor(ragged<float>({2, 1}, {2}, {2, 0, 2, 2, 0, 2}))}};
  CHECK(numbers<float>(prepared.run(feed)[1]) == Floats{11, 22, 33, 15, 27, 39, 14, 25, 36});
  const void* const before = prepared.run(other)[1].bytes().data();
  const std::int64_t so_far = lod_test::allocations;
  const auto& out = prepared.run(feed);
  if (lod_test::counts_allocations) CHECK(lod_test::allocations == so_far);
  CHECK(out[1].bytes().data() == before);
  CHECK(numbers<float>(out[1]) == Floats{11, 22, 33, 15, 27, 39, 14, 25, 36});
}

TEST_CASE(
    "PreparedProgram: the two directions of a layer run on two threads, to the same bits, and errors are the same") {
  Floats wave;
  for (int i = 0; i < 24; ++i) wave.push_back(static_cast<float>(i * 37 % 19) / 10 - 1);
  const auto some = [&](std::size_t count) {
    return Floats(wave.begin(), wave.begin() + static_cast<std::ptrdiff_t>(count));
  };
  Scope scope;
  set(scope, "w0", plain<float>({3, 6}, some(18)));
  set(scope, "w1", plain<float>({3, 6}, some(18)));
  set(scope, "v0", plain<float>({2, 6}, some(12)));
  set(scope, "v1", plain<float>({2, 6}, some(12)));
  const lod::Feed feed = {{"x", ragged<float>({3, 0, 1, 4}, {3}, some(24))}};
  lod::PreparedProgram alone(lod::CpuExecutor(1), both_directions(), scope, {"y"});
  for (const int threads : {2, 4}) {
    lod::PreparedProgram shared(lod::CpuExecutor(threads), both_directions(), scope, {"y"});
    for (int run = 0; run < 4; ++run) {
      const std::int64_t before = lod_test::allocations;
      const auto& y = shared.run(feed)[0];
      if (run > 1 && lod_test::counts_allocations) CHECK(lod_test::allocations == before);
      CHECK(numbers<float>(y) == numbers<float>(alone.run(feed)[0]));
    }
  }
  lod::PreparedProgram shared(lod::CpuExecutor(2), both_directions(), scope, {"y"});
  for (const std::string wrong : {"v1", "v0"}) {  // the first of both is reported
    set(scope, wrong, plain<float>({2, 5}, some(10)));
    const std::string place = wrong == "v0" ? "operator 1 'gru'" : "operator 3 'gru'";
    CHECK_THROWS_WITH_AS(shared.run(feed), doctest::Contains(place.c_str()), ShapeMismatch);
  }
}

TEST_CASE("PreparedProgram: temporaries take turns in the same memory, less than two thirds of what they have alone") {
  Scope scope;
  const ProgramDesc program = stacked_lstm(scope);
  const std::vector<std::vector<std::int64_t>> many_lengths = {{90, 0, 70, 140}, {9, 0, 7, 14}, {3}, {0, 0}, {},
                                                               {80, 90}};
  std::vector<Floats> results[2];
  std::size_t most[2] = {};
  for (const bool keep : {false, true}) {
    lod_test::CountingResource memory;
    AnyLoDTensor copy;
    {
      lod::PreparedProgram prepared(lod::CpuExecutor(1, &memory), program, scope, {"y"}, {}, keep);
      std::int64_t before = -1;
      for (const auto& lengths : many_lengths) {
        for (int run = 0; run < 3; ++run) {
          const lod::Feed feed = words_of(lengths);
          before = lod_test::allocations;
          const auto& out = prepared.run(feed);
          if (run > 0 && lod_test::counts_allocations) CHECK(lod_test::allocations == before);
          if (run == 0) results[keep].push_back(numbers<float>(out[0]));
        }
        if (most[keep] == 0) most[keep] = memory.most_bytes;
      }
      copy = prepared.run(words_of(many_lengths.back()))[0];
    }
    CHECK(numbers<float>(copy) == results[keep].back());
    copy = AnyLoDTensor();
    CHECK(memory.live == 0);
  }
  CHECK(results[0] == results[1]);
  MESSAGE(most[0], " bytes at a time, of ", most[1], " if all values are kept");
  CHECK(10 * most[0] <= 6 * most[1]);
  // So a limit suffices that is too low for all of them.
  const auto limit = static_cast<std::int64_t>((most[0] + most[1]) / 2);
  lod::RunOptions options = {.feed = words_of(many_lengths[0]), .fetch = {"y"}, .limits = {.bytes = limit}};
  CHECK(numbers<float>(lod::run(lod::CpuExecutor(1), program, scope, options)[0]) == results[0][0]);
  options.keep_values = true;
  CHECK_THROWS_AS(lod::run(lod::CpuExecutor(1), program, scope, options), lod::LimitExceeded);
}

TEST_CASE("PreparedProgram: values are there after a run if they are kept, and what an operator owns a block for") {
  Scope scope;
  for (const bool keep : {false, true}) {
    lod::PreparedProgram prepared(lod::CpuExecutor(1), two_steps(), scope, {"z"}, {}, keep);
    prepared.run({{"x", plain<float>({2}, {0, 1})}});
    CHECK(scope.children().front()->at("y").get<AnyLoDTensor>().rows() == (keep ? 2 : 0));
  }
  // A branch reads y again.
  ProgramDesc program = two_steps();
  program.blocks[0].vars.push_back(tensor_var("c"));
  program.blocks[0].vars.push_back({.name = "scopes", .type = {.type = lod::VarType::STEP_SCOPES}});
  program.blocks.push_back({.idx = 1, .parent_idx = 0});
  program.blocks[1].ops.push_back(op("scale", {{"X", {"y"}}}, {{"Out", {"z"}}}, {attr("scale", 10.0f)}));
  lod::OpDesc::Attr inner{.name = "sub_block", .type = lod::AttrType::BLOCK};
  inner.block_idx = 1;
  program.blocks[0].ops.push_back(op("conditional_block", {{"Cond", {"c"}}, {"Input", {"y"}}},
                                     {{"Out", {"z"}}, {"Scope", {"scopes"}}},
                                     {attr("is_scalar_condition", true), inner}));
  lod::PreparedProgram prepared(lod::CpuExecutor(1), program, scope, {"z"});
  LoDTensor<bool> yes({1});
  yes.values()[0] = true;
  for (int run = 0; run < 3; ++run) {
    CHECK(numbers<float>(prepared.run({{"x", plain<float>({2}, {0, 1})}, {"c", AnyLoDTensor(yes)}})[0]) ==
          Floats{10, 30});
  }
}

TEST_CASE("PreparedProgram: after a run that failed, temporaries take turns again") {
  Scope scope;
  with_parameters(scope);
  ProgramDesc program = linear_layer();
  program.blocks[0].ops.pop_back();  // y is a temporary
  lod::PreparedProgram prepared(lod::CpuExecutor(1), program, scope);
  const lod::Feed feed = {{"x", plain<float>({1, 2}, {1, 0})}};
  for (int run = 0; run < 3; ++run) {
    CHECK(numbers<float>(prepared.run(feed)[0]) == Floats{11, 22, 33});
    set(scope, "b", plain<float>({2}, {10, 20}));
    CHECK_THROWS_WITH_AS(prepared.run(feed), doctest::Contains("operator 2 'elementwise_add'"), ShapeMismatch);
    set(scope, "b", plain<float>({3}, {10, 20, 30}));
  }
}

TEST_CASE("PreparedProgram: copies of what was fetched keep their values") {
  Scope scope;
  lod::PreparedProgram prepared(lod::CpuExecutor(1), two_steps(), scope, {"z"});
  const AnyLoDTensor first = prepared.run({{"x", plain<float>({1}, {0})}})[0];
  const AnyLoDTensor second = prepared.run({{"x", plain<float>({1}, {1})}})[0];
  CHECK(numbers<float>(first) == Floats{3});
  CHECK(numbers<float>(second) == Floats{9});
}

TEST_CASE("PreparedProgram: its variables go with it, and so they do if it cannot be made") {
  Scope scope;
  {
    const lod::PreparedProgram prepared(lod::CpuExecutor(1), two_steps(), scope, {"z"});
    CHECK(scope.children().size() == 1);
  }
  CHECK(scope.children().empty());
  CHECK_THROWS_AS(lod::PreparedProgram(lod::CpuExecutor(1), two_steps(), scope, {"none"}), InvalidProgram);
  CHECK(scope.children().empty());
}

TEST_CASE("PreparedProgram: what cannot run is refused before anything runs") {
  Scope scope;
  const auto refused = [&](const ProgramDesc& program, const char* words) {
    CHECK_THROWS_WITH_AS(lod::PreparedProgram(lod::CpuExecutor(1), program, scope), words, InvalidProgram);
  };
  refused({}, "a program with no block, expected a root");
  refused(program_of({op("scale", {{"X", {"x"}}}, {{"Out", {"y"}}}), op("no_such", {}, {}), op("nor_this", {}, {})}),
          "no operators of the types 'no_such' (block 0, operator 1), 'nor_this' (block 0, operator 2): expected those "
          "of lod::operators().types()");
  refused(program_of({op("scale", {}, {{"Out", {"y"}}})}),
          "block 0, operator 0: operator 'scale': input 'X' has 0 arguments, expected one");
  refused(program_of({op("scale", {{"X", {"x", "x2"}}}, {{"Out", {"y"}}})}),
          "block 0, operator 0: operator 'scale': input 'X' has 2 arguments, expected one");
  refused(program_of({op("scale", {{"X", {"x"}}}, {{"Out", {"y"}}}, {attr("scale", 2)})}),
          "block 0, operator 0: operator 'scale', attribute 'scale': of type INT, expected FLOAT");
  refused(linear_layer(),
          "block 0, operator 1 'mul': variable 'w' has no value, expected one in the scope since it is persistable");
  ProgramDesc undescribed = program_of({op("scale", {{"X", {"x"}}}, {{"Out", {"y"}}})});
  undescribed.blocks[0].vars.clear();
  refused(undescribed,
          "block 0, operator 0 'scale': variable 'x' has no value, expected one in the scope since the block has no "
          "such variable");
  CHECK(scope.local_names().empty());
}

TEST_CASE("run: what is fed must be what the program needs") {
  Scope scope;
  with_parameters(scope);
  ProgramDesc program = linear_layer();
  for (auto& var : program.blocks[0].vars) {
    if (var.name == "x") var = lod::VarDesc::lod_tensor("x", {lod::DataType::FP32, {-1, 2}}, 1);
  }
  const auto refused = [&](const lod::Feed& feed, const char* words) {
    CHECK_THROWS_WITH(lod::run(program, scope, {.feed = feed}), words);
  };
  const AnyLoDTensor x = plain<float>({1, 2}, {1, 2});
  refused({}, "feed: 'x' is missing, which block 0, operator 0 'feed' needs");
  refused({{"x", x}, {"w", x}}, "feed 'w': expected the name of a tensor of the program that is not persistable");
  refused({{"x", x}, {"v", x}}, "feed 'v': expected the name of a tensor of the program that is not persistable");
  refused({{"x", plain<float>({1, 3}, {1, 2, 3})}}, "feed 'x': FP32 of shape {1, 3}, expected FP32 of shape {-1, 2}");
  refused({{"x", plain<double>({1, 2}, {1, 2})}}, "feed 'x': FP64 of shape {1, 2}, expected FP32 of shape {-1, 2}");
  CHECK_NOTHROW(lod::run(program, scope, {.feed = {{"x", x}}}));
  // The same without operators that feed: a variable that is read before it is written.
  CHECK_THROWS_WITH(lod::run(two_steps(), scope, {.fetch = {"z"}}),
                    "feed: 'x' is missing, which block 0, operator 0 'scale' needs");
}

TEST_CASE("run: what an operator throws comes with its place and variables") {
  Scope scope;
  with_parameters(scope);
  CHECK_THROWS_WITH_AS(
      lod::run(linear_layer(), scope, {.feed = {{"x", plain<float>({1, 3}, {1, 2, 3})}}}),
      "block 0, operator 1 'mul' (X: 'x', Y: 'w'; Out: 'y'): variable 'x' of shape {1, 3} with 1 dimensions of rows, "
      "variable 'w' of shape {2, 3} with 1: expected as many columns of the first as rows of the second",
      ShapeMismatch);
  CHECK_THROWS_WITH_AS(
      lod::run(linear_layer(), scope, {.feed = {{"x", plain<double>({1, 2}, {1, 2})}}}),
      "block 0, operator 1 'mul' (X: 'x', Y: 'w'; Out: 'y'): variable 'w': elements of FP32, expected FP64",
      ShapeMismatch);
}

TEST_CASE("run: a failed run says which persistable variables it has changed") {
  Scope scope;
  set(scope, "a", plain<float>({1}, {1}));
  set(scope, "b", plain<float>({3}, {2, 2, 2}));
  const ProgramDesc program = program_of({op("scale", {{"X", {"a"}}}, {{"Out", {"a"}}}, {attr("bias", 1.0f)}),
                                          op("elementwise_add", {{"X", {"b"}}, {"Y", {"x"}}}, {{"Out", {"b"}}})},
                                         {"a", "b"});
  CHECK_THROWS_WITH_AS(lod::run(program, scope, {.feed = {{"x", plain<float>({2}, {1, 2})}}, .fetch = {"b"}}),
                       "block 0, operator 1 'elementwise_add' (X: 'b', Y: 'x'; Out: 'b'), after persistable variables "
                       "were changed: 'a': shapes {3} and {2} with axis -1, expected dimensions that are equal or 1",
                       ShapeMismatch);
  CHECK(numbers<float>(scope.at("a").get<AnyLoDTensor>()) == Floats{2});
  CHECK(numbers<float>(scope.at("b").get<AnyLoDTensor>()) == Floats{2, 2, 2});
}

TEST_CASE("operators: users add their own") {
  struct Added {
    static void once() {
      lod::operators().add("test_square", {.prepare = [](const lod::OperatorArguments& given) {
                             const lod::Slot x = given.input("X"), y = given.output("Out");
                             const float factor = given.attr("factor", 1.0f);
                             return [=](lod::OperatorCall<>& call) {
                               const AnyLoDTensor& from = call.tensor(x);
                               const auto values = call.view<float>(x).values();
                               auto to =
                                   call.output_bytes(y, lod::DataType::FP32, from.lod(), from.row_shape(), from.rows());
                               std::transform(values.begin(), values.end(), to.elements<float>(),
                                              [=](float number) { return factor * number * number; });
                             };
                           }});
    }
  };
  CHECK_FALSE(lod::operators().find("test_square"));
  Added::once();
  CHECK(lod::operators().find("test_square"));
  CHECK_THROWS_WITH_AS(Added::once(), "operator 'test_square': there is one already", std::invalid_argument);
  CHECK_THROWS_AS(lod::operators().add("mul", {.prepare = lod::operators().find("scale")->prepare}),
                  std::invalid_argument);
  CHECK_THROWS_WITH_AS(lod::operators().add("nothing", {}), "operator 'nothing': expected a `prepare`",
                       std::invalid_argument);

  const auto y =
      lod_test::apply("test_square", {{"X", {ragged<float>({2, 1}, {}, {1, 2, 3})}}}, {"Out"}, {attr("factor", 2.0f)});
  CHECK(numbers<float>(y[0]) == Floats{2, 8, 18});
  CHECK(y[0].levels() == 1);

  const auto types = lod::operators().types();
  CHECK(std::is_sorted(types.begin(), types.end()));
  CHECK(std::adjacent_find(types.begin(), types.end()) == types.end());
  CHECK(std::binary_search(types.begin(), types.end(), "test_square"));
  CHECK(std::binary_search(types.begin(), types.end(), "gru"));
}

TEST_CASE("run: threads run programs at a time") {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&right, i] {
      Scope scope;
      const auto x = static_cast<float>(i);
      const auto out =
          lod::run(lod::CpuExecutor(1), two_steps(), scope, {.feed = {{"x", plain<float>({1}, {x})}}, .fetch = {"z"}});
      right += numbers<float>(out[0]) == Floats{6 * x + 3};
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(right == 4);
}

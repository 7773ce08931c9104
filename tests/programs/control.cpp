// SPDX-License-Identifier: Apache-2.0
// Operators that own blocks, and what they work with: loops, branches, arrays, rank tables.
#include "programs/one_operator.hpp"
#include "support/count_allocations.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::InvalidProgram;
using lod::LimitExceeded;
using lod::LoD;
using lod::ProgramDesc;
using lod::Scope;
using lod::ShapeMismatch;
using lod_test::add_block;
using lod_test::attr;
using lod_test::block_attr;
using lod_test::constant;
using lod_test::Floats;
using lod_test::Ids;
using lod_test::numbers;
using lod_test::op;
using lod_test::plain;
using lod_test::program_of;
using lod_test::ragged;
using lod_test::retype;
using lod_test::tensor_var;

namespace {

lod::OpDesc next() { return op("increment", {{"X", {"i"}}}, {{"Out", {"i"}}}); }
lod::OpDesc compare(const std::string& end) {
  return op("less_than", {{"X", {"i"}}, {"Y", {end}}}, {{"Out", {"more"}}});
}
lod::OpDesc write(const std::string& x, const std::string& array) {
  return op("write_to_array", {{"X", {x}}, {"I", {"i"}}}, {{"Out", {array}}});
}
lod::OpDesc read(const std::string& array, const std::string& out) {
  return op("read_from_array", {{"X", {array}}, {"I", {"i"}}}, {{"Out", {out}}});
}
/// i = 0; while (i < n) { double x; i += 1; }
ProgramDesc doubling() {
  ProgramDesc program = program_of({constant("i", {1}, 0, lod::DataType::INT64), compare("n"),
                                    op("scale", {{"X", {"x"}}}, {{"Out", {"y"}}}),
                                    op("while", {{"X", {"i", "n", "y"}}, {"Condition", {"more"}}},
                                       {{"Out", {"i", "y"}}, {"StepScopes", {"steps"}}}, {block_attr(1)})});
  retype(program, lod::VarType::STEP_SCOPES, {"steps"});
  add_block(program,
            {op("scale", {{"X", {"y"}}}, {{"Out", {"twice"}}}, {attr("scale", 2.0f)}),
             op("assign", {{"X", {"twice"}}}, {{"Out", {"y"}}}), next(), compare("n")},
            {"twice"});
  return program;
}

}  // namespace

TEST_CASE("while: runs its block as long as the condition is true, without allocating the second time") {
  Scope scope;
  lod::PreparedProgram prepared(lod::CpuExecutor(1), doubling(), scope, {"y", "i"});
  const AnyLoDTensor x = plain<float>({3}, {1, 2, -1});
  for (const std::int64_t n : {3, 0, 5}) {
    const lod::Feed feed = {{"x", x}, {"n", AnyLoDTensor(plain<std::int64_t>({1}, {n}))}};
    prepared.run(feed);
    const std::int64_t allocations = lod_test::allocations;
    const auto& out = prepared.run(feed);
    if (lod_test::counts_allocations) CHECK(lod_test::allocations == allocations);
    const auto factor = static_cast<float>(std::int64_t{1} << n);
    CHECK(numbers<float>(out[0]) == Floats{factor, 2 * factor, -factor});
    CHECK(numbers<std::int64_t>(out[1]) == Ids{n});
    lod_test::check_on_thrust(doubling(), {.feed = feed, .fetch = {"y", "i"}}, out);
  }
}

TEST_CASE("while: a run ends where its limit of steps does") {
  Scope scope;
  const lod::Feed feed = {{"x", plain<float>({1}, {1})}, {"n", plain<std::int64_t>({1}, {4})}};
  CHECK_THROWS_WITH_AS(lod::run(doubling(), scope, {.feed = feed, .fetch = {"y"}, .limits = {.steps = 3}}),
                       "block 0, operator 3 'while': its loops have taken 3 steps, as many as it may", LimitExceeded);
}

TEST_CASE("run: memory may have a limit, which what outlives the run does not need") {
  const ProgramDesc program = program_of({constant("y", {1000}, 7), constant("kept", {0, 3}, 0)}, {"kept"});
  Scope scope;
  CHECK_THROWS_AS(lod::run(program, scope, {.fetch = {"y"}, .limits = {.bytes = 3999}}), LimitExceeded);
  CHECK(numbers<float>(lod::run(program, scope, {.fetch = {"y"}, .limits = {.bytes = 5000}})[0]) == Floats(1000, 7));
  const ProgramDesc pads = program_of({op("sequence_pad", {{"X", {"x"}}, {"PadValue", {"v"}}},
                                          {{"Out", {"y"}}, {"Length", {"n"}}}, {attr("padded_length", 1 << 30)})});
  const lod::Feed feed = {{"x", ragged<float>({1, 2}, {}, {1, 2, 3})}, {"v", plain<float>({1}, {0})}};
  CHECK_THROWS_AS(lod::run(pads, scope, {.feed = feed, .fetch = {"y"}, .limits = {.bytes = 5000}}), LimitExceeded);
  CHECK(numbers<float>(lod::run(program, scope, {.fetch = {"y"}})[0]) == Floats(1000, 7));
}

TEST_CASE("conditional_block: runs its block if the condition is true, or if no input is empty") {
  for (const bool is_scalar : {true, false}) {
    ProgramDesc program =
        program_of({constant("z", {2}, 7), op("conditional_block", {{"Cond", {"c"}}, {"Input", {"x"}}},
                                              {{"Out", {"z"}}, {"Scope", {"@EMPTY@"}}},
                                              {block_attr(1), attr("is_scalar_condition", is_scalar)})});
    add_block(program, {op("scale", {{"X", {"x"}}}, {{"Out", {"z"}}}, {attr("scale", 2.0f)})});
    Scope scope;
    const auto z = [&](bool c, const Floats& x) {
      lod::LoDTensor<bool> condition({1});
      condition.values()[0] = c;
      return numbers<float>(lod::run(
          program, scope,
          {.feed = {{"c", std::move(condition)}, {"x", plain<float>({static_cast<std::int64_t>(x.size())}, x)}},
           .fetch = {"z"}})[0]);
    };
    CHECK(z(true, {1, 2}) == Floats{2, 4});
    CHECK(z(false, {1, 2}) == (is_scalar ? Floats{7, 7} : Floats{2, 4}));
    CHECK(z(true, {}) == (is_scalar ? Floats{} : Floats{7, 7}));
  }
}

TEST_CASE("blocks: a branch in a loop, with variables of each block") {
  // for (i = 0; i < 4; ++i) if (i != 2) total += i, counted in `seen`, a variable of the outermost scope.
  ProgramDesc program = program_of({constant("i", {1}, 0), constant("end", {1}, 4), constant("two", {1}, 2),
                                    constant("total", {1}, 0), compare("end"),
                                    op("while", {{"X", {"i", "end", "two", "total"}}, {"Condition", {"more"}}},
                                       {{"Out", {"total"}}}, {block_attr(1)})},
                                   {"seen"});
  add_block(program,
            {op("not_equal", {{"X", {"i"}}, {"Y", {"two"}}}, {{"Out", {"takes"}}}),
             op("conditional_block", {{"Cond", {"takes"}}, {"Input", {"total", "i"}}}, {{"Out", {"total"}}},
                {block_attr(2), attr("is_scalar_condition", true)}),
             next(), compare("end")},
            {"takes"});
  add_block(
      program,
      {op("elementwise_add", {{"X", {"total"}}, {"Y", {"i"}}}, {{"Out", {"sum"}}}),
       op("assign", {{"X", {"sum"}}}, {{"Out", {"total"}}}), op("increment", {{"X", {"seen"}}}, {{"Out", {"seen"}}})},
      {"sum"}, 1);
  Scope scope;
  scope.var("seen") = plain<float>({1}, {10});
  CHECK(numbers<float>(lod::run(program, scope, {.fetch = {"total"}})[0]) == Floats{4});
  CHECK(numbers<float>(scope.at("seen").get<AnyLoDTensor>()) == Floats{13});
  program.blocks[2].ops[0] = op("mul", {{"X", {"total"}}, {"Y", {"wide"}}}, {{"Out", {"sum"}}});
  program.blocks[0].ops.insert(program.blocks[0].ops.begin(), constant("wide", {3, 4}, 0));
  CHECK_THROWS_WITH_AS(
      lod::run(program, scope, {.fetch = {"total"}}),
      doctest::Contains("block 0, operator 6 'while', after persistable variables were changed: "
                        "'seen': step 0, block 1, operator 1 'conditional_block', after persistable "
                        "variables were changed: 'seen': block 2, operator 0 'mul' (X: 'total', Y: 'wide'; Out: "
                        "'sum'): variable 'total' of shape {1}"),
      ShapeMismatch);
}

TEST_CASE("blocks: what cannot run is refused before anything runs, with the block") {
  Scope scope;
  const auto refused = [&](const ProgramDesc& program, const char* words) {
    CHECK_THROWS_WITH_AS(lod::PreparedProgram(lod::CpuExecutor(1), program, scope), words, InvalidProgram);
    CHECK(scope.children().empty());
  };
  ProgramDesc program = doubling();
  program.blocks[1].ops[1].type = "no_such";
  refused(program,
          "no operators of the types 'no_such' (block 1, operator 1): expected those of lod::operators().types()");
  program = doubling();
  program.blocks[1].ops.push_back(op("while", {{"Condition", {"more"}}}, {}, {block_attr(1)}));
  refused(program, "block 1 lies in more than 100 blocks, or one of them in itself");
  program = doubling();
  program.blocks[1].ops[0].inputs[0].arguments = {"nowhere"};
  refused(program,
          "block 0, operator 3 'while': variable 'nowhere' has no value, expected one in the scope since the block has "
          "no such variable");
  CHECK_THROWS_WITH_AS(lod::operators().find("while")->prepare(lod::OperatorArguments(doubling().blocks[0].ops[3])),
                       "operator 'while': it needs the block that it is in, expected to be one of a program that runs",
                       InvalidProgram);
}

TEST_CASE("select_input and select_output: choose a variable by a number") {
  const AnyLoDTensor a = ragged<float>({1, 1}, {}, {1, 2}), b = ragged<float>({1}, {}, {3});
  for (const int chosen : {0, 1}) {
    const auto mask = plain<int>({1}, {chosen});
    const auto x = lod_test::apply("select_input", {{"X", {a, b}}, {"Mask", {mask}}}, {"Out"})[0];
    CHECK(numbers<float>(x) == (chosen == 0 ? Floats{1, 2} : Floats{3}));
    const std::vector<std::string> outputs =
        chosen == 0 ? std::vector<std::string>{"Out", "-Out"} : std::vector<std::string>{"-Out", "Out"};
    const auto y = lod_test::apply("select_output", {{"X", {b}}, {"Mask", {mask}}}, outputs);
    CHECK(numbers<float>(y[0]) == Floats{3});
  }
  CHECK_THROWS_AS(lod_test::apply("select_input", {{"X", {a}}, {"Mask", {plain<int>({1}, {1})}}}, {"Out"}),
                  lod::OutOfRange);
}

TEST_CASE("write_to_array and read_from_array: arrays begin empty in each run, and keep their memory") {
  // a[0] = x; while (i < n) { a[i + 1] = 2 a[i]; i += 1 }; y = a[n], length(a)
  ProgramDesc program =
      program_of({constant("i", {1}, 0, lod::DataType::INT64), write("x", "a"), compare("n"),
                  op("while", {{"X", {"i", "n", "a"}}, {"Condition", {"more"}}}, {{"Out", {"a"}}}, {block_attr(1)}),
                  op("read_from_array", {{"X", {"a"}}, {"I", {"n"}}}, {{"Out", {"y"}}}),
                  op("lod_array_length", {{"X", {"a"}}}, {{"Out", {"length"}}})});
  retype(program, lod::VarType::LOD_TENSOR_ARRAY, {"a"});
  add_block(program,
            {read("a", "before"), op("scale", {{"X", {"before"}}}, {{"Out", {"after"}}}, {attr("scale", 2.0f)}), next(),
             write("after", "a"), compare("n")},
            {"before", "after"});
  Scope scope;
  lod::PreparedProgram prepared(lod::CpuExecutor(1), program, scope, {"y", "length"});
  const AnyLoDTensor x = ragged<float>({1, 0, 1}, {}, {1, -1});
  for (const std::int64_t n : {3, 0, 4}) {
    const lod::Feed feed = {{"x", x}, {"n", AnyLoDTensor(plain<std::int64_t>({1}, {n}))}};
    prepared.run(feed);
    const std::int64_t allocations = lod_test::allocations;
    const auto& out = prepared.run(feed);
    if (lod_test::counts_allocations) CHECK(lod_test::allocations == allocations);
    const auto factor = static_cast<float>(std::int64_t{1} << n);
    CHECK(numbers<float>(out[0]) == Floats{factor, -factor});
    CHECK(out[0].lod() == x.lod());
    CHECK(numbers<std::int64_t>(out[1]) == Ids{n + 1});
    lod_test::check_on_thrust(program, {.feed = feed, .fetch = {"y", "length"}}, out);
  }
  const lod::Feed feed = {{"x", x}, {"n", AnyLoDTensor(plain<std::int64_t>({1}, {std::int64_t{1} << 40}))}};
  program.blocks[0].ops[1].inputs[1].arguments = {"n"};
  CHECK_THROWS_AS(lod::run(program, scope, {.feed = feed}), lod::OutOfRange);
}

TEST_CASE("tensor_array_to_tensor: joins tensors, of which there must be one, and that fit") {
  ProgramDesc program = program_of(
      {constant("i", {1}, 0, lod::DataType::INT64), write("x", "a"), next(), write("y", "a"),
       op("tensor_array_to_tensor", {{"X", {"a"}}}, {{"Out", {"z"}}, {"OutIndex", {"n"}}}, {attr("axis", 1)})});
  retype(program, lod::VarType::LOD_TENSOR_ARRAY, {"a"});
  Scope scope;
  lod::PreparedProgram prepared(lod::CpuExecutor(1), program, scope, {"z", "n"});
  const lod::Feed feed = {{"x", ragged<float>({1, 1}, {1}, {1, 2})}, {"y", plain<float>({2, 2}, {3, 4, 5, 6})}};
  for (int run = 0; run < 3; ++run) prepared.run(feed);
  const std::int64_t allocations = lod_test::allocations;
  const auto& out = prepared.run(feed);
  if (lod_test::counts_allocations) CHECK(lod_test::allocations == allocations);
  CHECK(out[0].shape() == lod::Shape{2, 3});
  CHECK(numbers<float>(out[0]) == Floats{1, 3, 4, 2, 5, 6});
  CHECK(out[0].lod() == feed.at("x").lod());
  CHECK(numbers<std::int32_t>(out[1]) == std::vector<std::int32_t>{1, 2});
  CHECK_THROWS_WITH_AS(
      prepared.run({{"x", feed.at("x")}, {"y", plain<float>({1, 2}, {3, 4})}}),
      doctest::Contains("tensor 1 of variable 'a': FP32 of shape {1, 2}, expected FP32 of shape {2, 1} "
                        "in all dimensions but 1"),
      ShapeMismatch);
  program.blocks[0].ops.erase(program.blocks[0].ops.begin() + 1, program.blocks[0].ops.begin() + 4);
  CHECK_THROWS_AS(lod::run(program, scope, {.feed = feed}), ShapeMismatch);
}

TEST_CASE("lod_tensor_to_array: a recurrent network over sequences, longest first, and its way back") {
  // The state of a sequence is the sum of its rows so far: y are the states of all steps.
  ProgramDesc program = program_of(
      {op("lod_rank_table", {{"X", {"x"}}}, {{"Out", {"table"}}}),
       op("max_sequence_len", {{"RankTable", {"table"}}}, {{"Out", {"longest"}}}),
       op("lod_tensor_to_array", {{"X", {"x"}}, {"RankTable", {"table"}}}, {{"Out", {"steps"}}}),
       op("reorder_lod_tensor_by_rank", {{"X", {"first"}}, {"RankTable", {"table"}}}, {{"Out", {"ordered"}}}),
       constant("i", {1}, 0, lod::DataType::INT64), write("ordered", "states"), compare("longest"),
       op("while", {{"X", {"i", "steps", "table", "states", "longest"}}, {"Condition", {"more"}}},
          {{"Out", {"results"}}}, {block_attr(1)}),
       op("array_to_lod_tensor", {{"X", {"results"}}, {"RankTable", {"table"}}}, {{"Out", {"y"}}})});
  retype(program, lod::VarType::LOD_TENSOR_ARRAY, {"steps", "states", "results"});
  retype(program, lod::VarType::LOD_RANK_TABLE, {"table"});
  for (auto& one : program.blocks[0].vars) {
    if (one.name == "y") one = lod::VarDesc::lod_tensor("y", {lod::DataType::FP32, {-1, 1}}, 1);
  }
  add_block(program,
            {read("steps", "step"), read("states", "state"),
             op("shrink_rnn_memory", {{"X", {"state"}}, {"RankTable", {"table"}}, {"I", {"i"}}}, {{"Out", {"active"}}}),
             op("elementwise_add", {{"X", {"step"}}, {"Y", {"active"}}}, {{"Out", {"next"}}}), write("next", "results"),
             next(), write("next", "states"), compare("longest")},
            {"step", "state", "active", "next"});
  Scope scope;
  lod::PreparedProgram prepared(lod::CpuExecutor(1), program, scope, {"y"});
  const auto run = [&](const std::vector<std::int64_t>& lengths, const Floats& x, const Floats& first) {
    const auto sequences = static_cast<std::int64_t>(lengths.size());
    const lod::Feed feed = {{"x", ragged<float>(lengths, {1}, x)}, {"first", plain<float>({sequences, 1}, first)}};
    lod_test::check_on_thrust(program, {.feed = feed, .fetch = {"y"}}, prepared.run(feed));
    return prepared.run(feed)[0];
  };
  const AnyLoDTensor y = run({2, 0, 3, 1}, {1, 2, 3, 4, 5, 6}, {10, 20, 30, 40});
  CHECK(numbers<float>(y) == Floats{11, 13, 33, 37, 42, 46});
  CHECK(y.lod() == LoD::from_lengths({{2, 0, 3, 1}}));
  CHECK(run({0, 0}, {}, {10, 20}).lod() == LoD::from_lengths({{0, 0}}));
  CHECK(run({}, {}, {}).shape() == lod::Shape{0, 1});
  const lod::Feed feed = {{"x", AnyLoDTensor(ragged<float>({1, 3, 2}, {1}, {1, 2, 3, 4, 5, 6}))},
                          {"first", AnyLoDTensor(plain<float>({3, 1}, {0, 0, 0}))}};
  prepared.run(feed);
  const std::int64_t allocations = lod_test::allocations;
  const auto& out = prepared.run(feed);
  if (lod_test::counts_allocations) CHECK(lod_test::allocations == allocations);
  CHECK(numbers<float>(out[0]) == Floats{1, 2, 5, 9, 5, 11});
}

TEST_CASE("recurrent: runs its block for each row, with states") {
  // y[t] = s, with s = s + x[t], last row first.
  lod::OpDesc rnn = op("recurrent", {{"inputs", {"x"}}, {"initial_states", {"s0"}}}, {{"outputs", {"y"}}},
                       {block_attr(1), attr("reverse", true), attr("has_states", true),
                        lod::make_attr("ex_states", std::vector<std::string>{"s"}),
                        lod::make_attr("states", std::vector<std::string>{"y"})});
  ProgramDesc program = program_of({rnn});
  add_block(program, {op("elementwise_add", {{"X", {"x"}}, {"Y", {"s"}}}, {{"Out", {"y"}}})}, {"x", "s", "y"});
  Scope scope;
  lod::PreparedProgram prepared(lod::CpuExecutor(1), program, scope, {"y"});
  const lod::Feed feed = {{"x", AnyLoDTensor(plain<float>({3, 2}, {1, 2, 3, 4, 5, 6}))},
                          {"s0", AnyLoDTensor(plain<float>({2}, {10, 20}))}};
  for (int run = 0; run < 2; ++run) CHECK(numbers<float>(prepared.run(feed)[0]) == Floats{19, 32, 18, 30, 15, 26});
  const std::int64_t allocations = lod_test::allocations;
  CHECK(prepared.run(feed)[0].shape() == lod::Shape{3, 2});
  if (lod_test::counts_allocations) CHECK(lod_test::allocations == allocations);
  program.blocks[1].vars.pop_back();
  CHECK_THROWS_AS(lod::PreparedProgram(lod::CpuExecutor(1), program, scope, {"y"}), InvalidProgram);
}

TEST_CASE("gradients of arrays' operators: zeros where nothing depended on") {
  const auto z = ragged<float>({1, 2, 1}, {}, {1, 2, 3, 4});
  ProgramDesc program =
      program_of({op("read_from_array", {{"X", {"da"}}, {"I", {"i"}}, {"X_W", {"z"}}}, {{"Out", {"dx"}}}),
                  op("shrink_rnn_memory_grad", {{"X", {"z"}}, {"Out@GRAD", {"dy"}}}, {{"X@GRAD", {"dz"}}})});
  retype(program, lod::VarType::LOD_TENSOR_ARRAY, {"da"});
  const auto i = plain<std::int64_t>({1}, {2});
  Scope scope;
  const auto out =
      lod::run(program, scope, {.feed = {{"z", z}, {"i", i}, {"dy", plain<float>({1}, {7})}}, .fetch = {"dx", "dz"}});
  CHECK(numbers<float>(out[0]) == Floats{0, 0, 0, 0});
  CHECK(numbers<float>(out[1]) == Floats{7, 0, 0, 0});
  for (const AnyLoDTensor& one : out) CHECK(one.lod() == z.lod());
}

TEST_CASE("while_grad: goes back through the steps, with the variables of each") {
  // y = x; three times y = y w. The gradient goes on from step to step in y, and is added up in w.
  ProgramDesc program = program_of(
      {constant("i", {1}, 0), constant("n", {1}, 3), op("assign", {{"X", {"x"}}}, {{"Out", {"y"}}}), compare("n"),
       op("while", {{"X", {"y", "w", "i", "n"}}, {"Condition", {"more"}}},
          {{"Out", {"y", "i"}}, {"StepScopes", {"steps"}}}, {block_attr(1)}),
       op("fill_any_like", {{"X", {"y"}}}, {{"Out", {"y@GRAD"}}}, {attr("value", 1.0f)}),
       op("while_grad", {{"X", {"y", "w", "i"}}, {"Out", {"y"}}, {"Out@GRAD", {"y@GRAD"}}, {"StepScopes", {"steps"}}},
          {{"X@GRAD", {"y@GRAD", "w@GRAD", "@EMPTY@"}}}, {block_attr(2)})});
  retype(program, lod::VarType::STEP_SCOPES, {"steps"});
  add_block(program,
            {op("elementwise_mul", {{"X", {"y"}}, {"Y", {"w"}}}, {{"Out", {"product"}}}),
             op("assign", {{"X", {"product"}}}, {{"Out", {"y"}}}), next(), compare("n")},
            {"product"});
  add_block(program,
            {op("assign", {{"X", {"y@GRAD"}}}, {{"Out", {"product@GRAD"}}}),
             op("elementwise_mul_grad", {{"X", {"y"}}, {"Y", {"w"}}, {"Out@GRAD", {"product@GRAD"}}},
                {{"X@GRAD", {"y@GRAD"}}, {"Y@GRAD", {"w@GRAD"}}})},
            {"product@GRAD", "w@GRAD"});
  program.blocks[2].forward_block_idx = 1;
  Scope scope;
  lod::PreparedProgram prepared(lod::CpuExecutor(1), program, scope, {"y", "y@GRAD", "w@GRAD"});
  const lod::Feed feed = {{"x", AnyLoDTensor(plain<float>({1}, {3}))}, {"w", AnyLoDTensor(plain<float>({1}, {2}))}};
  for (int run = 0; run < 2; ++run) {
    const auto& out = prepared.run(feed);
    CHECK(numbers<float>(out[0]) == Floats{24});
    CHECK(numbers<float>(out[1]) == Floats{8});
    CHECK(numbers<float>(out[2]) == Floats{36});
  }
  const std::int64_t allocations = lod_test::allocations;
  prepared.run(feed);
  if (lod_test::counts_allocations) CHECK(lod_test::allocations == allocations);
  program.blocks[0].ops[1] = constant("n", {1}, 0);
  const auto none = lod::run(program, scope, {.feed = feed, .fetch = {"y@GRAD", "w@GRAD"}});
  CHECK(numbers<float>(none[0]) == Floats{1});
  CHECK(numbers<float>(none[1]) == Floats{0});
}

TEST_CASE("split_lod_tensor and merge_lod_tensor: two branches, of which one may have nothing") {
  const auto x = ragged<float>({2, 0, 1}, {1}, {1, 2, 3});
  ProgramDesc program = program_of(
      {op("split_lod_tensor", {{"X", {"x"}}, {"Mask", {"mask"}}}, {{"OutTrue", {"yes"}}, {"OutFalse", {"no"}}}),
       op("merge_lod_tensor", {{"X", {"x"}}, {"Mask", {"mask"}}, {"InTrue", {"yes"}}, {"InFalse", {"no"}}},
          {{"Out", {"y"}}})});
  for (const bool chosen : {true, false}) {
    lod::LoDTensor<bool> mask({3, 1});
    mask.values()[0] = chosen;
    if (!chosen) program.blocks[0].ops[1].inputs[2].arguments = {"idle"};  // nothing may have run there
    program.blocks[0].vars.push_back(tensor_var(chosen ? "unused" : "idle"));
    Scope scope;
    lod::RunOptions options{.feed = {{"x", x}, {"mask", std::move(mask)}}, .fetch = {"yes", "no", "y"}};
    if (!chosen) options.feed.emplace("idle", plain<double>({0}, {}));
    const auto out = lod::run(program, scope, options);
    lod_test::check_on_thrust(program, options, out);
    CHECK(numbers<float>(out[1]) == (chosen ? Floats{3} : Floats{1, 2, 3}));
    CHECK(numbers<float>(out[2]) == Floats{1, 2, 3});
    CHECK(out[2].lod() == x.lod());
  }
}

TEST_CASE("beam_search: an operator whose candidates have the ids 0, 1, 2, ... where none are given") {
  const auto scores = AnyLoDTensor(lod::LoDTensor<float>::from_values(LoD::from_lengths({{2, 1}, {1, 1, 1}}), {3},
                                                                      {.5f, .3f, .2f, .6f, .3f, .1f, .9f, .5f, .7f}));
  const auto ids = plain<std::int64_t>({3, 3}, {4, 2, 5, 2, 1, 3, 3, 5, 8});
  const auto search = [&](std::vector<std::pair<std::string, std::vector<AnyLoDTensor>>> inputs) {
    inputs.push_back({"pre_ids", {plain<std::int64_t>({3, 1}, {1, 2, 3})}});
    inputs.push_back({"pre_scores", {plain<float>({3, 1}, {.1f, .2f, .3f})}});
    inputs.push_back({"scores", {scores}});
    return lod_test::apply("beam_search", inputs, {"selected_ids", "selected_scores", "parent_idx"},
                           {attr("beam_size", 2), attr("end_id", 7)});
  };
  auto y = search({{"ids", {ids}}});
  CHECK(numbers<std::int64_t>(y[0]) == Ids{4, 2, 3, 8});
  CHECK(numbers<float>(y[1]) == Floats{.5f, .6f, .9f, .7f});
  CHECK(numbers<std::int32_t>(y[2]) == std::vector<std::int32_t>{0, 1, 2, 2});
  y = search({});
  CHECK(numbers<std::int64_t>(y[0]) == Ids{0, 0, 0, 2});
  CHECK(numbers<std::int32_t>(y[2]) == std::vector<std::int32_t>{0, 1, 2, 2});
  CHECK_THROWS_AS(search({{"ids", {plain<std::int64_t>({1, 3}, {4, 2, 5})}}}), ShapeMismatch);
}

TEST_CASE("gather_tree: the ids on the way to each beam") {
  const auto ids = plain<std::int64_t>({3, 1, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto found = [&](const Ids& parents) {
    return numbers<std::int64_t>(lod_test::apply(
        "gather_tree", {{"Ids", {ids}}, {"Parents", {plain<std::int64_t>({3, 1, 3}, parents)}}}, {"Out"})[0]);
  };
  CHECK(found({0, 0, 0, 2, 1, 0, 1, 1, 2}) == Ids{2, 2, 1, 5, 5, 6, 7, 8, 9});
  CHECK_THROWS_AS(found({0, 0, 0, 0, 0, 0, 0, 3, 0}), lod::OutOfRange);
  CHECK_THROWS_AS(found({0, 0, 0, 0, 0, -1, 2, 0, 0}), lod::OutOfRange);
  const auto none = plain<std::int64_t>({0, 2, 3}, {});
  CHECK(lod_test::apply("gather_tree", {{"Ids", {none}}, {"Parents", {none}}}, {"Out"})[0].rows() == 0);
  CHECK_THROWS_AS(lod_test::apply("gather_tree", {{"Ids", {ids}}, {"Parents", {none}}}, {"Out"}), ShapeMismatch);
}

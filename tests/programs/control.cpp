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
using lod::ProgramDesc;
using lod::Scope;
using lod::ShapeMismatch;
using lod_test::Arguments;
using lod_test::attr;
using lod_test::Attrs;
using lod_test::Floats;
using lod_test::Ids;
using lod_test::numbers;
using lod_test::op;
using lod_test::plain;
using lod_test::program_of;
using lod_test::ragged;
using lod_test::tensor_var;

namespace {

/// An attribute that names a block.
lod::OpDesc::Attr block_attr(std::int32_t idx) {
  return {.name = "sub_block", .type = lod::AttrType::BLOCK, .block_idx = idx};
}
lod::OpDesc constant(const std::string& out, const std::vector<std::int64_t>& shape, float value,
                     lod::DataType type = lod::DataType::FP32) {
  return op("fill_constant", {}, {{"Out", {out}}},
            {attr("shape", shape), attr("value", value), attr("dtype", static_cast<int>(type))});
}
/// A block inside another, with these variables of its own. Returns its number.
std::int32_t add_block(ProgramDesc& program, std::vector<lod::OpDesc> ops, const std::vector<std::string>& own = {},
                       std::int32_t parent = 0) {
  const auto idx = static_cast<std::int32_t>(program.blocks.size());
  lod::BlockDesc& block = program.blocks.emplace_back();
  block.idx = idx;
  block.parent_idx = parent;
  for (const std::string& name : own) block.vars.push_back(tensor_var(name));
  block.ops = std::move(ops);
  return idx;
}
/// i = 0; while (i < n) { double x; i += 1; }
ProgramDesc doubling() {
  ProgramDesc program = program_of({constant("i", {1}, 0, lod::DataType::INT64),
                                    op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, {{"Out", {"more"}}}),
                                    op("scale", {{"X", {"x"}}}, {{"Out", {"y"}}}),
                                    op("while", {{"X", {"i", "n", "y"}}, {"Condition", {"more"}}},
                                       {{"Out", {"i", "y"}}, {"StepScopes", {"steps"}}}, {block_attr(1)})});
  for (auto& one : program.blocks[0].vars) {
    if (one.name == "steps") one.type.type = lod::VarType::STEP_SCOPES;
  }
  add_block(program,
            {op("scale", {{"X", {"y"}}}, {{"Out", {"twice"}}}, {attr("scale", 2.0f)}),
             op("assign", {{"X", {"twice"}}}, {{"Out", {"y"}}}), op("increment", {{"X", {"i"}}}, {{"Out", {"i"}}}),
             op("less_than", {{"X", {"i"}}, {"Y", {"n"}}}, {{"Out", {"more"}}})},
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
  }
}

TEST_CASE("while: a run ends where its limit of steps does") {
  Scope scope;
  const lod::Feed feed = {{"x", plain<float>({1}, {1})}, {"n", plain<std::int64_t>({1}, {4})}};
  CHECK_NOTHROW(lod::run(doubling(), scope, {.feed = feed, .fetch = {"y"}, .limits = {.steps = 4}}));
  CHECK_THROWS_WITH_AS(lod::run(doubling(), scope, {.feed = feed, .fetch = {"y"}, .limits = {.steps = 3}}),
                       "block 0, operator 3 'while': its loops have taken 3 steps, as many as it may", LimitExceeded);
  lod::PreparedProgram prepared(lod::CpuExecutor(1), doubling(), scope, {"y"}, {.steps = 4});
  for (int run = 0; run < 2; ++run) CHECK(numbers<float>(prepared.run(feed)[0]) == Floats{16});
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
  ProgramDesc program =
      program_of({constant("i", {1}, 0), constant("end", {1}, 4), constant("two", {1}, 2), constant("total", {1}, 0),
                  op("less_than", {{"X", {"i"}}, {"Y", {"end"}}}, {{"Out", {"more"}}}),
                  op("while", {{"X", {"i", "end", "two", "total"}}, {"Condition", {"more"}}}, {{"Out", {"total"}}},
                     {block_attr(1)})},
                 {"seen"});
  add_block(program,
            {op("not_equal", {{"X", {"i"}}, {"Y", {"two"}}}, {{"Out", {"takes"}}}),
             op("conditional_block", {{"Cond", {"takes"}}, {"Input", {"total", "i"}}}, {{"Out", {"total"}}},
                {block_attr(2), attr("is_scalar_condition", true)}),
             op("increment", {{"X", {"i"}}}, {{"Out", {"i"}}}),
             op("less_than", {{"X", {"i"}}, {"Y", {"end"}}}, {{"Out", {"more"}}})},
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
  // What fails inside is named inside and outside, with what has changed.
  program.blocks[2].ops[0] = op("mul", {{"X", {"total"}}, {"Y", {"wide"}}}, {{"Out", {"sum"}}});
  program.blocks[0].ops.insert(program.blocks[0].ops.begin(), constant("wide", {3, 4}, 0));
  CHECK_THROWS_WITH_AS(lod::run(program, scope, {.fetch = {"total"}}),
                       doctest::Contains("block 0, operator 6 'while', after persistable variables were changed: "
                                         "'seen': block 1, operator 1 'conditional_block', after persistable variables "
                                         "were changed: 'seen': block 2, operator 0 'mul' (X: 'total', Y: 'wide'; Out: "
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
  program.blocks[1].ops[1] = op("assign", {}, {{"Out", {"y"}}});
  refused(program,
          "block 0, operator 3: block 1, operator 1: operator 'assign': input 'X' has 0 arguments, expected one");
  program = doubling();
  program.blocks[1].ops[1].type = "feed";
  refused(program, "block 1, operator 1 'feed': expected in block 0 only");
  program = doubling();
  program.blocks[1].ops.push_back(op("while", {{"Condition", {"more"}}}, {}, {block_attr(1)}));
  refused(program, "block 1 lies in more than 100 blocks, or one of them in itself");
  program = doubling();
  program.blocks[1].ops[0].inputs[0].arguments = {"nowhere"};
  refused(program,
          "block 0, operator 3 'while': variable 'nowhere' has no value, expected one in the scope since the block has "
          "no such variable");
  // By itself, an operator that owns blocks has none.
  CHECK_THROWS_WITH_AS(lod::operators().find("while")->prepare(lod::OperatorArguments(doubling().blocks[0].ops[3])),
                       "operator 'while': it owns a block, expected to be one of a program that runs", InvalidProgram);
}

TEST_CASE("select_input and select_output: choose a variable by a number; is_empty and print") {
  const AnyLoDTensor a = ragged<float>({1, 1}, {}, {1, 2}), b = plain<float>({1}, {3});
  for (const int chosen : {0, 1}) {
    const auto mask = plain<int>({1}, {chosen});
    const auto x = lod_test::apply("select_input", {{"X", {a, b}}, {"Mask", {mask}}}, {"Out"})[0];
    CHECK(numbers<float>(x) == (chosen == 0 ? Floats{1, 2} : Floats{3}));
    CHECK(x.levels() == 1 - chosen);
    const auto y = lod_test::apply("select_output", {{"X", {b}}, {"Mask", {mask}}}, {"Out", "Out"});
    CHECK(numbers<float>(y[static_cast<std::size_t>(chosen)]) == Floats{3});
    CHECK(y[static_cast<std::size_t>(1 - chosen)].rows() == 0);
  }
  CHECK_THROWS_WITH(lod_test::apply("select_input", {{"X", {a}}, {"Mask", {plain<int>({1}, {1})}}}, {"Out"}),
                    "block 0, operator 0 'select_input' (X: 'in X0', Mask: 'in Mask0'; Out: 'out Out0'): variable 'in "
                    "Mask0' is 1, expected less than 1, and not less than 0");
  for (const auto& x : {plain<float>({0, 3}, {}), plain<float>({2}, {1, 2})}) {
    CHECK(numbers<bool>(lod_test::apply("is_empty", {{"X", {x}}}, {"Out"})[0])[0] == (x.rows() == 0));
  }
  CHECK(numbers<float>(lod_test::apply("print", {{"In", {a}}}, {"Out"},
                                       {attr("print_phase", std::string("BACKWARD"))})[0]) == Floats{1, 2});
}

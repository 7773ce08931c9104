// SPDX-License-Identifier: Apache-2.0
// Plans for the memory of blocks. The reference is what happens: a program runs with its variables where the plan says,
// and must find everywhere what was written there.
#include "random_program.hpp"
#include <lod/plan_memory.hpp>
#include <lod/proto/program.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

using lod::BlockDesc;
using lod::MemoryPlan;
using lod::MemoryPlanOptions;
using lod::OpDesc;
using lod::PlannedVariable;
using lod::ProgramDesc;
using lod::VarDesc;
using lod::VarType;
using lod_test::RandomProgram;
using Strings = std::vector<std::string>;

namespace {

VarDesc rows_of_64_bytes(const std::string& name, std::int64_t rows) {
  return VarDesc::lod_tensor(name, {lod::DataType::FP32, {rows, 16}});
}
/// x is fed, and goes through layers a, b, c, ... of one row each.
BlockDesc chain(const std::string& layers) {
  BlockDesc block;
  block.vars = {VarDesc::of_type("feed", VarType::FEED_MINIBATCH), rows_of_64_bytes("x", 1)};
  block.ops = {lod_test::op("feed", {"feed"}, {"x"})};
  std::string last = "x";
  for (const char layer : layers) {
    const std::string name(1, layer);
    block.vars.push_back(rows_of_64_bytes(name, 1));
    block.ops.push_back(lod_test::op("relu", {last}, {name}));
    last = name;
  }
  return block;
}

Strings names(const MemoryPlan& plan) {
  Strings all;
  for (const PlannedVariable& variable : plan.variables) all.push_back(variable.name);
  return all;
}
const PlannedVariable& planned(const MemoryPlan& plan, const std::string& name) {
  for (const PlannedVariable& variable : plan.variables) {
    if (variable.name == name) return variable;
  }
  FAIL("no variable ", name);
  return plan.variables.at(0);
}
bool share(const MemoryPlan& plan, const std::string& a, const std::string& b) {
  const PlannedVariable& x = planned(plan, a);
  const PlannedVariable& y = planned(plan, b);
  return x.buffer == y.buffer && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
}
ProgramDesc program_of(BlockDesc block) {
  ProgramDesc program;
  program.blocks.push_back(std::move(block));
  return program;
}

/// The fewest bytes that variables can take, by placing them in every order at the lowest place that is free: one of
/// the orders is that of their offsets in the best plan.
std::int64_t fewest_bytes(const std::vector<PlannedVariable>& variables) {
  std::vector<std::size_t> order(variables.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  do {
    std::vector<PlannedVariable> placed;
    std::int64_t end = 0;
    for (const std::size_t i : order) {
      PlannedVariable next = variables[i];
      next.offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (const PlannedVariable& other : placed) {
          if (next.first_op <= other.last_op && other.first_op <= next.last_op &&
              next.offset < other.offset + other.bytes && other.offset < next.offset + next.bytes) {
            next.offset = other.offset + other.bytes;
            moved = true;
          }
        }
      }
      end = std::max(end, next.offset + next.bytes);
      placed.push_back(next);
    }
    fewest = std::min(fewest, end);
  } while (std::next_permutation(order.begin(), order.end()));
  return fewest;
}

/// Variables in real buffers: each value fills its bytes, and must fill them still when it is read. What is not in the
/// plan has memory of its own.
class PlannedMemory {
 public:
  explicit PlannedMemory(const MemoryPlan& plan) {
    for (const std::int64_t bytes : plan.buffers) buffers_.emplace_back(static_cast<std::size_t>(bytes) / 8);
    for (const PlannedVariable& variable : plan.variables) planned_[variable.name] = &variable;
  }
  std::uint64_t read(const std::string& name) {
    const auto found = values_.find(name);
    const std::uint64_t expected = found != values_.end() ? found->second : lod_test::mix(run_, name);
    if (const auto variable = planned_.find(name); variable != planned_.end()) {
      CAPTURE(name);
      REQUIRE(found != values_.end());
      each_word(*variable->second, [&](std::uint64_t& word) { all_intact_ = all_intact_ && word == expected; });
      CHECK(all_intact_);
    }
    return expected;
  }
  void write(const std::string& name, std::uint64_t value) {
    values_[name] = value;
    if (const auto variable = planned_.find(name); variable != planned_.end()) {
      each_word(*variable->second, [&](std::uint64_t& word) { word = value; });
    }
  }
  bool all_intact() const { return all_intact_; }

 private:
  template <class Body>
  void each_word(const PlannedVariable& variable, const Body& body) {
    for (std::int64_t i = variable.offset / 8; i < (variable.offset + variable.bytes) / 8; ++i) {
      body(buffers_[variable.buffer].at(static_cast<std::size_t>(i)));
    }
  }
  std::vector<std::vector<std::uint64_t>> buffers_;
  std::map<std::string, const PlannedVariable*> planned_;
  std::map<std::string, std::uint64_t> values_;
  std::uint64_t run_ = 1;
  bool all_intact_ = true;
};

}  // namespace

TEST_CASE("plan_memory: layers of a chain take turns in two places") {
  const BlockDesc block = chain("abcd");
  const MemoryPlan plan = lod::plan_memory(block);
  CHECK(names(plan) == Strings{"a", "b", "c", "d"});
  CHECK(planned(plan, "b").first_op == 2);
  CHECK(planned(plan, "b").last_op == 3);
  CHECK(planned(plan, "d").last_op == 4);
  CHECK(share(plan, "a", "c"));
  CHECK(share(plan, "b", "d"));
  CHECK(plan.bytes_alone == 4 * 64);
  CHECK(plan.bytes_at_once == 2 * 64);
  CHECK(plan.bytes == 2 * 64);
  CHECK(plan.buffers == std::vector<std::int64_t>{64, 64});
  CHECK(plan.unknown.empty());
  CHECK_NOTHROW(lod::check(plan, program_of(block)));
  CHECK(lod::plan_memory(block) == plan);
}

TEST_CASE("plan_memory: an operator's input and output share memory only under one name") {
  BlockDesc block = chain("ab");
  block.ops.push_back(lod_test::op("relu_", {"b"}, {"b"}));
  const MemoryPlan plan = lod::plan_memory(block);
  CHECK(!share(plan, "a", "b"));
  CHECK(planned(plan, "b").last_op == 3);
}

TEST_CASE("plan_memory: small variables fill the gaps that large ones leave") {
  // l lives all the time; m1 and m2, of half its size, after each other; s, small, beside m2.
  BlockDesc block;
  block.vars = {rows_of_64_bytes("l", 8), rows_of_64_bytes("m1", 4), rows_of_64_bytes("m2", 3),
                rows_of_64_bytes("s", 1)};
  block.ops = {lod_test::op("make", {}, {"l", "m1"}), lod_test::op("use", {"m1"}, {}),
               lod_test::op("make", {}, {"m2", "s"}), lod_test::op("use", {"m2", "s", "l"}, {})};
  const MemoryPlan plan = lod::plan_memory(block);
  CHECK(plan.bytes == 12 * 64);
  CHECK(plan.bytes == plan.bytes_at_once);
  CHECK(share(plan, "m1", "m2"));
  CHECK(share(plan, "m1", "s"));
  CHECK(plan.buffers == std::vector<std::int64_t>{8 * 64, 4 * 64});
}

TEST_CASE("plan_memory: of several gaps the smallest that suffices") {
  // After operator 0 the places of e (4) and g (3) are free: s goes where g was, so that t and u go where e was.
  BlockDesc block;
  block.vars = {rows_of_64_bytes("e", 4), rows_of_64_bytes("f", 4), rows_of_64_bytes("g", 3), rows_of_64_bytes("h", 3),
                rows_of_64_bytes("s", 3), rows_of_64_bytes("t", 2), rows_of_64_bytes("u", 2)};
  block.ops = {lod_test::op("make", {}, {"e", "f", "g", "h"}), lod_test::op("make", {"f", "h"}, {"s", "t", "u"})};
  const MemoryPlan plan = lod::plan_memory(block);
  CHECK(share(plan, "g", "s"));
  CHECK(share(plan, "e", "t"));
  CHECK(share(plan, "e", "u"));
  CHECK(plan.bytes == 14 * 64);
  CHECK(plan.bytes == plan.bytes_at_once);
}

TEST_CASE("plan_memory: sizes are rounded up to the alignment, and nothing takes nothing") {
  BlockDesc block;
  block.vars = {VarDesc::lod_tensor("bits", {lod::DataType::BOOL, {1}}),
                VarDesc::lod_tensor("halves", {lod::DataType::FP16, {33}}),
                VarDesc::lod_tensor("nothing", {lod::DataType::FP64, {-1, 0}})};
  block.ops = {lod_test::op("make", {}, {"bits", "halves", "nothing"})};
  const MemoryPlan plan = lod::plan_memory(block);
  CHECK(planned(plan, "bits").bytes == 64);
  CHECK(planned(plan, "halves").bytes == 128);
  CHECK(planned(plan, "nothing").bytes == 0);
  CHECK(plan.bytes == 192);
  CHECK_NOTHROW(lod::check(plan, program_of(block)));
  CHECK(lod::plan_memory(BlockDesc{}) == MemoryPlan{});
}

TEST_CASE("plan_memory: an unknown number of rows is taken from the options, or leaves the variable alone") {
  BlockDesc block = chain("ab");
  block.vars[2] = rows_of_64_bytes("a", -1);
  block.vars[3] = VarDesc::lod_tensor("b", {lod::DataType::FP32, {-1, -1}});
  MemoryPlan plan = lod::plan_memory(block);
  CHECK(plan.variables.empty());
  CHECK(plan.unknown == Strings{"a", "b"});
  plan = lod::plan_memory(block, {.rows = 10});
  CHECK(planned(plan, "a").bytes == 640);
  CHECK(plan.unknown == Strings{"b"});
  plan = lod::plan_memory(block, {.rows = 10, .rows_of = {{"a", 3}, {"x", 1}}});
  CHECK(planned(plan, "a").bytes == 3 * 64);
  // What a program without rules for shapes says of a tensor may be nothing: it need not be a scalar.
  block.vars[2] = VarDesc::lod_tensor("a", {lod::DataType::FP32, {}});
  CHECK(lod::plan_memory(block, {.rows = 10}).unknown == Strings{"a", "b"});
}

TEST_CASE("plan_memory: what is needed before or after the run keeps its memory") {
  BlockDesc block = chain("abcdefg");
  block.vars.push_back(VarDesc::of_type("fetch", VarType::FETCH_LIST));
  block.ops.push_back(lod_test::op("fetch", {"g"}, {"fetch"}));
  block.vars[2].persistable = true;      // a
  block.vars[3].is_parameter = true;     // b
  block.vars[4].need_check_feed = true;  // c
  block.vars[5] = VarDesc::lod_tensor_array("d", {lod::DataType::FP32, {1, 16}});
  block.ops[5].is_target = true;  // reads d, writes e
  CHECK(names(lod::plan_memory(block)) == Strings{"f"});
  CHECK(names(lod::plan_memory(block, {.keep = {"f", "of another block"}})).empty());

  // Fed and fetched under other names of operators, and through lists that the block does not describe.
  block = chain("a");
  block.ops[0].type = "feed_v2";
  CHECK(names(lod::plan_memory(block)) == Strings{"a"});
  block = chain("a");
  block.vars.erase(block.vars.begin());
  CHECK(names(lod::plan_memory(block)) == Strings{"a"});
}

TEST_CASE("plan_memory: what is read first comes from outside, and what nothing uses needs no memory") {
  BlockDesc block;
  block.vars = {rows_of_64_bytes("given", 1), rows_of_64_bytes("state", 1), rows_of_64_bytes("x", 1),
                rows_of_64_bytes("spare", 1)};
  block.ops = {lod_test::op("make", {"given"}, {"x"}), lod_test::op("step", {"state", "x"}, {"state", "@EMPTY@"})};
  CHECK(names(lod::plan_memory(block)) == Strings{"x"});
}

TEST_CASE("plan_memory: the blocks of an operator use variables where it does") {
  ProgramDesc program = program_of(chain("abc"));
  program.blocks[0].ops.push_back(lod_test::op("while", {}, {}));
  RandomProgram::add_block(program.blocks[0].ops.back(), 1);
  program.blocks.push_back(
      {.idx = 1,
       .parent_idx = 0,
       .vars = {rows_of_64_bytes("b", 1), rows_of_64_bytes("i", 1), rows_of_64_bytes("j", 1), rows_of_64_bytes("k", 1)},
       .ops = {lod_test::op("relu", {"a"}, {"i"}), lod_test::op("relu", {"i"}, {"b"}),
               lod_test::op("relu", {"b"}, {"j"}), lod_test::op("relu", {"j"}, {"k"})}});
  const MemoryPlan plan = lod::plan_memory(program);
  CHECK(planned(plan, "a").last_op == 4);
  CHECK(planned(plan, "b").last_op == 3);  // block 1 has a variable of that name itself
  CHECK(!share(plan, "a", "c"));
  CHECK_THROWS_WITH_AS(lod::plan_memory(program.blocks[0]),
                       "plan_memory: operator 'while' owns block 1: expected the program, not the block alone",
                       lod::InvalidProgram);

  const MemoryPlan inner = lod::plan_memory(program, {.block = 1});
  CHECK(names(inner) == Strings{"b", "i", "j", "k"});
  CHECK(share(inner, "i", "j"));
  // The block of a gradient reads what its forward block leaves.
  program.blocks.push_back({.idx = 2, .parent_idx = 0, .forward_block_idx = 1});
  program.blocks[2].ops = {lod_test::op("relu_grad", {"i"}, {})};
  CHECK(names(lod::plan_memory(program, {.block = 1})) == Strings{"b", "j", "k"});
}

TEST_CASE("plan_memory: what an operator may skip to write may be of an earlier run") {
  ProgramDesc program = program_of(chain("a"));
  program.blocks[0].vars.push_back(rows_of_64_bytes("y", 1));
  program.blocks[0].vars.push_back(rows_of_64_bytes("local", 1));
  program.blocks[0].ops.push_back(lod_test::op("conditional_block", {}, {}));
  RandomProgram::add_block(program.blocks[0].ops.back(), 1);
  program.blocks.push_back({.idx = 1,
                            .parent_idx = 0,
                            .ops = {lod_test::op("make", {}, {"y", "local"}), lod_test::op("use", {"local"}, {})}});
  CHECK(names(lod::plan_memory(program)) == Strings{"a", "y", "local"});
  program.blocks[0].ops.push_back(lod_test::op("use", {"y"}, {}));
  CHECK(names(lod::plan_memory(program)) == Strings{"a", "local"});

  // A loop whose body may skip to write what it reads then: that is of an earlier step, or of an earlier run.
  program.blocks[0].ops[2].type = "while";
  program.blocks.push_back({.idx = 2, .parent_idx = 1, .ops = {lod_test::op("make", {}, {"local"})}});
  program.blocks[1].ops = {lod_test::op("conditional_block", {}, {}), lod_test::op("use", {"local"}, {})};
  RandomProgram::add_block(program.blocks[1].ops[0], 2);
  CHECK(names(lod::plan_memory(program)) == Strings{"a"});
}

TEST_CASE("plan_memory: what is fed or fetched in an inner block keeps its memory") {
  // f and the loop use b; c and d come after the loop.
  ProgramDesc program = program_of(chain("abcd"));
  program.blocks[0].ops = {lod_test::op("f", {}, {"b"}), lod_test::op("while", {}, {}), lod_test::op("f", {}, {"c"}),
                           lod_test::op("f", {"c"}, {"d"})};
  RandomProgram::add_block(program.blocks[0].ops[1], 1);
  const VarDesc list = VarDesc::of_type("list", VarType::FETCH_LIST);
  program.blocks.push_back({.idx = 1, .parent_idx = 0, .vars = {list}, .ops = {lod_test::op("use", {"b"}, {"a"})}});
  CHECK(names(lod::plan_memory(program)) == Strings{"a", "b", "c", "d"});

  std::vector<OpDesc> gates(4, program.blocks[1].ops[0]);
  gates[0].is_target = true;
  gates[1].type = "fetch";
  gates[2].type = "feed";
  gates[3].outputs[0].arguments.push_back("list");
  for (const OpDesc& gate : gates) {
    program.blocks[1].ops[0] = gate;
    CHECK(names(lod::plan_memory(program)) == Strings{"c", "d"});
  }
  // The list is one of block 0, or that of block 1 hides it.
  program.blocks[0].vars.push_back(list);
  CHECK(names(lod::plan_memory(program)) == Strings{"c", "d"});
  program.blocks[1].vars.clear();
  CHECK(names(lod::plan_memory(program)) == Strings{"c", "d"});
  program.blocks[1].vars.push_back(rows_of_64_bytes("list", 1));
  CHECK(names(lod::plan_memory(program)) == Strings{"a", "b", "c", "d"});

  // Only what the gate uses, not all that the loop does; and of what belongs to the inner block, nothing here.
  program.blocks[1].vars = {rows_of_64_bytes("b", 1)};
  program.blocks[1].ops = {lod_test::op("use", {"c"}, {"b"}), lod_test::op("enqueue", {"b"}, {"list"})};
  program.blocks[0].ops = {lod_test::op("f", {}, {"b", "c"}), program.blocks[0].ops[1]};
  CHECK(names(lod::plan_memory(program)) == Strings{"b", "c"});
  // The block inside is planned, the list is outside.
  program.blocks[1].vars.push_back(rows_of_64_bytes("i", 1));
  program.blocks[1].ops.insert(program.blocks[1].ops.begin(), lod_test::op("f", {}, {"i"}));
  CHECK(names(lod::plan_memory(program, {.block = 1})) == Strings{"i"});
}

TEST_CASE("plan_memory: what an operator takes out of the block that it owns keeps its memory") {
  ProgramDesc program = program_of(chain("a"));
  OpDesc recurrent = lod_test::op("recurrent", {"x"}, {"out"});
  RandomProgram::add_block(recurrent, 1);
  recurrent.attrs.push_back({.name = "ex_states", .type = lod::AttrType::STRINGS, .strings = {"before"}});
  recurrent.attrs.push_back({.name = "states", .type = lod::AttrType::STRINGS, .strings = {"after"}});
  recurrent.attrs.push_back({.name = "length", .type = lod::AttrType::STRING, .s = "steps"});
  program.blocks[0].ops.push_back(recurrent);
  program.blocks.push_back({.idx = 1, .parent_idx = 0});
  BlockDesc& step = program.blocks[1];
  for (const char* name : {"out", "before", "after", "steps", "t", "u"}) step.vars.push_back(rows_of_64_bytes(name, 1));
  step.ops = {lod_test::op("mul", {"x", "before"}, {"after"}), lod_test::op("relu", {"after"}, {"out"}),
              lod_test::op("make", {}, {"steps"}), lod_test::op("relu", {"x"}, {"t"}),
              lod_test::op("relu", {"t"}, {"u"})};
  CHECK(names(lod::plan_memory(program, {.block = 1})) == Strings{"t", "u"});

  // Its gradient links the gradients of the states, and sums up those of what it was given.
  program.blocks.push_back({.idx = 2, .parent_idx = 0, .forward_block_idx = 1});
  BlockDesc& grad = program.blocks[2];
  for (const char* name : {"x@GRAD", "before@GRAD", "t@GRAD", "@GRAD"}) grad.vars.push_back(rows_of_64_bytes(name, 1));
  grad.ops = {lod_test::op("mul_grad", {"after"}, {"before@GRAD", "t@GRAD"}),
              lod_test::op("mul", {"t@GRAD"}, {"x@GRAD", "@GRAD"})};
  OpDesc recurrent_grad = recurrent;
  recurrent_grad.type = "recurrent_grad";
  recurrent_grad.attrs[0].block_idx = 2;
  program.blocks[0].ops.push_back(recurrent_grad);
  CHECK(names(lod::plan_memory(program, {.block = 2})) == Strings{"t@GRAD", "@GRAD"});
}

TEST_CASE("plan_memory: wrong arguments are refused") {
  const BlockDesc block = chain("ab");
  const auto described = [](std::vector<std::int64_t> dims) {
    BlockDesc one = chain("a");
    one.vars[2] = VarDesc::lod_tensor("a", {lod::DataType::FP32, std::move(dims)});
    return one;
  };
  const std::int64_t large = std::int64_t{1} << 40;
  CHECK_THROWS_AS(lod::plan_memory(program_of(block), {.block = 1}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::plan_memory(program_of(block), {.block = -1}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::plan_memory(block, {.rows = -2}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::plan_memory(block, {.rows_of = {{"a", -2}}}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::plan_memory(described({-2, 3})), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::plan_memory(described({large, large})), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::plan_memory(described({-1, large}), {.rows = large}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::plan_memory(described({std::numeric_limits<std::int64_t>::max() / 4})), lod::ShapeMismatch);
  CHECK(lod::plan_memory(described({0, large, large})).bytes == 0);

  BlockDesc huge = chain("abc");
  for (std::size_t i = 2; i < 5; ++i) huge.vars[i].type.lod_tensor->tensor.dims = {large, large >> 20};
  CHECK_THROWS_WITH_AS(lod::plan_memory(huge), "plan_memory: the bytes of all variables exceed 64 bits",
                       lod::ShapeMismatch);
}

TEST_CASE("check: finds what is wrong with a plan") {
  const ProgramDesc program = program_of(chain("abcd"));
  const MemoryPlan good = lod::plan_memory(program);
  const auto refused = [&](const auto& damage, const char* text) {
    MemoryPlan plan = good;
    damage(plan);
    CHECK_THROWS_WITH_AS(lod::check(plan, program), doctest::Contains(text), lod::ShapeMismatch);
  };
  auto& second = good.variables[1];
  refused([](MemoryPlan& plan) { plan.variables[1].buffer = plan.variables[0].buffer; },
          "variables 'b' and 'a' share bytes of buffer 0, and are both needed at operator 2");
  refused([](MemoryPlan& plan) { plan.variables[1].buffer = 2; }, "variable 'b': buffer 2 of 2");
  refused([](MemoryPlan& plan) { plan.variables[1].offset = 64; }, "variable 'b': 64 bytes at 64 of a buffer of 64");
  refused([](MemoryPlan& plan) { plan.variables[1].offset = -64; }, "inside it");
  refused([](MemoryPlan& plan) { plan.buffers = {256, 256}, plan.variables[1].offset = 32; }, "a multiple of 64");
  refused([](MemoryPlan& plan) { plan.variables[1].bytes = 0; }, "variable 'b': 0 bytes, expected 64");
  refused([](MemoryPlan& plan) { plan.variables[1].last_op = 2; }, "operators 2 to 2, expected 2 to 3");
  refused([](MemoryPlan& plan) { plan.variables[1].name = "x"; }, "variable 'x' must have memory of its own");
  refused([&](MemoryPlan& plan) { plan.variables.push_back(second); }, "or is there twice");
  CHECK_THROWS_AS(lod::check(good, program, {.keep = {"b"}}), lod::ShapeMismatch);

  MemoryPlan loose = good;
  loose.variables.erase(loose.variables.begin());
  CHECK_NOTHROW(lod::check(loose, program));
}

TEST_CASE("plan_memory: any program finds its values where the plan puts them") {
  std::size_t variables = 0;
  lod_test::for_each_random_program(1000, {.max_vars = 16}, [&](lod_test::Engine& engine, const ProgramDesc& program) {
    const MemoryPlanOptions options{.rows = lod_test::random_number(engine, -1, 5)};
    const MemoryPlan plan = lod::plan_memory(program, options);
    CHECK_NOTHROW(lod::check(plan, program, options));
    CHECK(plan.bytes_at_once <= plan.bytes);
    CHECK(plan.bytes <= plan.bytes_alone);
    PlannedMemory memory(plan);
    for (std::uint64_t run = 1; run <= 3; ++run) {
      lod_test::Interpreter interpreter(program, memory, run);
      for (const OpDesc& each : program.blocks[0].ops) interpreter(each);
    }
    CHECK(memory.all_intact());
    variables += plan.variables.size();
    for (std::int32_t b = 1; b < static_cast<std::int32_t>(program.blocks.size()); ++b) {
      const MemoryPlanOptions inner{.block = b, .rows = 2};
      CHECK_NOTHROW(lod::check(lod::plan_memory(program, inner), program, inner));
    }
  });
  CHECK(variables > 1000);
}

TEST_CASE("plan_memory: lifetimes are those of a program without inner blocks, looked at operator by operator") {
  lod_test::for_each_random_program(300, {.only_plain = true}, [](lod_test::Engine&, const ProgramDesc& program) {
    const BlockDesc& block = program.blocks[0];
    const MemoryPlan plan = lod::plan_memory(program, {.rows = 3});
    std::map<std::int64_t, std::int64_t> live;
    for (const VarDesc& var : block.vars) {
      std::vector<std::int64_t> uses;
      bool is_read_first = false;
      const auto is_in = [&](const std::vector<OpDesc::Var>& list) {
        return std::any_of(list.begin(), list.end(), [&](const OpDesc::Var& each) {
          return std::find(each.arguments.begin(), each.arguments.end(), var.name) != each.arguments.end();
        });
      };
      for (std::size_t i = 0; i < block.ops.size(); ++i) {
        if (!is_in(block.ops[i].inputs) && !is_in(block.ops[i].outputs)) continue;
        if (uses.empty()) is_read_first = is_in(block.ops[i].inputs);
        uses.push_back(static_cast<std::int64_t>(i));
      }
      const Strings all = names(plan);
      const bool expected = !uses.empty() && !is_read_first && !var.persistable;
      CAPTURE(var.name);
      REQUIRE((std::find(all.begin(), all.end(), var.name) != all.end()) == expected);
      if (!expected) continue;
      CHECK(planned(plan, var.name).first_op == uses.front());
      CHECK(planned(plan, var.name).last_op == uses.back());
      for (std::int64_t i = uses.front(); i <= uses.back(); ++i) live[i] += planned(plan, var.name).bytes;
    }
    std::int64_t most = 0;
    for (const auto& entry : live) most = std::max(most, entry.second);
    CHECK(plan.bytes_at_once == most);
  });
}

TEST_CASE("plan_memory: rarely takes more than the best plan, and never less") {
  int best = 0;
  constexpr int plans = 300;
  for (int i = 0; i < plans; ++i) {
    INFO("LOD_TEST_SEED=", lod_test::first_seed(), ": sample ", i);
    lod_test::Engine engine(lod_test::first_seed() + static_cast<std::uint64_t>(i));
    BlockDesc block;
    for (int n = 0; n < 8; ++n) block.ops.push_back(lod_test::op("any", {}, {}));
    for (const char* name : {"a", "b", "c", "d", "e", "f"}) {
      block.vars.push_back(rows_of_64_bytes(name, lod_test::random_number(engine, 1, 9)));
      const std::size_t first = engine() % block.ops.size();
      block.ops[first].outputs[0].arguments.push_back(name);
      block.ops[first + engine() % (block.ops.size() - first)].inputs[0].arguments.push_back(name);
    }
    // An operator that reads what it writes first would read what nobody wrote.
    for (OpDesc& each : block.ops) {
      std::erase_if(each.inputs[0].arguments, [&](const std::string& name) {
        const auto& outputs = each.outputs[0].arguments;
        return std::find(outputs.begin(), outputs.end(), name) != outputs.end();
      });
    }
    const MemoryPlan plan = lod::plan_memory(block);
    REQUIRE(plan.variables.size() == 6);
    const std::int64_t fewest = fewest_bytes(plan.variables);
    CHECK(plan.bytes >= fewest);
    CHECK(fewest >= plan.bytes_at_once);
    if (plan.bytes == fewest) ++best;
  }
  CAPTURE(best);
  CHECK(best * 10 >= plans * 9);
}

TEST_CASE("plan_memory: programs that PaddlePaddle wrote, in batches of 32") {
  const auto plan_of = [](const std::string& name) {
    CAPTURE(name);
    std::ifstream file(LOD_TEST_DATA "/paddle/" + name, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    const auto program = lod::decode<ProgramDesc>(bytes);
    const MemoryPlanOptions options{.rows = 32};
    MemoryPlan plan = lod::plan_memory(program, options);
    CHECK_NOTHROW(lod::check(plan, program, options));
    CHECK(plan.unknown.empty());
    return plan;
  };
  // The product before the bias is added, and nothing else: the input is fed, the result fetched.
  CHECK(names(plan_of("fit_a_line/__model__")) == Strings{"fc_0.tmp_0"});

  const MemoryPlan plan = plan_of("custom_gap/custom_gap.pdmodel");
  CHECK(plan.variables.size() == 12);
  CHECK(plan.bytes_alone == 46336);
  CHECK(plan.bytes == 38464);
  CHECK(plan.bytes_at_once == 38464);
}

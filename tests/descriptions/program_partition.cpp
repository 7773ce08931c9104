// SPDX-License-Identifier: Apache-2.0
// Programs in parts. The reference for what the parts send each other is what happens: all parts run, each with memory
// of its own, and every operator must read and write what it does when one worker runs the whole.
#include "random_program.hpp"
#include <lod/program_partition.hpp>
#include <lod/proto/program_part.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

using lod::BlockDesc;
using lod::OpDesc;
using lod::ProgramDesc;
using lod::ProgramPart;
using lod::Transfer;
using lod::VarDesc;
using lod::VarType;
using lod_test::RandomProgram;
using Strings = std::vector<std::string>;

namespace {

using Assignment = std::vector<std::int64_t>;

VarDesc tensor(const std::string& name) { return VarDesc::lod_tensor(name, {lod::DataType::FP32, {-1, 8}}); }
VarDesc parameter(const std::string& name) {
  VarDesc var = VarDesc::lod_tensor(name, {lod::DataType::FP32, {8, 8}});
  var.persistable = true;
  return var;
}

/// x, w -> h -> y; the loss trains w.
ProgramDesc small_program() {
  ProgramDesc program;
  program.blocks = {BlockDesc{.vars = {tensor("x"), parameter("w"), tensor("h"), tensor("y"), tensor("spare")},
                              .ops = {lod_test::op("mul", {"x", "w"}, {"h"}), lod_test::op("relu", {"h"}, {"y"}),
                                      lod_test::op("sgd", {"y", "w"}, {"w"})}}};
  return program;
}

std::vector<std::string> names(const std::vector<VarDesc>& vars) {
  std::vector<std::string> all;
  for (const VarDesc& var : vars) all.push_back(var.name);
  return all;
}
std::vector<std::string> types(const std::vector<OpDesc>& ops) {
  std::vector<std::string> all;
  for (const OpDesc& each : ops) all.push_back(each.type);
  return all;
}

/// The memory of one worker. What nothing has written has a value from outside; at the begin of a run all but what is
/// persistable is forgotten.
class Memory {
 public:
  explicit Memory(std::set<std::string> persistable) : persistable_(std::move(persistable)) {}
  void begin_run(std::uint64_t run) {
    run_ = run;
    std::erase_if(values_, [&](const auto& entry) { return !persistable_.contains(entry.first); });
  }
  std::uint64_t read(const std::string& name) const {
    const auto found = values_.find(name);
    if (found != values_.end()) return found->second;
    return lod_test::mix(persistable_.contains(name) ? 0 : run_, name);
  }
  void write(const std::string& name, std::uint64_t value) { values_[name] = value; }

 private:
  std::set<std::string> persistable_;
  std::uint64_t run_ = 0;
  std::map<std::string, std::uint64_t> values_;
};

/// For each run and operator, by its id, what it read and wrote.
using Trace = std::map<std::pair<std::uint64_t, std::int32_t>, std::uint64_t>;
constexpr std::uint64_t runs = 3;

Trace run_whole(const ProgramDesc& program) {
  Trace trace;
  Memory memory(lod_test::persistable_names(program));
  for (std::uint64_t run = 1; run <= runs; ++run) {
    memory.begin_run(run);
    lod_test::Interpreter interpreter(program, memory, run);
    for (const OpDesc& each : program.blocks[0].ops) {
      trace[{run, each.attr<std::int32_t>("id")}] = interpreter(each);
    }
  }
  return trace;
}

/// Runs all parts at the same time, as far as each gets until it waits for the others. What is sent waits in a queue
/// for each variable and pair of parts.
Trace run_parts(const std::vector<ProgramPart>& parts) {
  Trace trace;
  std::vector<Memory> memories;
  std::set<std::string> persistable;
  for (const ProgramPart& part : parts) persistable.merge(lod_test::persistable_names(part.program));
  memories.assign(parts.size(), Memory(persistable));
  for (std::uint64_t run = 1; run <= runs; ++run) {
    std::map<std::tuple<std::string, std::int64_t, std::int64_t>, std::deque<std::uint64_t>> mail;
    std::vector<std::size_t> position(parts.size()), received(parts.size());
    for (Memory& memory : memories) memory.begin_run(run);
    for (bool went_on = true; went_on;) {
      went_on = false;
      for (std::size_t p = 0; p < parts.size(); ++p) {
        const ProgramPart& part = parts[p];
        const auto& ops = part.program.blocks[0].ops;
        lod_test::Interpreter interpreter(part.program, memories[p], run);
        while (position[p] <= ops.size()) {
          bool waits = false;
          for (; received[p] < part.receives.size() && !waits; ++received[p]) {
            const Transfer& transfer = part.receives[received[p]];
            if (static_cast<std::size_t>(transfer.before) > position[p]) break;
            auto& queue = mail[{transfer.variable, transfer.from, transfer.to}];
            waits = queue.empty();
            if (waits) break;
            memories[p].write(transfer.variable, queue.front());
            queue.pop_front();
          }
          if (waits) break;
          went_on = true;
          if (position[p] < ops.size()) {
            const OpDesc& each = ops[position[p]];
            trace[{run, each.attr<std::int32_t>("id")}] = interpreter(each);
            for (const Transfer& transfer : part.sends) {
              if (static_cast<std::size_t>(transfer.after) != position[p]) continue;
              mail[{transfer.variable, transfer.from, transfer.to}].push_back(memories[p].read(transfer.variable));
            }
          }
          ++position[p];
        }
      }
    }
    for (std::size_t p = 0; p < parts.size(); ++p) {
      INFO("part ", p, " waits for ever");
      REQUIRE(position[p] == parts[p].program.blocks[0].ops.size() + 1);
    }
    for (const auto& entry : mail) CHECK(entry.second.empty());
  }
  return trace;
}

/// Random programs, each with a number of workers and the worker of each operator of block 0.
template <class Body>
void for_each_random_assignment(int count, const RandomProgram& kind, const Body& body) {
  lod_test::for_each_random_program(count, kind, [&](lod_test::Engine& engine, const ProgramDesc& program) {
    const std::int64_t parts = lod_test::random_number(engine, 1, 4);
    Assignment assignment;
    for (std::size_t each = 0; each < program.blocks[0].ops.size(); ++each) {
      assignment.push_back(lod_test::random_number(engine, 0, parts - 1));
    }
    body(program, assignment, parts);
  });
}

}  // namespace

TEST_CASE("split: operators in their order, the variables that they use, and what goes from part to part") {
  const ProgramDesc program = small_program();
  const auto parts = lod::split(program, Assignment{0, 1, 0}, 2);
  REQUIRE(parts.size() == 2);

  CHECK(types(parts[0].program.blocks[0].ops) == Strings{"mul", "sgd"});
  CHECK(names(parts[0].program.blocks[0].vars) == Strings{"x", "w", "h", "y", "spare"});
  CHECK(parts[0].sends == std::vector<Transfer>{{.variable = "h", .from = 0, .to = 1, .after = 0, .before = 0}});
  CHECK(parts[0].receives == std::vector<Transfer>{{.variable = "y", .from = 1, .to = 0, .after = 0, .before = 1}});
  CHECK(parts[0].ops == std::vector<std::int64_t>{0, 2});

  CHECK(types(parts[1].program.blocks[0].ops) == Strings{"relu"});
  CHECK(names(parts[1].program.blocks[0].vars) == Strings{"h", "y"});
  CHECK(parts[1].sends == parts[0].receives);
  CHECK(parts[1].receives == parts[0].sends);
  CHECK(parts[1].vars == std::vector<std::int64_t>{2, 3});

  CHECK(lod::join(parts) == program);
}

TEST_CASE("split: a parameter that another part trains comes back for the next run") {
  const auto parts = lod::split(small_program(), Assignment{0, 0, 1}, 2);
  const std::vector<Transfer> to_trainer{{.variable = "y", .from = 0, .to = 1, .after = 1, .before = 0}};
  const std::vector<Transfer> back{{.variable = "w", .from = 1, .to = 0, .after = 0, .before = 2}};
  CHECK(parts[0].sends == to_trainer);
  CHECK(parts[0].receives == back);
  CHECK(parts[1].sends == back);
}

TEST_CASE("split: a value goes once to each part that reads it, a new value again") {
  ProgramDesc program;
  program.blocks = {BlockDesc{
      .vars = {tensor("a"), tensor("b")},
      .ops = {lod_test::op("make", {}, {"a"}), lod_test::op("use", {"a"}, {}), lod_test::op("use", {"a"}, {}),
              lod_test::op("make", {}, {"a"}), lod_test::op("use", {"a"}, {}), lod_test::op("use", {"a"}, {})}}};
  const auto parts = lod::split(program, Assignment{0, 1, 1, 0, 1, 0}, 2);
  CHECK(parts[0].sends == std::vector<Transfer>{{.variable = "a", .from = 0, .to = 1, .after = 0, .before = 0},
                                                {.variable = "a", .from = 0, .to = 1, .after = 1, .before = 2}});
  CHECK(parts[0].receives.empty());
}

TEST_CASE("split: attributes that name variables read them") {
  ProgramDesc program;
  program.blocks = {
      BlockDesc{.vars = {tensor("axis"), tensor("axes"), tensor("x")},
                .ops = {lod_test::op("make", {}, {"axis", "axes", ""}), lod_test::op("sum", {"x", "@EMPTY@"}, {})}}};
  OpDesc& sum = program.blocks[0].ops[1];
  sum.attrs.push_back({.name = "axis", .type = lod::AttrType::VAR, .var_name = "axis"});
  sum.attrs.push_back({.name = "axes", .type = lod::AttrType::VARS, .vars_name = {"axes"}});
  sum.attrs.push_back({.name = "text", .type = lod::AttrType::STRING, .var_name = "x"});  // another type's field
  const auto parts = lod::split(program, Assignment{0, 1}, 2);
  CHECK(parts[0].sends == std::vector<Transfer>{{.variable = "axis", .from = 0, .to = 1, .after = 0, .before = 0},
                                                {.variable = "axes", .from = 0, .to = 1, .after = 0, .before = 0}});
}

TEST_CASE("split: an array that two parts write into goes from one to the other, a list of results does not") {
  ProgramDesc program;
  program.blocks = {BlockDesc{
      .vars = {VarDesc::lod_tensor_array("steps", {}), VarDesc::of_type("fetch", VarType::FETCH_LIST), tensor("x")},
      .ops = {lod_test::op("write_to_array", {"x"}, {"steps"}), lod_test::op("write_to_array", {"x"}, {"steps"}),
              lod_test::op("fetch", {"x"}, {"fetch"}), lod_test::op("fetch", {"x"}, {"fetch"}),
              lod_test::op("print", {"fetch"}, {})}}};
  program.blocks[0].vars[1].persistable = true;
  const auto parts = lod::split(program, Assignment{0, 1, 0, 1, 0}, 2);
  CHECK(parts[0].sends == std::vector<Transfer>{{.variable = "steps", .from = 0, .to = 1, .after = 0, .before = 0}});
  CHECK(parts[1].sends.empty());
  CHECK(names(parts[1].program.blocks[0].vars) == Strings{"steps", "fetch", "x"});
}

TEST_CASE("split: inner blocks go with the operators that own them, and are numbered anew") {
  ProgramDesc program = small_program();
  program.blocks[0].ops.push_back(lod_test::op("while", {}, {}));
  program.blocks[0].ops.push_back(lod_test::op("while", {}, {}));
  program.blocks.push_back({.idx = 1, .parent_idx = 0, .ops = {lod_test::op("inner", {"x"}, {"a"})}});
  program.blocks.push_back(
      {.idx = 2, .parent_idx = 0, .vars = {tensor("own")}, .ops = {lod_test::op("cond", {"own"}, {"y"})}});
  program.blocks.push_back({.idx = 3, .parent_idx = 2, .ops = {lod_test::op("deep", {"h"}, {"own"})}});
  RandomProgram::add_block(program.blocks[0].ops[3], 1);
  RandomProgram::add_block(program.blocks[0].ops[4], 2);
  program.blocks[2].ops[0].attrs.push_back({.name = "blocks", .type = lod::AttrType::BLOCKS, .blocks_idx = {3}});

  const auto parts = lod::split(program, Assignment{0, 0, 0, 0, 1}, 2);
  CHECK(parts[0].blocks == std::vector<std::int32_t>{0, 1});
  CHECK(parts[1].blocks == std::vector<std::int32_t>{0, 2, 3});
  const ProgramDesc& second = parts[1].program;
  CHECK_NOTHROW(lod::validate(second));
  CHECK(second.blocks[0].ops[0].attrs[0].block_idx == 1);
  CHECK(second.blocks[1].ops[0].attrs[0].blocks_idx == std::vector<std::int32_t>{2});
  CHECK(second.blocks[2].parent_idx == 1);
  // Of block 0 what the inner blocks use, but not "own", which is block 2's.
  CHECK(names(second.blocks[0].vars) == Strings{"h", "y"});
  CHECK(parts[1].receives == std::vector<Transfer>{{.variable = "h", .from = 0, .to = 1, .after = 0, .before = 0},
                                                   {.variable = "y", .from = 0, .to = 1, .after = 1, .before = 0}});
  CHECK(lod::join(parts) == program);
}

TEST_CASE("split: the block of a gradient brings along the one whose gradient it computes") {
  ProgramDesc program = small_program();
  program.blocks.push_back({.idx = 1, .parent_idx = 0, .ops = {lod_test::op("inner", {"x"}, {})}});
  program.blocks.push_back({.idx = 2, .parent_idx = 0, .forward_block_idx = 1});
  RandomProgram::add_block(program.blocks[0].ops[0], 1);
  RandomProgram::add_block(program.blocks[0].ops[2], 2);
  const auto parts = lod::split(program, Assignment{0, 0, 1}, 2);
  CHECK(parts[1].blocks == std::vector<std::int32_t>{0, 1, 2});
  CHECK(parts[1].program.blocks[2].forward_block_idx == 1);
  CHECK(lod::join(parts) == program);
}

TEST_CASE("split: a persistable variable that inner blocks describe is one for all of them") {
  ProgramDesc program = small_program();
  program.blocks[0].ops = {lod_test::op("cond", {}, {}), lod_test::op("cond", {}, {}), lod_test::op("cond", {}, {})};
  for (std::int32_t b = 1; b <= 3; ++b) {
    RandomProgram::add_block(program.blocks[0].ops[static_cast<std::size_t>(b) - 1], b);
    program.blocks.push_back({.idx = b, .parent_idx = 0, .vars = {parameter("count"), tensor("t")}});
  }
  program.blocks[1].ops = {lod_test::op("use", {"count"}, {"t"})};
  program.blocks[2].ops = {lod_test::op("count", {"t"}, {"count"})};
  program.blocks[3].ops = {lod_test::op("use", {"count"}, {"t"})};
  const auto parts = lod::split(program, Assignment{0, 1, 2}, 3);
  const std::vector<Transfer> sends{{.variable = "count", .from = 1, .to = 2, .after = 0, .before = 0},
                                    {.variable = "count", .from = 1, .to = 0, .after = 0, .before = 1}};
  CHECK(parts[1].sends == sends);
  // An operator that owns blocks may leave what it writes as it was, and block 1 may have been the last to write it.
  program.blocks[1].vars[0] = VarDesc::of_type("count", VarType::RAW);
  program.blocks[1].vars[0].persistable = true;
  CHECK_THROWS_WITH_AS(lod::split(program, Assignment{0, 1, 2}, 3), doctest::Contains("it is a RAW"),
                       lod::InvalidProgram);
}

TEST_CASE("split: what the block of a gradient takes from its forward block is no variable of block 0") {
  ProgramDesc program = small_program();
  program.blocks[0].ops = {lod_test::op("make", {}, {"h"}), lod_test::op("while", {}, {}),
                           lod_test::op("while_grad", {}, {}), lod_test::op("use", {"h"}, {})};
  program.blocks.push_back(
      {.idx = 1, .parent_idx = 0, .vars = {tensor("h")}, .ops = {lod_test::op("make", {}, {"h"})}});
  program.blocks.push_back({.idx = 2, .parent_idx = 0, .ops = {lod_test::op("inner", {"h", "x"}, {"h"})}});
  program.blocks[2].forward_block_idx = 1;
  RandomProgram::add_block(program.blocks[0].ops[1], 1);
  RandomProgram::add_block(program.blocks[0].ops[2], 2);
  auto parts = lod::split(program, Assignment{0, 1, 1, 0}, 2);
  CHECK(parts[0].sends.empty());
  CHECK(parts[1].sends.empty());
  program.blocks[2].forward_block_idx.reset();
  parts = lod::split(program, Assignment{0, 1, 1, 0}, 2);
  CHECK(parts[0].sends == std::vector<Transfer>{{.variable = "h", .from = 0, .to = 1, .after = 0, .before = 1}});
  CHECK(parts[1].sends == std::vector<Transfer>{{.variable = "h", .from = 1, .to = 0, .after = 1, .before = 1}});
}

TEST_CASE("split: into more parts than there are operators, and of a program without any") {
  const auto parts = lod::split(small_program(), Assignment{3, 3, 3}, 5);
  CHECK(parts[0].program.blocks[0].ops.empty());
  CHECK(names(parts[0].program.blocks[0].vars) == Strings{"spare"});
  CHECK(parts[4].program.blocks[0].vars.empty());
  CHECK(parts[3].sends.empty());
  CHECK(lod::join(parts) == small_program());

  ProgramDesc empty;
  empty.blocks.emplace_back();
  CHECK(lod::join(lod::split(empty, Assignment{}, 2)) == empty);
}

TEST_CASE("split: what is wrong is refused") {
  const ProgramDesc program = small_program();
  CHECK_THROWS_WITH_AS(lod::split(program, Assignment{0, 0}, 1), "split: 2 numbers of parts for 3 operators",
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::split(program, Assignment{0, 2, 0}, 2), "split: operator 1 to part 2, expected 0 to 1",
                       lod::OutOfRange);
  CHECK_THROWS_AS(lod::split(program, Assignment{0, -1, 0}, 2), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::split(program, Assignment{0, 0, 0}, 0), "split: into 0 parts, expected 1 or more",
                       lod::OutOfRange);
  CHECK_THROWS_AS(lod::split(ProgramDesc{}, Assignment{}, 1), lod::InvalidProgram);

  ProgramDesc bound = program;
  bound.blocks[0].vars[2] = VarDesc::of_type("h", VarType::STEP_SCOPES);
  CHECK_NOTHROW(lod::split(bound, Assignment{0, 0, 1}, 2));
  CHECK_THROWS_WITH_AS(lod::split(bound, Assignment{0, 1, 1}, 2),
                       "split: variable 'h' cannot go from part 0 to part 1: it is a STEP_SCOPES", lod::InvalidProgram);
}

TEST_CASE("split: a block that lies in itself is refused, and so are blocks that lie too deep") {
  ProgramDesc program = small_program();
  program.blocks.push_back({.idx = 1, .parent_idx = 0, .ops = {lod_test::op("while", {}, {})}});
  RandomProgram::add_block(program.blocks[0].ops[0], 1);
  RandomProgram::add_block(program.blocks[1].ops[0], 1);
  CHECK_THROWS_AS(lod::split(program, Assignment{0, 0, 0}, 1), lod::InvalidProgram);
  program.blocks[1].ops[0].attrs[0].block_idx = 0;
  CHECK_THROWS_AS(lod::split(program, Assignment{0, 0, 0}, 1), lod::InvalidProgram);

  const auto nested = [](std::int32_t depth) {
    ProgramDesc deep;
    for (std::int32_t b = 0; b <= depth; ++b) {
      deep.blocks.push_back({.idx = b, .parent_idx = b - 1, .ops = {lod_test::op("while", {}, {})}});
      if (b < depth) RandomProgram::add_block(deep.blocks.back().ops[0], b + 1);
    }
    return deep;
  };
  CHECK_NOTHROW(lod::split(nested(lod::DataFlow::max_depth), Assignment{0}, 1));
  CHECK_THROWS_AS(lod::split(nested(lod::DataFlow::max_depth + 1), Assignment{0}, 1), lod::InvalidProgram);
  CHECK_THROWS_AS(lod::split(nested(100000), Assignment{0}, 1), lod::InvalidProgram);
}

TEST_CASE("join: the parts of any program, encoded and decoded, give it back, byte for byte") {
  for_each_random_assignment(400, {}, [](const ProgramDesc& program, const Assignment& assignment, std::int64_t count) {
    const auto parts = lod::split(program, assignment, count);
    std::vector<ProgramPart> shuffled(parts.rbegin(), parts.rend());
    for (ProgramPart& part : shuffled) {
      CHECK_NOTHROW(lod::validate(part.program));
      const std::string bytes = lod::encode(part);
      const ProgramPart sent = std::exchange(part, lod::decode<ProgramPart>(bytes));
      CHECK(part.sends == sent.sends);
      CHECK(part.receives == sent.receives);
      CHECK(lod::encode(part) == bytes);
    }
    const ProgramDesc whole = lod::join(shuffled);
    CHECK(whole == program);
    CHECK(lod::encode(whole) == lod::encode(program));
  });
}

TEST_CASE("split: the parts of any program, run on their own, compute what the whole does") {
  for_each_random_assignment(400, {}, [](const ProgramDesc& program, const Assignment& assignment, std::int64_t count) {
    CHECK(run_parts(lod::split(program, assignment, count)) == run_whole(program));
  });
}

TEST_CASE("split: nothing is transferred that is not read") {
  std::size_t transfers = 0;
  const RandomProgram plain{.only_plain = true};
  for_each_random_assignment(150, plain,
                             [&](const ProgramDesc& program, const Assignment& assignment, std::int64_t count) {
                               const auto parts = lod::split(program, assignment, count);
                               const Trace whole = run_whole(program);
                               for (std::size_t p = 0; p < parts.size(); ++p) {
                                 for (const Transfer& transfer : parts[p].sends) {
                                   CAPTURE(transfer.variable);
                                   auto without = parts;
                                   std::erase(without[p].sends, transfer);
                                   std::erase(without[static_cast<std::size_t>(transfer.to)].receives, transfer);
                                   CHECK(run_parts(without) != whole);
                                   ++transfers;
                                 }
                               }
                             });
  CHECK(transfers > 100);
}

TEST_CASE("join: operators that were changed meanwhile stay changed") {
  auto parts = lod::split(small_program(), Assignment{0, 1, 0}, 2);
  parts[1].program.blocks[0].ops[0].type = "tanh";
  CHECK(types(lod::join(parts).blocks[0].ops) == Strings{"mul", "tanh", "sgd"});
}

TEST_CASE("join: parts that do not make a whole are refused") {
  const auto parts = lod::split(small_program(), Assignment{0, 1, 0}, 2);
  const auto refused = [](const std::vector<ProgramPart>& some, const char* text) {
    CHECK_THROWS_WITH_AS(lod::join(some), doctest::Contains(text), lod::InvalidProgram);
  };
  refused({}, "join: no part, expected at least one");
  refused({parts[0]}, "join: no part has operator 1 of 3");
  refused({parts[1]}, "join: no part has variable 0 of 5");
  refused({parts[0], parts[1], parts[1]}, "join: two parts have the same operator");
  auto changed = parts;
  changed[1].program.blocks[0].vars[0].persistable = true;
  refused(changed, "join: two parts have variable 2, and differ");
  changed = parts;
  changed[1].ops[0] = 2;
  refused(changed, "join: two parts have operator 2, and differ");
  changed[1].ops[0] = -1;
  refused(changed, "join: a part has operator -1 of 3");
  changed[1].ops[0] = 3;
  refused(changed, "join: a part has operator 3 of 3");
  changed[1].ops.clear();
  refused(changed, "join: part 1 has places for 0 operators, expected 1");
  changed = parts;
  changed[0].blocks[0] = 1;
  refused(changed, "join: block 0 of part 0 is block 1, expected 0");
  changed = parts;
  changed[1].program.version = lod::Version{.version = 2};
  refused(changed, "join: the parts are not of one program");
  changed = parts;
  changed[1].whole_ops = 0;
  refused(changed, "join: part 1 is of a whole with 0 operators, part 0 with 3");
  changed = parts;
  changed[0].program.blocks.clear();
  refused(changed, "a program with no block");
}

TEST_CASE("join: the last part is missed as any other is") {
  ProgramDesc program = small_program();
  RandomProgram::add_block(program.blocks[0].ops[2], 1);
  program.blocks.push_back({.idx = 1, .parent_idx = 0});
  const auto refused = [&](const Assignment& assignment, const char* text) {
    auto parts = lod::split(program, assignment, 2);
    CHECK(lod::join(parts) == program);
    parts.pop_back();
    CHECK_THROWS_WITH_AS(lod::join(parts), doctest::Contains(text), lod::InvalidProgram);
  };
  refused({0, 0, 1}, "join: no part has block 1 of 2");
  program.blocks.pop_back();
  program.blocks[0].ops[2].attrs.clear();
  refused({0, 0, 1}, "join: no part has operator 2 of 3");
  program.blocks[0].vars.pop_back();
  program.blocks[0].ops = {lod_test::op("mul", {"x", "w"}, {"h"}), lod_test::op("make", {}, {"y"})};
  refused({0, 1}, "join: no part has variable 3 of 4");
  // A part that has nothing is not missed.
  CHECK(lod::join(std::vector<ProgramPart>{lod::split(program, Assignment{0, 0}, 2)[0]}) == program);
}

TEST_CASE("join: what several parts have is compared by its bytes") {
  // Both operators own block 1, so that each part has it.
  ProgramDesc program = small_program();
  program.blocks[0].ops.resize(2);
  RandomProgram::add_block(program.blocks[0].ops[0], 1);
  RandomProgram::add_block(program.blocks[0].ops[1], 1);
  program.blocks.push_back(
      {.idx = 1, .parent_idx = 0, .vars = {tensor("t")}, .ops = {lod_test::op("fill", {}, {"t"})}});
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  OpDesc::Attr fill{.name = "all", .type = lod::AttrType::FLOAT, .f = static_cast<float>(nan)};
  fill.floats = {1, static_cast<float>(nan)};
  fill.float64s = {nan, -0.0};
  fill.float64 = nan;
  fill.scalar = lod::ScalarDesc{.r = nan, .c = lod::ComplexDesc{nan, nan}};
  fill.scalars = {*fill.scalar, {}};
  program.blocks[1].ops[0].attrs.push_back(fill);

  const auto parts = lod::split(program, Assignment{0, 1}, 2);
  CHECK(lod::encode(lod::join(parts)) == lod::encode(program));
  const auto refused = [&](const auto& change) {
    auto changed = parts;
    change(changed[1].program.blocks[1]);
    CHECK_THROWS_WITH_AS(lod::join(changed), "join: two parts have block 1, and differ", lod::InvalidProgram);
  };
  refused([](BlockDesc& block) { block.ops[0].attrs[0].f = -*block.ops[0].attrs[0].f; });
  refused([](BlockDesc& block) { block.ops[0].attrs[0].floats[0] = 2; });
  refused([](BlockDesc& block) { block.ops[0].attrs[0].float64s[1] = 0.0; });
  refused([](BlockDesc& block) { block.ops[0].attrs[0].float64.reset(); });
  refused([](BlockDesc& block) { block.ops[0].attrs[0].scalar->c->i = 1; });
  refused([](BlockDesc& block) { block.ops[0].attrs[0].scalars[1].r = 1; });
  // An absent field reads as one that is set to its default, and is encoded as nothing.
  refused([](BlockDesc& block) { block.ops[0].is_target = false; });
  refused([](BlockDesc& block) { block.vars[0].persistable = false; });
  refused([](BlockDesc& block) { block.vars[0].type.lod_tensor->lod_level = 0; });
  refused([](BlockDesc& block) { block.forward_block_idx = -1; });
}

TEST_CASE("split: programs that PaddlePaddle wrote, cut before each operator") {
  for (const std::string name : {"fit_a_line/__model__", "custom_gap/custom_gap.pdmodel"}) {
    CAPTURE(name);
    std::ifstream file(LOD_TEST_DATA "/paddle/" + name, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    const auto program = lod::decode<ProgramDesc>(bytes);
    const std::vector<OpDesc>& ops = program.blocks[0].ops;
    REQUIRE(ops.size() > 3);
    for (std::size_t cut = 0; cut <= ops.size(); ++cut) {
      CAPTURE(cut);
      Assignment assignment(ops.size(), 1);
      std::fill_n(assignment.begin(), cut, 0);
      const auto parts = lod::split(program, assignment, 2);
      CHECK(lod::encode(lod::join(parts)) == bytes);
      CHECK(parts[1].sends.empty());

      // What is made before the cut and read after it.
      std::set<std::string> made, expected, found;
      for (std::size_t i = 0; i < ops.size(); ++i) {
        for (const OpDesc::Var& list : i < cut ? ops[i].outputs : ops[i].inputs) {
          for (const std::string& argument : list.arguments) {
            if (i < cut) made.insert(argument);
            if (i >= cut && made.contains(argument)) expected.insert(argument);
          }
        }
      }
      for (const Transfer& transfer : parts[0].sends) found.insert(transfer.variable);
      CHECK(found == expected);
      CHECK(found.size() == parts[0].sends.size());
    }
  }
}

// SPDX-License-Identifier: Apache-2.0
// Gradients through loops, branches, recurrences and arrays, against differences. paddle_control.py compares them with
// PaddlePaddle itself.
#include "programs/one_operator.hpp"
#include "support/count_allocations.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::OpDesc;
using lod::ProgramDesc;
using lod::VarType;
using lod_test::add_block;
using lod_test::attr;
using lod_test::block_attr;
using lod_test::constant;
using lod_test::numbers;
using lod_test::op;
using lod_test::plain;
using lod_test::program_of;
using lod_test::ragged;
using lod_test::retype;
using lod_test::tensor_var;

namespace {

using Names = std::vector<std::string>;

OpDesc unary(const std::string& type, const std::string& x, const std::string& out) {
  return op(type, {{"X", {x}}}, {{"Out", {out}}});
}
OpDesc binary(const std::string& type, const std::string& x, const std::string& y, const std::string& out) {
  return op(type, {{"X", {x}}, {"Y", {y}}}, {{"Out", {out}}});
}
OpDesc zero(const std::string& counter) { return constant(counter, {1}, 0, lod::DataType::INT64); }
OpDesc count(const std::string& counter) { return unary("increment", counter, counter); }
OpDesc write(const std::string& x, const std::string& i, const std::string& array) {
  return op("write_to_array", {{"X", {x}}, {"I", {i}}}, {{"Out", {array}}});
}
OpDesc read(const std::string& array, const std::string& i, const std::string& out) {
  return op("read_from_array", {{"X", {array}}, {"I", {i}}}, {{"Out", {out}}});
}
OpDesc loop(const std::string& condition, const Names& x, const Names& out, const std::string& scopes, int block) {
  return op("while", {{"X", x}, {"Condition", {condition}}}, {{"Out", out}, {"StepScopes", {scopes}}},
            {block_attr(block)});
}
OpDesc branch(const std::string& condition, const Names& input, const Names& out, int block) {
  return op("conditional_block", {{"Cond", {condition}}, {"Input", input}}, {{"Out", out}, {"Scope", {"scopes"}}},
            {block_attr(block), attr("is_scalar_condition", true)});
}
/// The sum of all squares, which needs no rows.
std::vector<OpDesc> with_loss(std::vector<OpDesc> ops, const std::string& y) {
  ops.push_back(unary("square", y, "squares"));
  ops.push_back(op("reduce_sum", {{"X", {"squares"}}}, {{"Out", {"loss"}}}, {attr("reduce_all", true)}));
  return ops;
}
lod::LoDTensor<float> in_float(const AnyLoDTensor& x) {
  lod::LoDTensor<float> y;
  y.resize(x.lod(), x.row_shape(), x.rows());
  const auto values = numbers<double>(x);
  for (std::size_t i = 0; i < values.size(); ++i) y.data()[i] = static_cast<float>(values[i]);
  return y;
}

/// The program for numbers of a type.
ProgramDesc typed(ProgramDesc program, lod::DataType type) {
  for (lod::VarDesc& one : program.blocks[0].vars) {
    if (one.name == "loss") one = lod::VarDesc::lod_tensor("loss", {type, {1}});
    // What arrays without tensors give has the type and the rows that are described.
    const bool is_of_array = (one.name == "x" || one.name == "y") && program.blocks[0].ops[0].type == "lod_rank_table";
    if (is_of_array) one = lod::VarDesc::lod_tensor(one.name, {type, {-1, 2}}, 1);
  }
  return program;
}
/// The program with gradients of `loss` by those that are fed as double, which `parameters` lists then.
ProgramDesc with_gradients(ProgramDesc program, const lod::Feed& feed, Names& parameters,
                           lod::DataType type = lod::DataType::FP64) {
  parameters.clear();
  for (const auto& [name, value] : feed) {
    if (value.data_type() == lod::DataType::FP64) parameters.push_back(name);
  }
  program = typed(std::move(program), type);
  const auto pairs = lod::append_backward(program, "loss", {.parameters = parameters});
  parameters.clear();
  for (const auto& one : pairs) parameters.push_back(one.parameter);
  lod::infer_shapes(program);
  return program;
}

/// Checks the gradients of `loss` by what is fed as double, on double against differences, on float against those. A
/// second run must allocate nothing unless `allocates`.
void check(const ProgramDesc& program, lod::Feed feed, bool allocates = false) {
  Names parameters, fetch{"loss"};
  const ProgramDesc trained = with_gradients(program, feed, parameters);
  for (const std::string& name : parameters) fetch.push_back(lod::gradient_name(name));
  lod::Scope scope;
  const lod::CpuExecutor executor(1);
  lod::PreparedProgram forward(executor, typed(program, lod::DataType::FP64), scope, {"loss"}),
      both(executor, trained, scope, fetch);
  const std::vector<AnyLoDTensor> found = both.run(feed);
  CHECK(numbers<double>(found[0]) == numbers<double>(forward.run(feed)[0]));
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    CAPTURE(parameters[k]);
    const AnyLoDTensor x = feed[parameters[k]];
    const auto slopes = numbers<double>(found[k + 1]);
    CHECK(found[k + 1].shape() == x.shape());
    REQUIRE(slopes.size() == static_cast<std::size_t>(x.rows() * x.row_size()));
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      CAPTURE(i);
      const auto loss_at = [&](double by) {
        auto moved = x.copy<double>();
        moved.data()[i] += by;
        feed[parameters[k]] = std::move(moved);
        return numbers<double>(forward.run(feed)[0])[0];
      };
      const double step = 1e-5;
      CHECK(slopes[i] == doctest::Approx((loss_at(step) - loss_at(-step)) / (2 * step)).epsilon(1e-6).scale(1));
    }
    feed[parameters[k]] = x;
  }
  const ProgramDesc of_floats = with_gradients(program, feed, parameters, lod::DataType::FP32);
  for (auto& [name, value] : feed) {
    if (value.data_type() == lod::DataType::FP64) value = in_float(value);
  }
  lod::PreparedProgram again(executor, of_floats, scope, fetch);
  for (int run = 0; run < 3; ++run) again.run(feed);
  const std::int64_t before = lod_test::allocations;
  const auto& in_floats = again.run(feed);
  if (lod_test::counts_allocations && !allocates) CHECK(lod_test::allocations == before);
  for (std::size_t k = 0; k < in_floats.size(); ++k) {
    const auto expected = numbers<double>(found[k]);
    const auto numbers_found = numbers<float>(in_floats[k]);
    REQUIRE(numbers_found.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(static_cast<double>(numbers_found[i]) == doctest::Approx(expected[i]).epsilon(1e-4).scale(1));
    }
  }
}

AnyLoDTensor truth(bool value) {
  lod::LoDTensor<bool> x;
  x.resize(lod::LoD(), lod::Shape(), 1);
  x.data()[0] = value;
  return x;
}
AnyLoDTensor id(std::int64_t value) { return plain<std::int64_t>({1}, {value}); }
AnyLoDTensor drawn(const lod::Shape& shape, double first = 0.3) {
  std::vector<double> values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(first + 1.7 * static_cast<double>(i));
  return plain<double>(shape, values);
}

/// y = x; n times y = tanh(y w); last = y v, which the loop alone writes.
ProgramDesc simple_loop(const std::string& result) {
  ProgramDesc program = program_of(with_loss(
      {zero("i"), unary("assign", "x", "y"), unary("assign", "x", "last"), binary("less_than", "i", "n", "more"),
       loop("more", {"y", "w", "v", "i", "n"}, {"y", "last", "i", "more"}, "scopes", 1),
       binary("elementwise_mul", "y", "last", "product")},
      result));
  retype(program, VarType::STEP_SCOPES, {"scopes"});
  add_block(
      program,
      {binary("mul", "y", "w", "a"), unary("tanh", "a", "b"), unary("assign", "b", "y"), binary("mul", "b", "v", "c"),
       unary("assign", "c", "last"), count("i"), binary("less_than", "i", "n", "more")},
      {"a", "b", "c"});
  return program;
}

TEST_CASE("append_backward: while, with values that go on, that only the last step leaves, and parameters") {
  for (const char* result : {"y", "last", "product"}) {
    for (const std::int64_t steps : {0, 1, 3}) {
      for (const std::int64_t rows : {0, 2}) {
        CAPTURE(result);
        CAPTURE(steps);
        CAPTURE(rows);
        check(simple_loop(result),
              {{"x", drawn({rows, 2})}, {"w", drawn({2, 2})}, {"v", drawn({2, 2})}, {"n", id(steps)}});
      }
    }
  }
}

/// A recurrent network over sequences, the longest first. Its states are also read where they are not the step's.
ProgramDesc network_of_sequences() {
  ProgramDesc program = program_of(
      with_loss({op("lod_rank_table", {{"X", {"x"}}}, {{"Out", {"table"}}}),
                 op("max_sequence_len", {{"RankTable", {"table"}}}, {{"Out", {"n"}}}),
                 op("lod_tensor_to_array", {{"X", {"x"}}, {"RankTable", {"table"}}}, {{"Out", {"xs"}}}),
                 op("reorder_lod_tensor_by_rank", {{"X", {"first"}}, {"RankTable", {"table"}}}, {{"Out", {"ordered"}}}),
                 zero("i"), zero("begin"), write("ordered", "i", "states"), binary("less_than", "i", "n", "more"),
                 loop("more", {"i", "n", "xs", "states", "w", "table"}, {"i", "more", "states", "ys"}, "scopes", 1),
                 op("array_to_lod_tensor", {{"X", {"ys"}}, {"RankTable", {"table"}}}, {{"Out", {"y"}}}),
                 read("states", "begin", "again"), unary("square", "again", "squared"),
                 op("reduce_sum", {{"X", {"squared"}}}, {{"Out", {"more_loss"}}}, {attr("reduce_all", true)})},
                "y"));
  program.blocks[0].ops.back() =
      op("reduce_sum", {{"X", {"squares"}}}, {{"Out", {"some_loss"}}}, {attr("reduce_all", true)});
  program.blocks[0].ops.push_back(binary("elementwise_add", "some_loss", "more_loss", "loss"));
  program.blocks[0].vars.push_back(tensor_var("some_loss"));
  retype(program, VarType::STEP_SCOPES, {"scopes"});
  retype(program, VarType::LOD_TENSOR_ARRAY, {"xs", "ys", "states"});
  retype(program, VarType::LOD_RANK_TABLE, {"table"});
  add_block(program,
            {read("xs", "i", "step"), read("states", "i", "state"),
             op("shrink_rnn_memory", {{"X", {"state"}}, {"RankTable", {"table"}}, {"I", {"i"}}}, {{"Out", {"active"}}}),
             binary("mul", "active", "w", "product"), binary("elementwise_add", "product", "step", "total"),
             unary("tanh", "total", "next"), write("next", "i", "ys"), count("i"), write("next", "i", "states"),
             binary("less_than", "i", "n", "more")},
            {"step", "state", "active", "product", "total", "next"});
  return program;
}

TEST_CASE("append_backward: arrays and a rank table, for sequences of different lengths") {
  const ProgramDesc program = network_of_sequences();
  for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{2, 1, 3}, {0, 2}, {}, {0}}) {
    std::int64_t rows = 0;
    for (const std::int64_t length : lengths) rows += length;
    const auto values = numbers<double>(drawn({rows, 2}));
    const auto sequences = static_cast<std::int64_t>(lengths.size());
    check(program,
          {{"x", AnyLoDTensor(ragged<double>(lengths, {2}, values))},
           {"first", drawn({sequences, 2})},
           {"w", drawn({2, 2})}},
          true);
  }
}

TEST_CASE("append_backward: elements of arrays that are read twice, written twice, and not at all") {
  ProgramDesc program = program_of(
      with_loss({zero("i"), zero("j"), write("x", "i", "a"), read("a", "i", "p"), read("a", "j", "q"),
                 binary("elementwise_mul", "p", "q", "r"), count("i"), write("r", "i", "a"), write("x", "i", "a"),
                 count("i"), write("p", "i", "a"), read("a", "i", "s"), binary("elementwise_mul", "s", "r", "y")},
                "y"));
  retype(program, VarType::LOD_TENSOR_ARRAY, {"a"});
  check(program, {{"x", drawn({2, 2})}});
}

TEST_CASE("append_backward: tensors of an array joined") {
  for (const bool is_stack : {false, true}) {
    for (const int axis : {0, 1, -1}) {
      ProgramDesc program = program_of(
          with_loss({zero("i"), write("x", "i", "a"), count("i"), unary("tanh", "x", "y"), write("y", "i", "a"),
                     op("tensor_array_to_tensor", {{"X", {"a"}}}, {{"Out", {"z"}}, {"OutIndex", {"lengths"}}},
                        {lod_test::attr("axis", axis), lod_test::attr("use_stack", is_stack)})},
                    "z"));
      retype(program, VarType::LOD_TENSOR_ARRAY, {"a"});
      check(program, {{"x", drawn({2, 3})}});
    }
  }
}

/// y = x; if (c) y = y w, otherwise it stays; z = if (c) tanh(y).
ProgramDesc two_branches() {
  ProgramDesc program =
      program_of(with_loss({unary("assign", "x", "y"), branch("c", {"y", "w"}, {"y"}, 1), unary("assign", "x", "z"),
                            branch("c", {"x"}, {"z"}, 2), binary("elementwise_mul", "y", "z", "product")},
                           "product"));
  retype(program, VarType::STEP_SCOPES, {"scopes"});
  add_block(program, {unary("assign", "y", "copy"), binary("mul", "copy", "w", "a"), unary("assign", "a", "y")},
            {"copy", "a"});
  add_block(program, {unary("tanh", "x", "b"), unary("assign", "b", "z")}, {"b"});
  for (OpDesc& one : program.blocks[0].ops) {
    if (one.type == "conditional_block" && one.input("Input").front() == "x")
      one.outputs[1].arguments = {"other_scopes"};
  }
  program.blocks[0].vars.push_back({.name = "other_scopes", .type = {.type = VarType::STEP_SCOPES}});
  return program;
}

TEST_CASE("append_backward: conditional_block, run and not") {
  for (const bool runs : {true, false}) {
    for (const std::int64_t rows : {0, 2}) {
      check(two_branches(), {{"x", drawn({rows, 2})}, {"w", drawn({2, 2})}, {"c", truth(runs)}});
    }
  }
}

TEST_CASE("append_backward: select_input, whose choices a branch or any operator computes") {
  for (const std::int32_t which : {0, 1}) {
    ProgramDesc program =
        program_of(with_loss({binary("elementwise_mul", "x", "w", "a"), branch("c", {"w"}, {"b"}, 1),
                              op("select_input", {{"X", {"a", "b"}}, {"Mask", {"which"}}}, {{"Out", {"chosen"}}}),
                              op("select_input", {{"X", {"x", "w"}}, {"Mask", {"which"}}}, {{"Out", {"other"}}}),
                              binary("elementwise_mul", "chosen", "other", "y")},
                             "y"));
    retype(program, VarType::STEP_SCOPES, {"scopes"});
    add_block(program, {unary("tanh", "w", "t"), unary("assign", "t", "b")}, {"t"});
    check(program, {{"x", drawn({2, 2})},
                    {"w", drawn({2, 2}, 1)},
                    {"which", plain<std::int32_t>({1}, {which})},
                    {"c", truth(which == 1)}});
  }
}

TEST_CASE("append_backward: loops in loops, with branches in them") {
  // i of n times: { if (i < half) y = tanh(y w); j of m times: y = sin(y v) }
  ProgramDesc program =
      program_of(with_loss({zero("i"), unary("assign", "x", "y"), binary("less_than", "i", "n", "more"),
                            loop("more", {"y", "w", "v", "i", "n", "m", "half"}, {"y", "i", "more"}, "scopes", 1)},
                           "y"));
  retype(program, VarType::STEP_SCOPES, {"scopes"});
  OpDesc taken = branch("is_early", {"y", "w"}, {"y"}, 2);
  taken.outputs[1].arguments = {"scopes_of_branch"};
  add_block(program,
            {binary("less_than", "i", "half", "is_early"), taken, zero("j"), binary("less_than", "j", "m", "goes_on"),
             loop("goes_on", {"y", "v", "j", "m"}, {"y", "j", "goes_on"}, "inner_scopes", 3), count("i"),
             binary("less_than", "i", "n", "more")},
            {"is_early", "j", "goes_on"});
  for (const char* name : {"scopes_of_branch", "inner_scopes"}) {
    program.blocks[1].vars.push_back({.name = name, .type = {.type = VarType::STEP_SCOPES}});
  }
  add_block(program,
            {unary("assign", "y", "copy"), binary("mul", "copy", "w", "a"), unary("tanh", "a", "b"),
             unary("assign", "b", "y")},
            {"copy", "a", "b"}, 1);
  add_block(program,
            {binary("mul", "y", "v", "a"), unary("sin", "a", "b"), unary("assign", "b", "y"), count("j"),
             binary("less_than", "j", "m", "goes_on")},
            {"a", "b"}, 1);
  for (const std::int64_t inner : {0, 2}) {
    check(program, {{"x", drawn({2, 2})},
                    {"w", drawn({2, 2})},
                    {"v", drawn({2, 2}, 1)},
                    {"n", id(3)},
                    {"m", id(inner)},
                    {"half", id(2)}});
  }
}

/// s[t] = tanh(s[t-1] w + x[t]), y[t] = 2 s[t], z[t] = s[t] x[t]
ProgramDesc network_of_rows(bool is_reversed) {
  ProgramDesc program = program_of(with_loss(
      {op("recurrent", {{"inputs", {"x"}}, {"initial_states", {"first"}}, {"parameters", {"w"}}},
          {{"outputs", {"y", "s"}}, {"step_scopes", {"scopes"}}},
          {block_attr(1), attr("reverse", is_reversed), attr("has_states", true),
           lod::make_attr("ex_states", Names{"before", "unused"}), lod::make_attr("states", Names{"s", "z"})}),
       binary("elementwise_mul", "y", "s", "product")},
      "product"));
  program.blocks[0].ops[0].inputs[1].arguments.push_back("x0");
  program.blocks[0].vars.push_back(tensor_var("x0"));
  retype(program, VarType::STEP_SCOPES, {"scopes"});
  add_block(program,
            {binary("mul", "before", "w", "a"), binary("elementwise_add", "a", "x", "b"), unary("tanh", "b", "s"),
             unary("square", "unused", "u"), binary("elementwise_mul", "s", "u", "z"),
             binary("elementwise_add", "s", "u", "y")},
            {"x", "before", "unused", "a", "b", "s", "u", "y", "z"});
  return program;
}

TEST_CASE("append_backward: recurrent, with states and outputs, forwards and backwards") {
  for (const bool is_reversed : {true, false}) {
    for (const std::int64_t rows : {1, 3}) {
      check(network_of_rows(is_reversed),
            {{"x", drawn({rows, 2, 2})}, {"first", drawn({2, 2})}, {"x0", drawn({2, 2}, 1)}, {"w", drawn({2, 2})}});
    }
  }
}

/// loss = the sum of squares of table[ids], n times, of which a branch takes every step but the first, too.
ProgramDesc lookups(bool is_sparse) {
  const auto look_up = [&](const std::string& out) {
    return op("lookup_table", {{"W", {"table"}}, {"Ids", {"ids"}}}, {{"Out", {out}}}, {attr("is_sparse", is_sparse)});
  };
  ProgramDesc program = program_of(with_loss(
      {zero("i"), zero("begin"), look_up("y"), unary("assign", "y", "z"), binary("less_than", "i", "n", "more"),
       loop("more", {"y", "table", "ids", "i", "n"}, {"y", "i", "more"}, "scopes", 1)},
      "y"));
  retype(program, VarType::STEP_SCOPES, {"scopes"});
  for (lod::VarDesc& one : program.blocks[0].vars) {
    if (one.name != "table") continue;
    one = lod::VarDesc::lod_tensor("table", {lod::DataType::FP32, {5, 2}});
    one.persistable = true;
    one.is_parameter = true;
  }
  add_block(program,
            {look_up("a"), binary("less_than", "begin", "i", "is_later"),
             branch("is_later", {"table", "ids"}, {"y"}, 2), binary("elementwise_add", "y", "a", "b"),
             unary("assign", "b", "y"), count("i"), binary("less_than", "i", "n", "more")},
            {"a", "b", "is_later"});
  program.blocks[1].ops[2].outputs[1].arguments = {"scopes_of_branch"};
  program.blocks[1].vars.push_back({.name = "scopes_of_branch", .type = {.type = VarType::STEP_SCOPES}});
  add_block(program, {look_up("c"), binary("elementwise_add", "y", "c", "d"), unary("assign", "d", "y")}, {"c", "d"},
            1);
  return program;
}

TEST_CASE("minimize: a parameter of which loops and branches use rows has a row-sparse gradient, and the same values") {
  for (const std::int64_t steps : {0, 3}) {
    std::vector<std::vector<float>> tables;
    for (const bool is_sparse : {true, false}) {
      ProgramDesc program = lookups(is_sparse), startup;
      lod::minimize(program, startup, "loss", lod::SGD{0.01f});
      const lod::VarDesc* const gradient = program.blocks[0].find_var("table@GRAD");
      REQUIRE(gradient);
      CHECK(gradient->type.type == (is_sparse ? VarType::SELECTED_ROWS : VarType::LOD_TENSOR));
      lod::Scope scope;
      lod::run(startup, scope);
      scope.var("table").get<AnyLoDTensor>() = in_float(drawn({5, 2}));
      const lod::Feed feed = {{"ids", plain<std::int64_t>({3, 1}, {1, 4, 1})}, {"n", id(steps)}};
      lod::PreparedProgram prepared(lod::CpuExecutor(1), program, scope, {"loss"});
      float first = 0, last = 0;
      for (int run = 0; run < 4; ++run) {
        last = numbers<float>(prepared.run(feed)[0])[0];
        if (run == 0) first = last;
      }
      CHECK(last < first);
      tables.push_back(numbers<float>(scope.at("table").get<AnyLoDTensor>()));
    }
    for (std::size_t i = 0; i < tables[0].size(); ++i) CHECK(tables[0][i] == doctest::Approx(tables[1][i]));
  }
}

TEST_CASE("append_backward: refuses values that are not kept, and loops whose steps are not, and changes nothing") {
  const auto refused = [](ProgramDesc program, const char* text) {
    const ProgramDesc before = program;
    CHECK_THROWS_WITH_AS(lod::append_backward(program, "loss", {.parameters = {"w"}}), doctest::Contains(text),
                         lod::InvalidProgram);
    CHECK(program == before);
  };
  const auto ops = [](ProgramDesc& program) -> std::vector<OpDesc>& { return program.blocks[1].ops; };
  ProgramDesc program = simple_loop("y");
  ops(program)[1] = unary("tanh", "a", "y");  // its gradient needs y, of which the loop keeps what it was before
  ops(program).erase(ops(program).begin() + 2);
  refused(program, "operator 1 'tanh': its gradient needs a value of variable 'y'");
  program = simple_loop("y");
  ops(program).insert(ops(program).begin(), unary("assign", "x", "y"));
  refused(program, "operator 1 'mul': its gradient needs a value of variable 'y'");
  program = simple_loop("y");
  program.blocks[0].ops[4].attrs.push_back(attr("is_test", true));
  refused(program, "attribute 'is_test' is true");
  program = simple_loop("y");
  program.blocks[0].ops[4].outputs.pop_back();
  refused(program, "no output 'StepScopes'");
  program = simple_loop("y");
  program.blocks[0].ops.push_back(branch("more", {}, {}, 1));
  refused(program, "block 1: operators of blocks 0 and 0 own it");
  program = network_of_rows(false);
  program.blocks[0].ops[0].inputs[1].arguments.pop_back();
  refused(program, "as many states and ex_states as initial states");
}

}  // namespace

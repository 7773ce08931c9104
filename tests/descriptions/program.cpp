// SPDX-License-Identifier: Apache-2.0
// Programs: what PaddlePaddle wrote is read completely and written as it was; attributes, blocks, variables by name.
#include "descriptions/paddle_data.hpp"
#include "support/grain.hpp"
#include <lod/program.hpp>
#include <lod/proto/program.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using lod::AttrType;
using lod::BlockDesc;
using lod::DataType;
using lod::OpDesc;
using lod::ProgramDesc;
using lod::ScalarDesc;
using lod::VarDesc;
using lod::VarType;
using lod_test::paddle_bytes;

namespace {

/// The bytes of fields without a name, in a message and in all that lie in it.
template <lod::proto::Message M>
std::size_t unknown_bytes(const M& message) {
  std::size_t bytes = message.unknown_fields.size();
  lod::proto::detail::for_each_field<M>([&](auto index) {
    using F = lod::proto::detail::FieldOf<M, index>;
    using Rule = lod::proto::detail::Rule;
    const auto& value = message.*F::member;
    if constexpr (lod::proto::Message<typename F::Element>) {
      if constexpr (F::rule == Rule::REPEATED) {
        for (const auto& element : value) bytes += unknown_bytes(element);
      } else if constexpr (F::rule == Rule::OPTIONAL) {
        if (value) bytes += unknown_bytes(*value);
      } else {
        bytes += unknown_bytes(value);
      }
    }
  });
  return bytes;
}

/// A program that PaddlePaddle wrote; checks that nothing in it is without a name, and that it is written as it was.
ProgramDesc read_program(const char* name) {
  const std::string bytes = paddle_bytes(name);
  auto program = lod::decode<ProgramDesc>(bytes);
  CHECK(lod::encode(program) == bytes);
  CHECK(unknown_bytes(program) == 0);
  CHECK_NOTHROW(lod::validate(program));
  return program;
}

std::vector<std::string> types_of(const BlockDesc& block) {
  std::vector<std::string> types;
  for (const OpDesc& op : block.ops) types.push_back(op.type);
  return types;
}

/// An operator with an attribute "a".
OpDesc with_attr(OpDesc::Attr attr) {
  attr.name = "a";
  return {.type = "op", .attrs = {std::move(attr)}};
}

template <class T>
void check_attribute_refused(const OpDesc& op, const char* text) {
  CHECK_THROWS_WITH_AS(op.attr<T>("a"), text, lod::InvalidProgram);
}
void check_invalid(const ProgramDesc& program, const char* text) {
  CHECK_THROWS_WITH_AS(lod::validate(program), text, lod::InvalidProgram);
}

/// A root with a `while` operator whose body is block 1.
ProgramDesc loop() {
  const OpDesc op{.type = "while",
                  .attrs = {{.name = "is_test", .type = AttrType::BOOLEAN, .b = true},
                            {.name = "sub_block", .type = AttrType::BLOCK, .block_idx = 1}}};
  const VarDesc outer = VarDesc::lod_tensor("x", {DataType::FP32, {-1, 8}}, 1);
  const VarDesc hidden = VarDesc::lod_tensor("y", {DataType::FP32, {8}});
  const VarDesc inner = VarDesc::lod_tensor("y", {DataType::INT64, {-1}}, 2);
  return {.blocks = {{.idx = 0, .vars = {outer, hidden}, .ops = {{.type = "fill"}, op}},
                     {.idx = 1, .parent_idx = 0, .vars = {inner}}}};
}

}  // namespace

TEST_CASE("decode: a program of PaddlePaddle 1.7, to its last field") {
  const ProgramDesc program = read_program("fit_a_line/__model__");
  REQUIRE(program.version);
  CHECK(program.version->version == 1'007'000);
  CHECK(!program.old_version);
  CHECK(!program.op_version_map);
  REQUIRE(program.op_compatible_map);
  CHECK(program.op_compatible_map->default_required_version == "1.5.0");
  CHECK(program.op_compatible_map->pair.back() ==
        lod::OpCompatiblePair{"warpctc", {"1.6.0", lod::CompatibleInfo::POSSIBLE}});

  REQUIRE(program.blocks.size() == 1);
  const BlockDesc& block = program.block(0);
  CHECK(block.parent_idx == -1);
  CHECK(block.forward_block_idx == -1);
  CHECK(types_of(block) == std::vector<std::string>{"feed", "mul", "elementwise_add", "fetch"});

  const OpDesc& mul = block.ops[1];
  REQUIRE(mul.input("Y").size() == 1);
  CHECK(mul.input("Y")[0] == "fc_0.w_0");
  CHECK(mul.output("Out")[0] == "fc_0.tmp_0");
  CHECK(mul.input("Z").empty());
  CHECK(mul.attr<std::int32_t>("x_num_col_dims") == 1);
  CHECK(mul.attr<std::int64_t>("x_num_col_dims") == 1);
  CHECK(mul.attr<bool>("use_mkldnn") == false);
  CHECK(mul.attr<float>("scale_x") == 1);
  CHECK(mul.attr<std::vector<float>>("scale_y") == std::vector<float>{1});
  CHECK(mul.attr<std::string>("op_namescope") == "/");
  CHECK(mul.attr<std::vector<std::string>>("op_role_var").empty());
  CHECK(mul.attr<std::vector<std::string>>("op_callstack").size() == 4);
}

TEST_CASE("decode: a program of a later PaddlePaddle, to its last field") {
  const ProgramDesc program = read_program("custom_gap/custom_gap.pdmodel");
  REQUIRE(program.version);
  CHECK(program.version->version == 0);
  CHECK(program.version->version.has_value());
  CHECK(!program.op_compatible_map);
  REQUIRE(program.op_version_map);
  CHECK(program.op_version_map->pair.back() == lod::OpVersionPair{"requantize", {1}});

  const BlockDesc& block = program.block(0);
  CHECK(types_of(block) == std::vector<std::string>{"feed", "conv2d", "reshape2", "elementwise_add", "conv2d",
                                                    "reshape2", "elementwise_add", "gap", "flatten_contiguous_range",
                                                    "matmul_v2", "elementwise_add", "scale", "fetch"});
  const OpDesc& conv = block.ops[1];
  CHECK(conv.input("Filter")[0] == "conv2d_0.w_0");
  CHECK(conv.attr<std::vector<std::int32_t>>("strides") == std::vector<std::int32_t>{1, 1});
  CHECK(conv.attr<std::vector<std::int64_t>>("paddings") == std::vector<std::int64_t>{0, 0});
  CHECK(conv.attr<std::string>("data_format") == "NCHW");
  CHECK(block.ops[3].attr<std::int32_t>("axis") == -1);
  CHECK(block.ops[2].input("Shape").empty());
}

TEST_CASE("encode: the reserved fields of old programs stay where they were") {
  const std::string bytes(
      "\x12\x02\x08\x05"
      "\x1a\x07\x12\x05"
      "1.5.0"
      "\x22\x02\x08\x06",
      17);
  const auto program = lod::decode<ProgramDesc>(bytes);
  CHECK(program.old_version == lod::Version{5});
  CHECK(program.version == lod::Version{6});
  CHECK(program.unknown_fields.empty());
  CHECK(lod::encode(program) == bytes);
}

TEST_CASE("decode: forward_block_idx is -1 unless it is set, also to -1") {
  const std::string absent("\x08\x00\x10\x00", 4);
  const auto block = lod::decode<BlockDesc>(absent);
  CHECK(block.forward_block_idx == -1);
  CHECK(!block.forward_block_idx.has_value());
  CHECK(lod::encode(block) == absent);

  BlockDesc set = block;
  set.forward_block_idx = -1;
  CHECK(set == block);
  CHECK(lod::encode(set) == absent + '\x28' + std::string(9, '\xff') + '\x01');
  CHECK(lod::decode<BlockDesc>(lod::encode(set)).forward_block_idx.has_value());
}

TEST_CASE(
    "decode: repeated numbers of attributes are not packed when they are written, and may be when they are read") {
  const OpDesc::Attr attr{.name = "a",
                          .type = AttrType::FLOAT64S,
                          .ints = {1},
                          .floats = {1.5f, -2},
                          .bools = {true, false},
                          .float64s = {0.5}};
  const std::string head(
      "\x0a\x01"
      "a"
      "\x10\x0c",
      5);
  const std::string bytes = head + std::string(
                                       "\x30\x01"
                                       "\x3d\x00\x00\xc0\x3f\x3d\x00\x00\x00\xc0"
                                       "\x58\x01\x58\x00"
                                       "\x81\x01\x00\x00\x00\x00\x00\x00\xe0\x3f",
                                       26);
  CHECK(lod::encode(attr) == bytes);
  CHECK(lod::decode<OpDesc::Attr>(bytes) == attr);
  const std::string packed = head + std::string(
                                        "\x32\x01\x01"
                                        "\x3a\x08\x00\x00\xc0\x3f\x00\x00\x00\xc0"
                                        "\x5a\x02\x01\x00"
                                        "\x82\x01\x08\x00\x00\x00\x00\x00\x00\xe0\x3f",
                                        28);
  CHECK(lod::decode<OpDesc::Attr>(packed) == attr);
}

TEST_CASE("ParseError: says where in the program it is") {
  ProgramDesc program = loop();
  std::string bytes = lod::encode(program);
  const std::size_t type = bytes.find("sub_block") + 10;  // after the tag of the field `type`
  bytes[type] = 99;
  CHECK_THROWS_WITH_AS(
      lod::decode<ProgramDesc>(bytes),
      ("ProgramDesc.blocks.ops.attrs.type: 99 is no AttrType (at byte " + std::to_string(type) + ")").c_str(),
      lod::ParseError);
}

TEST_CASE("decode: of each beginning of a program, and of damaged ones, gives a program or a ParseError") {
  const std::string whole = paddle_bytes("fit_a_line/__model__");
  std::size_t accepted = 0, refused = 0;
  const auto read = [&](std::string_view bytes) {
    const std::vector<char> copied(bytes.begin(), bytes.end());  // so that sanitizers see a read beyond the end
    try {
      const auto program = lod::decode<ProgramDesc>({copied.data(), copied.size()});
      const std::string again = lod::encode(program);
      CHECK(lod::encode(lod::decode<ProgramDesc>(again)) == again);
      ++accepted;
    } catch (const lod::ParseError& error) {
      CHECK(error.position() <= bytes.size());
      ++refused;
    }
  };
  const std::size_t step = lod_test::slow ? 5 : 1;
  for (std::size_t size = 0; size < whole.size(); size += step) read(std::string_view(whole).substr(0, size));
  for (std::size_t i = 0; i < whole.size(); i += step) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1 << i % 8);
    read(damaged);
  }
  CHECK(accepted > 1000 / step);
  CHECK(refused > 1000 / step);
}

TEST_CASE("OpDesc::attr: the value of each type of attribute, and wider numbers from narrower ones") {
  CHECK(with_attr({.type = AttrType::INT, .i = -3}).attr<std::int32_t>("a") == -3);
  CHECK(with_attr({.type = AttrType::INT, .i = -3}).attr<std::int64_t>("a") == -3);
  CHECK(with_attr({.type = AttrType::FLOAT, .f = 1.5f}).attr<float>("a") == 1.5f);
  CHECK(with_attr({.type = AttrType::FLOAT, .f = 1.5f}).attr<double>("a") == 1.5);
  CHECK(with_attr({.type = AttrType::STRING, .s = "s"}).attr<std::string>("a") == "s");
  CHECK(with_attr({.type = AttrType::INTS, .ints = {1, 2}}).attr<std::vector<std::int64_t>>("a") ==
        std::vector<std::int64_t>{1, 2});
  CHECK(with_attr({.type = AttrType::FLOATS, .floats = {1.5f}}).attr<std::vector<double>>("a") ==
        std::vector<double>{1.5});
  CHECK(with_attr({.type = AttrType::STRINGS, .strings = {"s", ""}}).attr<std::vector<std::string>>("a").size() == 2);
  CHECK(with_attr({.type = AttrType::BOOLEAN, .b = true}).attr<bool>("a"));
  CHECK(with_attr({.type = AttrType::BOOLEANS, .bools = {false, true}}).attr<std::vector<bool>>("a")[1]);
  CHECK(with_attr({.type = AttrType::BLOCK, .block_idx = 2}).attr<std::int32_t>("a") == 2);
  CHECK(with_attr({.type = AttrType::LONG, .l = 1LL << 40}).attr<std::int64_t>("a") == 1LL << 40);
  CHECK(with_attr({.type = AttrType::BLOCKS, .blocks_idx = {2}}).attr<std::vector<std::int32_t>>("a")[0] == 2);
  CHECK(with_attr({.type = AttrType::LONGS, .longs = {}}).attr<std::vector<std::int64_t>>("a").empty());
  CHECK(with_attr({.type = AttrType::FLOAT64S, .float64s = {0.1}}).attr<std::vector<double>>("a")[0] == 0.1);
  CHECK(with_attr({.type = AttrType::VAR, .var_name = "x"}).attr<std::string>("a") == "x");
  CHECK(with_attr({.type = AttrType::VARS, .vars_name = {"x"}}).attr<std::vector<std::string>>("a")[0] == "x");
  CHECK(with_attr({.type = AttrType::FLOAT64, .float64 = 0.1}).attr<double>("a") == 0.1);
  const ScalarDesc scalar{.type = ScalarDesc::COMPLEX128, .c = lod::ComplexDesc{1, -1}};
  CHECK(with_attr({.type = AttrType::SCALAR, .scalar = scalar}).attr<ScalarDesc>("a") == scalar);
  CHECK(with_attr({.type = AttrType::SCALARS, .scalars = {scalar}}).attr<std::vector<ScalarDesc>>("a")[0] == scalar);
}

TEST_CASE("OpDesc::attr: what is missing or of another type is named") {
  check_attribute_refused<bool>({.type = "op"}, "operator 'op' has no attribute 'a'");
  const OpDesc wide = with_attr({.type = AttrType::LONG, .l = 1});
  check_attribute_refused<std::int32_t>(wide, "operator 'op', attribute 'a': of type LONG, expected INT or BLOCK");
  check_attribute_refused<double>(wide, "operator 'op', attribute 'a': of type LONG, expected FLOAT or FLOAT64");
  check_attribute_refused<std::vector<std::int64_t>>(
      wide, "operator 'op', attribute 'a': of type LONG, expected INTS or BLOCKS or LONGS");
  check_attribute_refused<std::int64_t>(with_attr({.type = AttrType::INTS, .ints = {1}}),
                                        "operator 'op', attribute 'a': of type INTS, expected INT or BLOCK or LONG");
  // The field of another type counts for nothing.
  check_attribute_refused<std::int32_t>(with_attr({.type = AttrType::INT, .l = 1}),
                                        "operator 'op', attribute 'a': of type INT, expected a value");
  check_attribute_refused<std::string>(with_attr({.type = static_cast<AttrType>(99)}),
                                       "operator 'op', attribute 'a': of type ?, expected STRING or VAR");
}

TEST_CASE("ProgramDesc: blocks by number, variables by name through the blocks around") {
  ProgramDesc program = loop();
  program.block(1).vars[0].persistable = true;
  CHECK(program.blocks[1].vars[0].persistable);
  CHECK_THROWS_WITH_AS(program.block(2), "block 2 of a program with 2 blocks", lod::OutOfRange);
  CHECK_THROWS_AS(program.block(-1), lod::OutOfRange);

  CHECK(program.find_var("x") == &program.blocks[0].vars[0]);
  CHECK(program.find_var("y") == &program.blocks[0].vars[1]);
  CHECK(program.find_var("y", 1) == &program.blocks[1].vars[0]);
  CHECK(program.find_var("x", 1) == &program.blocks[0].vars[0]);
  CHECK(program.find_var("z", 1) == nullptr);
  CHECK(program.block(1).find_var("x") == nullptr);
  CHECK_THROWS_AS(program.find_var("x", 2), lod::OutOfRange);

  // Block 2 computes the gradient of block 1, block 3 that of block 2: each looks first where its own leads.
  program.blocks.push_back({.idx = 2, .parent_idx = 0, .forward_block_idx = 1});
  program.blocks.push_back({.idx = 3, .parent_idx = 0, .vars = {VarDesc::of_type("own", VarType::RAW)}});
  program.blocks[3].forward_block_idx = 2;
  program.blocks[1].vars.push_back(VarDesc::of_type("inner", VarType::RAW));
  CHECK(program.find_var("y", 2) == &program.blocks[1].vars[0]);
  CHECK(program.find_var("x", 2) == &program.blocks[0].vars[0]);
  CHECK(program.find_var("own", 3) == &program.blocks[3].vars[0]);
  CHECK(program.find_var("y", 3) == &program.blocks[0].vars[1]);
  CHECK(program.find_var("inner", 3) == &program.blocks[1].vars[1]);
  CHECK(program.find_var("inner") == nullptr);
  program.blocks[2].forward_block_idx = 3;  // round in circles
  CHECK(program.find_var("nowhere", 3) == nullptr);
  program.blocks[2].forward_block_idx = 4;
  CHECK_THROWS_WITH_AS(program.find_var("inner", 3), "block 4 of a program with 4 blocks", lod::OutOfRange);

  program.blocks[1].parent_idx = 1;
  CHECK_THROWS_WITH_AS(program.find_var("x", 1), "block 1: parent_idx is 1, expected less than 1", lod::InvalidProgram);
}

TEST_CASE("validate: a program that holds together, and what each that does not is told") {
  CHECK_NOTHROW(lod::validate(loop()));
  check_invalid({}, "a program with no block, expected a root");

  ProgramDesc program = loop();
  program.blocks[1].idx = 0;
  check_invalid(program, "block 1: idx is 0, expected 1");

  program = loop();
  program.blocks[0].parent_idx = 0;
  check_invalid(program, "block 0: parent_idx is 0, expected -1");
  program = loop();
  program.blocks[1].parent_idx = 1;
  check_invalid(program, "block 1: parent_idx is 1, expected 0 to 0");
  program.blocks[1].parent_idx = -1;
  check_invalid(program, "block 1: parent_idx is -1, expected 0 to 0");

  program = loop();
  program.blocks[1].forward_block_idx = 2;
  check_invalid(program, "block 1, forward_block_idx: block 2 of 2");

  program = loop();
  program.blocks[0].vars[1].name = "x";
  check_invalid(program, "block 0: two variables 'x'");

  program = loop();
  OpDesc::Attr& attr = program.blocks[0].ops[1].attrs[1];
  attr.block_idx = 2;
  check_invalid(program, "block 0, operator 1 'while', attribute 'sub_block': block 2 of 2");
  attr.block_idx.reset();
  check_invalid(program, "block 0, operator 1 'while', attribute 'sub_block': of type BLOCK, expected a value");
  attr.type = AttrType::BLOCKS;
  attr.blocks_idx = {1, -1};
  check_invalid(program, "block 0, operator 1 'while', attribute 'sub_block': block -1 of 2");
}

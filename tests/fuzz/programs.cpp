// SPDX-License-Identifier: Apache-2.0
/// @file
/// Programs, and the definitions of operators, in the wire format.
#include "codec.hpp"
#include "target.hpp"
#include <lod/program.hpp>
#include <lod/proto/program.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

/// A VarDesc takes 8 bytes of a message and 900 of memory, three times that when a vector of them grows.
constexpr lod_fuzz::Bound bound{.times = 400};

lod::ProgramDesc a_program() {
  lod::OpDesc op{.inputs = {{"X", {"x"}}, {"Filter", {}}}, .outputs = {{"Out", {"y", "z"}}}, .type = "while"};
  const lod::ScalarDesc scalar{
      .type = lod::ScalarDesc::COMPLEX128, .b = true, .i = 1, .r = 0.5, .c = lod::ComplexDesc{1, -1}};
  op.attrs.push_back({.name = "all", .type = lod::AttrType::INT, .i = -1, .f = 0.5f, .s = "text"});
  lod::OpDesc::Attr& attr = op.attrs.back();
  attr.ints = attr.blocks_idx = {1, 2};
  attr.floats = {1.5f};
  attr.strings = attr.vars_name = {"a", "b"};
  attr.b = true;
  attr.bools = {true, false};
  attr.block_idx = 1;
  attr.l = -1;
  attr.longs = {-1, 1};
  attr.float64s = {0.25};
  attr.var_name = "x";
  attr.float64 = 0.125;
  attr.scalar = scalar;
  attr.scalars = {scalar, {}};
  op.attrs.push_back({.name = "sub_block", .type = lod::AttrType::BLOCK, .block_idx = 1});
  op.is_target = true;

  lod::ProgramDesc program;
  lod::BlockDesc root{.idx = 0, .parent_idx = -1}, inner{.idx = 1, .parent_idx = 0};
  root.vars.push_back(lod::VarDesc::lod_tensor("x", {lod::DataType::FP32, {-1, 8}}, 1));
  root.vars.push_back(lod::VarDesc::lod_tensor("w", {lod::DataType::FP32, {8, 2}}));
  root.vars.back().persistable = true;
  root.ops.push_back(op);
  inner.vars.push_back(lod::VarDesc::selected_rows("x", {lod::DataType::FP64, {10, 8}}));
  inner.forward_block_idx = 0;
  program.blocks = {root, inner};
  program.version = lod::Version{2006000};
  program.old_version = lod::Version{1005000};
  program.op_version_map = lod::OpVersionMap{{{"while", {1}}}};
  program.op_compatible_map = lod::OpCompatibleMap{{{"while", {"1.6.0", lod::CompatibleInfo::POSSIBLE}}}, "1.5.0"};
  return program;
}

lod::OpProto an_operator() {
  return {.type = "while",
          .inputs = {{.name = "X", .comment = "in", .duplicable = true}},
          .outputs = {{.name = "Out", .comment = "", .intermediate = true}},
          .attrs = {{.name = "axis", .type = lod::AttrType::LONG, .comment = "", .generated = true}},
          .comment = "repeats"};
}

/// Whether each variable that the operators name is found where one looks for it; programs from outside may have blocks
/// around each other that go round in circles.
void look_up(const lod::ProgramDesc& program, bool is_valid) {
  for (std::size_t i = 0; i < program.blocks.size(); ++i) {
    const auto number = static_cast<std::int32_t>(i);
    const auto& vars = program.blocks[i].vars;
    try {
      if (!vars.empty()) LOD_FUZZ_EXPECT(program.find_var(vars[0].name, number) == &vars[0]);
      static_cast<void>(program.find_var("none has this name", number));
    } catch (const lod::InvalidProgram&) {
      LOD_FUZZ_EXPECT(!is_valid);
    } catch (const lod::OutOfRange&) {
      LOD_FUZZ_EXPECT(!is_valid);
    }
  }
}

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  return {lod::encode(a_program()), lod::encode(an_operator()), lod::encode(lod::ProgramDesc())};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = lod_fuzz::input(data, size);
  static const lod::ProgramDesc another = a_program();
  static const lod::OpProto another_operator = an_operator();
  lod_fuzz::check_message(bytes, bound, another_operator);
  const auto program = lod_fuzz::check_message(bytes, bound, another);
  if (!program) return 0;
  const bool is_valid = lod_fuzz::attempt<lod::InvalidProgram>(bytes.size(), bound, [&] {
                          lod::validate(*program);
                          return true;
                        }).has_value();
  look_up(*program, is_valid);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Files that PaddlePaddle wrote (tests/data/paddle): the variables of its programs, and the descriptions before saved
// values. Also shows how a struct of one's own gets a wire format: by listing its fields.
#include <lod/proto.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

using lod::DataType;
using lod::TensorDesc;
using lod::VarDesc;
using lod::VarType;

namespace {

/// A block of a program. Its operators stay what they are, among the unknown fields.
struct BlockDesc {
  std::int32_t idx = 0;
  std::int32_t parent_idx = -1;
  std::vector<VarDesc> vars = {};
  std::string unknown_fields = {};

  const VarDesc& var(std::string_view name) const {
    for (const VarDesc& var : vars) {
      if (var.name == name) return var;
    }
    FAIL("no variable ", std::string(name));
    return vars.at(0);
  }
};

struct ProgramDesc {
  std::vector<BlockDesc> blocks = {};
  std::string unknown_fields = {};
};

}  // namespace

template <>
struct lod::proto::Schema<BlockDesc> {
  static constexpr const char* name = "BlockDesc";
  static constexpr std::tuple fields{
      Field<1, &BlockDesc::idx>{"idx"},
      Field<2, &BlockDesc::parent_idx>{"parent_idx"},
      Field<3, &BlockDesc::vars>{"vars"},
  };
};
template <>
struct lod::proto::Schema<ProgramDesc> {
  static constexpr const char* name = "ProgramDesc";
  static constexpr std::tuple fields{Field<1, &ProgramDesc::blocks>{"blocks"}};
};

namespace {

std::string read_file(const char* name) {
  const std::string path = std::string(LOD_TEST_DATA "/paddle/") + name;
  CAPTURE(path);
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  REQUIRE(!bytes.empty());
  return bytes;
}

/// The only block of a program, which must also encode to the bytes it came from.
BlockDesc read_block(const char* name) {
  const std::string bytes = read_file(name);
  const auto program = lod::decode<ProgramDesc>(bytes);
  CHECK(lod::encode(program) == bytes);
  REQUIRE(program.blocks.size() == 1);
  return program.blocks[0];
}

/// What stands before the values of a saved tensor: version and levels, a second version, and the description with its
/// size. Takes the whole tensor off the front of `bytes`.
TensorDesc take_saved_tensor(std::string_view& bytes) {
  const auto take = [&bytes](auto& number) {
    REQUIRE(bytes.size() >= sizeof(number));
    std::memcpy(&number, bytes.data(), sizeof(number));
    bytes.remove_prefix(sizeof(number));
  };
  std::uint32_t lod_version, tensor_version;
  std::uint64_t levels;
  std::int32_t size;
  take(lod_version);
  take(levels);
  take(tensor_version);
  take(size);
  CHECK(lod_version == 0);
  CHECK(levels == 0);
  CHECK(tensor_version == 0);
  REQUIRE(size >= 0);
  REQUIRE(bytes.size() >= static_cast<std::size_t>(size));

  const std::string_view description = bytes.substr(0, static_cast<std::size_t>(size));
  bytes.remove_prefix(description.size());
  TensorDesc tensor = lod::decode<TensorDesc>(description);
  CHECK(lod::encode(tensor) == description);
  std::size_t values = lod::size_of(tensor.data_type);
  for (const std::int64_t dim : tensor.dims) values *= static_cast<std::size_t>(dim);
  REQUIRE(bytes.size() >= values);
  bytes.remove_prefix(values);
  return tensor;
}

}  // namespace

TEST_CASE("decode: the variables of a program of PaddlePaddle 1.7") {
  const BlockDesc block = read_block("fit_a_line/__model__");
  CHECK(block.parent_idx == -1);
  REQUIRE(block.vars.size() == 7);

  VarDesc fetch = VarDesc::of_type("fetch", VarType::FETCH_LIST);
  fetch.persistable = true;
  CHECK(block.vars[0] == fetch);
  VarDesc feed = VarDesc::of_type("feed", VarType::FEED_MINIBATCH);
  feed.persistable = true;
  CHECK(block.vars[1] == feed);

  VarDesc weights = VarDesc::lod_tensor("fc_0.w_0", {DataType::FP32, {13, 1}});
  weights.persistable = true;
  CHECK(block.var("fc_0.w_0") == weights);
  CHECK(!block.var("fc_0.w_0").type.lod_tensor->lod_level.has_value());

  VarDesc x = VarDesc::lod_tensor("x", {DataType::FP32, {-1, 13}}, 0);
  x.persistable = false;
  x.need_check_feed = true;
  CHECK(block.var("x") == x);
  CHECK(block.var("x").persistable.has_value());
  CHECK(block.var("x").type.lod_tensor->lod_level.has_value());

  for (const VarDesc& var : block.vars) CHECK(var.unknown_fields.empty());
}

TEST_CASE("decode: the variables of a program of a later PaddlePaddle") {
  const BlockDesc block = read_block("custom_gap/custom_gap.pdmodel");
  REQUIRE(block.vars.size() == 23);
  CHECK(block.var("conv2d_0.w_0").type == VarDesc::lod_tensor("", {DataType::FP32, {6, 3, 3, 3}}).type);
  CHECK(block.var("conv2d_0.w_0").persistable);
  CHECK(block.var("flatten_0.tmp_1").type.lod_tensor->tensor.dims == std::vector<std::int64_t>{0, 32, 3, 1, 1});
  CHECK(block.var("feed").type.type == VarType::FEED_MINIBATCH);
  for (const VarDesc& var : block.vars) {
    CHECK(var.unknown_fields.empty());
    CHECK(var.type.unknown_fields.empty());
    CHECK(lod::decode<VarDesc>(lod::encode(var)) == var);
  }
}

TEST_CASE("decode: the descriptions of saved parameters are those of the program's variables") {
  const BlockDesc line = read_block("fit_a_line/__model__");
  for (const char* name : {"fc_0.w_0", "fc_0.b_0"}) {
    CAPTURE(name);
    const std::string bytes = read_file((std::string("fit_a_line/") + name).c_str());
    std::string_view rest = bytes;
    CHECK(take_saved_tensor(rest) == line.var(name).type.lod_tensor->tensor);
    CHECK(rest.empty());
  }

  // All in one file, in the order of their names.
  const BlockDesc gap = read_block("custom_gap/custom_gap.pdmodel");
  std::map<std::string, TensorDesc> parameters;
  for (const VarDesc& var : gap.vars) {
    if (var.persistable && var.type.type == VarType::LOD_TENSOR) parameters[var.name] = var.type.lod_tensor->tensor;
  }
  CHECK(parameters.size() == 6);
  const std::string bytes = read_file("custom_gap/custom_gap.pdiparams");
  std::string_view rest = bytes;
  for (const auto& parameter : parameters) {
    CAPTURE(parameter.first);
    CHECK(take_saved_tensor(rest) == parameter.second);
  }
  CHECK(rest.empty());
}

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Descriptions of variables, of the newest revision and of the older ones: all that the bytes may be are tried.
#include "codec.hpp"
#include "target.hpp"
#include <lod/desc.hpp>
#include <lod/proto.hpp>
#include <lod/proto/revisions.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace r1 = lod::proto::r1;
namespace r2 = lod::proto::r2;
namespace r3 = lod::proto::r3;

namespace {

/// A VarDesc::Attr takes 6 bytes of a message and 200 of memory, three times that when a vector of them grows.
constexpr lod_fuzz::Bound bound{.times = 128};

// One of each revision, all of whose fields are set; of those that exclude each other, all.

lod::VarDesc newest() {
  const lod::TensorDesc tensor{lod::DataType::BF16, {-1, 640, 480}};
  lod::VarDesc desc = lod::VarDesc::lod_tensor("articles", tensor, 2);
  lod::VarType& type = desc.type;
  type.selected_rows = type.string = type.strings = type.vocab = type.sparse_coo = type.sparse_csr = tensor;
  type.tensor_array = lod::LoDTensorArrayDesc{tensor, 1};
  type.reader = lod::ReaderDesc{{{tensor, 0}, {tensor, {}}}};
  type.tuple = lod::VarType::Tuple({lod::VarType::FP32, lod::VarType::LOD_TENSOR});
  desc.persistable = desc.need_check_feed = desc.is_parameter = desc.stop_gradient = true;
  desc.attrs.push_back({.name = "seed", .type = lod::AttrType::INTS, .i = -1, .s = "text", .ints = {1, -2, 300}});
  desc.unknown_fields = "\xa2\x06\x03xyz\xab\x06\xb0\x06\x01\xac\x06";  // a string, and a group with a number
  return desc;
}

r1::VarDesc first() {
  r1::LoDTensorDesc tensor{.element_type = r1::LoDTensorDesc::INT32, .dims = {2, 3}, .lod_level = 1};
  tensor.int16_val = tensor.int32_val = {1, -2, 70000};
  tensor.int64_val = {1, -2};
  tensor.float_val = {1.5f};
  tensor.double_val = {2.5, -0.0};
  tensor.bool_val = {true, false, true};
  r1::Value value{.i = 1, .f = 2.0f, .s = "s", .ints = {1, 2}, .floats = {3.0f}, .strings = {"a", ""}};
  value.lod_tensor = tensor;
  return {.name = "x", .type = r1::VarDesc::LOD_TENSOR, .value = value};
}

r2::VarDesc second() { return {.name = "x", .lod_tensor = r2::LoDTensorDesc{r2::DataType::FP64, {-1, 4}, 2}}; }

r3::VarDesc third() {
  const r3::TensorDesc tensor{r2::DataType::FP32, {-1, 4}};
  return {.name = "x",
          .type = r3::VarDesc::SELECTED_ROWS,
          .lod_desc = r3::LoDTensorDesc{tensor, 1},
          .selected_rows_desc = tensor,
          .persistable = true};
}

/// What an older revision says can be said in the newest.
template <class M>
void check_older(std::string_view bytes, const M& another) {
  const auto old = lod_fuzz::check_message(bytes, bound, another);
  if (!old) return;
  const lod::VarDesc converted = lod::proto::to_newest(*old).description;
  LOD_FUZZ_EXPECT(converted.name == old->name);
  LOD_FUZZ_EXPECT(lod::decode<lod::VarDesc>(lod::encode(converted)) == converted);
}

}  // namespace

std::vector<std::string> lod_fuzz::seeds() {
  std::vector<std::string> all{lod::encode(newest()), lod::encode(first()), lod::encode(second()),
                               lod::encode(third())};
  all.push_back(lod::encode(lod::VarDesc::lod_tensor("x", {lod::DataType::FP32, {}})));
  all.push_back(lod::encode(lod::VarDesc::selected_rows("", {lod::DataType::INT64, {10, 8}})));
  return all;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes = lod_fuzz::input(data, size);
  static const lod::VarDesc another = newest();
  static const r1::VarDesc another_r1 = first();
  static const r2::VarDesc another_r2 = second();
  static const r3::VarDesc another_r3 = third();
  lod_fuzz::check_message(bytes, bound, another);
  check_older(bytes, another_r1);
  check_older(bytes, another_r2);
  check_older(bytes, another_r3);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// The three older revisions: their documents' examples, and what each becomes in the newest.
#include <lod/any_tensor.hpp>
#include <lod/error.hpp>
#include <lod/proto/revisions.hpp>
#include <lod/variable.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace r1 = lod::proto::r1;
namespace r2 = lod::proto::r2;
namespace r3 = lod::proto::r3;
using lod::DataType;
using lod::VarDesc;
using lod::VarType;
using lod::proto::Converted;
using lod::proto::to_newest;
using Sentences = std::vector<std::string>;

TEST_CASE("to_newest: a tensor of the first revision loses its values, and says which") {
  // Variable("X", shape=[784, 10], data_type=INT32, value=0), one row of it.
  const r1::VarDesc old{.name = "X",
                        .value = {.lod_tensor = r1::LoDTensorDesc{.element_type = r1::LoDTensorDesc::INT32,
                                                                  .dims = {-1, 10},
                                                                  .lod_level = 1,
                                                                  .int32_val = std::vector<std::int32_t>(10)}}};
  CHECK(lod::decode<r1::VarDesc>(lod::encode(old)) == old);
  const Converted x = to_newest(old);
  CHECK(x.description == VarDesc::lod_tensor("X", {DataType::INT32, {-1, 10}}, 1));
  CHECK(x.not_kept ==
        Sentences{"'X': value.lod_tensor.int32_val: 10 values are not kept: descriptions hold none any more"});
}

TEST_CASE("to_newest: the element types of the first revision, whose numbers differ") {
  const std::vector<std::pair<r1::LoDTensorDesc::Type, DataType>> types = {
      {r1::LoDTensorDesc::INT16, DataType::INT16}, {r1::LoDTensorDesc::INT32, DataType::INT32},
      {r1::LoDTensorDesc::INT64, DataType::INT64}, {r1::LoDTensorDesc::FP16, DataType::FP16},
      {r1::LoDTensorDesc::FP32, DataType::FP32},   {r1::LoDTensorDesc::DOUBLE, DataType::FP64},
      {r1::LoDTensorDesc::BOOL, DataType::BOOL}};
  for (const auto& [old, newest] : types) {
    const Converted x = to_newest(r1::VarDesc{.value = {.lod_tensor = r1::LoDTensorDesc{.element_type = old}}});
    CHECK(x.description.type.lod_tensor->tensor.data_type == newest);
    CHECK(!x.description.type.lod_tensor->lod_level.has_value());
    CHECK(x.not_kept.empty());
  }
  CHECK_THROWS_WITH_AS(
      to_newest(r1::VarDesc{.value = {.lod_tensor = r1::LoDTensorDesc{.element_type = r1::LoDTensorDesc::Type{}}}}),
      "LoDTensorDesc.element_type: 0 is no LoDTensorDesc::Type", std::invalid_argument);
}

TEST_CASE("to_newest: scalars, strings and lists of the first revision") {
  // Variable("X", data_type=STRING, value="aa")
  Converted x = to_newest({.name = "X", .type = r1::VarDesc::STRING, .value = {.s = "aa"}});
  CHECK(x.description == VarDesc::of_type("X", VarType::STRING));
  CHECK(x.not_kept == Sentences{"'X': value.s: 1 value is not kept: descriptions hold none any more"});

  CHECK(to_newest({.name = "X", .type = r1::VarDesc::INT}).description == VarDesc::of_type("X", VarType::INT32));
  CHECK(to_newest({.name = "X", .type = r1::VarDesc::INT, .value = {.i = 0}}).not_kept ==
        Sentences{"'X': value.i: 1 value is not kept: descriptions hold none any more"});
  CHECK(to_newest({.name = "X", .type = r1::VarDesc::FLOAT}).description == VarDesc::of_type("X", VarType::FP32));
  CHECK(to_newest({.name = "X", .type = r1::VarDesc::STRINGS}).description == VarDesc::of_type("X", VarType::STRINGS));
  CHECK(to_newest({.name = "X", .type = r1::VarDesc::STRINGS}).not_kept.empty());

  x = to_newest({.name = "X", .type = r1::VarDesc::FLOATS, .value = {.floats = {1, 2, 3}}});
  CHECK(x.description == VarDesc::lod_tensor("X", {DataType::FP32, {3}}));
  CHECK(x.not_kept ==
        Sentences{"'X': type: that it is a list is not kept: there are none any more, so it is described as a tensor",
                  "'X': value.floats: 3 values are not kept: descriptions hold none any more"});
  CHECK(to_newest({.type = r1::VarDesc::INTS}).description == VarDesc::lod_tensor("", {DataType::INT32, {0}}));
  CHECK_THROWS_WITH_AS(to_newest({.type = static_cast<r1::VarDesc::Type>(7)}), "VarDesc.type: 7 is no VarDesc::Type",
                       std::invalid_argument);
}

TEST_CASE("to_newest: nothing of the first revision is lost without a sentence") {
  r1::LoDTensorDesc tensor{.int16_val = {1},
                           .int32_val = {1},
                           .int64_val = {1},
                           .float_val = {1},
                           .double_val = {1},
                           .bool_val = {true},
                           .unknown_fields = "\x78\x01"};
  r1::VarDesc old{.name = "x",
                  .value = {.i = 1,
                            .f = 1.f,
                            .s = "",
                            .ints = {1},
                            .floats = {1},
                            .strings = {""},
                            .lod_tensor = tensor,
                            .unknown_fields = "\x78\x01"},
                  .unknown_fields = "\x78\x01\x78\x02"};
  const Converted all = to_newest(old);
  CHECK(all.not_kept.size() == 15);
  CHECK(all.not_kept[6] ==
        "'x': value.lod_tensor: 2 bytes of unknown fields are not kept: their numbers may have another meaning now");
  CHECK(all.not_kept[14] ==
        "'x': VarDesc: 4 bytes of unknown fields are not kept: their numbers may have another meaning now");
  CHECK(lod::decode<VarDesc>(lod::encode(all.description)) == all.description);

  old.type = r1::VarDesc::INT;
  const Converted scalar = to_newest(old);
  CHECK(!scalar.description.type.lod_tensor);
  CHECK(scalar.not_kept.size() == 9);
  CHECK(scalar.not_kept[0] == "'x': value.lod_tensor: the tensor is not kept: the variable is of another type");
}

TEST_CASE("to_variable: the values of the first revision") {
  using lod::proto::to_variable;
  // Variable("X", shape=[784, 10], data_type=INT32, value=0) and Variable("X", data_type=STRING, value="aa"), read
  // again.
  const auto tensor = [](r1::LoDTensorDesc desc) {
    const r1::VarDesc written{.name = "X", .value = {.lod_tensor = std::move(desc)}};
    return to_variable(lod::decode<r1::VarDesc>(lod::encode(written))).get<lod::AnyLoDTensor>();
  };
  lod::AnyLoDTensor x = tensor(
      {.element_type = r1::LoDTensorDesc::INT32, .dims = {784, 10}, .int32_val = std::vector<std::int32_t>(7840, 3)});
  CHECK(x.shape() == lod::Shape{784, 10});
  CHECK(x.view<std::int32_t>().data()[7839] == 3);
  CHECK(to_variable({.name = "X", .type = r1::VarDesc::STRING, .value = {.s = "aa"}}).get<std::string>() == "aa");

  const lod::Variable f = to_variable({.name = "f", .type = r1::VarDesc::FLOAT, .value = {.f = 0.5F}});
  CHECK(f.name() == "f");
  CHECK(f.get<float>() == 0.5F);
  CHECK(to_variable({.type = r1::VarDesc::INT}).get<std::int32_t>() == 0);
  CHECK(to_variable({.type = r1::VarDesc::STRINGS, .value = {.strings = {"a", ""}}}).get<Sentences>() ==
        Sentences{"a", ""});
  CHECK(to_variable({.type = r1::VarDesc::INTS, .value = {.ints = {1, 2}}}).get<lod::AnyLoDTensor>().shape() ==
        lod::Shape{2});
  CHECK(to_variable({.type = r1::VarDesc::FLOATS}).get<lod::AnyLoDTensor>().shape() == lod::Shape{0});

  x = tensor({.dims = {-1, 2}, .float_val = {1, 2, 3, 4}});
  CHECK(x.shape() == lod::Shape{2, 2});
  CHECK(x.view<float>().data()[3] == 4);
  CHECK(tensor({.element_type = r1::LoDTensorDesc::DOUBLE, .double_val = {0.5}}).shape() == lod::Shape{1});
  CHECK(tensor({.element_type = r1::LoDTensorDesc::BOOL, .dims = {1}, .bool_val = {true}}).view<bool>().data()[0]);
  CHECK(tensor({.element_type = r1::LoDTensorDesc::INT16, .dims = {1}, .int16_val = {-7}})
            .view<std::int16_t>()
            .data()[0] == -7);
  CHECK(tensor({.element_type = r1::LoDTensorDesc::FP16, .dims = {2, 3}}).shape() == lod::Shape{2, 3});
  CHECK(tensor({.dims = {-1, 3}, .lod_level = 1}).levels() == 1);

  CHECK_THROWS_WITH_AS(tensor({.dims = {-1, 2}, .float_val = {1, 2, 3}}),
                       "'X': value.lod_tensor: 3 values, expected 2 for {1, 2}", lod::ShapeMismatch);
  CHECK_THROWS_AS(tensor({.dims = {2, -1}, .float_val = {1, 2}}), lod::ShapeMismatch);
  CHECK_THROWS_AS(tensor({.dims = {-1, 0}, .float_val = {1}}), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(tensor({.dims = {1}, .lod_level = 2, .float_val = {1}}),
                       "'X': value.lod_tensor: values under 2 levels, expected none: lengths are not told",
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(tensor({.element_type = r1::LoDTensorDesc::INT16, .dims = {1}, .int16_val = {1 << 15}}),
                       "'X': value.lod_tensor: 32768 is no INT16", lod::OutOfRange);
}

TEST_CASE("to_newest: the second revision is kept whole, but for unknown fields") {
  // Variable(dims=[-1, 640, 480])
  r2::VarDesc old{.name = "image",
                  .lod_tensor = r2::LoDTensorDesc{.data_type = r2::DataType::FP64, .dims = {-1, 640, 480}}};
  CHECK(lod::decode<r2::VarDesc>(lod::encode(old)) == old);
  Converted x = to_newest(old);
  CHECK(x.description == VarDesc::lod_tensor("image", {DataType::FP64, {-1, 640, 480}}));
  CHECK(!x.description.type.lod_tensor->lod_level.has_value());
  CHECK(x.not_kept.empty());
  old.lod_tensor->lod_level = 0;
  CHECK(to_newest(old).description.type.lod_tensor->lod_level.has_value());

  old.unknown_fields = "\x18\x01";  // the newest would take it for persistable
  old.lod_tensor->unknown_fields = "\x20\x01";
  x = to_newest(old);
  CHECK(!x.description.persistable);
  CHECK(x.not_kept ==
        Sentences{
            "'image': lod_tensor: 2 bytes of unknown fields are not kept: their numbers may have another meaning now",
            "'image': VarDesc: 2 bytes of unknown fields are not kept: their numbers may have another meaning now"});

  CHECK(to_newest(r2::VarDesc{.name = "x"}).description == VarDesc::of_type("x", VarType::LOD_TENSOR));
  old.lod_tensor->data_type = static_cast<r2::DataType>(19);
  CHECK_THROWS_WITH_AS(to_newest(old), "LoDTensorDesc.data_type: 19 is no DataType", std::invalid_argument);
}

TEST_CASE("to_newest: the third revision is kept whole, but for unknown fields of the variable") {
  r3::VarDesc rows{
      .name = "g",
      .type = r3::VarDesc::SELECTED_ROWS,
      .selected_rows_desc = r3::TensorDesc{.data_type = r3::DataType::FP16, .dims = {std::int64_t{1} << 40, 8}},
      .persistable = true};
  CHECK(lod::decode<r3::VarDesc>(lod::encode(rows)) == rows);
  VarDesc expected = VarDesc::selected_rows("g", {DataType::FP16, {std::int64_t{1} << 40, 8}});
  expected.persistable = true;
  CHECK(to_newest(rows).description == expected);
  CHECK(to_newest(rows).not_kept.empty());

  r3::VarDesc tensor{.name = "x",
                     .lod_desc = r3::LoDTensorDesc{.tensor = {.data_type = r3::DataType::BOOL}, .lod_level = 2}};
  CHECK(to_newest(tensor).description == VarDesc::lod_tensor("x", {DataType::BOOL, {}}, 2));
  CHECK(!to_newest(tensor).description.persistable.has_value());
  tensor.lod_desc->lod_level.reset();
  CHECK(!to_newest(tensor).description.type.lod_tensor->lod_level.has_value());

  // Both descriptions, whichever the type names; the unknown fields of messages that have not changed since.
  tensor.selected_rows_desc = rows.selected_rows_desc;
  tensor.selected_rows_desc->unknown_fields = "\x78\x01";
  tensor.lod_desc->unknown_fields = "\x78\x02";
  tensor.lod_desc->tensor.unknown_fields = "\x78\x03";
  tensor.unknown_fields = "\x30\x01";  // the newest would take it for stop_gradient
  const Converted both = to_newest(tensor);
  CHECK(both.description.type.selected_rows->dims == rows.selected_rows_desc->dims);
  CHECK(both.description.type.selected_rows->unknown_fields == "\x78\x01");
  CHECK(both.description.type.lod_tensor->unknown_fields == "\x78\x02");
  CHECK(both.description.type.lod_tensor->tensor.unknown_fields == "\x78\x03");
  CHECK(both.not_kept ==
        Sentences{"'x': VarDesc: 2 bytes of unknown fields are not kept: their numbers may have another meaning now"});

  tensor.type = static_cast<r3::VarDesc::VarType>(2);
  CHECK_THROWS_WITH_AS(to_newest(tensor), "VarDesc.type: 2 is no VarDesc::VarType", std::invalid_argument);
}

TEST_CASE("decode: bytes of another revision are sometimes, not always, refused") {
  CHECK_THROWS_AS(lod::decode<VarDesc>(lod::encode(r2::VarDesc{.name = "x"})), lod::ParseError);
  // The data type FP32 of the one is the kind FP32 of the other; dims, of another wire type, are kept as unknown.
  const r2::VarDesc old{.name = "x", .lod_tensor = r2::LoDTensorDesc{.dims = {2, 3}}};
  VarDesc misread = VarDesc::of_type("x", VarType::FP32);
  misread.type.unknown_fields = "\x10\x02\x10\x03";
  CHECK(lod::decode<VarDesc>(lod::encode(old)) == misread);
  CHECK(lod::encode(misread) == lod::encode(old));
  CHECK(lod::decode<VarDesc>(lod::encode(r2::VarDesc{.name = "x", .lod_tensor = r2::LoDTensorDesc{}})) ==
        VarDesc::of_type("x", VarType::FP32));
}

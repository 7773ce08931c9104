// SPDX-License-Identifier: Apache-2.0
// The rules of the wire format, byte by byte: what is written, what is read, and at which byte what is wrong.
#include "support/count_allocations.hpp"
#include <lod/proto.hpp>
#include <lod/proto/revisions.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using lod::TensorDesc;
using lod::VarDesc;
using lod::VarType;
namespace r1 = lod::proto::r1;

namespace {

std::string bytes_of(std::initializer_list<int> numbers) {
  std::string bytes;
  for (const int number : numbers) bytes += static_cast<char>(number);
  return bytes;
}

/// A variable "x" of type LOD_TENSOR: 7 bytes, of which the last two are those of VarType.
const std::string small = bytes_of({0x0a, 1, 'x', 0x12, 2, 0x08, 7});
/// The name of the same variable, and its type with these fields after the first.
std::string with_type_fields(const std::string& fields) {
  return bytes_of({0x0a, 1, 'x', 0x12, static_cast<int>(2 + fields.size()), 0x08, 7}) + fields;
}
/// -1 on the wire.
const std::string minus_one = std::string(9, '\xff') + '\x01';

/// Checks that decoding M throws a ParseError about the byte at `position`, with this text.
template <class M = VarDesc>
void check_message_refused(const std::string& bytes, std::size_t position, const std::string& text) {
  INFO("expected: ", text);
  try {
    lod::decode<M>(bytes);
    FAIL_CHECK("nothing was thrown");
  } catch (const lod::ParseError& error) {
    CHECK(error.position() == position);
    CHECK(error.what() == text + " (at byte " + std::to_string(position) + ")");
  }
}

std::string nested_groups(int count) {
  return std::string(static_cast<std::size_t>(count), '\x7b') + std::string(static_cast<std::size_t>(count), '\x7c');
}

}  // namespace

// ---- What is written ----

TEST_CASE("encode: the bytes of the contract's example") {
  VarDesc v = VarDesc::lod_tensor("x", {lod::DataType::FP32, {-1, 640, 480}}, 2);
  v.persistable = true;
  const std::string dims = '\x10' + minus_one + bytes_of({0x10, 0x80, 5, 0x10, 0xe0, 3});
  const std::string expected =
      bytes_of({0x0a, 1, 'x', 0x12, 27, 0x08, 7, 0x1a, 23, 0x0a, 19, 0x08, 5}) + dims + bytes_of({0x10, 2, 0x18, 1});
  CHECK(lod::encode(v) == expected);
  CHECK(lod::decode<VarDesc>(expected) == v);
}

TEST_CASE("encode: a default that was set is written, an absent one is not") {
  VarDesc v = VarDesc::of_type("x", VarType::LOD_TENSOR);
  CHECK(lod::encode(v) == small);
  v.persistable = false;
  CHECK(lod::encode(v) == small + bytes_of({0x18, 0}));
  CHECK(lod::decode<VarDesc>(lod::encode(v)).persistable.has_value());
  v.persistable.reset();
  CHECK(lod::encode(v) == small);
  CHECK(!lod::decode<VarDesc>(small).persistable.has_value());
}

TEST_CASE("encode: appends with one allocation at most, and none where there is room") {
  const VarDesc v =
      VarDesc::lod_tensor("a name longer than what a short string holds", {lod::DataType::INT64, {-1, 1}});
  std::string out = "before";
  const std::int64_t at_first = lod_test::allocations;
  lod::encode(v, out);
  CHECK(lod_test::allocations - at_first == (lod_test::counts_allocations ? 1 : 0));
  CHECK(out == "before" + lod::encode(v));
  out.clear();
  const std::int64_t with_room = lod_test::allocations;
  lod::encode(v, out);
  CHECK(lod_test::allocations == with_room);
}

TEST_CASE("encode: an enum's value that does not exist is refused, and nothing is appended") {
  VarDesc v = VarDesc::lod_tensor("x", {static_cast<lod::DataType>(VarType::LOD_TENSOR), {2}});
  std::string out = "before";
  CHECK_THROWS_WITH_AS(lod::encode(v, out), "TensorDesc.data_type: 7 is no DataType", std::invalid_argument);
  CHECK(out == "before");
  v = VarDesc::of_type("x", static_cast<VarType::Type>(39));
  CHECK_THROWS_WITH_AS(lod::encode(v), "VarType.type: 39 is no VarType::Type", std::invalid_argument);
  v = VarDesc::of_type("x", VarType::RAW);
  v.attrs.push_back({.name = "a", .type = static_cast<lod::AttrType>(-1)});
  CHECK_THROWS_WITH_AS(lod::encode(v), "Attr.type: -1 is no AttrType", std::invalid_argument);
}

// ---- What is read ----

TEST_CASE("decode: fields may come in any order, and the last of several values counts") {
  const std::string bytes =
      bytes_of({0x18, 0, 0x12, 2, 0x08, 11, 0x0a, 1, 'y', 0x18, 1, 0x12, 2, 0x08, 7, 0x0a, 1, 'x'});
  VarDesc expected = VarDesc::of_type("x", VarType::LOD_TENSOR);
  expected.persistable = true;
  CHECK(lod::decode<VarDesc>(bytes) == expected);
  CHECK(lod::encode(lod::decode<VarDesc>(bytes)) == small + bytes_of({0x18, 1}));
}

TEST_CASE("decode: the parts of a message that comes more than once are merged") {
  // lod_tensor in three parts, over two parts of type: level, dims, data type and more dims. No part is complete.
  const std::string bytes = bytes_of({0x12, 4,  0x1a, 2, 0x10, 2,  //
                                      0x0a, 1,  'x',               //
                                      0x12, 14, 0x08, 7,           //
                                      0x1a, 4,  0x0a, 2, 0x10, 3,  //
                                      0x1a, 4,  0x0a, 2, 0x08, 5,  //
                                      0x12, 8,  0x1a, 6, 0x0a, 4, 0x10, 4, 0x10, 5});
  const VarDesc expected = VarDesc::lod_tensor("x", {lod::DataType::FP32, {3, 4, 5}}, 2);
  CHECK(lod::decode<VarDesc>(bytes) == expected);

  // What the struct held before is not merged with, only replaced.
  VarDesc reused = VarDesc::lod_tensor("old", {lod::DataType::BOOL, {9, 9}}, 7);
  reused.type.reader = lod::ReaderDesc{{*expected.type.lod_tensor}};
  reused.attrs.push_back({.name = "a", .i = 1});
  reused.unknown_fields = "?";
  lod::decode(bytes, reused);
  CHECK(reused == expected);
}

TEST_CASE("decode: repeated messages are not merged, each must be complete") {
  const std::string attr = bytes_of({0x3a, 5, 0x0a, 1, 'a', 0x10, 0});
  CHECK(lod::decode<VarDesc>(small + attr + attr).attrs.size() == 2);
  check_message_refused(small + bytes_of({0x3a, 3, 0x0a, 1, 'a', 0x3a, 2, 0x10, 0}), 12,
                        "VarDesc.attrs.type: required, but missing");
}

TEST_CASE("decode: repeated numbers may be packed or not, however they are declared") {
  const TensorDesc expected{lod::DataType::FP32, {1, 300, -1, 2}};
  CHECK(lod::decode<TensorDesc>(bytes_of({0x08, 5, 0x10, 1, 0x12, 12, 0xac, 2}) + minus_one + bytes_of({0x10, 2})) ==
        expected);
  CHECK(lod::decode<TensorDesc>(bytes_of({0x08, 5, 0x12, 0})).dims.empty());
  CHECK(lod::decode<VarType::Tuple>(bytes_of({0x08, 7, 0x0a, 2, 8, 9})).element_type ==
        std::vector{VarType::LOD_TENSOR, VarType::SELECTED_ROWS, VarType::FEED_MINIBATCH});

  const r1::LoDTensorDesc packed{.element_type = r1::LoDTensorDesc::FP32,
                                 .int16_val = {7, -1},
                                 .float_val = {1.5f, -2},
                                 .double_val = {0.5},
                                 .bool_val = {true, false}};
  const std::string expected_bytes =
      bytes_of({0x08, 5, 0x22, 11, 7}) + minus_one +
      bytes_of({0x3a, 8, 0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0, 0x42, 8, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f, 0x4a, 2, 1, 0});
  CHECK(lod::encode(packed) == expected_bytes);
  CHECK(lod::decode<r1::LoDTensorDesc>(expected_bytes) == packed);
  const std::string not_packed =
      bytes_of({0x08, 5, 0x20, 7, 0x20}) + minus_one +
      bytes_of({0x3d, 0, 0, 0xc0, 0x3f, 0x3d, 0, 0, 0, 0xc0, 0x41, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f, 0x48, 1, 0x48, 0});
  CHECK(lod::decode<r1::LoDTensorDesc>(not_packed) == packed);
  check_message_refused<r1::LoDTensorDesc>(bytes_of({0x08, 5, 0x3a, 6, 0, 0, 0xc0, 0x3f, 0, 0}), 8,
                                           "LoDTensorDesc.float_val: 4 bytes expected, 2 are left");
  check_message_refused<TensorDesc>(bytes_of({0x08, 5, 0x12, 2, 1, 0x80}), 5,
                                    "TensorDesc.dims: the bytes end inside a number");
}

TEST_CASE("decode: a number may be longer than it must be, and loses the bits that its type does not hold") {
  CHECK(lod::decode<VarType>(bytes_of({0x88, 0x80, 0x80, 0x80, 0, 0x87, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
                                       0})) == VarType{.type = VarType::LOD_TENSOR});
  const auto level = [](const std::string& number) {
    return lod::decode<lod::LoDTensorDesc>(bytes_of({0x0a, 2, 0x08, 5, 0x10}) + number).lod_level.value();
  };
  CHECK(level(minus_one) == -1);
  CHECK(level(bytes_of({0xff, 0xff, 0xff, 0xff, 0x0f})) == -1);
  CHECK(level(bytes_of({0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 1})) == 2);
  // true is every number but 0, also where the lower bits are 0.
  CHECK(lod::decode<VarDesc>(small + bytes_of({0x18, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1})).persistable);
}

TEST_CASE("decode: fields that have no name are kept, at each level, as short as can be") {
  const std::string in_type = bytes_of({0xfd, 1, 1, 2, 3, 4});
  const std::string before =
      bytes_of({0xc3, 0x3e, 0x08, 0x81, 0x80, 0, 0xd3, 0x3e, 0xd4, 0x3e, 0xc4, 0x3e});  // a group
  const std::string after = bytes_of({0xfa, 0x80, 0, 0x82, 0, 'a', 'b', 0x79, 1, 2, 3, 4, 5, 6, 7, 8});
  const VarDesc v = lod::decode<VarDesc>(before + with_type_fields(in_type) + after);
  CHECK(v.type.unknown_fields == in_type);
  CHECK(v.unknown_fields == bytes_of({0xc3, 0x3e, 0x08, 1,   0xd3, 0x3e, 0xd4, 0x3e, 0xc4, 0x3e,  //
                                      0x7a, 2,    'a',  'b', 0x79, 1,    2,    3,    4,    5,    6, 7, 8}));
  CHECK(lod::encode(v) == with_type_fields(in_type) + v.unknown_fields);
  CHECK(lod::decode<VarDesc>(lod::encode(v)) == v);
}

TEST_CASE("decode: into a struct that has the memory already, allocates nothing") {
  VarDesc v =
      VarDesc::lod_tensor("a name longer than what a short string holds", {lod::DataType::FP32, {-1, 640, 480}}, 2);
  const std::string bytes = lod::encode(v);
  const std::int64_t before = lod_test::allocations;
  lod::decode(bytes, v);
  CHECK(lod_test::allocations == before);
  CHECK(lod::encode(v) == bytes);
}

// ---- What is refused ----

TEST_CASE("ParseError: a required field is missing") {
  check_message_refused("", 0, "VarDesc.name: required, but missing");
  check_message_refused(bytes_of({0x12, 2, 0x08, 7}), 4, "VarDesc.name: required, but missing");
  check_message_refused(bytes_of({0x0a, 1, 'x'}), 3, "VarDesc.type: required, but missing");
  check_message_refused(bytes_of({0x0a, 1, 'x', 0x12, 0}), 5, "VarDesc.type.type: required, but missing");
  check_message_refused(with_type_fields(bytes_of({0x1a, 0})) + bytes_of({0x18, 1}), 9,
                        "VarDesc.type.lod_tensor.tensor: required, but missing");
  check_message_refused(with_type_fields(bytes_of({0x1a, 4, 0x0a, 2, 0x10, 3})), 13,
                        "VarDesc.type.lod_tensor.tensor.data_type: required, but missing");
  check_message_refused(with_type_fields(bytes_of({0x2a, 2, 0x0a, 0})), 11,
                        "VarDesc.type.reader.lod_tensor.tensor: required, but missing");
}

TEST_CASE("decode: a field with a wire type that is not its own is kept as an unknown one, and written again") {
  const auto check_kept = [](const std::string& before, const std::string& other) {
    VarDesc expected = lod::decode<VarDesc>(before);
    expected.unknown_fields = other;
    CHECK(lod::decode<VarDesc>(before + other) == expected);
    CHECK(lod::decode<VarDesc>(other + before) == expected);
    CHECK(lod::encode(expected) == before + other);
    VarDesc reused = lod::decode<VarDesc>(small);
    lod::decode(other + before, reused);
    CHECK(reused == expected);
  };
  check_kept(small, bytes_of({0x08, 1}));                           // name, a number
  check_kept(small, bytes_of({0x0d, 1, 2, 3, 4}));                  // name, of 4 bytes
  check_kept(small, bytes_of({0x11, 1, 2, 3, 4, 5, 6, 7, 8}));      // type, of 8 bytes
  check_kept(small, bytes_of({0x1a, 2, 0, 0}));                     // persistable, bytes
  check_kept(small, bytes_of({0x1b, 0x08, 1, 0x1c}));               // persistable, a group
  check_kept(small + bytes_of({0x18, 1}), bytes_of({0x1a, 1, 0}));  // persistable, which comes rightly, too
  CHECK(lod::decode<TensorDesc>(bytes_of({0x08, 5, 0x15, 0, 0, 0, 0})) ==
        TensorDesc{lod::DataType::FP32, {}, bytes_of({0x15, 0, 0, 0, 0})});
  CHECK(lod::decode<r1::LoDTensorDesc>(bytes_of({0x08, 5, 0x38, 1})) ==
        r1::LoDTensorDesc{.element_type = r1::LoDTensorDesc::FP32, .unknown_fields = bytes_of({0x38, 1})});
}

TEST_CASE("encode: refuses unknown fields that no decoder gives, since none would give them back") {
  const auto check_refused = [](const std::string& fields, const char* why) {
    VarDesc v = lod::decode<VarDesc>(small);
    v.unknown_fields = fields;
    std::string out = "before";
    CHECK_THROWS_WITH_AS(lod::encode(v, out), doctest::Contains(why), std::invalid_argument);
    CHECK(out == "before");
  };
  check_refused(bytes_of({0x0a, 1, 'y'}), "VarDesc.unknown_fields: field 'name' is known");
  check_refused(bytes_of({0x18, 1}), "VarDesc.unknown_fields: field 'persistable' is known");
  check_refused(bytes_of({0x7a, 9, 0}), "VarDesc.unknown_fields: VarDesc: 9 bytes expected, 1 are left");
  check_refused("no fields", "VarDesc.unknown_fields: ");
  check_refused(bytes_of({0x7c}), "group 15 ends, but did not begin");
  check_refused(nested_groups(101), "more than 100 deep");
  VarDesc inside = VarDesc::lod_tensor("x", {lod::DataType::FP32, {1}, nested_groups(97)});
  CHECK(lod::decode<VarDesc>(lod::encode(inside)) == inside);
  inside.type.lod_tensor->tensor.unknown_fields = nested_groups(98);
  CHECK_THROWS_WITH_AS(lod::encode(inside), doctest::Contains("more than 100 deep"), std::invalid_argument);
  TensorDesc packed{lod::DataType::FP32, {1}, bytes_of({0x12, 1, 2})};  // dims, packed
  CHECK_THROWS_WITH_AS(lod::encode(packed), "TensorDesc.unknown_fields: field 'dims' is known", std::invalid_argument);
}

TEST_CASE("ParseError: a field with a wrong wire type is not there, and wire types that do not exist") {
  check_message_refused(bytes_of({0x08, 1}), 2, "VarDesc.name: required, but missing");
  check_message_refused(bytes_of({0x0a, 1, 'x', 0x12, 5, 0x0d, 0, 0, 0, 0}), 10,
                        "VarDesc.type.type: required, but missing");
  check_message_refused(small + bytes_of({0x1f}), 7, "VarDesc: wire type 7, expected 0 to 5");
  check_message_refused(small + bytes_of({0x1c}), 7, "VarDesc: group 3 ends, but did not begin");
  check_message_refused(bytes_of({0x7e}), 0, "VarDesc: wire type 6, expected 0 to 5");
  check_message_refused(bytes_of({0x7f}), 0, "VarDesc: wire type 7, expected 0 to 5");
}

TEST_CASE("ParseError: an enum's value that does not exist") {
  check_message_refused(bytes_of({0x0a, 1, 'x', 0x12, 2, 0x08, 39}), 6, "VarDesc.type.type: 39 is no VarType::Type");
  check_message_refused(bytes_of({0x0a, 1, 'x', 0x12, 11, 0x08}) + minus_one, 6,
                        "VarDesc.type.type: -1 is no VarType::Type");
  // Kinds of variables are no element types.
  check_message_refused(with_type_fields(bytes_of({0x1a, 4, 0x0a, 2, 0x08, 7})), 12,
                        "VarDesc.type.lod_tensor.tensor.data_type: 7 is no DataType");
  check_message_refused(small + bytes_of({0x3a, 5, 0x0a, 1, 'a', 0x10, 18}), 13,
                        "VarDesc.attrs.type: 18 is no AttrType");
  check_message_refused<VarType::Tuple>(bytes_of({0x0a, 3, 7, 8, 39}), 4, "Tuple.element_type: 39 is no VarType::Type");
  check_message_refused<r1::LoDTensorDesc>(bytes_of({0x08, 0}), 1,
                                           "LoDTensorDesc.element_type: 0 is no LoDTensorDesc::Type");
  check_message_refused<r1::VarDesc>(bytes_of({0x10, 7}), 1, "VarDesc.type: 7 is no VarDesc::Type");
  check_message_refused<lod::proto::r2::LoDTensorDesc>(bytes_of({0x08, 7}), 1,
                                                       "LoDTensorDesc.data_type: 7 is no DataType");
  check_message_refused<lod::proto::r3::VarDesc>(bytes_of({0x10, 2}), 1, "VarDesc.type: 2 is no VarDesc::VarType");
}

TEST_CASE("ParseError: the bytes end too early") {
  check_message_refused(small + bytes_of({0x98}), 7, "VarDesc: the bytes end inside a number");
  check_message_refused(small + bytes_of({0x18}), 8, "VarDesc.persistable: the bytes end inside a number");
  check_message_refused(small + bytes_of({0x18, 0x80}), 8, "VarDesc.persistable: the bytes end inside a number");
  check_message_refused(bytes_of({0x0a}), 1, "VarDesc.name: the bytes end inside a number");
  check_message_refused(bytes_of({0x0a, 5, 'x'}), 1, "VarDesc.name: 5 bytes expected, 1 are left");
  check_message_refused(bytes_of({0x0a, 1, 'x', 0x12, 2, 0x08}), 4, "VarDesc.type: 2 bytes expected, 1 are left");
  // Bytes enough, but they belong to the message outside.
  check_message_refused(with_type_fields(bytes_of({0x1a, 5})) + small, 8,
                        "VarDesc.type.lod_tensor: 5 bytes expected, 0 are left");
  check_message_refused(small + bytes_of({0x7d, 0, 0, 0}), 8, "VarDesc: 4 bytes expected, 3 are left");
  check_message_refused(small + bytes_of({0x79, 0, 0, 0, 0}), 8, "VarDesc: 8 bytes expected, 4 are left");
  check_message_refused(small + bytes_of({0x7a, 9, 0}), 8, "VarDesc: 9 bytes expected, 1 are left");
  check_message_refused(small + bytes_of({0x78}), 8, "VarDesc: the bytes end inside a number");
}

TEST_CASE("ParseError: lengths, numbers and tags that are too long") {
  check_message_refused(bytes_of({0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 'x'}), 1,
                        "VarDesc.name: 4294967295 bytes expected, 1 are left");
  check_message_refused('\x0a' + minus_one, 1, "VarDesc.name: 18446744073709551615 bytes expected, 0 are left");
  check_message_refused(bytes_of({0x0a, 0x81, 0x80, 0x80, 0x80, 0x80, 0, 'x'}), 1,
                        "VarDesc.name: a length of more than 32 bits");
  check_message_refused(small + '\x18' + std::string(10, '\xff') + '\x01', 8,
                        "VarDesc.persistable: a number of more than 10 bytes");
  check_message_refused(small + '\x78' + std::string(11, '\xff'), 8, "VarDesc: a number of more than 10 bytes");
  check_message_refused(bytes_of({0xff, 0xff, 0xff, 0xff, 0x1f}), 0, "VarDesc: a tag of more than 32 bits");
  check_message_refused(bytes_of({0x8a, 0x80, 0x80, 0x80, 0x80, 0}), 0, "VarDesc: a tag of more than 32 bits");
  check_message_refused<r1::LoDTensorDesc>(bytes_of({0x08, 5, 0x42, 0xf8, 0xff, 0xff, 0xff, 7, 0}), 3,
                                           "LoDTensorDesc.double_val: 2147483640 bytes expected, 1 are left");
  const std::string_view beyond("", std::size_t{1} << 31);  // refused before a byte is read
  CHECK_THROWS_WITH_AS(lod::decode<VarDesc>(beyond),
                       "VarDesc: 2147483648 bytes, expected 2147483647 at most (at byte 0)", lod::ParseError);
}

TEST_CASE("ParseError: field number 0") {
  check_message_refused(bytes_of({0}), 0, "VarDesc: field number 0, expected 1 or more");
  check_message_refused(small + bytes_of({0x02, 0}), 7, "VarDesc: field number 0, expected 1 or more");
  check_message_refused(with_type_fields(bytes_of({0x05, 0, 0, 0, 0})), 7,
                        "VarDesc.type: field number 0, expected 1 or more");
  check_message_refused(small + bytes_of({0x7b, 0x00, 0, 0x7c}), 8, "VarDesc: field number 0, expected 1 or more");
}

TEST_CASE("ParseError: groups that do not end, do not begin or lie too deep") {
  check_message_refused(small + bytes_of({0x7b}), 8, "VarDesc: the bytes end inside group 15");
  check_message_refused(small + bytes_of({0x7b, 0x84, 1}), 8, "VarDesc: group 16 ends, but did not begin");
  check_message_refused(small + bytes_of({0x7c}), 7, "VarDesc: group 15 ends, but did not begin");
  check_message_refused(with_type_fields(bytes_of({0x7b})) + bytes_of({0x7c}), 8,
                        "VarDesc.type: the bytes end inside group 15");

  CHECK(lod::decode<VarDesc>(small + nested_groups(100)).unknown_fields == nested_groups(100));
  check_message_refused(small + nested_groups(101), 107, "VarDesc: messages and groups more than 100 deep");
  // The message that they lie in counts.
  CHECK(
      lod::decode<VarDesc>(bytes_of({0x0a, 1, 'x', 0x12, 0xc8, 1, 0x08, 7}) + nested_groups(99)).type.unknown_fields ==
      nested_groups(99));
  check_message_refused(bytes_of({0x0a, 1, 'x', 0x12, 0xca, 1, 0x08, 7}) + nested_groups(100), 107,
                        "VarDesc.type: messages and groups more than 100 deep");
}

TEST_CASE("ParseError: leaves the struct that was to be replaced as it was") {
  const VarDesc before = VarDesc::lod_tensor("x", {lod::DataType::FP32, {-1, 640, 480}}, 2);
  VarDesc v = before;
  const std::string bytes = lod::encode(VarDesc::reader("y", {{{lod::DataType::BOOL, {1}}, 3}}));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK_THROWS_AS(lod::decode(std::string_view(bytes).substr(0, size), v), lod::ParseError);
    CHECK(v == before);
  }
}

// SPDX-License-Identifier: Apache-2.0
// The bytes of saved tensors and selected rows: each layout byte by byte, what is refused, and that hostile bytes cost
// nothing.
#include "descriptions/paddle_data.hpp"
#include "support/count_allocations.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/io/paddle_stream.hpp>

#include <doctest/doctest.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace paddle = lod::paddle;
using lod::AnyLoDTensor;
using lod::AnySelectedRows;
using lod::DataType;
using lod::LoD;
using lod::LoDTensor;
using lod::SelectedRows;
using lod::Shape;
using lod_test::raw;
using lod_test::same_bits;
using paddle::Layout;

namespace {

constexpr std::uint32_t u32 = 0;  // a version
std::uint64_t u64(std::uint64_t number) { return number; }
std::int64_t i64(std::int64_t number) { return number; }

/// A description with its size: data type and dims as bytes of the wire format.
std::string description(std::string_view bytes) {
  return raw(static_cast<std::int32_t>(bytes.size())) + std::string(bytes);
}
/// FP32 {2}, and the two values.
const std::string two_floats = description("\x08\x05\x10\x02") + raw(1.5f, -2.0f);
const std::string no_levels = raw(u64(0));

AnyLoDTensor decode(std::string_view bytes) {
  AnyLoDTensor x = paddle::decode_tensor(bytes);
  CHECK(bytes.empty());
  return x;
}
AnySelectedRows decode_rows(std::string_view bytes) {
  AnySelectedRows x = paddle::decode_selected_rows(bytes);
  CHECK(bytes.empty());
  return x;
}

/// Checks that decoding throws a ParseError about the byte at `position`, with this text, and leaves the bytes.
template <class Decode>
void check_stream_refused(const Decode& decode_from, const std::string& bytes, std::size_t position,
                          const std::string& text) {
  INFO("expected: ", text);
  std::string_view rest = bytes;
  try {
    decode_from(rest);
    FAIL_CHECK("nothing was thrown");
  } catch (const lod::ParseError& error) {
    CHECK(error.position() == position);
    CHECK(error.what() == text + " (at byte " + std::to_string(position) + ")");
  }
  CHECK(rest.size() == bytes.size());
}
void check_stream_refused(const std::string& bytes, std::size_t position, const std::string& text) {
  check_stream_refused([](std::string_view& rest) { paddle::decode_tensor(rest); }, bytes, position, text);
}
void check_rows_refused(const std::string& bytes, std::size_t position, const std::string& text) {
  check_stream_refused([](std::string_view& rest) { paddle::decode_selected_rows(rest); }, bytes, position, text);
}

/// Calls read(part) for each beginning of `bytes` and for each flip of a bit in them. It must throw a ParseError or
/// return; returns how often it did which.
struct Outcomes {
  int accepted = 0;
  int refused = 0;
};
template <class Read>
Outcomes read_damaged(const std::string& bytes, const Read& read) {
  Outcomes outcomes;
  const auto count = [&](std::string_view part) {
    const std::vector<char> copied(part.begin(), part.end());  // so that sanitizers see a read beyond the end
    try {
      read(std::string_view(copied.data(), copied.size()));
      ++outcomes.accepted;
    } catch (const lod::ParseError& error) {
      CHECK(error.position() <= part.size());
      ++outcomes.refused;
    }
  };
  for (std::size_t size = 0; size < bytes.size(); ++size) count(std::string_view(bytes).substr(0, size));
  CHECK(outcomes.accepted == 0);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string damaged = bytes;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    count(damaged);
  }
  return outcomes;
}

/// Checks that decoding is refused, and takes hardly any memory on the way.
template <class Decode>
void check_cheap(const Decode& decode_from, const std::string& bytes) {
  const std::int64_t before = lod_test::allocated_bytes;
  std::string_view rest = bytes;
  CHECK_THROWS_AS(decode_from(rest), lod::ParseError);
  CHECK(lod_test::allocated_bytes - before < 4096);
}

}  // namespace

// ---- What is written and read ----

TEST_CASE("encode_tensor: the 28 bytes of a parameter that PaddlePaddle saved") {
  const std::string bytes = lod_test::paddle_bytes("fit_a_line/fc_0.b_0");
  CHECK(bytes == raw(u32) + no_levels + raw(u32) + description("\x08\x05\x10\x01") + raw(22.738298416137695f));
  CHECK(bytes.size() == 28);

  const LoDTensor<float> x = LoDTensor<float>::from_values({}, {}, std::vector{22.738298416137695f});
  CHECK(paddle::encode_tensor(x) == bytes);
  CHECK(same_bits(decode(bytes), LoDTensor<float>(x)));
}

TEST_CASE("decode_tensor: the layout of 2017, in 30 bytes") {
  const std::string bytes = raw(u32) + description("\x08\x05\x10\x02\x10\x01") + raw(1.5f, -2.0f) + no_levels;
  CHECK(bytes.size() == 30);
  const AnyLoDTensor x = decode(bytes);
  CHECK(x.shape() == Shape{2, 1});
  CHECK(x.view<float>().values()[1] == -2);
  CHECK(paddle::encode_tensor(x, Layout::OF_2017) == bytes);
}

TEST_CASE("decode_tensor: levels in both layouts") {
  // Two articles of 2 and 1 sentences, which have 3, 2 and 4 words.
  const std::string levels = raw(u64(2), u64(24), i64(0), i64(2), i64(3), u64(32), i64(0), i64(3), i64(5), i64(9));
  const std::string desc = description("\x08\x01\x10\x09\x10\x02");
  LoDTensor<std::int16_t> x(LoD::from_offsets({{0, 2, 3}, {0, 3, 5, 9}}), {2});
  for (std::size_t i = 0; i < 18; ++i) x.values()[i] = static_cast<std::int16_t>(100 * i);
  const std::string values(reinterpret_cast<const char*>(x.data()), 36);

  const std::string current = raw(u32) + levels + raw(u32) + desc + values;
  CHECK(paddle::encode_tensor(x) == current);
  CHECK(same_bits(decode(current), LoDTensor<std::int16_t>(x)));
  const std::string of_2017 = raw(u32) + desc + values + levels;
  CHECK(paddle::encode_tensor(x, Layout::OF_2017) == of_2017);
  CHECK(same_bits(decode(of_2017), LoDTensor<std::int16_t>(x)));
}

TEST_CASE("encode_tensor: random LoDs of every depth come back, and slices as the tensors they are copies of") {
  lod_test::for_each_random_lod(40, 0, 4, [](lod_test::Engine& engine, const lod_test::Lengths& lengths) {
    const LoDTensor<std::int64_t> x = lod_test::counted_rows(lengths, 5);
    for (const Layout layout : {Layout::CURRENT, Layout::OF_2017}) {
      const std::string bytes = paddle::encode_tensor(x, layout);
      const AnyLoDTensor back = decode(bytes);
      REQUIRE(same_bits(back, LoDTensor<std::int64_t>(x)));
      REQUIRE(paddle::encode_tensor(back, layout) == bytes);
      REQUIRE(paddle::encode_tensor(x.view(), layout) == bytes);

      const std::int64_t begin = lod_test::random_number(engine, 0, x.size());
      const auto slice = x.between(begin, lod_test::random_number(engine, begin, x.size()));
      REQUIRE(same_bits(decode(paddle::encode_tensor(slice, layout)), LoDTensor<std::int64_t>::copy_of(slice)));
    }
  });
}

TEST_CASE("decode_tensor: every data type, also those that C++ has no type for") {
  for (std::int32_t number = 0; number < 64; ++number) {
    const auto type = static_cast<DataType>(number);
    if (!lod::is_pod(type)) continue;
    CAPTURE(lod::to_string(type));
    AnyLoDTensor x(type, LoD::from_lengths({{2, 0, 1}}), {2}, lod::uninitialized);
    std::size_t i = 0;
    for (std::byte& byte : x.mutable_bytes()) byte = std::byte(type == DataType::BOOL ? i++ % 2 : 7 * i++);
    CHECK(same_bits(decode(paddle::encode_tensor(x)), x));
  }
}

TEST_CASE("decode_tensor: as a typed tensor, which has the memory alone") {
  const LoDTensor<double> x =
      LoDTensor<double>::from_values(LoD::from_lengths({{1, 2}}), {}, std::vector{1.0, 2.0, 3.0});
  const std::string bytes = paddle::encode_tensor(x) + "rest";
  std::string_view rest = bytes;
  CHECK_THROWS_AS(paddle::decode_tensor<float>(rest), lod::ShapeMismatch);
  CHECK(rest == bytes);
  LoDTensor<double> y = paddle::decode_tensor<double>(rest);
  CHECK(rest == "rest");
  CHECK(y.lod() == x.lod());
  y.values()[2] = 4;
  CHECK(y.values()[2] == 4);
}

TEST_CASE("decode_tensor: tensors without rows, without sequences, and with empty ones") {
  for (const AnyLoDTensor& x :
       {AnyLoDTensor(LoDTensor<float>({0})), AnyLoDTensor(LoDTensor<float>({0, 3})),
        AnyLoDTensor(LoDTensor<float>({3, 0})), AnyLoDTensor(LoDTensor<float>(LoD::from_lengths({{}}), {2})),
        AnyLoDTensor(LoDTensor<float>(LoD::from_lengths({{0, 0}, {}}), {})),
        AnyLoDTensor(LoDTensor<float>(LoD::from_lengths({{0, 2, 0}}), {0}))}) {
    for (const Layout layout : {Layout::CURRENT, Layout::OF_2017}) {
      const std::string bytes = paddle::encode_tensor(x, layout);
      CHECK(same_bits(decode(bytes), x));
    }
  }
}

TEST_CASE("decode_tensor: without dimensions, one scalar row") {
  const std::string bytes = raw(u32) + no_levels + raw(u32) + description("\x08\x05") + raw(7.5f);
  const AnyLoDTensor x = decode(bytes);
  CHECK(x.shape() == Shape{1});
  CHECK(x.view<float>().values()[0] == 7.5f);
  CHECK(same_bits(decode(paddle::encode_tensor(x)), x));
  CHECK(same_bits(decode(raw(u32) + description("\x08\x05") + raw(7.5f) + no_levels), x));
}

TEST_CASE("decode_tensor: dimensions that are packed") {
  const std::string bytes =
      raw(u32) + no_levels + raw(u32) + description("\x08\x05\x12\x02\x02\x01") + raw(1.5f, -2.0f);
  CHECK(decode(bytes).shape() == Shape{2, 1});
}

TEST_CASE("decode_tensor: takes one tensor after the other off the bytes") {
  std::string bytes;
  for (std::int64_t rows = 0; rows < 5; ++rows) {
    paddle::encode_tensor(LoDTensor<std::int32_t>({rows}), bytes, rows % 2 ? Layout::OF_2017 : Layout::CURRENT);
  }
  std::string_view rest = bytes;
  for (std::int64_t rows = 0; rows < 5; ++rows) CHECK(paddle::decode_tensor(rest).rows() == rows);
  CHECK(rest.empty());
}

TEST_CASE("encode_tensor, encode_selected_rows: append the same bytes that they give") {
  const LoDTensor<float> x({2});
  std::string out = "before";
  paddle::encode_tensor(x, out);
  CHECK(out == "before" + paddle::encode_tensor(x));
  const SelectedRows<float> rows({1}, 2, {3});
  out = "before";
  paddle::encode_selected_rows(rows, out);
  CHECK(out == "before" + paddle::encode_selected_rows(rows));
}

TEST_CASE("decode_selected_rows: the bytes of three rows, one of them twice") {
  const std::string head = raw(u32, u64(3), i64(4), i64(0), i64(4), i64(10));
  const std::string value = description("\x08\x05\x10\x03\x10\x02") + raw(1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f);
  const std::string bytes = head + raw(u32) + value;
  SelectedRows<float> expected({4, 0, 4}, 10, {2});
  for (std::size_t i = 0; i < 6; ++i) expected.value().values()[i] = static_cast<float>(i + 1);

  const AnySelectedRows x = decode_rows(bytes);
  CHECK(x.rows() == expected.rows());
  CHECK(x.height() == 10);
  CHECK(same_bits(x.value(), LoDTensor<float>(expected.value())));
  CHECK(paddle::encode_selected_rows(x) == bytes);
  CHECK(paddle::encode_selected_rows(expected) == bytes);

  // From December 2017 to February 2018 the value was a whole tensor.
  const AnySelectedRows old = decode_rows(head + raw(u32) + no_levels + raw(u32) + value);
  CHECK(paddle::encode_selected_rows(old) == bytes);

  std::string_view rest = bytes;
  CHECK_THROWS_AS(paddle::decode_selected_rows<double>(rest), lod::ShapeMismatch);
  CHECK(rest == bytes);
  CHECK(paddle::decode_selected_rows<float>(rest).index_of(0) == 1);
  CHECK(rest.empty());
}

TEST_CASE("decode_selected_rows: without rows") {
  const std::string bytes = paddle::encode_selected_rows(SelectedRows<lod::float16>({}, 0, {8}));
  const AnySelectedRows x = decode_rows(bytes);
  CHECK(x.rows().empty());
  CHECK(x.dense_shape() == Shape{0, 8});
  CHECK(paddle::encode_selected_rows(x) == bytes);
}

// ---- What is refused ----

TEST_CASE("ParseError: versions that are not 0") {
  check_stream_refused(raw(std::uint32_t{1}) + no_levels + raw(u32) + two_floats, 0, "version 1, expected 0");
  check_stream_refused(raw(u32) + no_levels + raw(std::uint32_t{7}) + two_floats, 12, "version 7, expected 0");
  check_stream_refused(raw(std::uint32_t{1}) + two_floats + no_levels, 0, "version 1, expected 0");
  check_rows_refused(raw(std::uint32_t{1}, u64(0), i64(0)), 0, "version 1, expected 0");
  check_rows_refused(raw(u32, u64(0), i64(0), std::uint32_t{9}), 20, "version 9, expected 0");
}

TEST_CASE("ParseError: a LoD that is none, or of another number of rows") {
  const std::string rest = raw(u32) + two_floats;
  check_stream_refused(raw(u32, u64(1), u64(0)) + rest, 12,
                       "size of level 0: 0 bytes, expected one or more numbers of 8");
  check_stream_refused(raw(u32, u64(1), u64(12), i64(0), u32) + rest, 12,
                       "size of level 0: 12 bytes, expected one or more numbers of 8");
  check_stream_refused(raw(u32, u64(1), u64(16), i64(1), i64(2)) + rest, 4,
                       "LoD: level 0, position 0: the first offset is 1, expected 0");
  check_stream_refused(raw(u32, u64(1), u64(24), i64(0), i64(3), i64(2)) + rest, 4,
                       "LoD: level 0, position 2: offset 2 follows 3, expected offsets that never descend");
  check_stream_refused(raw(u32, u64(1), u64(16), i64(0), ~u64(0)) + rest, 4,
                       "LoD: level 0, position 1: offset -1 follows 0, expected offsets that never descend");
  check_stream_refused(raw(u32, u64(2), u64(16), i64(0), i64(2), u64(16), i64(0), i64(2)) + rest, 4,
                       "LoD: level 0 covers 2 sequences of the next level, but level 1 has 1");
  check_stream_refused(raw(u32, u64(1), u64(16), i64(0), i64(3)) + raw(u32) + two_floats, 48,
                       "LoD: of 3 rows, but dim 0 of the description is 2");
  check_stream_refused(raw(u32) + two_floats + raw(u64(1), u64(16), i64(0), i64(3)), 52,
                       "LoD: of 3 rows, but dim 0 of the description is 2");
  // A description without dimensions is of one row.
  check_stream_refused(raw(u32, u64(1), u64(16), i64(0), i64(3), u32) + description("\x08\x05") + raw(1.0f), 46,
                       "LoD: of 3 rows, but dim 0 of the description is 1");
}

TEST_CASE("ParseError: a description that is none") {
  const std::string head = raw(u32) + no_levels + raw(u32);
  check_stream_refused(head + raw(std::int32_t{-1}), 16, "size of the description: -1, expected 0 or more");
  check_stream_refused(head + raw(std::numeric_limits<std::int32_t>::min()), 16,
                       "size of the description: -2147483648, expected 0 or more");
  check_stream_refused(head + raw(std::int32_t{5}) + "\x08\x05\x10\x02", 20,
                       "description: 5 bytes expected, 4 are left");
  check_stream_refused(head + description(""), 20, "description: TensorDesc.data_type: required, but missing");
  check_stream_refused(head + description("\x08\x07"), 21, "description: TensorDesc.data_type: 7 is no DataType");
  check_stream_refused(head + description("\x08\x05\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 20,
                       "description: shape: dimension 0 is -1, expected 0 or more");
  check_stream_refused(
      head + description("\x08\x05\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01\x10\x01"), 20,
      "description: shape: more than 8 dimensions");
}

TEST_CASE("ParseError: the bytes end too early") {
  check_stream_refused("", 0, "version: 4 bytes expected, 0 are left");
  check_stream_refused(raw(u32) + std::string(3, '\0'), 4, "number of levels: 8 bytes expected, 3 are left");
  std::string levels;
  for (int level = 0; level < 65; ++level) levels += raw(u64(16), u64(0), u64(1));
  check_stream_refused(raw(u32, u64(65)) + levels, 4, "number of levels: 65, expected 64 at most");
  check_stream_refused(raw(u32, u64(1), u64(24), i64(0), i64(1)), 20,
                       "offsets of a level: 24 bytes expected, 16 are left");
  check_stream_refused(raw(u32) + no_levels, 12, "version: 4 bytes expected, 0 are left");
  const std::string whole = raw(u32) + no_levels + raw(u32) + two_floats;
  check_stream_refused(whole.substr(0, whole.size() - 1), 24, "values: 8 bytes expected, 7 are left");
  check_rows_refused(raw(u32, u64(2), i64(0), i64(1)), 28, "height: 8 bytes expected, 0 are left");
}

TEST_CASE("ParseError: a BOOL that is neither 0 nor 1") {
  check_stream_refused(
      raw(u32) + no_levels + raw(u32) + description(std::string_view("\x08\x00\x10\x03", 4)) + "\x01\x02\x01", 25,
      "values: 2 is no BOOL, expected 0 or 1");
}

TEST_CASE("ParseError: selected rows that do not agree") {
  const std::string value = raw(u32) + two_floats;
  check_rows_refused(raw(u32, u64(1), i64(0), i64(9)) + value, 4, "AnySelectedRows: 1 ids, but 2 rows of values");
  check_rows_refused(raw(u32, u64(2), i64(0), i64(9), i64(9)) + value, 20,
                     "AnySelectedRows: id 9 at position 1, expected 0 to 8");
  check_rows_refused(raw(u32, u64(2), i64(-1), i64(0), i64(9)) + value, 12,
                     "AnySelectedRows: id -1 at position 0, expected 0 to 8");
  check_rows_refused(raw(u32, u64(2), i64(0), i64(0), i64(-9)) + value, 28,
                     "AnySelectedRows: height -9, expected 0 or more");
  check_rows_refused(raw(u32, u64(2), i64(0), i64(1), i64(9), u32, u64(1), u64(16), i64(0), i64(2), u32) + two_floats,
                     72, "number of levels: 1, expected 0 for selected rows");
}

// ---- Hostile bytes ----

TEST_CASE("decode_tensor: of each beginning and of each flipped bit, gives a tensor or a ParseError") {
  const LoDTensor<bool> x = LoDTensor<bool>(LoD::from_offsets({{0, 2, 3}, {0, 3, 3, 4}}), {2});
  for (const std::string& bytes :
       {lod_test::paddle_bytes("fit_a_line/fc_0.b_0"), lod_test::paddle_bytes("fit_a_line/fc_0.w_0"),
        paddle::encode_tensor(x), paddle::encode_tensor(x, Layout::OF_2017)}) {
    const Outcomes outcomes = read_damaged(bytes, [](std::string_view part) {
      const AnyLoDTensor y = paddle::decode_tensor(part);
      CHECK(same_bits(decode(paddle::encode_tensor(y)), y));
    });
    CHECK(outcomes.accepted > 0);
    CHECK(outcomes.refused > 100);
  }
}

TEST_CASE("decode_selected_rows: of each beginning and of each flipped bit, gives rows or a ParseError") {
  const std::string bytes = paddle::encode_selected_rows(SelectedRows<std::int16_t>({4, 0, 4}, 10, {2}));
  std::string with_levels = bytes;
  with_levels.insert(44, raw(u64(0), u32));  // the layout until February 2018
  for (const std::string& whole : {bytes, with_levels}) {
    const Outcomes outcomes = read_damaged(whole, [](std::string_view part) {
      const AnySelectedRows y = paddle::decode_selected_rows(part);
      CHECK(paddle::encode_selected_rows(decode_rows(paddle::encode_selected_rows(y))) ==
            paddle::encode_selected_rows(y));
    });
    CHECK(outcomes.accepted > 0);
    CHECK(outcomes.refused > 100);
  }
}

TEST_CASE("decode_tensor: counts beyond all bytes take no memory") {
  const auto tensor = [](std::string_view& rest) { paddle::decode_tensor(rest); };
  const auto rows = [](std::string_view& rest) { paddle::decode_selected_rows(rest); };
  // Levels: their number, and the size of one. A number of 2^32 or more has the fifth byte of a description.
  for (const std::uint64_t levels : {std::uint64_t{3}, std::uint64_t{1} << 31, (std::uint64_t{1} << 32) - 1,
                                     std::uint64_t{1} << 32, std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    check_cheap(tensor, raw(u32, levels, u64(16), i64(0)));
    check_cheap(tensor, raw(u32) + two_floats + raw(levels, u64(16), i64(0)));
  }
  for (const std::uint64_t size : {std::uint64_t{1} << 31, std::uint64_t{1} << 60, ~std::uint64_t{7}}) {
    check_cheap(tensor, raw(u32, u64(1), size, i64(0)));
  }
  // Dimensions: 2^40, 2^62 x 2, 2^31 x 2^31 (x 8 bytes), and 0 x 2^62 x 2^62.
  const std::string head = raw(u32) + no_levels + raw(u32);
  const std::string two_62("\x10\x80\x80\x80\x80\x80\x80\x80\x80\x40");
  const std::string two_31("\x10\x80\x80\x80\x80\x08");
  check_cheap(tensor, head + description("\x08\x05\x10\x80\x80\x80\x80\x80\x20"));
  check_cheap(tensor, head + description("\x08\x05" + two_62 + "\x10\x02"));
  check_cheap(tensor, head + description("\x08\x06" + two_62));
  check_cheap(tensor, head + description("\x08\x18" + two_31 + two_31));
  check_cheap(tensor, head + description("\x08\x05" + std::string("\x10\0", 2) + two_62 + two_62));
  check_cheap(tensor, head + raw(std::numeric_limits<std::int32_t>::max()));
  check_cheap(tensor, head + raw(std::int32_t{-4}));
  // Ids.
  for (const std::uint64_t ids : {std::uint64_t{2}, std::uint64_t{1} << 60, ~std::uint64_t{0}}) {
    check_cheap(rows, raw(u32, ids, i64(0)));
  }
}

TEST_CASE("decode_tensor: takes little memory besides that of the levels and values") {
  const std::string bytes = paddle::encode_tensor(LoDTensor<float>(LoD::from_lengths({{3000, 2000}}), {100}));
  const std::int64_t before = lod_test::allocated_bytes;
  const AnyLoDTensor x = decode(bytes);
  CHECK(lod_test::allocated_bytes - before < static_cast<std::int64_t>(bytes.size()) + 4096);
  CHECK(x.rows() == 5000);
}

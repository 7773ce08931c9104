// SPDX-License-Identifier: Apache-2.0
#include "support/articles.hpp"
#include "support/counted_owner.hpp"
#include "support/foreign_arrow.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/arrow.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::ArrowHandle;
using lod::DataType;
using lod::LoD;
using lod::LoDTensor;
using lod_test::CountedOwner;
using lod_test::ForeignArrow;
using lod_test::ForeignLevel;

namespace {

/// What the imports below read, and how often an array was released.
struct Memory {
  std::vector<std::int64_t> outer{0, 3, 4, 6};
  std::vector<std::int64_t> inner{0, 3, 5, 9, 10, 12, 15};
  std::vector<std::int32_t> narrow_outer{0, 3, 4, 6};
  std::vector<std::int32_t> narrow_inner{0, 3, 5, 9, 10, 12, 15};
  std::vector<float> values = counted(30);
  int released = 0;

  static std::vector<float> counted(std::size_t size) {
    std::vector<float> numbers(size);
    std::iota(numbers.begin(), numbers.end(), 0.0F);
    return numbers;
  }
  /// Three articles of 3, 1 and 2 sentences, 15 words of two numbers.
  ForeignArrow articles() {
    return ForeignArrow({{"+L", 3, {nullptr, outer.data()}},
                         {"+L", 6, {nullptr, inner.data()}},
                         {"+w:2", 15, {nullptr}},
                         {"f", 30, {nullptr, values.data()}}},
                        released);
  }
};

template <class X>
std::vector<float> values_of(const X& x) {
  return {x.values().begin(), x.values().end()};
}

/// The metadata of an extension type.
std::string extension(const std::string& name) {
  std::string bytes;
  const auto append = [&](const std::string& text) {
    const auto size = static_cast<std::int32_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&size), 4);
    bytes += text;
  };
  bytes.append("\2\0\0\0", 4);
  append("comment");
  append("none");
  append("ARROW:extension:name");
  append(name);
  return bytes;
}

}  // namespace

TEST_CASE("from_arrow: large lists become levels, lists of fixed size the row shape; nothing is copied") {
  Memory memory;
  {
    const LoDTensor<const float> x = memory.articles().import <float>();
    CHECK(x.lod() == lod_test::articles);
    CHECK(x.row_shape() == std::vector<std::int64_t>{2});
    CHECK(x.lod().offsets(0).data() == memory.outer.data());
    CHECK(x.lod().offsets(1).data() == memory.inner.data());
    CHECK(x.data() == memory.values.data());
    CHECK(memory.released == 0);
  }
  CHECK(memory.released == 1);
}

TEST_CASE("from_arrow: the array is released when the last that shares its memory is gone, a LoD too") {
  Memory memory;
  LoD lod;
  {
    const AnyLoDTensor x = memory.articles().import_any();
    CHECK(x.data_type() == DataType::FP32);
    CHECK(x.read_only());
    const auto sharer = x.as<float>();
    lod = x.lod();
  }
  CHECK(memory.released == 0);
  CHECK(lod.offsets(1).data() == memory.inner.data());
  lod = LoD();
  CHECK(memory.released == 1);
}

TEST_CASE("from_arrow: lists whose offsets have 32 bits") {
  Memory memory;
  const auto x = ForeignArrow({{"+l", 3, {nullptr, memory.narrow_outer.data()}},
                               {"+L", 6, {nullptr, memory.inner.data()}},
                               {"f", 15, {nullptr, memory.values.data()}}},
                              memory.released)
                     .import <float>();
  CHECK(x.lod() == lod_test::articles);
  CHECK(x.lod().offsets(1).data() == memory.inner.data());
  CHECK(x.data() == memory.values.data());
  const auto y = ForeignArrow({{"+L", 3, {nullptr, memory.outer.data()}},
                               {"+l", 6, {nullptr, memory.narrow_inner.data()}},
                               {"f", 15, {nullptr, memory.values.data()}}},
                              memory.released)
                     .import <float>();
  CHECK(y.lod() == lod_test::articles);
}

TEST_CASE("from_arrow: a plain tensor, and one without dimensions") {
  Memory memory;
  const auto matrix =
      ForeignArrow({{"+w:2", 3, {nullptr}}, {"+w:5", 6, {nullptr}}, {"f", 30, {nullptr, memory.values.data()}}},
                   memory.released)
          .import <float>();
  CHECK(matrix.levels() == 0);
  CHECK(matrix.shape() == std::vector<std::int64_t>{3, 2, 5});
  const auto column = ForeignArrow({{"f", 4, {nullptr, memory.values.data()}, 3}}, memory.released).import <float>();
  CHECK(column.shape() == std::vector<std::int64_t>{4});
  CHECK(column.data() == memory.values.data() + 3);
}

TEST_CASE("from_arrow: a slice of the outermost list is rebased") {
  Memory memory;
  auto array = memory.articles();
  array.array(0).offset = 1;
  array.array(0).length = 2;
  const auto x = array.import <float>();
  CHECK(x.lod() == LoD::from_lengths({{1, 2}, {1, 2, 3}}));
  CHECK(x.data() == memory.values.data() + 18);
  CHECK(x.lod().offsets(0).data() != memory.outer.data());
}

TEST_CASE("from_arrow: offsets at every depth") {
  // Below two items that are skipped, two lists; below one, three; below three, four; below five numbers, eight.
  const std::vector<std::int64_t> outer{9, 9, 1, 2, 4, 77}, inner{-1, 0, 1, 1, 2, 4, 99};
  const std::vector<float> values = Memory::counted(32);
  int released = 0;
  const auto x = ForeignArrow({{"+L", 2, {nullptr, outer.data()}, 2},
                               {"+L", 4, {nullptr, inner.data()}, 1},
                               {"+w:2", 5, {nullptr}, 3},
                               {"f", 20, {nullptr, values.data()}, 5}},
                              released)
                     .import <float>();
  // Of the sentences after the first, one and two: of no, one and two words, from word 1 on.
  CHECK(x.lod() == LoD::from_lengths({{1, 2}, {0, 1, 2}}));
  // Word 1 is list 1 + 3 of two numbers, which begin at number 2 * 4 + 5.
  CHECK(x.data() == values.data() + 13);
  CHECK(x.rows() == 3);
}

TEST_CASE("from_arrow: a slice that begins with empty sequences still shares its offsets") {
  const std::vector<std::int64_t> offsets{0, 0, 0, 2};
  const std::vector<float> values{1, 2};
  int released = 0;
  const auto x = ForeignArrow({{"+L", 2, {nullptr, offsets.data()}, 1}, {"f", 2, {nullptr, values.data()}}}, released)
                     .import <float>();
  CHECK(x.lod() == LoD::from_lengths({{0, 2}}));
  CHECK(x.lod().offsets(0).data() == offsets.data() + 1);
}

TEST_CASE("from_arrow: lists of fixed size above others are a level of equal lengths") {
  Memory memory;
  const std::vector<std::int64_t> offsets{0, 1, 3, 3, 4, 6, 6, 9};
  const auto x = ForeignArrow({{"+w:2", 2, {nullptr}, 1},
                               {"+L", 6, {nullptr, offsets.data()}, 1},
                               {"+w:3", 9, {nullptr}},
                               {"f", 27, {nullptr, memory.values.data()}}},
                              memory.released)
                     .import <float>();
  CHECK(x.lod() == LoD::from_lengths({{2, 2}, {1, 2, 0, 3}}));
  CHECK(x.row_shape() == std::vector<std::int64_t>{3});
  CHECK(x.data() == memory.values.data() + 9);
}

TEST_CASE("from_arrow: batches and rows without anything") {
  int released = 0;
  const std::int64_t zero = 0;
  SUBCASE("an array without items may lack all its buffers") {
    const auto x =
        ForeignArrow({{"+L", 0, {nullptr, nullptr}}, {"+l", 0, {nullptr, nullptr}}, {"f", 0, {nullptr, nullptr}}},
                     released)
            .import <float>();
    CHECK(x.lod() == LoD::from_offsets({{0}, {0}}));
    CHECK(x.rows() == 0);
  }
  SUBCASE("or have the one offset") {
    const auto x = ForeignArrow({{"+L", 0, {nullptr, &zero}}, {"f", 0, {nullptr, nullptr}}}, released).import <float>();
    CHECK(x.lod() == LoD::from_offsets({{0}}));
  }
  SUBCASE("rows of nothing are still rows") {
    const std::vector<std::int64_t> offsets{0, 2, 5};
    const auto x = ForeignArrow({{"+L", 2, {nullptr, offsets.data()}},
                                 {"+w:0", 5, {nullptr}},
                                 {"+w:4", 0, {nullptr}},
                                 {"f", 0, {nullptr, nullptr}}},
                                released)
                       .import <float>();
    CHECK(x.shape() == std::vector<std::int64_t>{5, 0, 4});
    const auto plain = ForeignArrow({{"+w:0", 5, {nullptr}}, {"f", 0, {nullptr, nullptr}}}, released).import_any();
    CHECK(plain.shape() == std::vector<std::int64_t>{5, 0});
  }
  SUBCASE("empty sequences") {
    const std::vector<std::int64_t> offsets{0, 0, 0};
    const auto x =
        ForeignArrow({{"+L", 2, {nullptr, offsets.data()}}, {"f", 0, {nullptr, nullptr}}}, released).import <float>();
    CHECK(x.lod() == LoD::from_lengths({{0, 0}}));
  }
}

namespace {

/// There and back: the same memory, under the same type.
template <class T>
void check_type(DataType type) {
  CAPTURE(lod::to_string(type));
  LoDTensor<T> x(LoD::from_lengths({{1, 2}}), {2});
  for (std::size_t i = 0; i < 6; ++i) x.data()[i] = static_cast<T>(static_cast<float>(i % 2));
  const auto schema = lod::arrow_schema(x);
  const LoDTensor<const T> typed = lod::from_arrow<T>(lod::to_arrow(x), *schema);
  CHECK(typed.data() == x.data());
  CHECK(typed.lod().offsets(0).data() == x.lod().offsets(0).data());
  CHECK(lod_test::same_bits(typed, x));
  const AnyLoDTensor any = lod::from_arrow(lod::to_arrow(AnyLoDTensor(x.with_lod(x.lod()))), *schema);
  CHECK(any.data_type() == type);
  CHECK(any.bytes().data() == reinterpret_cast<const std::byte*>(x.data()));
  CHECK(lod_test::same_bits(any.as<T>(), x));
}

}  // namespace

TEST_CASE("Arrow: every type of elements goes there and comes back where it is") {
  check_type<bool>(DataType::BOOL);
  check_type<std::int8_t>(DataType::INT8);
  check_type<std::int16_t>(DataType::INT16);
  check_type<std::int32_t>(DataType::INT32);
  check_type<std::int64_t>(DataType::INT64);
  check_type<std::uint8_t>(DataType::UINT8);
  check_type<std::uint32_t>(DataType::UINT32);
  check_type<std::uint64_t>(DataType::UINT64);
  check_type<lod::float16>(DataType::FP16);
  check_type<lod::bfloat16>(DataType::BF16);
  check_type<float>(DataType::FP32);
  check_type<double>(DataType::FP64);
}

TEST_CASE("Arrow: random batches of every depth come back where they were, slices with the same rows") {
  for (const lod::Shape& row_shape : {lod::Shape{}, lod::Shape{3}, lod::Shape{2, 3}}) {
    lod_test::for_each_random_lod(8, 0, 4, [&](lod_test::Engine& engine, const lod_test::Lengths& lengths) {
      const auto x = lengths.empty() ? lod_test::real_numbers<float>(engine, lod::Shape(5, row_shape))
                                     : lod_test::real_numbers<float>(engine, LoD::from_lengths(lengths), row_shape);
      const auto schema = lod::arrow_schema(x);
      const auto y = lod::from_arrow<float>(lod::to_arrow(x), *schema);
      CHECK(lod_test::same_bits(x, y));
      for (int level = 0; level < x.levels() && x.lod().size(level) > 0; ++level) {
        CHECK(y.lod().offsets(level).data() == x.lod().offsets(level).data());
      }
      if (x.rows() > 0) CHECK(y.data() == x.data());

      const std::int64_t begin = lod_test::random_number(engine, 0, x.size());
      const auto part = x.between(begin, lod_test::random_number(engine, begin, x.size()));
      const auto z = lod::from_arrow<float>(lod::to_arrow(part, 0), *lod::arrow_schema(part));
      CHECK(lod_test::same_bits(part, z));
      if (part.rows() > 0) CHECK(z.data() == part.data());
    });
  }
}

TEST_CASE("from_arrow: Arrow's own booleans are taken out of their bits") {
  const std::vector<std::int64_t> offsets{1, 3, 11};
  const std::array<std::uint8_t, 2> bits{0b1011'0100, 0b0000'0101};
  int released = 0;
  {
    const auto x =
        ForeignArrow({{"+L", 2, {nullptr, offsets.data()}}, {"b", 11, {nullptr, bits.data()}}}, released).import_any();
    CHECK(x.data_type() == DataType::BOOL);
    CHECK(x.lod() == LoD::from_lengths({{2, 8}}));
    const auto values = x.view<bool>().values();
    CHECK(std::vector<bool>(values.begin(), values.end()) ==
          std::vector<bool>{false, true, false, true, true, false, true, true, false, true});
    CHECK(ForeignArrow({{"b", 2, {nullptr, bits.data()}, 7}}, released).import <bool>().data()[0]);
  }
  CHECK(released == 2);
}

TEST_CASE("from_arrow: booleans of a byte are shared where all are 0 or 1") {
  std::array<std::uint8_t, 3> bytes{0, 1, 1};
  int released = 0;
  const auto given = [&](const std::string& metadata) {
    return ForeignArrow({{"c", 3, {nullptr, bytes.data()}, 0, 0, metadata}}, released);
  };
  CHECK(given(extension("arrow.bool8")).import_any().bytes().data() == reinterpret_cast<std::byte*>(bytes.data()));
  CHECK(given("").import_any().data_type() == DataType::INT8);
  CHECK(static_cast<const void*>(given("").import <bool>().data()) == bytes.data());
  CHECK(given(extension("arrow.bool8")).import <std::int8_t>().data()[1] == 1);
  bytes[1] = 200;
  const auto x = given(extension("arrow.bool8")).import <bool>();
  CHECK(static_cast<const void*>(x.data()) != bytes.data());
  CHECK(std::vector<bool>(x.values().begin(), x.values().end()) == std::vector<bool>{false, true, true});
}

TEST_CASE("from_arrow: two bytes are bfloat16 where they are called so, or asked for as such") {
  const std::array<std::uint16_t, 2> words{0x3F80, 0xC000};
  int released = 0;
  const auto given = [&](const std::string& metadata) {
    return ForeignArrow({{"w:2", 2, {nullptr, words.data()}, 0, 0, metadata}}, released);
  };
  CHECK(given(extension("lance.bfloat16")).import_any().data_type() == DataType::BF16);
  const auto x = given("").import <lod::bfloat16>();
  CHECK(static_cast<float>(x.data()[0]) == 1);
  CHECK(static_cast<float>(x.data()[1]) == -2);
  CHECK_THROWS_WITH_AS(given(extension("arrow.uuid")).import_any(),
                       doctest::Contains("elements of the format 'w:2', for which there is no DataType"),
                       std::invalid_argument);
}

TEST_CASE("from_arrow: a null is refused with its place, one that is out of sight is not seen") {
  Memory memory;
  // Sentence 2, word 4, value 9 are null.
  std::array<std::uint8_t, 1> outer{0xFF}, inner{0b1111'1011};
  std::array<std::uint8_t, 2> words{0b1110'1111, 0xFF};
  std::array<std::uint8_t, 4> values{0xFF, 0b1111'1101, 0xFF, 0xFF};
  auto array = memory.articles();
  const auto with_bitmap = [&](std::size_t level, const void* bits, std::int64_t null_count) {
    array.array(level).buffers[0] = bits;
    array.array(level).null_count = null_count;
  };
  SUBCASE("a sequence") {
    with_bitmap(0, outer.data(), -1);
    with_bitmap(1, inner.data(), -1);
    CHECK_THROWS_WITH_AS(array.import <float>(),
                         "from_arrow: level 1, position 2: null, expected a sequence, which may be empty",
                         lod::InvalidLoD);
  }
  SUBCASE("a row") {
    with_bitmap(2, words.data(), 1);
    CHECK_THROWS_WITH_AS(array.import <float>(),
                         "from_arrow: dimension 0 of the rows, position 4: null, expected a value",
                         std::invalid_argument);
  }
  SUBCASE("an element") {
    with_bitmap(3, values.data(), -1);
    CHECK_THROWS_WITH_AS(array.import <float>(), "from_arrow: the elements, position 9: null, expected a value",
                         std::invalid_argument);
  }
  SUBCASE("none, though there is a bitmap") {
    with_bitmap(0, outer.data(), -1);
    with_bitmap(3, values.data(), 0);
    CHECK(array.import <float>().rows() == 15);
  }
  SUBCASE("none, and no bitmap") {
    with_bitmap(1, nullptr, -1);
    CHECK(array.import <float>().rows() == 15);
  }
  SUBCASE("none in the slice") {
    with_bitmap(1, inner.data(), 1);
    with_bitmap(2, words.data(), -1);
    with_bitmap(3, values.data(), -1);
    array.array(0).offset = 1;
    array.array(0).length = 2;
    CHECK(array.import <float>().rows() == 6);
  }
  SUBCASE("some, but nobody says which") {
    with_bitmap(1, nullptr, 2);
    CHECK_THROWS_WITH_AS(array.import <float>(), doctest::Contains("level 1: 2 items are null"), std::invalid_argument);
  }
  CHECK(memory.released == 1);
}

TEST_CASE("from_arrow: a null is found wherever it is") {
  for (std::int64_t offset = 0; offset < 10; ++offset) {
    for (std::int64_t null = 0; null < 40; ++null) {
      std::array<std::uint8_t, 8> bits{};
      bits.fill(0xFF);
      const auto place = static_cast<std::size_t>(offset + null);
      bits[place / 8] = static_cast<std::uint8_t>(0xFF & ~(1U << (place % 8)));
      const std::vector<float> values(50);
      int released = 0;
      ForeignArrow array({{"f", 40, {bits.data(), values.data()}, offset, -1}}, released);
      const std::string expected = "the elements, position " + std::to_string(null) + ": null";
      CHECK_THROWS_WITH_AS(array.import <float>(), doctest::Contains(expected.c_str()), std::invalid_argument);
    }
  }
}

TEST_CASE("from_arrow: no memory is taken for lists that no buffer shows") {
  int released = 0;
  const std::int64_t many = std::int64_t{1} << 40;
  SUBCASE("of a fixed size") {
    ForeignArrow array({{"+w:1", many, {nullptr}}, {"+L", many, {nullptr, nullptr}}, {"f", 0, {nullptr, nullptr}}},
                       released);
    CHECK_THROWS_WITH_AS(array.import <float>(), doctest::Contains("level 1: no offsets"), std::invalid_argument);
  }
  SUBCASE("of the fixed size 0") {
    ForeignArrow array({{"+w:0", many, {nullptr}}, {"+L", 0, {nullptr, nullptr}}, {"f", 0, {nullptr, nullptr}}},
                       released);
    CHECK_THROWS_WITH_AS(array.import <float>(),
                         doctest::Contains("level 0: 1099511627776 lists of the fixed size 0 above other lists"),
                         std::invalid_argument);
  }
  CHECK(released == 1);
}

TEST_CASE("from_arrow: what is broken, or not taken, is refused with its place, and released once") {
  Memory memory;
  auto array = memory.articles();
  const auto refused = [&](const char* text) {
    CHECK_THROWS_WITH_AS(array.import <float>(), doctest::Contains(text), std::invalid_argument);
  };
  const auto mismatch = [&](const char* text) {
    CHECK_THROWS_WITH_AS(array.import <float>(), doctest::Contains(text), lod::ShapeMismatch);
  };
  const auto invalid = [&](const char* text) {
    CHECK_THROWS_WITH_AS(array.import <float>(), doctest::Contains(text), lod::InvalidLoD);
  };
  SUBCASE("another type of elements") {
    array.schema(3).format = "g";
    mismatch("data type: expected FP32, found FP64");
  }
  SUBCASE("text") {
    array.schema(3).format = "u";
    refused("elements of the format 'u', for which there is no DataType");
  }
  SUBCASE("unsigned integers of 16 bits") {
    array.schema(3).format = "S";
    refused("'S', for which there is no DataType");
  }
  SUBCASE("a list view") {
    array.schema(1).format = "+vl";
    refused("the format '+vl', expected a list");
  }
  SUBCASE("a struct") {
    array.schema(1).format = "+s";
    refused("the format '+s', expected a list");
  }
  SUBCASE("a list of no known size") {
    for (const char* format : {"+w:", "+w:x", "+w:-1", "+w:1 ", "+w:99999999999999999999"}) {
      auto other = memory.articles();
      other.schema(2).format = format;
      CHECK_THROWS_WITH_AS(other.import <float>(), doctest::Contains(format), std::invalid_argument);
    }
    CHECK(memory.released == 5);
    memory.released = 0;
    array.schema(2).format = nullptr;
    refused("the format ''");
  }
  SUBCASE("a dictionary") {
    ArrowArray dictionary{};
    array.array(3).dictionary = &dictionary;
    refused("the elements: an array that is dictionary-encoded");
  }
  SUBCASE("a dictionary of the schema") {
    ArrowSchema dictionary{};
    array.schema(3).dictionary = &dictionary;
    refused("field 3: a schema that is dictionary-encoded");
  }
  SUBCASE("a child that has been moved out") {
    array.array(1).release = nullptr;
    refused("level 1: an array that is released");
  }
  SUBCASE("a schema that is released") {
    array.schema(0).release = nullptr;
    refused("field 0: a schema that is released");
  }
  SUBCASE("a list without a child") {
    array.array(1).n_children = 0;
    refused("level 1: an array with 0 children, expected 1");
  }
  SUBCASE("a list with children that are nowhere") {
    array.array(1).children = nullptr;
    refused("level 1: an array with 0 children, expected 1");
  }
  SUBCASE("a field with two children") {
    array.schema(0).n_children = 2;
    refused("field 0: a schema with 2 children, expected 1");
  }
  SUBCASE("elements with a child") {
    array.array(3).n_children = 1;
    refused("the elements: an array with 1 children, expected 0");
  }
  SUBCASE("a list with the buffers of text") {
    array.array(0).n_buffers = 3;
    refused("level 0: 3 buffers, expected 2");
  }
  SUBCASE("no buffers") {
    array.array(2).buffers = nullptr;
    refused("dimension 0 of the rows: 0 buffers, expected 1");
  }
  SUBCASE("no offsets") {
    array.array(1).buffers[1] = nullptr;
    refused("level 1: no offsets");
  }
  SUBCASE("no values") {
    array.array(3).buffers[1] = nullptr;
    refused("no values for 30 elements");
  }
  SUBCASE("offsets that are not aligned") {
    array.array(0).buffers[1] = reinterpret_cast<const std::byte*>(memory.outer.data()) + 4;
    refused("level 0: offsets at no multiple of the 8 bytes");
  }
  SUBCASE("values that are not aligned") {
    array.array(3).buffers[1] = reinterpret_cast<const std::byte*>(memory.values.data()) + 2;
    refused("at no multiple of the 4 bytes");
  }
  SUBCASE("a negative length") {
    array.array(0).length = -1;
    mismatch("level 0: offset 0 and length -1");
  }
  SUBCASE("a negative offset") {
    array.array(2).offset = -1;
    mismatch("dimension 0 of the rows: offset -1 and length 15");
  }
  SUBCASE("an end beyond 64 bits") {
    array.array(3).offset = std::numeric_limits<std::int64_t>::max();
    mismatch("the elements: offset 9223372036854775807 and length 30");
  }
  SUBCASE("more offsets than memory can hold") {
    array.array(0).length = std::numeric_limits<std::int64_t>::max() / 4;
    mismatch("more than memory can hold");
  }
  SUBCASE("more elements than memory can hold") {
    array.array(3).length = array.array(2).length = std::numeric_limits<std::int64_t>::max() - 9;
    array.array(2).offset = std::numeric_limits<std::int64_t>::max() / 3;
    array.array(2).length = 15;
    mismatch("more than memory can hold");
  }
  SUBCASE("lists that end beyond the elements") {
    array.array(3).length = 29;
    mismatch("dimension 0 of the rows: 15 lists of 2 items after 0 others, but there are 29 items");
  }
  SUBCASE("lists of more items than 64 bits count") {
    array.schema(2).format = "+w:9000000000000000000";
    mismatch("15 lists of 9000000000000000000 items");
  }
  SUBCASE("offsets that end beyond what lies below them") {
    array.array(2).length = 14;
    invalid("level 1: offsets from 0 to 15 into 14 items");
  }
  SUBCASE("offsets that begin before it") {
    memory.inner[0] = -1;
    invalid("level 1: offsets from -1 to 15 into 15 items");
  }
  SUBCASE("offsets that end before they begin") {
    memory.inner[6] = -2;
    invalid("level 1: offsets from 0 to -2 into 15 items");
  }
  SUBCASE("offsets that descend") {
    memory.inner[2] = 2;
    invalid("level 1, position 2: offset 2 follows 3");
  }
  SUBCASE("offsets that descend, in a slice") {
    memory.inner[0] = 1;
    memory.inner[2] = std::numeric_limits<std::int64_t>::min();
    invalid("level 1, position 2: offset -1 follows 2");
  }
  CHECK(memory.released == 1);
}

TEST_CASE("from_arrow: nothing at all, and a schema without an end") {
  int released = 0;
  CHECK_THROWS_WITH_AS(lod::from_arrow(ArrowHandle<ArrowArray>(), *lod::arrow_schema(DataType::FP32, 1, {})),
                       doctest::Contains("level 0: an array that is released"), std::invalid_argument);
  Memory memory;
  auto array = memory.articles();
  ArrowSchema* itself = &array.schema(0);
  array.schema(0).children = &itself;
  CHECK_THROWS_WITH_AS(array.import <float>(), doctest::Contains("more than 72 lists within one another"),
                       std::invalid_argument);
  CHECK(memory.released == 1);
  CHECK(released == 0);
}

TEST_CASE("from_arrow: more dimensions than a row has") {
  std::vector<ForeignLevel> levels(9, ForeignLevel{"+w:1", 1, {nullptr}});
  const float value = 1;
  levels.push_back({"f", 1, {nullptr, &value}});
  int released = 0;
  CHECK_THROWS_AS(ForeignArrow(levels, released).import <float>(), lod::ShapeMismatch);
  levels.erase(levels.begin(), levels.begin() + 2);
  CHECK(ForeignArrow(levels, released).import <float>().shape() == std::vector<std::int64_t>(8, 1));
  CHECK(released == 2);
}

TEST_CASE("from_arrow: arrays that say which memory they are in") {
  Memory memory;
  const auto schema = lod::arrow_schema(DataType::FP32, 2, {2});
  const auto on = [&](ArrowDeviceType type, void* event) {
    ArrowDeviceArray array{};
    memory.articles().give().move_to(&array.array);
    array.device_type = type;
    array.sync_event = event;
    return ArrowHandle<ArrowDeviceArray>(&array);
  };
  for (const ArrowDeviceType type :
       {ARROW_DEVICE_CPU, ARROW_DEVICE_CUDA_HOST, ARROW_DEVICE_ROCM_HOST, ARROW_DEVICE_CUDA_MANAGED}) {
    CHECK(lod::from_arrow<float>(on(type, nullptr), *schema).data() == memory.values.data());
  }
  CHECK(lod::from_arrow(on(ARROW_DEVICE_CPU, nullptr), *schema).lod() == lod_test::articles);
  CHECK(memory.released == 5);
  CHECK_THROWS_WITH_AS(lod::from_arrow<float>(on(ARROW_DEVICE_CUDA, nullptr), *schema),
                       doctest::Contains("device type 2, which the CPU cannot read"), std::invalid_argument);
  CHECK_THROWS_WITH_AS(lod::from_arrow<float>(on(ARROW_DEVICE_CUDA_HOST, &memory), *schema),
                       doctest::Contains("an event of a device"), std::invalid_argument);
  CHECK(memory.released == 7);

  const auto x = lod::from_arrow<float>(on(ARROW_DEVICE_CPU, nullptr), *schema);
  const auto y = lod::from_arrow<float>(lod::to_arrow<ArrowDeviceArray>(x), *schema);
  CHECK(y.data() == memory.values.data());
}

TEST_CASE("Arrow: a tensor that came from one library goes on to the next, and the first array stays as long") {
  Memory memory;
  ArrowHandle<ArrowArray> onward = lod::to_arrow(memory.articles().import <float>());
  CHECK(memory.released == 0);
  CHECK(onward->buffers[1] == memory.outer.data());
  onward.reset();
  CHECK(memory.released == 1);
}

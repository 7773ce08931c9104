// SPDX-License-Identifier: Apache-2.0
// Tensors as JSON, in both forms, and texts that are no tensor.
#include "neighbours/damaged.hpp"
#include "support/callers_control.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/any_tensor.hpp>
#include <lod/float16.hpp>
#include <lod/io/json.hpp>
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::DataType;
using lod::from_json;
using lod::JsonForm;
using lod::LoD;
using lod::LoDTensor;
using lod::ParseError;
using lod::Shape;
using lod::to_json;
using lod_test::Engine;
using lod_test::same_bits;

namespace {

const std::vector<std::vector<std::vector<int>>> nested_articles{{{1, 2}, {3}}, {{4, 5, 6}}};

/// Checks that read(text) throws a ParseError with this text, at this byte.
template <class Read>
void check_refused(const std::string& json, const std::string& text, std::size_t position, const Read& read) {
  CAPTURE(json);
  try {
    read(json);
    FAIL("was read");
  } catch (const ParseError& error) {
    CHECK(std::string(error.what()) == "json: " + text + " (at byte " + std::to_string(position) + ")");
    CHECK(error.position() == position);
  }
}
template <class T>
void check_nested_refused(int levels, const std::string& json, const std::string& text, std::size_t position) {
  check_refused(json, text, position, [&](std::string_view given) { from_json<T>(given, levels); });
}
void check_object_refused(const std::string& json, const std::string& text, std::size_t position) {
  check_refused(json, text, position, [](std::string_view given) { from_json(given); });
}

/// Checks that x comes back from both forms: with all there is from the object, from nested lists where it has rows.
template <class T>
void check_round_trip(const LoDTensor<T>& x) {
  REQUIRE(same_bits(from_json<T>(to_json(x, JsonForm::OBJECT)), x));
  const auto nested = from_json<T>(to_json(x), x.levels());
  REQUIRE(nested.lod() == x.lod());
  REQUIRE(nested.rows() == x.rows());
  if (x.rows() > 0 && x.row_size() > 0) REQUIRE(same_bits(nested, x));
}

template <class T>
T number(const std::string& json) {
  return from_json<T>("[" + json + "]", 0).values()[0];
}

}  // namespace

TEST_CASE("to_json: lists nest as the levels do, and then as the row shape") {
  const auto x = LoDTensor<int>::from_nested(nested_articles);
  CHECK(to_json(x) == "[[[1,2],[3]],[[4,5,6]]]");
  CHECK(to_json(x.slice({0})) == "[[[1,2],[3]]]");
  CHECK(to_json(x[0]) == "[[1,2],[3]]");
  CHECK(to_json(x[0][1]) == "[3]");
  LoDTensor<float> rows(LoD::from_lengths({{1, 0, 2}}), {2});
  for (std::size_t i = 0; i < 6; ++i) rows.values()[i] = static_cast<float>(i) / 2;
  CHECK(to_json(rows) == "[[[0,0.5]],[],[[1,1.5],[2,2.5]]]");
  CHECK(to_json(LoDTensor<int>({2, 2, 1})) == "[[[0],[0]],[[0],[0]]]");
  CHECK(to_json(LoDTensor<int>({2, 0})) == "[[],[]]");
  CHECK(to_json(LoDTensor<int>()) == "[]");
  CHECK(to_json(AnyLoDTensor(LoDTensor<int>(x))) == to_json(x));
}

TEST_CASE("to_json: the object form says all of a tensor") {
  const auto x = LoDTensor<int>::from_nested(nested_articles);
  CHECK(to_json(x, JsonForm::OBJECT) ==
        R"({"data_type":"INT32","lod":[[0,2,3],[0,2,3,6]],"shape":[6],"values":[1,2,3,4,5,6]})");
  CHECK(to_json(x.slice({1}), JsonForm::OBJECT) ==
        R"({"data_type":"INT32","lod":[[0,1],[0,3]],"shape":[3],"values":[4,5,6]})");
  CHECK(to_json(LoDTensor<bool>(LoD::from_offsets({{0}}), {8}), JsonForm::OBJECT) ==
        R"({"data_type":"BOOL","lod":[[0]],"shape":[0,8],"values":[]})");
  CHECK(to_json(LoDTensor<float>({1, 2}), JsonForm::OBJECT) ==
        R"({"data_type":"FP32","lod":[],"shape":[1,2],"values":[0,0]})");
}

TEST_CASE("from_json: the object's members stand in any order, with spaces, and lod may be missing") {
  const auto x = from_json<float>(R"( { "values" : [ 1 , 2.5 ,
    3e0, -4 ] , "shape" : [ 2 , 2 ] , "data_type" : "FP32" } )");
  CHECK(same_bits(x, LoDTensor<float>::from_values(LoD(), {2}, std::array{1.F, 2.5F, 3.F, -4.F})));
  const AnyLoDTensor any = from_json(R"({"values":[1,2],"lod":[[0,0,2]],"data_type":"INT8","shape":[2]})");
  CHECK(any.data_type() == DataType::INT8);
  CHECK(any.lod() == LoD::from_offsets({{0, 0, 2}}));
  CHECK_THROWS_AS(from_json<int>(R"({"data_type":"FP32","shape":[0],"values":[]})"), lod::ShapeMismatch);
}

TEST_CASE("from_json: nested lists under as many levels as are asked for") {
  CHECK(same_bits(from_json<int>("[[[1,2],[3]],[[4,5,6]]]", 2), LoDTensor<int>::from_nested(nested_articles)));
  const auto rows = from_json<int>("[[[1,2],[3,4]],[[5,6]]]", 1);
  CHECK(rows.lod() == LoD::from_lengths({{2, 1}}));
  CHECK(rows.shape() == Shape{3, 2});
  CHECK(from_json<int>(" [ [ 1 , 2 ] , [ 3 , 4 ] ] ", 0).shape() == Shape{2, 2});
  CHECK(from_json<int>("[]", 0).shape() == Shape{0});
  CHECK(from_json<int>("[]", 1).lod() == LoD::from_offsets({{0}}));
  CHECK(from_json<int>("[[],[]]", 1).lod() == LoD::from_offsets({{0, 0, 0}}));
  CHECK(from_json<int>("[[],[]]", 0).shape() == Shape{2, 0});
  CHECK(from_json<int>("[[[],[],[]]]", 1).shape() == Shape{3, 0});
  CHECK(from_json<int>("[[],[[1],[]]]", 2).lod() == LoD::from_lengths({{0, 2}, {1, 0}}));
}

TEST_CASE("JSON: random batches of every depth, row shape and element type come back") {
  lod_test::for_each_random_lod(8, 0, 3, [](Engine& engine, const lod_test::Lengths& lengths) {
    const auto check = [&](auto sample, const Shape& row_shape) {
      using T = decltype(sample);
      check_round_trip(lengths.empty() ? lod_test::small_integers<T>(engine, Shape(5, row_shape))
                                       : lod_test::small_integers<T>(engine, LoD::from_lengths(lengths), row_shape));
    };
    check(true, {});
    check(std::int8_t(), {2});
    check(std::int16_t(), {});
    check(std::int32_t(), {1, 3});
    check(std::int64_t(), {});
    check(std::uint8_t(), {0});
    check(std::uint32_t(), {2});
    check(std::uint64_t(), {});
    check(lod::float16(), {2, 2});
    check(lod::bfloat16(), {});
    check(float(), {3});
    check(double(), {});
    check(std::complex<float>(), {});
    check(std::complex<double>(), {2});
  });
}

TEST_CASE("JSON: integers keep all their digits") {
  const auto check = [](auto sample) {
    using T = decltype(sample);
    using Limits = std::numeric_limits<T>;
    check_round_trip(LoDTensor<T>::from_values(LoD(), {}, std::array<T, 4>{Limits::min(), Limits::max(), T(0), T(1)}));
  };
  check(std::int8_t());
  check(std::uint8_t());
  check(std::int16_t());
  check(std::int32_t());
  check(std::uint32_t());
  check(std::int64_t());
  check(std::uint64_t());
  CHECK(to_json(LoDTensor<std::uint64_t>::from_values(LoD(), {}, std::array{~std::uint64_t{0}})) ==
        "[18446744073709551615]");
}

TEST_CASE("JSON: floating-point numbers are as short as they can be, and exact") {
  const auto text = [](auto value) {
    return to_json(LoDTensor<decltype(value)>::from_values(LoD(), {}, std::array{value}));
  };
  CHECK(text(0.1F) == "[0.1]");
  CHECK(text(0.1) == "[0.1]");
  CHECK(text(static_cast<double>(0.1F)) == "[0.10000000149011612]");
  CHECK(text(1e20F) == "[1e+20]");
  CHECK(text(-0.0) == "[-0]");
  CHECK(text(lod::float16(0.1F)) == "[0.099975586]");
  CHECK(text(lod::bfloat16(3)) == "[3]");

  INFO("LOD_TEST_SEED=", lod_test::first_seed());
  Engine engine(lod_test::first_seed());
  LoDTensor<float> floats({2000});
  LoDTensor<double> doubles({2000});
  for (float& value : floats.values()) {
    do {
      value = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
    } while (std::isnan(value));
  }
  for (double& value : doubles.values()) {
    do {
      value = std::bit_cast<double>(engine());
    } while (std::isnan(value));
  }
  check_round_trip(floats);
  check_round_trip(doubles);
  // Subnormal numbers, too; and for callers whose own arithmetic loses these, or rounds in another way.
  for (float& value : floats.values().first(500))
    value = std::bit_cast<float>(static_cast<std::uint32_t>(engine() >> 41));
  for (double& value : doubles.values().first(500)) value = std::bit_cast<double>(engine() >> 12);
  lod_test::for_each_control([&](int rounding, bool flushes) {
    const lod_test::CallersControl control(rounding, flushes);
    check_round_trip(floats);
    check_round_trip(doubles);
  });
}

TEST_CASE_TEMPLATE("JSON: every 16-bit float comes back", T, lod::float16, lod::bfloat16) {
  LoDTensor<T> x({0x10000});
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const T value = T::from_bits(static_cast<std::uint16_t>(bits));
    x.values()[bits] = value == value ? value : T(0);
  }
  check_round_trip(x);
}

TEST_CASE("JSON: NaN and infinities are texts, which complex numbers may have as parts") {
  using Limits = std::numeric_limits<float>;
  const auto x = LoDTensor<float>::from_values(
      LoD(), {}, std::array{Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()});
  CHECK(to_json(x) == R"(["NaN","Infinity","-Infinity"])");
  CHECK(std::isnan(number<float>("\"NaN\"")));
  CHECK(std::isnan(static_cast<float>(number<lod::float16>("\"NaN\""))));
  CHECK(number<double>("\"Infinity\"") == std::numeric_limits<double>::infinity());
  CHECK(number<lod::bfloat16>("\"-Infinity\"") == -Limits::infinity());
  const auto z = LoDTensor<std::complex<double>>::from_values(
      LoD(), {}, std::array<std::complex<double>, 2>{{{1.5, -2}, {0, std::numeric_limits<double>::infinity()}}});
  CHECK(to_json(z) == R"([[1.5,-2],[0,"Infinity"]])");
  check_round_trip(z);
  CHECK(from_json<std::complex<float>>("[[[1,2],[3,4]],[[5,6],[7,8]]]", 0).shape() == Shape{2, 2});
  CHECK(from_json<std::complex<float>>("[[[1,2],[3,4]],[[5,6]]]", 1).lod() == LoD::from_lengths({{2, 1}}));
  CHECK(from_json<std::complex<float>>("[[],[]]", 0).shape() == Shape{2, 0});
}

TEST_CASE("from_json: a number is rounded once, and what is too small becomes 0") {
  // Between these two floats, and nearer to the upper one than a double can tell.
  CHECK(number<float>("1.00000005960464477539062500001") == std::nextafter(1.F, 2.F));
  CHECK(number<float>("1.000000059604644775390625") == 1.F);
  CHECK(number<float>("1e-60") == 0);
  CHECK(std::signbit(number<double>("-1e-999999999999999999999")));
  CHECK(number<double>("0.000001e-400") == 0);
  CHECK(number<double>("100000e-400") == 0);
  CHECK(number<double>("0e999999999999999999999") == 0);
  CHECK(number<double>("4.9e-324") == std::numeric_limits<double>::denorm_min());
  CHECK(number<lod::float16>("1e-300") == 0);
  CHECK(number<lod::float16>("65504") == 65504);
}

TEST_CASE("from_json: numbers beyond the range of their type are refused") {
  const auto check = [](auto sample, const std::string& json) {
    using T = decltype(sample);
    check_nested_refused<T>(0, "[ " + json + "]",
                            std::string("a number beyond the range of ") + lod::to_string(lod::data_type_v<T>), 2);
  };
  check(std::int8_t(), "128");
  check(std::int8_t(), "-129");
  check(std::uint8_t(), "256");
  check(std::uint8_t(), "-1");
  check(std::int32_t(), "2147483648");
  check(std::int64_t(), "9223372036854775808");
  check(std::uint64_t(), "18446744073709551616");
  check(float(), "3.5e38");
  check(float(), "-1e39");
  check(double(), "1e309");
  check(double(), "1e99999999999999999999");
  check(double(), "123456789" + std::string(400, '0'));
  check(lod::float16(), "65520");
  check(lod::float16(), "-1e10");
  check(lod::float16(), "1e400");
  check(lod::bfloat16(), "3.4e38");
}

TEST_CASE("from_json: texts that are no nested lists of the type, and where") {
  check_nested_refused<int>(0, "", "'[' expected", 0);
  check_nested_refused<int>(0, "1", "'[' expected", 0);
  check_nested_refused<int>(0, "{}", "'[' expected", 0);
  check_nested_refused<int>(0, "[", "a digit expected", 1);
  check_nested_refused<int>(0, "[1", "',' or ']' expected", 2);
  check_nested_refused<int>(0, "[1,]", "a digit expected", 3);
  check_nested_refused<int>(0, "[,1]", "a digit expected", 1);
  check_nested_refused<int>(0, "[1 2]", "',' or ']' expected", 3);
  check_nested_refused<int>(0, "[1]]", "something after the tensor", 3);
  check_nested_refused<int>(0, "[1] x", "something after the tensor", 4);
  check_nested_refused<int>(0, std::string("[1]\0", 4), "something after the tensor", 3);
  check_nested_refused<int>(0, "[01]", "',' or ']' expected", 2);
  check_nested_refused<int>(0, "[+1]", "a digit expected", 1);
  check_nested_refused<int>(0, "[-]", "a digit expected", 2);
  check_nested_refused<int>(0, "[0x1]", "',' or ']' expected", 2);
  check_nested_refused<int>(0, "[1.0]", "an integer expected", 1);
  check_nested_refused<int>(0, "[1e2]", "an integer expected", 1);
  check_nested_refused<int>(0, "[true]", "a digit expected", 1);
  check_nested_refused<int>(0, "[null]", "a digit expected", 1);
  check_nested_refused<int>(0, "[\"1\"]", "a digit expected", 1);
  check_nested_refused<float>(0, "[1.]", "a digit expected", 3);
  check_nested_refused<float>(0, "[.5]", "a digit expected", 1);
  check_nested_refused<float>(0, "[1e]", "a digit expected", 3);
  check_nested_refused<float>(0, "[1e+]", "a digit expected", 4);
  check_nested_refused<float>(0, "[NaN]", "a digit expected", 1);
  check_nested_refused<float>(0, "[null]", "a digit expected", 1);
  check_nested_refused<float>(0, "[\"nan\"]", "a number, \"NaN\", \"Infinity\" or \"-Infinity\" expected", 1);
  check_nested_refused<float>(0, "[\"NaN", "a text without its second quote", 5);
  check_nested_refused<float>(0, "[\"\\u004eaN\"]", "an escaped letter, which no name here has", 2);
  check_nested_refused<bool>(0, "[1]", "true or false expected", 1);
  check_nested_refused<bool>(0, "[tru]", "true or false expected", 1);
  check_nested_refused<bool>(0, "[falsey]", "',' or ']' expected", 6);
  check_nested_refused<std::complex<float>>(0, "[1]", "'[' expected", 1);
  check_nested_refused<std::complex<float>>(0, "[[1]]", "',' expected", 3);
  check_nested_refused<std::complex<float>>(0, "[[1,2,3]]", "']' expected", 5);
  CHECK_THROWS_AS(from_json<int>("[]", -1), lod::OutOfRange);
}

TEST_CASE("from_json: rows have one shape; only sequences may differ") {
  check_nested_refused<int>(0, "[[1,2],[3]]", "a list of 1, expected 2 as before: rows have one shape", 7);
  check_nested_refused<int>(0, "[[1,2],[]]", "a list of 0, expected 2 as before: rows have one shape", 7);
  check_nested_refused<int>(0, "[[],[1]]", "a list of 1, expected 0 as before: rows have one shape", 4);
  check_nested_refused<int>(0, "[1,[2]]", "a list, expected a number", 3);
  check_nested_refused<int>(0, "[[1],2]", "a number, expected a list of 1", 5);
  check_nested_refused<int>(0, "[[[1],2]]", "a number, expected a list of 1", 6);
  check_nested_refused<int>(0, "[[],[[]]]", "a list, expected a number", 5);
  check_nested_refused<int>(0, "[[[1],[]]]", "a list of 0, expected 1 as before: rows have one shape", 6);
  check_nested_refused<int>(1, "[[[1,2]],[[3]]]", "a list of 1, expected 2 as before: rows have one shape", 10);
  check_nested_refused<int>(1, "[1]", "'[' expected", 1);
  check_nested_refused<int>(2, "[[1]]", "'[' expected", 2);
  CHECK(from_json<int>("[[[[[[[[1]]]]]]]]", 0).shape() == Shape{1, 1, 1, 1, 1, 1, 1, 1});
  check_nested_refused<int>(0, "[[[[[[[[[1]]]]]]]]]", "more than 8 dimensions", 8);
  check_nested_refused<int>(0, std::string(100000, '['), "more than 8 dimensions", 8);
}

TEST_CASE("from_json: objects that are no tensor, and where") {
  const std::string expected = "\"data_type\", \"lod\", \"shape\" and \"values\" expected, each once";
  check_object_refused("", "'{' expected", 0);
  check_object_refused("[]", "'{' expected", 0);
  check_object_refused("{}", "no \"data_type\", no \"shape\", no \"values\"", 2);
  check_object_refused("{ } x", "something after the tensor", 4);
  check_object_refused(R"({"data_type":"FP32"})", "no \"shape\", no \"values\"", 20);
  check_object_refused(R"({"shape":[0],"values":[]})", "no \"data_type\"", 25);
  check_object_refused(R"({"data_type":"FP32","shape":[0]})", "no \"values\"", 32);
  check_object_refused(R"({"dtype":"FP32"})", expected, 1);
  check_object_refused(R"({"shape":[0],"shape":[0]})", expected, 13);
  check_object_refused(R"({"values":[],"values":[]})", expected, 13);
  check_object_refused(R"({"lod":[],"lod":[]})", expected, 10);
  check_object_refused(R"({"shape":[0] "lod":[]})", "',' or '}' expected", 13);
  check_object_refused(R"({"data_type":5})", "a text in quotes expected", 13);
  check_object_refused(R"({"data_type":"float32"})", "the name of a DataType expected, one with a C++ type", 13);
  check_object_refused(R"({"data_type":"FP8_E5M2"})", "the name of a DataType expected, one with a C++ type", 13);
  check_object_refused(R"({"data_type":"?"})", "the name of a DataType expected, one with a C++ type", 13);
  check_object_refused(R"({"shape":[]})", "a shape without the number of rows", 9);
  check_object_refused(R"({"shape":[-1]})", "shape: dimension 0 is -1, expected 0 or more", 9);
  check_object_refused(R"({"shape":[1.5]})", "an integer expected", 10);
  check_object_refused(R"({"lod":[[1]]})", "LoD: level 0, position 0: the first offset is 1, expected 0", 7);
  check_object_refused(R"({"lod":[[]]})", "LoD: level 0 has no offset, expected at least the {0} of no sequences", 7);
  check_object_refused(R"({"lod":[0]})", "'[' expected", 8);
  check_object_refused(R"({"values":[1,2)", "a list without its end", 14);
  check_object_refused(R"({"values":1})", "'[' expected", 10);
  check_object_refused(R"({"values":["NaN)", "a text without its second quote", 15);
  check_object_refused(R"({"data_type":"FP32","shape":[3],"values":[1,2]})", "fewer values than the 3 of the shape",
                       41);
  check_object_refused(R"({"data_type":"FP32","shape":[3],"values":[10,20]})", "2 values, expected the 3 of the shape",
                       48);
  check_object_refused(R"({"data_type":"FP32","shape":[1],"values":[1,2]})", "more values than the 1 of the shape", 44);
  check_object_refused(R"({"data_type":"INT8","shape":[1],"values":[true]})", "a digit expected", 42);
  check_object_refused(R"({"data_type":"INT8","shape":[1],"values":[[1]]})", "a digit expected", 42);
  check_object_refused(R"({"data_type":"INT8","shape":[1],"values":[1],"lod":[[0,2]]})",
                       "the LoD is for 2 rows, but there are 1", 51);
  check_object_refused(R"({"data_type":"INT8","shape":[0],"values":[]}{})", "something after the tensor", 44);
}

TEST_CASE("from_json: takes no memory for values that are not there") {
  const lod_test::MemoryLimit limit(1000);
  check_object_refused(R"({"data_type":"FP64","shape":[1000000000000],"values":[]})",
                       "fewer values than the 1000000000000 of the shape", 53);
  check_object_refused(R"({"data_type":"FP64","shape":[3037000499,3037000499],"values":[0]})",
                       "fewer values than the 9223372030926249001 of the shape", 61);
  CHECK(from_json(R"({"data_type":"FP64","shape":[1000000000000,0],"values":[]})").rows() == 1000000000000);
}

TEST_CASE("from_json: every truncation is refused, and damaged text is refused or read, nothing else") {
  const auto object = [](std::string_view json) { from_json(json); };
  const auto nested = [](std::string_view json) { from_json<float>(json, 2); };
  const auto complex = [](std::string_view json) { from_json<std::complex<float>>(json, 1); };
  Engine engine(lod_test::first_seed());
  auto x = lod_test::real_numbers<float>(engine, LoD::from_lengths({{2, 0, 1}, {1, 0, 2}}), {2});
  x.values()[1] = std::numeric_limits<float>::quiet_NaN();
  const std::string whole = to_json(x, JsonForm::OBJECT);
  lod_test::refuses_every_truncation(whole, object);
  lod_test::refuses_every_truncation(to_json(x), nested);

  const lod_test::MemoryLimit limit(100000);
  lod_test::survives_every_bit_flip(whole, object);
  lod_test::survives_random_changes(whole, 5000, object);
  lod_test::survives_every_bit_flip(to_json(x), nested);
  lod_test::survives_random_changes(to_json(x), 5000, nested);
  lod_test::survives_random_changes("[[[1,2],[3,4.5]],[],[[-5e3,\"NaN\"]]]", 5000, complex);
  lod_test::survives_noise(3000, object);
  lod_test::survives_noise(3000, nested);
}

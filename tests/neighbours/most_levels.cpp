// SPDX-License-Identifier: Apache-2.0
// Texts, archives and arrays of more levels than a LoD has, or nested as no tensor is: refused, by readers that neither
// recurse into them nor take memory for them.
#include "support/foreign_arrow.hpp"
#include "support/same_bits.hpp"
#include <lod/arrow.hpp>
#include <lod/io/json.hpp>
#include <lod/io/npy.hpp>
#include <lod/io/npz.hpp>
#include <lod/lod_index.hpp>
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::max_levels;
using lod_test::same_bits;

namespace {

constexpr std::size_t most = max_levels;

LoDTensor<float> deep_tensor(const lod::Shape& row_shape = {}) {
  LoDTensor<float> x(LoD::from_offsets(std::vector<std::vector<std::int64_t>>(most, {0, 1})), row_shape);
  for (float& value : x.values()) value = 3;
  return x;
}

}  // namespace

TEST_CASE("to_json, from_json: of max_levels levels, in both forms") {
  const auto x = deep_tensor();
  CHECK(lod::to_json(x) == std::string(most + 1, '[') + "3" + std::string(most + 1, ']'));
  CHECK(same_bits(lod::from_json<float>(lod::to_json(x), max_levels), x));
  CHECK(same_bits(lod::from_json<float>(lod::to_json(x, lod::JsonForm::OBJECT)), x));
  const auto rows = deep_tensor(lod::Shape({1, 1, 1, 1, 1, 1, 2}));
  CHECK(same_bits(lod::from_json<float>(lod::to_json(rows), max_levels), rows));
}

TEST_CASE("from_json: of more levels is refused, by its number and by its text") {
  for (const std::size_t levels : {most + 1, most + 2, std::size_t{1000}, std::size_t{40000}}) {
    CAPTURE(levels);
    CHECK_THROWS_AS(lod::from_json<float>("[]", static_cast<int>(levels)), lod::OutOfRange);
    std::string lists;
    for (std::size_t level = 0; level < levels; ++level) lists += level > 0 ? ",[0,1]" : "[0,1]";
    const std::string text = R"({"data_type":"FP32","lod":[)" + lists + R"(],"shape":[1],"values":[3]})";
    CHECK_THROWS_WITH_AS(lod::from_json(text), doctest::Contains("more than 64 levels"), lod::ParseError);
  }
  CHECK_THROWS_AS(lod::from_json<float>("[]", 0x7fffffff), lod::OutOfRange);
}

TEST_CASE("from_json: lists in one another without end are refused where they are too deep") {
  for (const std::size_t depth : {std::size_t{100}, std::size_t{40000}, std::size_t{1} << 20}) {
    const std::string open(depth, '['), closed = open + std::string(depth, ']');
    for (const std::string& text : {open, closed}) {
      for (const int levels : {0, 1, max_levels}) {
        CHECK_THROWS_AS(lod::from_json<float>(text, levels), lod::ParseError);
        CHECK_THROWS_AS(lod::from_json<std::complex<float>>(text, levels), lod::ParseError);
      }
      CHECK_THROWS_AS(lod::from_json(text), lod::ParseError);
      for (const char* member : {"data_type", "lod", "shape", "values"}) {
        CHECK_THROWS_AS(lod::from_json("{\"" + std::string(member) + "\":" + text + "}"), lod::ParseError);
      }
      const std::string values = R"({"data_type":"FP32","shape":[1],"values":)" + text + "}";
      CHECK_THROWS_AS(lod::from_json(values), lod::ParseError);
    }
  }
}

TEST_CASE("to_arrow, from_arrow: of max_levels levels and the most dimensions") {
  for (const lod::Shape& row_shape : {lod::Shape(), lod::Shape({1, 1, 1, 1, 1, 1, 2})}) {
    const auto x = deep_tensor(row_shape);
    auto schema = lod::arrow_schema(x);
    CHECK(same_bits(lod::from_arrow<float>(lod::to_arrow(x), *schema.get()), x));
  }
}

TEST_CASE("from_arrow: of more levels is refused, and the array is released") {
  for (const std::size_t levels : {most + 1, most + 7, std::size_t{1000}}) {
    CAPTURE(levels);
    const std::int64_t offsets[] = {0, 1};
    const float value = 3;
    std::vector<lod_test::ForeignLevel> lists(levels, {.format = "+L", .length = 1, .buffers = {nullptr, offsets}});
    lists.push_back({.format = "f", .length = 1, .buffers = {nullptr, &value}});
    int released = 0;
    lod_test::ForeignArrow foreign(std::move(lists), released);
    CHECK_THROWS_AS(foreign.import <float>(), std::invalid_argument);
    CHECK(released == 1);
  }
}

TEST_CASE("NpzFile: of max_levels levels is read, of more is refused when it is requested, and others are not") {
  const auto x = deep_tensor();
  const std::string bytes = lod::encode_npz({{"x", x}});
  CHECK(same_bits(lod::NpzFile::decode(bytes).load<LoDTensor<float>>("x"), x));
  LoDTensor<std::int64_t> level({2});
  level.data()[1] = 1;
  const LoDTensor<float> y({1});
  std::vector<lod::NpzValue> values = {{"x", y}, {"z", y}};
  std::vector<std::string> names;
  for (std::size_t i = 0; i <= most; ++i) names.push_back("y.lod" + std::to_string(i));
  for (const std::string& name : names) values.push_back({name, level});
  std::string other = lod::encode_npz(values);  // an array of another name, which then is given that of the levels
  for (std::size_t at = other.find("y.lod"); at != std::string::npos; at = other.find("y.lod", at)) other[at] = 'x';
  const auto file = lod::NpzFile::decode(other);
  CHECK_THROWS_WITH_AS(file.load<LoDTensor<float>>("x"), doctest::Contains("'x': 65 levels, expected 64 at most"),
                       lod::ParseError);
  CHECK_THROWS_AS(file.describe("x"), lod::ParseError);
  CHECK(file.load<LoDTensor<float>>("z").rows() == 1);
}

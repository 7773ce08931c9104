// SPDX-License-Identifier: Apache-2.0
// What is JSON and what it says, compared with another library: nlohmann's, reading values one by one.
#include "neighbours/damaged.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/io/json.hpp>
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod_test::same_bits;
using nlohmann::json;

namespace {

/// The tensor that a document is by its definition, if it is one.
class Definition {
 public:
  static std::optional<LoDTensor<double>> read(std::string_view text, std::size_t levels) {
    const json document = json::parse(text, nullptr, false);
    Definition reader(levels);
    if (document.is_discarded() || !reader.sequences(document, 0)) return std::nullopt;
    const lod::Shape row_shape(reader.row_shape_.value_or(std::vector<std::int64_t>()));
    if (levels > 0)
      return LoDTensor<double>::from_values(LoD::from_lengths(reader.lengths_), row_shape, reader.values_);
    LoDTensor<double> plain(lod::Shape(static_cast<std::int64_t>(document.size()), row_shape));
    std::copy(reader.values_.begin(), reader.values_.end(), plain.data());
    return plain;
  }

 private:
  explicit Definition(std::size_t levels) : lengths_(levels) {}

  bool sequences(const json& list, std::size_t level) {
    if (!list.is_array()) return false;
    for (const json& item : list) {
      if (level < lengths_.size()) {
        if (!sequences(item, level + 1)) return false;
        lengths_[level].push_back(static_cast<std::int64_t>(item.size()));
      } else {
        if (!row_shape_) row_shape_ = shape_of(item);
        if (row_shape_->size() > 7 || !row(item, 0)) return false;
      }
    }
    return true;
  }
  static std::vector<std::int64_t> shape_of(const json& item) {
    if (!item.is_array()) return {};
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(item.size())};
    const auto rest = item.empty() ? std::vector<std::int64_t>() : shape_of(item[0]);
    shape.insert(shape.end(), rest.begin(), rest.end());
    return shape;
  }
  bool row(const json& item, std::size_t dim) {
    if (dim == row_shape_->size()) {
      if (!item.is_number()) return false;
      values_.push_back(item.get<double>());
      return true;
    }
    if (!item.is_array() || static_cast<std::int64_t>(item.size()) != (*row_shape_)[dim]) return false;
    for (const json& inner : item) {
      if (!row(inner, dim + 1)) return false;
    }
    return true;
  }

  std::vector<std::vector<std::int64_t>> lengths_;
  std::optional<std::vector<std::int64_t>> row_shape_;
  std::vector<double> values_;
};

/// Reads it both ways: the same tensor, or none. The other library takes -0 for an integer, which has no sign.
void compare(std::string_view text, int levels) {
  auto expected = Definition::read(text, static_cast<std::size_t>(levels));
  std::optional<LoDTensor<double>> found;
  try {
    found = lod::from_json<double>(text, levels);
  } catch (const lod::ParseError&) {
  }
  INFO(std::string(text));
  REQUIRE(found.has_value() == expected.has_value());
  if (!found) return;
  for (auto* const tensor : {&*found, &*expected}) {
    for (double& value : tensor->values()) value += 0.0;
  }
  REQUIRE(same_bits(*found, *expected));
}

}  // namespace

TEST_CASE("JSON: nlohmann's library reads what is written, to the last bit") {
  lod_test::for_each_random_lod(8, 0, 3, [](lod_test::Engine& engine, const lod_test::Lengths& lengths) {
    const auto x = lengths.empty() ? lod_test::real_numbers<double>(engine, {5, 2})
                                   : lod_test::real_numbers<double>(engine, LoD::from_lengths(lengths), {2});
    if (x.rows() > 0) {
      REQUIRE(same_bits(*Definition::read(lod::to_json(x), static_cast<std::size_t>(x.levels())), x));
    }
    const json object = json::parse(lod::to_json(x, lod::JsonForm::OBJECT));
    REQUIRE(object.size() == 4);
    REQUIRE(object["data_type"] == "FP64");
    REQUIRE(object["shape"] == json{x.rows(), 2});
    REQUIRE(object["values"] == json(std::vector<double>(x.values().begin(), x.values().end())));
    REQUIRE(object["lod"].size() == static_cast<std::size_t>(x.levels()));
    for (int level = 0; level < x.levels(); ++level) {
      const auto offsets = x.lod().offsets(level);
      REQUIRE(object["lod"][static_cast<std::size_t>(level)] ==
              json(std::vector<std::int64_t>(offsets.begin(), offsets.end())));
    }
  });
}

TEST_CASE("JSON: of changed texts the same are read, and as the same tensors") {
  for (const char* text : {"[[[1,2],[3,4.5]],[],[[-5e3,0.25]]]", "[[1],[],[2,-3E+2,4]]", "[ [], [ [], [] ] ]",
                           "[1.5e-3,20,-0]", "[[[[1]],[[2]]]]"}) {
    for (int levels = 0; levels <= 2; ++levels) {
      CAPTURE(levels);
      compare(text, levels);
      const auto read = [&](std::string_view changed) { compare(changed, levels); };
      lod_test::survives_random_changes(text, 3000, read);
      lod_test::survives_every_bit_flip(text, read);
    }
  }
}

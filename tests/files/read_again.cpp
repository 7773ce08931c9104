// SPDX-License-Identifier: Apache-2.0
// What save takes, open gives back, value for value; what it refuses leaves the old file as it was.
#include "support/odd_values.hpp"
#include <lod/io/file.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace lod_test;

namespace {

/// A variable: how it is written, and how what is read is looked at.
struct Variable {
  std::function<void(lod::FileWriter&)> add;
  std::function<void(const lod::File&)> check;
};

/// A description that says more than the value does, or something that nobody could read.
lod::VarDesc odd_description(Engine& engine, std::string name, lod::VarType::Type type) {
  lod::VarDesc description = lod::VarDesc::of_type(std::move(name), type);
  switch (random_number(engine, 0, 9)) {
    case 0:
      description.unknown_fields = "\x7a\x01z";  // a field
      break;
    case 1:
      description.unknown_fields = "no fields";
      break;
    case 2:
      description.unknown_fields = "\x0a\x01z";  // another name
      break;
    case 3:
      description.attrs = {{.name = "a", .type = lod::AttrType::INTS, .ints = {1, -2}}};
      break;
    case 4:
      description.attrs = {{.name = "a", .type = static_cast<lod::AttrType>(99)}};
      break;
    case 5:
      description.type.type = static_cast<lod::VarType::Type>(random_number(engine, -1, 40));
      break;
    case 6:
      description.type.unknown_fields = "\x08\x07";  // another type
      break;
    case 7:
      description.persistable = true;
      break;
    default:
      break;
  }
  return description;
}

/// How a value is added, by its name or with a description, which is read back too.
template <class X>
Variable variable(Engine& engine, const std::string& name, X x, lod::VarType::Type type,
                  std::function<void(const lod::File&)> check) {
  if (random_number(engine, 0, 3) > 0) return {[=](lod::FileWriter& writer) { writer.add(name, x); }, std::move(check)};
  const lod::VarDesc description = odd_description(engine, name, type);
  return {[=](lod::FileWriter& writer) { writer.add(description, x); },
          [=](const lod::File& file) {
            check(file);
            const lod::VarDesc found = file.describe(name);
            CHECK(found.attrs == description.attrs);
            CHECK(found.unknown_fields == description.unknown_fields);
            CHECK(found.type.unknown_fields == description.type.unknown_fields);
            CHECK(found.persistable == description.persistable);
          }};
}

Variable odd_variable(Engine& engine, const std::string& name) {
  switch (random_number(engine, 0, 4)) {
    case 0: {
      const lod::SelectedRows<float> g = odd_rows(engine);
      return variable(engine, name, g, lod::VarType::SELECTED_ROWS, [=](const lod::File& file) {
        CHECK(same_rows(file.load<lod::SelectedRows<float>>(name), g));
        CHECK(same_rows(file.any_selected_rows(name), lod::AnySelectedRows(g)));
      });
    }
    case 1: {
      std::vector<lod::AnyLoDTensor> array;
      for (std::int64_t count = random_number(engine, 0, 2); count > 0; --count) array.push_back(odd_tensor(engine));
      return variable(engine, name, array, lod::VarType::LOD_TENSOR_ARRAY, [=](const lod::File& file) {
        const auto read = file.load<std::vector<lod::AnyLoDTensor>>(name), mapped = file.any_tensor_array(name);
        REQUIRE(read.size() == array.size());
        REQUIRE(mapped.size() == array.size());
        for (std::size_t i = 0; i < array.size(); ++i) {
          CHECK(same_tensor(read[i], array[i]));
          CHECK(same_tensor(mapped[i], array[i]));
        }
      });
    }
    default: {
      const lod::AnyLoDTensor x = odd_tensor(engine);
      return variable(engine, name, x, lod::VarType::LOD_TENSOR, [=](const lod::File& file) {
        CHECK(same_tensor(file.load<lod::AnyLoDTensor>(name), x));
        CHECK(same_tensor(file.any_tensor(name), x));
      });
    }
  }
}

}  // namespace

TEST_CASE("FileWriter: odd values under odd names are read again, or refused before the old file goes") {
  const TemporaryFolder folder;
  int written = 0, refused = 0;
  for (int round = 0; round < 300; ++round) {
    Engine engine(first_seed() + static_cast<std::uint64_t>(round));
    INFO("LOD_TEST_SEED=", first_seed(), ", round ", round);
    std::vector<Variable> variables;
    std::vector<std::string> names;
    for (std::int64_t count = random_number(engine, 0, 2); count >= 0; --count) {
      names.push_back(odd_name(engine));
      variables.push_back(odd_variable(engine, names.back()));
    }
    const bool is_written = written_or_refused<std::invalid_argument>(
        folder,
        [&](const std::string& path) {
          lod::FileWriter writer(path, {.wait_for_disk = false});
          for (const Variable& variable : variables) variable.add(writer);
          writer.commit();
        },
        [&](const std::string& path) {
          const lod::File file = lod::File::open(path);
          CHECK(file.names() == names);
          file.verify();
          for (const Variable& variable : variables) variable.check(file);
        });
    ++(is_written ? written : refused);
  }
  CHECK(written > 50);
  CHECK(refused > 50);
}

TEST_CASE("FileWriter: what it refuses can be followed by what it takes, and only that is in the file") {
  const TemporaryFolder folder;
  int refused = 0;
  for (int round = 0; round < 100; ++round) {
    Engine engine(first_seed() + static_cast<std::uint64_t>(round));
    INFO("LOD_TEST_SEED=", first_seed(), ", round ", round);
    lod::FileWriter writer(folder / "file", {.wait_for_disk = false});
    std::vector<Variable> kept;
    for (int i = 0; i < 10; ++i) {
      Variable variable = odd_variable(engine, std::to_string(i));
      try {
        variable.add(writer);
        kept.push_back(std::move(variable));
      } catch (const std::invalid_argument&) {
        ++refused;
      }
    }
    writer.commit();
    const lod::File file = lod::File::open(folder / "file");
    CHECK(file.names().size() == kept.size());
    for (const Variable& variable : kept) variable.check(file);
  }
  CHECK(refused > 100);
}

TEST_CASE("save: row-sparse values with a level are refused, by name, and the old file stays") {
  const TemporaryFolder folder;
  lod::SelectedRows<float> g({1, 2, 3}, 10, {2});
  g.value() = lod::LoDTensor<float>(lod::LoD::from_lengths({{1, 2}}), {2});
  const lod::LoDTensor<float> x({3});
  lod::save(folder / "file", {{"x", x}});
  const std::string before = read_bytes(folder / "file");
  CHECK_THROWS_WITH_AS(lod::save(folder / "file", {{"x", x}, {"g", g}}),
                       "FileWriter: 'g': tensors[0]: lod_level: expected 0, found 1", lod::ShapeMismatch);
  CHECK(read_bytes(folder / "file") == before);
  g.value() = std::move(g.value()).with_lod(lod::LoD());
  lod::save(folder / "file", {{"x", x}, {"g", g}});
  CHECK(same_rows(lod::load<lod::SelectedRows<float>>(folder / "file", "g"), g));
}

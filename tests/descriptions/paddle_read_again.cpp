// SPDX-License-Identifier: Apache-2.0
// What is written as PaddlePaddle writes it is read again, value for value; what is refused leaves the old file as it
// was.
#include "support/interrupted_writers.hpp"
#include "support/odd_values.hpp"
#include <lod/io/paddle.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace paddle = lod::paddle;
using namespace lod_test;

namespace {

/// A program in which something may be odd: values of enums that there are not, unknown fields that are none or known.
lod::ProgramDesc odd_program(Engine& engine) {
  lod::ProgramDesc program;
  lod::OpDesc op{.type = odd_name(engine)};
  op.attrs.push_back({.name = odd_name(engine), .type = lod::AttrType::FLOAT, .f = static_cast<float>(0.0 / 0.0)});
  lod::BlockDesc block{.idx = 0, .parent_idx = -1};
  block.vars.push_back(lod::VarDesc::lod_tensor(odd_name(engine), {lod::DataType::FP32, {-1, 3}}, 1));
  const std::string fields[] = {"", "\x7a\x01z", "no fields", "\x08\x01", "\x0b\x0c", "\x0c"};
  switch (random_number(engine, 0, 7)) {
    case 0:
      op.unknown_fields = fields[engine() % std::size(fields)];
      break;
    case 1:
      block.unknown_fields = fields[engine() % std::size(fields)];
      break;
    case 2:
      program.unknown_fields = fields[engine() % std::size(fields)];
      break;
    case 3:
      op.attrs[0].type = static_cast<lod::AttrType>(random_number(engine, -1, 99));
      break;
    case 4:
      block.vars[0].type.lod_tensor->tensor.data_type = static_cast<lod::DataType>(random_number(engine, -1, 99));
      break;
    case 5:
      block.vars[0].type.type = static_cast<lod::VarType::Type>(random_number(engine, -1, 99));
      break;
    default:
      break;
  }
  block.ops.push_back(std::move(op));
  program.blocks.push_back(std::move(block));
  return program;
}

}  // namespace

TEST_CASE("save_tensor, save_selected_rows: odd values are read again, or refused before the old file goes") {
  const TemporaryFolder folder;
  int written = 0, refused = 0;
  for (int round = 0; round < 60; ++round) {
    Engine engine(first_seed() + static_cast<std::uint64_t>(round));
    INFO("LOD_TEST_SEED=", first_seed(), ", round ", round);
    const lod::AnyLoDTensor x = odd_tensor(engine);
    const lod::SelectedRows<float> g = odd_rows(engine);
    const bool is_written =
        round % 2 == 0 ? written_or_refused<std::invalid_argument>(
                             folder, [&](const std::string& path) { paddle::save_tensor(path, x); },
                             [&](const std::string& path) { CHECK(same_tensor(paddle::load_tensor(path), x)); })
                       : written_or_refused<std::invalid_argument>(
                             folder, [&](const std::string& path) { paddle::save_selected_rows(path, g); },
                             [&](const std::string& path) {
                               CHECK(same_rows(paddle::load_selected_rows(path), lod::AnySelectedRows(g)));
                             });
    ++(is_written ? written : refused);
    if (!is_written || round % 2 == 1) continue;
    const std::string bytes = paddle::encode_tensor(x, paddle::Layout::OF_2017);
    std::string_view rest = bytes;
    CHECK(same_tensor(paddle::decode_tensor(rest), x));
    CHECK(rest.empty());
  }
  CHECK(written > 15);
  CHECK(refused > 5);
}

TEST_CASE("save_parameters: odd values under odd names are read again, or refused before the old file goes") {
  const TemporaryFolder folder, model;
  int written = 0;
  for (int round = 0; round < 60; ++round) {
    Engine engine(first_seed() + static_cast<std::uint64_t>(round));
    INFO("LOD_TEST_SEED=", first_seed(), ", round ", round);
    std::vector<std::string> names;
    paddle::Parameters values;
    for (std::int64_t count = random_number(engine, 0, 2); count >= 0; --count) {
      names.push_back(odd_name(engine));
      values.emplace(names.back(), odd_tensor(engine));
    }
    const auto check = [&](const paddle::Parameters& read) {
      REQUIRE(read.size() == values.size());
      for (const auto& [name, x] : values) CHECK(same_tensor(read.at(name), x));
    };
    const bool is_written = written_or_refused<std::invalid_argument>(
        folder, [&](const std::string& path) { paddle::save_parameters(path, values, names); },
        [&](const std::string& path) { check(paddle::load_parameters(path, names)); });
    written += is_written;

    // In a folder, with a file for each; folders that names lead through are there, if they can be.
    std::filesystem::create_directories(model / "a");
    try {
      paddle::save_parameters(model.path(), values, names);
    } catch (const std::exception&) {  // InvalidProgram; names that no file can have
      continue;
    }
    check(paddle::load_parameters(model.path(), names));
  }
  CHECK(written > 20);
}

TEST_CASE("save_parameters: to a folder, a name that is another's folder is refused before anything is written") {
  const TemporaryFolder folder;
  const std::vector<std::string> names = {"w", "x", "x/y"};
  paddle::Parameters values;
  for (const std::string& name : names) values.emplace(name, lod::LoDTensor<float>({1}));
  CHECK_THROWS_WITH_AS(paddle::save_parameters(folder.path(), values, names),
                       "variable 'x/y': 'x' is a variable, too, and cannot be a file and a folder",
                       lod::InvalidProgram);
  CHECK(folder.size() == 0);
}

TEST_CASE("save_parameters: in a folder, no parameter takes the place of the program") {
  const TemporaryFolder folder;
  write_bytes(folder / "__model__", "the program");
  for (const std::string name : {"__model__", "__params__"}) {
    CAPTURE(name);
    const std::vector<std::string> names = {"a", name};
    const paddle::Parameters values = {{"a", lod::LoDTensor<float>({1})}, {name, lod::LoDTensor<float>({1})}};
    CHECK_THROWS_AS(paddle::save_parameters(folder.path(), values, names), lod::InvalidProgram);
    CHECK(read_bytes(folder / "__model__") == "the program");
    CHECK(folder.size() == 1);
    paddle::save_parameters(folder / "all", values, names);
    CHECK(paddle::load_parameters(folder / "all", names).size() == 2);
    std::filesystem::remove(folder / "all");
  }
}

TEST_CASE("save_parameters: a file of a folder that cannot be created is told before the first is replaced") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "is_folder");
  write_bytes(folder / "a", "the old file");
  for (const std::string& name : {std::string(300, 'n'), std::string("missing/w"), std::string("is_folder")}) {
    CAPTURE(name);
    const std::vector<std::string> names = {"a", name};
    const paddle::Parameters values = {{"a", lod::LoDTensor<float>({1})}, {name, lod::LoDTensor<float>({1})}};
    CHECK_THROWS_AS(paddle::save_parameters(folder.path(), values, names), std::system_error);
    CHECK(read_bytes(folder / "a") == "the old file");
    CHECK(folder.size() == 2);
  }
}

TEST_CASE("save_program: odd programs are read again, or refused before the old file goes") {
  const TemporaryFolder folder;
  int written = 0, refused = 0;
  for (int round = 0; round < 60; ++round) {
    Engine engine(first_seed() + static_cast<std::uint64_t>(round));
    INFO("LOD_TEST_SEED=", first_seed(), ", round ", round);
    const lod::ProgramDesc program = odd_program(engine);
    const bool is_written = written_or_refused<std::invalid_argument>(
        folder, [&](const std::string& path) { paddle::save_program(path, program); },
        [&](const std::string& path) {
          const lod::ProgramDesc read = paddle::load_program(path);
          CHECK(lod::encode(read) == lod::encode(program));
          CHECK(read.unknown_fields == program.unknown_fields);
          CHECK(read.blocks[0].unknown_fields == program.blocks[0].unknown_fields);
          CHECK(read.blocks[0].ops[0].unknown_fields == program.blocks[0].ops[0].unknown_fields);
        });
    ++(is_written ? written : refused);
  }
  CHECK(written > 15);
  CHECK(refused > 5);
}

TEST_CASE("save_model: a program or a value that cannot be written leaves both old files") {
  const TemporaryFolder folder;
  const std::string path = folder / "m";
  paddle::Model model;
  lod::VarDesc w = lod::VarDesc::lod_tensor("w", {lod::DataType::FP32, {2}});
  w.persistable = true;
  model.program.blocks.push_back({.vars = {w}});
  model.parameters.emplace("w", lod::LoDTensor<float>({2}));
  paddle::save_model(path, model);
  const std::string program = read_bytes(path + ".pdmodel"), values = read_bytes(path + ".pdiparams");
  paddle::Model other = model;
  other.program.blocks[0].unknown_fields = "no fields";
  other.parameters.at("w") = lod::LoDTensor<float>::from_values({}, {}, std::vector<float>{1, 2});
  CHECK_THROWS_AS(paddle::save_model(path, other), std::invalid_argument);
  CHECK(read_bytes(path + ".pdmodel") == program);
  CHECK(read_bytes(path + ".pdiparams") == values);
  other = model;
  other.program.version = lod::Version{.version = 7};
  other.parameters.at("w") = lod::LoDTensor<float>({3});
  CHECK_THROWS_AS(paddle::save_model(path, other), lod::ShapeMismatch);
  CHECK(read_bytes(path + ".pdmodel") == program);
  CHECK(read_bytes(path + ".pdiparams") == values);
  CHECK(folder.size() == 2);
}

TEST_CASE("save_parameters, save_tensor: full disks and kills leave one whole file or another") {
  const std::vector<std::string> names = {"a", "b"};
  check_interrupted_writer(
      [&](const std::string& path, std::int32_t size) {
        paddle::save_parameters(path, {{"a", numbered(size)}, {"b", numbered(size)}}, names);
      },
      [&](const std::string& path) {
        const paddle::Parameters values = paddle::load_parameters(path, names);
        return is_numbered(values.at("a")) && same_tensor(values.at("a"), values.at("b"));
      });
  check_interrupted_writer(
      [](const std::string& path, std::int32_t size) { paddle::save_tensor(path, numbered(size)); },
      [](const std::string& path) { return is_numbered(paddle::load_tensor(path)); });
}

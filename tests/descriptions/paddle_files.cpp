// SPDX-License-Identifier: Apache-2.0
// Files of models: those that PaddlePaddle wrote (tests/data/paddle) are read and written as they were; then each kind
// of file, and what is told of those that are wrong.
#include "descriptions/paddle_data.hpp"
#include "support/count_allocations.hpp"
#include "support/failing_calls.hpp"
#include "support/interrupted_writers.hpp"
#include "support/same_bits.hpp"
#include <lod/io/paddle.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace paddle = lod::paddle;
using lod::BlockDesc;
using lod::DataType;
using lod::LoD;
using lod::LoDTensor;
using lod::ProgramDesc;
using lod::Shape;
using lod::VarDesc;
using lod::VarType;
using lod_test::paddle_bytes;
using lod_test::paddle_path;
using lod_test::read_bytes;
using lod_test::same_bits;
using lod_test::TemporaryFolder;
using lod_test::write_bytes;

namespace {

/// One block with these persistable tensors.
ProgramDesc program_of(std::vector<VarDesc> vars) {
  for (VarDesc& var : vars) var.persistable = true;
  return {.blocks = {{.vars = std::move(vars)}}};
}
/// Parameters "a", FP32 {2}, and "b", INT64 {-1, 3} of a level.
ProgramDesc two_parameters() {
  return program_of(
      {VarDesc::lod_tensor("b", {DataType::INT64, {-1, 3}}, 1), VarDesc::lod_tensor("a", {DataType::FP32, {2}})});
}
paddle::Parameters two_values() {
  LoDTensor<std::int64_t> b(LoD::from_lengths({{2, 0, 1}}), {3});
  std::iota(b.values().begin(), b.values().end(), 1);
  return {{"a", LoDTensor<float>::from_values({}, {}, std::vector{1.5f, -2.0f})}, {"b", std::move(b)}};
}

bool same(const paddle::Parameters& a, const paddle::Parameters& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same_bits(x.second, y.second); });
}

template <class Error, class Call>
void check_file_refused(const Call& call, const std::string& text) {
  CHECK_THROWS_WITH_AS(call(), text.c_str(), Error);
}

}  // namespace

// ---- The files that PaddlePaddle wrote ----

TEST_CASE("load_program: the variables of a program of PaddlePaddle 1.7") {
  const ProgramDesc program = paddle::load_program(paddle_path("fit_a_line/__model__"));
  const BlockDesc& block = program.block(0);
  REQUIRE(block.vars.size() == 7);

  VarDesc fetch = VarDesc::of_type("fetch", VarType::FETCH_LIST);
  fetch.persistable = true;
  CHECK(block.vars[0] == fetch);
  VarDesc feed = VarDesc::of_type("feed", VarType::FEED_MINIBATCH);
  feed.persistable = true;
  CHECK(block.vars[1] == feed);

  VarDesc weights = VarDesc::lod_tensor("fc_0.w_0", {DataType::FP32, {13, 1}});
  weights.persistable = true;
  REQUIRE(block.find_var("fc_0.w_0"));
  CHECK(*block.find_var("fc_0.w_0") == weights);
  CHECK(!block.find_var("fc_0.w_0")->type.lod_tensor->lod_level.has_value());

  VarDesc x = VarDesc::lod_tensor("x", {DataType::FP32, {-1, 13}}, 0);
  x.persistable = false;
  x.need_check_feed = true;
  REQUIRE(block.find_var("x"));
  CHECK(*block.find_var("x") == x);
  CHECK(block.find_var("x")->persistable.has_value());
  CHECK(block.find_var("x")->type.lod_tensor->lod_level.has_value());

  CHECK(paddle::parameter_names(program) == std::vector<std::string>{"fc_0.b_0", "fc_0.w_0"});
}

TEST_CASE("load_program: the variables of a program of a later PaddlePaddle") {
  const ProgramDesc program = paddle::load_program(paddle_path("custom_gap/custom_gap.pdmodel"));
  const BlockDesc& block = program.block(0);
  REQUIRE(block.vars.size() == 23);
  CHECK(block.find_var("conv2d_0.w_0")->type == VarDesc::lod_tensor("", {DataType::FP32, {6, 3, 3, 3}}).type);
  CHECK(block.find_var("conv2d_0.w_0")->persistable);
  CHECK(block.find_var("flatten_0.tmp_1")->type.lod_tensor->tensor.dims == std::vector<std::int64_t>{0, 32, 3, 1, 1});
  CHECK(block.find_var("feed")->type.type == VarType::FEED_MINIBATCH);
  CHECK(paddle::parameter_names(program) == std::vector<std::string>{"conv2d_0.b_0", "conv2d_0.w_0", "conv2d_1.b_0",
                                                                     "conv2d_1.w_0", "linear_0.b_0", "linear_0.w_0"});
}

TEST_CASE("load_model: a folder with a program and a file for each parameter") {
  const paddle::Model model = paddle::load_model(paddle_path("fit_a_line"));
  CHECK(lod::encode(model.program) == paddle_bytes("fit_a_line/__model__"));
  REQUIRE(model.parameters.size() == 2);
  const auto bias = model.parameters.at("fc_0.b_0").view<float>();
  CHECK(bias.shape() == Shape{1});
  CHECK(bias.values()[0] == 22.738298416137695f);
  const auto weights = model.parameters.at("fc_0.w_0").view<float>();
  CHECK(weights.shape() == Shape{13, 1});
  CHECK(weights.values().front() == -1.2234570980072021f);
  CHECK(weights.values()[3] == 4.224726676940918f);
  CHECK(weights.values().back() == -10.552702903747559f);

  const TemporaryFolder folder;
  paddle::save_parameters(folder.path(), model.parameters, model.program);
  paddle::save_program(folder / "__model__", model.program);
  CHECK(folder.size() == 3);
  for (const char* name : {"__model__", "fc_0.w_0", "fc_0.b_0"}) {
    CHECK(read_bytes(folder / name) == paddle_bytes(std::string("fit_a_line/") + name));
  }
}

TEST_CASE("load_model: a program and a file of all parameters") {
  const paddle::Model model = paddle::load_model(paddle_path("custom_gap/custom_gap"));
  REQUIRE(model.parameters.size() == 6);
  for (const auto& parameter : model.parameters) {
    CAPTURE(parameter.first);
    CHECK(lod::matches(parameter.second, *model.program.find_var(parameter.first)));
  }
  const auto filter = model.parameters.at("conv2d_0.w_0").view<float>();
  CHECK(filter.shape() == Shape{6, 3, 3, 3});
  CHECK(filter.values().front() == -0.19970844686031342f);
  CHECK(filter.values().back() == -0.11963509023189545f);
  CHECK(model.parameters.at("conv2d_1.w_0").view<float>().values()[1] == 0.5057456493377686f);
  CHECK(model.parameters.at("linear_0.w_0").view<float>().values().back() == -0.05934259295463562f);
  CHECK(model.parameters.at("conv2d_1.b_0").shape() == Shape{3});

  const std::string bytes = paddle_bytes("custom_gap/custom_gap.pdiparams");
  CHECK(same(paddle::decode_parameters(bytes, model.program), model.parameters));
  CHECK(paddle::encode_parameters(model.parameters, model.program) == bytes);
  const TemporaryFolder folder;
  paddle::save_model(folder / "copy", model);
  CHECK(folder.size() == 2);
  CHECK(read_bytes(folder / "copy.pdiparams") == bytes);
  CHECK(read_bytes(folder / "copy.pdmodel") == paddle_bytes("custom_gap/custom_gap.pdmodel"));
}

// ---- One variable ----

TEST_CASE("load_tensor, load_selected_rows: what save_tensor and save_selected_rows wrote") {
  const TemporaryFolder folder;
  const LoDTensor<lod::bfloat16> x(LoD::from_lengths({{2, 1}, {1, 0, 3}}), {2});
  paddle::save_tensor(folder / "x", x);
  CHECK(same_bits(paddle::load_tensor(folder / "x"), LoDTensor<lod::bfloat16>(x)));
  paddle::save_tensor(folder / "x", x.slice({1}));
  CHECK(paddle::load_tensor(folder / "x").lod() == LoD::from_lengths({{1}, {3}}));

  const lod::SelectedRows<double> rows({4, 0, 4}, 10, {3});
  paddle::save_selected_rows(folder / "rows", rows);
  const lod::AnySelectedRows back = paddle::load_selected_rows(folder / "rows");
  CHECK(back.rows() == rows.rows());
  CHECK(lod::matches(back, VarDesc::selected_rows("rows", {DataType::FP64, {10, 3}})));
  lod::SelectedRows<float> torn({1, 2}, 10, {2});
  torn.value() = LoDTensor<float>({3, 2});
  CHECK_THROWS_WITH_AS(paddle::save_selected_rows(folder / "torn", torn),
                       doctest::Contains("2 ids, but 3 rows of values"), lod::ShapeMismatch);
  CHECK(folder.size() == 2);
}

TEST_CASE("load_tensor: what is wrong with a file, or where there is none, is told with its name") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  check_file_refused<std::system_error>([&] { paddle::load_tensor(path); },
                                        "open '" + path + "': No such file or directory");
  check_file_refused<std::system_error>([&] { paddle::load_tensor(folder.path()); },
                                        "open '" + folder.path() + "': Is a directory");
  const std::string bytes = paddle::encode_tensor(LoDTensor<float>({2}));
  write_bytes(path, bytes + "more");
  check_file_refused<lod::ParseError>([&] { paddle::load_tensor(path); },
                                      path + ": 4 bytes are left, expected the end (at byte 32)");
  write_bytes(path, bytes.substr(0, 30));
  check_file_refused<lod::ParseError>([&] { paddle::load_tensor(path); },
                                      path + ": values: 8 bytes expected, 6 are left (at byte 24)");
}

// ---- Parameters ----

TEST_CASE("decode_parameters: in the order of the names, with the levels that the file has") {
  const std::string bytes = paddle::encode_parameters(two_values(), two_parameters());
  CHECK(bytes == paddle::encode_tensor(two_values().at("a")) + paddle::encode_tensor(two_values().at("b")));
  CHECK(same(paddle::decode_parameters(bytes, two_parameters()), two_values()));

  // In an order of one's own, and in the layout of 2017.
  const std::vector<std::string> names{"b", "a"};
  const std::string reversed = paddle::encode_parameters(two_values(), names);
  CHECK(reversed == paddle::encode_tensor(two_values().at("b")) + paddle::encode_tensor(two_values().at("a")));
  CHECK(same(paddle::decode_parameters(reversed, names), two_values()));
  std::string old;
  for (const std::string& name : names) paddle::encode_tensor(two_values().at(name), old, paddle::Layout::OF_2017);
  CHECK(same(paddle::decode_parameters(old, names), two_values()));

  // Programs forget levels; a persistable feed is no parameter; an inner block has parameters too.
  ProgramDesc program = two_parameters();
  program.blocks[0].vars[0].type.lod_tensor->lod_level = 0;
  VarDesc feed = VarDesc::of_type("_feed", VarType::FEED_MINIBATCH);
  feed.persistable = true;
  program.blocks[0].vars.push_back(feed);
  program.blocks.push_back({.idx = 1, .parent_idx = 0, .vars = {std::move(program.blocks[0].vars[1])}});
  program.blocks[0].vars.erase(program.blocks[0].vars.begin() + 1);
  CHECK(same(paddle::decode_parameters(bytes, program), two_values()));
}

TEST_CASE("decode_parameters: what is wrong is told with the name of the variable") {
  const std::string bytes = paddle::encode_parameters(two_values(), two_parameters());
  const auto decode = [&](const ProgramDesc& program, std::string_view part) {
    return [&, part] { paddle::decode_parameters(part, program); };
  };
  const std::string_view whole = bytes;
  check_file_refused<lod::ParseError>(decode(two_parameters(), whole.substr(0, whole.size() - 1)),
                                      "'b': values: 72 bytes expected, 71 are left (at byte 98)");
  check_file_refused<lod::ParseError>(decode(two_parameters(), whole.substr(0, 32)),
                                      "'b': version: 4 bytes expected, 0 are left (at byte 32)");
  check_file_refused<lod::ParseError>(decode(two_parameters(), bytes + "!"),
                                      "1 bytes are left, expected the end (at byte 170)");

  const auto expected = [&](const lod::TensorDesc& a) {
    return program_of({VarDesc::lod_tensor("a", a), VarDesc::lod_tensor("b", {DataType::INT64, {-1, 3}})});
  };
  check_file_refused<lod::ParseError>(decode(expected({DataType::FP64, {2}}), whole),
                                      "'a': description: data type: expected FP64, found FP32 (at byte 20)");
  check_file_refused<lod::ParseError>(decode(expected({DataType::FP32, {3}}), whole),
                                      "'a': description: dim 0: expected 3, found 2 (at byte 20)");
  check_file_refused<lod::ParseError>(decode(expected({DataType::FP32, {2, 1}}), whole),
                                      "'a': description: rank: expected 2, found 1 (at byte 20)");
  CHECK_NOTHROW(paddle::decode_parameters(whole, expected({DataType::FP32, {-1}})));

  const std::vector<std::string> twice{"a", "b", "a"};
  check_file_refused<std::invalid_argument>([&] { paddle::decode_parameters(whole, twice); },
                                            "parameter 'a' is named twice");
}

TEST_CASE("decode_parameters: a variable without a description is of any kind") {
  VarDesc any = VarDesc::of_type("a", VarType::LOD_TENSOR);
  const std::string bytes = paddle::encode_tensor(LoDTensor<float>({2}));
  CHECK(paddle::decode_parameters(bytes, program_of({any})).at("a").rows() == 2);
}

TEST_CASE("decode_parameters: of each beginning and of each flipped bit, gives tensors or a ParseError") {
  const ProgramDesc program = paddle::load_program(paddle_path("custom_gap/custom_gap.pdmodel"));
  const std::string whole = paddle_bytes("custom_gap/custom_gap.pdiparams");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<char> copied(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    REQUIRE_THROWS_AS(paddle::decode_parameters({copied.data(), size}, program), lod::ParseError);
  }
  int accepted = 0, refused = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    try {
      paddle::decode_parameters(damaged, program);
      ++accepted;
    } catch (const lod::ParseError&) {
      ++refused;
    }
  }
  CHECK(accepted == 8 * 4 * (6 + 162 + 3 + 162 + 1 + 96));  // those of values
  CHECK(refused == 8 * static_cast<int>(whole.size()) - accepted);
}

TEST_CASE("encode_parameters: keeps a parameter without dimensions, where the program says that it is one") {
  const ProgramDesc program = program_of({VarDesc::lod_tensor("a", {DataType::FP32, {}})});
  const std::string bytes = lod_test::raw(std::uint32_t{0}, std::uint64_t{0}, std::uint32_t{0}, std::int32_t{2}) +
                            "\x08\x05" + lod_test::raw(7.5f);
  const paddle::Parameters parameters = paddle::decode_parameters(bytes, program);
  CHECK(parameters.at("a").shape() == Shape{1});
  CHECK(paddle::encode_parameters(parameters, program) == bytes);
  CHECK_NOTHROW(lod::check(parameters.at("a"), *program.find_var("a")));
  // Written without the program it has one dimension, and is the same still.
  const std::string with_dim = paddle::encode_tensor(parameters.at("a"));
  CHECK(paddle::decode_parameters(with_dim, program).at("a").shape() == Shape{1});
}

TEST_CASE("encode_parameters: values and parameters must be the same, and as the program says") {
  paddle::Parameters values = two_values();
  values.erase("b");
  check_file_refused<std::invalid_argument>([&] { paddle::encode_parameters(values, two_parameters()); },
                                            "parameter 'b' has no value");
  values = two_values();
  values["c"] = LoDTensor<float>({1});
  check_file_refused<std::invalid_argument>([&] { paddle::encode_parameters(values, two_parameters()); },
                                            "'c' has a value, but is none of the parameters");
  values = two_values();
  values["b"] = LoDTensor<std::int64_t>({5, 2});
  check_file_refused<lod::ShapeMismatch>([&] { paddle::encode_parameters(values, two_parameters()); },
                                         "'b': dim 1: expected 3, found 2");
  CHECK_NOTHROW(paddle::encode_parameters(values, std::vector<std::string>{"a", "b"}));
}

TEST_CASE("save_parameters: to one file or to a folder, from which load_parameters has them again") {
  const TemporaryFolder folder;
  const std::string file = folder / "__params__";
  const std::vector<std::string> names{"b", "a"};
  paddle::save_parameters(file, two_values(), two_parameters());
  CHECK(read_bytes(file) == paddle::encode_parameters(two_values(), two_parameters()));
  CHECK(same(paddle::load_parameters(file, two_parameters()), two_values()));
  paddle::save_parameters(file, two_values(), names);
  CHECK(same(paddle::load_parameters(file, names), two_values()));

  const TemporaryFolder one_each;
  paddle::save_parameters(one_each.path(), two_values(), names);
  CHECK(one_each.size() == 2);
  CHECK(same_bits(paddle::load_tensor(one_each / "a"), two_values().at("a")));
  CHECK(same(paddle::load_parameters(one_each.path(), names), two_values()));
  CHECK(same(paddle::load_parameters(one_each.path(), two_parameters()), two_values()));

  // A failure leaves what was there.
  const std::string before = read_bytes(file);
  paddle::Parameters values = two_values();
  values.erase("a");
  CHECK_THROWS_AS(paddle::save_parameters(file, values, names), std::invalid_argument);
  CHECK(read_bytes(file) == before);
  CHECK(folder.size() == 1);
}

TEST_CASE("save_model, save_parameters: what the system refuses leaves all old files, whichever call it is") {
  const TemporaryFolder folder;
  const std::string model_path = folder / "model", one_each = folder / "one_each";
  std::filesystem::create_directory(one_each);
  const paddle::Model old{two_parameters(), two_values()};
  paddle::Model later = old;
  later.program.version = lod::Version{7};
  later.parameters["a"] = LoDTensor<float>::from_values({}, {}, std::vector{3.0f, 4.0f});
  later.parameters["b"] = LoDTensor<std::int64_t>({2, 3});
  const auto save = [&](const paddle::Model& model) {
    std::vector<int> errors;
    try {
      paddle::save_model(model_path, model);
    } catch (const std::system_error& error) {
      errors.push_back(error.code().value());
    }
    try {
      paddle::save_parameters(one_each, model.parameters, model.program);
    } catch (const std::system_error& error) {
      errors.push_back(error.code().value());
    }
    return errors;
  };
  const auto holds = [&](const paddle::Model& saved, const paddle::Model& each) {
    const paddle::Model found = paddle::load_model(model_path);
    CHECK(lod::encode(found.program) == lod::encode(saved.program));
    CHECK(same(found.parameters, saved.parameters));
    CHECK(same(paddle::load_parameters(one_each, each.program), each.parameters));
    CHECK(folder.size() == 3);
    CHECK(std::distance(std::filesystem::directory_iterator(one_each), {}) == 2);
  };
  const auto prepare = [&] { REQUIRE(save(old).empty()); };
  for (const char* const name : {"fsync", "renameat2", "openat", "write"}) {
    CAPTURE(name);
    int number = 0;
    std::vector<int> errors;
    const int calls = lod_test::for_each_failing_call(
        name, EIO, prepare, [&] { errors = save(later); },
        [&] {
          CHECK(errors.size() <= 1);
          if (errors.empty()) return holds(later, later);
          CHECK(errors[0] == EIO);
          // The first half of the calls are those of the model.
          const paddle::Model found = paddle::load_model(model_path);
          const bool is_first = lod::encode(found.program) == lod::encode(old.program);
          holds(is_first ? old : later, is_first ? later : old);
          ++number;
        });
    CHECK(calls >= 4);
    CHECK(number >= (std::string_view(name) == "renameat2" ? 0 : 4));
  }

  // A disk without room for the largest file, which is not the first.
  prepare();
  const lod_test::FileSizeLimit full(later.parameters.at("b").bytes().size());
  CHECK(save(later) == std::vector{EFBIG, EFBIG});
  holds(old, old);
}

TEST_CASE("save_parameters: more of them than a process may open files") {
  const TemporaryFolder folder;
  std::vector<std::string> names;
  paddle::Parameters values;
  for (int i = 0; i < 1500; ++i) {
    names.push_back("parameter_" + std::to_string(i));
    values.emplace(names.back(), LoDTensor<std::int32_t>({i % 3}));
  }
  paddle::save_parameters(folder.path() + "/", values, names);
  CHECK(folder.size() == 1500);
  CHECK(same(paddle::load_parameters(folder.path(), names), values));
}

TEST_CASE("load_model, save_model: whether a file is there is not guessed where it cannot be told") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder / "loop");
  const paddle::Model model{two_parameters(), two_values()};
  paddle::save_model(folder / "model", model);
  check_file_refused<std::system_error>([&] { paddle::load_model(folder / "loop"); },
                                        "look up '" + (folder / "loop") + "': Too many levels of symbolic links");
  paddle::save_program(folder / "__model__", {});
  std::filesystem::create_symlink("__params__", folder / "__params__");
  check_file_refused<std::system_error>([&] { paddle::load_model(folder.path()); },
                                        "look up '" + (folder / "__params__") + "': Too many levels of symbolic links");

  check_file_refused<std::system_error>([&] { paddle::save_model(folder / "none/model", model); },
                                        "create '" + (folder / "none/model.pdmodel") + "': No such file or directory");
  const lod_test::FailingCalls failing("stat", EACCES, 0, 3);
  check_file_refused<std::system_error>([&] { paddle::load_model(folder / "model"); },
                                        "look up '" + (folder / "model") + "': Permission denied");
  check_file_refused<std::system_error>([&] { paddle::save_model(folder / "model", model); },
                                        "look up '" + (folder / "model.pdiparams") + "': Permission denied");
  check_file_refused<std::system_error>(
      [&] { paddle::save_parameters(folder / "model", model.parameters, model.program); },
      "look up '" + (folder / "model") + "': Permission denied");
}

TEST_CASE("load_parameters: what is wrong is told with file and variable") {
  const TemporaryFolder folder;
  const std::string all = folder / "all";
  const std::string bytes = paddle::encode_parameters(two_values(), two_parameters());
  write_bytes(all, bytes.substr(0, 100));
  check_file_refused<lod::ParseError>([&] { paddle::load_parameters(all, two_parameters()); },
                                      all + ": 'b': values: 72 bytes expected, 2 are left (at byte 98)");

  paddle::save_tensor(folder / "a", LoDTensor<double>({2}));
  check_file_refused<lod::ParseError>(
      [&] { paddle::load_parameters(folder.path(), two_parameters()); },
      folder.path() + "/a: 'a': description: data type: expected FP32, found FP64 (at byte 20)");
  paddle::save_tensor(folder / "a", two_values().at("a"));
  check_file_refused<std::system_error>([&] { paddle::load_parameters(folder.path(), two_parameters()); },
                                        "open '" + folder.path() + "/b': No such file or directory");
}

TEST_CASE("load_parameters: names are refused that lead out of a folder, or by a detour into it") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "scope");
  std::vector<std::string> refused{"", "..", "../x", "scope/../../x", std::string("a\0b", 3)};
  refused.insert(refused.end(), {".", "./x", "scope/.", "scope/./x", "/x", "x/", "scope//x"});
  for (const std::string& name : refused) {
    CAPTURE(name);
    const std::vector<std::string> names{name};
    const paddle::Parameters values{{name, LoDTensor<float>({1})}};
    CHECK_THROWS_AS(paddle::load_parameters(folder.path(), names), lod::InvalidProgram);
    CHECK_THROWS_AS(paddle::save_parameters(folder.path(), values, names), lod::InvalidProgram);
  }
  CHECK(folder.size() == 1);
  for (const char* name : {"scope/x", "x..y", ".x", "x."}) {
    const std::vector<std::string> names{name};
    paddle::save_parameters(folder.path(), {{name, LoDTensor<float>({3})}}, names);
    CHECK(paddle::load_parameters(folder.path(), names).at(name).rows() == 3);
  }
}

TEST_CASE("load_parameters: large and small tensors in one file, with memory for their values alone") {
  paddle::Parameters values;
  for (int i = 0; i < 60; ++i) {
    LoDTensor<std::int32_t> x({i % 3 == 0 ? 7 : 400 * i});
    std::iota(x.values().begin(), x.values().end(), i);
    values.emplace("x" + std::to_string(10 + i), std::move(x));
  }
  std::vector<std::string> names;
  for (const auto& value : values) names.push_back(value.first);
  const TemporaryFolder folder;
  const std::string path = folder / "all";
  paddle::save_parameters(path, values, names);
  const std::string bytes = read_bytes(path);
  CHECK(bytes == paddle::encode_parameters(values, names));

  const std::int64_t before = lod_test::allocated_bytes;
  const paddle::Parameters loaded = paddle::load_parameters(path, names);
  CHECK(lod_test::allocated_bytes - before < static_cast<std::int64_t>(bytes.size()) + 100'000);
  CHECK(same(loaded, values));
}

// ---- Models ----

TEST_CASE("load_model: `__model__` and `__params__` in a folder, and files of any name") {
  const TemporaryFolder folder;
  paddle::save_program(folder / "__model__", two_parameters());
  paddle::save_parameters(folder / "__params__", two_values(), two_parameters());
  const paddle::Model model = paddle::load_model(folder.path());
  CHECK(model.program == two_parameters());
  CHECK(same(model.parameters, two_values()));
  CHECK(same(paddle::load_model(folder / "__model__", folder / "__params__").parameters, two_values()));
}

TEST_CASE("load_model: a model without parameters needs no file of them") {
  const TemporaryFolder folder;
  const ProgramDesc program{.blocks = {{}}};
  paddle::save_program(folder / "x.pdmodel", program);
  CHECK(paddle::load_model(folder / "x").parameters.empty());
  write_bytes(folder / "x.pdiparams", "");
  CHECK(paddle::load_model(folder / "x").parameters.empty());
  write_bytes(folder / "x.pdiparams", "?");
  CHECK_THROWS_AS(paddle::load_model(folder / "x"), lod::ParseError);
  CHECK_THROWS_AS(paddle::load_model(folder / "y"), std::system_error);
  CHECK_THROWS_AS(paddle::load_model(folder.path()), std::system_error);
}

TEST_CASE("load_program: what is wrong is told with the file and the place in the program") {
  const TemporaryFolder folder;
  const std::string path = folder / "x.pdmodel";
  const std::string bytes = paddle_bytes("fit_a_line/__model__");
  write_bytes(path, bytes.substr(0, 1000));
  CHECK_THROWS_WITH_AS(paddle::load_program(path), doctest::Contains((path + ": ProgramDesc.blocks: ").c_str()),
                       lod::ParseError);
}

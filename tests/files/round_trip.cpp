// SPDX-License-Identifier: Apache-2.0
// What goes into a file comes out of it: every kind of variable, every element type, every shape.
#include "support/element_types.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"
#include <lod/io/file.hpp>
#include <lod/ops/tensor_array.hpp>

#include <doctest/doctest.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace lod_test;
using FileTypes =
    Types<bool, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t,
          lod::float16, lod::bfloat16, float, double, std::complex<float>, std::complex<double>>;

namespace {

const lod::LoD articles = lod::LoD::from_lengths({{3, 0, 2}, {3, 0, 4, 1, 2}});

/// Bytes 0 and 1, which all types can have.
template <class T>
lod::LoDTensor<T> some_bits(const lod::LoD& lod, const lod::Shape& row_shape, std::int64_t rows = 0) {
  lod::LoDTensor<T> x =
      lod.levels() > 0 ? lod::LoDTensor<T>(lod, row_shape) : lod::LoDTensor<T>(lod::Shape(rows, row_shape));
  const auto bytes = std::as_writable_bytes(x.values());
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i % 3 == 0);
  return x;
}

/// All ways to read a tensor give x.
template <class T>
void check_tensor(const lod::File& file, const std::string& name, const lod::LoDTensor<T>& x) {
  CAPTURE(name);
  CHECK(file.contains(name));
  CHECK(file.describe(name) == lod::describe(name, x));
  CHECK(same_bits(file.tensor<T>(name), x));
  CHECK(same_bits(file.any_tensor(name).template view<T>(), x));
  CHECK(file.any_tensor(name).read_only());
  CHECK(same_bits(file.load<lod::LoDTensor<T>>(name), x));
  CHECK(same_bits(file.load<lod::AnyLoDTensor>(name).template view<T>(), x));
  CHECK(same_bits(file.slice<T>(name, std::initializer_list<std::int64_t>{}), x));
  CHECK(same_bits(file.between<T>(name, 0, x.size()), x));
}

}  // namespace

TEST_CASE("Files: tensors of every element type come back") {
  const TemporaryFolder folder;
  for_each_type(FileTypes(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto x = some_bits<T>(articles, {2, 3});
    const auto plain = some_bits<T>({}, {}, 5);
    const lod::SelectedRows<T> rows({4, 0, 4}, 10, some_bits<T>({}, {3}, 3));
    const std::vector<lod::LoDTensor<T>> array = {x, plain};
    lod::save(folder / "x", {{"x", x}, {"plain", plain}, {"rows", rows}, {"array", array}});

    const lod::File file = lod::File::open(folder / "x");
    file.verify();
    CHECK(file.names() == std::vector<std::string>{"x", "plain", "rows", "array"});
    check_tensor(file, "x", x);
    check_tensor(file, "plain", plain);
    CHECK(same_bits(file.selected_rows<T>("rows").value(), rows.value()));
    CHECK(same_bits(file.load<lod::SelectedRows<T>>("rows").value(), rows.value()));
    CHECK(same_bits(file.tensor_array<T>("array")[0], x));
    CHECK(same_bits(file.load<std::vector<lod::LoDTensor<T>>>("array")[1], plain));
    CHECK(same_bits(lod::load<lod::LoDTensor<T>>(folder / "x", "x"), x));
  });
}

TEST_CASE("Files: element types that C++ has no type for come back as bytes") {
  const TemporaryFolder folder;
  for (const lod::DataType type : {lod::DataType::FP8_E4M3FN, lod::DataType::FP8_E5M2, lod::DataType::SIZE_T}) {
    lod::AnyLoDTensor x(type, articles, {4}, lod::uninitialized);
    for (std::size_t i = 0; i < x.bytes().size(); ++i) x.mutable_bytes()[i] = static_cast<std::byte>(i);
    const std::vector<lod::AnyLoDTensor> array = {x, x};
    const lod::AnySelectedRows rows({7, 7, 1}, 8, lod::AnyLoDTensor(type, {}, {0}, lod::uninitialized, 3));
    lod::save(folder / "x", {{"x", x}, {"array", array}, {"rows", rows}});
    const lod::File file = lod::File::open(folder / "x");
    CHECK(file.describe("x") == lod::describe("x", x));
    CHECK(same_bits(file.any_tensor("x"), x));
    CHECK(same_bits(file.load<lod::AnyLoDTensor>("x"), x));
    CHECK(same_bits(file.any_tensor_array("array").at(1), x));
    CHECK(same_bits(file.load<std::vector<lod::AnyLoDTensor>>("array").at(1), x));
    CHECK(file.describe("rows") == lod::describe("rows", rows));
    CHECK(same_bits(file.any_selected_rows("rows").value(), rows.value()));
    CHECK(same_bits(file.load<lod::AnySelectedRows>("rows").value(), rows.value()));
    CHECK(file.any_selected_rows("rows").rows() == rows.rows());
  }
}

TEST_CASE("Files: tensors of any levels come back, whole and in slices") {
  const TemporaryFolder folder;
  for_each_random_lod(8, 1, 4, [&](Engine& engine, const Lengths& lengths) {
    lod::LoDTensor<std::int64_t> x(lod::LoD::from_lengths(lengths), {2});
    std::iota(x.values().begin(), x.values().end(), 0);
    lod::save(folder / "x", {{"x", x}});
    const lod::File file = lod::File::open(folder / "x");
    check_tensor(file, "x", x);

    const std::int64_t begin = random_number(engine, 0, x.size()), end = random_number(engine, begin, x.size());
    CHECK(same_bits(file.between<std::int64_t>("x", begin, end),
                    lod::LoDTensor<std::int64_t>::copy_of(x.between(begin, end))));
    CHECK(same_bits(file.any_between("x", begin, end), file.between<std::int64_t>("x", begin, end)));

    // Each branch, of each length.
    std::vector<std::int64_t> branch;
    const auto check_below = [&](const auto& self, const lod::LoDTensorView<const std::int64_t>& part) -> void {
      CHECK(same_bits(file.slice<std::int64_t>("x", std::span<const std::int64_t>(branch)),
                      lod::LoDTensor<std::int64_t>::copy_of(std::as_const(x).slice(branch))));
      if (part.levels() == 0) return;
      for (std::int64_t i = 0; i < part.size(); ++i) {
        branch.push_back(i);
        self(self, part[i]);
        branch.pop_back();
      }
    };
    check_below(check_below, x.view());
  });
}

TEST_CASE("Files: nothing is ordinary: no variable, no row, no element, no sequence") {
  const TemporaryFolder folder;
  lod::save(folder / "none", {});
  const lod::File none = lod::File::open(folder / "none");
  CHECK(none.names().empty());
  none.verify();

  lod::FileWriter writer(folder / "x");
  const auto add = [&](const std::string& name, const lod::LoDTensor<float>& x) { writer.add(name, x); };
  const std::vector<std::pair<std::string, lod::LoDTensor<float>>> tensors = [] {
    std::vector<std::pair<std::string, lod::LoDTensor<float>>> all;
    all.emplace_back("default", lod::LoDTensor<float>());
    all.emplace_back("a scalar", lod::LoDTensor<float>(lod::Shape()));
    all.emplace_back("no row", lod::LoDTensor<float>({0, 5}));
    all.emplace_back("rows of nothing", lod::LoDTensor<float>({3, 0}));
    all.emplace_back("no sequence", lod::LoDTensor<float>(lod::LoD::from_lengths({{}}), {4}));
    all.emplace_back("no sequence at two levels", lod::LoDTensor<float>(lod::LoD::from_lengths({{}, {}}), {4}));
    all.emplace_back("empty sequences", lod::LoDTensor<float>(lod::LoD::from_lengths({{0, 2}, {0, 0}}), {4}));
    all.emplace_back("", lod::LoDTensor<float>({1}));
    all.emplace_back(std::string("a\0b", 3), lod::LoDTensor<float>({2}));
    all.emplace_back("Größe/名.0", lod::LoDTensor<float>({3, 1, 2, 1, 2, 1, 2, 1}));
    return all;
  }();
  for (const auto& [name, x] : tensors) add(name, x);
  writer.add("no id", lod::SelectedRows<double>({}, 7, {3}));
  writer.add("no height", lod::SelectedRows<double>());
  writer.add("no tensor", std::vector<lod::LoDTensor<double>>());
  writer.add("no tensor of any type", std::vector<lod::AnyLoDTensor>());
  writer.commit();

  const lod::File file = lod::File::open(folder / "x");
  file.verify();
  for (const auto& [name, x] : tensors) check_tensor(file, name, x);
  CHECK(file.selected_rows<double>("no id").height() == 7);
  CHECK(file.selected_rows<double>("no id").dense_shape() == lod::Shape{7, 3});
  CHECK(file.load<lod::SelectedRows<double>>("no id").dense_shape() == lod::Shape{7, 3});
  CHECK(file.any_selected_rows("no height").height() == 0);
  CHECK(file.tensor_array<double>("no tensor").empty());
  CHECK(file.describe("no tensor").type.tensor_array->tensor.data_type == lod::DataType::FP64);
  CHECK(file.load<std::vector<lod::AnyLoDTensor>>("no tensor of any type").empty());
}

TEST_CASE("Files: of a slice, the part is written, with offsets from its own start") {
  const TemporaryFolder folder;
  lod::LoDTensor<std::int32_t> x(lod::LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}}), {2});
  std::iota(x.values().begin(), x.values().end(), 0);
  lod::save(folder / "x", {{"slice", x.slice({2})}, {"element", x[0]}, {"range", std::as_const(x).between(1, 3)}});
  const lod::File file = lod::File::open(folder / "x");
  check_tensor(file, "slice", lod::LoDTensor<std::int32_t>::copy_of(x.slice({2})));
  check_tensor(file, "element", lod::LoDTensor<std::int32_t>::copy_of(x[0]));
  check_tensor(file, "range", lod::LoDTensor<std::int32_t>::copy_of(x.between(1, 3)));
  CHECK(file.tensor<std::int32_t>("slice").lod() == lod::LoD::from_offsets({{0, 2}, {0, 2, 5}}));
}

TEST_CASE("Files: row-sparse values keep their ids, which may repeat in any order, and their height") {
  const TemporaryFolder folder;
  const lod::SelectedRows<float> g(
      {4, 0, 4, 9}, 10, lod::LoDTensor<float>::from_values({}, {2}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}));
  lod::save(folder / "g", {{"g", g}});
  const lod::File file = lod::File::open(folder / "g");
  CHECK(file.describe("g") == lod::describe("g", g));
  const lod::SelectedRows<const float> mapped = file.selected_rows<float>("g");
  const auto loaded = file.load<lod::SelectedRows<float>>("g");
  CHECK(mapped.rows() == g.rows());
  CHECK(mapped.height() == 10);
  CHECK(mapped.index_of(9) == 3);
  CHECK(same_bits(mapped.value(), g.value()));
  CHECK(loaded.rows() == g.rows());
  CHECK(loaded.height() == 10);
  CHECK(same_bits(loaded.value(), g.value()));
  CHECK(file.load<lod::AnySelectedRows>("g").rows() == g.rows());
  CHECK(same_bits(file.any_selected_rows("g").copy<float>().value(), g.value()));

  // What was read can be written.
  lod::save(folder / "again", {{"g", mapped}, {"any", file.any_selected_rows("g")}});
  CHECK(lod::load<lod::SelectedRows<float>>(folder / "again", "g").rows() == g.rows());
  CHECK(lod::load<lod::SelectedRows<float>>(folder / "again", "any").rows() == g.rows());
}

TEST_CASE("Files: an array's description says what its tensors have in common") {
  const TemporaryFolder folder;
  const auto described = [&](const auto& array) {
    lod::save(folder / "array", {{"array", array}});
    const lod::File file = lod::File::open(folder / "array");
    const auto read = file.any_tensor_array("array");
    REQUIRE(read.size() == static_cast<std::size_t>(array.size()));
    std::size_t i = 0;
    for (const auto& tensor : array) CHECK(same_bits(read[i++].view<float>(), tensor));
    return *file.describe("array").type.tensor_array;
  };
  using Dims = std::vector<std::int64_t>;
  const auto with_level = [](std::int64_t rows) {
    return lod::LoDTensor<float>(lod::LoD::from_lengths({{rows}}), {8});
  };
  const lod::LoDTensor<float> plain({3, 8}), other_row({3, 9}), scalars({3});

  std::vector<lod::LoDTensor<float>> array = {with_level(3), with_level(3)};
  CHECK(described(array) == lod::LoDTensorArrayDesc{{lod::DataType::FP32, Dims{3, 8}}, 1});
  array.push_back(with_level(2));
  CHECK(described(array) == lod::LoDTensorArrayDesc{{lod::DataType::FP32, Dims{-1, 8}}, 1});
  array = {plain, other_row};
  CHECK(described(array) == lod::LoDTensorArrayDesc{{lod::DataType::FP32, Dims{3, -1}}, 0});
  array = {plain, with_level(3)};
  CHECK(described(array) == lod::LoDTensorArrayDesc{{lod::DataType::FP32, Dims{3, 8}}, -1});
  array = {plain, scalars, other_row};
  CHECK(described(array) == lod::LoDTensorArrayDesc{{lod::DataType::FP32, Dims{}}, 0});

  // A TensorArray that was written to out of order has tensors without rows in between.
  lod::TensorArray<float> steps;
  steps.write(2, plain);
  CHECK(described(steps) == lod::LoDTensorArrayDesc{{lod::DataType::FP32, Dims{}}, 0});
  const std::vector<lod::LoDTensorView<const float>> views = {plain.view(), plain.between(1, 2)};
  CHECK(described(views).tensor.dims == Dims{-1, 8});

  const std::vector<lod::AnyLoDTensor> mixed = {plain, lod::LoDTensor<double>({3, 8})};
  CHECK_THROWS_WITH_AS(lod::save(folder / "mixed", {{"mixed", mixed}}),
                       "tensors of an array: number 1 is of FP64, number 0 of FP32", lod::ShapeMismatch);
}

TEST_CASE("FileWriter: a description may say more than the value does, and nothing else") {
  const TemporaryFolder folder;
  const lod::LoDTensor<float> x(articles, {8});
  lod::VarDesc described = lod::VarDesc::lod_tensor("x", {lod::DataType::FP32, {-1, 8}}, 2);
  described.persistable = true;
  described.attrs = {{.name = "a", .i = 3}};
  lod::FileWriter writer(folder / "x");
  writer.add(described, x);
  // Of its type nothing is said: then it is that of the value.
  writer.add(lod::VarDesc::of_type("kind only", lod::VarType::LOD_TENSOR), x);
  writer.add(lod::VarDesc::of_type("rows", lod::VarType::SELECTED_ROWS), lod::SelectedRows<float>({1}, 9, {2}));
  const lod::TensorDesc of_steps{lod::DataType::INT32, {-1, 8}};
  writer.add(lod::VarDesc::lod_tensor_array("steps", of_steps, -1), std::vector<lod::LoDTensor<std::int32_t>>());
  const std::vector<lod::LoDTensor<std::int32_t>> array(2, lod::LoDTensor<std::int32_t>({4, 8}));
  writer.add(lod::VarDesc::lod_tensor_array("two steps", of_steps, -1), array);
  // No dimensions: an array's tensors need not have any in common.
  writer.add(lod::VarDesc::lod_tensor_array("any steps", {lod::DataType::INT32}, -1), array);

  const auto refused = [&](lod::VarDesc description, const auto& value, const char* text) {
    CHECK_THROWS_WITH_AS(writer.add(std::move(description), value), text, lod::ShapeMismatch);
  };
  refused(lod::VarDesc::lod_tensor("y", {lod::DataType::FP64, {-1, 8}}, 2), x,
          "'y': data type: expected FP64, found FP32");
  refused(lod::VarDesc::lod_tensor("y", {lod::DataType::FP32, {-1, 9}}, 2), x, "'y': dim 1: expected 9, found 8");
  refused(lod::VarDesc::lod_tensor("y", {lod::DataType::FP32, {-1, 8}}), x, "'y': lod_level: expected 0, found 2");
  refused(lod::VarDesc::selected_rows("y", {lod::DataType::FP32, {-1, 8}}), x,
          "'y': type: expected SELECTED_ROWS, found LOD_TENSOR");
  refused(lod::VarDesc::lod_tensor_array("y", {lod::DataType::INT32, {-1, 9}}), array,
          "'y': dim 1: expected 9, found 8");
  lod::VarDesc impossible = described;
  impossible.name = "y";
  impossible.attrs[0].type = static_cast<lod::AttrType>(99);
  CHECK_THROWS_WITH_AS(writer.add(impossible, x), "Attr.type: 99 is no AttrType", std::invalid_argument);
  writer.commit();

  const lod::File file = lod::File::open(folder / "x");
  CHECK(file.names() == std::vector<std::string>{"x", "kind only", "rows", "steps", "two steps", "any steps"});
  described.type.lod_tensor->tensor.dims[0] = x.rows();
  CHECK(file.describe("x") == described);
  CHECK(file.describe("kind only") == lod::describe("kind only", x));
  CHECK(file.describe("rows").type.selected_rows->dims == std::vector<std::int64_t>{9, 2});
  CHECK(file.describe("steps").type.tensor_array->tensor == of_steps);
  CHECK(file.describe("two steps").type.tensor_array->tensor.dims == std::vector<std::int64_t>{4, 8});
  CHECK(file.describe("two steps").type.tensor_array->lod_level == 0);
  CHECK(file.describe("any steps").type == file.describe("two steps").type);
}

TEST_CASE("File: what is not there, or of another kind or type, is refused in words") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  lod::save(path, {{"x", lod::LoDTensor<float>(articles, {2})}, {"g", lod::SelectedRows<float>({1}, 2, {})}});
  const lod::File file = lod::File::open(path);
  const std::string place = "'" + path + "': variable ";
  const auto text = [&](const std::string& rest) { return place + rest; };

  CHECK(!file.contains("y"));
  for (const auto& call : std::vector<void (*)(const lod::File&)>{
           [](const lod::File& f) { f.tensor<float>("y"); }, [](const lod::File& f) { f.describe("y"); },
           [](const lod::File& f) { f.load<lod::LoDTensor<float>>("y"); }, [](const lod::File& f) { f.verify("y"); }}) {
    CHECK_THROWS_WITH_AS(call(file), text("'y' is not there; there are 'x', 'g'").c_str(), lod::OutOfRange);
  }
  CHECK_THROWS_WITH_AS(file.tensor<float>("g"), text("'g': type: expected LOD_TENSOR, found SELECTED_ROWS").c_str(),
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(file.selected_rows<float>("x"),
                       text("'x': type: expected SELECTED_ROWS, found LOD_TENSOR").c_str(), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(file.load<std::vector<lod::AnyLoDTensor>>("x"),
                       text("'x': type: expected LOD_TENSOR_ARRAY, found LOD_TENSOR").c_str(), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(file.tensor<double>("x"), text("'x': data type: expected FP64, found FP32").c_str(),
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(file.load<lod::SelectedRows<int>>("g"),
                       text("'g': data type: expected INT32, found FP32").c_str(), lod::ShapeMismatch);

  CHECK_THROWS_WITH_AS(file.slice<float>("x", {3}),
                       text("'x': branch <3>: step 0 is 3, but level 0 has 3 sequences there, counted from 0").c_str(),
                       lod::OutOfRange);
  CHECK_THROWS_WITH_AS(
      file.slice<float>("x", {2, -1}),
      text("'x': branch <2, -1>: step 1 is -1, but level 1 has 2 sequences there, counted from 0").c_str(),
      lod::OutOfRange);
  CHECK_THROWS_WITH_AS(file.slice<float>("x", {0, 0, 0}),
                       text("'x': branch <0, 0, 0>: 3 steps, but there are 2 levels").c_str(), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(file.between<float>("x", 1, 4), text("'x': slice [1, 4) of 3 sequences").c_str(),
                       lod::OutOfRange);
  CHECK_THROWS_AS(file.between<float>("x", 2, 1), lod::OutOfRange);
  CHECK_THROWS_AS(file.between<float>("x", -1, 1), lod::OutOfRange);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  CHECK(same_bits(file.slice<float>("x", 1, 3), file.between<float>("x", 1, 3)));
  CHECK(same_bits(file.any_slice("x", 1, 3).as<const float>(), file.between<float>("x", 1, 3)));
#pragma GCC diagnostic pop

  lod::save(path, {{"plain", lod::LoDTensor<float>({4, 2})}});
  const lod::File plain = lod::File::open(path);
  CHECK(plain.between<float>("plain", 1, 3).shape() == lod::Shape{2, 2});
  CHECK_THROWS_WITH_AS(plain.between<float>("plain", 1, 5), text("'plain': slice [1, 5) of 4 rows").c_str(),
                       lod::OutOfRange);
  CHECK_THROWS_WITH_AS(plain.slice<float>("plain", {0}),
                       text("'plain': branch <0>: 1 step, but there are 0 levels").c_str(), lod::OutOfRange);
}

TEST_CASE("File: many variables are found by their names, in the order in which they were written") {
  const TemporaryFolder folder;
  lod::FileWriter writer(folder / "x");
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < 1000; ++i) {
    names.push_back(std::to_string(i * 7919 % 1000));
    writer.add(names.back(), lod::LoDTensor<std::int64_t>::from_values({}, {}, std::vector<std::int64_t>{i}));
  }
  writer.commit();
  const lod::File file = lod::File::open(folder / "x");
  CHECK(file.names() == names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    CHECK(file.tensor<std::int64_t>(names[i]).data()[0] == static_cast<std::int64_t>(i));
  }
  CHECK_THROWS_WITH_AS(file.tensor<float>("x"), doctest::Contains(" '271' and 990 more"), lod::OutOfRange);
}

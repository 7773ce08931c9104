// SPDX-License-Identifier: Apache-2.0
#include "support/counting_resource.hpp"
#include <lod/any_tensor.hpp>

#include <doctest/doctest.h>

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::AnySelectedRows;
using lod::DataType;
using lod::LoD;
using lod::LoDTensor;
using lod::SelectedRows;

namespace {

/// Three sentences of 2, 0 and 1 words; a word is two numbers.
LoDTensor<float> sentences() {
  return LoDTensor<float>::from_values(LoD::from_lengths({{2, 0, 1}}), {2}, std::vector<float>{1, 2, 3, 4, 5, 6});
}

}  // namespace

TEST_CASE("AnyLoDTensor: takes a tensor over, and gives it back, without a copy") {
  lod_test::CountingResource resource;
  LoDTensor<float> x(LoD::from_lengths({{2, 0, 1}}), {2}, &resource);
  const float* const values = x.data();
  AnyLoDTensor any = std::move(x);
  CHECK(any.data_type() == DataType::FP32);
  CHECK(any.holds<float>());
  CHECK(!any.holds<double>());
  CHECK(any.shape() == std::vector<std::int64_t>{3, 2});
  CHECK(any.row_shape() == std::vector<std::int64_t>{2});
  CHECK(any.row_size() == 2);
  CHECK(any.levels() == 1);
  CHECK(any.bytes().size() == 24);
  CHECK(any.view<float>().data() == values);
  CHECK(any.view<float>()[0].rows() == 2);

  LoDTensor<float> back = std::move(any).take<float>();
  CHECK(back.data() == values);
  CHECK(back.lod() == LoD::from_lengths({{2, 0, 1}}));
  CHECK(back.row_shape() == std::vector<std::int64_t>{2});
  CHECK(any.rows() == 0);  // NOLINT: the state after a move is a promise
  CHECK(any.levels() == 0);
  CHECK(any.bytes().empty());
  CHECK(resource.allocations == 1);

  // Nobody shares the memory: it is reused.
  back.resize(LoD::from_lengths({{1}}), {2});
  CHECK(resource.allocations == 1);
}

TEST_CASE("AnyLoDTensor: copies share the values, and a typed copy does not") {
  AnyLoDTensor any = sentences();
  const AnyLoDTensor other = any;
  CHECK(other.bytes().data() == any.bytes().data());
  const LoDTensor<const float> shared = other.as<float>();
  LoDTensor<float> own = other.copy<float>();
  any.mutable_bytes()[3] = std::byte{0};
  CHECK(shared.values()[0] != 1.0f);
  CHECK(own.values()[0] == 1.0f);
  CHECK(own.lod() == any.lod());

  any = AnyLoDTensor();
  CHECK(shared.rows() == 3);
  CHECK(shared.row(2)[1] == 6.0f);
}

TEST_CASE("AnyLoDTensor: a tensor of const elements stays read-only") {
  auto owner = std::make_shared<std::vector<int>>(std::vector<int>{1, 2, 3});
  AnyLoDTensor any = LoDTensor<const int>::wrap(std::span<const int>(*owner), LoD(), {}, owner);
  CHECK(any.read_only());
  CHECK_THROWS_AS(any.mutable_bytes(), std::logic_error);
  CHECK(any.view<int>().data() == owner->data());
  LoDTensor<int> taken = std::move(any).take<int>();
  taken.row(0)[0] = 7;
  CHECK((*owner)[0] == 1);
}

TEST_CASE("AnyLoDTensor: stands on memory of the user's, and keeps the owner") {
  auto owner = std::make_shared<std::array<double, 4>>(std::array<double, 4>{1, 2, 3, 4});
  const std::weak_ptr<std::array<double, 4>> alive = owner;
  const auto bytes = std::as_bytes(std::span(*owner));
  AnyLoDTensor any = AnyLoDTensor::wrap(DataType::FP64, bytes, LoD::from_lengths({{1, 1}}), {2}, std::move(owner));
  CHECK(any.view<double>().row(1)[0] == 3);
  auto view_of_it = any.as<double>();
  any = AnyLoDTensor();
  CHECK(view_of_it.row(1)[1] == 4);
  CHECK(!alive.expired());
  view_of_it = LoDTensor<const double>();
  CHECK(alive.expired());

  std::array<std::int16_t, 5> words{};
  const auto room = std::as_bytes(std::span(words));
  CHECK_THROWS_WITH_AS(AnyLoDTensor::wrap(DataType::INT16, room, LoD(), {2}, 0, 2),
                       "AnyLoDTensor: 10 bytes given, expected the 8 of the shape {2, 2} of INT16", lod::ShapeMismatch);
  CHECK_THROWS_AS(AnyLoDTensor::wrap(DataType::INT16, room.subspan(1, 8), LoD(), {2}, 0, 2), std::invalid_argument);
}

TEST_CASE("AnyLoDTensor: room for a reader, of each type") {
  for (const DataType type :
       {DataType::BOOL, DataType::INT8, DataType::FP16, DataType::COMPLEX128, DataType::FP8_E5M2}) {
    CAPTURE(to_string(type));
    AnyLoDTensor any(type, LoD(), {3}, lod::uninitialized, 5);
    CHECK(any.shape() == std::vector<std::int64_t>{5, 3});
    CHECK(any.mutable_bytes().size() == 15 * size_of(type));
    CHECK(describe(any).tensor == lod::TensorDesc{type, {5, 3}});
  }
  CHECK(AnyLoDTensor(DataType::FP32, LoD::from_lengths({{0, 0}}), {4}, lod::uninitialized).bytes().empty());
  CHECK(AnyLoDTensor(DataType::FP32, LoD(), {0}, lod::uninitialized, 5).shape() == std::vector<std::int64_t>{5, 0});
  CHECK_THROWS_AS(AnyLoDTensor(DataType::FP32, LoD(), {}, lod::uninitialized, -1), lod::ShapeMismatch);
  CHECK_THROWS_AS(AnyLoDTensor(DataType::FP64, LoD(), {}, lod::uninitialized, std::int64_t{1} << 61),
                  lod::ShapeMismatch);
  CHECK_THROWS_AS(AnyLoDTensor(static_cast<DataType>(7), LoD(), {}, lod::uninitialized), std::invalid_argument);
}

TEST_CASE("AnyLoDTensor: another element type is refused, and nothing changes") {
  AnyLoDTensor any = sentences();
  CHECK_THROWS_WITH_AS(any.view<double>(), "AnyLoDTensor: data type: expected FP64, found FP32", lod::ShapeMismatch);
  CHECK_THROWS_AS(any.as<int>(), lod::ShapeMismatch);
  CHECK_THROWS_AS(any.copy<int>(), lod::ShapeMismatch);
  CHECK_THROWS_AS(std::move(any).take<int>(), lod::ShapeMismatch);
  CHECK(any.rows() == 3);  // NOLINT
  CHECK(any.view<float>().row(2)[0] == 5);
}

TEST_CASE("AnyLoDTensor: visit calls with the type of the elements") {
  const auto bytes_of_an_element = [](const AnyLoDTensor& any) {
    return any.visit([](auto x) { return sizeof(typename decltype(x)::value_type); });
  };
  CHECK(bytes_of_an_element(sentences()) == 4);
  CHECK(bytes_of_an_element(LoDTensor<std::complex<float>>({2})) == 8);
  CHECK(bytes_of_an_element(AnyLoDTensor(DataType::SIZE_T, LoD(), {}, lod::uninitialized, 1)) == 8);
  CHECK(AnyLoDTensor(DataType::SIZE_T, LoD(), {}, lod::uninitialized, 1).holds<std::uint64_t>());
  const AnyLoDTensor without(DataType::FP8_E4M3FN, LoD(), {}, lod::uninitialized, 2);
  CHECK_THROWS_WITH_AS(bytes_of_an_element(without), "no C++ type stands for elements of type FP8_E4M3FN",
                       std::invalid_argument);
}

TEST_CASE("AnyLoDTensor: the same values under another LoD") {
  const AnyLoDTensor any = sentences();
  const AnyLoDTensor other = any.with_lod(LoD::from_lengths({{2}, {1, 2}}));
  CHECK(other.bytes().data() == any.bytes().data());
  CHECK(other.levels() == 2);
  CHECK_THROWS_AS(any.with_lod(LoD::from_lengths({{2}})), lod::ShapeMismatch);
}

TEST_CASE("AnyLoDTensor: its description, and a check against one") {
  const AnyLoDTensor any = sentences();
  CHECK(describe(any) == lod::LoDTensorDesc{{DataType::FP32, {3, 2}}, 1});
  CHECK(describe("x", any) == lod::VarDesc::lod_tensor("x", {DataType::FP32, {3, 2}}, 1));
  CHECK(lod::matches(any, lod::LoDTensorDesc{{DataType::FP32, {-1, 2}}, 1}));
  CHECK_THROWS_AS(lod::check(any, lod::TensorDesc{DataType::FP32, {-1, 3}}), lod::ShapeMismatch);
}

TEST_CASE("AnySelectedRows: takes rows over, and gives them back, without a copy of the values") {
  SelectedRows<float> g({4, 0, 4}, 10, {2});
  const float* const values = g.value().data();
  AnySelectedRows any = std::move(g);
  CHECK(any.rows() == std::vector<std::int64_t>{4, 0, 4});
  CHECK(any.height() == 10);
  CHECK(any.dense_shape() == std::vector<std::int64_t>{10, 2});
  CHECK(describe(any) == lod::TensorDesc{DataType::FP32, {10, 2}});
  CHECK(describe("g", any).type.type == lod::VarType::SELECTED_ROWS);
  CHECK(any.copy<float>().rows() == any.rows());
  CHECK_THROWS_AS(std::move(any).take<int>(), lod::ShapeMismatch);
  CHECK(any.height() == 10);  // NOLINT
  const SelectedRows<float> back = std::move(any).take<float>();
  CHECK(back.value().data() == values);
  CHECK(back.height() == 10);
}

TEST_CASE("AnySelectedRows: levels of the value are dropped, wherever it comes from") {
  const auto value = LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{1, 2}, {3}});
  SelectedRows<float> g({4, 0, 4}, 10, {});
  g.value() = value;
  for (const AnySelectedRows& any : {AnySelectedRows(g), AnySelectedRows({4, 0, 4}, 10, AnyLoDTensor(value))}) {
    CHECK(any.value().levels() == 0);
    CHECK(any.value().rows() == 3);
    CHECK(any.copy<float>().value().data()[2] == 3);
  }
}

TEST_CASE("AnySelectedRows: a height of ids by hashing is described, though no memory holds the dense tensor") {
  constexpr std::int64_t height = std::int64_t{1} << 62;
  const SelectedRows<float> g({5, height - 1}, height, {3});
  const AnySelectedRows any(g);
  CHECK(describe(any) == lod::TensorDesc{DataType::FP32, {height, 3}});
  CHECK(describe("g", any) == lod::describe("g", g));
  CHECK_THROWS_AS(any.dense_shape(), lod::ShapeMismatch);
}

TEST_CASE("AnySelectedRows: ids are checked as those of SelectedRows") {
  const auto value = [](std::int64_t rows) { return AnyLoDTensor(LoDTensor<float>({rows, 2})); };
  CHECK_THROWS_AS(AnySelectedRows({1, 2}, 10, value(3)), lod::ShapeMismatch);
  SelectedRows<float> torn({1, 2}, 10, {2});
  torn.value() = LoDTensor<float>({3, 2});
  CHECK_THROWS_WITH_AS(AnySelectedRows{torn}, "AnySelectedRows: 2 ids, but 3 rows of values", lod::ShapeMismatch);
  CHECK_THROWS_AS(AnySelectedRows({1, 10}, 10, value(2)), lod::OutOfRange);
  CHECK_THROWS_AS(AnySelectedRows({}, -1, value(0)), lod::ShapeMismatch);
  CHECK(AnySelectedRows({}, 0, value(0)).rows().empty());
}

// SPDX-License-Identifier: Apache-2.0
// Descriptions of live tensors, and live tensors checked against descriptions.
#include <lod/desc.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/selected_rows.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

using lod::DataType;
using lod::Defaulted;
using lod::LoD;
using lod::LoDTensor;
using lod::LoDTensorDesc;
using lod::SelectedRows;
using lod::TensorDesc;
using lod::VarDesc;
using lod::VarType;

namespace {

template <class X>
concept Describable = requires(const X& x) {
  lod::describe(x);
};
template <class X, class Desc>
concept Checkable = requires(const X& x, const Desc& desc) {
  lod::check(x, desc);
  lod::matches(x, desc);
};

const LoD two_levels = LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}});

template <class X, class Desc>
void check_no_match(const X& x, const Desc& desc, const std::string& text) {
  CHECK(!lod::matches(x, desc));
  CHECK_THROWS_WITH_AS(lod::check(x, desc), text.c_str(), lod::ShapeMismatch);
}
template <class X, class Desc>
void check_match(const X& x, const Desc& desc) {
  CHECK(lod::matches(x, desc));
  CHECK_NOTHROW(lod::check(x, desc));
}

}  // namespace

TEST_CASE("describe: element type, shape and levels of a tensor") {
  const LoDTensor<float> x(two_levels, {6, 4});
  CHECK(lod::describe(x) == LoDTensorDesc{{DataType::FP32, {15, 6, 4}}, 2});
  CHECK(lod::describe("x", x) == VarDesc::lod_tensor("x", {DataType::FP32, {15, 6, 4}}, 2));

  const LoDTensor<std::int64_t> plain({784, 200});
  CHECK(lod::describe(plain) == LoDTensorDesc{{DataType::INT64, {784, 200}}, 0});
  CHECK(lod::describe(plain).lod_level.has_value());
  CHECK(lod::describe(LoDTensor<lod::bfloat16>(LoD::from_lengths({{}}), {})) ==
        LoDTensorDesc{{DataType::BF16, {0}}, 1});
}

TEST_CASE("describe: views, slices and elements as what they show") {
  LoDTensor<bool> x(two_levels, {6});
  CHECK(lod::describe(x.view()) == LoDTensorDesc{{DataType::BOOL, {15, 6}}, 2});
  CHECK(lod::describe(std::as_const(x).view()) == lod::describe(x));
  CHECK(lod::describe(x.slice({2})) == LoDTensorDesc{{DataType::BOOL, {5, 6}}, 2});
  CHECK(lod::describe(x[2]) == LoDTensorDesc{{DataType::BOOL, {5, 6}}, 1});
  CHECK(lod::describe(x[2][0]) == LoDTensorDesc{{DataType::BOOL, {2, 6}}, 0});
}

TEST_CASE("describe: selected rows as of the dense tensor that they stand for") {
  const SelectedRows<double> g({4, 0, 4}, 10, {8, 2});
  CHECK(lod::describe(g) == TensorDesc{DataType::FP64, {10, 8, 2}});
  CHECK(lod::describe("g", g) == VarDesc::selected_rows("g", {DataType::FP64, {10, 8, 2}}));
  CHECK(lod::describe(SelectedRows<float>({}, 0, {})) == TensorDesc{DataType::FP32, {0}});
}

TEST_CASE("describe: only of tensors") {
  CHECK(Describable<LoDTensor<float>>);
  CHECK(Describable<SelectedRows<float>>);
  CHECK(!Describable<LoD>);
  CHECK(!Describable<std::string>);
  CHECK(!Describable<int>);
}

TEST_CASE("check: -1 matches anything") {
  const LoDTensor<float> x(two_levels, {6, 4});
  for (const TensorDesc& d : {TensorDesc{DataType::FP32, {15, 6, 4}}, TensorDesc{DataType::FP32, {-1, 6, 4}},
                              TensorDesc{DataType::FP32, {-1, -1, -1}}}) {
    check_match(x, d);
    check_match(x, LoDTensorDesc{d, 2});
    check_match(x, LoDTensorDesc{d, -1});
    check_match(x, VarDesc::lod_tensor("x", d, 2));
  }
  check_match(x, lod::describe(x));
  check_match(x, VarDesc::of_type("x", VarType::LOD_TENSOR));
  check_match(x[0][1], VarDesc::lod_tensor("x", {DataType::FP32, {-1, 6, 4}}));
  check_match(LoDTensor<float>(LoD::from_lengths({{0, 0}}), {6}), LoDTensorDesc{{DataType::FP32, {-1, 6}}, 1});
}

TEST_CASE("check: a description without dimensions is that of one row of scalars") {
  const TensorDesc scalar{DataType::FP32, {}};
  check_match(LoDTensor<float>({1}), scalar);
  check_match(LoDTensor<float>({1}), VarDesc::lod_tensor("s", scalar));
  check_no_match(LoDTensor<float>({2}), scalar, "rank: expected 0, found 1");
  check_no_match(LoDTensor<float>({1, 1}), scalar, "rank: expected 0, found 2");
}

TEST_CASE("check: names what differs, what was expected and what was found") {
  const LoDTensor<float> x(two_levels, {6, 4});
  check_no_match(x, TensorDesc{DataType::FP64, {-1, 6, 4}}, "data type: expected FP64, found FP32");
  check_no_match(x, TensorDesc{DataType::FP32, {-1, 6}}, "rank: expected 2, found 3");
  check_no_match(x, TensorDesc{DataType::FP32, {}}, "rank: expected 0, found 3");
  check_no_match(x, TensorDesc{DataType::FP32, {-1, 6, 5}}, "dim 2: expected 5, found 4");
  check_no_match(x, TensorDesc{DataType::FP32, {-2, 6, 4}}, "dim 0: expected -2, found 15");
  check_no_match(x, LoDTensorDesc{{DataType::FP32, {-1, 6, 4}}, 1}, "lod_level: expected 1, found 2");
  check_no_match(x, LoDTensorDesc{{DataType::FP32, {-1, 6, 4}}}, "lod_level: expected 0, found 2");
  check_no_match(x, LoDTensorDesc{{DataType::INT32, {-1, 6, 4}}, 1}, "data type: expected INT32, found FP32");
  check_no_match(x, VarDesc::lod_tensor("words", {DataType::FP32, {15, 7, 4}}, 2),
                 "'words': dim 1: expected 7, found 6");
  check_no_match(x, VarDesc::selected_rows("g", {DataType::FP32, {15, 6, 4}}),
                 "'g': type: expected SELECTED_ROWS, found LOD_TENSOR");
  check_no_match(x, VarDesc::of_type("feed", VarType::FEED_MINIBATCH),
                 "'feed': type: expected FEED_MINIBATCH, found LOD_TENSOR");
}

TEST_CASE("check: selected rows, whose dim 0 is the height") {
  const SelectedRows<float> g({4, 0, 4}, 10, {8});
  check_match(g, TensorDesc{DataType::FP32, {10, 8}});
  check_match(g, VarDesc::selected_rows("g", {DataType::FP32, {-1, 8}}));
  check_match(g, VarDesc::of_type("g", VarType::SELECTED_ROWS));
  check_no_match(g, TensorDesc{DataType::FP32, {3, 8}}, "dim 0: expected 3, found 10");
  check_no_match(g, VarDesc::selected_rows("g", {DataType::FP16, {10, 8}}),
                 "'g': data type: expected FP16, found FP32");
  check_no_match(g, VarDesc::lod_tensor("x", {DataType::FP32, {10, 8}}),
                 "'x': type: expected LOD_TENSOR, found SELECTED_ROWS");
  CHECK(!Checkable<SelectedRows<float>, LoDTensorDesc>);
  CHECK(Checkable<LoDTensor<float>, LoDTensorDesc>);
}

TEST_CASE("Defaulted: reads as its value, and remembers whether it was set") {
  Defaulted<std::int32_t> level;
  CHECK(level == 0);
  CHECK(!level.has_value());
  level = 0;
  CHECK(level == 0);
  CHECK(level.has_value());
  CHECK(level.value() == 0);
  level.reset();
  CHECK(!level.has_value());
  // The description says the same, set or not.
  CHECK(LoDTensorDesc{{}, 0} == LoDTensorDesc{});
  CHECK(!(LoDTensorDesc{{}, 1} == LoDTensorDesc{}));
  VarDesc v;
  CHECK(!v.persistable);
  v.persistable = true;
  CHECK((v.persistable && v.persistable.has_value()));
}

TEST_CASE("VarDesc: a variable of each kind") {
  const TensorDesc tensor{DataType::FP32, {-1, 8}};
  const VarDesc x = VarDesc::lod_tensor("x", tensor, 2);
  CHECK(x.type.type == VarType::LOD_TENSOR);
  CHECK(x.type.lod_tensor->tensor == tensor);
  CHECK(x.type.lod_tensor->lod_level == 2);
  CHECK(!VarDesc::lod_tensor("x", tensor).type.lod_tensor->lod_level.has_value());

  const VarDesc array = VarDesc::lod_tensor_array("a", tensor, 1);
  CHECK(array.type.type == VarType::LOD_TENSOR_ARRAY);
  CHECK(array.type.tensor_array->tensor == tensor);
  CHECK(array.type.tensor_array->lod_level == 1);
  CHECK(!array.type.lod_tensor);

  const VarDesc reader = VarDesc::reader("r", {{tensor, 1}, {tensor, 0}});
  CHECK(reader.type.type == VarType::READER);
  CHECK(reader.type.reader->lod_tensor.size() == 2);

  VarDesc tuple = VarDesc::of_type("t", VarType::TUPLE);
  tuple.type.tuple = VarType::Tuple({VarType::LOD_TENSOR, VarType::RAW});
  CHECK(tuple.type.tuple->element_type.size() == 2);
  CHECK(tuple.name == "t");
}

// SPDX-License-Identifier: Apache-2.0
// Operators on images: numbers worked by hand, and what is refused. Their gradients are in gradients.cpp, and
// paddle_test.py compares them with PaddlePaddle's.
#include "programs/one_operator.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::InvalidProgram;
using lod::Shape;
using lod::ShapeMismatch;
using lod_test::apply;
using lod_test::attr;
using lod_test::Attrs;
using lod_test::Floats;
using lod_test::numbers;
using lod_test::plain;
using Ints = std::vector<int>;

namespace {

/// The numbers 1, 2, ... under a shape.
AnyLoDTensor counted(const Shape& shape) {
  Floats values(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  return plain<float>(shape, values);
}
AnyLoDTensor ones(const Shape& shape) {
  return plain<float>(shape, Floats(static_cast<std::size_t>(shape.elements()), 1.0f));
}
AnyLoDTensor convolved(const AnyLoDTensor& images, const AnyLoDTensor& filter, Attrs attrs = {}) {
  return apply("conv2d", {{"Input", {images}}, {"Filter", {filter}}}, {"Output"}, std::move(attrs))[0];
}
Floats pooled(const AnyLoDTensor& images, Attrs attrs) {
  return numbers<float>(apply("pool2d", {{"X", {images}}}, {"Out"}, std::move(attrs))[0]);
}

}  // namespace

TEST_CASE("conv2d multiplies what windows look at") {
  const AnyLoDTensor images = counted({1, 1, 3, 3});
  CHECK(numbers<float>(convolved(images, ones({1, 1, 2, 2}))) == Floats{12, 16, 24, 28});
  CHECK(numbers<float>(convolved(images, counted({1, 1, 2, 2}))) == Floats{37, 47, 67, 77});
  CHECK(numbers<float>(convolved(images, ones({1, 1, 2, 2}), {attr("dilations", Ints{2, 2})})) == Floats{20});
  CHECK(numbers<float>(convolved(images, ones({1, 1, 2, 2}), {attr("paddings", Ints{1, 0, 0, 1})})) ==
        Floats{3, 5, 3, 12, 16, 9, 24, 28, 15});
  const auto results = convolved(images, ones({1, 1, 2, 2}),
                                 {attr("padding_algorithm", std::string("SAME")), attr("strides", Ints{2, 1})});
  CHECK(results.shape() == Shape{1, 1, 2, 3});
  CHECK(numbers<float>(results) == Floats{12, 16, 9, 15, 17, 9});
}

TEST_CASE("conv2d of groups and of several images") {
  const auto results = convolved(counted({2, 2, 1, 2}), plain<float>({2, 1, 1, 1}, {1, -1}), {attr("groups", 2)});
  CHECK(numbers<float>(results) == Floats{1, 2, -3, -4, 5, 6, -7, -8});
  const auto last = convolved(counted({1, 1, 2, 2}), plain<float>({3, 2, 1, 1}, {1, 0, 0, 1, 1, 1}),
                              {attr("data_format", std::string("NHWC"))});
  CHECK(last.shape() == Shape{1, 1, 2, 3});
  CHECK(numbers<float>(last) == Floats{1, 2, 3, 3, 4, 7});
  CHECK(convolved(counted({0, 1, 2, 2}), ones({5, 1, 2, 2})).shape() == Shape{0, 5, 1, 1});
}

TEST_CASE("conv2d of more windows than it takes at a time gives what one window gives") {
  const AnyLoDTensor images = counted({1, 1, 80, 90}), filter = counted({2, 1, 2, 3});
  const auto found = numbers<float>(convolved(images, filter));
  for (const int row : {0, 50, 78}) {
    for (const int column : {0, 87}) {
      CAPTURE(row);
      CAPTURE(column);
      const auto first = static_cast<float>(row * 90 + column + 1);
      CHECK(found[static_cast<std::size_t>(row * 88 + column)] == 21 * first + 25 + 15 * 90);
    }
  }
}

TEST_CASE("conv2d refuses what it does not know, and shapes that do not fit") {
  const AnyLoDTensor images = counted({1, 2, 3, 3});
  CHECK_THROWS_WITH_AS(convolved(images, ones({1, 3, 2, 2})),
                       doctest::Contains("images of shape {1, 2, 3, 3}, filters of shape {1, 3, 2, 2}, 1 groups"),
                       ShapeMismatch);
  CHECK_THROWS_AS(convolved(images, ones({3, 1, 2, 2}), {attr("groups", 2)}), ShapeMismatch);
  CHECK_THROWS_WITH_AS(convolved(images, ones({1, 2, 4, 4})), doctest::Contains("a window of 4 on a side of 3"),
                       ShapeMismatch);
  CHECK_THROWS_AS(convolved(counted({1, 2, 3}), ones({1, 2, 2, 2})), ShapeMismatch);
  for (const auto& wrong :
       {attr("groups", 0), attr("strides", Ints{0, 1}), attr("strides", Ints{1}), attr("paddings", Ints{1, 1, 1}),
        attr("dilations", Ints{1, -1}), attr("paddings", Ints{1, -1}), attr("padding_algorithm", std::string("same")),
        attr("data_format", std::string("NCDHW")), attr("fuse_relu", true)}) {
    CAPTURE(wrong.name);
    CHECK_THROWS_AS(convolved(images, ones({1, 2, 2, 2}), {wrong}), InvalidProgram);
  }
  // The greatest numbers that files can hold.
  constexpr int most = std::numeric_limits<int>::max();
  CHECK_THROWS_AS(convolved(images, ones({1, 2, 2, 2}), {attr("dilations", Ints{most, most})}), ShapeMismatch);
  CHECK(convolved(images, ones({1, 2, 2, 2}), {attr("strides", Ints{most, most})}).shape() == Shape{1, 1, 1, 1});
}

TEST_CASE("pool2d takes the greatest number or the mean of each window") {
  const AnyLoDTensor images = counted({1, 1, 3, 3});
  const auto mean = attr("pooling_type", std::string("avg"));
  const auto windows = attr("ksize", Ints{2, 2}), steps = attr("strides", Ints{2, 2});
  CHECK(pooled(images, {windows}) == Floats{5, 6, 8, 9});
  CHECK(pooled(images, {windows, mean}) == Floats{3, 4, 6, 7});
  CHECK(pooled(images, {windows, steps}) == Floats{5});
  CHECK(pooled(images, {windows, steps, attr("ceil_mode", true)}) == Floats{5, 6, 8, 9});
  CHECK(pooled(images, {windows, steps, mean, attr("ceil_mode", true)}) == Floats{3, 4.5, 7.5, 9});
  const auto paddings = attr("paddings", Ints{1, 1});
  CHECK(pooled(images, {windows, steps, mean, paddings}) == Floats{1, 2.5, 5.5, 7});
  CHECK(pooled(images, {windows, steps, mean, paddings, attr("exclusive", false)}) == Floats{0.25, 1.25, 2.75, 7});
  CHECK(pooled(images, {windows, attr("global_pooling", true)}) == Floats{9});
  CHECK(pooled(images, {windows, mean, attr("adaptive", true)}) == Floats{3, 4, 6, 7});
  CHECK(pooled(counted({1, 2, 2, 2}), {windows, attr("data_format", std::string("NHWC"))}) == Floats{7, 8});
}

TEST_CASE("pool2d of windows without pixels, of NaN, and of no images") {
  const auto windows = attr("ksize", Ints{1, 1}), paddings = attr("paddings", Ints{1, 0});
  const float lowest = std::numeric_limits<float>::lowest();
  CHECK(pooled(counted({1, 1, 1, 1}), {windows, paddings}) == Floats{lowest, 1, lowest});
  CHECK(pooled(counted({1, 1, 1, 1}), {windows, paddings, attr("pooling_type", std::string("avg"))}) ==
        Floats{0, 1, 0});
  CHECK(std::isnan(pooled(plain<float>({1, 1, 1, 2}, {std::nanf(""), 1}), {attr("ksize", Ints{1, 2})})[0]));
  CHECK(pooled(counted({0, 3, 2, 2}), {attr("ksize", Ints{2, 2})}).empty());
  CHECK_THROWS_AS(pooled(counted({1, 1, 2, 2}), {attr("pooling_type", std::string("min"))}), InvalidProgram);
  CHECK_THROWS_AS(pooled(counted({1, 1, 2, 2}), {windows, attr("adaptive", true)}), InvalidProgram);
  CHECK_THROWS_AS(pooled(counted({2, 2}), {}), ShapeMismatch);
}

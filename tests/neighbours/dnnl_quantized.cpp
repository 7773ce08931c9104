// SPDX-License-Identifier: Apache-2.0
// Products of int8: exact sums, by oneDNN and without it, and the layer that is made of them.
#include "support/check_throws.hpp"
#include "support/count_allocations.hpp"
#include "support/counting_resource.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/dnnl.hpp>
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod_test::Engine;
using lod_test::same_bits;
using Bytes = LoDTensor<std::int8_t>;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// A matrix of numbers from -127 to 127 whose columns each have the scale 1.
LoDTensor<float> integers_of_scale_one(Engine& engine, std::int64_t rows, std::int64_t columns) {
  LoDTensor<float> weight({rows, columns});
  for (float& number : weight.values()) number = static_cast<float>(lod_test::random_number(engine, -127, 127));
  for (std::int64_t column = 0; rows > 0 && column < columns; ++column) {
    weight.data()[lod_test::random_number(engine, 0, rows - 1) * columns + column] = column % 2 == 0 ? 127 : -127;
  }
  return weight;
}

}  // namespace

TEST_CASE("quantized rows: worked numbers, rows of zeros, of infinity and NaN, of tiny and of huge numbers, no rows") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), greatest = std::numeric_limits<float>::max();
  const auto x = LoDTensor<float>::from_values(
      LoD::from_lengths({{2, 0, 5}}), {3},
      std::vector<float>{127, -1, 2.5F,     -254,          1, 3,         0,         0,         0, 1, infinity, 2, nan,
                         1,   2,  greatest, -greatest / 2, 0, 0x1p-149F, 0x1p-148F, -0x1p-149F});
  for (const int threads : {1, 3}) {
    const auto q = lod::quantize_rows(lod::CpuExecutor(threads), x);
    CHECK(q.values.lod() == x.lod());
    CHECK(q.values.shape() == x.shape());
    CHECK(lod_test::values_of(q.values) ==
          std::vector<std::int8_t>{127, -1, 2, -127, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 127, -64, 0, 64, 127, -64});
    CHECK(q.scales.shape() == lod::Shape{7});
    CHECK(q.scales.data()[0] == 1);
    CHECK(q.scales.data()[1] == 2);
    CHECK(q.scales.data()[2] == 0);
    CHECK(std::isnan(q.scales.data()[3]));
    CHECK(std::isnan(q.scales.data()[4]));
    CHECK(q.scales.data()[5] == greatest / 127);
  }
  CHECK(lod::quantize_rows(x.between(1, 2)).values.shape() == lod::Shape{0, 3});
  CHECK(lod_test::values_of(lod::quantize_rows(LoDTensor<lod::bfloat16>({2, 0})).scales) == std::vector<float>{0, 0});
  LoDTensor<float> wrong({1});
  CHECK_THROWS_AS(lod::quantize_rows_into(lod::CpuExecutor(1), x, Bytes(), wrong.view()), lod::ShapeMismatch);
}

TEST_CASE("quantized products are exact, whatever the number of rows, terms, columns and threads") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  constexpr std::array<std::array<std::int64_t, 2>, 9> sizes{
      {{1, 1}, {3, 1}, {1, 5}, {33, 17}, {64, 64}, {257, 255}, {4096, 3}, {4100, 7}, {65, 1025}}};
  for (const auto& size : sizes) {
    const std::int64_t terms = size[0], columns = size[1];
    CAPTURE(terms);
    CAPTURE(columns);
    const auto weight = integers_of_scale_one(engine, terms, columns);
    const lod::DnnlExecutor one(1), three(3);
    const lod::QuantizedWeights weights(three, weight);
    CHECK(weights.rows() == terms);
    CHECK(weights.row_size() == columns);
    CHECK(weights.row_shape() == lod::Shape{columns});
    CHECK(weights.bytes() >= terms * columns);
    CHECK(weights.bytes() < (terms + 64) * (columns + 64) + 4096 + 512 * columns);
    CHECK(weights.is_packed() == lod::dnnl_instructions().int8);
    for (const float scale : weights.scales()) CHECK(scale == 1);
    for (const std::int64_t rows : {0, 1, 2, 15, 16, 17, 33, 63, 64, 65, 200}) {
      CAPTURE(rows);
      Bytes x(LoD::from_lengths({{rows}}), {terms});
      for (std::int8_t& number : x.values()) {
        number = static_cast<std::int8_t>(lod_test::random_number(engine, -128, 127));
      }
      if (rows > 1) std::fill_n(x.data(), terms, std::int8_t{-128});
      LoDTensor<std::int32_t> expected(x.lod(), {columns});
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t term = 0; term < terms; ++term) {
          for (std::int64_t j = 0; j < columns; ++j) {
            expected.data()[row * columns + j] +=
                x.data()[row * terms + term] * static_cast<int>(weight.data()[term * columns + j]);
          }
        }
      }
      CHECK(same_bits(lod::quantized_product(one, x, weights), expected));
      CHECK(same_bits(lod::quantized_product(three, x, weights), expected));
    }
  }
}

TEST_CASE("quantized products of the most terms there may be do not leave int32") {
  constexpr std::int64_t most = 132104;
  LoDTensor<float> weight({most, 2});
  for (std::int64_t i = 0; i < 2 * most; ++i) weight.data()[i] = i % 2 == 0 ? 127 : -127;
  Bytes x({2, most});
  std::fill_n(x.data(), most, std::int8_t{-128});
  std::fill_n(x.data() + most, most, std::int8_t{127});
  constexpr int least = -128 * 127 * static_cast<int>(most), greatest = 127 * 127 * static_cast<int>(most);
  CHECK(lod_test::values_of(lod::quantized_product(x, lod::QuantizedWeights(lod::CpuExecutor(2), weight))) ==
        std::vector<std::int32_t>{least, -least, greatest, -greatest});
  CHECK_THROWS_AS(lod::QuantizedWeights(lod::CpuExecutor(2), LoDTensor<float>({most + 1, 1})), lod::ShapeMismatch);
}

TEST_CASE("quantized linear: sums times the scales of row and column, with and without a bias, close to linear") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  const LoD lod = LoD::from_lengths({{5, 0, 100, 1}});
  constexpr std::int64_t terms = 70, columns = 45;
  const auto x = lod_test::real_numbers<float>(engine, lod, {7, 10});
  const auto weight = lod_test::small_reals<float>(engine, {terms, 9, 5});
  const auto bias = lod_test::small_reals<float>(engine, {9, 5});
  const lod::DnnlExecutor executor(2);
  const lod::QuantizedWeights weights(executor, weight);
  const auto y = lod::quantized_linear(executor, x, weights);
  const auto with_bias = lod::quantized_linear(executor, x, weights, {.bias = bias});
  const auto exact = lod::linear(x, weight);
  CHECK(y.lod() == lod);
  CHECK(y.row_shape() == lod::Shape{9, 5});
  const auto q = lod::quantize_rows(x);
  const auto sums = lod::quantized_product(executor, q.values, weights);
  for (std::int64_t i = 0; i < y.rows() * columns; ++i) {
    const float sum = static_cast<float>(sums.data()[i]) * q.scales.data()[i / columns];
    CHECK(y.data()[i] == sum * weights.scales()[static_cast<std::size_t>(i % columns)]);
    CHECK(with_bias.data()[i] == doctest::Approx(y.data()[i] + bias.data()[i % columns]));
    // Magnitudes are at most 4 and 1.
    CHECK(std::abs(y.data()[i] - exact.data()[i]) < static_cast<float>(terms) * 8 / 254);
  }
  // A row depends neither on others nor on threads, and its scale is its own.
  for (const std::int64_t sequence : {0, 2, 3}) {
    const auto some = lod::quantized_linear(lod::CpuExecutor(1), x.between(sequence, sequence + 1), weights);
    CHECK(same_bits(some, y.between(sequence, sequence + 1)));
  }
  CHECK(lod::quantized_linear(executor, x.between(1, 2), weights).shape() == lod::Shape{0, 9, 5});
  // bfloat16, and no numbers: the product is the bias.
  CHECK(lod::quantized_linear(executor, LoDTensor<lod::bfloat16>({2, terms}),
                              lod::QuantizedWeights(executor, LoDTensor<lod::bfloat16>({terms, 3})))
            .shape() == lod::Shape{2, 3});
  const lod::QuantizedWeights none(executor, LoDTensor<float>({0, 9, 5}));
  CHECK(lod_test::values_of(lod::quantized_linear(executor, LoDTensor<float>({1, 0}), none, {.bias = bias})) ==
        lod_test::values_of(bias));
  CHECK(none.bytes() == 45 * 4);
}

TEST_CASE("quantized linear keeps infinity and NaN to their rows and columns, and zeros are zeros") {
  LoDTensor<float> x({4, 2}), weight({2, 4});
  x.fill(2);
  weight.fill(3);
  x.row(1)[0] = infinity;
  std::ranges::fill(x.row(2), 0.0F);
  weight.row(0)[1] = -infinity;
  weight.row(0)[2] = weight.row(1)[2] = 0;
  const lod::DnnlExecutor executor(1);
  const auto y = lod::quantized_linear(executor, x, lod::QuantizedWeights(executor, weight));
  for (std::size_t row = 0; row < 4; ++row) {
    for (std::size_t column = 0; column < 4; ++column) {
      CAPTURE(row);
      CAPTURE(column);
      const float found = y.data()[row * 4 + column];
      if (row == 1 || column == 1) {
        CHECK(std::isnan(found));
      } else {
        CHECK(found == doctest::Approx(row == 2 || column == 2 ? 0 : 12));
      }
    }
  }
}

TEST_CASE("quantized weights outlive their matrix and executor, move, and copies share them") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  const auto x = lod_test::real_numbers<float>(engine, {3, 20});
  const auto made = [&] {
    const auto weight = integers_of_scale_one(engine, 20, 6);
    return lod::QuantizedWeights(lod::CpuExecutor(1), weight);
  };
  lod::QuantizedWeights weights = made();
  const auto y = lod::quantized_linear(x, weights);
  const lod::QuantizedWeights copy = weights, moved = std::move(weights);
  CHECK(copy.data() == moved.data());
  CHECK(same_bits(lod::quantized_linear(x, copy), y));
  CHECK(same_bits(lod::quantized_linear(x, moved), y));
  CHECK(same_bits(lod::quantized_linear(x, weights), y));
}

TEST_CASE("quantized linear takes no memory on a second call, and errors change nothing") {
  Engine engine(lod_test::first_seed());
  CAPTURE(lod_test::first_seed());
  lod_test::CountingResource resource;
  const lod::DnnlExecutor executor(2, &resource);
  const auto x = lod_test::real_numbers<float>(engine, LoD::from_lengths({{100, 33}}), {40});
  const lod::QuantizedWeights weights(executor, lod_test::small_reals<float>(engine, {40, 24}));
  LoDTensor<float> y(&resource);
  lod::quantized_linear_into(executor, x, weights, y);
  const int allocations = resource.allocations;
  const std::int64_t bytes = lod_test::allocated_bytes;
  lod::quantized_linear_into(executor, x, weights, y);
  CHECK(resource.allocations == allocations);
  if (lod_test::counts_allocations) CHECK(lod_test::allocated_bytes - bytes < 100000);
  lod_test::check_throws<lod::ShapeMismatch>(
      [&] {
        lod::quantized_linear_into(executor, LoDTensor<float>({2, 39}), weights, y);
      },
      "quantized_linear: weights: 40 rows, expected 39", y);
  lod_test::check_throws<lod::ShapeMismatch>(
      [&] { lod::quantized_linear_into(executor, x, weights, {.bias = LoDTensor<float>({3})}, y); },
      "quantized_linear: bias: shape {3}, expected 24 numbers", y);
  CHECK_THROWS_AS(
      lod::quantized_linear_into(executor, y, lod::QuantizedWeights(executor, LoDTensor<float>({24, 24})), y),
      std::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(lod::quantized_product(executor, Bytes({1, 2}), weights)), lod::ShapeMismatch);
}

TEST_CASE("quantized linear, described: what it gives and refuses") {
  using lod::DataType;
  using lod_test::described;
  const auto x = described(DataType::BF16, {-1, 2}, 1), weight = described(DataType::FP32, {2, 5});
  CHECK(lod::infer_quantized_linear(x, weight) == described(DataType::FP32, {-1, 5}, 1));
  CHECK_THROWS_AS(lod::infer_quantized_linear(x, described(DataType::FP32, {3, 5})), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_quantized_linear(described(DataType::FP64, {2, 2}), weight), lod::ShapeMismatch);
}

// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

TEST_CASE("linear: worked numbers, with and without a bias, rows of several dimensions, and no rows") {
  const auto x = LoDTensor<float>::from_values(LoD::from_lengths({{2, 0}}), {2, 1}, std::vector<float>{1, 2, 3, 4});
  const auto weight = LoDTensor<float>::from_values(LoD(), {3}, std::vector<float>{1, 0, -1, 2, 1, 5});
  const auto bias = LoDTensor<float>::from_values(LoD(), {}, std::vector<float>{10, 20, 30});
  const auto dy = LoDTensor<float>::from_values(LoD(), {3}, std::vector<float>{1, 0, 2, 0, 1, 3});
  for_each_executor([&](const auto& executor) {
    const auto y = lod::linear(executor, x, weight);
    CHECK(y.lod() == x.lod());
    CHECK(y.shape() == lod::Shape{2, 3});
    CHECK(values_of(y) == std::vector<float>{5, 2, 9, 11, 4, 17});
    CHECK(values_of(lod::linear(executor, x, weight, {.bias = bias})) == std::vector<float>{15, 22, 39, 21, 24, 47});
    const auto d = lod::linear_grad(executor, dy, x, weight);
    CHECK(d.dx.lod() == x.lod());
    CHECK(d.dx.row_shape() == x.row_shape());
    CHECK(values_of(d.dx) == std::vector<float>{-1, 12, -3, 16});
    CHECK(d.dweight.shape() == weight.shape());
    CHECK(values_of(d.dweight) == std::vector<float>{1, 3, 11, 2, 4, 16});
    CHECK(d.dbias.shape() == lod::Shape{1, 3});
    CHECK(values_of(d.dbias) == std::vector<float>{1, 1, 5});
    CHECK(lod::linear(executor, x.between(1, 2), weight, {.bias = bias}).shape() == lod::Shape{0, 3});
    CHECK(values_of(lod::linear_grad(executor, dy.between(0, 0), x.between(1, 2), weight).dbias) ==
          std::vector<float>(3));
    // Of no numbers the product is the bias.
    const auto nothing = lod::linear(executor, LoDTensor<float>({2, 0}), LoDTensor<float>({0, 3}), {.bias = bias});
    CHECK(values_of(nothing) == std::vector<float>{10, 20, 30, 10, 20, 30});
  });
}

TEST_CASE("linear: agrees with sums for slices of every type and depth") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_batch<T>(3, {1, 7, 33}, [](Engine& engine, const LoDTensor<T>& whole) {
      const auto x = whole.between(random_number(engine, 0, whole.size() > 0), whole.size());
      for (const std::int64_t columns : {1, 5, 40}) {
        CAPTURE(columns);
        const auto weight = small_integers<T>(engine, {x.row_size(), columns});
        const auto bias = small_integers<T>(engine, {columns});
        std::vector<T> expected;
        for (std::int64_t row = 0; row < x.rows(); ++row) {
          for (std::int64_t j = 0; j < columns; ++j) {
            auto sum = static_cast<double>(bias.data()[j]);
            for (std::int64_t k = 0; k < x.row_size(); ++k) {
              sum += static_cast<double>(x.data()[row * x.row_size() + k]) *
                     static_cast<double>(weight.data()[k * columns + j]);
            }
            expected.push_back(static_cast<T>(static_cast<float>(sum)));
          }
        }
        for_each_executor([&](const auto& executor) {
          const auto y = lod::linear(executor, x, weight, {.bias = bias});
          CHECK(y.lod() == x.lod());
          CHECK(values_of(y) == expected);
        });
      }
    });
  });
}

TEST_CASE("linear and its gradient: wrong arguments; infer_linear: what it gives and refuses") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> x({4, 2}), weight({2, 3}), wide({3, 3}), bias({2}), dy({4, 2});
  LoDTensor<float> y({1}), dweight, dbias;
  y.values()[0] = 7;
  check_throws<lod::ShapeMismatch>([&] { lod::linear_into(executor, x, wide, y); },
                                   "linear: weight: 3 rows, expected 2, one for each number of a row of x", y);
  check_throws<lod::ShapeMismatch>([&] { lod::linear_into(executor, x, weight, {.bias = bias}, y); },
                                   "linear: bias: shape {2}, expected 3 numbers", y);
  check_throws<lod::ShapeMismatch>([&] { lod::linear_grad_into(executor, dy, x, weight, y, dweight, dbias); },
                                   "linear_grad: dy: rows of shape {2}, expected {3}", y);
  for_each_random_batch<float>(1, {2}, [](Engine&, const LoDTensor<float>& batch) {
    check_inference(
        lod::linear(batch, LoDTensor<float>({2, 5})),
        [](const auto& of, const auto& by) { return lod::infer_linear(of, by); }, describe(batch),
        described(lod::DataType::FP32, {2, 5}));
  });
  using lod::DataType;
  const auto by = described(DataType::FP32, {2, 5}), of = described(DataType::FP32, {-1, 2}, 1);
  const auto added = described(DataType::FP32, {5}), short_one = described(DataType::FP32, {1, 4});
  CHECK(lod::infer_linear(of, by, {.bias = &added}) == described(DataType::FP32, {-1, 5}, 1));
  CHECK_THROWS_AS(lod::infer_linear(of, by, {.bias = &short_one}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_linear(described(DataType::FP32, {-1, 3}), by), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_linear(of, described(DataType::FP64, {2, 5})), lod::ShapeMismatch);
}

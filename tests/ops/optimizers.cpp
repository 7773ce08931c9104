// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

using lod::LoDTensor;
using lod::SelectedRows;
using lod::Sparse;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {
template <class T = float>
LoDTensor<T> filled(const lod::Shape& shape, double value) {
  LoDTensor<T> x(shape);
  for (T& number : x.values()) number = static_cast<T>(value);
  return x;
}
SelectedRows<float> filled_rows(const Numbers& rows, std::int64_t height, std::int64_t row_size, double value) {
  return SelectedRows<float>(rows, height, filled({static_cast<std::int64_t>(rows.size()), row_size}, value));
}
LoDTensor<double> column(std::initializer_list<double> values) {
  return LoDTensor<double>::from_values({}, {}, std::vector<double>(values));
}
}  // namespace

TEST_CASE("sgd: parameters of 5, rows 0, 4, 7 of a height of 10") {
  for (const Numbers& rows : {Numbers{0, 4, 7}, Numbers{7, 0, 4}}) {
    auto p = filled({10, 12}, 5);
    lod::sgd(p, filled_rows(rows, 10, 12, 1), 2.0);
    for (std::int64_t row = 0; row < 10; ++row) {
      for (const float value : p.row(row)) CHECK(value == (row == 0 || row == 4 || row == 7 ? 3 : 5));
    }
  }
  auto p = filled({10, 12}, 5);
  lod::sgd(p, SelectedRows<float>({}, 10, {12}), 2.0);
  lod::sgd(LoDTensor<float>({0, 12}), SelectedRows<float>({}, 0, {12}), 2.0);
  for (const float value : p.values()) CHECK(value == 5);
}

TEST_CASE("sgd and merge_add: repeated rows add up before they are rounded to 16 bits, and once") {
  // 2049 takes 12 bits, of which float16 has 11: three steps, one after the other, would end at 2048.
  LoDTensor<lod::float16> p({1}), q({1});
  SelectedRows<lod::float16> g({0, 0, 0}, 1, {});
  g.value().data()[0] = static_cast<lod::float16>(-2048);
  g.value().data()[1] = static_cast<lod::float16>(-1);
  g.value().data()[2] = static_cast<lod::float16>(-1);
  lod::sgd(p, g, 1.0);
  lod::sgd(q, lod::merge_add(g), 1.0);
  CHECK(static_cast<float>(p.data()[0]) == 2050);
  CHECK(same_bits(p, q));
}

TEST_CASE("momentum, rmsprop: no row is lost where rows come unsorted") {
  for (const Sparse mode : {Sparse::LAZY, Sparse::EXACT}) {
    auto p = filled({10, 1}, 5), v = filled({10, 1}, 0), q = p, s = v, w = v;
    const auto g = filled_rows({7, 0, 4}, 10, 1, 1);
    lod::momentum(p, v, g, {.learning_rate = 1, .mode = mode});
    lod::rmsprop(q, s, w, g, {.learning_rate = 1, .mode = mode});
    for (std::int64_t row = 0; row < 10; ++row) {
      const bool listed = row == 0 || row == 4 || row == 7;
      CHECK(p.data()[row] == (listed ? 4 : 5));
      CHECK(v.data()[row] == (listed ? 1 : 0));
      CHECK((q.data()[row] != 5) == listed);
      CHECK((s.data()[row] != 0) == listed);
    }
  }
}

TEST_CASE("momentum: EXACT moves rows without a gradient by their velocity, LAZY does not") {
  const SelectedRows<double> g({1}, 2, LoDTensor<double>::from_values({}, {}, std::vector<double>{2}));
  auto p = column({5, 5}), v = column({4, 4});
  lod::momentum(p, v, g, {.learning_rate = 0.5, .momentum = 0.5, .mode = Sparse::LAZY});
  CHECK(same_bits(p, column({5, 3})));
  CHECK(same_bits(v, column({4, 4})));
  p = column({5, 5});
  lod::momentum(p, v, g, {.learning_rate = 0.5, .momentum = 0.5, .mode = Sparse::EXACT});
  CHECK(same_bits(p, column({4, 3})));
  CHECK(same_bits(v, column({2, 4})));
}

TEST_CASE("adagrad: rows 0, 4, 7, 4 of a height of 10, the repeated one added up before it is squared") {
  for (const Sparse mode : {Sparse::LAZY, Sparse::EXACT}) {
    auto p = column({5, 5, 5, 5, 5, 5, 5, 5, 5, 5}), squares = column({2, 2, 2, 2, 2, 2, 2, 2, 2, 2});
    lod::adagrad(p, squares, SelectedRows<double>({0, 4, 7, 4}, 10, filled<double>({4}, 1)),
                 {.learning_rate = 2, .epsilon = 2, .mode = mode});
    for (std::int64_t row = 0; row < 10; ++row) {
      const double sum = row == 4 ? 2 : row == 0 || row == 7 ? 1 : 0;
      CHECK(squares.data()[row] == 2 + sum * sum);
      CHECK(p.data()[row] == doctest::Approx(5 - 2 * sum / (std::sqrt(2 + sum * sum) + 2)));
    }
  }
}

TEST_CASE("adagrad: without epsilon, what has had no gradient stays, and EXACT is the dense update") {
  const SelectedRows<float> g({1}, 3, filled({1}, 1));
  for (const double epsilon : {0.0, 1e-50}) {  // which as a float is 0
    for_each_executor([&](const auto& executor) {
      auto p = filled({3}, 1), s = filled({3}, 0), dense_p = p, dense_s = s;
      lod::adagrad(executor, p, s, g, {.epsilon = epsilon});
      lod::adagrad(executor, dense_p, dense_s, lod::to_dense(g), {.epsilon = epsilon});
      CHECK(p.data()[0] == 1);
      CHECK(same_bits(p, dense_p));
    });
  }
}

TEST_CASE("rmsprop: the centered form stays finite where the variance rounds below 0") {
  auto p = filled({64}, 0), s = p, v = p, mean = p, g = p;
  for (std::int64_t i = 0; i < 64; ++i) g.data()[i] = 1000 + static_cast<float>(i) * 7.3f;
  for (int step = 0; step < 200; ++step) lod::rmsprop(p, s, v, mean, g, {.rho = 0.9});
  for (const float value : p.values()) CHECK(std::isfinite(value));
}

TEST_CASE("adam: the first step is the learning rate, whatever the gradient") {
  auto p = column({1, 1, 1}), mean = column({0, 0, 0}), squares = mean;
  lod::adam(p, mean, squares, column({1000, -0.001, 0}), {.learning_rate = 0.5, .step = 1});
  CHECK(p.data()[0] == doctest::Approx(0.5));
  CHECK(p.data()[1] == doctest::Approx(1.5).epsilon(1e-4));
  CHECK(p.data()[2] == 1);
}

TEST_CASE("adam: epsilon counts the same in rows that are not listed") {
  // Row 0 is not listed, row 1 is, with a gradient of 0: both must move alike.
  const SelectedRows<double> g({1}, 2, LoDTensor<double>::from_values({}, {}, std::vector<double>{0}));
  auto p = column({1, 1}), mean = column({0.5, 0.5}), squares = column({0.01, 0.01});
  lod::adam(p, mean, squares, g, {.learning_rate = 0.1, .epsilon = 0.5, .step = 1});
  CHECK(p.data()[0] == p.data()[1]);
  const double c = std::sqrt(1 - 0.999);
  CHECK(p.data()[0] == doctest::Approx(1 - 0.1 * c / 0.1 * 0.45 / (std::sqrt(0.00999) + 0.5 * c)));
}

TEST_CASE("adam: the step must be given") {
  auto p = filled({4, 2}, 1);
  auto mean = p, squares = p;
  const auto g = p;
  check_throws<lod::OutOfRange>([&] { lod::adam(p, mean, squares, g, {}); }, "adam: step 0, expected 1 or more", p);
  check_throws<lod::OutOfRange>([&] { lod::adam(p, mean, squares, g, {.step = -1}); }, "adam: step -1", p);
}

TEST_CASE("optimizers: an option that makes no sense is refused, named, and nothing changes") {
  auto p = filled({4, 2}, 1);
  auto one = p, two = p, three = p;
  const auto g = p;
  const SelectedRows<float> listed({1}, 4, {2});
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  const auto refused = [&](const auto& call, const std::string& text) {
    CAPTURE(text);
    check_throws<std::invalid_argument>([&] { call(g); }, text.c_str(), p);
    check_throws<std::invalid_argument>([&] { call(listed); }, text.c_str(), one);
  };
  for (const double wrong : {nan, infinite, -infinite}) {
    const std::string finite = to_string(lod::Scalar(wrong)) + ", expected a finite number";
    refused([&](const auto& dy) { lod::sgd(p, dy, wrong); }, "sgd: learning_rate " + finite);
    refused([&](const auto& dy) { lod::momentum(p, one, dy, {.learning_rate = wrong}); },
            "momentum: learning_rate " + finite);
    refused([&](const auto& dy) { lod::momentum(p, one, dy, {.momentum = wrong}); }, "momentum: momentum " + finite);
    refused([&](const auto& dy) { lod::momentum(p, one, dy, {.l2_decay = wrong}); }, "momentum: l2_decay " + finite);
    refused([&](const auto& dy) { lod::rmsprop(p, one, two, dy, {.momentum = wrong}); }, "rmsprop: momentum " + finite);
    refused([&](const auto& dy) { lod::ftrl(p, one, two, dy, {.learning_rate_power = wrong}); },
            "ftrl: learning_rate_power " + finite);
  }
  for (const double wrong : {nan, infinite, -1e-300}) {
    const std::string more = to_string(lod::Scalar(wrong)) + ", expected a finite number of 0 or more";
    refused([&](const auto& dy) { lod::adagrad(p, one, dy, {.epsilon = wrong}); }, "adagrad: epsilon " + more);
    refused([&](const auto& dy) { lod::rmsprop(p, one, two, dy, {.epsilon = wrong}); }, "rmsprop: epsilon " + more);
    refused([&](const auto& dy) { lod::rmsprop(p, one, two, three, dy, {.epsilon = wrong}); },
            "rmsprop: epsilon " + more);
    refused([&](const auto& dy) { lod::adam(p, one, two, dy, {.epsilon = wrong, .step = 1}); },
            "adam: epsilon " + more);
    refused([&](const auto& dy) { lod::ftrl(p, one, two, dy, {.l1 = wrong}); }, "ftrl: l1 " + more);
    refused([&](const auto& dy) { lod::ftrl(p, one, two, dy, {.l2 = wrong}); }, "ftrl: l2 " + more);
  }
  for (const double wrong : {nan, -0.1, 1.0 + 1e-9, infinite}) {
    const std::string share = to_string(lod::Scalar(wrong)) + ", expected 0 to 1";
    refused([&](const auto& dy) { lod::rmsprop(p, one, two, dy, {.rho = wrong}); }, "rmsprop: rho " + share);
    refused([&](const auto& dy) { lod::adam(p, one, two, dy, {.beta1 = wrong, .step = 1}); }, "adam: beta1 " + share);
    refused([&](const auto& dy) { lod::adam(p, one, two, dy, {.beta2 = wrong, .step = 1}); }, "adam: beta2 " + share);
  }
  check_throws<lod::OutOfRange>([&] { lod::sgd(p, listed, {.mode = static_cast<lod::Sparse>(2)}); },
                                "sgd: Sparse 2, expected LAZY or EXACT", p);
}

TEST_CASE("ftrl: small gradients are shrunk to 0; EXACT does so to rows that never had one, LAZY leaves them") {
  const SelectedRows<double> g({1, 2}, 3, LoDTensor<double>::from_values({}, {}, std::vector<double>{0.25, 3}));
  for (const Sparse mode : {Sparse::LAZY, Sparse::EXACT}) {
    auto p = column({5, 0, 0}), squares = column({0, 0, 0}), linear = squares;
    lod::ftrl(p, squares, linear, g, {.learning_rate = 0.5, .l1 = 1, .l2 = 0.5, .mode = mode});
    CHECK(p.data()[0] == (mode == Sparse::LAZY ? 5 : 0));
    CHECK(p.data()[1] == 0);
    CHECK(p.data()[2] == doctest::Approx((1.0 - 3.0) / (3 / 0.5 + 1)));
    CHECK(same_bits(squares, column({0, 0.0625, 9})));
    CHECK(same_bits(linear, column({0, 0.25, 3})));
  }
}

TEST_CASE("optimizers: NaN goes where it came from, and nowhere else") {
  SelectedRows<float> g({2}, 4, {3});
  g.value().data()[1] = std::numeric_limits<float>::quiet_NaN();
  auto p = filled({4, 3}, 1), mean = filled({4, 3}, 0), squares = mean;
  lod::adam(p, mean, squares, g, {.step = 1});
  for (std::int64_t i = 0; i < 12; ++i) CHECK(std::isnan(p.data()[i]) == (i == 7));
}

TEST_CASE_TEMPLATE("optimizers: 16-bit parameters with states of float", T, lod::float16, lod::bfloat16) {
  Engine engine(1);
  const SelectedRows<T> g({3, 0, 3}, 5, real_numbers<T>(engine, {3, 9}));
  const auto start = real_numbers<T>(engine, {5, 9});
  LoDTensor<T> p = start;
  LoDTensor<float> mean({5, 9}), squares({5, 9}), wide({5, 9}), wide_mean({5, 9}), wide_squares({5, 9});
  for (std::int64_t i = 0; i < 45; ++i) wide.data()[i] = static_cast<float>(start.data()[i]);
  const auto merged = lod::merge_add(g);
  SelectedRows<float> wide_g(merged.rows(), 5, {9});
  for (std::size_t i = 0; i < merged.value().values().size(); ++i) {
    wide_g.value().values()[i] = static_cast<float>(merged.value().values()[i]);
  }
  lod::adam(p, mean, squares, g, {.step = 1});
  lod::adam(wide, wide_mean, wide_squares, wide_g, {.step = 1});
  CHECK(same_bits(mean, wide_mean));
  CHECK(same_bits(squares, wide_squares));
  for (std::int64_t i = 0; i < 45; ++i) {
    CHECK(static_cast<float>(p.data()[i]) == static_cast<float>(static_cast<T>(wide.data()[i])));
  }
}

TEST_CASE("optimizers: parameters, states and gradients may be slices") {
  Engine engine(2);
  const auto start = real_numbers<float>(engine, {12, 5}), all = real_numbers<float>(engine, {9, 5});
  auto p = start, mean = filled({6, 5}, 0), squares = mean;
  auto whole = LoDTensor<float>::copy_of(start.between(4, 8)), whole_mean = filled({4, 5}, 0),
       whole_squares = whole_mean;
  const SelectedRows<float> g({3, 1, 3}, 4, real_numbers<float>(engine, {3, 5}));
  lod::adam(p.between(4, 8), mean.between(1, 5), squares.between(2, 6), g, {.step = 1});
  lod::adam(whole, whole_mean, whole_squares, g, {.step = 1});
  lod::adam(p.between(4, 8), mean.between(1, 5), squares.between(2, 6), all.between(3, 7), {.step = 2});
  lod::adam(whole, whole_mean, whole_squares, all.between(3, 7), {.step = 2});
  CHECK(same_bits(p.between(4, 8), whole));
  CHECK(same_bits(mean.between(1, 5), whole_mean));
  CHECK(same_bits(squares.between(2, 6), whole_squares));
  CHECK(same_bits(p.between(0, 4), start.between(0, 4)));
  CHECK(same_bits(p.between(8, 12), start.between(8, 12)));
}

TEST_CASE("optimizers: shapes that do not agree are refused and nothing changes") {
  auto p = filled({10, 3}, 1);
  auto s = p, t = p, u = p;
  const SelectedRows<float> g({1}, 10, {3});
  const auto refuse = [&](const auto& call, const char* text) { check_throws<lod::ShapeMismatch>(call, text, p); };
  refuse([&] { lod::sgd(p, SelectedRows<float>({1}, 9, {3}), 0.1); }, "sgd: gradient: 9 rows, expected 10");
  refuse([&] { lod::sgd(p, SelectedRows<float>({1}, 10, {2}), 0.1); },
         "sgd: gradient: rows of shape {2}, expected {3}");
  refuse([&] { lod::sgd(p, LoDTensor<float>({9, 3}), 0.1); }, "sgd: gradient: 9 rows, expected 10");
  refuse([&] { lod::sgd(p, LoDTensor<float>({10, 1, 3}), 0.1); }, "sgd: gradient: rows of shape {1, 3}, expected {3}");
  LoDTensor<float> bad({10, 4});
  refuse([&] { lod::momentum(p, bad, g); }, "momentum: velocity: rows of shape {4}, expected {3}");
  refuse([&] { lod::adagrad(p, bad, g); }, "adagrad: squares: rows of shape {4}");
  refuse([&] { lod::rmsprop(p, bad, s, g); }, "rmsprop: squares: rows of shape {4}");
  refuse([&] { lod::rmsprop(p, s, bad, g); }, "rmsprop: velocity: rows of shape {4}");
  refuse([&] { lod::rmsprop(p, s, t, bad, g); }, "rmsprop: mean: rows of shape {4}");
  refuse([&] { lod::adam(p, bad, s, g, {.step = 1}); }, "adam: mean: rows of shape {4}");
  refuse([&] { lod::adam(p, s, p.between(0, 9), g, {.step = 1}); }, "adam: squares: 9 rows, expected 10");
  refuse([&] { lod::ftrl(p, bad, s, g); }, "ftrl: squares: rows of shape {4}");
  refuse([&] { lod::ftrl(p, s, bad, g); }, "ftrl: linear: rows of shape {4}");
  CHECK(same_bits(s, u));
  CHECK(same_bits(t, u));
  CHECK_THROWS_AS(SelectedRows<float>({10}, 10, {3}), lod::OutOfRange);
  CHECK_THROWS_AS(SelectedRows<float>({-1}, 10, {3}), lod::OutOfRange);
}

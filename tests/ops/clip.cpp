// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/close.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/repeatable.hpp"
#include "support/row_sparse.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <stdexcept>
#include <type_traits>
#include <vector>

using lod::LoDTensor;
using lod::SelectedRows;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;
using Reals = std::vector<double>;

TEST_CASE("clip: repeated rows add up first; NaN stays, rows that are not listed stay zero") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto g = rows_of_one<double>({4, 0, 4, 2, 3}, 5, {0.75, -3, 0.75, 0.5, nan});
  const auto clipped = lod::clip(g, -1, 1);
  CHECK(clipped.rows() == Numbers{0, 2, 3, 4});
  CHECK(clipped.value().data()[0] == -1);
  CHECK(clipped.value().data()[1] == 0.5);
  CHECK(std::isnan(clipped.value().data()[2]));
  CHECK(clipped.value().data()[3] == 1);
  CHECK(lod::to_dense(lod::clip(g, 1, 2)).data()[1] == 0);
  CHECK(numbers_of(lod::clip(rows_of_one<std::int16_t>({1, 0, 1}, 2, {5, -7, 4}), -6, 8).value()) == Reals{-6, 8});
  CHECK(lod::clip(SelectedRows<float>({}, 5, {2}), -1, 1).rows().empty());
  CHECK_THROWS_WITH_AS(lod::clip(g, 1, 0), "clip: the lower bound is 1, expected not to exceed the upper one, 0",
                       std::invalid_argument);
  CHECK_THROWS_AS(lod::clip(g, nan, 0), std::invalid_argument);
}

TEST_CASE_TEMPLATE("clip: integers go to the integers between bounds of any type", T, std::int8_t, std::uint8_t,
                   std::int16_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  using Limits = std::numeric_limits<T>;
  constexpr T least = Limits::lowest(), greatest = Limits::max();
  SelectedRows<T> g({0, 1, 2, 3, 4, 5}, 6, {});
  const std::array<T, 6> values{least, static_cast<T>(std::signed_integral<T> ? -5 : 0), 1, 3, 100, greatest};
  std::copy(values.begin(), values.end(), g.value().data());
  const auto numbers = [](const SelectedRows<T>& x) {
    return std::vector<T>(x.value().values().begin(), x.value().values().end());
  };
  const auto check = [&](lod::Scalar low, lod::Scalar high, T lower, T upper) {
    std::vector<T> expected = numbers(g);
    for (T& number : expected) number = std::clamp(number, lower, upper);
    for_each_executor([&](const auto& executor) { CHECK(numbers(lod::clip(executor, g, low, high)) == expected); });
  };
  check(-infinity, infinity, least, greatest);
  check(-1e30, 1e30, least, greatest);
  check(-1e30F, 1e30F, least, greatest);
  check(0, infinity, 0, greatest);
  check(0.0, 5, 0, 5);
  check(0.5, 2.5, 1, 2);
  check(-0.5, 2, 0, 2);
  check(0.2, 1, 1, 1);
  check(2, 99.5F, 2, 99);
  check(INT64_MIN, INT64_MAX, least,
        static_cast<T>(std::min<std::uint64_t>(static_cast<std::uint64_t>(greatest), INT64_MAX)));
  check(std::int64_t{1} << 40, infinity,
        static_cast<T>(std::min<std::uint64_t>(static_cast<std::uint64_t>(greatest), std::uint64_t{1} << 40)),
        greatest);
  // The numbers of the type that are nearest to [300, 400] and to [-3, -2.5].
  if constexpr (sizeof(T) == 1) check(300, 400.0, greatest, greatest);
  if constexpr (std::unsigned_integral<T>) check(-3, -2.5, 0, 0);
  if constexpr (std::signed_integral<T>) check(-7.5, -1.5, -7, -2);
  // Bounds that a double does not have.
  if constexpr (sizeof(T) == 8)
    check((std::int64_t{1} << 60) + 1, (std::int64_t{1} << 60) + 1, (T{1} << 60) + 1, (T{1} << 60) + 1);

  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(lod::clip(g, 0.2, 0.8), "clip: the bounds are 0.2 and 0.8, expected an integer between them",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(lod::clip(g, nan, 1), "clip: the lower bound is nan, expected not to exceed the upper one, 1",
                       std::invalid_argument);
  CHECK_THROWS_AS(lod::clip(g, 0, nan), std::invalid_argument);
  CHECK_THROWS_AS(lod::clip(g, infinity, -infinity), std::invalid_argument);
  CHECK_THROWS_AS(lod::clip(g, (std::int64_t{1} << 60) + 1, std::int64_t{1} << 60), std::invalid_argument);
}

TEST_CASE("clip_by_norm: the norm is that of the merged rows") {
  const auto g = rows_of_one<double>({4, 0, 4}, 5, {1, 4, 2});  // merged: 4 and 3, of length 5
  const auto shorter = lod::clip_by_norm(g, 2.5);
  CHECK(shorter.rows() == Numbers{0, 4});
  CHECK(numbers_of(shorter.value()) == Reals{2, 1.5});
  CHECK(numbers_of(lod::clip_by_norm(g, 5).value()) == Reals{4, 3});
  CHECK(numbers_of(lod::clip_by_norm(g, 0).value()) == Reals{0, 0});
  // Squares beyond what float holds.
  const auto great = lod::clip_by_norm(rows_of_one({0, 1}, 2, {3e30, 4e30}), 5.0);
  CHECK(great.value().data()[0] == doctest::Approx(3));
  CHECK(static_cast<float>(lod::clip_by_norm(rows_of_one<lod::float16>({0, 1}, 2, {300, 400}), 5).value().data()[1]) ==
        4);
  CHECK(lod::clip_by_norm(SelectedRows<float>({}, 5, {2}), 1).rows().empty());
  const auto undefined = lod::clip_by_norm(rows_of_one({0, 1}, 2, {std::nan(""), 4}), 1.0);
  CHECK(undefined.value().data()[1] == 4);
  CHECK_THROWS_WITH_AS(lod::clip_by_norm(g, -1), "clip_by_norm: the norm is -1, expected 0 or more",
                       std::invalid_argument);
  CHECK_THROWS_AS(lod::clip_by_norm(g, std::nan("")), std::invalid_argument);
}

TEST_CASE("clip_grad, clip_by_norm_grad: agree with differences, repeated rows included") {
  Engine engine(6);
  const Numbers rows = {3, 0, 3, 5, 0, 3, 2}, merged = {0, 2, 3, 5};
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto value = real_numbers<double>(engine, {7, row_size});
    const auto g = [&] { return SelectedRows<double>(rows, 6, LoDTensor<double>(value)); };
    const auto gradient = [&](const auto& dy) { return SelectedRows<double>(merged, 6, LoDTensor<double>(dy)); };
    check_gradient(
        engine, value, [&](const auto&) { return lod::clip(g(), -3, 1.5).value(); },
        [&](const auto& dy) {
          const auto dg = lod::clip_grad(gradient(dy), g(), -3, 1.5);
          CHECK(dg.rows() == rows);
          return dg.value();
        });
    for (const double norm : {0.0, 1.5, 1000.0}) {
      check_gradient(
          engine, value, [&](const auto&) { return lod::clip_by_norm(g(), norm).value(); },
          [&](const auto& dy) { return lod::clip_by_norm_grad(gradient(dy), g(), norm).value(); });
    }
  }
  const SelectedRows<float> none({}, 6, {2}), one({1}, 6, {2}), other({2}, 6, {2});
  CHECK(lod::clip_grad(none, none, -1, 1).rows().empty());
  CHECK(lod::clip_by_norm_grad(none, none, 1).rows().empty());
  SelectedRows<float> dg({1}, 2, {});
  const lod::CpuExecutor executor(1);
  check_throws<lod::ShapeMismatch>([&] { lod::clip_grad_into(executor, one, other, -1, 1, dg); },
                                   "clip_grad: the ids of dy, expected those of the rows", dg.value());
  check_throws<lod::ShapeMismatch>([&] { lod::clip_by_norm_grad_into(executor, one, none, 1, dg); },
                                   "clip_by_norm_grad: the ids of dy", dg.value());
  check_throws<std::invalid_argument>([&] { lod::clip_grad_into(executor, one, one, 1, -1, dg); },
                                      "clip_grad: the lower bound", dg.value());
  check_throws<std::invalid_argument>([&] { lod::clip_by_norm_grad_into(executor, one, one, -1, dg); },
                                      "clip_by_norm_grad: the norm", dg.value());
}

TEST_CASE("clip, clip_by_norm: the same bits for any number of threads; a second call allocates nothing") {
  Engine engine(5);
  const auto g = rows_mostly_one<float>(engine, 40000, 3000, 5);
  struct Results {
    SelectedRows<float> clipped, shorter, clip_gradient, norm_gradient;
    explicit Results(std::pmr::memory_resource* resource)
        : clipped(resource), shorter(resource), clip_gradient(resource), norm_gradient(resource) {}
  };
  check_repeatable<Results>(
      [&](const auto& executor, Results& r) {
        lod::clip_into(executor, g, -0.5, 0.75, r.clipped);
        lod::clip_by_norm_into(executor, g, 10, r.shorter);
        lod::clip_grad_into(executor, r.clipped, g, -0.5, 0.75, r.clip_gradient);
        lod::clip_by_norm_grad_into(executor, r.clipped, g, 10, r.norm_gradient);
      },
      [](const Results& a, const Results& b) {
        CHECK(same_bits(a.clipped.value(), b.clipped.value()));
        CHECK(same_bits(a.shorter.value(), b.shorter.value()));
        CHECK(same_bits(a.clip_gradient.value(), b.clip_gradient.value()));
        CHECK(same_bits(a.norm_gradient.value(), b.norm_gradient.value()));
      });
}

TEST_CASE("infer_clip, infer_clip_by_norm: allow what the operations give") {
  const SelectedRows<float> g({4, 0, 4}, 10, {8});
  for (const auto& desc : {describe(g), blank(describe(g))}) {
    CHECK_NOTHROW(lod::check(lod::clip(g, -1, 1), lod::infer_clip(desc)));
    CHECK_NOTHROW(lod::check(lod::clip_by_norm(g, 1), lod::infer_clip_by_norm(desc)));
  }
  CHECK_THROWS_AS(lod::infer_clip({lod::DataType::BOOL, {10, 8}}), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_clip_by_norm({lod::DataType::INT32, {10, 8}}), lod::ShapeMismatch);
}

TEST_CASE("clip, clip_by_norm: agree with plain loops over the dense tensor, for every type and row size") {
  using Numeric = Types<std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t, lod::float16,
                        lod::bfloat16, float, double>;
  for_each_type(Numeric(), []<class T>(std::type_identity<T>) {
    Engine engine(7);
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      Numbers rows;
      for (int i = 0; i < 12; ++i) rows.push_back(random_number(engine, 0, 8));
      const SelectedRows<T> g(rows, 9, small_integers<T>(engine, {12, row_size}));
      const Reals dense = numbers_of(lod::to_dense(g));
      const double least = std::unsigned_integral<T> ? 1 : -2;
      Reals expected = numbers_of(lod::merge_add(g).value());
      double squares = 0;
      for (double& number : expected) {
        squares += number * number;
        number = std::clamp(number, least, 3.0);
      }
      for_each_executor([&](const auto& executor) {
        CHECK(numbers_of(lod::clip(executor, g, least, 3).value()) == expected);
        if constexpr (!std::integral<T>) {
          const double factor = squares > 2.25 ? 1.5 / std::sqrt(squares) : 1;
          const Reals found = numbers_of(lod::to_dense(lod::clip_by_norm(executor, g, 1.5)));
          bool close = true;
          for (std::size_t i = 0; i < found.size(); ++i) close = close && std::abs(found[i] - factor * dense[i]) < 0.02;
          CHECK(close);
        }
      });
    }
  });
}

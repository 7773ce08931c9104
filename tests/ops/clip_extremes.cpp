// SPDX-License-Identifier: Apache-2.0
// Norms of values whose squares are too large or too small for their types.
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

using lod::SelectedRows;
using namespace lod_test;

namespace {

using Real = long double;

template <class T>
Real real(T number) {
  return static_cast<Real>(static_cast<double>(number));
}

/// Values about 2^exponent, of both signs; the others are far smaller.
template <class T>
SelectedRows<T> values_about(Engine& engine, int exponent, std::int64_t rows, std::int64_t row_size) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(rows));
  std::iota(ids.begin(), ids.end(), 0);
  SelectedRows<T> g(ids, rows, {row_size});
  std::uniform_real_distribution<double> number(-1, 1);
  for (T& value : g.value().values()) {
    const int less = engine() % 4 == 0 ? 30 : 0;
    value = static_cast<T>(std::ldexp(number(engine), exponent - less));
  }
  return g;
}

template <class T>
Real length(const SelectedRows<T>& g) {
  Real sum = 0;
  for (const T& value : g.value().values()) sum += real(value) * real(value);
  return std::sqrt(sum);
}

/// What a number may be off by.
template <class T>
Real bound_of(Real exact, Real scale) {
  using Limits = std::numeric_limits<T>;
  return 8 * real(Limits::epsilon()) * (std::fabs(exact) + scale) + real(Limits::denorm_min());
}
template <class T>
void check_close(T found, Real exact, Real scale) {
  // Of very many numbers only those are checks of doctest's that would fail.
  const Real error = std::fabs(real(found) - exact), bound = bound_of<T>(exact, scale);
  if (!(error <= bound)) {
    CHECK(error <= bound);
  }
}

/// Values about 2^exponent, and gradients about 2^(exponent / 3), 2^greatest and 2^-greatest.
template <class T>
void check_norms(int greatest, std::initializer_list<int> exponents) {
  for (const int exponent : exponents) {
    using Case = std::pair<std::int64_t, int>;
    for (const Case& each : {Case{1, exponent / 3}, Case{1, greatest}, Case{1, -greatest}, Case{3, exponent / 3},
                             Case{3, greatest}, Case{3, -greatest}, Case{700, exponent / 3}}) {
      const std::int64_t rows = each.first;
      const int gradient_exponent = each.second;
      for (const int norm_exponent : {0, -150, exponent - 1, exponent / 2}) {
        Engine engine(first_seed() + static_cast<std::uint64_t>(rows));
        CAPTURE(first_seed());
        CAPTURE(exponent);
        CAPTURE(gradient_exponent);
        CAPTURE(norm_exponent);
        CAPTURE(rows);
        const double norm = std::ldexp(1.0, norm_exponent);
        const SelectedRows<T> g = values_about<T>(engine, exponent, rows, 3);
        const SelectedRows<T> dy = values_about<T>(engine, gradient_exponent, rows, 3);
        const Real l = length(g), factor = l > norm ? norm / l : 1;
        Real product = 0;
        for (std::size_t i = 0; i < g.value().values().size(); ++i) {
          product += real(g.value().values()[i]) * real(dy.value().values()[i]);
        }
        const auto one = lod::clip_by_norm(lod::CpuExecutor(1), g, norm);
        const auto one_grad = lod::clip_by_norm_grad(lod::CpuExecutor(1), dy, g, norm);
        Real largest = 0;
        for (const T& number : dy.value().values()) largest = std::max(largest, std::fabs(real(number)));
        for (std::size_t i = 0; i < g.value().values().size(); ++i) {
          const Real x = real(g.value().values()[i]), d = real(dy.value().values()[i]);
          check_close(one.value().values()[i], x * factor, 0);
          check_close(one_grad.value().values()[i], l > norm ? factor * (d - x * (product / l / l)) : d,
                      factor * largest);
        }
        for_each_executor([&](const auto& executor) {
          CHECK(same_bits(lod::clip_by_norm(executor, g, norm).value(), one.value()));
          CHECK(same_bits(lod::clip_by_norm_grad(executor, dy, g, norm).value(), one_grad.value()));
        });
      }
    }
  }
}

}  // namespace

TEST_CASE("clip_by_norm and its gradient: values of every size") {
  check_norms<double>(1010, {1023, 1000, 700, 512, 480, 100, 0, -100, -440, -460, -700, -1000, -1060});
  check_norms<float>(120, {127, 100, 64, 0, -64, -100, -140});
  check_norms<lod::bfloat16>(120, {126, 70, 0, -70, -126});
  check_norms<lod::float16>(12, {15, 8, 0, -8, -14});
}

TEST_CASE("clip_by_norm_grad: large gradients whose products with the values add up to 0") {
  const double large = 0x1p1015;
  SelectedRows<double> g({0}, 1, {4}), dy({0}, 1, {4});
  for (const std::vector<double>& values : {std::vector<double>{-1, -0.5, 0, 0.25}, {2, 2, 0, 1e-300}}) {
    std::copy(values.begin(), values.end(), g.value().data());
    for (const std::vector<double>& gradient : {std::vector<double>{0, 0, large, 0}, {large, -2 * large, 0, 0}}) {
      std::copy(gradient.begin(), gradient.end(), dy.value().data());
      Real product = 0;
      for (std::size_t i = 0; i < 4; ++i) product += real(values[i]) * real(gradient[i]);
      for (const double norm : {0.0, 0.5, 0x1p-600}) {
        for_each_executor([&](const auto& executor) {
          const auto d = lod::clip_by_norm_grad(executor, dy, g, norm);
          const Real l = length(g), factor = real(norm) / l;
          for (std::size_t i = 0; i < 4; ++i) {
            const Real exact = factor * (real(gradient[i]) - real(values[i]) * (product / l / l));
            check_close(d.value().values()[i], exact, factor * large);
          }
        });
      }
    }
  }
}

TEST_CASE("clip_by_norm: zeros stay, NaN changes nothing, an infinite length leaves zeros and NaN") {
  const double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto clipped = [](const auto& executor, std::vector<double> values, double norm) {
    SelectedRows<double> g({0}, 1, {3});
    std::copy(values.begin(), values.end(), g.value().data());
    const auto y = lod::clip_by_norm(executor, g, norm);
    return std::vector<double>(y.value().values().begin(), y.value().values().end());
  };
  for_each_executor([&](const auto& executor) {
    CHECK(clipped(executor, {0, -0.0, 0}, 1) == std::vector<double>{0, 0, 0});
    CHECK(std::signbit(clipped(executor, {0, -0.0, 0}, 1)[1]));
    CHECK(clipped(executor, {0, 0, 0}, 0) == std::vector<double>{0, 0, 0});
    const auto with_nan = clipped(executor, {1e300, nan, 1e300}, 1);
    CHECK(with_nan[0] == 1e300);
    CHECK(std::isnan(with_nan[1]));
    const auto of_infinite = clipped(executor, {1e300, infinite, -2}, 1);
    CHECK(of_infinite[0] == 0);
    CHECK(std::isnan(of_infinite[1]));
    CHECK(of_infinite[2] == 0);
    CHECK(clipped(executor, {1e300, -1e-300, 1e-320}, 0) == std::vector<double>{0, 0, 0});
    CHECK(clipped(executor, {1e300, 1e300, 1e300}, infinite) == std::vector<double>{1e300, 1e300, 1e300});
  });
}

// SPDX-License-Identifier: Apache-2.0
// The exponentials and logarithms of the CPU's kernels against those of double precision.
#include "support/close.hpp"
#include "support/grain.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace {

constexpr auto exponential_of = [](const auto& x) { return lod::kernel::cpu::exponential(x); };
constexpr auto logarithm_of = [](const auto& x) { return lod::kernel::cpu::logarithm(x); };

/// What `function` gives for a number in any lane.
template <class Function>
float in_any_lane(const Function& function, float x) {
  using V = xsimd::batch<float>;
  float numbers[V::size];
  function(V(x)).store_unaligned(numbers);
  for (const float number : numbers)
    CHECK(std::bit_cast<std::uint32_t>(number) == std::bit_cast<std::uint32_t>(numbers[0]));
  return numbers[0];
}

float vector_exponential(float x) { return in_any_lane(exponential_of, x); }
float vector_logarithm(float x) { return in_any_lane(logarithm_of, x); }

/// The greatest distance from the true values, in units in the last place, for one of `step` floats of `count` from
/// `first` on, and for fewer where all is slow.
template <class Function, class Truth>
double greatest_error(const Function& function, const Truth& true_value, float first, std::uint32_t count,
                      std::uint32_t step) {
  using V = xsimd::batch<float>;
  double greatest = 0;
  if (lod_test::slow) step *= 8;
  for (std::uint32_t i = 0; i < count; i += step * static_cast<std::uint32_t>(V::size)) {
    float x[V::size], y[V::size];
    for (std::size_t k = 0; k < V::size; ++k) {
      x[k] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(first) + i + static_cast<std::uint32_t>(k) * step);
    }
    function(V::load_unaligned(x)).store_unaligned(y);
    for (std::size_t k = 0; k < V::size; ++k) {
      const double truth = true_value(static_cast<double>(x[k]));
      const auto near = std::abs(static_cast<float>(truth));
      const double unit = static_cast<double>(std::nextafter(near, 1e38f)) - static_cast<double>(near);
      greatest = std::max(greatest, std::abs(static_cast<double>(y[k]) - truth) / unit);
    }
  }
  return greatest;
}

}  // namespace

TEST_CASE("Exponentials: within two units in the last place, from the least to the greatest that is finite") {
  // Every 61st float on both sides of 0; beyond 87 nearly all.
  const auto floats = [](float from, float to) {
    return std::bit_cast<std::uint32_t>(to) - std::bit_cast<std::uint32_t>(from);
  };
  const auto error = [](float first, std::uint32_t count, std::uint32_t step) {
    return greatest_error(
        exponential_of, [](double x) { return std::exp(x); }, first, count, step);
  };
  CHECK(error(1e-10f, floats(1e-10f, 88.f), 61) <= 2);
  CHECK(error(-1e-10f, floats(-1e-10f, -87.f), 61) <= 2);
  CHECK(error(88.f, floats(88.f, 88.376f), 1) <= 2);
  CHECK(error(-87.f, floats(-87.f, -87.336f), 1) <= 2);
}

TEST_CASE("Exponentials: zero, infinities, what is too small and too great, NaN") {
  CHECK(vector_exponential(0.f) == 1.f);
  CHECK(vector_exponential(-0.f) == 1.f);
  CHECK(vector_exponential(1e-30f) == 1.f);
  CHECK(vector_exponential(-lod_test::infinity) == 0.f);
  CHECK(vector_exponential(-88.f) == 0.f);
  CHECK(vector_exponential(-1e30f) == 0.f);
  CHECK(vector_exponential(lod_test::infinity) == lod_test::infinity);
  CHECK(vector_exponential(89.f) == lod_test::infinity);
  CHECK(vector_exponential(1e30f) == lod_test::infinity);
  CHECK(std::isnan(vector_exponential(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(vector_exponential(-std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("Logarithms: within two units in the last place, from the least normal number to the greatest") {
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  const auto error = [&](float from, float to, std::uint32_t step) {
    return greatest_error(
        logarithm_of, [](double x) { return std::log(x); }, from, bits(to) - bits(from), step);
  };
  CHECK(error(std::numeric_limits<float>::min(), 0.4f, 61) <= 2);
  CHECK(error(0.4f, 2.5f, 7) <= 2);
  CHECK(error(0.99f, 1.01f, 1) <= 2);
  CHECK(error(2.5f, 3.4e38f, 61) <= 2);
}

TEST_CASE("Logarithms: one, zero, infinity, NaN") {
  CHECK(vector_logarithm(1.f) == 0.f);
  CHECK(vector_logarithm(0.f) == -lod_test::infinity);
  CHECK(vector_logarithm(1e-45f) == -lod_test::infinity);
  CHECK(vector_logarithm(lod_test::infinity) == lod_test::infinity);
  CHECK(std::isnan(vector_logarithm(std::numeric_limits<float>::quiet_NaN())));
  const xsimd::batch<double> of_doubles = lod::kernel::cpu::logarithm(xsimd::batch<double>(10.));
  CHECK(of_doubles.get(0) == std::log(10.));
}

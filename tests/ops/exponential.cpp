// SPDX-License-Identifier: Apache-2.0
// The exponentials of the CPU's kernels against those of double precision.
#include "support/close.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace {

float vector_exponential(float x) {
  using V = xsimd::batch<float>;
  float numbers[V::size];
  lod::kernel::cpu::exponential(V(x)).store_unaligned(numbers);
  for (const float number : numbers)
    CHECK(std::bit_cast<std::uint32_t>(number) == std::bit_cast<std::uint32_t>(numbers[0]));
  return numbers[0];
}

/// The greatest distance from the true values, in units in the last place, for all floats of `count` from `first` on.
double greatest_error(float first, std::uint32_t count, std::uint32_t step) {
  using V = xsimd::batch<float>;
  double greatest = 0;
  for (std::uint32_t i = 0; i < count; i += step * static_cast<std::uint32_t>(V::size)) {
    float x[V::size], y[V::size];
    for (std::size_t k = 0; k < V::size; ++k) {
      x[k] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(first) + i + static_cast<std::uint32_t>(k) * step);
    }
    lod::kernel::cpu::exponential(V::load_unaligned(x)).store_unaligned(y);
    for (std::size_t k = 0; k < V::size; ++k) {
      const double truth = std::exp(static_cast<double>(x[k]));
      const double unit = static_cast<double>(std::nextafter(static_cast<float>(truth), 1e38f)) -
                          static_cast<double>(static_cast<float>(truth));
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
  CHECK(greatest_error(1e-10f, floats(1e-10f, 88.f), 61) <= 2);
  CHECK(greatest_error(-1e-10f, floats(-1e-10f, -87.f), 61) <= 2);
  CHECK(greatest_error(88.f, floats(88.f, 88.376f), 1) <= 2);
  CHECK(greatest_error(-87.f, floats(-87.f, -87.336f), 1) <= 2);
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

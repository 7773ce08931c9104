// SPDX-License-Identifier: Apache-2.0
/// @file
/// Results of the same call on two devices, compared.
#pragma once

#include "support/device_call.hpp"
#include <lod/data_type.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <vector>

namespace lod_test {

/// `found` is near `expected`, where both hold numbers of type T: each within a part of itself, and a tenth of that
/// part of what the numbers are like on the whole, since sums of many may be near 0 by chance.
template <class T>
bool near(const std::vector<std::byte>& found, const std::vector<std::byte>& expected, double tolerance) {
  if (found.size() != expected.size()) return false;
  const auto number = [](const std::vector<std::byte>& values, std::size_t at) {
    T value{};
    std::memcpy(&value, &values[at], sizeof(T));
    return static_cast<double>(value);
  };
  double squares = 0;
  for (std::size_t at = 0; at < expected.size(); at += sizeof(T)) {
    const double y = number(expected, at);
    if (std::isfinite(y)) squares += y * y;
  }
  const double like = std::sqrt(squares * sizeof(T) / static_cast<double>(std::max<std::size_t>(expected.size(), 1)));
  for (std::size_t at = 0; at < found.size(); at += sizeof(T)) {
    const double x = number(found, at), y = number(expected, at);
    const bool same = x == y || (std::isnan(x) && std::isnan(y));
    const bool close = std::isfinite(y) && std::fabs(x - y) <= tolerance * (std::fabs(y) + like / 10);
    if (!same && !close) return false;
  }
  return true;
}

/// Those of a GPU have other bits where it rounds in other places than the CPU: floating-point numbers may differ by a
/// few units of their last places.
inline void check_same_results(const std::vector<Result>& found, const std::vector<Result>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    CHECK(found[i].lod == expected[i].lod);
    CHECK(found[i].shape == expected[i].shape);
    CHECK(found[i].type == expected[i].type);
    bool same = found[i].values == expected[i].values;
#ifndef LOD_TEST_EMULATED_GPU
    const auto close = [&]<class T>(T, double tolerance) {
      return found[i].type == lod::data_type_v<T> && near<T>(found[i].values, expected[i].values, tolerance);
    };
    same = same || close(float(), 1e-4) || close(double(), 1e-12) || close(lod::float16(), 4e-3) ||
           close(lod::bfloat16(), 3e-2);
#endif
    CHECK(same);
  }
}

}  // namespace lod_test

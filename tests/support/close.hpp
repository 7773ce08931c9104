// SPDX-License-Identifier: Apache-2.0
/// @file
/// Results of exponentials and of recurrent layers against a reference in double.
#pragma once

#include "support/reference.hpp"
#include <lod/float16.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

namespace lod_test {

inline constexpr float infinity = std::numeric_limits<float>::infinity();

/// How far what is made of exponentials may be from the reference, in parts of the greater of it and 1.
template <class T>
constexpr double tolerance() {
  return std::is_same_v<T, double>         ? 1e-13
         : std::is_same_v<T, float>        ? 2e-6
         : std::is_same_v<T, lod::float16> ? 1e-3
                                           : 8e-3;
}
template <class T>
bool close(T found, double expected, double allowed = tolerance<T>()) {
  const auto number = static_cast<double>(found);
  return same_number(number, expected) || std::abs(number - expected) <= allowed * std::max(1.0, std::abs(expected));
}

/// Whether all states of a recurrent layer are close to the reference.
template <class T>
bool close_states(std::span<const T> found, const std::vector<double>& expected) {
  const double allowed = std::is_same_v<T, double> ? 1e-13 : std::is_same_v<T, float> ? 1e-5 : 0.05;
  bool all = found.size() == expected.size();
  for (std::size_t i = 0; all && i < expected.size(); ++i) {
    all = std::abs(static_cast<double>(found[i]) - expected[i]) < allowed;
  }
  return all;
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace lod_test

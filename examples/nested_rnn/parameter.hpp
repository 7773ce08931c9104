// SPDX-License-Identifier: Apache-2.0
/// @file
/// A weight matrix and its gradient.
#pragma once

#include "random.hpp"
#include <lod/lod.hpp>

#include <cmath>
#include <cstdint>

template <class T>
struct Parameter {
  /// Uniform in +-sqrt(3 / rows), so that a product with it keeps the variance of its rows.
  Parameter(std::int64_t rows, std::int64_t columns, Random& random) : Parameter(rows, columns) {
    const double limit = std::sqrt(3.0 / static_cast<double>(rows));
    for (T& weight : value.values()) weight = static_cast<T>(random.symmetric(limit));
  }
  /// Zero.
  Parameter(std::int64_t rows, std::int64_t columns) : value({rows, columns}), gradient({rows, columns}) {}

  lod::LoDTensor<T> value;
  lod::LoDTensor<T> gradient;
};

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the numbers of a tensor are like, and the lengths of its sequences.
#pragma once

#include <lod/any_tensor.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

namespace lodinfo {

/// As exact as the elements are.
using Number = std::variant<std::int64_t, std::uint64_t, float, double>;

/// Of complex numbers: of their absolute values.
struct ValueStatistics {
  std::int64_t count = 0, zeros = 0, nans = 0, infinities = 0;
  /// Of those that are neither NaN nor infinite, and only where there are some.
  struct Finite {
    Number min, max;
    double mean = 0, standard_deviation = 0;  // of all that there are, not of a sample
  };
  std::optional<Finite> finite = {};
};

/// Whether C++ has a type for the elements; without one, nothing can be said of them.
bool has_numbers(lod::DataType type);

/// One pass over the values. `has_numbers(x.data_type())`.
ValueStatistics statistics_of_values(const lod::AnyLoDTensor& x);

struct LengthStatistics {
  std::int64_t count = 0, empty = 0, min = 0, max = 0;
  double median = 0, mean = 0;
  /// How many have a length from `first` to `last`. All bars together have all of them.
  struct Bar {
    std::int64_t first, last, count;
  };
  std::vector<Bar> histogram = {};
};

/// Of the sequences between these offsets. All 0 where there is none.
LengthStatistics statistics_of_lengths(std::span<const std::int64_t> offsets);

}  // namespace lodinfo

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Cliffs: where an operation takes much longer a byte than on data that differ a little. An operation is walked along
/// axes, one at a time: the size of its rows, the lengths of its sequences, its values, their type.
#pragma once

#include <suite/workload.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace benchmarks {

/// The name of a place on an axis: a row size, lengths (distributions.hpp), values (`fill_values`), a type.
using Name = std::string;

enum class Axis : std::uint8_t { ROW_SIZE, LENGTHS, VALUES, DTYPE };
inline constexpr std::array all_axes{Axis::ROW_SIZE, Axis::LENGTHS, Axis::VALUES, Axis::DTYPE};
inline constexpr std::array axis_names{"row_size", "lengths", "values", "dtype"};

/// The places of an axis where an operation is measured. The neighbours of a place are the ordinary one and, among
/// those that have an order, the previous and the next one.
struct Places {
  Name ordinary;
  std::vector<Name> in_order = {};
  std::vector<Name> others = {};
};

/// A place on each axis.
using Place = std::array<Name, all_axes.size()>;

/// An operation, or a form of it, where it is walked.
struct Walk {
  std::string name;
  std::array<Places, all_axes.size()> axes;
  /// Its data there, with one contender and the bytes that a call must touch.
  std::function<Job(const Place& place, int threads)> make;
};

/// All there are (cases.cpp).
std::vector<Walk> all_walks();

}  // namespace benchmarks

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What a LoD means, spelled out naively: sequences as nested vectors down to the single rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lod_test {

/// A batch, a sequence of some level, or a row.
struct Nested {
  std::vector<Nested> parts;   ///< sequences of the next level, or rows
  std::int64_t first_row = 0;  ///< how many rows stand before it
  bool is_row = false;

  std::int64_t size() const { return static_cast<std::int64_t>(parts.size()); }
  const Nested& operator[](std::int64_t i) const { return parts.at(static_cast<std::size_t>(i)); }

  std::int64_t rows() const {
    if (is_row) return 1;
    std::int64_t count = 0;
    for (const Nested& part : parts) count += part.rows();
    return count;
  }
  /// The sequences of `level`, in order: level 0 are the parts themselves.
  std::vector<const Nested*> sequences(int level) const {
    std::vector<const Nested*> found;
    for (const Nested& part : parts) {
      if (level == 0) {
        found.push_back(&part);
      } else {
        for (const Nested* below : part.sequences(level - 1)) found.push_back(below);
      }
    }
    return found;
  }
  std::vector<std::int64_t> lengths(int level) const {
    std::vector<std::int64_t> all;
    for (const Nested* sequence : sequences(level)) all.push_back(sequence->size());
    return all;
  }
  std::vector<std::int64_t> absolute_offsets(int level) const {
    std::vector<std::int64_t> all;
    for (const Nested* sequence : sequences(level)) all.push_back(sequence->first_row);
    all.push_back(first_row + rows());
    return all;
  }
};

namespace detail {

inline Nested nest(const std::vector<std::vector<std::int64_t>>& lengths, std::vector<std::size_t>& next,
                   std::size_t level, std::int64_t size, std::int64_t& row) {
  Nested whole;
  whole.first_row = row;
  for (std::int64_t i = 0; i < size; ++i) {
    if (level == lengths.size()) {
      whole.parts.push_back({.parts = {}, .first_row = row++, .is_row = true});
    } else {
      whole.parts.push_back(nest(lengths, next, level + 1, lengths[level].at(next[level]++), row));
    }
  }
  return whole;
}

}  // namespace detail

/// The batch of these lengths, which are valid; of so many rows, where there is no level.
inline Nested nested(const std::vector<std::vector<std::int64_t>>& lengths, std::int64_t plain_rows = 0) {
  std::vector<std::size_t> next(lengths.size());
  std::int64_t row = 0;
  const auto size = lengths.empty() ? plain_rows : static_cast<std::int64_t>(lengths[0].size());
  return detail::nest(lengths, next, 0, size, row);
}

}  // namespace lod_test

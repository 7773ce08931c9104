// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rows of a batch as the blocks of a GPU go through them.
#pragma once

#include <lod/kernel.hpp>
#include <lod/kernels/thrust/bulk.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel::bulk {

/// Neighbouring rows that the threads of a block go through side by side. Of the sequences, those of its first and of
/// its last row are looked for among all, once; that of any row between them is among few.
class Tile {
 public:
  /// How many rows a tile has: about so many elements, and at least a row.
  static std::int64_t rows_of(std::int64_t row_size, std::int64_t elements) noexcept {
    return std::max<std::int64_t>(elements / row_size, 1);
  }

  /// The rows from `first` on, at most `rows`, which have less than 2^32 elements.
  LOD_HOST_DEVICE Tile(const Segments& sequences, std::uint32_t row_size, std::int64_t first,
                       std::int64_t rows) noexcept
      : sequences_(sequences), row_size_(row_size), first_(first), rows_(least(rows, sequences.rows() - first)) {}

  LOD_HOST_DEVICE std::int64_t first_row() const noexcept { return first_; }
  LOD_HOST_DEVICE std::int64_t last_row() const noexcept { return first_ + rows_ - 1; }
  LOD_HOST_DEVICE std::uint32_t elements() const noexcept { return static_cast<std::uint32_t>(rows_) * row_size_; }
  /// body(i, row, column) for one of the elements. `low` and `high` are the sequences of the first and of the last row.
  template <class Body>
  LOD_HOST_DEVICE void call(std::uint32_t element, std::int64_t low, std::int64_t high, const Body& body) const {
    const std::int64_t row = first_ + element / row_size_;
    body(sequence_between(sequences_, low, high, row), row, static_cast<std::int64_t>(element % row_size_));
  }

 private:
  const Segments& sequences_;
  std::uint32_t row_size_;
  std::int64_t first_;
  std::int64_t rows_;
};

}  // namespace kernel::bulk
}  // namespace lod::inline LOD_TARGET

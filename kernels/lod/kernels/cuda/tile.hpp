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

/// Neighbouring rows that the threads of a block go through side by side. Where the sequences have no marks, those of
/// its first and of its last row are looked for among all, once; that of any row between them is among few.
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
  /// Whether the sequences of the first and of the last row must be looked for.
  LOD_HOST_DEVICE bool is_unmarked() const noexcept { return sequences_.marks.sequences == nullptr; }
  /// body(i, row, column) for one of the elements. Without marks, `ends` are the sequences of the first and of the last
  /// row.
  template <class Body>
  LOD_HOST_DEVICE void call(std::uint32_t element, const SequenceRange& ends, const Body& body) const {
    const std::int64_t row = first_ + element / row_size_;
    const SequenceRange range = is_unmarked() ? ends : sequences_around(sequences_, row);
    body(sequence_between(sequences_, range.low, range.high, row), row, static_cast<std::int64_t>(element % row_size_));
  }

 private:
  const Segments& sequences_;
  std::uint32_t row_size_;
  std::int64_t first_;
  std::int64_t rows_;
};

/// Elements whose numbers fit 32 bits: those of some columns of some neighbouring rows.
struct ElementBlock {
  std::int64_t first_row;
  std::int64_t first_column;
  std::uint32_t row_size;  ///< columns of the block
  std::uint32_t count;     ///< elements

  /// body(row, column) or body(row, column, more...) for one of the elements.
  template <class Body, class... More>
  LOD_HOST_DEVICE void call(std::uint32_t element, const Body& body, const More&... more) const {
    body(first_row + element / row_size, first_column + element % row_size, more...);
  }
};
/// Calls launch(block) for blocks of at most `most` elements that have all columns of all rows: for one, nearly always.
/// A division of 32 bits takes a fraction of the time of one of 64.
template <class Launch>
void for_each_block(std::int64_t rows, std::int64_t row_size, std::int64_t most, const Launch& launch) {
  const std::int64_t columns = std::min(row_size, most), step = most / columns;
  for (std::int64_t row = 0; row < rows; row += step) {
    for (std::int64_t column = 0; column < row_size; column += columns) {
      const std::int64_t width = std::min(columns, row_size - column);
      launch(ElementBlock{row, column, static_cast<std::uint32_t>(width),
                          static_cast<std::uint32_t>(std::min(step, rows - row) * width)});
    }
  }
}

}  // namespace kernel::bulk
}  // namespace lod::inline LOD_TARGET

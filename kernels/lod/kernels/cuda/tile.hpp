// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rows of a batch as the blocks of a GPU go through them.
#pragma once

#include <lod/kernel.hpp>
#include <lod/kernels/thrust/bulk.hpp>
#include <lod/kernels/thrust/divisor.hpp>
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

  /// The rows from `first` on, at most `rows`, which have less than 2^31 elements.
  LOD_HOST_DEVICE Tile(const Segments& sequences, const Divisor& row_size, std::int64_t first,
                       std::int64_t rows) noexcept
      : sequences_(sequences), row_size_(row_size), first_(first), rows_(least(rows, sequences.rows() - first)) {}

  LOD_HOST_DEVICE std::int64_t first_row() const noexcept { return first_; }
  LOD_HOST_DEVICE std::int64_t last_row() const noexcept { return first_ + rows_ - 1; }
  LOD_HOST_DEVICE std::uint32_t elements() const noexcept {
    return static_cast<std::uint32_t>(rows_) * row_size_.number();
  }
  /// Whether the sequences of the first and of the last row must be looked for.
  LOD_HOST_DEVICE bool is_unmarked() const noexcept { return sequences_.marks.sequences == nullptr; }
  /// body(i, row, column) for one of the elements. Without marks, `ends` are the sequences of the first and of the last
  /// row.
  template <class Body>
  LOD_HOST_DEVICE void call(std::uint32_t element, const SequenceRange& ends, const Body& body) const {
    const std::uint32_t in_tile = row_size_.quotient(element);
    const std::int64_t row = first_ + in_tile;
    const SequenceRange range = is_unmarked() ? ends : sequences_around(sequences_, row);
    body(sequence_between(sequences_, range.low, range.high, row), row,
         static_cast<std::int64_t>(row_size_.remainder(element, in_tile)));
  }

 private:
  const Segments& sequences_;
  Divisor row_size_;
  std::int64_t first_;
  std::int64_t rows_;
};

/// Elements whose numbers fit 31 bits: those of some columns of some neighbouring rows.
struct ElementBlock {
  std::int64_t first_row;
  std::int64_t first_column;
  Divisor row_size;     ///< columns of the block
  std::uint32_t count;  ///< elements

  /// body(row, column) or body(row, column, more...) for one of the elements.
  template <class Body, class... More>
  LOD_HOST_DEVICE void call(std::uint32_t element, const Body& body, const More&... more) const {
    const std::uint32_t row = row_size.quotient(element);
    body(first_row + row, first_column + row_size.remainder(element, row), more...);
  }
};
/// Calls launch(block) for blocks of at most `most` elements that have all columns of all rows: for one, nearly always.
/// `most` is less than 2^31.
template <class Launch>
void for_each_block(std::int64_t rows, std::int64_t row_size, std::int64_t most, const Launch& launch) {
  const std::int64_t columns = std::min(row_size, most), step = most / columns;
  for (std::int64_t row = 0; row < rows; row += step) {
    for (std::int64_t column = 0; column < row_size; column += columns) {
      const std::int64_t width = std::min(columns, row_size - column);
      launch(ElementBlock{row, column, Divisor(static_cast<std::uint32_t>(width)),
                          static_cast<std::uint32_t>(std::min(step, rows - row) * width)});
    }
  }
}

}  // namespace kernel::bulk
}  // namespace lod::inline LOD_TARGET

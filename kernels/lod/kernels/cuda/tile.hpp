// SPDX-License-Identifier: Apache-2.0
/// @file
/// How the blocks of a GPU go through the rows of a batch.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/divisor.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Neighbouring rows that the threads of a block process side by side: first they find the sequence of each row, then
/// they process the elements. Without marks, the sequences of the first and the last row are searched for among all
/// sequences, those of the rows in between among few.
class Tile {
 public:
  /// The rows of a tile of about `elements` elements; at least one.
  static std::int64_t rows_of(std::int64_t row_size, std::int64_t elements) noexcept {
    return std::max<std::int64_t>(elements / row_size, 1);
  }

  /// At most `rows` rows from `first` on, with fewer than 2^31 elements.
  LOD_HOST_DEVICE Tile(const Segments& sequences, const Divisor& row_size, std::int64_t first,
                       std::int64_t rows) noexcept
      : sequences_(sequences), row_size_(row_size), first_(first), rows_(least(rows, sequences.rows() - first)) {}

  LOD_HOST_DEVICE std::int64_t first_row() const noexcept { return first_; }
  LOD_HOST_DEVICE std::int64_t last_row() const noexcept { return first_ + rows_ - 1; }
  LOD_HOST_DEVICE std::uint32_t elements() const noexcept {
    return static_cast<std::uint32_t>(rows_) * row_size_.number();
  }
  /// Whether the sequences of the first and the last row must be sought.
  LOD_HOST_DEVICE bool is_unmarked() const noexcept { return sequences_.marks.sequences == nullptr; }
  /// Finds the sequences of the rows that belong to one of `threads` threads and writes them to `found`, which has an
  /// element for each row of the tile. Without marks, `ends` are the sequences of the first and the last row. The rows
  /// of a thread are neighbours, so that only the first of them is sought among more than a few.
  LOD_HOST_DEVICE void find_sequences(std::uint32_t thread, std::uint32_t threads, const SequenceRange& ends,
                                      std::int64_t* found) const {
    const auto rows = static_cast<std::uint32_t>(rows_);
    const std::uint32_t share = (rows + threads - 1) / threads;
    std::uint32_t at = thread * share;
    if (at >= rows) return;
    const std::uint32_t end = least(at + share, rows);
    std::int64_t i = sought(at, ends);
    std::int64_t* to = found + at;
    *to = i;
    if (++at == end) return;
    for (std::uint32_t next_begin = end_of_sequence(i); at < end; ++at) {
      if (at >= next_begin) {
        next_begin = end_of_sequence(++i);
        if (at >= next_begin) {  // the next one is empty
          i = sought(at, ends);
          next_begin = end_of_sequence(i);
        }
      }
      *++to = i;
    }
  }
  /// Calls body(i, row, column) for one of the elements, with the sequences that the threads have found.
  template <class Body>
  LOD_HOST_DEVICE void call(std::uint32_t element, const std::int64_t* found, const Body& body) const {
    const std::uint32_t in_tile = row_size_.quotient(element);
    body(found[in_tile], first_ + in_tile, static_cast<std::int64_t>(row_size_.remainder(element, in_tile)));
  }

 private:
  /// The first row of the tile after sequence i; the tile's row count if there is none.
  LOD_HOST_DEVICE std::uint32_t end_of_sequence(std::int64_t i) const {
    return static_cast<std::uint32_t>(least(sequences_.begin(i + 1) - first_, rows_));
  }
  LOD_HOST_DEVICE std::int64_t sought(std::uint32_t in_tile, const SequenceRange& ends) const {
    const std::int64_t row = first_ + in_tile;
    const SequenceRange range = is_unmarked() ? ends : sequences_around(sequences_, row);
    return sequence_between(sequences_, range.low, range.high, row);
  }

  const Segments& sequences_;
  Divisor row_size_;
  std::int64_t first_;
  std::int64_t rows_;
};

/// A block of some columns of neighbouring rows, with fewer than 2^31 elements.
struct ElementBlock {
  std::int64_t first_row;
  std::int64_t first_column;
  Divisor row_size;     ///< columns of the block
  std::uint32_t count;  ///< elements

  /// Calls body(row, column) or body(row, column, more...) for one of the elements.
  template <class Body, class... More>
  LOD_HOST_DEVICE void call(std::uint32_t element, const Body& body, const More&... more) const {
    const std::uint32_t row = row_size.quotient(element);
    body(first_row + row, first_column + row_size.remainder(element, row), more...);
  }
};
/// Calls launch(block) for blocks of at most `most` elements that together cover all columns of all rows; nearly always
/// one block. `most` is less than 2^31.
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

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

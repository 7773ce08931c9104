// SPDX-License-Identifier: Apache-2.0
/// @file
/// Short sequences of scalar rows side by side: a vector holds row r of as many sequences as it has lanes. What goes
/// from row to row goes through all of them at once, and nobody has to guess where one ends.
#pragma once

#include <lod/kernel.hpp>
#include <lod/kernels/cpu/transpose.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lod::inline LOD_TARGET {
namespace kernel::cpu {

/// Sequences of more rows have no place in a tile.
inline constexpr std::int64_t tile_rows = 256;
/// A tile that begins with a sequence of so many rows, or fewer, takes no longer ones: it would become tall for them.
inline constexpr std::int64_t low_tile_rows = 32;

/// The sequences of a tile of vectors with so many lanes.
template <std::int64_t lanes>
class TileSequences {
 public:
  /// Those from sequence `begin` on, before `end`, of at most `tile_rows` rows, or `low_tile_rows` where the first is
  /// no longer: up to the first that is, and as many as there are lanes. None where the first of all is too long, or
  /// longer than `low_tile_rows` with so few beside it that each is better taken alone.
  TileSequences(const Segments& sequences, std::int64_t begin, std::int64_t end) noexcept {
    const std::int64_t most = std::min(lanes, end - begin);
    const bool low = most > 0 && sequences.length(begin) <= low_tile_rows;
    const std::int64_t most_rows = low ? low_tile_rows : tile_rows;
    while (size_ < most) {
      const std::int64_t length = sequences.length(begin + size_);
      if (length > most_rows) break;
      starts_[size_] = rows_;
      lengths_[size_] = length;
      rows_ += length;
      longest_ = std::max(longest_, length);
      ++size_;
    }
    // Lanes that are empty, and rows that are missing, take as long as others.
    if (!low && 4 * rows_ < lanes * longest_) size_ = 0;
    for (std::int64_t k = size_; k < lanes; ++k) starts_[k] = lengths_[k] = 0;
  }

  std::int64_t size() const noexcept { return size_; }
  /// Of all together.
  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t longest() const noexcept { return longest_; }
  /// Where sequence k < lanes begins, counted from the first one's start; a lane without one has no rows.
  std::int64_t start(std::int64_t k) const noexcept { return starts_[k]; }
  std::int64_t length(std::int64_t k) const noexcept { return lengths_[k]; }

 private:
  std::int64_t size_ = 0, rows_ = 0, longest_ = 0;
  std::int64_t starts_[static_cast<std::size_t>(lanes)], lengths_[static_cast<std::size_t>(lanes)];
};

/// The compiler's own vector of the numbers of a batch.
template <class A>
struct CompilerVector;
template <>
struct CompilerVector<float> {
  using type = HalfVector::Floats;
};
template <>
struct CompilerVector<double> {
  typedef double type __attribute__((vector_size(sizeof(xsimd::batch<double>))));
};
template <>
struct CompilerVector<std::int64_t> {
  using type = Int64Vector;
};

/// A tile of numbers in which T is computed.
template <class T>
class SequenceTile {
  using A = Accumulator<T>;
  static constexpr std::int64_t width = lanes<T>;

 public:
  using Sequences = TileSequences<width>;
  using Row = typename CompilerVector<A>::type;

  /// Of the sequences, the first of which begins at x. From there, `readable` numbers may be read.
  SequenceTile(const Sequences& sequences, const T* x, std::int64_t readable) noexcept
      : rows_(std::max(std::int64_t{8},
                       static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(sequences.longest()))))) {
    if constexpr (std::same_as<T, A>) {
      if (sequences.rows() + tile_rows <= readable) {
        load(sequences, x);
        return;
      }
    }
    // In another type, or followed by numbers that are not there to be read.
    A numbers[static_cast<std::size_t>(width * tile_rows + tile_rows)];
    // No more can they be; so the compiler need not warn.
    const std::int64_t rows = std::min(sequences.rows(), width * tile_rows);
    convert(x, rows, numbers);
    fill(numbers + rows, tile_rows, A{});
    load(sequences, numbers);
  }

  /// The height of the tile: a power of two from 8 on, no less than the longest sequence has rows.
  std::int64_t rows() const noexcept { return rows_; }
  /// Lane k of vector r is row r of sequence k, or anything where it has none.
  Row* data() noexcept { return numbers_; }

  /// What becomes of sequence k goes to writer.place(), where `tile_rows` numbers may be written, before
  /// writer.advance(count(length of k)). Of each only the first `kept` rows are needed.
  template <class Writer, class Count>
  void write(const Sequences& sequences, std::int64_t kept, Writer& writer, const Count& count) noexcept {
    const std::int64_t end = std::min(sequences.longest(), kept);
    for (std::int64_t row = 0; row < end; row += width) transpose_rows(numbers_ + row, lane_numbers());
    for (std::int64_t k = 0; k < sequences.size(); ++k) {
      T* const y = writer.place();
      for (std::int64_t row = 0; row < end; row += width) {
        store<T>(y + row, __builtin_bit_cast(Vector<T>, numbers_[row + k]));
      }
      writer.advance(count(sequences.length(k)));
    }
  }

 private:
  static constexpr auto lane_numbers() noexcept { return std::make_index_sequence<static_cast<std::size_t>(width)>(); }

  void load(const Sequences& sequences, const A* x) noexcept {
    for (std::int64_t row = 0; row < rows_; row += width) load_rows(sequences, x + row, numbers_ + row, lane_numbers());
  }
  template <std::size_t... k>
  static void load_rows(const Sequences& sequences, const A* x, Row* to, std::index_sequence<k...>) noexcept {
    Row rows[sizeof...(k)];
    (std::memcpy(&rows[k], x + sequences.start(k), sizeof(Row)), ...);
    transpose(rows);
    ((to[k] = rows[k]), ...);
  }
  template <std::size_t... k>
  static void transpose_rows(Row* from, std::index_sequence<k...>) noexcept {
    Row rows[sizeof...(k)];
    ((rows[k] = from[k]), ...);
    transpose(rows);
    ((from[k] = rows[k]), ...);
  }

  std::int64_t rows_;
  Row numbers_[static_cast<std::size_t>(std::max(tile_rows, width))];
};

}  // namespace kernel::cpu
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Short sequences of scalar rows side by side: a vector holds row r of as many sequences as it has lanes. Computations
/// from row to row process all of them at once, and no branch depends on where one ends.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/transpose.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Sequences of more rows do not fit a tile.
inline constexpr std::int64_t tile_rows = 512;
/// A tile that begins with a sequence of at most this many rows takes no longer ones, which would make it tall.
inline constexpr std::int64_t low_tile_rows = 32;

/// The height of a tile for sequences of at most `longest` rows: 8, 16 or a multiple of 32.
constexpr std::int64_t tile_height(std::int64_t longest) noexcept {
  return longest <= 8 ? 8 : longest <= 16 ? 16 : (longest + 31) / 32 * 32;
}

/// The sequences of a tile whose vectors have `width` lanes.
template <std::int64_t width>
class TileSequences {
 public:
  static constexpr std::int64_t lanes = width;

  /// Takes sequences from `begin` on, before `end`, of at most `tallest` rows, or of at most `low_tile_rows` if the
  /// first has no more: up to the first that is longer, and at most as many as there are lanes. Takes none if the first
  /// is too long, or if it is longer than `low_tile_rows` and there are so few that each is better processed alone.
  TileSequences(const Segments& sequences, std::int64_t begin, std::int64_t end,
                std::int64_t tallest = tile_rows) noexcept {
    const std::int64_t most = std::min(lanes, end - begin);
    const bool low = most > 0 && sequences.length(begin) <= low_tile_rows;
    const std::int64_t most_rows = low ? low_tile_rows : tallest;
    while (size_ < most) {
      const std::int64_t length = sequences.length(begin + size_);
      if (length > most_rows) break;
      add(rows_, length);
    }
    finish(low);
  }
  /// Takes sequence begin + places[k] for each k < count <= lanes; or none, as above. The first is the longest.
  TileSequences(const Segments& sequences, std::int64_t begin, const std::uint8_t* places,
                std::int64_t count) noexcept {
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t i = begin + places[k];
      add(sequences.begin(i) - sequences.begin(begin), sequences.length(i));
    }
    finish(longest_ <= low_tile_rows);
  }

  std::int64_t size() const noexcept { return size_; }
  /// The rows of all sequences together.
  std::int64_t rows() const noexcept { return rows_; }
  std::int64_t longest() const noexcept { return longest_; }
  /// Where the rows of sequence k < lanes begin, counted from those of the first one, or of `begin`; a lane without a
  /// sequence has no rows.
  std::int64_t start(std::int64_t k) const noexcept { return starts_[k]; }
  std::int64_t length(std::int64_t k) const noexcept { return lengths_[k]; }
  /// Whether there are tall ones, and less than half of the places of a tile would be filled.
  bool is_sparse() const noexcept { return longest_ > low_tile_rows && 2 * rows_ < size_ * tile_height(longest_); }
  /// Where the last of the rows ends.
  std::int64_t end() const noexcept { return end_; }
  /// The same, with the rows of sequence k at start(k).
  template <class Start>
  TileSequences moved(const Start& start) const noexcept {
    TileSequences result(*this);
    result.end_ = 0;
    for (std::int64_t k = 0; k < size_; ++k) {
      result.starts_[k] = start(k);
      result.end_ = std::max(result.end_, result.starts_[k] + lengths_[k]);
    }
    return result;
  }

 private:
  void add(std::int64_t start, std::int64_t length) noexcept {
    starts_[size_] = start;
    lengths_[size_] = length;
    rows_ += length;
    end_ = std::max(end_, start + length);
    longest_ = std::max(longest_, length);
    ++size_;
  }
  void finish(bool low) noexcept {
    // Empty lanes and missing rows take as much time as others.
    if (!low && 4 * rows_ < lanes * longest_) size_ = 0;
    for (std::int64_t k = size_; k < lanes; ++k) starts_[k] = lengths_[k] = 0;
  }

  std::int64_t size_ = 0, rows_ = 0, end_ = 0, longest_ = 0;
  std::int64_t starts_[static_cast<std::size_t>(lanes)], lengths_[static_cast<std::size_t>(lanes)];
};

/// The compiler's own vector type for the numbers of a batch.
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

/// A tile of numbers of the type in which T is computed.
template <class T>
class SequenceTile {
  using A = Accumulator<T>;
  static constexpr std::int64_t width = lanes<T>;

 public:
  using Sequences = TileSequences<width>;
  using Row = typename CompilerVector<A>::type;

  /// For these sequences, the first of which begins at x. `readable` numbers may be read from there.
  [[gnu::always_inline]] SequenceTile(const Sequences& sequences, const T* x, std::int64_t readable) noexcept
      : rows_(tile_height(sequences.longest())) {
    if constexpr (std::same_as<T, A>) {
      if (sequences.end() + tile_rows <= readable) {
        load(sequences, x);
        return;
      }
    }
    load_copy(sequences, x);
  }

  /// The height of the tile, at least the length of the longest sequence.
  std::int64_t rows() const noexcept { return rows_; }
  /// Lane k of vector r is row r of sequence k, or unspecified if it has none.
  Row* data() noexcept { return numbers_; }

  /// Writes the results of sequence k to writer.place(), where `tile_rows` numbers may be written, then calls
  /// writer.advance(count(length of k)). Only the first `kept` rows of each are needed.
  template <class Writer, class Count>
  void write(const Sequences& sequences, std::int64_t kept, Writer& writer, const Count& count) noexcept {
    const std::int64_t end = transpose_back(sequences, kept);
    for (std::int64_t k = 0; k < sequences.size(); ++k) {
      T* const y = writer.place();
      for (std::int64_t row = 0; row < end; row += width) {
        store<T>(y + row, __builtin_bit_cast(Vector<T>, numbers_[row + k]));
      }
      writer.advance(count(sequences.length(k)));
    }
  }
  /// Writes the first count(length of k) results of sequence k to place(k), and nothing beyond them; `kept` at most.
  template <class Place, class Count>
  void write_each(const Sequences& sequences, std::int64_t kept, const Place& place, const Count& count) noexcept {
    transpose_back(sequences, kept);
    for (std::int64_t k = 0; k < sequences.size(); ++k) {
      T* const y = place(k);
      const std::int64_t end = count(sequences.length(k)), whole = end / width * width;
      for (std::int64_t row = 0; row < whole; row += width) {
        store<T>(y + row, __builtin_bit_cast(Vector<T>, numbers_[row + k]));
      }
      if (whole < end) store<T>(y + whole, __builtin_bit_cast(Vector<T>, numbers_[whole + k]), end - whole);
    }
  }

 private:
  /// Vector row + k then holds numbers [row, row + width) of sequence k, for the rows that are needed: their number is
  /// the result.
  std::int64_t transpose_back(const Sequences& sequences, std::int64_t kept) noexcept {
    const std::int64_t end = std::min(sequences.longest(), kept);
    for (std::int64_t row = 0; row < end; row += width) transpose_rows(numbers_ + row, lane_numbers());
    return end;
  }
  static constexpr auto lane_numbers() noexcept { return std::make_index_sequence<static_cast<std::size_t>(width)>(); }

  /// For numbers of another type, or if those that follow must not be read.
  [[gnu::noinline]] void load_copy(const Sequences& sequences, const T* x) noexcept {
    A numbers[static_cast<std::size_t>(width * tile_rows + tile_rows)];
    // There cannot be more; this tells the compiler so and avoids a warning.
    const std::int64_t rows = std::min(sequences.rows(), width * tile_rows);
    fill(numbers + rows, tile_rows, A{});
    if (sequences.end() == rows) {
      convert(x, rows, numbers);
      return load(sequences, numbers);
    }
    std::int64_t packed = 0;
    const Sequences copies =
        sequences.moved([&](std::int64_t k) { return std::exchange(packed, packed + sequences.length(k)); });
    for (std::int64_t k = 0; k < sequences.size(); ++k) {
      convert(x + sequences.start(k), sequences.length(k), numbers + copies.start(k));
    }
    load(copies, numbers);
  }
  [[gnu::always_inline]] void load(const Sequences& sequences, const A* x) noexcept {
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

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Short sequences of scalar rows side by side: a vector holds row r of as many sequences as it has lanes. Computations
/// from row to row process all of them at once, and no branch depends on where one ends.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/shuffle.hpp>
#include <lod/kernels/cpu/transpose.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Sequences of more rows do not fit a tile.
inline constexpr std::int64_t tile_rows = 512;
/// A tile that begins with a sequence of at most this many rows takes no longer ones, which would make it tall.
inline constexpr std::int64_t low_tile_rows = 32;

/// The height of a tile for sequences of at most `longest` rows: 4, 8, 16 or a multiple of 32.
constexpr std::int64_t tile_height(std::int64_t longest) noexcept {
  return longest <= 4 ? 4 : longest <= 8 ? 8 : longest <= 16 ? 16 : (longest + 31) / 32 * 32;
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
struct CompilerVector<std::int32_t> {
  using type = HalfVector::Numbers;
};
template <>
struct CompilerVector<std::int64_t> {
  using type = Int64Vector;
};

/// Whether a number of type T is one of type A in memory.
template <class T, class A>
inline constexpr bool same_numbers = std::same_as<T, A> || (std::integral<T> && std::integral<A> &&
                                                            !std::same_as<T, bool> && sizeof(T) == sizeof(A));

/// As `store`, of numbers of any type A: others than the accumulators of T are converted one by one.
template <class T, class A>
inline void store_numbers(T* y, const xsimd::batch<A>& vector,
                          std::int64_t count = static_cast<std::int64_t>(xsimd::batch<A>::size)) {
  constexpr auto all = static_cast<std::int64_t>(xsimd::batch<A>::size);
  if constexpr (std::same_as<A, Accumulator<T>>) {
    store_first(y, vector, count, 0);
  } else {
    alignas(64) A numbers[static_cast<std::size_t>(all)];
    vector.store_aligned(numbers);
    if (count == all) {
      for (std::int64_t i = 0; i < all; ++i) y[i] = static_cast<T>(numbers[i]);
    } else {
      for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(numbers[i]);
    }
  }
}

/// A tile of numbers of type A, by default the type in which T is computed.
template <class T, class A = Accumulator<T>>
class SequenceTile {
  static constexpr auto width = static_cast<std::int64_t>(xsimd::batch<A>::size);

 public:
  using Sequences = TileSequences<width>;
  using Row = typename CompilerVector<A>::type;

  /// For these sequences, the first of which begins at x. `readable` numbers may be read from there.
  [[gnu::always_inline]] SequenceTile(const Sequences& sequences, const T* x, std::int64_t readable) noexcept
      : rows_(tile_height(sequences.longest())) {
    if constexpr (same_numbers<T, A>) {
      if (sequences.end() + tile_rows <= readable) {
        load(sequences, reinterpret_cast<const A*>(x));
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
    with_height([&](auto height) {
      const std::int64_t end = transpose_back(sequences, kept, height);
      for (std::int64_t k = 0; k < sequences.size(); ++k) {
        T* const y = writer.place();
        if constexpr (height < width && same_numbers<T, A>) {
          std::memcpy(y, block(k, height), sizeof(T) * height);
        } else {
          for (std::int64_t row = 0; row < end; row += width) put(y + row, results(row, k, height));
        }
        writer.advance(count(sequences.length(k)));
      }
    });
  }
  /// Writes the first count(length of k) results of sequence k to place(k), and nothing beyond them; `kept` at most.
  template <class Place, class Count>
  void write_each(const Sequences& sequences, std::int64_t kept, const Place& place, const Count& count) noexcept {
    with_height([&](auto height) {
      transpose_back(sequences, kept, height);
      for (std::int64_t k = 0; k < sequences.size(); ++k) {
        T* const y = place(k);
        const std::int64_t end = count(sequences.length(k)), whole = end / width * width;
        for (std::int64_t row = 0; row < whole; row += width) put(y + row, results(row, k, height));
        if (whole < end) put(y + whole, results(whole, k, height), end - whole);
      }
    });
  }

 private:
  // A tile that is lower than a vector is wide is loaded and written in blocks: vector r holds all rows of sequences r,
  // r + height, r + 2 * height, ... before and after it is a tile. That takes fewer shuffles than whole vectors of
  // each.
  template <std::size_t height>
  using Height = std::integral_constant<std::size_t, height>;
  /// Calls body(height) with the height of such a tile, or with that of whole vectors.
  template <class Body>
  [[gnu::always_inline]] void with_height(const Body& body) const noexcept {
    if constexpr (width > 4) {
      if (rows_ == 4) return body(Height<4>());
    }
    if constexpr (width > 8) {
      if (rows_ == 8) return body(Height<8>());
    }
    body(Height<static_cast<std::size_t>(width)>());
  }

  /// Puts the results of each sequence side by side, for the rows that are needed: their number is the result.
  template <std::size_t height>
  std::int64_t transpose_back(const Sequences& sequences, std::int64_t kept, Height<height>) noexcept {
    const std::int64_t end = std::min(sequences.longest(), kept);
    for (std::int64_t row = 0; row < end; row += width)
      transpose_rows(numbers_ + row, std::make_index_sequence<height>());
    return end;
  }
  /// Then, where the rows of sequence k begin in a low tile.
  template <std::size_t height>
  const A* block(std::int64_t k, Height<height>) const noexcept {
    constexpr auto rows = static_cast<std::int64_t>(height);
    return reinterpret_cast<const A*>(numbers_ + k % rows) + k / rows * rows;
  }
  /// Then, results [row, row + width) of sequence k; from the last row of a low tile on, anything.
  template <std::size_t height>
  Row results(std::int64_t row, std::int64_t k, Height<height> all) const noexcept {
    if constexpr (height == static_cast<std::size_t>(width)) {
      return numbers_[row + k];
    } else {
      typename PartOfVector<A, height * sizeof(A)>::type some;
      std::memcpy(&some, block(k, all), sizeof some);
      Row result;
      repeat(some, result);
      return result;
    }
  }
  template <class Part>
  [[gnu::always_inline]] static void repeat(const Part& part, Row& result) noexcept {
    if constexpr (2 * sizeof(Part) == sizeof(Row)) {
      join<A>(part, part, result);
    } else {
      typename PartOfVector<A, 2 * sizeof(Part)>::type twice;
      join<A>(part, part, twice);
      repeat(twice, result);
    }
  }

  /// Stores a vector, or its first `count` numbers.
  template <class... Count>
  static void put(T* y, const Row& numbers, Count... count) noexcept {
    store_numbers<T>(y, __builtin_bit_cast(xsimd::batch<A>, numbers), count...);
  }
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
    with_height([&]<std::size_t height>(Height<height>) {
      const auto rows = std::make_index_sequence<height>();
      for (std::int64_t row = 0; row < rows_; row += width) load_rows(sequences, x + row, numbers_ + row, rows);
    });
  }
  template <std::size_t... k>
  static void load_rows(const Sequences& sequences, const A* x, Row* to, std::index_sequence<k...>) noexcept {
    Row rows[sizeof...(k)];
    (load_blocks<sizeof...(k)>(sequences, x, k, rows[k]), ...);
    transpose(rows);
    ((to[k] = rows[k]), ...);
  }
  /// `height` numbers of each of sequences k, k + height, k + 2 * height, ..., as many as fit the result.
  template <std::size_t height, class Joined>
  [[gnu::always_inline]] static void load_blocks(const Sequences& sequences, const A* x, std::size_t k,
                                                 Joined& result) noexcept {
    if constexpr (sizeof(Joined) == height * sizeof(A)) {
      std::memcpy(&result, x + sequences.start(static_cast<std::int64_t>(k)), sizeof result);
    } else {
      typename PartOfVector<A, sizeof(Joined) / 2>::type first, second;
      load_blocks<height>(sequences, x, k, first);
      load_blocks<height>(sequences, x, k + sizeof(Joined) / sizeof(A) / 2, second);
      join<A>(first, second, result);
    }
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

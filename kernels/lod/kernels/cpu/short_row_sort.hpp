// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sorting the rows of many short sequences at a time by a sorting network: keys, with the rows that they belong to.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/half_vector.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/line_writer.hpp>
#include <lod/kernels/cpu/sequence_tile.hpp>
#include <lod/kernels/cpu/short_sort.hpp>
#include <lod/kernels/cpu/sort_entry.hpp>
#include <lod/kernels/cpu/tile_order.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/cpu/vector_sort.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// How a double represents a row whose key has 32 bits: it is between 1 and 2, with the key above the lowest
/// `place_bits` bits, which say which row it is. All processors can take the lesser of two doubles, and doubles in that
/// range order as their bits do.
struct RowEntryLayout {
  static constexpr int place_bits = 20;
  /// The bits of the entry with key 0 and place 0.
  static constexpr std::int64_t zero = (std::int64_t{0x3FF} << 52) + (std::int64_t{1} << (31 + place_bits));
  static constexpr std::int64_t places = std::int64_t{1} << place_bits;
  static double entry(std::int64_t key, std::int64_t place) noexcept {
    return __builtin_bit_cast(double, (key << place_bits) + zero + place);
  }
  static std::int64_t place(double entry) noexcept { return __builtin_bit_cast(std::int64_t, entry) & (places - 1); }
};

/// `sort_key` of the floating-point numbers with these bits, of which `infinity` is one.
template <class Bits, class Bit>
inline Bits sort_keys(const Bits& bits, Bit infinity, bool descending) noexcept {
  constexpr Bit greatest = std::numeric_limits<Bit>::max(), sign = sizeof(Bit) * 8 - 1;
  Bits keys = bits ^ ((bits >> sign) & greatest);
  keys -= keys == -1;  // the key of -0 is that of 0
  if (descending) keys = ~keys;
  return (bits & greatest) > infinity ? Bits{} + greatest : keys;
}
/// entries[k] = that of sort_key(x[k], descending) and place first + k, for k < count, followed by unspecified ones:
/// there is room for another vector.
template <class T>
inline void make_entries(const T* x, std::int64_t count, std::int64_t readable, bool descending, std::int64_t first,
                         double* entries) noexcept {
  using Bits = CompilerVector<std::int64_t>::type;
  alignas(64) static constexpr std::int64_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
  Bits zeros;
  std::memcpy(&zeros, numbers, sizeof zeros);
  zeros += RowEntryLayout::zero + first;
  const auto write = [&](const Bits& keys, std::int64_t k) __attribute__((always_inline)) {
    const Bits some = (keys << RowEntryLayout::place_bits) + zeros + k;
    std::memcpy(entries + k, &some, sizeof some);
  };
  for (std::int64_t k = 0; k < count; k += lanes<T>) {
    const Vector<T> some = load_vector(x + k, std::min(lanes<T>, count - k), Accumulator<T>{}, readable - k);
    if constexpr (std::integral<T>) {
      const auto keys = __builtin_bit_cast(Bits, some);
      write(descending ? ~keys : keys, k);
    } else {
      struct Halves {
        Int32Vector first, second;
      };
      constexpr auto infinity = __builtin_bit_cast(std::int32_t, std::numeric_limits<float>::infinity());
      const auto keys =
          __builtin_bit_cast(Halves, sort_keys(__builtin_bit_cast(HalfVector::Numbers, some), infinity, descending));
      write(__builtin_convertvector(keys.first, Bits), k);
      write(__builtin_convertvector(keys.second, Bits), k + lanes<std::int64_t>);
    }
  }
}

/// keys[k] = sort_key(x[k], descending) for k < count.
template <class T>
inline void make_keys(const T* x, std::int64_t count, bool descending, std::int64_t* keys) noexcept {
  std::int64_t k = 0;
  // By vectors, which g++ -O2 makes of no loop whose end is not known.
  constexpr bool by_vectors = sizeof(T) == sizeof *keys;
  for (; by_vectors && k + lanes<std::int64_t> <= count; k += lanes<std::int64_t>) {
    Int64Vector some;
    std::memcpy(&some, x + k, sizeof some);
    if constexpr (std::same_as<T, double>) {
      some = sort_keys(some, __builtin_bit_cast(std::int64_t, std::numeric_limits<double>::infinity()), descending);
    } else {
      if constexpr (std::unsigned_integral<T>) some ^= std::numeric_limits<std::int64_t>::min();
      if (descending) some = ~some;
    }
    std::memcpy(keys + k, &some, sizeof some);
  }
  for (; k < count; ++k) keys[k] = sort_key(x[k], descending);
}

/// Writes f(0), f(1), ..., f(count - 1).
template <class T, class F>
inline void append(LineWriter<T>& writer, std::int64_t count, const F& f) {
  for (std::int64_t k = 0; k < count;) {
    const std::int64_t some = std::min(LineWriter<T>::room, count - k);
    T* const to = writer.place();
    for (std::int64_t n = 0; n < some; ++n) to[n] = f(k + n);
    writer.advance(some);
    k += some;
  }
}

/// Writes the rows of `count` sorted entries, plus `first`. A vector beyond them may be read.
template <class Number>
inline void append_rows(LineWriter<std::int64_t>& writer, const Number* entries, std::int64_t count,
                        std::int64_t first) noexcept {
  constexpr std::int64_t mask = std::same_as<Number, double> ? RowEntryLayout::places - 1 : -1;
  for (std::int64_t k = 0; k < count;) {
    const std::int64_t some = std::min(LineWriter<std::int64_t>::room, count - k);
    std::int64_t* const to = writer.place();
    for (std::int64_t n = 0; n < some; n += lanes<std::int64_t>) {
      Int64Vector rows;
      std::memcpy(&rows, entries + k + n, sizeof rows);
      rows = (rows & mask) + first;
      std::memcpy(to + n, &rows, sizeof rows);
    }
    writer.advance(some);
    k += some;
  }
}

/// Writes `count` rows from row `first` on: row(0), row(1), and so on. y and index may be null.
template <class T, class Row>
void write_rows(const Row& row, std::int64_t count, const T* x, std::int64_t first, T* y,
                std::int64_t* index) noexcept {
  if (y && index) {
    for (std::int64_t i = 0; i < count; ++i) {
      index[i] = first + row(i);
      y[i] = x[index[i]];
    }
  } else if (y) {
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[first + row(i)];
  } else if (index) {
    for (std::int64_t i = 0; i < count; ++i) index[i] = first + row(i);
  }
}

/// The most rows of a sequence whose rows are sorted in a tile: keys of 64 bits and their rows fill two vectors.
template <class T>
inline constexpr std::int64_t tallest_of_rows = has_narrow_key<T> ? tile_rows : tile_rows / 2;

/// How rows are represented in tiles.
template <class T>
using RowNumber = std::conditional_t<has_narrow_key<T>, double, std::int64_t>;

/// In place of the keys in a tile come the rows that they belong to, in the order of the keys, counted from the first
/// row of the first sequence; only the first `kept` are needed.
template <std::size_t kept>
void sort_keys(const SequenceTile<std::int64_t>::Sequences& sequences, SequenceTile<std::int64_t>& tile) noexcept {
  using V = Vector<std::int64_t>;
  alignas(64) std::int64_t starts[V::size];
  for (std::size_t k = 0; k < V::size; ++k) starts[k] = sequences.start(static_cast<std::int64_t>(k));
  const V start = V::load_aligned(starts), end = tile_lengths<std::int64_t>(sequences);
  KeyedRow all[static_cast<std::size_t>(tallest_of_rows<std::int64_t>)];
  for (std::int64_t row = 0; row < tile.rows(); ++row) {
    const V keys = xsimd::select(V(row) < end, __builtin_bit_cast(V, tile.data()[row]),
                                 V(std::numeric_limits<std::int64_t>::max()));
    all[row] = {__builtin_bit_cast(Int64Vector, keys), __builtin_bit_cast(Int64Vector, start + V(row))};
  }
  sort_columns<kept>(all, static_cast<std::size_t>(tile.rows()), KeyedRowOrder());
  const std::int64_t needed = std::min(tile.rows(), static_cast<std::int64_t>(kept));
  for (std::int64_t row = 0; row < needed; ++row) tile.data()[row] = all[row].row;
}

/// As `sort_tiles`, by keys with their rows: at most the first `count` rows of each sequence in sorted order, one after
/// the other from y and from index on, either of which may be null. No more than `kept` are needed.
template <std::size_t kept, class T>
std::int64_t sort_tiles_of_rows(const T* x, const Segments& sequences, std::int64_t i, std::int64_t end,
                                std::int64_t settled, bool descending, std::int64_t count, const LargeOutput& output,
                                T* y, std::int64_t* index) {
  using Number = RowNumber<T>;
  using Tile = SequenceTile<Number>;
  constexpr std::int64_t tallest = tallest_of_rows<T>, most = lanes<Number> * tallest, room = most + 2 * tile_rows;
  static_assert(most <= RowEntryLayout::places);
  alignas(64) Number entries[static_cast<std::size_t>(room)];  // first as the rows come, then in order
  LineWriter<T> values(output, y);
  LineWriter<std::int64_t> places(output, index);
  struct Writer {
    Number* place() const noexcept { return at; }
    void advance(std::int64_t rows) noexcept { at += rows; }
    Number* at;
  };
  while (true) {
    const typename Tile::Sequences some(sequences, i, end, tallest);
    if (some.size() == 0 || (i >= settled && some.is_sparse())) return i;
    const std::int64_t first = sequences.begin(i);
    if constexpr (has_narrow_key<T>) {
      make_entries(x + first, some.rows(), sequences.rows() - first, descending, 0, entries);
    } else {
      make_keys(x + first, std::min(some.rows(), most), descending, entries);
    }
    Tile tile(some, entries, room);
    if constexpr (has_narrow_key<T>) {
      sort_tile<kept, false>(some, false, tile);
    } else {
      sort_keys<kept>(some, tile);
    }
    Writer writer{entries};
    tile.write(some, kept, writer, [count](std::int64_t length) { return std::min(length, count); });
    const auto row = [&](std::int64_t k) {
      if constexpr (has_narrow_key<T>) {
        return first + RowEntryLayout::place(entries[k]);
      } else {
        return first + entries[k];
      }
    };
    if (index) append_rows(places, entries, writer.at - entries, first);
    if (y) append(values, writer.at - entries, [&](std::int64_t k) { return x[row(k)]; });
    i += some.size();
  }
}

/// As `sort_tiles` in a better order, by keys with their rows: at most the first `count` rows of each sequence i in
/// sorted order, from y + parts.begin(i) and from index + parts.begin(i) on, either of which may be null.
template <std::size_t kept, class T, class One>
void sort_tiles_of_rows(const T* x, const Segments& sequences, const TileOrder<lanes<RowNumber<T>>>& order,
                        bool descending, std::int64_t count, const Segments& parts, T* y, std::int64_t* index,
                        const One& one) {
  using Number = RowNumber<T>;
  using Tile = SequenceTile<Number>;
  constexpr std::int64_t room = lanes<Number> * tallest_of_rows<T> + 2 * tile_rows;
  alignas(64) Number entries[static_cast<std::size_t>(room)];  // as the rows come
  alignas(64) Number sorted[static_cast<std::size_t>(room)];
  const std::int64_t first = sequences.begin(order.sequence(0));
  const auto kept_of = [count](std::int64_t length) { return std::min(length, count); };

  // Where the entries of sequence k are, and those of them that are kept.
  constexpr auto places = static_cast<std::size_t>(TileOrder<lanes<Number>>::most_sequences);
  std::int16_t starts[places + 1], kept_starts[places + 1];
  starts[0] = kept_starts[0] = 0;
  for (std::int64_t k = 0; k < order.size(); ++k) {
    const std::int64_t length = order.fits_tile(k) ? sequences.length(order.sequence(k)) : 0;
    starts[k + 1] = static_cast<std::int16_t>(starts[k] + length);
    kept_starts[k + 1] = static_cast<std::int16_t>(kept_starts[k] + kept_of(length));
  }
  for_each_run(
      order.size(), [&](std::int64_t k) { return order.fits_tile(k); },
      [&](std::int64_t begin, std::int64_t end) {
        const std::int64_t start = sequences.begin(order.sequence(begin)) - first, rows = starts[end] - starts[begin];
        if constexpr (has_narrow_key<T>) {
          const std::int64_t readable = sequences.rows() - first - start;
          make_entries(x + first + start, rows, readable, descending, start, entries + starts[begin]);
        } else {
          make_keys(x + first + start, rows, descending, entries + starts[begin]);
        }
      });

  bool is_alone[places] = {};
  const auto sort = [&](const typename Tile::Sequences& some, const std::uint8_t* at) {
    Tile tile(some.moved([&](std::int64_t k) { return starts[at[k]]; }), entries, room);
    if constexpr (has_narrow_key<T>) {
      sort_tile<kept, false>(some, false, tile);
    } else {
      sort_keys<kept>(some, tile);
    }
    tile.write_each(
        some, kept, [&](std::int64_t k) { return sorted + kept_starts[at[k]]; }, kept_of);
  };
  order.for_each(sort, [&](std::int64_t k) {
    is_alone[k] = true;
    one(order.sequence(k));
  });

  for_each_run(
      order.size(), [&](std::int64_t k) { return !is_alone[k]; },
      [&](std::int64_t begin, std::int64_t end) {
        const auto row = [&, from = sorted + kept_starts[begin]](std::int64_t n) {
          if constexpr (has_narrow_key<T>) {
            return RowEntryLayout::place(from[n]);
          } else {
            return from[n];
          }
        };
        const std::int64_t at = parts.begin(order.sequence(begin));
        write_rows(row, kept_starts[end] - kept_starts[begin], x, first, y ? y + at : nullptr,
                   index ? index + at : nullptr);
      });
}

/// As `sort_short`, by keys with their rows: at most the first `count` rows of each sequence i in sorted order, from
/// y + parts.begin(i) and from index + parts.begin(i) on, either of which may be null. No more than `kept` are needed.
template <std::size_t kept, class T, class One>
void sort_short_rows(const T* x, const Segments& sequences, std::int64_t begin, std::int64_t end, bool descending,
                     std::int64_t count, const LargeOutput& output, const Segments& parts, T* y, std::int64_t* index,
                     const One& one) {
  constexpr std::int64_t width = lanes<RowNumber<T>>;
  for_each_tile<width>(
      sequences, begin, end, tallest_of_rows<T>, kept < tile_rows ? 40 : 20,
      [&](std::int64_t i, std::int64_t settled) {
        const std::int64_t at = parts.begin(i);
        return sort_tiles_of_rows<kept>(x, sequences, i, end, settled, descending, count, output, y ? y + at : nullptr,
                                        index ? index + at : nullptr);
      },
      [&](const TileOrder<width>& order) {
        sort_tiles_of_rows<kept>(x, sequences, order, descending, count, parts, y, index, one);
      },
      one);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sorting many short sequences at a time by a sorting network.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/half_vector.hpp>
#include <lod/kernels/cpu/intrinsics.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/line_writer.hpp>
#include <lod/kernels/cpu/sequence_tile.hpp>
#include <lod/kernels/cpu/sort_entry.hpp>
#include <lod/kernels/cpu/sorting_network.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Whether there was a NaN or a negative zero among the numbers that it was shown.
template <class A>
class StrangeNumbers {
 public:
  void look_at(const xsimd::batch<A>& numbers) noexcept {
#ifdef __AVX512DQ__
    constexpr int quiet = 0x01, negative_zero = 0x04, signalling = 0x80, strange = quiet | negative_zero | signalling;
    if constexpr (std::same_as<A, float>) seen_ |= _mm512_fpclass_ps_mask(numbers, strange);
    if constexpr (std::same_as<A, double>) seen_ |= _mm512_fpclass_pd_mask(numbers, strange);
#else
    using Bit = std::conditional_t<std::same_as<A, float>, std::int32_t, std::int64_t>;
    constexpr auto infinity = __builtin_bit_cast(Bit, std::numeric_limits<A>::infinity());
    const auto bits = __builtin_bit_cast(Bits, numbers);
    seen_ |= (bits == std::numeric_limits<Bit>::min()) | ((bits & std::numeric_limits<Bit>::max()) > infinity);
#endif
  }
  bool any() const noexcept {
#ifdef __AVX512DQ__
    return seen_ != 0;
#else
    bool result = false;
    for (std::size_t i = 0; i < xsimd::batch<A>::size; ++i) result |= seen_[i] != 0;
    return result;
#endif
  }

 private:
#ifdef __AVX512DQ__
  unsigned seen_ = 0;
#else
  using Bits = std::conditional_t<std::same_as<A, float>, HalfVector::Numbers, CompilerVector<std::int64_t>::type>;
  Bits seen_{};
#endif
};

/// The lesser and the greater numbers of two vectors without NaNs.
template <class A>
struct VectorOrder {
  using Row = typename CompilerVector<A>::type;
  Row lesser(const Row& a, const Row& b) const noexcept {
    return __builtin_bit_cast(Row, xsimd::min(batch(a), batch(b)));
  }
  Row greater(const Row& a, const Row& b) const noexcept {
    return __builtin_bit_cast(Row, xsimd::max(batch(a), batch(b)));
  }

 private:
  static xsimd::batch<A> batch(const Row& row) noexcept { return __builtin_bit_cast(xsimd::batch<A>, row); }
};

/// Sorts `size` numbers, 32 or a greater power of two, of which only the first `kept` are needed: 32 at a time by a
/// network; these are then merged.
template <std::size_t kept, class V, class Order>
inline void sort_tall(V* numbers, std::size_t size, const Order& order) noexcept {
  constexpr std::size_t step = 32;
  static_assert(std::has_single_bit(kept));
  for (std::size_t begin = 0; begin < size; begin += step) sort_by_network<step, kept>(numbers + begin, order);
  for (std::size_t sorted = step; sorted < size; sorted *= 2) {
    for (std::size_t begin = 0; begin < size; begin += 2 * sorted) {
      if constexpr (kept < step) {
        merge_ascending<true>(numbers + begin, numbers + begin + sorted, kept, order);
      } else {
        merge_ascending<false>(numbers + begin, numbers + begin + sorted, sorted, order);
      }
    }
  }
}

/// Sorts the rows of each sequence of a tile, up or down; only the first `kept` are needed. Returns false for a tile
/// with a NaN or a negative zero, since numbers that are equal but not identical would not keep their order; if it is
/// known that there are none, they need not be `looked_for`.
template <std::size_t kept = static_cast<std::size_t>(tile_rows), bool looked_for = true, class T>
bool sort_tile(const typename SequenceTile<T>::Sequences& sequences, bool descending, SequenceTile<T>& tile) noexcept {
  using A = Accumulator<T>;
  using V = Vector<T>;
  using Row = typename SequenceTile<T>::Row;
  // Its numbers are computed in signed ones.
  constexpr bool is_wide_unsigned = std::unsigned_integral<T> && sizeof(T) == sizeof(A);
  // `turn` turns a number into an ascending key and a key back into the number; `last` sorts after all others.
  V turn, last;
  if constexpr (std::floating_point<A>) {
    turn = V(descending ? -A{} : A{});
    last = V(descending ? -std::numeric_limits<A>::infinity() : std::numeric_limits<A>::infinity());
  } else {
    const A sign = is_wide_unsigned ? std::numeric_limits<A>::min() : A{};
    turn = V((descending ? ~A{} : A{}) ^ sign);
    last = turn ^ V(std::numeric_limits<A>::max());
  }
  alignas(64) A lengths[V::size];
  for (std::size_t k = 0; k < V::size; ++k) {
    lengths[k] = static_cast<A>(sequences.length(static_cast<std::int64_t>(k)));
  }
  const V end = V::load_aligned(lengths);
  Row* const rows = tile.data();
  StrangeNumbers<A> strange;
  for (std::int64_t row = 0; row < tile.rows(); ++row) {
    const V numbers = xsimd::select(V(static_cast<A>(row)) < end, __builtin_bit_cast(V, rows[row]), last);
    if constexpr (looked_for) strange.look_at(numbers);
    rows[row] = __builtin_bit_cast(Row, numbers ^ turn);
  }
  if (looked_for && strange.any()) return false;
  const VectorOrder<A> order;
  switch (tile.rows()) {
    case 8:
      sort_by_network<8, kept>(rows, order);
      break;
    case 16:
      sort_by_network<16, kept>(rows, order);
      break;
    default:
      sort_tall<kept>(rows, static_cast<std::size_t>(tile.rows()), order);
  }
  const bool is_turned = descending || is_wide_unsigned;
  for (std::int64_t row = 0; is_turned && row < std::min(tile.rows(), static_cast<std::int64_t>(kept)); ++row) {
    rows[row] = __builtin_bit_cast(Row, __builtin_bit_cast(V, rows[row]) ^ turn);
  }
  return true;
}

/// Whether `sort_tiles` is for T: narrow integers are sorted faster as entries, and comparing 64-bit integers takes
/// more than one instruction where vectors are short.
template <class T>
inline constexpr bool sorts_tiles = std::floating_point<Accumulator<T>> || (!has_narrow_key<T> && lanes<T> >= 4);

/// Sorts sequences from i on, before `end`, up to the first that is too long for a tile, which it returns. one(i, y)
/// sorts a single sequence to y.
template <class T, class One>
std::int64_t sort_tiles(const T* x, const Segments& sequences, std::int64_t i, std::int64_t end, bool descending,
                        const LargeOutput& output, T* y, const One& one) {
  constexpr auto all = static_cast<std::size_t>(tile_rows);
  static_assert(tile_rows <= LineWriter<T>::room);
  LineWriter<T> writer(output, y + sequences.begin(i));
  while (true) {
    const typename SequenceTile<T>::Sequences some(sequences, i, end);
    if (some.size() == 0) return i;
    const std::int64_t first = sequences.begin(i);
    SequenceTile<T> tile(some, x + first, sequences.rows() - first);
    if (sort_tile<all, std::floating_point<Accumulator<T>>>(some, descending, tile)) {
      tile.write(some, tile_rows, writer, [](std::int64_t length) { return length; });
    } else {
      for (std::int64_t k = 0; k < some.size(); ++k) {
        one(i + k, writer.place());
        writer.advance(some.length(k));
      }
    }
    i += some.size();
  }
}

/// How a double represents a row of a tile whose key has 32 bits: it is between 1 and 2, with the key above the lowest
/// `place_bits` bits, which say which row it is. All processors can take the lesser of two doubles, and doubles in that
/// range order as their bits do.
struct TileEntryLayout {
  static constexpr int place_bits = 16;
  /// The bits of the entry with key 0 and place 0.
  static constexpr std::int64_t zero = (std::int64_t{0x3FF} << 52) + (std::int64_t{1} << (31 + place_bits));
  static std::int64_t place(double entry) noexcept {
    return __builtin_bit_cast(std::int64_t, entry) & ((std::int64_t{1} << place_bits) - 1);
  }
};

/// `sort_key` of the floats with these bits.
inline HalfVector::Numbers sort_keys(const HalfVector::Numbers& bits, bool descending) noexcept {
  constexpr std::int32_t greatest = std::numeric_limits<std::int32_t>::max();
  constexpr auto infinity = __builtin_bit_cast(std::int32_t, std::numeric_limits<float>::infinity());
  HalfVector::Numbers keys = bits ^ ((bits >> 31) & greatest);
  keys -= keys == -1;  // the key of -0 is that of 0
  if (descending) keys = ~keys;
  return (bits & greatest) > infinity ? HalfVector::Numbers{} + greatest : keys;
}
/// entries[k] = that of sort_key(x[k], descending) and place k, for k < count, followed by unspecified ones: there is
/// room for another vector.
template <class T>
inline void make_entries(const T* x, std::int64_t count, std::int64_t readable, bool descending,
                         double* entries) noexcept {
  using Bits = CompilerVector<std::int64_t>::type;
  alignas(64) static constexpr std::int64_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7};
  Bits zeros;
  std::memcpy(&zeros, numbers, sizeof zeros);
  zeros += TileEntryLayout::zero;
  const auto write = [&](const Bits& keys, std::int64_t k) __attribute__((always_inline)) {
    const Bits some = (keys << TileEntryLayout::place_bits) + zeros + k;
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
      const auto keys =
          __builtin_bit_cast(Halves, sort_keys(__builtin_bit_cast(HalfVector::Numbers, some), descending));
      write(__builtin_convertvector(keys.first, Bits), k);
      write(__builtin_convertvector(keys.second, Bits), k + lanes<std::int64_t>);
    }
  }
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

/// As `sort_tiles`, by entries: at most the first `count` rows of each sequence in sorted order, one after the other
/// from y and from index on, either of which may be null. No more than `kept` are needed.
template <std::size_t kept, class T>
std::int64_t sort_tiles_of_entries(const T* x, const Segments& sequences, std::int64_t i, std::int64_t end,
                                   bool descending, std::int64_t count, const LargeOutput& output, T* y,
                                   std::int64_t* index) {
  static_assert(has_narrow_key<T>);
  using Tile = SequenceTile<double>;
  constexpr std::int64_t most = lanes<double> * tile_rows, room = most + 2 * tile_rows;
  static_assert(most <= std::int64_t{1} << TileEntryLayout::place_bits);
  alignas(64) double entries[static_cast<std::size_t>(room)], sorted[static_cast<std::size_t>(room)];
  LineWriter<T> values(output, y);
  LineWriter<std::int64_t> places(output, index);
  struct Writer {
    double* place() const noexcept { return at; }
    void advance(std::int64_t rows) noexcept { at += rows; }
    double* at;
  };
  while (true) {
    const typename Tile::Sequences some(sequences, i, end);
    if (some.size() == 0) return i;
    const std::int64_t first = sequences.begin(i);
    make_entries(x + first, some.rows(), sequences.rows() - first, descending, entries);
    Writer writer{sorted};
    Tile tile(some, entries, room);
    sort_tile<kept, false>(some, false, tile);
    tile.write(some, kept, writer, [count](std::int64_t length) { return std::min(length, count); });
    const auto row = [&](std::int64_t k) { return first + TileEntryLayout::place(sorted[k]); };
    if (index) append(places, writer.at - sorted, row);
    if (y) append(values, writer.at - sorted, [&](std::int64_t k) { return x[row(k)]; });
    i += some.size();
  }
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

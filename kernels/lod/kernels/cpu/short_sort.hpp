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
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/cpu/vector_sort.hpp>
#include <lod/kernels/partition_point.hpp>
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

/// The lengths of the sequences of a tile, lane by lane.
template <class T>
inline Vector<T> tile_lengths(const typename SequenceTile<T>::Sequences& sequences) noexcept {
  alignas(64) Accumulator<T> lengths[Vector<T>::size];
  for (std::size_t k = 0; k < Vector<T>::size; ++k) {
    lengths[k] = static_cast<Accumulator<T>>(sequences.length(static_cast<std::int64_t>(k)));
  }
  return Vector<T>::load_aligned(lengths);
}

/// Whether there is a NaN or a negative zero among the numbers that it has seen.
template <class A>
class StrangeNumbers {
 public:
  StrangeNumbers() noexcept { std::memset(&seen_, 0, sizeof seen_); }  // nvcc fails at an initialiser of vectors
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
  unsigned seen_;
#else
  using Bits = std::conditional_t<std::same_as<A, float>, HalfVector::Numbers, CompilerVector<std::int64_t>::type>;
  Bits seen_;
#endif
};

/// Turns vectors of numbers into keys that ascend as the numbers ascend, or descend, and back.
template <class T>
class TurnedNumbers {
  using A = Accumulator<T>;
  using V = Vector<T>;
  // Unsigned 64-bit numbers are computed in signed ones.
  static constexpr bool is_wide_unsigned = std::unsigned_integral<T> && sizeof(T) == sizeof(A);

 public:
  explicit TurnedNumbers(bool descending) noexcept : turns_(descending || is_wide_unsigned) {
    if constexpr (std::floating_point<A>) {
      turn_ = V(descending ? -A{} : A{});
      last_ = V(std::numeric_limits<A>::infinity()) ^ turn_;
    } else {
      turn_ = V((descending ? ~A{} : A{}) ^ (is_wide_unsigned ? std::numeric_limits<A>::min() : A{}));
      last_ = V(std::numeric_limits<A>::max()) ^ turn_;
    }
  }
  /// Keys to numbers and numbers to keys.
  V operator()(const V& numbers) const noexcept { return numbers ^ turn_; }
  /// Whether any key differs from its number.
  bool turns() const noexcept { return turns_; }
  /// The number with the greatest key.
  const V& last() const noexcept { return last_; }

 private:
  V turn_, last_;
  bool turns_;
};

/// Bit i is set where number i is zero or NaN.
template <class A>
inline unsigned zeros_and_nans(const xsimd::batch<A>& numbers) noexcept {
#if defined(__AVX512F__)
  if constexpr (std::same_as<A, float>) return _mm512_cmp_ps_mask(numbers, xsimd::batch<A>(A{}), _CMP_EQ_UQ);
  if constexpr (std::same_as<A, double>) return _mm512_cmp_pd_mask(numbers, xsimd::batch<A>(A{}), _CMP_EQ_UQ);
#elif defined(__AVX__)
  const xsimd::batch<A> zero(A{});
  if constexpr (std::same_as<A, float>) {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(numbers, zero, _CMP_EQ_UQ)));
  } else {
    return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(numbers, zero, _CMP_EQ_UQ)));
  }
#else
  unsigned bits = 0;
  for (std::size_t i = 0; i < xsimd::batch<A>::size; ++i) {
    bits |= static_cast<unsigned>(!(numbers.get(i) < A{} || numbers.get(i) > A{})) << i;
  }
  return bits;
#endif
}

/// Sorting by vectors loses the signs of zeros, and replaces NaNs by infinities at the end. Restores both in y, in the
/// order of x.
template <class T>
void restore_strange(const T* x, std::int64_t count, bool descending, T* y) noexcept {
  using A = Accumulator<T>;
  std::int64_t nan = count, zero = -1;
  constexpr std::int64_t step = 64;  // the bits of a word: the end of a loop is mispredicted only once for each word
  for (std::int64_t begin = (count - 1) / step * step; begin >= 0; begin -= step) {
    std::uint64_t bits = 0;
    for (std::int64_t i = begin; i < std::min(begin + step, count); i += lanes<T>) {
      const auto some = load_vector(x + i, std::min(lanes<T>, count - i), A{1});
      bits |= std::uint64_t{zeros_and_nans(some)} << (i - begin);
    }
    while (bits != 0) {
      const auto last = static_cast<std::int64_t>(std::bit_width(bits)) - 1;
      bits ^= std::uint64_t{1} << last;
      const T number = x[begin + last];
      if (static_cast<A>(number) != A{}) {
        y[--nan] = number;
      } else {
        if (zero < 0) {
          zero = partition_point(std::int64_t{0}, count, [&](std::int64_t i) {
            const auto before = static_cast<A>(y[i]);
            return descending ? before >= A{} : before <= A{};
          });
        }
        y[--zero] = number;
      }
    }
  }
}

/// Sorts the rows of each sequence of a tile, up or down; only the first `kept` are needed. Returns whether there are
/// strange numbers, which `restore_strange` puts in place; if it is known that there are none, they need not be
/// `looked_for`.
template <std::size_t kept = static_cast<std::size_t>(tile_rows), bool looked_for = true, class T>
bool sort_tile(const typename SequenceTile<T>::Sequences& sequences, bool descending, SequenceTile<T>& tile) noexcept {
  using A = Accumulator<T>;
  using V = Vector<T>;
  using Row = typename SequenceTile<T>::Row;
  const TurnedNumbers<T> turned(descending);
  const V end = tile_lengths<T>(sequences);
  Row* const rows = tile.data();
  StrangeNumbers<A> strange;
  for (std::int64_t row = 0; row < tile.rows(); ++row) {
    V numbers = xsimd::select(V(static_cast<A>(row)) < end, __builtin_bit_cast(V, rows[row]), turned.last());
    if constexpr (looked_for) {
      strange.look_at(numbers);
      numbers = xsimd::select(numbers == numbers, numbers, turned.last());
    }
    rows[row] = __builtin_bit_cast(Row, turned(numbers));
  }
  sort_columns<kept>(rows, static_cast<std::size_t>(tile.rows()), VectorOrder<A>());
  for (std::int64_t row = 0; turned.turns() && row < std::min(tile.rows(), static_cast<std::int64_t>(kept)); ++row) {
    rows[row] = __builtin_bit_cast(Row, turned(__builtin_bit_cast(V, rows[row])));
  }
  return looked_for && strange.any();
}

/// Whether `sort_tiles` is for T: narrow integers are sorted faster as entries, and comparing 64-bit integers takes
/// more than one instruction where vectors are short.
template <class T>
inline constexpr bool sorts_tiles = std::floating_point<Accumulator<T>> || (!has_narrow_key<T> && lanes<T> >= 4);

/// Sorts sequences from i on, before `end`, up to the first that is too long for a tile, which it returns.
template <class T>
std::int64_t sort_tiles(const T* x, const Segments& sequences, std::int64_t i, std::int64_t end, bool descending,
                        const LargeOutput& output, T* y) {
  constexpr auto all = static_cast<std::size_t>(tile_rows);
  constexpr bool has_strange = std::floating_point<Accumulator<T>>;
  static_assert(tile_rows <= LineWriter<T>::room);
  struct Writer {
    T* place() noexcept { return lines.place(); }
    void advance(std::int64_t rows) noexcept {
      if constexpr (has_strange) {
        if (is_strange) restore_strange(from, rows, descending, place());
        from += rows;
      }
      lines.advance(rows);
    }
    LineWriter<T> lines;
    const T* from;
    bool descending, is_strange;
  };
  Writer writer{{output, y + sequences.begin(i)}, x + sequences.begin(i), descending, false};
  while (true) {
    const typename SequenceTile<T>::Sequences some(sequences, i, end);
    if (some.size() == 0) return i;
    const std::int64_t first = sequences.begin(i);
    SequenceTile<T> tile(some, x + first, sequences.rows() - first);
    writer.is_strange = sort_tile<all, has_strange>(some, descending, tile);
    tile.write(some, tile_rows, writer, [](std::int64_t length) { return length; });
    i += some.size();
  }
}

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
  zeros += RowEntryLayout::zero;
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
      const auto keys =
          __builtin_bit_cast(Halves, sort_keys(__builtin_bit_cast(HalfVector::Numbers, some), descending));
      write(__builtin_convertvector(keys.first, Bits), k);
      write(__builtin_convertvector(keys.second, Bits), k + lanes<std::int64_t>);
    }
  }
}

/// keys[k] = sort_key(x[k], descending) for k < count.
template <class T>
inline void make_keys(const T* x, std::int64_t count, bool descending, std::int64_t* keys) noexcept {
  for (std::int64_t k = 0; k < count; ++k) keys[k] = sort_key(x[k], descending);
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

/// The most rows of a sequence whose rows are sorted in a tile: keys of 64 bits and their rows fill two vectors.
template <class T>
inline constexpr std::int64_t tallest_of_rows = has_narrow_key<T> ? tile_rows : tile_rows / 2;

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
                                bool descending, std::int64_t count, const LargeOutput& output, T* y,
                                std::int64_t* index) {
  using Number = std::conditional_t<has_narrow_key<T>, double, std::int64_t>;
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
    if (some.size() == 0) return i;
    const std::int64_t first = sequences.begin(i);
    if constexpr (has_narrow_key<T>) {
      make_entries(x + first, some.rows(), sequences.rows() - first, descending, entries);
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
    if (index) append(places, writer.at - entries, row);
    if (y) append(values, writer.at - entries, [&](std::int64_t k) { return x[row(k)]; });
    i += some.size();
  }
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

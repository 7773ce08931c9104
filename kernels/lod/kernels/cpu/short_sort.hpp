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
#include <lod/kernels/cpu/tile_order.hpp>
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

/// The type in which numbers of type T are sorted: integers of up to 32 bits fill twice as many lanes as where they are
/// computed.
template <class T>
using SortNumber = std::conditional_t<NarrowInteger<T>, std::int32_t, Accumulator<T>>;
/// How many sequences are sorted side by side.
template <class T>
inline constexpr auto sort_lanes = static_cast<std::int64_t>(xsimd::batch<SortNumber<T>>::size);

/// The lengths of the sequences of a tile of As, lane by lane.
template <class A>
inline xsimd::batch<A> tile_lengths(const typename SequenceTile<A, A>::Sequences& sequences) noexcept {
  using V = xsimd::batch<A>;
  alignas(64) A lengths[V::size];
  for (std::size_t k = 0; k < V::size; ++k) {
    lengths[k] = static_cast<A>(sequences.length(static_cast<std::int64_t>(k)));
  }
  return V::load_aligned(lengths);
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
template <class T, class A = Accumulator<T>>
class TurnedNumbers {
  using V = xsimd::batch<A>;
  // Unsigned numbers that fill an A are held in signed ones.
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
template <std::size_t kept = static_cast<std::size_t>(tile_rows), bool looked_for = true, class T, class A>
bool sort_tile(const typename SequenceTile<T, A>::Sequences& sequences, bool descending,
               SequenceTile<T, A>& tile) noexcept {
  using V = xsimd::batch<A>;
  using Row = typename SequenceTile<T, A>::Row;
  const TurnedNumbers<T, A> turned(descending);
  const V end = tile_lengths<A>(sequences);
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

/// Whether one instruction takes the lesser of 32-bit integers.
#if defined(__SSE2__) && !defined(__SSE4_1__)
inline constexpr bool compares_integers = false;
#else
inline constexpr bool compares_integers = true;
#endif
/// Whether `sort_tiles` is for T. Otherwise entries are sorted, which are doubles, or numbers one by one: comparing
/// 64-bit integers takes more than one instruction where vectors are short.
template <class T>
inline constexpr bool sorts_tiles = std::floating_point<Accumulator<T>> || (NarrowInteger<T> && compares_integers) ||
                                    (!has_narrow_key<T> && lanes<T> >= 4);

/// Sorts sequences from i on, before `end`, by tiles as they come, up to the first whose tile would hold none, or be
/// sparse and not begin before `settled`: it returns which.
template <class T>
std::int64_t sort_tiles(const T* x, const Segments& sequences, std::int64_t i, std::int64_t end, std::int64_t settled,
                        bool descending, const LargeOutput& output, T* y) {
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
    const typename SequenceTile<T, SortNumber<T>>::Sequences some(sequences, i, end);
    if (some.size() == 0 || (i >= settled && some.is_sparse())) return i;
    const std::int64_t first = sequences.begin(i);
    SequenceTile<T, SortNumber<T>> tile(some, x + first, sequences.rows() - first);
    writer.is_strange = sort_tile<all, has_strange>(some, descending, tile);
    tile.write(some, tile_rows, writer, [](std::int64_t length) { return length; });
    i += some.size();
  }
}

/// Sorts sequences in a better order; calls one(i) for those that are better sorted alone.
template <class T, class One>
void sort_tiles(const T* x, const Segments& sequences, const TileOrder<sort_lanes<T>>& order, bool descending, T* y,
                const One& one) {
  const std::int64_t first = sequences.begin(order.sequence(0));
  const auto sort = [&](const typename SequenceTile<T, SortNumber<T>>::Sequences& some, const std::uint8_t*) {
    constexpr bool has_strange = std::floating_point<Accumulator<T>>;
    SequenceTile<T, SortNumber<T>> tile(some, x + first, sequences.rows() - first);
    const bool is_strange = sort_tile<static_cast<std::size_t>(tile_rows), has_strange>(some, descending, tile);
    tile.write_each(
        some, tile_rows, [&](std::int64_t k) { return y + first + some.start(k); },
        [](std::int64_t length) { return length; });
    if constexpr (has_strange) {
      for (std::int64_t k = 0; is_strange && k < some.size(); ++k) {
        const std::int64_t start = first + some.start(k);
        restore_strange(x + start, some.length(k), descending, y + start);
      }
    }
  };
  order.for_each(sort, [&](std::int64_t k) { one(order.sequence(k)); });
}

/// Sorts sequences [begin, end) by tiles; calls one(i) for those that are better sorted alone.
template <class T, class One>
void sort_short(const T* x, const Segments& sequences, std::int64_t begin, std::int64_t end, bool descending,
                const LargeOutput& output, T* y, const One& one) {
  for_each_tile<sort_lanes<T>>(
      sequences, begin, end, tile_rows, 40,
      [&](std::int64_t i, std::int64_t settled) {
        return sort_tiles(x, sequences, i, end, settled, descending, output, y);
      },
      [&](const TileOrder<sort_lanes<T>>& order) { sort_tiles(x, sequences, order, descending, y, one); }, one);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

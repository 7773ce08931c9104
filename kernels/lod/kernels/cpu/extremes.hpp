// SPDX-License-Identifier: Apache-2.0
/// @file
/// The greatest or least number of each column of some rows, in vectors. Of equal numbers, which zeros of both signs
/// are, the first one is the result; a NaN is both greater and less than everything.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/narrow_rows.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/short_sequences.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Whether `candidate` replaces `best`, which comes before it.
template <bool minimum, class T>
inline bool wins(const T& candidate, const T& best) {
  if constexpr (std::integral<T>) {
    return minimum ? candidate < best : candidate > best;
  } else {
    const auto a = static_cast<Accumulator<T>>(candidate), b = static_cast<Accumulator<T>>(best);
    return (minimum ? a < b : a > b) | ((a != a) & (b == b));  // no branches: the outcome is random
  }
}
/// The one of two numbers that stays, for vectors without NaNs. One instruction on x86, whose result is its second
/// operand unless the first one is greater (less).
template <bool minimum, class A>
inline xsimd::batch<A> keep_ordered(const xsimd::batch<A>& candidate, const xsimd::batch<A>& best) {
#if defined(__AVX512F__)
  if constexpr (std::same_as<A, float>) {
    return minimum ? _mm512_min_ps(candidate, best) : _mm512_max_ps(candidate, best);
  } else if constexpr (std::same_as<A, double>) {
    return minimum ? _mm512_min_pd(candidate, best) : _mm512_max_pd(candidate, best);
  }
#elif defined(__AVX__)
  if constexpr (std::same_as<A, float>) {
    return minimum ? _mm256_min_ps(candidate, best) : _mm256_max_ps(candidate, best);
  } else if constexpr (std::same_as<A, double>) {
    return minimum ? _mm256_min_pd(candidate, best) : _mm256_max_pd(candidate, best);
  }
#elif defined(__SSE2__)
  if constexpr (std::same_as<A, float>) {
    return minimum ? _mm_min_ps(candidate, best) : _mm_max_ps(candidate, best);
  } else if constexpr (std::same_as<A, double>) {
    return minimum ? _mm_min_pd(candidate, best) : _mm_max_pd(candidate, best);
  }
#endif
  return xsimd::select(minimum ? candidate < best : candidate > best, candidate, best);
}
/// The same where they may be NaNs.
template <bool minimum, class A>
inline xsimd::batch<A> keep(const xsimd::batch<A>& candidate, const xsimd::batch<A>& best) {
  const xsimd::batch<A> kept = keep_ordered<minimum>(candidate, best);
  if constexpr (std::integral<A>) return kept;
  return xsimd::select(xsimd::isnan(candidate) & (best == best), candidate, kept);
}
/// The number that every number replaces or equals.
template <bool minimum, class A>
inline constexpr A worst_number = std::floating_point<A>
                                      ? (minimum ? std::numeric_limits<A>::infinity()
                                                 : -std::numeric_limits<A>::infinity())
                                      : (minimum ? std::numeric_limits<A>::max() : std::numeric_limits<A>::lowest());

/// The greatest (least) numbers of rows of several vectors, each read by read(row, v), in registers: best[v]. In two
/// halves, of which the first one's results come before the second one's: a row need not wait for the one before it.
/// `join` is one of the two functions above. Returns where it has seen a NaN, if it is the latter.
template <std::size_t vectors, class T, class Rows, class Read, class Join>
[[gnu::always_inline]] inline auto keep_halves(const Rows& rows, std::int64_t length, const Read& read,
                                               Vector<T> (&best)[vectors], bool looks_for_nans, const Join& join) {
  const std::int64_t middle = length / 2;
  Vector<T> later[vectors];
  xsimd::batch_bool<Accumulator<T>> unordered(false);
  const auto add = [&](const Vector<T>& candidate, Vector<T>& to) __attribute__((always_inline)) {
    if constexpr (std::floating_point<Accumulator<T>>) {
      if (looks_for_nans) unordered = unordered | xsimd::isnan(candidate);
    }
    to = join(candidate, to);
  };
  // A row may be valid only until the next one is read.
  const T* from = rows(0);
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) best[v] = read(from, v);
  from = rows(middle);
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) later[v] = read(from, v);
  for (std::int64_t row = 0; row < middle; ++row) {
    from = rows(row);
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) add(read(from, v), best[v]);
    from = rows(middle + row);
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) add(read(from, v), later[v]);
  }
  if (length % 2 > 0) {
    from = rows(length - 1);
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) add(read(from, v), later[v]);
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) best[v] = join(later[v], best[v]);
  return unordered;
}
/// The same, NaNs or not.
template <bool minimum, std::size_t vectors, class T, class Rows, class Read>
[[gnu::always_inline]] inline void keep_each_row(const Rows& rows, std::int64_t length, const Read& read,
                                                 Vector<T> (&best)[vectors]) {
  using A = Accumulator<T>;
  const auto unordered = keep_halves<vectors, T>(rows, length, read, best, true, keep_ordered<minimum, A>);
  if (std::floating_point<A> && xsimd::any(unordered)) {
    keep_halves<vectors, T>(rows, length, read, best, false, keep<minimum, A>);
  }
}

/// The greatest (least) number of each column of rows of several vectors, the last of which may be incomplete.
template <bool minimum, std::size_t vectors, class T, class Rows>
inline void keep_rows(const Rows& rows, std::int64_t length, std::int64_t row_size, T* y) {
  if (length == 1) return copy(rows(0), row_size, y);
  constexpr std::int64_t full = (static_cast<std::int64_t>(vectors) - 1) * lanes<T>;
  const std::int64_t rest = row_size - full;
  bool whole = rest == lanes<T>;
  if constexpr (std::same_as<Rows, ContiguousRows<T>>) {  // or read with the first numbers of the next row
    whole = whole || length * row_size + lanes<T> - rest <= rows.readable;
  }
  Vector<T> best[vectors];
  if (whole) {
    const auto read = [](const T* row, std::size_t v) { return load(row + v * Vector<T>::size); };
    keep_each_row<minimum, vectors, T>(rows, length, read, best);
  } else {
    const auto read = [rest](const T* row, std::size_t v) {
      return v + 1 < vectors ? load(row + v * Vector<T>::size) : load(row + full, rest, Accumulator<T>{});
    };
    keep_each_row<minimum, vectors, T>(rows, length, read, best);
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v + 1 < vectors; ++v) store<T>(y + v * Vector<T>::size, best[v]);
  store_first(y + full, best[vectors - 1], rest, 0);
}

/// Whether numbers compare the same in vectors as alone: unsigned 64-bit numbers are computed in signed ones.
template <class T>
inline constexpr bool compares_by_vectors = !std::unsigned_integral<T> || sizeof(T) < sizeof(std::uint64_t);

/// What `find_narrow_extremes` has found: NUMBERS if there may be zeros of both signs, whose sign it does not know;
/// NANS if there is a NaN, which it passes over. Both depend on the order of the rows.
enum class Found : std::uint8_t { ALL, NUMBERS, NANS };

/// The greatest (least) numbers of a sequence of contiguous narrow rows, sixteen rows or more at a time.
template <bool minimum, std::size_t columns, class T>
[[gnu::always_inline]] inline Found find_narrow_extremes(const T* x, std::int64_t length, std::int64_t readable,
                                                         NarrowRow<columns, T>& row) {
  using A = Accumulator<T>;
  constexpr std::size_t vectors = narrow_vectors<columns, T>;
  // At least four of them: then none waits for the one before it.
  constexpr std::size_t blocks = vectors == 1 ? 4 : vectors < 4 ? 2 : 1;
  constexpr A worst = worst_number<minimum, A>;
  using Truths = xsimd::batch_bool<A>;
  Vector<T> best[vectors];
  Truths unordered(false), negative(false);  // where a NaN, a negative zero has been seen
  const auto add = [&](const Vector<T>& numbers, Vector<T>& to) __attribute__((always_inline)) {
    if constexpr (std::floating_point<A>) {
      unordered = unordered | xsimd::isnan(numbers);
      negative = negative | is_negative_zero(numbers);
    }
    to = keep_ordered<minimum>(numbers, to);
  };
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) best[v] = Vector<T>(worst);
  std::int64_t left = length * static_cast<std::int64_t>(columns);
  if (masked<T> && length <= 32) {  // as `join_narrow_rows`
#pragma GCC unroll 16
    for (std::size_t v = 0; v < 2 * vectors; ++v, left -= lanes<T>, x += lanes<T>) {
      add(load(x, std::min(left, lanes<T>), worst), best[v % vectors]);
    }
  } else {
    const auto add_all = [&]<std::size_t size>(Vector<T>(&to)[size]) __attribute__((always_inline)) {
      constexpr std::int64_t step = size * lanes<T>;
      for (; left >= step; left -= step, readable -= step, x += step) {
#pragma GCC unroll 16
        for (std::size_t v = 0; v < size; ++v) add(load(x + v * Vector<T>::size), to[v]);
      }
    };
    if constexpr (blocks > 1) {
      Vector<T> several[blocks * vectors];
#pragma GCC unroll 16
      for (auto& numbers : several) numbers = Vector<T>(worst);
      add_all(several);
#pragma GCC unroll 16
      for (std::size_t v = 0; v < blocks * vectors; ++v) {
        best[v % vectors] = keep_ordered<minimum>(several[v], best[v % vectors]);
      }
    }
    add_all(best);
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v, left -= lanes<T>, readable -= lanes<T>, x += lanes<T>) {
      add(load_first(x, left, worst, readable), best[v]);
    }
  }
  row = join_rows<columns, T>(
      best, [](const Vector<T>& first, const Vector<T>& second) { return keep_ordered<minimum>(second, first); });
  if constexpr (std::floating_point<A>) {
    if (xsimd::any(unordered)) return Found::NANS;
    if (xsimd::any(negative)) {
      Truths zero = row.part[0] == Vector<T>(A{});
      for (std::size_t v = 1; v < row.vectors; ++v) zero = zero | (row.part[v] == Vector<T>(A{}));
      if (xsimd::any(zero)) return Found::NUMBERS;
    }
  }
  return Found::ALL;
}

/// The greatest length of a sequence whose rows can be counted in numbers of any accumulator's type.
inline constexpr std::int64_t most_counted_rows = std::int64_t{1} << 24;

/// The first row of such a sequence, of at most `most_counted_rows`, that holds each column's number of `best`: for
/// numbers that `find_narrow_extremes` has found. With `nans`, it is the first row with a NaN, less
/// `most_counted_rows`, if the column has one.
template <bool minimum, std::size_t columns, class T>
inline NarrowRow<columns, T> find_narrow_rows(const T* x, std::int64_t length, std::int64_t readable,
                                              const NarrowRow<columns, T>& best, bool nans) {
  using A = Accumulator<T>;
  constexpr std::size_t vectors = narrow_vectors<columns, T>;
  constexpr A none = worst_number<true, A>;
  alignas(64) static constexpr auto row_of = [] {
    std::array<A, 16 * columns> rows{};
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<A>(i / columns);
    return rows;
  }();
  const RepeatedColumns<columns, A> wanted(best);
  Vector<T> first[vectors];
  for (auto& rows : first) rows = Vector<T>(none);
  const std::int64_t numbers = length * static_cast<std::int64_t>(columns);
  std::int64_t at = 0;
  for (std::int64_t row = 0; row < length; row += 16) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v, at += lanes<T>) {
      // Numbers after the sequence may be equal too, but they come after the first equal row, so they do not matter.
      const auto found = load_first(x + at, numbers - at, worst_number<minimum, A>, readable - at);
      const auto here = Vector<T>::load_aligned(row_of.data() + v * Vector<T>::size) + Vector<T>(static_cast<A>(row));
      first[v] = xsimd::min(first[v], xsimd::select(found == wanted.vector[v % columns], here, Vector<T>(none)));
      if constexpr (std::floating_point<A>) {
        if (!nans) continue;
        const auto early = here - Vector<T>(static_cast<A>(most_counted_rows));
        first[v] = xsimd::min(first[v], xsimd::select(xsimd::isnan(found), early, Vector<T>(none)));
      }
    }
  }
  return join_rows<columns, T>(first, [](const Vector<T>& a, const Vector<T>& b) { return xsimd::min(a, b); });
}

/// The greatest (least) number of each column of a sequence of contiguous narrow rows; calls set_row(column, row) with
/// the row that holds it, the last time it does so.
template <bool minimum, std::size_t columns, class T, class SetRow>
[[gnu::noinline]] void pool_narrow_extremes(const T* x, std::int64_t length, std::int64_t readable, T* y,
                                            const SetRow& set_row) {
  constexpr auto row_size = static_cast<std::int64_t>(columns);
  for (std::int64_t begin = 0; begin < length; begin += most_counted_rows) {
    const std::int64_t count = std::min(length - begin, most_counted_rows), rest = readable - begin * row_size;
    const T* const some = x + begin * row_size;
    NarrowRow<columns, T> best;
    const Found all = find_narrow_extremes<minimum, columns>(some, count, rest, best);
    const auto found = find_narrow_rows<minimum, columns>(some, count, rest, best, all == Found::NANS);
    // Whole vectors: numbers of a part that was stored by a mask would be read only after it is in the cache.
    alignas(64) Accumulator<T> rows[best.vectors * Vector<T>::size];
    for (std::size_t v = 0; v < best.vectors; ++v) found.part[v].store_aligned(rows + v * Vector<T>::size);
    for (std::size_t column = 0; column < columns; ++column) {
      const auto counted = static_cast<std::int64_t>(rows[column]);
      const std::int64_t row = counted < 0 ? counted + most_counted_rows : counted;
      const T& number = some[row * row_size + static_cast<std::int64_t>(column)];
      if (begin > 0 && !wins<minimum>(number, y[column])) continue;
      y[column] = number;
      set_row(column, begin + row);
    }
  }
}
/// The same without the rows.
template <bool minimum, std::size_t columns, class T>
[[gnu::always_inline]] inline void pool_narrow_extremes(const T* x, std::int64_t length, std::int64_t readable, T* y) {
  NarrowRow<columns, T> best;
  if (find_narrow_extremes<minimum, columns>(x, length, readable, best) == Found::ALL) [[likely]] {
    best.store(y);
  } else {
    pool_narrow_extremes<minimum, columns>(x, length, readable, y, [](std::size_t, std::int64_t) {});
  }
}

/// The same for the `short_sequences` sequences from i on, y[k * columns] for sequence i + k.
/// Returns a bit for each sequence that it leaves undone, the empty ones and those of more than `most` rows.
template <bool minimum, std::size_t columns, class T>
unsigned pool_narrow_extremes(const T* x, const Segments& all, std::int64_t i, std::int64_t most, T* y) {
  const Segments sequences = all;  // a copy, so that it is not reloaded after each store
  constexpr auto row_size = static_cast<std::int64_t>(columns);
  const std::int64_t numbers = sequences.rows() * row_size;
  unsigned others = 0;
  for (std::int64_t k = 0; k < short_sequences; ++k) {
    const std::int64_t length = sequences.length(i + k), first = sequences.begin(i + k) * row_size;
    const bool done = length > 0 && length <= most;
    if (done) pool_narrow_extremes<minimum, columns>(x + first, length, numbers - first, y + k * row_size);
    others |= static_cast<unsigned>(!done) << k;
  }
  return others;
}

/// The same for any row size up to 7.
template <bool minimum, class T>
unsigned pool_narrow_extremes(const T* x, const Segments& sequences, std::int64_t row_size, std::int64_t i,
                              std::int64_t most, T* y) {
  return with_narrow_columns(
      row_size, [&](auto columns) { return pool_narrow_extremes<minimum, columns>(x, sequences, i, most, y); });
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

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
/// The same for vectors.
template <bool minimum, class A>
inline xsimd::batch<A> keep(const xsimd::batch<A>& candidate, const xsimd::batch<A>& best) {
  return xsimd::select(minimum ? falls_below(candidate, best) : exceeds(candidate, best), candidate, best);
}
/// The same where neither is a NaN.
template <bool minimum, class A>
inline xsimd::batch<A> keep_ordered(const xsimd::batch<A>& candidate, const xsimd::batch<A>& best) {
  return xsimd::select(minimum ? candidate < best : candidate > best, candidate, best);
}
/// The number that every number replaces or equals.
template <bool minimum, class A>
inline constexpr A worst_number = std::floating_point<A>
                                      ? (minimum ? std::numeric_limits<A>::infinity()
                                                 : -std::numeric_limits<A>::infinity())
                                      : (minimum ? std::numeric_limits<A>::max() : std::numeric_limits<A>::lowest());

/// The greatest (least) numbers of rows of several vectors, each read by read(row, v), in registers: best[v].
template <bool minimum, std::size_t vectors, class T, class Rows, class Read>
[[gnu::always_inline]] inline void keep_each_row(const Rows& rows, std::int64_t length, const Read& read,
                                                 Vector<T> (&best)[vectors]) {
  const T* const first = rows(0);
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) best[v] = read(first, v);
  for (std::int64_t row = 1; row < length; ++row) {
    const T* const from = rows(row);
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) best[v] = keep<minimum>(read(from, v), best[v]);
  }
}
/// The same in two halves, of which the first one's results come before the second one's: a row need not wait for the
/// one before it.
template <bool minimum, std::size_t vectors, class T, class Rows, class Read>
[[gnu::always_inline]] inline void keep_halves(const Rows& rows, std::int64_t length, const Read& read,
                                               Vector<T> (&best)[vectors]) {
  constexpr bool floating = std::floating_point<Accumulator<T>>;
  const std::int64_t middle = length / 2;
  Vector<T> later[vectors];
  xsimd::batch_bool<Accumulator<T>> unordered(false);
  const auto add = [&](std::size_t v, const Vector<T>& candidate) {
    if constexpr (floating) unordered = unordered | xsimd::isnan(candidate);
    later[v] = keep_ordered<minimum>(candidate, later[v]);
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
    for (std::size_t v = 0; v < vectors; ++v) {
      const Vector<T> candidate = read(from, v);
      if constexpr (floating) unordered = unordered | xsimd::isnan(candidate);
      best[v] = keep_ordered<minimum>(candidate, best[v]);
    }
    from = rows(middle + row);
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) add(v, read(from, v));
  }
  if (length % 2 > 0) {
    from = rows(length - 1);
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) add(v, read(from, v));
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) best[v] = keep_ordered<minimum>(later[v], best[v]);
  if (floating && xsimd::any(unordered)) keep_each_row<minimum, vectors, T>(rows, length, read, best);
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
    keep_halves<minimum, vectors, T>(rows, length, read, best);
  } else {
    const auto read = [rest](const T* row, std::size_t v) {
      return v + 1 < vectors ? load(row + v * Vector<T>::size) : load(row + full, rest, Accumulator<T>{});
    };
    keep_halves<minimum, vectors, T>(rows, length, read, best);
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v + 1 < vectors; ++v) store<T>(y + v * Vector<T>::size, best[v]);
  store_first(y + full, best[vectors - 1], rest, 0);
}

/// Whether numbers compare the same in vectors as alone: unsigned 64-bit numbers are computed in signed ones.
template <class T>
inline constexpr bool compares_by_vectors = !std::unsigned_integral<T> || sizeof(T) < sizeof(std::uint64_t);

/// What `find_narrow_extremes` has found: NUMBERS if there may be zeros of both signs, whose sign it does not know;
/// NOTHING if there is a NaN. Both depend on the order of the rows.
enum class Found : std::uint8_t { ALL, NUMBERS, NOTHING };

/// The greatest (least) numbers of a sequence of contiguous narrow rows, sixteen rows at a time.
template <bool minimum, std::size_t columns, class T>
[[gnu::always_inline]] inline Found find_narrow_extremes(const T* x, std::int64_t length, std::int64_t readable,
                                                         NarrowRow<columns, T>& row) {
  using A = Accumulator<T>;
  constexpr std::size_t vectors = narrow_vectors<columns, T>;
  constexpr std::int64_t block = vectors * lanes<T>;
  constexpr A worst = worst_number<minimum, A>;
  using Truths = xsimd::batch_bool<A>;
  Vector<T> best[vectors];
  Truths unordered(false), negative(false);  // where a NaN, a negative zero has been seen
  const auto add = [&](std::size_t v, const Vector<T>& numbers) {
    if constexpr (std::floating_point<A>) {
      unordered = unordered | xsimd::isnan(numbers);
      negative = negative | is_negative_zero(numbers);
    }
    best[v] = keep_ordered<minimum>(numbers, best[v]);
  };
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) best[v] = Vector<T>(worst);
  std::int64_t left = length * static_cast<std::int64_t>(columns);
  if (masked<T> && length <= 32) {  // as `join_narrow_rows`
#pragma GCC unroll 16
    for (std::size_t v = 0; v < 2 * vectors; ++v, left -= lanes<T>, x += lanes<T>) {
      add(v % vectors, load(x, std::min(left, lanes<T>), worst));
    }
  } else {
    for (; left >= block; left -= block, readable -= block, x += block) {
#pragma GCC unroll 16
      for (std::size_t v = 0; v < vectors; ++v) add(v, load(x + v * Vector<T>::size));
    }
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v, left -= lanes<T>, readable -= lanes<T>, x += lanes<T>) {
      add(v, load_first(x, left, worst, readable));
    }
  }
  row = join_rows<columns, T>(
      best, [](const Vector<T>& first, const Vector<T>& second) { return keep_ordered<minimum>(second, first); });
  if constexpr (std::floating_point<A>) {
    if (xsimd::any(unordered)) return Found::NOTHING;
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
/// numbers that `find_narrow_extremes` has found.
template <bool minimum, std::size_t columns, class T>
inline NarrowRow<columns, T> find_narrow_rows(const T* x, std::int64_t length, std::int64_t readable,
                                              const NarrowRow<columns, T>& best) {
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
    }
  }
  return join_rows<columns, T>(first, [](const Vector<T>& a, const Vector<T>& b) { return xsimd::min(a, b); });
}

/// The greatest (least) number of each column of a sequence of contiguous narrow rows; calls set_row(column, row) with
/// the row that holds it. Returns false, having done nothing, if there is a NaN, or more than `most_counted_rows`.
template <bool minimum, std::size_t columns, class T, class SetRow>
[[gnu::noinline]] bool pool_narrow_extremes(const T* x, std::int64_t length, std::int64_t readable, T* y,
                                            const SetRow& set_row) {
  NarrowRow<columns, T> best;
  if (length > most_counted_rows) return false;
  if (find_narrow_extremes<minimum, columns>(x, length, readable, best) == Found::NOTHING) return false;
  // Whole vectors: numbers of a part that was stored by a mask would be read only after it is in the cache.
  alignas(64) Accumulator<T> rows[best.vectors * Vector<T>::size];
  const auto found = find_narrow_rows<minimum, columns>(x, length, readable, best);
  for (std::size_t v = 0; v < best.vectors; ++v) found.part[v].store_aligned(rows + v * Vector<T>::size);
  for (std::size_t column = 0; column < columns; ++column) {
    const auto row = static_cast<std::int64_t>(rows[column]);
    y[column] = x[row * static_cast<std::int64_t>(columns) + static_cast<std::int64_t>(column)];
    set_row(column, row);
  }
  return true;
}
/// The same without the rows, for a sequence of any length.
template <bool minimum, std::size_t columns, class T>
[[gnu::always_inline]] inline bool pool_narrow_extremes(const T* x, std::int64_t length, std::int64_t readable, T* y) {
  NarrowRow<columns, T> best;
  const Found found = find_narrow_extremes<minimum, columns>(x, length, readable, best);
  if (found == Found::ALL) [[likely]] {
    best.store(y);
    return true;
  }
  return found == Found::NUMBERS &&
         pool_narrow_extremes<minimum, columns>(x, length, readable, y, [](std::size_t, std::int64_t) {});
}

/// The same for the `short_sequences` sequences from i on, y[k * columns] for sequence i + k.
/// Returns a bit for each sequence that it leaves undone, the empty ones, those of more than `most` rows and those
/// with a NaN.
template <bool minimum, std::size_t columns, class T>
unsigned pool_narrow_extremes(const T* x, const Segments& all, std::int64_t i, std::int64_t most, T* y) {
  const Segments sequences = all;  // a copy, so that it is not reloaded after each store
  constexpr auto row_size = static_cast<std::int64_t>(columns);
  const std::int64_t numbers = sequences.rows() * row_size;
  unsigned others = 0;
  for (std::int64_t k = 0; k < short_sequences; ++k) {
    const std::int64_t length = sequences.length(i + k), first = sequences.begin(i + k) * row_size;
    const bool done = length > 0 && length <= most &&
                      pool_narrow_extremes<minimum, columns>(x + first, length, numbers - first, y + k * row_size);
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

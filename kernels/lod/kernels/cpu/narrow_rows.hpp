// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sixteen narrow rows as one array of whole vectors, or in a vector each, which are joined column by column in
/// registers.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/shuffle.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/sum_tree.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

// Without a template parameter: g++ 12 miscompiles vectors whose size depends on one.
typedef float FloatVector __attribute__((vector_size(sizeof(xsimd::batch<float>))));
typedef double DoubleVector __attribute__((vector_size(sizeof(xsimd::batch<double>))));

/// How many whole vectors 16 rows of `columns` columns fill.
template <std::size_t columns, class T>
inline constexpr std::size_t narrow_vectors = 16 * columns / Vector<T>::size;
template <std::size_t columns, class T>
using NarrowVectors = Vector<T>[narrow_vectors<columns, T>];

/// Returns body(columns) for rows of `least` to 7 columns, where `columns` is that number as a constant.
template <std::size_t least = 1, class Body>
inline decltype(auto) with_narrow_columns(std::int64_t row_size, const Body& body) {
  if constexpr (least < 7) {
    if (row_size == static_cast<std::int64_t>(least)) return body(std::integral_constant<std::size_t, least>());
    return with_narrow_columns<least + 1>(row_size, body);
  } else {
    return body(std::integral_constant<std::size_t, 7>());
  }
}

/// One narrow row, at the start of one or more vectors.
template <std::size_t columns, class T>
struct NarrowRow {
  static constexpr std::size_t vectors = (columns + Vector<T>::size - 1) / Vector<T>::size;
  Vector<T> part[vectors];

  /// As numbers of type Y, `Accumulator<T>` or T.
  template <class Y>
  void store(Y* to) const noexcept {
    if constexpr (columns == 1) {
      *to = static_cast<Y>(part[0].get(0));
      return;
    }
    constexpr std::size_t whole = columns / Vector<T>::size;
#pragma GCC unroll 16
    for (std::size_t v = 0; v != whole; ++v) cpu::store<Y>(to + v * Vector<T>::size, part[v]);
    constexpr auto rest = static_cast<std::int64_t>(columns % Vector<T>::size);
    if constexpr (rest > 0) cpu::store<Y>(to + whole * Vector<T>::size, part[whole], rest);
  }
};

/// As `shuffle`, for vectors of xsimd.
template <class A, class Place>
[[gnu::always_inline]] inline xsimd::batch<A> permuted(const xsimd::batch<A>& a, const xsimd::batch<A>& b,
                                                       const Place& place) noexcept {
  const auto move = [&](auto result) __attribute__((always_inline)) {
    using PermutedVector = decltype(result);
    shuffle(__builtin_bit_cast(PermutedVector, a), __builtin_bit_cast(PermutedVector, b), place, result);
    return __builtin_bit_cast(xsimd::batch<A>, result);
  };
  if constexpr (std::same_as<A, float>) return move(FloatVector{});
  if constexpr (std::same_as<A, double>) return move(DoubleVector{});
  if constexpr (std::same_as<A, std::int64_t>) return move(Int64Vector{});
}
/// The numbers from number `first` on of `a`, followed by those of `b`.
template <std::size_t first, class A>
[[gnu::always_inline]] inline xsimd::batch<A> window(const xsimd::batch<A>& a, const xsimd::batch<A>& b) noexcept {
  if constexpr (first == 0) {
    return a;
  } else {
    return permuted(a, b, [](std::size_t i) { return first + i; });
  }
}

/// Joins `rows` pairs of rows that follow each other, row i with row rows + i, for rows = 8, 4, 2, 1: the tree of
/// sum_tree.hpp. The first `columns` numbers are the result; what is left after them is unspecified.
template <std::size_t columns, class T, std::size_t rows = 8, class Join>
[[gnu::always_inline]] inline NarrowRow<columns, T> join_rows(NarrowVectors<columns, T>& numbers,
                                                              const Join& join) noexcept {
  constexpr std::size_t size = Vector<T>::size, kept = rows * columns;
  constexpr std::size_t vectors = (kept + size - 1) / size, last = (2 * kept - 1) / size, next = kept / size;
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) {
    const std::size_t low = std::min(next + v, last), high = std::min(low + 1, last);
    numbers[v] = join(numbers[v], window<kept % size>(numbers[low], numbers[high]));
  }
  if constexpr (rows > 1) {
    return join_rows<columns, T, rows / 2>(numbers, join);
  } else {
    NarrowRow<columns, T> row;
#pragma GCC unroll 16
    for (std::size_t v = 0; v < row.vectors; ++v) row.part[v] = numbers[v];
    return row;
  }
}

/// The sum of rows of 2 to 7 columns at random addresses, each in a vector of its own, by the tree of `join_rows`: for
/// types of which a part of a vector is read by a mask.
template <class T, class Rows>
[[gnu::always_inline]] inline Vector<T> add_scattered_rows(const Rows& rows, std::int64_t first, std::int64_t count,
                                                           std::int64_t row_size) {
  constexpr auto empty = empty_sum<Accumulator<T>>();
  const auto read = [&](std::int64_t row) __attribute__((always_inline)) {
    return load(rows.at(first + row), row_size, empty);
  };
  // No branch depends on which of four rows is the last one.
  const auto read_if_any = [&](std::int64_t row) __attribute__((always_inline)) {
    return load(rows.at(first + std::min(row, count - 1)), row < count ? row_size : 0, empty);
  };
  if (count <= 4) {
    rows.template ask_after<4>(first, narrow_row_size);
    return (read(0) + read_if_any(2)) + (read_if_any(1) + read_if_any(3));
  }
  Vector<T> sums[16];
#pragma GCC unroll 16
  for (std::size_t k = 0; k < 16; ++k) sums[k] = Vector<T>(empty);
  for (std::int64_t row = 0; row < count;) {
#pragma GCC unroll 16
    for (std::size_t k = 0; k < 16; k += 4, row += 4) {
      if (row >= count) break;
      rows.template ask_after<4>(first + row, narrow_row_size);
      if (row + 4 <= count) {
#pragma GCC unroll 16
        for (std::size_t i = 0; i < 4; ++i) sums[k + i] += read(row + static_cast<std::int64_t>(i));
      } else {
#pragma GCC unroll 16
        for (std::size_t i = 0; i < 4; ++i) sums[k + i] += read_if_any(row + static_cast<std::int64_t>(i));
      }
    }
  }
#pragma GCC unroll 16
  for (std::size_t k = 0; k < 8; ++k) sums[k] += sums[k + 8];
#pragma GCC unroll 16
  for (std::size_t k = 0; k < 4; ++k) sums[k] += sums[k + 4];
  return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

/// The places of numbers that repeat after `columns`.
template <std::size_t first, std::size_t columns>
struct RepeatedPlaces {
  constexpr std::size_t operator()(std::size_t i) const noexcept { return (first + i) % columns; }
};
/// One number for each column, repeated to fill the vectors of as many rows as a vector has numbers.
template <std::size_t columns, class A>
struct RepeatedColumns {
  using V = xsimd::batch<A>;
  V vector[columns];

  /// Two vectors can be read from `row` on.
  [[gnu::always_inline]] explicit RepeatedColumns(const A* row) noexcept {
    if constexpr (in_two_vectors) {
      repeat(V::load_unaligned(row), V::load_unaligned(row + V::size));
    } else {
      repeat(row);
    }
  }
  template <class T>
  [[gnu::always_inline]] explicit RepeatedColumns(const NarrowRow<columns, T>& row) noexcept {
    if constexpr (in_two_vectors) {
      repeat(row.part[0], row.part[row.vectors - 1]);
    } else {
      A numbers[columns];
      row.store(numbers);
      repeat(numbers);
    }
  }

 private:
  static constexpr bool in_two_vectors = columns <= 2 * V::size;

  [[gnu::always_inline]] void repeat(const V& low, const V& high) noexcept {
    const auto fill = [&]<std::size_t... v>(std::index_sequence<v...>) __attribute__((always_inline)) {
      ((vector[v] = permuted(low, high, RepeatedPlaces<v * V::size, columns>())), ...);
    };
    fill(std::make_index_sequence<columns>());
  }
  void repeat(const A* row) noexcept {
    alignas(64) A numbers[columns * V::size];
    for (std::size_t i = 0; i < columns * V::size; ++i) numbers[i] = row[i % columns];
#pragma GCC unroll 16
    for (std::size_t v = 0; v < columns; ++v) vector[v] = V::load_aligned(numbers + v * V::size);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

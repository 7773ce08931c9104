// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums over the numbers of a row, in the order of row_statistics.hpp: vectors of lanes for each row, which are added
/// up for as many rows at a time as a vector has lanes.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/transpose.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/row_statistics.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The compiler's own vectors.
template <class A>
struct OwnVector {
  typedef float type __attribute__((vector_size(sizeof(xsimd::batch<float>))));
};
template <>
struct OwnVector<double> {
  typedef double type __attribute__((vector_size(sizeof(xsimd::batch<double>))));
};

/// The sums of the lanes of each of `size` rows in memory, as `sum_of_lanes` adds them.
template <class A>
[[gnu::always_inline]] inline xsimd::batch<A> sums_of_lanes(const A* lanes_of_rows) {
  constexpr std::size_t size = xsimd::batch<A>::size;
  typename OwnVector<A>::type rows[size];
#pragma GCC unroll 16
  for (std::size_t row = 0; row < size; ++row) std::memcpy(&rows[row], lanes_of_rows + row * size, sizeof rows[0]);
  transpose(rows);
#pragma GCC unroll 16
  for (std::size_t half = size / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
    for (std::size_t lane = 0; lane < half; ++lane) rows[lane] += rows[half + lane];
  }
  return __builtin_bit_cast(xsimd::batch<A>, rows[0]);
}

/// `row_lanes` sums in vectors.
template <class A>
struct LaneSums {
  static constexpr std::size_t vectors = static_cast<std::size_t>(row_lanes) / xsimd::batch<A>::size;
  xsimd::batch<A> of[vectors];

  [[gnu::always_inline]] void clear() {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) of[v] = xsimd::batch<A>(A{});
  }
  [[gnu::always_inline]] void add(const LaneSums& more) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) of[v] += more.of[v];
  }
  /// As many sums as a vector has, of which those at a distance of `xsimd::batch<A>::size` are joined.
  [[gnu::always_inline]] xsimd::batch<A> joined() {
#pragma GCC unroll 16
    for (std::size_t half = vectors / 2; half > 0; half /= 2) {
#pragma GCC unroll 16
      for (std::size_t v = 0; v < half; ++v) of[v] += of[half + v];
    }
    return of[0];
  }
};

/// Sums over the numbers of a row: add(i, some, sum...) adds to each vector of sums the terms of the `some` numbers
/// from i on, and nothing to the lanes after these; `some` is a constant for whole vectors.
template <class T, std::size_t count, class Add>
[[gnu::always_inline]] inline void sum_part(std::int64_t begin, std::int64_t end, const Add& add,
                                            LaneSums<Accumulator<T>> (&sums)[count]) {
  constexpr std::size_t vectors = LaneSums<Accumulator<T>>::vectors;
  const auto call = [&](std::int64_t i, auto some, std::size_t v) __attribute__((always_inline)) {
    if constexpr (count == 1) {
      add(i, some, sums[0].of[v]);
    } else {
      add(i, some, sums[0].of[v], sums[1].of[v]);
    }
  };
#pragma GCC unroll 2
  for (std::size_t n = 0; n < count; ++n) sums[n].clear();
  std::int64_t i = begin;
  for (; i + row_lanes <= end; i += row_lanes) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      call(i + static_cast<std::int64_t>(v) * lanes<T>, std::integral_constant<std::int64_t, lanes<T>>(), v);
    }
  }
  if (i == end) return;
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) {
    const std::int64_t at = i + static_cast<std::int64_t>(v) * lanes<T>;
    if (at < end) call(at, std::min(end - at, lanes<T>), v);
  }
}
/// The same over whole rows. Sum n of the row goes to to[n], lane by lane.
template <class T, std::size_t count, class Add>
[[gnu::always_inline]] inline void sum_row(std::int64_t row_size, const Add& add, Accumulator<T>* const (&to)[count]) {
  LaneSums<Accumulator<T>> sums[count], totals[count];
  // One copy of the loops over a part's numbers, which compilers take long for.
  std::int64_t begin = 0;
  for (;; begin += row_part) {
    sum_part<T, count>(begin, std::min(begin + row_part, row_size), add, sums);
    if (row_size - begin < row_part) break;
    for (std::size_t n = 0; n < count; ++n) {
      if (begin > 0) sums[n].add(totals[n]);
      totals[n] = sums[n];
    }
  }
  if (begin > 0) {
    for (std::size_t n = 0; n < count; ++n) sums[n].add(totals[n]);
  }
#pragma GCC unroll 2
  for (std::size_t n = 0; n < count; ++n) sums[n].joined().store_aligned(to[n]);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

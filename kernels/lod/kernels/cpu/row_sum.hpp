// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sum of many rows, column by column, by the tree of sum_tree.hpp, on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/narrow_rows.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/sum_tree.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Reads consecutive rows. `readable` numbers from `first` on may be read, rows or not: if a caller allows more than
/// its rows, narrow rows need no slow tail. `far`: the rows are in more memory than caches hold.
template <class T>
struct ContiguousRows {
  const T* first;
  std::int64_t row_size;
  std::int64_t readable = 0;
  bool far = false;
  const T* operator()(std::int64_t row) const noexcept { return first + row * row_size; }
  void set_row_size(std::int64_t size) noexcept { row_size = size; }
};
/// Reads the rows of a table whose indices are listed.
template <class T>
struct ListedRows {
  const T* table;
  std::int64_t row_size;
  const std::int64_t* list;
  const T* operator()(std::int64_t row) const noexcept { return table + list[row] * row_size; }
};

/// Reads rows at arbitrary addresses and prefetches them: at(k) is the address of row k, whose size is the one given to
/// at.set_row_size(size). `left` rows exist, those of the sequence and those of the ones after it. Where the addresses
/// themselves are scattered, at.prefetch_place(k) prefetches that of row k.
template <class T, class At>
struct ScatteredRows {
  At at;
  std::int64_t left;
  std::int64_t row_size;
  Whereabouts whereabouts = Whereabouts::MEMORY;

  void set_row_size(std::int64_t size) noexcept {
    row_size = size;
    at.set_row_size(size);
  }
  // Inlined: a call would force the sums of rows out of their registers.
  [[gnu::always_inline]] const T* operator()(std::int64_t row) const noexcept {
    ask_after<1>(row, row_size);
    return at(row);
  }
  /// Prefetches what will be read after rows [row, row + count).
  template <std::int64_t count>
  [[gnu::always_inline]] void ask_after(std::int64_t row, std::int64_t size) const noexcept {
    if constexpr (requires { at.prefetch_place(row); }) {
      for (std::int64_t k = row; k < row + count; ++k) at.prefetch_place(there(k + 2 * prefetch_distance));
    }
    if (whereabouts == Whereabouts::CACHE) {
      for (std::int64_t k = row; k < row + count; ++k) {
        prefetch(at(there(k + prefetch_distance)), size, Whereabouts::CACHE);
      }
    } else {
      for (std::int64_t k = row; k < row + count; ++k) {
        prefetch(at(there(k + prefetch_distance)), size, Whereabouts::MEMORY);
      }
    }
  }

 private:
  /// Without a branch at the end of the rows: there, the last one is prefetched again.
  std::int64_t there(std::int64_t row) const noexcept { return std::min(row, left - 1); }
};
template <class Rows>
inline constexpr bool is_scattered = false;
template <class T, class At>
inline constexpr bool is_scattered<ScatteredRows<T, At>> = true;

/// Rows of terms that are computed on demand: compute(first, count, to) writes rows [first, first + count) of them to
/// `to`, at most `computed_rows(row_size)` at a time. `block` is scratch for `computed_scratch(row_size)` numbers.
template <class A, class Compute>
struct ComputedRows {
  Compute compute;
  A* block;
};
template <class Compute, class A>
ComputedRows(Compute, A*) -> ComputedRows<A, Compute>;

/// Adds the accumulators of 16 rows as a tree.
template <std::size_t columns, class T>
[[gnu::always_inline]] inline NarrowRow<columns, T> add_tree(NarrowVectors<columns, T>& accumulators) {
  return join_rows<columns, T>(accumulators, [](const Vector<T>& a, const Vector<T>& b) { return a + b; });
}

/// Joins rows of 1 to 7 columns, in registers, where joining with `empty` changes nothing: row k goes to the
/// accumulator k mod 16 of its column, and the 16 are joined as a tree.
template <std::size_t columns, class T, class Join>
[[gnu::always_inline]] inline NarrowRow<columns, T> join_narrow_rows(const ContiguousRows<T>& rows, std::int64_t first,
                                                                     std::int64_t count, Accumulator<T> empty,
                                                                     const Join& join) {
  constexpr std::size_t vectors = narrow_vectors<columns, T>;
  constexpr std::int64_t block = vectors * lanes<T>;
  const T* x = rows(first);
  std::int64_t left = count * static_cast<std::int64_t>(columns);
  std::int64_t readable = rows.readable - (x - rows.first);
  Vector<T> accumulators[vectors];
  if (masked<T> && count <= 32) {  // whether a short sequence has more than 16 rows is not asked
    const auto read = [&](std::int64_t v) {
      const std::int64_t before = v * lanes<T>;
      return load(x + std::min(before, left), std::min(left - before, lanes<T>), empty);
    };
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      const auto place = static_cast<std::int64_t>(v);
      accumulators[v] = join(read(place), read(place + static_cast<std::int64_t>(vectors)));
    }
    return join_rows<columns, T>(accumulators, join);
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) accumulators[v] = Vector<T>(empty);
  for (; left >= block; left -= block, readable -= block, x += block) {
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) accumulators[v] = join(accumulators[v], load(x + v * Vector<T>::size));
  }
  // The values that replace missing rows change nothing.
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) {
    const auto before = static_cast<std::int64_t>(v) * lanes<T>;
    accumulators[v] =
        join(accumulators[v], load_first(x + std::min(before, left), left - before, empty, readable - before));
  }
  return join_rows<columns, T>(accumulators, join);
}
/// Sums one leaf of rows of 1 to 7 columns.
template <std::size_t columns, class T>
[[gnu::always_inline]] inline NarrowRow<columns, T> sum_narrow_rows(const ContiguousRows<T>& rows, std::int64_t first,
                                                                    std::int64_t count) {
  return join_narrow_rows<columns>(rows, first, count, empty_sum<Accumulator<T>>(),
                                   [](const Vector<T>& a, const Vector<T>& b) { return a + b; });
}
template <std::size_t columns, class T, class Rows>
inline void sum_narrow_leaf(const Rows& rows, std::int64_t first, std::int64_t count, Accumulator<T>* sum) {
  using A = Accumulator<T>;
  if constexpr (std::same_as<Rows, ContiguousRows<T>>) {
    sum_narrow_rows<columns, T>(rows, first, count).store(sum);
  } else {
    // Sixteen rows at a time are arranged side by side.
    constexpr std::size_t vectors = narrow_vectors<columns, T>;
    constexpr auto row_size = static_cast<std::int64_t>(columns);
    alignas(64) A block[16 * columns + Vector<T>::size]{};
    Vector<T> accumulators[vectors];
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) accumulators[v] = Vector<T>(empty_sum<A>());
    for (std::int64_t begin = 0; begin < count; begin += 16) {
      const std::int64_t some = std::min<std::int64_t>(count - begin, 16);
      for (std::int64_t row = 0; row < some; ++row) {
        const T* const x = rows(first + begin + row);
        A* const to = block + row * row_size;
        for (std::size_t column = 0; column < columns; ++column) to[column] = static_cast<A>(x[column]);
      }
#pragma GCC unroll 16
      for (std::size_t v = 0; v < vectors; ++v) {
        const std::int64_t at = static_cast<std::int64_t>(v) * lanes<T>;
        accumulators[v] += load_first<A>(block + at, some * row_size - at, empty_sum<A>(), lanes<T>);
      }
    }
    add_tree<columns, T>(accumulators).store(sum);
  }
}

/// The initial value of sums of rows.
enum class SumFrom { NOTHING, GIVEN };

/// sums[v] += (a + b) + (c + d), for `vectors` vectors of four rows. The rows are read one after the other: processors
/// read ahead of one stream better than of four. Always inlined, so that the sums stay in registers.
template <std::size_t vectors, class T>
[[gnu::always_inline]] inline void add_four_rows(const T* a, const T* b, const T* c, const T* d,
                                                 Vector<T> (&sums)[vectors]) {
  Vector<T> low[vectors], high[vectors];
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) low[v] = load(a + v * Vector<T>::size);
  keep_order();
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) low[v] += load(b + v * Vector<T>::size);
  keep_order();
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) high[v] = load(c + v * Vector<T>::size);
  keep_order();
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) high[v] += load(d + v * Vector<T>::size);
  keep_order();
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) sums[v] += low[v] + high[v];
}
/// The vectors of each row that are read at a time: with 8 vectors of sums, two rows of them fit the registers.
inline constexpr std::size_t vectors_of_four = sizeof(Vector<float>) == 64 ? 4 : 2;

/// Prefetches what comes after rows [row, row + count), where `count` is 4 or 1. Consecutive rows are prefetched where
/// they are far away: the hardware does not recognize reads of four short rows at a time as a stream. On a Zen 4, rows
/// of 64 floats arrive twice as fast; those of a cache line or less arrive faster without.
template <std::int64_t count, class T, class Rows>
[[gnu::always_inline]] inline void prefetch_after(const Rows& rows, std::int64_t row, std::int64_t row_size) {
  if constexpr (is_scattered<Rows>) {
    rows.template ask_after<count>(row, row_size);
  } else if constexpr (std::same_as<Rows, ContiguousRows<T>> && count == 4) {
    constexpr auto page = static_cast<std::int64_t>(4096 / sizeof(T)), line = static_cast<std::int64_t>(64 / sizeof(T));
    if (!rows.far || row_size < 2 * line) return;
    const T* const ahead = rows(row) + std::max(page, 4 * row_size);
    for (std::int64_t i = 0; i < 4 * row_size; i += line) __builtin_prefetch(ahead + i, 0, 2);
  }
}
/// Row `row`, which has been prefetched.
template <class T, class Rows>
[[gnu::always_inline]] inline const T* row_at(const Rows& rows, std::int64_t row) {
  if constexpr (is_scattered<Rows>) {
    return rows.at(row);
  } else {
    return rows(row);
  }
}

/// A row of sums in registers.
template <std::size_t vectors, class T>
struct VectorRow {
  static constexpr std::size_t some = std::min(vectors, vectors_of_four), parts = vectors / some;
  Vector<T> part[parts][some];

  [[gnu::always_inline]] Vector<T>& operator[](std::size_t v) { return part[v / some][v % some]; }
};

/// Adds rows of several vectors to `sums`, which stay in registers until all are added: always inlined. The additions
/// are those of `add_wide_rows`.
template <std::size_t vectors, class T, class Rows>
[[gnu::always_inline]] inline void add_vector_rows(const Rows& rows, std::int64_t first, std::int64_t count,
                                                   VectorRow<vectors, T>& sums) {
  constexpr std::size_t some = VectorRow<vectors, T>::some, parts = VectorRow<vectors, T>::parts;
  constexpr std::int64_t part_size = static_cast<std::int64_t>(some) * lanes<T>;
  constexpr std::int64_t row_size = static_cast<std::int64_t>(vectors) * lanes<T>;
  std::int64_t row = 0;
  for (; row + 4 <= count; row += 4) {
    prefetch_after<4, T>(rows, first + row, row_size);
    const T *a = row_at<T>(rows, first + row), *b = row_at<T>(rows, first + row + 1);
    const T *c = row_at<T>(rows, first + row + 2), *d = row_at<T>(rows, first + row + 3);
#pragma GCC unroll 16
    for (std::size_t part = 0; part < parts; ++part, a += part_size, b += part_size, c += part_size, d += part_size) {
      add_four_rows<some, T>(a, b, c, d, sums.part[part]);
    }
  }
  for (; row < count; ++row) {
    prefetch_after<1, T>(rows, first + row, row_size);
    const T* const a = row_at<T>(rows, first + row);
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) sums[v] += load(a + v * Vector<T>::size);
  }
}
/// The same for sums in memory, which start empty unless they are GIVEN.
template <SumFrom from, std::size_t vectors, class T, class Rows>
inline void add_vector_rows(const Rows& rows, std::int64_t first, std::int64_t count, T* sum) {
  VectorRow<vectors, T> sums;
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) {
    sums[v] = from == SumFrom::GIVEN ? load(sum + v * Vector<T>::size) : Vector<T>(empty_sum<T>());
  }
  add_vector_rows<vectors, T>(rows, first, count, sums);
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) store<T>(sum + v * Vector<T>::size, sums[v]);
}

/// Returns `sums`, a row in a register, plus rows of 8 columns or more that are narrower than a vector. The additions
/// are those of `add_wide_rows`.
template <class T, class Rows>
[[gnu::always_inline]] inline Vector<T> add_partial_vectors(const Rows& rows, std::int64_t first, std::int64_t count,
                                                            std::int64_t row_size, Vector<T> sums) {
  const auto read = [&](const T* x) { return load(x, row_size, Accumulator<T>{}); };
  std::int64_t row = 0;
  for (; row + 4 <= count; row += 4) {
    prefetch_after<4, T>(rows, first + row, row_size);
    const auto at = [&](std::int64_t k) { return read(row_at<T>(rows, first + row + k)); };
    sums += (at(0) + at(1)) + (at(2) + at(3));
  }
  for (; row < count; ++row) sums += read(rows(first + row));
  return sums;
}

/// sum = the sum of rows of 8 columns or more, plus the value of `sum` if it is GIVEN: four rows at a time.
template <SumFrom from, class T, class Rows>
inline void add_wide_rows(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t row_size,
                          Accumulator<T>* sum) {
  using A = Accumulator<T>;
  if constexpr (std::same_as<T, A>) {
    if (row_size == 8 * lanes<T>) return add_vector_rows<from, 8, T>(rows, first, count, sum);
    if (row_size == 4 * lanes<T>) return add_vector_rows<from, 4, T>(rows, first, count, sum);
    if (row_size == 2 * lanes<T>) return add_vector_rows<from, 2, T>(rows, first, count, sum);
    if (row_size == lanes<T>) return add_vector_rows<from, 1, T>(rows, first, count, sum);
  }
  // Not for 16-bit numbers: rows of other sizes would become slower.
  if constexpr (masked<T> && sizeof(T) >= sizeof(float)) {
    if (row_size < lanes<T>) {  // a row of sums in a register
      const Vector<T> sums = from == SumFrom::GIVEN ? load<A>(sum, row_size, A{}) : Vector<T>(empty_sum<A>());
      return store<A>(sum, add_partial_vectors<T>(rows, first, count, row_size, sums), row_size);
    }
  }
  if (from == SumFrom::NOTHING) std::fill_n(sum, row_size, empty_sum<A>());
  std::int64_t row = 0;
  for (; row + 4 <= count; row += 4) {
    prefetch_after<4, T>(rows, first + row, row_size);
    const T *a = row_at<T>(rows, first + row), *b = row_at<T>(rows, first + row + 1);
    const T *c = row_at<T>(rows, first + row + 2), *d = row_at<T>(rows, first + row + 3);
    std::int64_t i = 0;
    for (; i + lanes<T> <= row_size; i += lanes<T>) {
      const Vector<T> four = (load<T>(a + i) + load<T>(b + i)) + (load<T>(c + i) + load<T>(d + i));
      (Vector<T>::load_unaligned(sum + i) + four).store_unaligned(sum + i);
    }
    for (; i < row_size; ++i) {
      sum[i] = plus(sum[i], plus(plus(static_cast<A>(a[i]), static_cast<A>(b[i])),
                                 plus(static_cast<A>(c[i]), static_cast<A>(d[i]))));
    }
  }
  for (; row < count; ++row) {
    const T* a = rows(first + row);
    std::int64_t i = 0;
    for (; i + lanes<T> <= row_size; i += lanes<T>) {
      (Vector<T>::load_unaligned(sum + i) + load<T>(a + i)).store_unaligned(sum + i);
    }
    for (; i < row_size; ++i) sum[i] = plus(sum[i], static_cast<A>(a[i]));
  }
}

template <class T, class Rows>
void sum_stored_leaf(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t row_size,
                     Accumulator<T>* sum) {
  if (row_size > narrow_row_size) return add_wide_rows<SumFrom::NOTHING, T>(rows, first, count, row_size, sum);
  if constexpr (is_scattered<Rows> && masked<T>) {
    store<Accumulator<T>>(sum, add_scattered_rows<T>(rows, first, count, row_size), row_size);
  } else {
    with_narrow_columns(row_size, [&](auto columns) { sum_narrow_leaf<columns, T>(rows, first, count, sum); });
  }
}

/// Computed terms stay in the first-level cache until they are added: a leaf of narrow rows, or a multiple of four wide
/// ones.
constexpr std::int64_t computed_rows(std::int64_t row_size) noexcept {
  return row_size <= narrow_row_size ? leaf_rows : std::max<std::int64_t>(4096 / row_size / 4 * 4, 4);
}
constexpr std::int64_t computed_scratch(std::int64_t row_size) noexcept { return computed_rows(row_size) * row_size; }

/// Sums at most a leaf of rows into sum[0 .. row_size). Rows that have a function sum(first, count, to) do so by
/// themselves.
template <class T, class Rows>
void sum_leaf(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t row_size, Accumulator<T>* sum) {
  if constexpr (requires { rows.sum(first, count, sum); }) {
    rows.sum(first, count, sum);
  } else if constexpr (requires { rows.compute; }) {
    const ContiguousRows<T> block{rows.block, row_size, computed_scratch(row_size)};
    if (row_size <= narrow_row_size) {
      rows.compute(first, count, rows.block);
      sum_stored_leaf<T>(block, 0, count, row_size, sum);
      return;
    }
    std::fill_n(sum, row_size, empty_sum<T>());
    const std::int64_t step = computed_rows(row_size);
    for (std::int64_t row = 0; row < count; row += step) {
      const std::int64_t some = std::min(count - row, step);
      rows.compute(first + row, some, rows.block);
      add_wide_rows<SumFrom::GIVEN, T>(block, 0, some, row_size, sum);
    }
  } else {
    sum_stored_leaf<T>(rows, first, count, row_size, sum);
  }
}

/// Sums rows [first, first + count) of `rows`, at most a chunk, into sum[0 .. row_size), with the rounding errors of
/// joining leaves in error[0 .. row_size). `leaf` is scratch for one row.
template <class T, class Rows>
void sum_chunk(const Rows& rows, std::int64_t first, std::int64_t count, std::int64_t row_size, Accumulator<T>* sum,
               Accumulator<T>* error, Accumulator<T>* leaf) {
  sum_leaf<T>(rows, first, std::min(count, leaf_rows), row_size, sum);
  std::fill_n(error, row_size, empty_sum<Accumulator<T>>());
  for (std::int64_t begin = leaf_rows; begin < count; begin += leaf_rows) {
    sum_leaf<T>(rows, first + begin, std::min(count - begin, leaf_rows), row_size, leaf);
    for (std::int64_t i = 0; i < row_size; ++i) add_compensated(sum[i], error[i], leaf[i]);
  }
}

/// Adds the sum of a chunk, with its error, to a running sum.
template <class A>
inline void join_chunks(A* sum, A* error, const A* more, const A* more_error, std::int64_t row_size) noexcept {
  for (std::int64_t i = 0; i < row_size; ++i) {
    add_compensated(sum[i], error[i], more[i]);
    error[i] += more_error[i];
  }
}

/// The scratch memory of `sum_rows`, in numbers.
constexpr std::int64_t sum_scratch(std::int64_t row_size) noexcept { return 5 * row_size; }

/// Sums all `count` rows on the calling thread and returns the row_size sums, which are at the start of `scratch`.
template <class T, class Rows>
inline const Accumulator<T>* sum_rows(const Rows& rows, std::int64_t count, std::int64_t row_size,
                                      Accumulator<T>* scratch) {
  using A = Accumulator<T>;
  A* sum = scratch;
  if (count == 0) {
    std::fill_n(sum, row_size, A{});
    return sum;
  }
  if (count <= leaf_rows) {  // nothing to join
    sum_leaf<T>(rows, 0, count, row_size, sum);
    return sum;
  }
  A* error = scratch + row_size;
  A* leaf = scratch + 2 * row_size;
  const std::int64_t step = chunk_rows(row_size);
  sum_chunk<T>(rows, 0, std::min(count, step), row_size, sum, error, leaf);
  for (std::int64_t first = step; first < count; first += step) {
    A* more = scratch + 3 * row_size;
    A* more_error = scratch + 4 * row_size;
    sum_chunk<T>(rows, first, std::min(count - first, step), row_size, more, more_error, leaf);
    join_chunks(sum, error, more, more_error, row_size);
  }
  for (std::int64_t i = 0; i < row_size; ++i) sum[i] += error[i];
  return sum;
}

/// The scratch memory of the following function, in numbers, for up to `count` rows.
inline std::int64_t shared_sum_scratch(std::int64_t count, std::int64_t row_size) noexcept {
  const std::int64_t step = chunk_rows(row_size);
  return std::max<std::int64_t>((count + step - 1) / step, 1) * 3 * row_size;
}
/// The same for one long sequence, by all threads of the executor; the sums go to sum[0 .. row_size). rows_of(thread)
/// returns the rows; reading them touches `bytes` of memory.
template <class T, class RowsOf>
void sum_rows(const CpuExecutor& executor, const RowsOf& rows_of, std::int64_t count, std::int64_t row_size,
              std::int64_t bytes, const Workspace::Loan<Accumulator<T>>& partial, Accumulator<T>* sum) {
  using A = Accumulator<T>;
  const FloatingPointControl standard;
  if (count == 0) return fill(sum, row_size, A{});
  const std::int64_t step = chunk_rows(row_size);
  const std::int64_t chunks = std::max<std::int64_t>((count + step - 1) / step, 1);
  parallel_for(executor, chunks, bytes, [&](std::int64_t chunk, int thread) {
    A* const here = partial.data() + chunk * 3 * row_size;
    sum_chunk<T>(rows_of(thread), chunk * step, std::min(step, count - chunk * step), row_size, here, here + row_size,
                 here + 2 * row_size);
  });
  A* const first = partial.data();
  A* const error = first + row_size;
  for (std::int64_t chunk = 1; chunk < chunks; ++chunk) {
    const A* more = first + chunk * 3 * row_size;
    join_chunks(first, error, more, more + row_size, row_size);
  }
  for (std::int64_t i = 0; i < row_size; ++i) sum[i] = first[i] + error[i];
}
template <class T, class RowsOf>
void sum_rows(const CpuExecutor& executor, const RowsOf& rows_of, std::int64_t count, std::int64_t row_size,
              std::int64_t bytes, Accumulator<T>* sum) {
  const Workspace::Loan<Accumulator<T>> partial(executor.workspace(), shared_sum_scratch(count, row_size));
  sum_rows<T>(executor, rows_of, count, row_size, bytes, partial, sum);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

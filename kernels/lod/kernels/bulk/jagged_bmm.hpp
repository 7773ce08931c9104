// SPDX-License-Identifier: Apache-2.0
/// @file
/// Products of a matrix for each sequence in bulk: a body for each number of the result.
///
/// The order of the additions is that of all products; the sums of a giant's rows are shared by leaves.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/matrix_product.hpp>
#include <lod/ops/jagged_bmm.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<JaggedDenseProduct> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const Segments& sequences, std::int64_t terms, const T* matrices,
                  const std::int64_t* matrix_of, bool transposed, std::int64_t columns, T* y) {
    using A = Accumulator<T>;
    const std::int64_t row_stride = transposed ? 1 : columns, column_stride = transposed ? terms : 1;
    for_each_in_sequences(
        executor, sequences, columns, [=] LOD_HOST_DEVICE(std::int64_t i, std::int64_t row, std::int64_t column) {
          const std::int64_t matrix = matrix_of != nullptr ? matrix_of[i] : i;
          T& to = y[row * columns + column];
          if (matrix < 0) {
            to = T{};
            return;
          }
          const T* const left = x + row * terms;
          const T* const right = matrices + matrix * terms * columns + column * column_stride;
          to = static_cast<T>(sum_of_products<A>([&](std::int64_t k) { return static_cast<A>(left[k]); },
                                                 [&](std::int64_t k) { return static_cast<A>(right[k * row_stride]); },
                                                 terms));
        });
  }
};

/// Leaves of products over the rows of sequences, and places for those of long sequences: one at every `place_rows`-th
/// row of the batch. Three places are as far apart as two leaves and a quarter: a sequence of more than three leaves
/// has at least as many places.
template <class A, class T>
struct JaggedProducts {
  static constexpr std::int64_t place_rows = product_leaf_terms / 4 * 3;
  static constexpr std::int64_t short_rows = 3 * product_leaf_terms;

  const T* x;
  const T* y;
  Segments sequences;
  const std::int64_t* rows;
  std::int64_t height;
  std::int64_t width;

  LOD_HOST_DEVICE bool is_long(std::int64_t i) const noexcept { return sequences.length(i) > short_rows; }
  /// The place of the first leaf of a long sequence.
  LOD_HOST_DEVICE std::int64_t first_place(std::int64_t i) const noexcept {
    return (sequences.begin(i) + place_rows - 1) / place_rows;
  }
  /// A leaf of a number of the result of sequence i; numbers are counted row by row.
  LOD_HOST_DEVICE A leaf(std::int64_t i, std::int64_t at, std::int64_t number) const {
    const std::int64_t begin = sequences.begin(i);
    const std::int64_t left = at / width, right = at % width;
    const auto row = [&](std::int64_t k) { return rows != nullptr ? rows[begin + k] : begin + k; };
    return product_leaf<A>([&](std::int64_t k) { return static_cast<A>(x[row(k) * height + left]); },
                           [&](std::int64_t k) { return static_cast<A>(y[row(k) * width + right]); }, number,
                           sequences.length(i));
  }
};

template <>
struct Kernel<JaggedJaggedProduct> {
  template <class E, class T>
  static void run(const E& executor, const T* x, const T* y, const Segments& sequences, const std::int64_t* rows,
                  std::int64_t height, std::int64_t width, T* z) {
    if (height == 0 || width == 0) return;
    using A = Accumulator<T>;
    const JaggedProducts<A, T> products{x, y, sequences, rows, height, width};
    const std::int64_t numbers = height * width;
    // Enough bodies to keep any machine busy with one sequence; then leaves need no bodies of their own.
    constexpr std::int64_t bodies = std::int64_t{1} << 18;
    const bool shares_leaves = sequences.max_rows > products.short_rows && numbers < bodies;
    const std::int64_t places = shares_leaves ? (sequences.rows() + products.place_rows - 1) / products.place_rows : 0;
    const Scratch<E, A> loan(executor, places * numbers);
    A* const parts = loan.data();
    for_each(executor, places * numbers, [=] LOD_HOST_DEVICE(std::int64_t n) {
      const std::int64_t place = n / numbers;
      const std::int64_t i = sequence_of(products.sequences, place * products.place_rows);
      // A row may belong to no sequence, and a place to no leaf.
      if (i >= products.sequences.size || !products.is_long(i)) return;
      const std::int64_t leaf = place - products.first_place(i);
      if (leaf < product_leaves(products.sequences.length(i))) parts[n] = products.leaf(i, n % numbers, leaf);
    });
    for_each(executor, sequences.size * numbers, [=] LOD_HOST_DEVICE(std::int64_t n) {
      const std::int64_t i = n / numbers, at = n % numbers;
      const std::int64_t leaves = product_leaves(products.sequences.length(i));
      if (places > 0 && products.is_long(i)) {
        const A* const own = parts + products.first_place(i) * numbers + at;
        z[n] = static_cast<T>(add_product_leaves<A>(leaves, [&](std::int64_t leaf) { return own[leaf * numbers]; }));
      } else {
        z[n] = static_cast<T>(
            add_product_leaves<A>(leaves, [&](std::int64_t leaf) { return products.leaf(i, at, leaf); }));
      }
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

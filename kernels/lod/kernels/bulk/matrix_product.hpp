// SPDX-License-Identifier: Apache-2.0
/// @file
/// Products of dense matrices in bulk, for back ends that have no library for them.
///
/// The order of the additions is that of the CPU: the products of a leaf one after the other, by fused multiply-add
/// where there is one, and the leaves with compensation.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/fused.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// A matrix in memory: its rows are `row_stride` numbers apart, its columns `column_stride`.
template <class T>
struct StridedNumbers {
  const T* first;
  std::int64_t row_stride;
  std::int64_t column_stride;
  LOD_HOST_DEVICE Accumulator<T> operator()(std::int64_t row, std::int64_t column) const noexcept {
    return static_cast<Accumulator<T>>(first[row * row_stride + column * column_stride]);
  }
};

/// The products that are added up one after the other.
inline constexpr std::int64_t product_leaf_terms = 256;
/// The number of leaves of a sum of so many products.
LOD_HOST_DEVICE constexpr std::int64_t product_leaves(std::int64_t terms) noexcept {
  return terms > product_leaf_terms ? (terms - 1) / product_leaf_terms + 1 : 1;
}
/// A leaf of the sum of left(k) * right(k) for k in [0, terms).
template <class A, class Left, class Right>
LOD_HOST_DEVICE A product_leaf(const Left& left, const Right& right, std::int64_t leaf, std::int64_t terms) {
  const std::int64_t end = least((leaf + 1) * product_leaf_terms, terms);
  A sum{};
  for (std::int64_t k = leaf * product_leaf_terms; k < end; ++k) sum = fused(left(k), right(k), sum);
  return sum;
}
/// The sum of `leaves` leaves; leaf(k) is the k-th.
template <class A, class ReadLeaf>
LOD_HOST_DEVICE A add_product_leaves(std::int64_t leaves, const ReadLeaf& leaf) {
  A sum = leaf(0), error{};
  for (std::int64_t k = 1; k < leaves; ++k) add_compensated(sum, error, leaf(k));
  return leaves > 1 ? sum + error : sum;
}
/// The sum of left(k) * right(k) for k in [0, terms).
template <class A, class Left, class Right>
LOD_HOST_DEVICE A sum_of_products(const Left& left, const Right& right, std::int64_t terms) {
  return add_product_leaves<A>(product_leaves(terms),
                               [&](std::int64_t leaf) { return product_leaf<A>(left, right, leaf, terms); });
}

/// Leaves of the sums that make up the numbers of a product; `at` counts these numbers row by row.
template <class A, class Left, class Right>
struct ProductLeaves {
  Left left;
  Right right;
  std::int64_t columns;
  std::int64_t terms;

  std::int64_t count() const noexcept { return product_leaves(terms); }
  LOD_HOST_DEVICE A operator()(std::int64_t at, std::int64_t leaf) const {
    const std::int64_t row = at / columns, column = at % columns;
    return product_leaf<A>([&](std::int64_t k) { return left(row, k); },
                           [&](std::int64_t k) { return right(k, column); }, leaf, terms);
  }
};

/// c = alpha * left * right + beta * c. The operands are m x k and k x n; left(row, k) and right(k, column) return
/// their numbers in type A.
template <class A, class E, class Left, class Right, class T>
void multiply(const E& executor, std::int64_t m, std::int64_t n, std::int64_t k, A alpha, const Left& left,
              const Right& right, A beta, T* c, std::int64_t ldc) {
  const ProductLeaves<A, Left, Right> leaf_sum{left, right, n, k};
  const std::int64_t numbers = m * n, leaves = leaf_sum.count();
  if (numbers == 0) return;
  const auto write = [=] LOD_HOST_DEVICE(std::int64_t at, A sum) {
    T* const to = c + at / n * ldc + at % n;
    *to = static_cast<T>(beta == A{} ? alpha * sum : alpha * sum + beta * static_cast<A>(*to));
  };
  // Enough bodies to keep any machine busy. If there are fewer numbers, several bodies share the leaves of each.
  constexpr std::int64_t bodies = std::int64_t{1} << 18, few_leaves = 4;
  const std::int64_t at_a_time = least(bodies / numbers, leaves);
  if (at_a_time < few_leaves) {
    for_each(executor, numbers, [=] LOD_HOST_DEVICE(std::int64_t at) {
      write(at, add_product_leaves<A>(leaves, [&](std::int64_t leaf) { return leaf_sum(at, leaf); }));
    });
    return;
  }
  const Scratch<E, A> part_loan(executor, at_a_time * numbers);
  const Scratch<E, A> state_loan(executor, 2 * numbers);
  A* const parts = part_loan.data();
  A* const sums = state_loan.data();
  A* const errors = sums + numbers;
  for (std::int64_t first = 0; first < leaves; first += at_a_time) {
    const std::int64_t some = least(at_a_time, leaves - first);
    for_each(executor, some * numbers,
             [=] LOD_HOST_DEVICE(std::int64_t i) { parts[i] = leaf_sum(i % numbers, first + i / numbers); });
    for_each(executor, numbers, [=] LOD_HOST_DEVICE(std::int64_t at) {
      A sum = first > 0 ? sums[at] : parts[at], error = first > 0 ? errors[at] : A{};
      for (std::int64_t i = first > 0 ? 0 : 1; i < some; ++i) add_compensated(sum, error, parts[i * numbers + at]);
      sums[at] = sum;
      errors[at] = error;
      if (first + some == leaves) write(at, sum + error);
    });
  }
}

template <>
struct Kernel<MatrixProduct> {
  template <class E, class T>
  static void run(const E& executor, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
                  double alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, double beta, T* c,
                  std::int64_t ldc) {
    using A = Accumulator<T>;
    const StridedNumbers<T> left{a, transpose_a ? 1 : lda, transpose_a ? lda : 1};
    const StridedNumbers<T> right{b, transpose_b ? 1 : ldb, transpose_b ? ldb : 1};
    multiply(executor, m, n, k, static_cast<A>(alpha), left, right, static_cast<A>(beta), c, ldc);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

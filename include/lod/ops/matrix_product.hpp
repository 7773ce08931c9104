// SPDX-License-Identifier: Apache-2.0
/// @file
/// Products of dense matrices, with a row added to each of their rows, for operations built on them.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/supports.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc): see
/// `operation::matrix_product`. A back end that has a BLAS calls it.
struct MatrixProduct {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// c = alpha * op(a) * op(b) + beta * c, row-major: op(a) has m rows of k numbers, op(b) k rows of n, c m rows of n. a
/// itself is op(a), or, with `transpose_a`, has k rows of m; b likewise. Rows are lda, ldb, ldc numbers apart. With
/// beta = 0 the contents of c are not read; c must overlap neither a nor b.
///
/// float16 and bfloat16 are multiplied and summed as float, and rounded once. On the CPU the bits of a row of c depend
/// only on its row of op(a) and on op(b), neither on threads nor on other rows. The error does not exceed that of a sum
/// of 256 terms, however large k is.
template <Executor E, class T>
void matrix_product(const E& executor, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                    std::int64_t k, double alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
                    double beta, T* c, std::int64_t ldc) {
  static_assert(elements::Floating::includes<T>,
                "matrix products are of floating-point numbers: float, double, float16, bfloat16");
  launch(kernel::MatrixProduct(), executor, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/// Writes `row` to every row.
template <Executor E, class T>
void repeat_row(const E& executor, const T* row, std::int64_t row_size, std::int64_t rows, T* to) {
  const WholeBatch<E> batch(executor, rows);
  launch(kernel::SequencePoolGrad(), executor, row, batch.segments(), row_size, PoolType::SUM, to);
}
/// The sums of the columns, computed as those of a sequence.
template <Executor E, class T>
void sum_columns(const E& executor, const T* x, std::int64_t rows, std::int64_t row_size, T* sums) {
  const WholeBatch<E> batch(executor, rows);
  launch(kernel::SequencePool(), executor, x, batch.segments(), row_size, PoolType::SUM, T{}, sums);
}

}  // namespace operation

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

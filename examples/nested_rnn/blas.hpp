// SPDX-License-Identifier: Apache-2.0
/// @file
/// Matrix products of tensors: BLAS with the sizes taken from the views.
#pragma once

#include <lod/lod.hpp>

#include <cblas.h>

#include <algorithm>
#include <cstdint>

extern "C" [[gnu::weak]] void openblas_set_num_threads(int threads);

namespace blas {

/// Where the BLAS is OpenBLAS: no threads of its own. The products of a step are small, and its threads would wait for
/// each other, and for the executor's, longer than they work.
inline void use_one_thread() {
  if (openblas_set_num_threads) openblas_set_num_threads(1);
}

inline void gemm(CBLAS_TRANSPOSE a_form, CBLAS_TRANSPOSE b_form, int m, int n, int k, const float* a, int a_stride,
                 const float* b, int b_stride, float beta, float* c, int c_stride) {
  cblas_sgemm(CblasRowMajor, a_form, b_form, m, n, k, 1, a, a_stride, b, b_stride, beta, c, c_stride);
}
inline void gemm(CBLAS_TRANSPOSE a_form, CBLAS_TRANSPOSE b_form, int m, int n, int k, const double* a, int a_stride,
                 const double* b, int b_stride, double beta, double* c, int c_stride) {
  cblas_dgemm(CblasRowMajor, a_form, b_form, m, n, k, 1, a, a_stride, b, b_stride, beta, c, c_stride);
}

}  // namespace blas

struct ProductOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;  ///< add to what c has
};

/// c = a b. A tensor, or a slice of one, is the matrix of its rows; its LoD does not matter. Throws lod::ShapeMismatch.
template <lod::LoDTensorLike A, lod::LoDTensorLike B>
void multiply(const A& a, const B& b, lod::LoDTensorView<typename A::value_type> c,
              const ProductOptions& options = {}) {
  const std::int64_t m = options.transpose_a ? a.row_size() : a.rows();
  const std::int64_t k = options.transpose_a ? a.rows() : a.row_size();
  const std::int64_t n = options.transpose_b ? b.rows() : b.row_size();
  if ((options.transpose_b ? b.row_size() : b.rows()) != k || c.rows() != m || c.row_size() != n) {
    throw lod::ShapeMismatch("multiply: " + to_string(a.shape()) + " and " + to_string(b.shape()) + " do not give " +
                             to_string(c.shape()));
  }
  if (m == 0 || n == 0) return;
  const auto stride = [](const auto& x) { return static_cast<int>(std::max<std::int64_t>(x.row_size(), 1)); };
  blas::gemm(options.transpose_a ? CblasTrans : CblasNoTrans, options.transpose_b ? CblasTrans : CblasNoTrans,
             static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), a.data(), stride(a), b.data(), stride(b),
             options.accumulate ? 1 : 0, c.data(), stride(c));
}

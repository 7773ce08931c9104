// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Products of matrices in programs by a BLAS: OpenBLAS, BLIS, or any other whose C interface is in <cblas.h>. The
/// library computes all of them without it too, about as fast where it is compiled for the vectors of the processor at
/// hand (lodtensor::cpu is), in some three times the time where it is not. A program that links a BLAS (the target
/// lodtensor::blas) turns it on by:
///
///     lod::use_blas();    // <lod/run.hpp> is included as well
///     lod::run(program, scope, {.feed = feed});
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/products.hpp>

#include <cblas.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operators_by_blas {

/// Products by the BLAS; those without any numbers, or too large for its integers, by the library.
struct Products {
  template <Executor E, std::floating_point T>
  static void multiply(const E& executor, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                       std::int64_t k, double alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb,
                       double beta, T* c, std::int64_t ldc) {
    const auto [least, greatest] = std::minmax({m, n, k, lda, ldb, ldc});
    if (least < 1 || greatest > std::numeric_limits<int>::max()) {
      return operators_of_programs::OwnProducts::multiply<E, T>(executor, transpose_a, transpose_b, m, n, k, alpha, a,
                                                                lda, b, ldb, beta, c, ldc);
    }
    constexpr auto* product = [] {
      if constexpr (std::same_as<T, float>) {
        return &cblas_sgemm;
      } else {
        return &cblas_dgemm;
      }
    }();
    const auto size = [](std::int64_t of) { return static_cast<int>(of); };
    const auto form = [](bool transposes) { return transposes ? CblasTrans : CblasNoTrans; };
    product(CblasRowMajor, form(transpose_a), form(transpose_b), size(m), size(n), size(k), static_cast<T>(alpha), a,
            size(lda), b, size(ldb), static_cast<T>(beta), c, size(ldc));
  }
};

}  // namespace operators_by_blas

/// Lets the BLAS compute mul, fc, matmul, matmul_v2 and bmm, with their gradients, on float and double, in all programs
/// that are prepared from now on, by a CpuExecutor. Products inside of other operators (lstm, gru, conv2d) and those of
/// the library's operations, such as `linear`, are still computed by this library.
///
/// The BLAS uses its own threads, as many as it is told by its own means (OPENBLAS_NUM_THREADS, or the like), not as
/// many as the executor has. It adds in another order, so results differ in the last digits; they may depend on the
/// number of threads, on the processor, and on the other rows of a batch. Whether a product of infinity or NaN with a 0
/// is NaN is up to the BLAS.
///
/// A template, so that only a file which calls it needs the library's kernels: <lod/blas.hpp> includes them.
template <std::same_as<CpuExecutor> E = CpuExecutor>
void use_blas() {
  using operators_by_blas::Products;
  namespace own = operators_of_programs;
  const std::pair<const char*, RunOperator<> (*)(const OperatorArguments&)> replaced[] = {
      {"mul", own::mul<E, Products>},
      {"mul_grad", own::mul_grad<E, Products>},
      {"fc", own::fc<E, Products>},
      {"matmul", own::matmul<E, false, Products>},
      {"matmul_grad", own::matmul<E, true, Products>},
      {"matmul_v2", own::matmul_v2<E, false, Products>},
      {"matmul_v2_grad", own::matmul_v2<E, true, Products>},
      {"bmm", own::matmul_v2<E, false, Products>},
      {"bmm_grad", own::matmul_v2<E, true, Products>}};
  for (const auto& [type, prepare] : replaced) {
    auto made = operators().built_in(type).value();
    made.prepare = detail::with_standard_control<E>(prepare);
    operators().replace(type, std::move(made));
  }
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

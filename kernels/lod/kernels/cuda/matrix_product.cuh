// SPDX-License-Identifier: Apache-2.0
/// @file
/// Products of dense matrices on GPUs, by cuBLAS, in place of the kernel in bulk.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/float16.hpp>
#include <lod/core/reference.hpp>
#include <lod/core/target.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/matrix_product.hpp>

#include <cublas_v2.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace lod::inline LOD_INTERFACE::detail {

inline void check_blas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw CudaError(text({call, ": ", cublasGetStatusString(status), " (", static_cast<int>(status), ")"}),
                  static_cast<int>(status));
}

/// The cuBLAS handle that an executor and its copies share.
class BlasHandle final : public Shared {
 public:
  static Reference<BlasHandle> make(const CudaExecutor& executor) {
    return Reference<BlasHandle>::adopt(new BlasHandle(executor.ordinal()));
  }
  /// Calls call(handle) with the executor's stream and scratch memory of its own, so that cuBLAS allocates none.
  template <class Call>
  void with_handle(const CudaExecutor& executor, const Call& call) {
    const CurrentDevice current(executor.ordinal());
    const ScratchMemory<Cuda>::Loan<std::byte> workspace(executor.scratch(), workspace_bytes + workspace_alignment);
    const auto misaligned = reinterpret_cast<std::uintptr_t>(workspace.data()) % workspace_alignment;
    const std::lock_guard lock(mutex_);
    check_blas(cublasSetStream(handle_, executor.stream()), "cublasSetStream");
    check_blas(cublasSetWorkspace(handle_, workspace.data() + (workspace_alignment - misaligned) % workspace_alignment,
                                  workspace_bytes),
               "cublasSetWorkspace");
    call(handle_);
  }

 private:
  static constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20;  // what NVIDIA recommends for H100
  static constexpr std::int64_t workspace_alignment = 256;

  explicit BlasHandle(int device)
      : Shared([](const Shared* shared) noexcept { delete static_cast<const BlasHandle*>(shared); }), device_(device) {
    const CurrentDevice current(device);
    const BesideCapture beside;
    check_blas(cublasCreate(&handle_), "cublasCreate");
  }
  ~BlasHandle() {
    try {
      const CurrentDevice current(device_);
      static_cast<void>(cublasDestroy(handle_));
    } catch (...) {  // the GPU is gone, and the handle with it
    }
  }

  int device_;
  cublasHandle_t handle_ = nullptr;
  std::mutex mutex_;  // of the handle: each call sets a stream and a workspace
};

}  // namespace lod::inline LOD_INTERFACE::detail

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

namespace blas {

template <class T>
inline constexpr cudaDataType_t type = std::same_as<T, float>     ? CUDA_R_32F
                                       : std::same_as<T, double>  ? CUDA_R_64F
                                       : std::same_as<T, float16> ? CUDA_R_16F
                                                                  : CUDA_R_16BF;

/// Sums are of type float, or double for double, never of a narrower type.
template <class T>
void multiply(const CudaExecutor& executor, bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
              std::int64_t k, double alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, double beta,
              T* c, std::int64_t ldc) {
  using A = Accumulator<T>;
  if (m == 0 || n == 0) return;
  const A by = static_cast<A>(alpha), kept = static_cast<A>(beta);
  const cublasComputeType_t computed_in = std::same_as<A, double> ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  // cuBLAS expects column-major matrices: read that way ours are transposed, and so is the product, b * a.
  executor.companion<detail::BlasHandle>().with_handle(executor, [&](cublasHandle_t handle) {
    detail::check_blas(cublasGemmEx_64(handle, operation(transpose_b), operation(transpose_a), n, m, k, &by, b, type<T>,
                                       ldb, a, type<T>, lda, &kept, c, type<T>, ldc, computed_in, CUBLAS_GEMM_DEFAULT),
                       "cublasGemmEx_64");
  });
}

}  // namespace blas

template <class... A>
void launch(MatrixProduct, const CudaExecutor& executor, const A&... arguments) {
  blas::multiply(executor, arguments...);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// The part of cuBLAS that the library calls, for the emulated runtime.
#include "support/emulated_cuda.hpp"

#include <cublas_v2.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

struct cublasContext {
  cudaStream_t stream = nullptr;
};

namespace {

std::size_t bytes_of(cudaDataType type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0;
}
double number(const std::byte* at, cudaDataType type) {
  if (type == CUDA_R_64F) {
    double value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  if (type == CUDA_R_16F) {
    _Float16 value = 0;
    std::memcpy(&value, at, sizeof value);
    return static_cast<double>(value);
  }
  std::uint32_t word = 0;
  if (type == CUDA_R_16BF) {
    std::uint16_t high = 0;
    std::memcpy(&high, at, sizeof high);
    word = std::uint32_t{high} << 16U;
  } else {
    std::memcpy(&word, at, sizeof word);
  }
  float value = 0;
  std::memcpy(&value, &word, sizeof value);
  return value;
}
void put(std::byte* at, cudaDataType type, double value) {
  if (type == CUDA_R_64F) {
    std::memcpy(at, &value, sizeof value);
  } else if (type == CUDA_R_16F) {
    const auto half = static_cast<_Float16>(value);
    std::memcpy(at, &half, sizeof half);
  } else {
    const auto single = static_cast<float>(value);
    std::uint32_t word = 0;
    std::memcpy(&word, &single, sizeof word);
    if (type == CUDA_R_16BF) {
      const auto high = static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16U) & 1U)) >> 16U);
      std::memcpy(at, &high, sizeof high);
    } else {
      std::memcpy(at, &word, sizeof word);
    }
  }
}
void check(const std::byte* matrix, std::int64_t rows, std::int64_t columns, std::int64_t step, std::size_t bytes) {
  if (rows == 0 || columns == 0) return;
  const auto first = reinterpret_cast<std::uintptr_t>(matrix);
  const auto last = first + static_cast<std::size_t>((columns - 1) * step + rows) * bytes;
  const auto [begin, end] = lod_test::emulated_cuda::memory_around(first);
  if (first < begin || last > end) lod_test::emulated_cuda::on_failure("a product of matrices leaves its memory");
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void* memory, std::size_t) {
  return reinterpret_cast<std::uintptr_t>(memory) % 256 == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
const char* cublasGetStatusString(cublasStatus_t) { return "an error of the emulated cuBLAS"; }

// Matrices are columns side by side.
cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t transpose_a, cublasOperation_t transpose_b,
                               std::int64_t m, std::int64_t n, std::int64_t k, const void* alpha, const void* a,
                               cudaDataType a_type, std::int64_t lda, const void* b, cudaDataType b_type,
                               std::int64_t ldb, const void* beta, void* c, cudaDataType c_type, std::int64_t ldc,
                               cublasComputeType_t computed_in, cublasGemmAlgo_t) {
  const bool flip_a = transpose_a != CUBLAS_OP_N, flip_b = transpose_b != CUBLAS_OP_N;
  if (m < 0 || n < 0 || k < 0 || lda < (flip_a ? k : m) || ldb < (flip_b ? n : k) || ldc < m || m == 0 || n == 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (bytes_of(a_type) == 0 || bytes_of(b_type) == 0 || bytes_of(c_type) == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  const cudaDataType scalars = computed_in == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F;
  const double by = number(static_cast<const std::byte*>(alpha), scalars);
  const double keep = number(static_cast<const std::byte*>(beta), scalars);
  lod_test::emulated_cuda::enqueue_kernel(handle->stream, [=] {
    const auto *const x = static_cast<const std::byte*>(a), *const y = static_cast<const std::byte*>(b);
    auto* const z = static_cast<std::byte*>(c);
    const std::size_t x_bytes = bytes_of(a_type), y_bytes = bytes_of(b_type), z_bytes = bytes_of(c_type);
    check(x, flip_a ? k : m, flip_a ? m : k, lda, x_bytes);
    check(y, flip_b ? n : k, flip_b ? k : n, ldb, y_bytes);
    check(z, m, n, ldc, z_bytes);
    for (std::int64_t column = 0; column < n; ++column) {
      for (std::int64_t row = 0; row < m; ++row) {
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          const std::int64_t at_x = flip_a ? row * lda + i : i * lda + row;
          const std::int64_t at_y = flip_b ? i * ldb + column : column * ldb + i;
          sum += number(x + static_cast<std::size_t>(at_x) * x_bytes, a_type) *
                 number(y + static_cast<std::size_t>(at_y) * y_bytes, b_type);
        }
        std::byte* const to = z + static_cast<std::size_t>(column * ldc + row) * z_bytes;
        put(to, c_type, by * sum + (keep == 0 ? 0 : keep * number(to, c_type)));
      }
    }
  });
  return cudaPeekAtLastError() == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"

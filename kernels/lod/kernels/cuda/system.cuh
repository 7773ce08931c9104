// SPDX-License-Identifier: Apache-2.0
/// @file
/// The algorithms of the Thrust back end in the stream of an executor on a GPU. Nothing that is enqueued is waited for,
/// and what algorithms need in between comes from the executor's scratch memory.
#pragma once

#ifndef __CUDACC__
#  error "lod/kernels/cuda/system.cuh: expected nvcc; other compilers include <lod/cuda.hpp>"
#endif

#include <lod/buffer.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/error.hpp>
#include <lod/kernels/thrust/system.hpp>
#include <lod/target.hpp>

#include <thrust/system/cuda/execution_policy.h>
#include <thrust/system_error.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>

namespace lod::inline LOD_TARGET {
namespace kernel::bulk {

inline constexpr int threads_per_block = 256;

template <class Body>
__global__ void __launch_bounds__(threads_per_block) call_body(std::int64_t count, Body body) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads_per_block;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads_per_block + threadIdx.x; i < count; i += step) {
    body(i);
  }
}

template <>
class System<CudaExecutor> {
  /// Lends Thrust scratch memory of the executor.
  class Allocator {
   public:
    using value_type = char;
    explicit Allocator(const CudaExecutor& executor) noexcept : executor_(executor) {}
    Allocator(const Allocator&) = delete;
    Allocator& operator=(const Allocator&) = delete;
    char* allocate(std::ptrdiff_t count) {
      for (auto& loan : loans_) {
        if (!loan) return loan.emplace(executor_.scratch(), static_cast<std::int64_t>(count)).data();
      }
      throw std::bad_alloc();
    }
    void deallocate(char* memory, std::size_t) noexcept {
      for (auto& loan : loans_) {
        if (loan && loan->data() == memory) loan.reset();
      }
    }

   private:
    const CudaExecutor& executor_;
    std::array<std::optional<ScratchMemory<Cuda>::Loan<char>>, 8> loans_;  // an algorithm takes one or two
  };

  template <class Call>
  void by_thrust(const char* what, const Call& call) const {
    Allocator allocator(executor_);
    try {
      call(Algorithms(::thrust::cuda::par_nosync(allocator).on(executor_.stream())));
    } catch (const ::thrust::system_error& error) {
      static_cast<void>(cudaGetLastError());
      throw CudaError(detail::text({what, ": ", error.what()}), error.code().value());
    }
  }

 public:
  explicit System(const CudaExecutor& executor) : current_(executor.ordinal()), executor_(executor) {}

  template <class Body>
  void for_each(std::int64_t count, const Body& body) const {
    const std::int64_t blocks = std::min<std::int64_t>((count + threads_per_block - 1) / threads_per_block, 1 << 20);
    call_body<<<static_cast<unsigned>(blocks), threads_per_block, 0, executor_.stream()>>>(count, body);
    detail::check_cuda(cudaPeekAtLastError(), "the launch of a kernel");
  }
  template <class Key, class Value>
  void sort_by_key(Key* keys, std::int64_t count, Value* values) const {
    by_thrust("thrust::stable_sort_by_key", [&](const auto& all) { all.sort_by_key(keys, count, values); });
  }
  void inclusive_scan(std::int64_t* numbers, std::int64_t count) const {
    by_thrust("thrust::inclusive_scan", [&](const auto& all) { all.inclusive_scan(numbers, count); });
  }
  void exclusive_scan(std::int64_t* numbers, std::int64_t count) const {
    by_thrust("thrust::exclusive_scan", [&](const auto& all) { all.exclusive_scan(numbers, count); });
  }

 private:
  detail::CurrentDevice current_;
  const CudaExecutor& executor_;
};

}  // namespace kernel::bulk
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A memory resource of a GPU that counts, for tests and for the benchmark of GPUs.
#pragma once

#include <lod/cuda/memory.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace lod_test {

/// The default resource of a GPU, and how often it was asked.
class CountingCudaResource final : public lod::CudaMemoryResource {
 public:
  void* allocate(std::size_t bytes, std::size_t boundary, cudaStream_t stream) override {
    ++allocations;
    return resource_->allocate(bytes, boundary, stream);
  }
  void deallocate(void* memory, std::size_t bytes, std::size_t boundary, cudaStream_t stream) noexcept override {
    resource_->deallocate(memory, bytes, boundary, stream);
  }
  std::int64_t allocations = 0;

 private:
  lod::CudaMemoryResource* resource_ = lod::default_cuda_resource(0);
};

}  // namespace lod_test

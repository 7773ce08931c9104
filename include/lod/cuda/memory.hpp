// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Stream-ordered memory of NVIDIA GPUs, and checks of CUDA runtime calls.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/version.hpp>

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// Throws CudaError with the name of the call unless it succeeded. Clears the runtime's own record of the error.
inline void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw CudaError(
      text({call, ": ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ", ", static_cast<int>(error), ")"}),
      static_cast<int>(error));
}
/// For destructors, which cannot report errors.
inline void ignore_cuda(cudaError_t error) noexcept {
  if (error != cudaSuccess) static_cast<void>(cudaGetLastError());
}

/// Makes a GPU the thread's current one, and restores the previous one.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    check_cuda(cudaGetDevice(&before_), "cudaGetDevice");
    if (before_ != device) check_cuda(cudaSetDevice(device), "cudaSetDevice");
    changed_ = before_ != device;
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (changed_) ignore_cuda(cudaSetDevice(before_));
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// Lets this thread allocate and wait while a stream is being captured into a graph; none of that becomes part of the
/// graph.
class BesideCapture {
 public:
  BesideCapture() noexcept { ignore_cuda(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  BesideCapture(const BesideCapture&) = delete;
  BesideCapture& operator=(const BesideCapture&) = delete;
  ~BesideCapture() { ignore_cuda(cudaThreadExchangeStreamCaptureMode(&mode_)); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace detail

/// A source of GPU memory, called from several threads at a time. Derive from it to allocate in a way of your own.
class CudaMemoryResource {
 public:
  CudaMemoryResource() = default;
  CudaMemoryResource(const CudaMemoryResource&) = delete;
  CudaMemoryResource& operator=(const CudaMemoryResource&) = delete;
  virtual ~CudaMemoryResource() = default;

  /// Memory for work enqueued in `stream` from now on, at a multiple of `boundary`, which is at most 256. Throws
  /// CudaError.
  virtual void* allocate(std::size_t bytes, std::size_t boundary, cudaStream_t stream) = 0;
  /// Frees memory, which work enqueued in `stream` so far may still use.
  virtual void deallocate(void* memory, std::size_t bytes, std::size_t boundary, cudaStream_t stream) noexcept = 0;
};

/// A pool of the CUDA runtime (cudaMallocAsync) on one GPU, which keeps freed memory for reuse.
class CudaPool final : public CudaMemoryResource {
 public:
  /// Throws CudaError, also for a GPU without memory pools.
  explicit CudaPool(int device) {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    detail::check_cuda(cudaMemPoolCreate(&pool_, &properties), "cudaMemPoolCreate");
    std::uint64_t keep = UINT64_MAX;
    const cudaError_t error = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep);
    if (error != cudaSuccess) detail::ignore_cuda(cudaMemPoolDestroy(pool_));
    detail::check_cuda(error, "cudaMemPoolSetAttribute");
  }
  ~CudaPool() override { detail::ignore_cuda(cudaMemPoolDestroy(pool_)); }

  void* allocate(std::size_t bytes, std::size_t, cudaStream_t stream) override {
    void* memory = nullptr;
    detail::check_cuda(cudaMallocFromPoolAsync(&memory, bytes, pool_, stream), "cudaMallocFromPoolAsync");
    return memory;
  }
  void deallocate(void* memory, std::size_t, std::size_t, cudaStream_t stream) noexcept override {
    detail::ignore_cuda(cudaFreeAsync(memory, stream));
  }

 private:
  cudaMemPool_t pool_ = nullptr;
};

/// A resource that is not stream-ordered (`allocate(bytes, alignment)` and `deallocate(memory, bytes, alignment)`, as
/// in std::pmr), whose memory GPUs can use. Deallocation waits for all work enqueued before, then returns the memory to
/// the resource.
template <class Resource>
class CudaMemoryFrom final : public CudaMemoryResource {
 public:
  /// `resource` must outlive this.
  explicit CudaMemoryFrom(Resource* resource) noexcept : resource_(resource) {}
  void* allocate(std::size_t bytes, std::size_t boundary, cudaStream_t) override {
    return resource_->allocate(bytes, boundary);
  }
  void deallocate(void* memory, std::size_t bytes, std::size_t boundary, cudaStream_t stream) noexcept override {
    detail::ignore_cuda(cudaStreamSynchronize(stream));
    resource_->deallocate(memory, bytes, boundary);
  }

 private:
  Resource* resource_;
};

/// A GPU's default: one pool for the program. Throws CudaError.
inline CudaMemoryResource* default_cuda_resource(int device) {
  static std::mutex mutex;
  // Never destroyed: tensors may outlive everything, and at the program's end the runtime may already be gone.
  static auto& pools = *new std::vector<std::pair<int, std::unique_ptr<CudaPool>>>;
  const std::lock_guard lock(mutex);
  for (const auto& [of, pool] : pools) {
    if (of == device) return pool.get();
  }
  return pools.emplace_back(device, std::make_unique<CudaPool>(device)).second.get();
}

}  // namespace lod::inline LOD_INTERFACE

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Invalid ids on a GPU: found by kernels, reported when the host waits.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/version.hpp>
#include <lod/cuda/stream.hpp>

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace lod::inline LOD_INTERFACE::detail {

/// Errors that kernels find in their arguments. A kernel that reads ids gets a place in memory that both CPU and GPU
/// can access, where it stores the position of an invalid id. May be used from several threads at a time.
class CudaFaults {
 public:
  CudaFaults() = default;
  CudaFaults(const CudaFaults&) = delete;
  CudaFaults& operator=(const CudaFaults&) = delete;
  ~CudaFaults() {
    if (places_) ignore_cuda(cudaFreeHost(places_));
  }

  /// Where a kernel should store the position of an id outside [0, height). `what` begins the text of the error, and is
  /// kept as a pointer. There is a place for each of the last thousands of calls. Throws CudaError, and the error that
  /// the place held before.
  std::int64_t* place(const char* what, std::int64_t height) {
    const std::lock_guard lock(mutex_);
    if (!places_) {
      const BesideCapture beside;
      void* memory = nullptr;
      check_cuda(cudaHostAlloc(&memory, calls_.size() * sizeof(std::int64_t), cudaHostAllocDefault), "cudaHostAlloc");
      places_ = static_cast<std::int64_t*>(memory);
      for (std::size_t i = 0; i < calls_.size(); ++i) places_[i] = none;
    }
    const std::size_t i = next_++ % calls_.size();
    rethrow(i);
    calls_[i] = {what, height};
    return places_ + i;
  }
  /// Throws OutOfRange for an error that has been found, which is then forgotten.
  void rethrow() {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < next_ && i < calls_.size(); ++i) rethrow(i);
  }

  static constexpr std::int64_t none = -1;

 private:
  struct Call {
    const char* what;
    std::int64_t height;
  };
  void rethrow(std::size_t i) {
    const std::int64_t position = __atomic_exchange_n(places_ + i, none, __ATOMIC_ACQ_REL);
    if (position == none) return;
    throw OutOfRange(text({calls_[i].what, ": the id at position ", position, " is outside its range, expected 0 to ",
                           calls_[i].height - 1, " (found on the GPU; counted as no id)"}));
  }

  std::mutex mutex_;
  std::int64_t* places_ = nullptr;
  std::array<Call, 4096> calls_{};
  std::size_t next_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::detail

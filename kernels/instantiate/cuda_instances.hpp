// SPDX-License-Identifier: Apache-2.0
/// @file
/// The library lodtensor::cuda: the bodies over Thrust, compiled for GPUs.
#pragma once

#include "instances.hpp"

#ifdef __CUDACC__
#  include <lod/cuda.cuh>
#  ifdef LOD_CUDA_DNN
#    include <lod/kernels/cuda/attention.cuh>
#  endif
#endif
#include <lod/core/version.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/kernels/cuda/in_bulk.hpp>

template <class Tag, class... Arguments>
typename lod::compiled::ResultOf<Tag>::type lod::compiled::enqueue(const CudaExecutor& executor,
                                                                   Arguments... arguments) {
  return kernel::launch(Tag(), executor, arguments...);
}

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

struct CudaLibrary {
  using executor = CudaExecutor;
  /// Whether there is a kernel for GPUs.
  template <class Tag>
  static constexpr bool has = requires {
    sizeof(bulk::Kernel<Tag>);
  };

  template <class Tag, class... Passed>
  static constexpr bool instantiate() {
    return &compiled::enqueue<Tag, Passed...> != nullptr;
  }
  /// The type of a kernel's function, as a null pointer.
  template <class Tag, class... Arguments>
  static constexpr auto function() noexcept {
    using Function = decltype(&bulk::Kernel<Tag>::template run<CudaExecutor, Arguments...>);
    return Function{};
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

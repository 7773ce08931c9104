// SPDX-License-Identifier: Apache-2.0
/// @file
/// The library lodtensor::cuda: the bodies over Thrust, compiled for GPUs.
#pragma once

#include "instances.hpp"

#ifdef __CUDACC__
#  include <lod/cuda.cuh>
#endif
#include <lod/core/version.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/kernels/cuda/in_bulk.hpp>

#include <cstddef>

template <class Tag, class... Arguments>
typename lod::compiled::ResultOf<Tag>::type lod::compiled::enqueue(const CudaExecutor& executor,
                                                                   Arguments... arguments) {
  return kernel::launch(Tag(), executor, arguments...);
}

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

struct CudaLibrary {
  using executor = CudaExecutor;
  static constexpr bool on_gpu = true;

  template <class Tag, class... Passed>
  static constexpr bool instantiate() {
    return &compiled::enqueue<Tag, Passed...> != nullptr;
  }
  /// @{
  /// The type of a kernel's function, as a null pointer.
  template <class Tag, class... Arguments>
  static constexpr auto function() noexcept {
    using Function = decltype(&bulk::Kernel<Tag>::template run<CudaExecutor, Arguments...>);
    return Function{};
  }
  template <class Tag, class Rule, class T, class S, std::size_t states>
  static constexpr auto rule() noexcept {
    using Function = decltype(&bulk::Kernel<Tag>::template run<CudaExecutor, Rule, T, S, states>);
    return Function{};
  }
  /// @}
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

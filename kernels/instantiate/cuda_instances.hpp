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
#include <lod/kernels/cuda/fallback.hpp>

#include <cstddef>

template <class Kernel, class... Arguments>
typename lod::compiled::ResultOf<Kernel>::type lod::compiled::enqueue(const CudaExecutor& executor,
                                                                      Arguments... arguments) {
  return kernel::receive<Kernel>(executor, arguments...);
}

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace kernel {

struct CudaLibrary {
  using executor = CudaExecutor;
  static constexpr bool on_gpu = true;

  template <class Name, class... Passed>
  static constexpr bool instantiate() {
    return &compiled::enqueue<Name, Passed...> != nullptr;
  }
  /// @{
  /// The body of a kernel.
  template <class Name, class... Arguments>
  static constexpr auto function() {
    return &KernelOf<CudaExecutor, Name>::type::template run<CudaExecutor, Arguments...>;
  }
  template <class Name, class Rule, class T, class S, std::size_t states>
  static constexpr auto rule() {
    return &KernelOf<CudaExecutor, Name>::type::template run<CudaExecutor, Rule, T, S, states>;
  }
  template <class Filter, class T>
  static constexpr auto count() {
    return &KernelOf<CudaExecutor, Filter>::type::template count<CudaExecutor, T>;
  }
  /// @}
};

}  // namespace kernel
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Copies of the arguments and results of a DeviceCall between the CPU and a GPU.
#pragma once

#include "support/device_call.hpp"
#include <lod/cuda.hpp>

namespace lod_test {

template <>
struct Transfer<lod::Cuda> {
  template <class X>
  static auto there(const lod::CudaExecutor& executor, const X& x) {
    return lod::to<lod::Cuda>(executor, x);
  }
  template <class X>
  static auto here(const lod::CudaExecutor& executor, const X& x) {
    return lod::to<lod::Cpu>(executor, x);
  }
  template <class X, class Y>
  static void into(const lod::CudaExecutor& executor, const X& x, Y& y) {
    lod::to_into(executor, x, y);
  }
};

}  // namespace lod_test

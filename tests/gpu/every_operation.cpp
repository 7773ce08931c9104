// SPDX-License-Identifier: Apache-2.0
/// @file
/// A user of the library lodtensor::cuda, whom any compiler compiles. On a GPU, each of the calls is made.
#include "catalogue/every_operation.hpp"

#include "support/gpu_transfer.hpp"
#include <lod/cuda.hpp>

#include <cstdio>

int main() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  const lod::CudaExecutor executor;
  lod_test::call_every_operation(executor);
  executor.synchronize();
  std::puts("every operation was called");
  return 0;
}

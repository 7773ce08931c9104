// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs the cases, where there is a GPU; where there is none, says so, and ends as a test that was skipped does.
#define DOCTEST_CONFIG_IMPLEMENT
#include "support/interpreted_kernels.hpp"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdio>

bool lod_test::kernels_are_interpreted() noexcept { return false; }

int main(int argc, char** argv) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    std::printf("skipped: there is no GPU (%s)\n", cudaGetErrorString(error));
    return 77;
  }
  return doctest::Context(argc, argv).run();
}

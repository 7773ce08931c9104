// SPDX-License-Identifier: Apache-2.0
/// @file
/// The operations for CPUs in a translation unit of nvcc, beside the kernels for GPUs: that they compile, and run.
#include "catalogue/every_operation.hpp"
#include <lod/cuda.cuh>
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstdint>

TEST_CASE("nvcc: each operation for CPUs, in a file that has the kernels for GPUs, too") {
  const lod::CpuExecutor executor(2);
  lod_test::call_every_operation_for<float>(executor);
  lod_test::call_every_operation_for<lod::float16>(executor);
  lod_test::call_every_operation_for<std::int64_t>(executor);
}

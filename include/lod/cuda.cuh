// SPDX-License-Identifier: Apache-2.0
/// @file
/// The GPU back end, for nvcc: all operations with their kernels for CudaExecutor and any element type. Lambdas of
/// kernels need the option --extended-lambda.
#pragma once

#include <lod/cuda.hpp>
#include <lod/kernels/cuda/fallback.hpp>
#include <lod/kernels/cuda/system.cuh>
#include <lod/ops.hpp>

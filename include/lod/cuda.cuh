// SPDX-License-Identifier: Apache-2.0
/// @file
/// The GPU back end, for nvcc: all operations with their kernels for CudaExecutor and any element type. Lambdas of
/// kernels need the option --extended-lambda. With LOD_CUDA_BLAS, products of matrices are made by cuBLAS, which then
/// is linked; the same in all files of a program. The target lodtensor::cuda_headers does all of it.
#pragma once

#include <lod/cuda.hpp>
#ifdef LOD_CUDA_BLAS
#  include <lod/kernels/cuda/matrix_product.cuh>
#endif
#include <lod/kernels/cuda/fallback.hpp>
#include <lod/kernels/cuda/system.cuh>
#include <lod/ops.hpp>

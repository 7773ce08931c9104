// SPDX-License-Identifier: Apache-2.0
/// @file
/// The GPU back end, for nvcc: all operations with their kernels for CudaExecutor and any element type. The kernels'
/// lambdas need the option --extended-lambda. With LOD_CUDA_BLAS, which must be the same in all files of a program,
/// matrix products are computed by cuBLAS, which must then be linked. The target lodtensor::cuda_headers does all this.
#pragma once

#include <lod/cuda.hpp>
#ifdef LOD_CUDA_BLAS
#  include <lod/kernels/cuda/matrix_product.cuh>
#endif
#include <lod/kernels/cuda/in_bulk.hpp>
#include <lod/kernels/cuda/system.cuh>
#include <lod/ops.hpp>

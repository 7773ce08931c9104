// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Tensors on NVIDIA GPUs, for any compiler: the executor, and copies to and from the GPU. Needs the headers of the
/// CUDA runtime. The kernels of operations are compiled by nvcc: either in the user's own files, which include
/// <lod/cuda.cuh>, or in the library lodtensor::cuda, whose target defines LOD_CUDA_LIBRARY. With the library,
/// operations on GPUs may be called from files compiled by any compiler, on elements of type float, double, float16,
/// bfloat16, int32 and int64.
#pragma once

#include <lod/core/include_folders.hpp>
#include <lod/cuda/copies.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/cuda/selected_rows.hpp>
#include <lod/cuda/stream.hpp>

#if defined(LOD_CUDA_LIBRARY) && !defined(__CUDACC__)
#  include <lod/kernels/compiled/cuda.hpp>
#endif

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// The operators of programs, and the code that runs them, as templates over the executor, compiled with the including
/// file: for executors that no compiled library supports. Include the executor's doorway first: <lod/thrust.hpp>,
/// <lod/cpu.hpp>, or, for nvcc, <lod/cuda.cuh>. Without a compiled library, <lod/run.hpp> includes this.
#pragma once

#if defined(LOD_CPU_LIBRARY) || defined(LOD_OPERATORS_LIBRARY) || defined(LOD_CUDA_LIBRARY)
#  include <lod/program/operators/compiled.hpp>
#endif
#include <lod/program/interpreter.hpp>
#include <lod/program/operators/all.hpp>
#include <lod/program/operators/inference.hpp>

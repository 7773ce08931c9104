// SPDX-License-Identifier: Apache-2.0
/// @file
/// Running and training programs: operators, the interpreter, gradients, and what is computed before a run. Documented
/// in <lod/program/run.hpp> and beside it in operator.hpp, backward.hpp, minimize.hpp, infer_shapes.hpp, prune.hpp and
/// trace.hpp. All of it is compiled with the including file, which takes a while, unless it comes from the library
/// lodtensor::cpu, or from kernels/instantiate/operators.cpp, which is compiled once; that file and all that link it
/// define LOD_OPERATORS_LIBRARY. The code that runs programs on GPUs comes from the library lodtensor::cuda, or is
/// compiled by nvcc.
#pragma once

#include <lod/program/backward.hpp>
#include <lod/program/infer_shapes.hpp>
#include <lod/program/minimize.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/prune.hpp>
#include <lod/program/run.hpp>

#if defined(LOD_CPU_LIBRARY) || defined(LOD_OPERATORS_LIBRARY) || defined(LOD_CUDA_LIBRARY)
#  include <lod/program/operators/compiled.hpp>
#endif
#if !defined(LOD_CPU_LIBRARY) && !defined(LOD_OPERATORS_LIBRARY)
#  include <lod/cpu.hpp>
#  include <lod/operators.hpp>
#endif

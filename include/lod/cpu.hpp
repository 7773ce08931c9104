// SPDX-License-Identifier: Apache-2.0
/// @file
/// The CPU back end: the kernels of every operation for CpuExecutor. xsimd is included here and nowhere else.
///
/// With the library lodtensor::cpu, whose target defines LOD_CPU_LIBRARY, kernels for elements of type float, double,
/// float16, bfloat16, int32 and int64, and the code for threads, come from the library instead of being compiled. They
/// use the widest vectors that the processor has at run time, whatever the flags of the including file: see
/// <lod/instruction_set.hpp>. Kernels for other elements, and those that call functions of the caller's, still come
/// from the headers.
#pragma once

#include <lod/core/include_folders.hpp>
#include <lod/kernels/cpu/for_each_range.hpp>
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define LOD_KERNELS(name) <lod/kernels/cpu/name.hpp>
#include <lod/ops/operations.hpp>

#ifdef LOD_CPU_LIBRARY
#  include <lod/kernels/compiled/cpu.hpp>
#endif

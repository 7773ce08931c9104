// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Which instructions the kernels of the library lodtensor::cpu use. Only programs that link it can call what is
/// declared here: kernels from the headers use what the flags of the including file allow.
#pragma once

#include <lod/core/version.hpp>

namespace lod::inline LOD_INTERFACE {

/// The sets of instructions for which the library has kernels. All names exist, whether or not the processor supports
/// them.
enum class InstructionSet {
  BASELINE,  ///< supported by every processor of the architecture: on x86-64, SSE2
  AVX2,      ///< AVX2 with FMA, F16C, BMI, BMI2 and POPCNT: Intel's from 2013 on, AMD's from 2015 on
  AVX512,    ///< in addition AVX-512 F, BW, DQ and VL: Intel's servers from 2017 on, AMD's from 2022 on
};

/// The instruction set that the library's kernels use in this program: the one that the environment variable
/// LOD_INSTRUCTION_SET names (`baseline`, `avx2`, `avx512`) when the first kernel runs, otherwise the widest one that
/// library and processor have in common. Results may differ between sets in their last bits, since some multiply and
/// add in one step where others round in between. Throws OutOfRange for an invalid name, or one that library or
/// processor lack, as every operation then does. Costs nothing except the first time.
InstructionSet instruction_set();

}  // namespace lod::inline LOD_INTERFACE

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Which instructions the kernels of the library lodtensor::cpu use. Only programs that link it can call what is
/// declared here: kernels that come from the headers use what the flags of the including file allow.
#pragma once

namespace lod {

/// Sets of instructions that the library has kernels for. A name that the processor at hand cannot follow is there all
/// the same.
enum class InstructionSet {
  BASELINE,  ///< what every processor of the architecture has: on x86-64, SSE2
  AVX2,      ///< AVX2 with FMA, F16C, BMI, BMI2 and POPCNT: Intel's from 2013 on, AMD's from 2015 on
  AVX512,    ///< AVX-512 F, BW, DQ and VL beside these: Intel's servers from 2017 on, AMD's from 2022 on
};

/// The instruction set that kernels of the library run by in this program: the last one that library and processor have
/// in common, or, where the environment names one in LOD_INSTRUCTION_SET (`baseline`, `avx2`, `avx512`) when the first
/// kernel runs, that one. Results of different sets may differ in their last bits, since one of them multiplies and
/// adds in one step where another rounds between the two. Throws OutOfRange for a name that stands for none, or for one
/// that library or processor lack; so does then each operation. Cost: nothing but the first time.
InstructionSet instruction_set();

}  // namespace lod

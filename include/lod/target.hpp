// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the compiler's flags let CPU code use, as a part of names.
#pragma once

// Operations and CPU kernels are templates whose code depends on the flags of the file that includes them: on the
// instruction set, on OpenMP, and on whether kernels come out of the library lodtensor::cpu. Files with different flags
// may be linked into one program, where the linker keeps one body for each name; so the flags are in the name.
// LOD_TARGET is an inline namespace: nobody writes it. What functions of users take and return (tensors, executors,
// options, results) stands outside of it, so that they can be called from files with other flags.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#  define LOD_TARGET_ISA avx512
#elif defined(__AVX2__) && defined(__FMA__)
#  define LOD_TARGET_ISA avx2_fma
#elif defined(__AVX2__)
#  define LOD_TARGET_ISA avx2
#elif defined(__AVX__)
#  define LOD_TARGET_ISA avx
#elif defined(__SSE4_2__)
#  define LOD_TARGET_ISA sse4
#elif defined(__SSE2__)
#  define LOD_TARGET_ISA sse2
#elif defined(__aarch64__)
#  define LOD_TARGET_ISA neon64
#else
#  define LOD_TARGET_ISA scalar
#endif
#ifdef _OPENMP
#  define LOD_TARGET_THREADS openmp
#else
#  define LOD_TARGET_THREADS serial
#endif
#ifdef LOD_CPU_LIBRARY
#  define LOD_TARGET_KERNELS library
#else
#  define LOD_TARGET_KERNELS headers
#endif
#define LOD_TARGET_JOIN(isa, threads, kernels) isa##_##threads##_##kernels
#define LOD_TARGET_NAME(isa, threads, kernels) LOD_TARGET_JOIN(isa, threads, kernels)
#define LOD_TARGET LOD_TARGET_NAME(LOD_TARGET_ISA, LOD_TARGET_THREADS, LOD_TARGET_KERNELS)

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the compiler's flags allow CPU code to use, as a part of names.
#pragma once

#include <lod/core/version.hpp>

// Operations and CPU kernels are templates whose code depends on the flags of the file that includes them: on the
// instructions that the compiler may use, on how exact its arithmetic is, on whose threads work, and on whether kernels
// come from the library lodtensor::cpu. Files with different flags may be linked into one program, where the linker
// keeps one body for each name; so the flags are in the name. LOD_TARGET is an inline namespace: nobody writes it.
//
// What users' functions take and return (tensors, executors, options, results) has names without flags, so that it can
// go to files with other flags. But its members carry the flags by an attribute, LOD_TAGGED: a file compiled without
// AVX2 runs its own code on tensors from a file compiled with it. No header can rename instantiations of the standard
// library's templates, and members that the compiler generates for aggregates (descriptions, options, results): of
// these, the linker may keep any file's. So for a program that runs on different processors, compile its files for the
// least of them, and take the wider kernels from lodtensor::cpu, or from shared libraries that do not export such
// names. nvcc, and <lod/cuda.hpp> as a whole, have no LOD_TAGGED.
//
// A `static` object in a function exists once for each set of flags. What the whole program shares is an inline
// variable outside LOD_TARGET.
//
// Some flags define no macro: -ffp-contract; -ffinite-math-only and the like switched off again after -ffast-math, and
// the parts of -funsafe-math-optimizations, with clang; --use_fast_math, with nvcc; -march on architectures other than
// x86 and ARM. Files of a program that differ in those are distinguished by -DLOD_FLAGS=name, which becomes a part of
// names.

// LOD_TARGET_WORD(macro, word) is the word if the compiler defines the macro as 1, otherwise nothing.
#define LOD_TARGET_IF_1 ,
#define LOD_TARGET_THIRD(first, second, third, ...) third
#define LOD_TARGET_PICK(...) LOD_TARGET_THIRD(__VA_ARGS__, , )
#define LOD_TARGET_WORD_IF(value, word) LOD_TARGET_PICK(LOD_TARGET_IF_##value, word)
#define LOD_TARGET_WORD(macro, word) LOD_TARGET_WORD_IF(macro, word)

#define LOD_TARGET_JOINED(a, b, c, d, e, f, g, h) a##b##c##d##e##f##g##h
#define LOD_TARGET_JOIN(a, b, c, d, e, f, g, h) LOD_TARGET_JOINED(a, b, c, d, e, f, g, h)

// The instruction set: the highest level of x86-64 that is fully supported, by the numbers of its ABI; then those of
// the levels above, and others, that compilers use by themselves or that kernels use.
#if defined(__SSE2_MATH__)
#  if defined(__SSE3__) && defined(__SSSE3__) && defined(__SSE4_1__) && defined(__SSE4_2__) && defined(__POPCNT__)
#    define LOD_TARGET_HAS_V2
#  endif
#  if defined(LOD_TARGET_HAS_V2) && defined(__AVX__) && defined(__AVX2__) && defined(__BMI__) && defined(__BMI2__) && \
      defined(__F16C__) && defined(__FMA__) && defined(__LZCNT__) && defined(__MOVBE__)
#    define LOD_TARGET_HAS_V3
#  endif
#  if defined(LOD_TARGET_HAS_V3) && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512CD__) && \
      defined(__AVX512DQ__) && defined(__AVX512VL__)
#    define LOD_TARGET_LEVEL v4
#    define LOD_TARGET_ABOVE
#  elif defined(LOD_TARGET_HAS_V3)
#    define LOD_TARGET_LEVEL v3
#    define LOD_TARGET_ABOVE LOD_TARGET_OF_V4
#  elif defined(LOD_TARGET_HAS_V2)
#    define LOD_TARGET_LEVEL v2
#    define LOD_TARGET_ABOVE LOD_TARGET_JOIN(LOD_TARGET_OF_V3, LOD_TARGET_OF_V4, , , , , , )
#  else
#    define LOD_TARGET_LEVEL v1
#    define LOD_TARGET_ABOVE LOD_TARGET_JOIN(LOD_TARGET_OF_V2, LOD_TARGET_OF_V3, LOD_TARGET_OF_V4, , , , , )
#  endif
#elif defined(__i386__)
#  define LOD_TARGET_LEVEL i386
#  define LOD_TARGET_ABOVE                                                                              \
    LOD_TARGET_JOIN(LOD_TARGET_WORD(__SSE__, _sse), LOD_TARGET_WORD(__SSE2__, _sse2), LOD_TARGET_OF_V2, \
                    LOD_TARGET_OF_V3, LOD_TARGET_OF_V4, , , )
#elif defined(__aarch64__)
#  define LOD_TARGET_LEVEL neon64
#  define LOD_TARGET_ABOVE
#else
#  define LOD_TARGET_LEVEL scalar
#  define LOD_TARGET_ABOVE
#endif
#if defined(__SSE3__) || defined(__SSSE3__) || defined(__SSE4_1__) || defined(__SSE4_2__) || defined(__POPCNT__)
#  define LOD_TARGET_OF_V2                                                                    \
    LOD_TARGET_JOIN(LOD_TARGET_WORD(__SSE3__, _sse3), LOD_TARGET_WORD(__SSSE3__, _ssse3),     \
                    LOD_TARGET_WORD(__SSE4_1__, _sse41), LOD_TARGET_WORD(__SSE4_2__, _sse42), \
                    LOD_TARGET_WORD(__POPCNT__, _popcnt), , , )
#else
#  define LOD_TARGET_OF_V2
#endif
#if defined(__AVX__) || defined(__AVX2__) || defined(__BMI__) || defined(__BMI2__) || defined(__F16C__) || \
    defined(__FMA__) || defined(__LZCNT__) || defined(__MOVBE__)
#  define LOD_TARGET_OF_V3                                                                                            \
    LOD_TARGET_JOIN(LOD_TARGET_WORD(__AVX__, _avx), LOD_TARGET_WORD(__AVX2__, _avx2), LOD_TARGET_WORD(__BMI__, _bmi), \
                    LOD_TARGET_WORD(__BMI2__, _bmi2), LOD_TARGET_WORD(__F16C__, _f16c),                               \
                    LOD_TARGET_WORD(__FMA__, _fma), LOD_TARGET_WORD(__LZCNT__, _lzcnt),                               \
                    LOD_TARGET_WORD(__MOVBE__, _movbe))
#else
#  define LOD_TARGET_OF_V3
#endif
#if defined(__AVX512F__) || defined(__AVX512BW__) || defined(__AVX512CD__) || defined(__AVX512DQ__) || \
    defined(__AVX512VL__)
#  define LOD_TARGET_OF_V4                                                                              \
    LOD_TARGET_JOIN(LOD_TARGET_WORD(__AVX512F__, _avx512f), LOD_TARGET_WORD(__AVX512BW__, _avx512bw),   \
                    LOD_TARGET_WORD(__AVX512CD__, _avx512cd), LOD_TARGET_WORD(__AVX512DQ__, _avx512dq), \
                    LOD_TARGET_WORD(__AVX512VL__, _avx512vl), , , )
#else
#  define LOD_TARGET_OF_V4
#endif

#if defined(__SSE4A__) || defined(__FMA4__) || defined(__XOP__) || defined(__TBM__) || defined(__AVX512ER__) ||   \
    defined(__AVXIFMA__) || defined(__AVXVNNIINT8__) || defined(__AVXVNNIINT16__) || defined(__AVXNECONVERT__) || \
    defined(__CMPCCXADD__) || defined(__AVX10_1__) || defined(__AVX10_2__) || defined(__APX_F__)
#  define LOD_TARGET_RARE                                                                                         \
    LOD_TARGET_JOIN(LOD_TARGET_JOIN(LOD_TARGET_WORD(__SSE4A__, _sse4a), LOD_TARGET_WORD(__FMA4__, _fma4),         \
                                    LOD_TARGET_WORD(__XOP__, _xop), LOD_TARGET_WORD(__TBM__, _tbm),               \
                                    LOD_TARGET_WORD(__AVX512ER__, _er), LOD_TARGET_WORD(__AVXIFMA__, _avxifma),   \
                                    LOD_TARGET_WORD(__AVXVNNIINT8__, _vnniint8), ),                               \
                    LOD_TARGET_WORD(__AVXVNNIINT16__, _vnniint16), LOD_TARGET_WORD(__AVXNECONVERT__, _neconvert), \
                    LOD_TARGET_WORD(__CMPCCXADD__, _cmpccxadd), LOD_TARGET_WORD(__AVX10_1__, _avx10_1),           \
                    LOD_TARGET_WORD(__AVX10_2__, _avx10_2), LOD_TARGET_WORD(__APX_F__, _apx), )
#else
#  define LOD_TARGET_RARE
#endif
// The features that processors from Ice Lake and Zen 4 on have are combined in one name.
#if defined(__AVX512IFMA__) && defined(__AVX512VBMI__) && defined(__AVX512VBMI2__) && defined(__AVX512VNNI__) && \
    defined(__AVX512BITALG__) && defined(__AVX512VPOPCNTDQ__) && defined(__GFNI__)
#  define LOD_TARGET_ICE_LAKE _icelake
#elif defined(__AVX512IFMA__) || defined(__AVX512VBMI__) || defined(__AVX512VBMI2__) || defined(__AVX512VNNI__) || \
    defined(__AVX512BITALG__) || defined(__AVX512VPOPCNTDQ__) || defined(__GFNI__)
#  define LOD_TARGET_ICE_LAKE                                                                                    \
    LOD_TARGET_JOIN(LOD_TARGET_WORD(__AVX512IFMA__, _ifma), LOD_TARGET_WORD(__AVX512VBMI__, _vbmi),              \
                    LOD_TARGET_WORD(__AVX512VBMI2__, _vbmi2), LOD_TARGET_WORD(__AVX512VNNI__, _vnni),            \
                    LOD_TARGET_WORD(__AVX512BITALG__, _bitalg), LOD_TARGET_WORD(__AVX512VPOPCNTDQ__, _popcntdq), \
                    LOD_TARGET_WORD(__GFNI__, _gfni), )
#else
#  define LOD_TARGET_ICE_LAKE
#endif
#if defined(__AVX512BF16__) || defined(__AVX512FP16__) || defined(__AVXVNNI__)
#  define LOD_TARGET_RECENT                                                                         \
    LOD_TARGET_JOIN(LOD_TARGET_WORD(__AVX512BF16__, _bf16), LOD_TARGET_WORD(__AVX512FP16__, _fp16), \
                    LOD_TARGET_WORD(__AVXVNNI__, _avxvnni), , , , , )
#else
#  define LOD_TARGET_RECENT
#endif
#ifdef __aarch64__
#  ifdef __ARM_FEATURE_SVE_BITS
#    define LOD_TARGET_SVE_BITS __ARM_FEATURE_SVE_BITS
#  else
#    define LOD_TARGET_SVE_BITS
#  endif
#  define LOD_TARGET_ARM                                                                                               \
    LOD_TARGET_JOIN(                                                                                                   \
        LOD_TARGET_WORD(__ARM_FEATURE_SVE, _sve), LOD_TARGET_SVE_BITS, LOD_TARGET_WORD(__ARM_FEATURE_SVE2, _sve2),     \
        LOD_TARGET_WORD(__ARM_FEATURE_ATOMICS, _atomics), LOD_TARGET_WORD(__ARM_FEATURE_DOTPROD, _dotprod),            \
        LOD_TARGET_WORD(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC, _fp16), LOD_TARGET_WORD(__ARM_FEATURE_RCPC, _rcpc),      \
        LOD_TARGET_JOIN(LOD_TARGET_WORD(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC, _bf16),                                  \
                        LOD_TARGET_WORD(__ARM_FEATURE_MATMUL_INT8, _i8mm), LOD_TARGET_WORD(__ARM_FEATURE_SHA3, _sha3), \
                        LOD_TARGET_WORD(__ARM_FEATURE_COMPLEX, _complex),                                              \
                        LOD_TARGET_WORD(__ARM_FEATURE_FP16_FML, _fml), LOD_TARGET_WORD(__ARM_FEATURE_FRINT, _frint),   \
                        LOD_TARGET_WORD(__ARM_FEATURE_CRC32, _crc32), LOD_TARGET_WORD(__ARM_FEATURE_MOPS, _mops)))
#else
#  define LOD_TARGET_ARM
#endif

// Flags that change the results of arithmetic.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) ||             \
    defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__) || \
    defined(__ROUNDING_MATH__)
#  define LOD_TARGET_MATH                                                                                       \
    LOD_TARGET_JOIN(                                                                                            \
        LOD_TARGET_WORD(__FAST_MATH__, _fast), LOD_TARGET_WORD(__FINITE_MATH_ONLY__, _finite),                  \
        LOD_TARGET_WORD(__ASSOCIATIVE_MATH__, _associative), LOD_TARGET_WORD(__RECIPROCAL_MATH__, _reciprocal), \
        LOD_TARGET_WORD(__NO_SIGNED_ZEROS__, _unsigned_zeros), LOD_TARGET_WORD(__ROUNDING_MATH__, _rounding), , )
#else
#  define LOD_TARGET_MATH
#endif

// The threads of the CPU's kernels (kernels/cpu/parallel.hpp).
#if defined(LOD_OPENMP)
#  define LOD_TARGET_THREADS _openmp
#elif defined(LOD_TBB)
#  define LOD_TARGET_THREADS _tbb
#elif defined(LOD_SERIAL)
#  define LOD_TARGET_THREADS _serial
#else
#  define LOD_TARGET_THREADS _pool
#endif
#ifdef LOD_CPU_LIBRARY
#  define LOD_TARGET_KERNELS _library
#else
#  define LOD_TARGET_KERNELS _headers
#endif
#ifdef LOD_FLAGS
#  define LOD_TARGET_PASTE(a, b) a##b
#  define LOD_TARGET_FLAGS_OF(name) LOD_TARGET_PASTE(_, name)
#  define LOD_TARGET_FLAGS LOD_TARGET_FLAGS_OF(LOD_FLAGS)
#else
#  define LOD_TARGET_FLAGS
#endif

// The order of the additions of long sums (kernels/sum_tree.hpp).
#ifdef LOD_GRAIN
#  define LOD_TARGET_GRAIN_JOINED(grain) _grain##grain
#  define LOD_TARGET_GRAIN_OF(grain) LOD_TARGET_GRAIN_JOINED(grain)
#  define LOD_TARGET_GRAIN LOD_TARGET_GRAIN_OF(LOD_GRAIN)
#else
#  define LOD_TARGET_GRAIN
#endif

#define LOD_TARGET_ISA                                                                                         \
  LOD_TARGET_JOIN(LOD_TARGET_LEVEL, LOD_TARGET_ABOVE, LOD_TARGET_RARE, LOD_TARGET_ICE_LAKE, LOD_TARGET_RECENT, \
                  LOD_TARGET_ARM, , )
#define LOD_TARGET                                                                                           \
  LOD_TARGET_JOIN(LOD_TARGET_ISA, LOD_TARGET_MATH, LOD_TARGET_THREADS, LOD_TARGET_KERNELS, LOD_TARGET_GRAIN, \
                  LOD_TARGET_FLAGS, , )

// LOD_TAGGED, before the declaration of a function outside LOD_TARGET (never inside it), puts the same text into that
// function's name; nvcc does not support that. LOD_TAGGED_COPIES(Class) does so for the members that the compiler
// generates for a class that is not an aggregate.
#define LOD_TARGET_TEXT_OF(name) #name
#define LOD_TARGET_TEXT(name) LOD_TARGET_TEXT_OF(name)
// Most often nothing is added to the level: then a shorter way to the same text, since a thousand functions take it.
// (In a condition, a word counts as 0: minus nothing minus 1 is 1, minus 0 minus 1 is not.)
#define LOD_TARGET_ADDED                                                                                     \
  LOD_TARGET_JOIN(LOD_TARGET_ABOVE, LOD_TARGET_RARE, LOD_TARGET_ICE_LAKE, LOD_TARGET_RECENT, LOD_TARGET_ARM, \
                  LOD_TARGET_MATH, LOD_TARGET_GRAIN, LOD_TARGET_FLAGS)
#ifdef __CUDACC__
#  define LOD_TAGGED
#elif - LOD_TARGET_ADDED - 1 == 1
#  define LOD_TAGGED                                                                     \
    [[gnu::abi_tag(LOD_TARGET_TEXT(LOD_TARGET_LEVEL) LOD_TARGET_TEXT(LOD_TARGET_THREADS) \
                       LOD_TARGET_TEXT(LOD_TARGET_KERNELS))]]
#else
#  define LOD_TAGGED [[gnu::abi_tag(LOD_TARGET_TEXT(LOD_TARGET))]]
#endif
// NOLINTBEGIN(bugprone-macro-parentheses): the name of a class has none
#define LOD_TAGGED_COPIES(Class)                       \
  LOD_TAGGED Class(const Class&) = default;            \
  LOD_TAGGED Class(Class&&) = default;                 \
  LOD_TAGGED Class& operator=(const Class&) = default; \
  LOD_TAGGED Class& operator=(Class&&) = default;      \
  LOD_TAGGED ~Class() = default
// NOLINTEND(bugprone-macro-parentheses)

// Some functions for programs take long to compile, and nothing of what they do depends on flags. Files that are linked
// with a library of the operators of programs have them from there, without a word for flags in their names; others
// compile them. LOD_PROGRAMS begins their declarations, LOD_PROGRAMS_INLINE their definitions, which are in headers
// named *_inl.hpp.
#if defined(LOD_CPU_LIBRARY) || defined(LOD_OPERATORS_LIBRARY)
#  define LOD_PROGRAMS_ARE_COMPILED
#  define LOD_PROGRAMS
#  define LOD_PROGRAMS_INLINE
#else
#  define LOD_PROGRAMS LOD_TAGGED
#  define LOD_PROGRAMS_INLINE inline
#endif

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {
/// An argument of templates that are to have a name for each set of flags.
struct Flags {};
}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

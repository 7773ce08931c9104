// SPDX-License-Identifier: Apache-2.0
/// @file
/// The x86 intrinsics of the instruction sets that the file is compiled for, for what xsimd lacks. Those of AVX and
/// later, a fifth of the time that <lod/lod.hpp> takes to include, are left out where no function could use them.
#pragma once

#if defined(__x86_64__) || defined(__i386__)
// g++ 12 warns that its own AVX-512 header uses uninitialized variables, wherever its functions are called.
#  if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#    pragma GCC diagnostic ignored "-Wuninitialized"
#  endif
#  ifdef __AVX__
#    include <immintrin.h>
#  else
#    include <emmintrin.h>
#  endif
#  if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic pop
#  endif
#endif

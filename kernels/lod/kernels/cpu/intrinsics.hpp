// SPDX-License-Identifier: Apache-2.0
/// @file
/// The x86 intrinsics, for what xsimd lacks.
#pragma once

#if defined(__x86_64__) || defined(__i386__)
// g++ 12 warns that its own AVX-512 header uses uninitialized variables, wherever its functions are called.
#  if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic push
#    pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#    pragma GCC diagnostic ignored "-Wuninitialized"
#  endif
#  include <immintrin.h>
#  if defined(__GNUC__) && !defined(__clang__)
#    pragma GCC diagnostic pop
#  endif
#endif

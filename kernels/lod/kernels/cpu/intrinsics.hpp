// SPDX-License-Identifier: Apache-2.0
/// @file
/// The intrinsic functions of x86, for what xsimd has not.
#pragma once

#if defined(__x86_64__) || defined(__i386__)
// g++ 12 takes its own header of AVX-512, wherever its functions are used, for a user of variables without values.
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

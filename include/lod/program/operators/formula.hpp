// SPDX-License-Identifier: Apache-2.0
/// @file
/// Functions of numbers as types, one line each, which operators of programs compute element by element, also on GPUs.
#pragma once

#include <lod/core/float16.hpp>

/// A function of x, and what it returns: LOD_FORMULA(Square, x, x * x). The name may be followed by a base.
#define LOD_FORMULA(name, x, ...)             \
  struct name {                               \
    template <class T>                        \
    LOD_HOST_DEVICE T operator()(T x) const { \
      return __VA_ARGS__;                     \
    }                                         \
  }

/// The same of two numbers, with the type of its result.
#define LOD_FORMULA_OF_TWO(name, Result, a, b, ...)     \
  struct name {                                         \
    template <class T>                                  \
    LOD_HOST_DEVICE Result operator()(T a, T b) const { \
      return __VA_ARGS__;                               \
    }                                                   \
  }

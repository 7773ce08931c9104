// SPDX-License-Identifier: Apache-2.0
/// @file
/// Declares that something borrowed from an object lives no longer than the object.
#pragma once

// After the parameters of a function: the result points into the object that it is called on; after a parameter: into
// that one. clang warns if the result is kept longer than the object, as in `auto first =
// lod::sequence_reverse(x).slice({0});`.
#if defined(__has_cpp_attribute) && !defined(__CUDACC__)
#  if __has_cpp_attribute(clang::lifetimebound)
#    define LOD_LIFETIMEBOUND [[clang::lifetimebound]]
#  endif
#endif
#ifndef LOD_LIFETIMEBOUND
#  define LOD_LIFETIMEBOUND
#endif

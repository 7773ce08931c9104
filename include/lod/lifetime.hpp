// SPDX-License-Identifier: Apache-2.0
/// @file
/// Says of what is borrowed from an object that it lives no longer than that.
#pragma once

// After the parameters of a function: what it returns points into the object that it is called on; after one of them:
// into that one. clang warns where such a thing is kept after the object, as in
// `auto first = lod::sequence_reverse(x).slice({0});`.
#if defined(__has_cpp_attribute) && !defined(__CUDACC__)
#  if __has_cpp_attribute(clang::lifetimebound)
#    define LOD_LIFETIMEBOUND [[clang::lifetimebound]]
#  endif
#endif
#ifndef LOD_LIFETIMEBOUND
#  define LOD_LIFETIMEBOUND
#endif

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The version of the library. The build reads it from here; it is written nowhere else.
#pragma once

#include <version>  // which standard library there is, and which strings it has

#if __cplusplus < 202002L
#  error "lodtensor: expected C++20 or later: compile with -std=c++20"
#endif
#if !defined(__cpp_exceptions)
#  error "lodtensor: errors are exceptions: compile without -fno-exceptions"
#endif

/// @{
/// The numbers of the version.
#define LOD_VERSION_MAJOR 0
#define LOD_VERSION_MINOR 1
#define LOD_VERSION_PATCH 0
/// @}

/// @cond
#define LOD_VERSION_QUOTE(text) #text
#define LOD_VERSION_TEXT(major, minor, patch) \
  LOD_VERSION_QUOTE(major) "." LOD_VERSION_QUOTE(minor) "." LOD_VERSION_QUOTE(patch)

// All names of the library are in an inline namespace of the interface's version, which nobody writes: so two versions
// of the library in one program, one of them in a plugin, say, do not meet. While the major number is 0, the minor one
// counts. Files whose standard library has other strings or containers have a namespace of their own, too, since so has
// each class of the library that holds one, such as the workspace of executors: those with libstdc++'s debug mode, with
// its strings and lists of before C++11, and with libc++. What one file hands to one of another kind does not link.
#if defined(_LIBCPP_VERSION)
#  define LOD_INTERFACE_JOINED(major, minor) v##major##_##minor##_libcxx
#elif defined(__GLIBCXX__) && !_GLIBCXX_USE_CXX11_ABI && defined(_GLIBCXX_DEBUG)
#  define LOD_INTERFACE_JOINED(major, minor) v##major##_##minor##_old_strings_debug_containers
#elif defined(__GLIBCXX__) && !_GLIBCXX_USE_CXX11_ABI
#  define LOD_INTERFACE_JOINED(major, minor) v##major##_##minor##_old_strings
#elif defined(_GLIBCXX_DEBUG)
#  define LOD_INTERFACE_JOINED(major, minor) v##major##_##minor##_debug_containers
#else
#  define LOD_INTERFACE_JOINED(major, minor) v##major##_##minor
#endif
#define LOD_INTERFACE_JOIN(major, minor) LOD_INTERFACE_JOINED(major, minor)
#define LOD_INTERFACE LOD_INTERFACE_JOIN(LOD_VERSION_MAJOR, LOD_VERSION_MINOR)
/// @endcond

namespace lod::inline LOD_INTERFACE {

/// Major, minor and patch number joined by dots.
inline constexpr char version[] = LOD_VERSION_TEXT(LOD_VERSION_MAJOR, LOD_VERSION_MINOR, LOD_VERSION_PATCH);

}  // namespace lod::inline LOD_INTERFACE

#undef LOD_VERSION_TEXT
#undef LOD_VERSION_QUOTE

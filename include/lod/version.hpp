// SPDX-License-Identifier: Apache-2.0
/// @file
/// The version of the library. The build reads it from here; it is written nowhere else.
#pragma once

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
/// @endcond

namespace lod {

/// Major, minor and patch number joined by dots.
inline constexpr char version[] = LOD_VERSION_TEXT(LOD_VERSION_MAJOR, LOD_VERSION_MINOR, LOD_VERSION_PATCH);

}  // namespace lod

#undef LOD_VERSION_TEXT
#undef LOD_VERSION_QUOTE

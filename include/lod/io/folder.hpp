// SPDX-License-Identifier: Apache-2.0
/// @file
/// Files of a folder, by names that may come from anywhere, such as those in programs.
#pragma once

#include <lod/core/target.hpp>

#include <string>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Whether a name is that of a file in a folder or below it, without redundant steps such as "./x" and "a//x".
inline bool is_within_folder(const std::string& name) {
  const std::string steps = "/" + name + "/";
  const auto has = [&steps](const char* step) { return steps.find(step) != std::string::npos; };
  return name.find('\0') == std::string::npos && !has("//") && !has("/./") && !has("/../");
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

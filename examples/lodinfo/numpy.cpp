// SPDX-License-Identifier: Apache-2.0
/// @file
/// NumPy's file of one array.
#include "contents.hpp"
#include <lod/io/npy.hpp>

namespace lodinfo {

Opened open_npy(const std::string& path) {
  auto contents = std::make_unique<Loaded>("NumPy array (.npy)");
  contents->add(name_from(path), lod::load_npy(path));
  return contents;
}

}  // namespace lodinfo

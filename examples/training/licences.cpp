// SPDX-License-Identifier: Apache-2.0
#include "licences.hpp"

#include <algorithm>
#include <system_error>

std::vector<std::filesystem::path> licence_texts() {
  std::vector<std::filesystem::path> files;
  std::error_code missing;  // an empty list says enough
  for (const auto& entry : std::filesystem::directory_iterator("/usr/share/common-licenses", missing)) {
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

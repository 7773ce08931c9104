// SPDX-License-Identifier: Apache-2.0
#include "manual.hpp"

std::vector<std::filesystem::path> chapters_of_manual() {
  std::vector<std::filesystem::path> chapters;
  for (const char* name : {"command", "cpack_gen", "envvar", "generator", "manual", "policy", "prop_dir", "prop_gbl",
                           "prop_sf", "prop_test", "prop_tgt", "release", "variable"}) {
    const std::filesystem::path chapter = std::filesystem::path(NESTED_RNN_MANUAL) / name;
    if (std::filesystem::is_directory(chapter)) chapters.push_back(chapter);
  }
  return chapters;
}

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What libFuzzer calls before it fuzzes: with `--write-seeds=<folder>` that is all that the program does.
#include "target.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace {

void write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::size_t number = 0;
  for (const std::string& seed : lod_fuzz::seeds()) {
    std::ofstream(folder / ("seed" + std::to_string(number++)), std::ios::binary) << seed;
  }
}

void print_share_of_bound() {
  std::fprintf(stderr, "stat::percent_of_memory_bound: %.0f\n", 100 * lod_fuzz::largest_share_of_bound);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments);
extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  constexpr std::string_view option = "--write-seeds=";
  for (int i = 1; i < *count; ++i) {
    const std::string_view argument = (*arguments)[i];
    if (!argument.starts_with(option)) continue;
    write_seeds(argument.substr(option.size()));
    std::exit(0);
  }
  std::atexit(print_share_of_bound);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a fuzzer's target without libFuzzer: on its seeds and on the files in the folders given, on all that is left of
/// each of them when it is cut off, and with each byte damaged.
///
///     replay_npy tests/fuzz/corpus/npy tests/fuzz/regressions/npy    # a folder that is not there is an empty one
#include "target.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

/// In memory that ends where the input ends, so that a sanitizer notices who reads on.
void run(std::string_view bytes) {
  const std::vector<std::uint8_t> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::size_t run_with_variations(std::string bytes) {
  constexpr std::size_t small = 2048;
  run(bytes);
  if (bytes.size() > small) return 1;
  for (std::size_t size = 0; size < bytes.size(); ++size) run(std::string_view(bytes).substr(0, size));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char right = bytes[i];
    for (const int damage : {1 << i % 8, 0xFF}) {
      bytes[i] = static_cast<char>(right ^ damage);
      run(bytes);
    }
    bytes[i] = right;
  }
  return 1 + 3 * bytes.size();
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t inputs = 0;
  const auto replay = [&](const std::string& name, const std::string& bytes) {
    // Before it runs: if that ends the program, this is the last line.
    std::printf("%s: %zu bytes\n", name.c_str(), bytes.size());
    std::fflush(stdout);
    inputs += run_with_variations(bytes);
  };
  std::size_t number = 0;
  for (const std::string& seed : lod_fuzz::seeds()) replay("seed " + std::to_string(number++), seed);
  for (int i = 1; i < count; ++i) {
    if (!fs::exists(arguments[i])) continue;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(arguments[i])) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) replay(file.string(), read(file));
  }
  std::printf("%zu inputs; at most %.0f%% of the bound on memory was used\n", inputs,
              100 * lod_fuzz::largest_share_of_bound);
  return inputs > 0 ? 0 : 1;
}

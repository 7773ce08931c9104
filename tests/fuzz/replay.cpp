// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs a fuzzer's target without libFuzzer: on its seeds and on the files in the folders given, on all that is left of
/// each of them when it is cut off, and with each byte damaged; or, if the target has a mutator of its own, with what
/// that makes of it.
///
///     replay_npy tests/fuzz/corpus/npy tests/fuzz/regressions/npy    # a folder that is not there is an empty one
///     replay_run --mutations=1000 --seed=7                           # of each input, and the first random number
#include "target.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" __attribute__((weak)) std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                                                     std::size_t most, unsigned seed);
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

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

/// With mutations of it, and most often of these again.
std::size_t run_with_mutations(const std::string& bytes, unsigned mutations, std::mt19937& random) {
  constexpr std::size_t most = 8192;
  run(bytes);
  std::vector<std::uint8_t> mutated;
  for (unsigned i = 0; i < mutations; ++i) {
    if (i % 8 == 0) mutated.assign(bytes.begin(), bytes.end());
    const std::size_t size = mutated.size();
    mutated.resize(std::max(size, most));
    mutated.resize(LLVMFuzzerCustomMutator(mutated.data(), size, most, static_cast<unsigned>(random())));
    run(lod_fuzz::input(mutated.data(), mutated.size()));
  }
  return 1 + mutations;
}

/// The number of an option such as --seed=7.
unsigned number_of(std::string_view argument, std::string_view option, unsigned otherwise) {
  if (argument.starts_with(option)) {
    std::from_chars(argument.data() + option.size(), argument.data() + argument.size(), otherwise);
  }
  return otherwise;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

/// What libFuzzer has for mutators that want a part of the input changed in any way: here a byte, or a tail cut off.
std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t) {
  static std::minstd_rand random;
  if (size == 0) return 0;
  const std::size_t at = random() % size;
  if (random() % 8 == 0) return at;
  data[at] ^= static_cast<std::uint8_t>(random() % 2 == 0 ? 1U << random() % 8 : random());
  return size;
}

int main(int count, char** arguments) {
  std::size_t inputs = 0;
  unsigned mutations = 12, first_number = 1;
  for (int i = 1; i < count; ++i) {
    mutations = number_of(arguments[i], "--mutations=", mutations);
    first_number = number_of(arguments[i], "--seed=", first_number);
  }
  std::mt19937 random(first_number);
  const auto replay = [&](const std::string& name, const std::string& bytes) {
    // Before it runs: if that ends the program, this is the last line.
    std::printf("%s: %zu bytes\n", name.c_str(), bytes.size());
    std::fflush(stdout);
    inputs += LLVMFuzzerCustomMutator ? run_with_mutations(bytes, mutations, random) : run_with_variations(bytes);
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

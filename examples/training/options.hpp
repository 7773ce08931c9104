// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command line of programs that learn from text.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

/// The options that all of them have.
struct TrainingOptions {
  bool quick = false;
  bool check_gradients = false;
  std::uint64_t seed = 1;
  std::vector<std::filesystem::path> files;
};

/// Reads them. An option of the program's own is passed to read(argument, value), where value() is what follows it;
/// read returns whether there is such an option. --help prints `help` and ends the program. Throws
/// std::invalid_argument for an option that nobody knows, and for one without its value.
template <class Read>
TrainingOptions read_training_options(int count, char** arguments, const char* help, const Read& read) {
  TrainingOptions options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const auto value = [&]() -> std::string {
      if (++i == count) throw std::invalid_argument(argument + " needs a value");
      return arguments[i];
    };
    if (argument == "--help") {
      std::cout << help;
      std::exit(0);
    } else if (argument == "--quick") {
      options.quick = true;
    } else if (argument == "--check-gradients") {
      options.check_gradients = true;
    } else if (argument == "--seed") {
      options.seed = std::stoull(value());
    } else if (argument.starts_with("-")) {
      if (!read(argument, value)) throw std::invalid_argument("unknown option " + argument);
    } else {
      options.files.emplace_back(argument);
    }
  }
  return options;
}

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command line.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace lodinfo {

extern const char* const help;

/// A command line that is wrong; so is one that asks for what the file does not have.
class UsageError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

struct Options {
  std::string file;
  std::string other_file;  // that `diff` compares with
  std::optional<std::string> variable;
  std::optional<std::vector<std::int64_t>> branch;

  enum class Colour { AUTO, ALWAYS, NEVER } colour = Colour::AUTO;
  std::optional<std::int64_t> width;
  bool all = false;
  bool json = false;
  bool diff = false;
  std::optional<double> tolerance;
  bool svg = false;
  bool dot = false;
  bool verify = false;
  bool show_help = false;
  bool show_version = false;
};

/// Reads what comes after the program's name. Throws UsageError.
Options read_options(const std::vector<std::string>& arguments);

}  // namespace lodinfo

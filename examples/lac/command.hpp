// SPDX-License-Identifier: Apache-2.0
/// @file
/// The command line.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace lac {

/// What is around the program.
struct Surroundings {
  std::istream& input;
  std::ostream& output;
  std::ostream& errors;
  bool is_interactive = false;  ///< a person types the input, and waits for an answer to each line
  bool has_colours = false;
};

/// Does what the arguments, those after the program's name, say. Returns the exit status: 0 if all went well, 1 if a
/// file could not be read, 2 if the arguments are wrong.
int run_command(const std::vector<std::string>& arguments, const Surroundings& around);

}  // namespace lac

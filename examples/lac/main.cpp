// SPDX-License-Identifier: Apache-2.0
/// @file
/// Divides Chinese text into words and tags them: `lac --help`.
#include "command.hpp"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

int main(int count, char** arguments) {
  const char* const no_color = std::getenv("NO_COLOR");
  return lac::run_command(std::vector<std::string>(arguments + 1, arguments + count),
                          {.input = std::cin,
                           .output = std::cout,
                           .errors = std::cerr,
                           .is_interactive = isatty(STDIN_FILENO) != 0,
                           .has_colours = isatty(STDOUT_FILENO) != 0 && !(no_color && *no_color)});
}

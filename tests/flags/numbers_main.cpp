// SPDX-License-Identifier: Apache-2.0
// A program of an exact file and one that is compiled with -ffast-math. The build links it twice: with the one before
// the other, of which the linker keeps the body of each function that both have, and the other way round.
#include "flags/exact_numbers.hpp"

#include <cstdio>
#include <cstring>

int main() {
  use_numbers_of_fast_file();
  if (std::strcmp(target_of_fast_file(), target_of_exact_file()) == 0) {
    std::printf("both files have the names of %s\n", target_of_exact_file());
    return 1;
  }
  const int wrong = first_wrong_in_exact_file();
  if (wrong != 0) std::printf("check %d fails in the exact file\n", wrong);
  return wrong != 0;
}

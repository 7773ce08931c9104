// SPDX-License-Identifier: Apache-2.0
// Compiled with -ffast-math.
#include "flags/exact_numbers.hpp"
#include "flags/numbers.hpp"

int use_numbers_of_fast_file() {
  try {
    return first_wrong_of_all_types();
  } catch (const std::exception&) {  // a text without its NaN cannot be read
    return -1;
  }
}
const char* target_of_fast_file() { return LOD_TEST_TEXT(LOD_TARGET); }

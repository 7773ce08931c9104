// SPDX-License-Identifier: Apache-2.0
#include "flags/exact_numbers.hpp"

#include "flags/numbers.hpp"

int first_wrong_in_exact_file() { return first_wrong_of_all_types(); }
const char* target_of_exact_file() { return LOD_TEST_TEXT(LOD_TARGET); }

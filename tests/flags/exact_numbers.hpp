// SPDX-License-Identifier: Apache-2.0
/// @file
/// What must hold in a file that is compiled without -ffast-math, whatever other files of the program are compiled
/// with.
#pragma once

/// Calls what the exact file checks, from a file that is compiled with -ffast-math: then all of it is in that file's
/// object, too. What it gives there does not matter.
int use_numbers_of_fast_file();
/// The number of the first check that fails in the exact file, 0 where all hold.
int first_wrong_in_exact_file();
/// What the tag of each file's names is.
const char* target_of_fast_file();
const char* target_of_exact_file();

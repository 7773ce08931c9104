// SPDX-License-Identifier: Apache-2.0
/// @file
/// doctest's main, in a file of its own because it takes seconds to compile.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

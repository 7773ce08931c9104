// SPDX-License-Identifier: Apache-2.0
/// @file
/// Refusals: the type of the error, its text, and that nothing was changed.
#pragma once

#include "support/executors.hpp"

#include <doctest/doctest.h>

namespace lod_test {

/// Checks that call() throws an Error whose text contains `text`, and leaves the tensor `output` as it was.
template <class Error, class Output, class Call>
void check_throws(const Call& call, const char* text, const Output& output) {
  const Output before = output;
  CHECK_THROWS_WITH_AS(call(), doctest::Contains(text), Error);
  CHECK(same_bits(before, output));
}

}  // namespace lod_test

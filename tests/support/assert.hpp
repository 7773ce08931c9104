// SPDX-License-Identifier: Apache-2.0
/// @file
/// LOD_ASSERT for the tests: a broken precondition throws, so that the preconditions are tested too. The build includes
/// this file before the first line of every test.
#pragma once

#include <stdexcept>
#include <string>

namespace lod_test {

/// What a broken LOD_ASSERT throws in the tests.
class AssertionFailure : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] inline void fail_assertion(const char* condition, const char* file, int line) {
  throw AssertionFailure(std::string(file) + ":" + std::to_string(line) + ": LOD_ASSERT(" + condition + ")");
}

}  // namespace lod_test

#define LOD_ASSERT(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::lod_test::fail_assertion(#condition, __FILE__, __LINE__))

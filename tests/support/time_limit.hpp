// SPDX-License-Identifier: Apache-2.0
/// @file
/// For what must return at once.
#pragma once

#include <unistd.h>

namespace lod_test {

/// Ends the program where what goes on while it exists takes too long: it would never return.
struct TimeLimit {
  TimeLimit() { alarm(120); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  ~TimeLimit() { alarm(0); }
};

}  // namespace lod_test

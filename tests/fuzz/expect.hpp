// SPDX-License-Identifier: Apache-2.0
/// @file
/// What ends a fuzzer: an expectation, or a precondition of the library, that does not hold. Not by an exception, which
/// a reader might take for one of its own. The build includes this file before the first line of every target.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace lod_fuzz {

[[noreturn]] inline void fail(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
  std::abort();
}

}  // namespace lod_fuzz

#define LOD_FUZZ_EXPECT(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::lod_fuzz::fail(#condition, __FILE__, __LINE__))
#define LOD_ASSERT(condition) LOD_FUZZ_EXPECT(condition)

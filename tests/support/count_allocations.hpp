// SPDX-License-Identifier: Apache-2.0
/// @file
/// How often and how much a test program allocated, from whatever resource the memory came.
#pragma once

#include <atomic>
#include <cstdint>

namespace lod_test {

/// Whether they are: the thread sanitizer of clang keeps an operator new of its own.
#ifdef __has_feature
#  if __has_feature(thread_sanitizer)
#    define LOD_TEST_THREAD_SANITIZER
#  endif
#endif
#ifdef LOD_TEST_THREAD_SANITIZER
inline constexpr bool counts_allocations = false;
#else
inline constexpr bool counts_allocations = true;
#endif

/// How often operator new was called since the program began.
inline std::atomic<std::int64_t> allocations = 0;
/// The bytes that it gave, those that are free again included.
inline std::atomic<std::int64_t> allocated_bytes = 0;
/// How many of the calls to come succeed: the next one, and all after it, throws std::bad_alloc. -1: all succeed.
inline std::atomic<std::int64_t> allocations_left = -1;

}  // namespace lod_test

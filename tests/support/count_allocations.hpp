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
/// How many calls of operator new succeed before none does; negative: all do.
inline std::atomic<std::int64_t> allocations_left = -1;
/// Whether this call is one of those that fail.
inline bool allocation_fails() noexcept {
  std::int64_t left = allocations_left.load();
  while (left > 0 && !allocations_left.compare_exchange_weak(left, left - 1)) {
  }
  return left == 0;
}
/// Lets operator new fail, in all threads, after so many calls, for as long as this exists.
class FailingAllocations {
 public:
  explicit FailingAllocations(std::int64_t after) noexcept { allocations_left = after; }
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
  ~FailingAllocations() { allocations_left = -1; }
};
/// The bytes that it gave, those that are free again included.
inline std::atomic<std::int64_t> allocated_bytes = 0;

}  // namespace lod_test

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts what the program allocates, from whatever resource it comes: included by one file of a program, it replaces
/// operator new.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace lod_test {

/// How often operator new was called since the program began.
inline std::atomic<std::int64_t> allocations = 0;

inline void* count_and_allocate(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, whole > 0 ? whole : alignment)) return memory;
  throw std::bad_alloc();
}

}

// Not inlined: g++ and valgrind would see only one half of a pair and report that the two do not match.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  return lod_test::count_and_allocate(bytes, alignof(std::max_align_t));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return lod_test::count_and_allocate(bytes, static_cast<std::size_t>(alignment));
}
// Asked for by the algorithms of the standard library that do without a buffer where there is none.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++lod_test::allocations;
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts what a test program allocates: replaces operator new, where nobody else does.
#include "support/count_allocations.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#ifndef LOD_TEST_THREAD_SANITIZER
namespace {

void* count_and_allocate(std::size_t bytes, std::size_t alignment) {
  // More than a processor can address is refused here: the allocator of the address sanitizer would end the program.
  if (lod_test::allocation_fails() || bytes >> 40 != 0) throw std::bad_alloc();
  ++lod_test::allocations;
  lod_test::allocated_bytes += static_cast<std::int64_t>(bytes);
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, whole > 0 ? whole : alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Not inlined: g++ and valgrind would see only one half of a pair and report that the two do not match.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return count_and_allocate(bytes, alignof(std::max_align_t)); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return count_and_allocate(bytes, static_cast<std::size_t>(alignment));
}
// Asked for by the algorithms of the standard library that do without a buffer where there is none.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  if (lod_test::allocation_fails()) return nullptr;
  ++lod_test::allocations;
  lod_test::allocated_bytes += static_cast<std::int64_t>(bytes);
  return std::malloc(bytes > 0 ? bytes : 1);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif

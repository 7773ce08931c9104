// SPDX-License-Identifier: Apache-2.0
/// @file
/// Counts the bytes that a fuzzer holds: replaces operator new. Fuzzers have one thread.
#include "memory.hpp"

#include <malloc.h>

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

void* count(void* given) {
  if (!given) throw std::bad_alloc();
  lod_fuzz::Memory& memory = lod_fuzz::memory;
  memory.now += malloc_usable_size(given);
  if (memory.now > memory.most) memory.most = memory.now;
  return given;
}

void release(void* given) noexcept {
  lod_fuzz::memory.now -= malloc_usable_size(given);
  std::free(given);
}

}  // namespace

// Not inlined: g++ would see only one half of a pair and report that the two do not match.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return count(std::malloc(bytes > 0 ? bytes : 1)); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  const std::size_t units = bytes / unit + (bytes % unit > 0 ? 1 : 0);
  if (units > static_cast<std::size_t>(-1) / unit) throw std::bad_alloc();
  return count(std::aligned_alloc(unit, units > 0 ? units * unit : unit));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { release(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { release(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Large blocks of memory that are kept when tensors give them back.
///
/// A large block that is freed goes back to the system at once, and the system clears each page of a new one: a result
/// of 64 MiB that is returned by value would take several times as long as one written to an existing tensor.
#pragma once

#include <lod/core/device.hpp>
#include <lod/core/huge_pages.hpp>
#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#  define LOD_SEES_FREED_MEMORY
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define LOD_SEES_FREED_MEMORY
#  endif
#endif

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// Blocks of the standard library's `new_delete_resource`, shared by all threads without locks.
class KeptMemory {
 public:
  /// How many bytes are kept at most, unless `limit_kept_memory` says otherwise. A sanitizer must see what is freed.
#ifdef LOD_SEES_FREED_MEMORY
  static constexpr std::size_t initial_limit = 0;
#  undef LOD_SEES_FREED_MEMORY
#else
  static constexpr std::size_t initial_limit = std::size_t{256} << 20;
#endif
  /// Smaller blocks are kept by the allocator of the C library.
  static constexpr std::size_t least_bytes = std::size_t{4} << 20;

  /// A block of at least `bytes` bytes, whose true size `bytes` becomes: a kept one that is at most a third larger, or
  /// a new one. Throws what `new_delete_resource` throws, if freeing what is kept does not help.
  LOD_TAGGED void* allocate(std::size_t& bytes) {
    if (void* const memory = take(bytes)) return memory;
    void* memory = nullptr;
    try {
      memory = allocate_new(bytes);
    } catch (const std::bad_alloc&) {
      shrink(0);
      memory = allocate_new(bytes);
    }
    advise_huge_pages(memory, bytes);
    return memory;
  }

  /// Keeps a block, or frees it if it is small or there is no room for it.
  LOD_TAGGED void give_back(void* memory, std::size_t bytes) noexcept {
    if (bytes >= least_bytes) {
      if (add(bytes) <= loaded(limit_)) {
        Free* const block = ::new (memory) Free{bytes};
        for (Free*& slot : slots_) {
          Free* none = nullptr;
          if (__atomic_compare_exchange_n(&slot, &none, block, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) return;
        }
      }
      subtract(bytes);
    }
    free(memory, bytes);
  }

  LOD_TAGGED void limit(std::size_t bytes) noexcept {
    __atomic_store_n(&limit_, bytes, __ATOMIC_RELAXED);
    shrink(bytes);
  }

 private:
  /// The head of a block that is kept.
  struct Free {
    std::size_t bytes;
  };

  /// C libraries are quick to allocate memory of the usual alignment, and slow for larger ones: the search takes
  /// several times as long as an operation on a few numbers. So small blocks are aligned here. The word before a block
  /// is the address that the C library gave.
  LOD_TAGGED static void* allocate_new(std::size_t bytes) {
    if (bytes >= least_bytes) return std::pmr::new_delete_resource()->allocate(bytes, alignment);
    void* const memory = ::operator new(bytes + alignment);
    auto* const begin = static_cast<std::byte*>(memory);
    std::byte* const block = begin + (alignment - reinterpret_cast<std::uintptr_t>(begin) % alignment);
    ::new (block - sizeof memory) void*(memory);
    return block;
  }
  LOD_TAGGED static void free(void* block, std::size_t bytes) noexcept {
    if (bytes >= least_bytes) return std::pmr::new_delete_resource()->deallocate(block, bytes, alignment);
    ::operator delete(static_cast<void**>(block)[-1]);
  }

  // The compiler's own functions: <atomic> takes longer to include than the rest.
  LOD_TAGGED static std::size_t loaded(const std::size_t& number) noexcept {
    return __atomic_load_n(&number, __ATOMIC_RELAXED);
  }
  LOD_TAGGED std::size_t add(std::size_t bytes) noexcept {
    return __atomic_add_fetch(&bytes_, bytes, __ATOMIC_RELAXED);
  }
  LOD_TAGGED void subtract(std::size_t bytes) noexcept { __atomic_sub_fetch(&bytes_, bytes, __ATOMIC_RELAXED); }
  /// What is in a slot, which is then free; null if nothing is.
  LOD_TAGGED static Free* emptied(Free*& slot) noexcept {
    return __atomic_exchange_n(&slot, static_cast<Free*>(nullptr), __ATOMIC_ACQUIRE);
  }

  LOD_TAGGED void* take(std::size_t& bytes) noexcept {
    if (bytes < least_bytes || loaded(bytes_) == 0) return nullptr;
    for (Free*& slot : slots_) {
      Free* const block = emptied(slot);
      if (block == nullptr) continue;
      subtract(block->bytes);
      if (block->bytes >= bytes && block->bytes - bytes <= bytes / 3) {
        bytes = block->bytes;
        return block;
      }
      give_back(block, block->bytes);
    }
    // Kept blocks that did not fit make room for the new block.
    const std::size_t limit = loaded(limit_);
    shrink(limit > bytes ? limit - bytes : 0);
    return nullptr;
  }

  /// Frees blocks until at most `most` bytes are kept.
  LOD_TAGGED void shrink(std::size_t most) noexcept {
    for (Free*& slot : slots_) {
      if (loaded(bytes_) <= most) return;
      Free* const block = emptied(slot);
      if (block == nullptr) continue;
      const std::size_t bytes = block->bytes;
      subtract(bytes);
      free(block, bytes);
    }
  }

  Free* slots_[8] = {};
  std::size_t bytes_ = 0, limit_ = initial_limit;
};
/// Not destroyed: tensors may give memory back until the program has ended.
inline constinit KeptMemory kept_memory;
/// Frees what is kept when the program ends, or the library that keeps it is unloaded.
struct KeptMemoryEnd {
  LOD_TAGGED ~KeptMemoryEnd() { kept_memory.limit(0); }
};
inline const KeptMemoryEnd kept_memory_end{};

}  // namespace detail

/// Limits how many bytes the whole program keeps when tensors free their memory, for the next tensors of about the same
/// size; 256 MiB by default. What exceeds the limit is freed at once; with 0, none is kept. Only blocks of at least 4
/// MiB from `std::pmr::new_delete_resource()`, the default resource, are kept, and at most eight of them. Any thread
/// may call this.
LOD_TAGGED inline void limit_kept_memory(std::size_t bytes) noexcept { detail::kept_memory.limit(bytes); }

}  // namespace lod::inline LOD_INTERFACE

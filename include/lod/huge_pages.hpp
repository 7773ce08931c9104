// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Large blocks of memory on large pages.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __linux__
#  include <sys/mman.h>
#endif

namespace lod::detail {

/// Blocks of at least so many bytes are worth it.
inline constexpr std::size_t huge_page_bytes = std::size_t{4} << 20;

/// Asks the system for huge pages for a large block, before it is touched: the addresses of a large tensor's values are
/// then found quicker, and its first touch takes fewer faults. Whatever the system answers, the memory is the same.
inline void advise_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  if (bytes < huge_page_bytes) return;
  constexpr std::uintptr_t page = 4096;
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / page * page;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace lod::detail

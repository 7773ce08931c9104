// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// Large blocks of memory on large pages.
#pragma once

#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>

#ifdef __linux__
#  include <sys/mman.h>
#endif

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Smaller blocks gain nothing from huge pages.
inline constexpr std::size_t huge_page_bytes = std::size_t{4} << 20;

/// Requests huge pages for a large block before it is touched: address translation is then faster, and the first touch
/// takes fewer page faults. Whatever the system answers, the memory is the same.
inline void advise_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  if (bytes < huge_page_bytes) return;
  constexpr std::uintptr_t page = 4096;
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page;
  const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / page * page;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

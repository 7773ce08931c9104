// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// New memory that is about to be filled from a file.
#pragma once

#include <lod/core/processors.hpp>
#include <lod/core/target.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <thread>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// As long as this lives, a thread of its own makes the system populate the pages of a large block of new memory, from
/// front to back: the system clears each page when it is first touched, which takes longer than copying a file's bytes
/// there. The block may be filled meanwhile without waiting for the thread; the result is the same without it. Does
/// nothing for small blocks, on one processor, and where the system lacks support.
class PopulatedMemory {
 public:
  explicit PopulatedMemory([[maybe_unused]] std::span<std::byte> block) {
#ifdef MADV_POPULATE_WRITE
    constexpr std::size_t large = std::size_t{16} << 20;
    if (block.size() < large || usable_processors() < 2) return;
    try {
      thread_ = std::thread([this, block] { populate(block); });
    } catch (const std::system_error&) {
      // No thread is available: the pages are then touched first by whoever fills the block.
    }
#endif
  }
  PopulatedMemory(const PopulatedMemory&) = delete;
  PopulatedMemory& operator=(const PopulatedMemory&) = delete;
  ~PopulatedMemory() {
    ends_.store(true, std::memory_order_relaxed);
    if (thread_.joinable()) thread_.join();
  }

 private:
#ifdef MADV_POPULATE_WRITE
  void populate(std::span<std::byte> block) const noexcept {
    constexpr std::uintptr_t piece = std::uintptr_t{8} << 20;
    const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const auto first = reinterpret_cast<std::uintptr_t>(block.data());
    // Whole pages only: those at the ends are shared with other memory.
    const std::uintptr_t end = (first + block.size()) / page * page;
    for (std::uintptr_t begin = (first + page - 1) / page * page; begin < end; begin += piece) {
      if (ends_.load(std::memory_order_relaxed)) return;
      const std::size_t size = std::min(piece, end - begin);
      if (::madvise(reinterpret_cast<void*>(begin), size, MADV_POPULATE_WRITE) != 0) return;
    }
  }
#endif

  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

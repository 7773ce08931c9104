// SPDX-License-Identifier: Apache-2.0
/// @file
/// The sizes of the processor's caches.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/vector.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Bytes of the last-level cache, or 0 if the system does not say.
inline std::int64_t last_cache_bytes() noexcept {
#ifdef _SC_LEVEL3_CACHE_SIZE
  static const std::int64_t bytes = std::max(
      {std::int64_t{0}, std::int64_t{sysconf(_SC_LEVEL2_CACHE_SIZE)}, std::int64_t{sysconf(_SC_LEVEL3_CACHE_SIZE)}});
  return bytes;
#else
  return 0;
#endif
}

/// Where data of `bytes` bytes most likely is, whose rows are read in random order. Half of the last-level cache counts
/// as available: it holds other data too, on a shared machine also that of other programs.
inline Whereabouts whereabouts(std::int64_t bytes) noexcept {
  return bytes <= last_cache_bytes() / 2 ? Whereabouts::CACHE : Whereabouts::MEMORY;
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

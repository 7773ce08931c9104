// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the caches of the processor at hand hold.
#pragma once

#include <lod/kernels/cpu/vector.hpp>
#include <lod/target.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel::cpu {

/// Bytes of the last-level cache, 0 where the system does not tell.
inline std::int64_t last_cache_bytes() noexcept {
#ifdef _SC_LEVEL3_CACHE_SIZE
  static const std::int64_t bytes = std::max(
      {std::int64_t{0}, std::int64_t{sysconf(_SC_LEVEL2_CACHE_SIZE)}, std::int64_t{sysconf(_SC_LEVEL3_CACHE_SIZE)}});
  return bytes;
#else
  return 0;
#endif
}

/// Where so many bytes are, of which rows are read here and there, most likely. Half of the last cache is theirs: it
/// holds other things too, and on a machine that is shared those of others.
inline Whereabouts whereabouts(std::int64_t bytes) noexcept {
  return bytes <= last_cache_bytes() / 2 ? Whereabouts::CACHE : Whereabouts::MEMORY;
}

}  // namespace kernel::cpu
}  // namespace lod::inline LOD_TARGET

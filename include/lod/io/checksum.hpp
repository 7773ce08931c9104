// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// Checksums of file contents: the 64-bit XXH3 hash. The doorway to xxHash, whose code is in its header.
#pragma once

#include <lod/core/target.hpp>

// They stand before xxhash.h, which includes headers of the C library between the braces of an extern "C".
#include <cstddef>
#include <cstdint>
#include <cstdlib>

// At -Og g++ does not see through the function pointers by which xxHash tells its loops what to inline, and stops with
// an error. g++ 12 warns that its own AVX-512 header uses uninitialized variables.
#if defined(__GNUC__) && !defined(__clang__)
#  pragma GCC push_options
#  pragma GCC optimize("O3")
#  pragma GCC diagnostic push
#  pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#  pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#ifndef XXH_INLINE_ALL
#  define XXH_INLINE_ALL
#endif
#include <xxhash.h>
#if defined(__GNUC__) && !defined(__clang__)
#  pragma GCC diagnostic pop
#  pragma GCC pop_options
#endif

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// The checksum of bytes that arrive in pieces.
class Checksum {
 public:
  Checksum() noexcept { XXH3_64bits_reset(&state_); }

  void add(const void* bytes, std::size_t size) noexcept {
    if (size > 0) XXH3_64bits_update(&state_, bytes, size);
  }
  /// The checksum of all bytes so far.
  std::uint64_t value() const noexcept { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

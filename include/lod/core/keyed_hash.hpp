// SPDX-License-Identifier: Apache-2.0
/// @file
/// Hashes that depend on secret numbers. Ids, values and names come from outside: whoever knows how they are hashed can
/// choose thousands that all collide in a table, so that each lookup visits all of them. A random key makes that
/// impossible. No result depends on the key.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <utility>

#if defined(__APPLE__)
#  include <sys/random.h>
#else
#  include <unistd.h>
#endif

namespace lod::inline LOD_INTERFACE::detail {

/// The upper half of the product of two numbers XOR the lower half. With a secret factor, the difference between two
/// numbers does not reveal how their results differ, as it would with the top bits of a 64-bit product.
LOD_TAGGED [[gnu::always_inline]] LOD_HOST_DEVICE inline std::uint64_t folded_product(std::uint64_t a,
                                                                                      std::uint64_t b) noexcept {
#ifdef __CUDA_ARCH__
  return __umul64hi(a, b) ^ (a * b);
#else
  __extension__ using Product = unsigned __int128;
  const Product product = static_cast<Product>(a) * b;
  return static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product);
#endif
}

/// The secret numbers of a hash.
struct HashKey {
  std::uint64_t start = 0;   ///< the initial value of a hash
  std::uint64_t factor = 1;  ///< odd
  std::uint64_t spread = 1;  ///< odd

  LOD_TAGGED constexpr HashKey() = default;
  LOD_TAGGED LOD_HOST_DEVICE constexpr HashKey(std::uint64_t the_start, std::uint64_t the_factor,
                                               std::uint64_t the_spread = 1) noexcept
      : start(the_start), factor(the_factor), spread(the_spread) {}

  /// A new key: a different one in each process, and for each call.
  LOD_TAGGED static HashKey draw() noexcept {
    static const std::pair<std::uint64_t, std::uint64_t> secret = draw_secret();
    static std::uint64_t count = 0;
    const std::uint64_t call = __atomic_fetch_add(&count, 3, __ATOMIC_RELAXED);
    const auto number = [&](std::uint64_t i) {
      return folded_product(folded_product(secret.first ^ (call + i), secret.second), secret.first | 1);
    };
    return {number(0), number(1) | 1, number(2) | 1};
  }

  /// Combines `known`, the hash of everything before, with one more number.
  LOD_TAGGED [[gnu::always_inline]] LOD_HOST_DEVICE std::uint64_t mix(std::uint64_t known,
                                                                      std::uint64_t number) const noexcept {
    return folded_product(known ^ number, factor);
  }
  /// The hash of one number; its top bits are the best.
  LOD_TAGGED [[gnu::always_inline]] std::uint64_t of(std::uint64_t number) const noexcept {
    return mix(start, number) * spread;
  }
  /// The hash of `count` bytes, where `known` is the hash of everything before.
  LOD_TAGGED std::uint64_t of(const void* bytes, std::size_t count, std::uint64_t known) const noexcept {
    const auto* const from = static_cast<const std::byte*>(bytes);
    std::size_t at = 0;
    for (; at + 8 <= count; at += 8) {
      std::uint64_t word;
      std::memcpy(&word, from + at, 8);
      known = mix(known, word);
    }
    if (at < count) {
      std::uint64_t rest = 0;
      std::memcpy(&rest, from + at, count - at);
      known = mix(known, rest);
    }
    return mix(known, count ^ spread);
  }

 private:
  LOD_TAGGED static std::pair<std::uint64_t, std::uint64_t> draw_secret() noexcept {
    std::uint64_t drawn[2];
    if (::getentropy(drawn, sizeof(drawn)) != 0) {
      // Without a source of random numbers: the time, and the address where this code was loaded.
      std::timespec now = {};
      static_cast<void>(std::timespec_get(&now, TIME_UTC));
      drawn[0] = static_cast<std::uint64_t>(now.tv_sec) << 32 ^ static_cast<std::uint64_t>(now.tv_nsec);
      drawn[1] = reinterpret_cast<std::uintptr_t>(&drawn) * 0x9e3779b97f4a7c15U;
    }
    return {drawn[0], drawn[1] | 1};
  }
};

}  // namespace lod::inline LOD_INTERFACE::detail

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Random numbers that are computed from their positions: Philox4x32-10.
#pragma once

#include <lod/core/target.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lod::inline LOD_INTERFACE::detail {

/// A stream of random numbers, each of which is computed from its position alone, without those before it; so results
/// depend on no order. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
class Philox {
 public:
  /// Streams that differ in key or number are independent.
  LOD_TAGGED explicit Philox(std::uint64_t key, std::uint64_t stream = 0) noexcept : key_(key), stream_(stream) {}

  /// Four numbers of 32 random bits.
  LOD_TAGGED std::array<std::uint32_t, 4> bits(std::uint64_t place) const noexcept {
    std::array<std::uint32_t, 4> x = {low(place), high(place), low(stream_), high(stream_)};
    std::uint32_t a = low(key_), b = high(key_);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t first = std::uint64_t{0xD2511F53} * x[0], second = std::uint64_t{0xCD9E8D57} * x[2];
      x = {high(second) ^ x[1] ^ a, low(second), high(first) ^ x[3] ^ b, low(first)};
      a += 0x9E3779B9;
      b += 0xBB67AE85;
    }
    return x;
  }
  /// A number from [0, 1).
  LOD_TAGGED double uniform(std::uint64_t place) const noexcept { return unit(bits(place)[0]); }
  /// A number of the normal distribution with mean 0 and standard deviation 1, in [-limit, limit]; `limit` should be
  /// above 1.
  LOD_TAGGED double normal(std::uint64_t place, double limit = 1e9) const noexcept {
    constexpr double two_pi = 6.28318530717958647692;
    for (std::uint64_t attempt = 0;; ++attempt) {
      const auto x = Philox(key_ ^ (attempt << 32), stream_).bits(place);
      for (const std::size_t i : {0U, 2U}) {  // Box and Muller's method, twice
        const double z = std::sqrt(-2 * std::log(1 - unit(x[i]))) * std::cos(two_pi * unit(x[i + 1]));
        if (std::abs(z) <= limit) return z;
      }
    }
  }

  /// A key from a text: FNV-1a.
  LOD_TAGGED static std::uint64_t key_of(std::string_view text) noexcept {
    std::uint64_t hash = 0xCBF29CE484222325;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    return hash;
  }

 private:
  LOD_TAGGED static std::uint32_t low(std::uint64_t x) noexcept { return static_cast<std::uint32_t>(x); }
  LOD_TAGGED static std::uint32_t high(std::uint64_t x) noexcept { return static_cast<std::uint32_t>(x >> 32); }
  LOD_TAGGED static double unit(std::uint32_t x) noexcept { return static_cast<double>(x) / 4294967296.0; }

  std::uint64_t key_;
  std::uint64_t stream_;
};

}  // namespace lod::inline LOD_INTERFACE::detail

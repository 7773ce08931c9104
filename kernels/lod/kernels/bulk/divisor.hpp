// SPDX-License-Identifier: Apache-2.0
/// @file
/// Division by a number that the host knows before a kernel begins. A GPU has no instruction for that: a division takes
/// about twenty instructions, with 64 bits hundreds.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

#include <bit>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Divides numbers less than 2^31 by a number in [1, 2^31): multiplies and shifts the upper half of the product.
class Divisor {
 public:
  /// The multiplier is too great by less than the divisor, hence by at most 2^shift_. Times a number less than 2^31
  /// that is less than 2^(31 + shift_): too little to change the quotient.
  explicit Divisor(std::uint32_t divisor) noexcept
      : divisor_(divisor),
        shift_(static_cast<std::uint32_t>(std::bit_width(divisor - 1))),
        multiplier_(static_cast<std::uint32_t>(((std::uint64_t{1} << (31 + shift_)) + divisor - 1) / divisor)) {}

  LOD_HOST_DEVICE std::uint32_t number() const noexcept { return divisor_; }
  LOD_HOST_DEVICE std::uint32_t quotient(std::uint32_t number) const noexcept {
#ifdef __CUDA_ARCH__
    return __umulhi(2 * number, multiplier_) >> shift_;
#else
    return static_cast<std::uint32_t>(std::uint64_t{2} * number * multiplier_ >> 32) >> shift_;
#endif
  }
  /// The remainder for a number and its quotient.
  LOD_HOST_DEVICE std::uint32_t remainder(std::uint32_t number, std::uint32_t quotient) const noexcept {
    return number - quotient * divisor_;
  }

 private:
  std::uint32_t divisor_;
  std::uint32_t shift_;
  std::uint32_t multiplier_;
};

/// Divides numbers less than a limit that the host also knows: in few instructions if the limit is at most 2^31.
class LongDivisor {
 public:
  LongDivisor(std::int64_t divisor, std::int64_t end) noexcept
      : divisor_(divisor),
        is_short_(end <= std::int64_t{1} << 31 && divisor < std::int64_t{1} << 31),
        short_(is_short_ ? static_cast<std::uint32_t>(divisor) : 1) {}

  LOD_HOST_DEVICE std::int64_t quotient(std::int64_t number) const noexcept {
    return is_short_ ? short_.quotient(static_cast<std::uint32_t>(number)) : number / divisor_;
  }
  /// The remainder for a number and its quotient.
  LOD_HOST_DEVICE std::int64_t remainder(std::int64_t number, std::int64_t quotient) const noexcept {
    return number - quotient * divisor_;
  }

 private:
  std::int64_t divisor_;
  bool is_short_;
  Divisor short_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

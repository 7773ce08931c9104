// SPDX-License-Identifier: Apache-2.0
/// @file
/// Division by a number that the host knows before a kernel begins. A GPU has no instruction for it: about twenty take
/// its place, and hundreds where there are 64 bits.
#pragma once

#include <lod/float16.hpp>
#include <lod/target.hpp>

#include <bit>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel::bulk {

/// Divides numbers less than 2^31 by one of [1, 2^31): by a product whose upper half is shifted.
class Divisor {
 public:
  /// A number less than 2^31 times what the multiplier is too great by, less than the divisor and so at most
  /// 2^shift_, is less than 2^(31 + shift_): too little for another quotient.
  explicit Divisor(std::uint32_t divisor) noexcept
      : divisor_(divisor),
        shift_(static_cast<std::uint32_t>(std::bit_width(divisor - 1))),
        multiplier_(static_cast<std::uint32_t>(((std::uint64_t{1} << (31 + shift_)) + divisor - 1) / divisor)) {}

  LOD_HOST_DEVICE std::uint32_t number() const noexcept { return divisor_; }
  LOD_HOST_DEVICE std::uint32_t quotient(std::uint32_t number) const noexcept {
#ifdef __CUDA_ARCH__
    return __umulhi(2 * number, multiplier_) >> shift_;
#else
    return static_cast<std::uint32_t>(std::uint64_t{2 * number} * multiplier_ >> 32) >> shift_;
#endif
  }
  /// Of a number and its quotient.
  LOD_HOST_DEVICE std::uint32_t remainder(std::uint32_t number, std::uint32_t quotient) const noexcept {
    return number - quotient * divisor_;
  }

 private:
  std::uint32_t divisor_;
  std::uint32_t shift_;
  std::uint32_t multiplier_;
};

}  // namespace kernel::bulk
}  // namespace lod::inline LOD_TARGET

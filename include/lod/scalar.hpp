// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// A number of any type, for the options of operations.
#pragma once

#include <lod/float16.hpp>

#include <concepts>
#include <cstdint>

namespace lod {

/// An integer or a floating-point number, kept exactly until it is known which T it becomes: an option such as a
/// padding value need not be a template for the sake of 64-bit ids.
class Scalar {
 public:
  constexpr Scalar() = default;
  /// @{
  /// This number.
  LOD_HOST_DEVICE constexpr Scalar(std::integral auto number) noexcept
      : integer_(static_cast<std::int64_t>(number)), is_integer_(true) {}
  LOD_HOST_DEVICE constexpr Scalar(std::floating_point auto number) noexcept
      : real_(static_cast<double>(number)), is_integer_(false) {}
  /// @}

  /// The number as a T, rounded where T is coarser.
  template <class T>
  LOD_HOST_DEVICE constexpr T to() const noexcept {
    if constexpr (std::integral<T>) {
      return is_integer_ ? static_cast<T>(integer_) : static_cast<T>(real_);
    } else {
      return is_integer_ ? static_cast<T>(static_cast<double>(integer_)) : static_cast<T>(real_);
    }
  }

 private:
  std::int64_t integer_ = 0;
  double real_ = 0;
  bool is_integer_ = true;
};

}  // namespace lod

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// A number of any type, for the options of operations.
#pragma once

#include <lod/float16.hpp>

#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>

namespace lod {

namespace detail {

/// The ends of the range of an integral type: nvcc calls no function of the standard library on a GPU.
template <std::integral T>
inline constexpr T least_integer = std::numeric_limits<T>::min();
template <std::integral T>
inline constexpr T greatest_integer = std::numeric_limits<T>::max();

}  // namespace detail

/// An integer or a floating-point number, kept exactly until it is known which T it becomes: an option such as a
/// padding value need not be a template for the sake of 64-bit ids. (A `long double` is rounded to double.)
class Scalar {
 public:
  constexpr Scalar() = default;
  /// @{
  /// This number.
  template <std::integral I>
  LOD_HOST_DEVICE constexpr Scalar(I number) noexcept
      : integer_(static_cast<std::uint64_t>(number)), kind_(std::signed_integral<I> ? Kind::INTEGER : Kind::UNSIGNED) {}
  LOD_HOST_DEVICE constexpr Scalar(std::floating_point auto number) noexcept
      : real_(static_cast<double>(number)), kind_(Kind::REAL) {}
  template <detail::Half H>
  LOD_HOST_DEVICE constexpr Scalar(H number) noexcept : Scalar(static_cast<float>(number)) {}
  /// @}

  /// Whether it was an integer.
  LOD_HOST_DEVICE constexpr bool is_integer() const noexcept { return kind_ != Kind::REAL; }
  /// The number as a T: rounded once where T is a coarser floating-point type. As an integer it wraps around where T
  /// has fewer bits; a real number loses what is behind the point, and one beyond the range of T becomes the end of
  /// that range, NaN 0. As a bool it is whether it differs from 0.
  template <class T>
  LOD_HOST_DEVICE constexpr T to() const noexcept {
    if (kind_ == Kind::INTEGER) return static_cast<T>(static_cast<std::int64_t>(integer_));
    if (kind_ == Kind::UNSIGNED) return static_cast<T>(integer_);
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      constexpr T least = detail::least_integer<T>, greatest = detail::greatest_integer<T>;
      // As doubles they are exact, but for the greatest of 64 bits, which becomes the power of two behind it.
      if (real_ != real_) return 0;
      if (real_ <= static_cast<double>(least)) return least;
      if (real_ >= static_cast<double>(greatest)) return greatest;
    }
    return static_cast<T>(real_);
  }

 private:
  enum class Kind : std::uint8_t { INTEGER, UNSIGNED, REAL };
  std::uint64_t integer_ = 0;
  double real_ = 0;
  Kind kind_ = Kind::INTEGER;
};

/// For the texts of errors: an integer with all its digits, a real number with as few as give the same one back.
inline std::string to_string(Scalar number) {
  if (number.is_integer()) {
    // Only a signed one can be less than 0 as a double.
    return number.to<double>() < 0 ? std::to_string(number.to<std::int64_t>())
                                   : std::to_string(number.to<std::uint64_t>());
  }
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof(digits), number.to<double>()).ptr};
}

}  // namespace lod

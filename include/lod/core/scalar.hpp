// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// A number of any type, for the options of operations.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/float16.hpp>
#include <lod/core/floating_point_control.hpp>
#include <lod/core/target.hpp>

#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace lod::inline LOD_INTERFACE {

namespace detail {

/// The least value of an integral type: nvcc cannot call functions of the standard library on a GPU.
template <std::integral T>
inline constexpr T least_integer = std::numeric_limits<T>::min();
template <std::integral T>
inline constexpr T greatest_integer = std::numeric_limits<T>::max();

}  // namespace detail

/// An integer or a floating-point number, kept exactly until it is known which type T it becomes. So options such as a
/// padding value need not be templates to be exact for 64-bit ids. (A `long double` is rounded to double.)
class Scalar {
 public:
  LOD_TAGGED constexpr Scalar() = default;
  /// @{
  /// This number.
  template <std::integral I>
  LOD_TAGGED LOD_HOST_DEVICE constexpr Scalar(I number) noexcept
      : integer_(static_cast<std::uint64_t>(number)), kind_(std::signed_integral<I> ? Kind::INTEGER : Kind::UNSIGNED) {}
  LOD_TAGGED LOD_HOST_DEVICE constexpr Scalar(std::floating_point auto number) noexcept
      : real_(static_cast<double>(number)), kind_(Kind::REAL) {}
  template <detail::Half H>
  LOD_TAGGED LOD_HOST_DEVICE constexpr Scalar(H number) noexcept : Scalar(static_cast<float>(number)) {}
  /// @}

  /// Whether it was an integer.
  LOD_TAGGED LOD_HOST_DEVICE constexpr bool is_integer() const noexcept { return kind_ != Kind::REAL; }
  /// The number as a T: rounded once if T is a coarser floating-point type. An integer wraps around if T has fewer
  /// bits. A real number becomes an integer by truncation; beyond the range of T it is clamped, and NaN becomes 0. As a
  /// bool: whether it differs from 0.
  template <class T>
  LOD_TAGGED LOD_HOST_DEVICE constexpr T to() const noexcept {
    if (kind_ == Kind::INTEGER) return static_cast<T>(static_cast<std::int64_t>(integer_));
    if (kind_ == Kind::UNSIGNED) return static_cast<T>(integer_);
    if constexpr (std::integral<T> && !std::same_as<T, bool>) {
      constexpr T least = detail::least_integer<T>, greatest = detail::greatest_integer<T>;
      // These limits are exact as doubles, except the greatest of 64 bits, which becomes the next power of two.
      if (detail::is_nan(real_)) return 0;
      if (real_ <= static_cast<double>(least)) return least;
      if (real_ >= static_cast<double>(greatest)) return greatest;
    }
    return static_cast<T>(real_);
  }

  /// Whether a T can hold the number: an integral T holds the integers of its range, bool 0 and 1, a floating-point
  /// type everything but finite numbers that would become infinite; those within its range may be rounded.
  template <class T>
  LOD_TAGGED constexpr bool fits() const noexcept {
    if constexpr (std::same_as<T, bool>) {
      return is_integer() ? integer_ <= 1 : !detail::is_nan(real_) && (real_ == 0 || real_ == 1);
    } else if constexpr (std::integral<T>) {
      constexpr T least = std::numeric_limits<T>::min(), greatest = std::numeric_limits<T>::max();
      if (kind_ == Kind::UNSIGNED) return integer_ <= static_cast<std::uint64_t>(greatest);
      if (kind_ == Kind::INTEGER) {
        const auto number = static_cast<std::int64_t>(integer_);
        if (number < 0) return std::signed_integral<T> && number >= static_cast<std::int64_t>(least);
        return integer_ <= static_cast<std::uint64_t>(greatest);
      }
      // The greatest of 64 bits is not a double: it becomes the next power of two, which is not a T.
      constexpr double end = 2 * static_cast<double>(static_cast<T>(greatest / 2 + 1));
      if (detail::is_nan(real_) || real_ < static_cast<double>(least) || real_ >= end) return false;
      return static_cast<double>(static_cast<T>(real_)) == real_;
    } else {
      return !detail::is_infinite(static_cast<double>(to<T>())) || detail::is_infinite(to<double>());
    }
  }

 private:
  enum class Kind : std::uint8_t { INTEGER, UNSIGNED, REAL };
  std::uint64_t integer_ = 0;
  double real_ = 0;
  Kind kind_ = Kind::INTEGER;
};

/// For error texts: an integer with all its digits, a real number with the fewest digits that give the same one back.
LOD_TAGGED inline std::string to_string(Scalar number) {
  if (number.is_integer()) {
    // Only a signed one can be less than 0 as a double.
    return number.to<double>() < 0 ? std::to_string(number.to<std::int64_t>())
                                   : std::to_string(number.to<std::uint64_t>());
  }
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof(digits), number.to<double>()).ptr};
}

namespace detail {

/// For error texts: "int8 [-128, 127]".
template <class T>
LOD_TAGGED std::string name_with_range() {
  using Limits = std::numeric_limits<T>;
  const auto range = [](const std::string& name) {
    return text({name, " [", to_string(Scalar(Limits::lowest())), ", ", to_string(Scalar(Limits::max())), "]"});
  };
  if constexpr (std::same_as<T, bool>) {
    return range("bool");
  } else if constexpr (std::integral<T>) {
    return range(text({std::signed_integral<T> ? "int" : "uint", 8 * sizeof(T)}));
  } else if constexpr (Half<T>) {
    return range(std::is_same_v<T, float16> ? "float16" : "bfloat16");
  } else {
    return range(sizeof(T) == sizeof(float) ? "float" : "double");
  }
}

/// The value of an option as a T, for an operation on elements of type T. Throws OutOfRange if a T cannot hold it.
template <class T>
LOD_TAGGED T checked(Scalar option, const char* operation, const char* name) {
  const FloatingPointControl standard;
  if (option.fits<T>()) return option.to<T>();
  const auto number = option.to<double>();
  const bool between = std::integral<T> && !is_nan(number) &&
                       number >= static_cast<double>(std::numeric_limits<T>::min()) &&
                       number <= static_cast<double>(std::numeric_limits<T>::max());
  throw OutOfRange(text(
      {operation, ": ", name, " ", to_string(option), between ? " is none of " : " is beyond ", name_with_range<T>()}));
}

}  // namespace detail

}  // namespace lod::inline LOD_INTERFACE

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Floating-point numbers without overflow or underflow: formulas are recomputed in them if float or double had too
/// small a range for an intermediate step.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The greatest finite number of a type. GPUs cannot call the functions of std::numeric_limits.
template <class T>
inline constexpr double greatest_finite = std::same_as<T, double>          ? 0x1.fffffffffffffp1023
                                          : std::same_as<T, float>         ? 0x1.fffffep127
                                          : std::same_as<T, lod::bfloat16> ? 0x1.fep127
                                                                           : 65504;
/// The greatest float (double) that rounds to a finite T.
template <class T>
inline constexpr double greatest_rounded = std::same_as<T, lod::float16>    ? 0x1.ffdffep15
                                           : std::same_as<T, lod::bfloat16> ? 0x1.fefffep127
                                                                            : greatest_finite<T>;

/// Whether a number is neither infinite nor NaN.
template <std::floating_point A>
LOD_HOST_DEVICE constexpr bool is_finite(A number) noexcept {
  return number - number == 0;
}

/// A double in [0.5, 1), or 0, times a power of two that may be arbitrarily large or small. It has the significant bits
/// of a double, rounded once per operation. It can be used in formulas that expect a vector of one lane; and it can be
/// divided by 0: see `quotient`.
class Unbounded {
 public:
  using value_type = double;

  Unbounded() = default;
  LOD_HOST_DEVICE explicit Unbounded(double number) noexcept : Unbounded(number, 0) {}
  /// fraction * 2^exponent
  LOD_HOST_DEVICE Unbounded(double fraction, std::int64_t exponent) noexcept : fraction_(fraction) {
    if (fraction == 0 || !is_finite(fraction)) return;
    int more = 0;
    fraction_ = std::frexp(fraction, &more);
    exponent_ = exponent + more;
  }

  LOD_HOST_DEVICE double fraction() const noexcept { return fraction_; }
  LOD_HOST_DEVICE std::int64_t exponent() const noexcept { return exponent_; }
  /// The nearest double, which may be infinite or 0.
  LOD_HOST_DEVICE double to_double() const noexcept {
    constexpr std::int64_t most = 3000;
    const std::int64_t exponent = exponent_ < -most ? -most : exponent_ > most ? most : exponent_;
    return std::ldexp(fraction_, static_cast<int>(exponent));
  }
  /// The nearest finite T; NaN stays. Returned in the type in which numbers of type T are computed.
  template <class T, std::floating_point A>
  LOD_HOST_DEVICE A nearest_finite() const noexcept {
    const double number = to_double();
    constexpr double greatest = greatest_finite<T>;
    return static_cast<A>(number > greatest ? greatest : number < -greatest ? -greatest : number);
  }

  friend LOD_HOST_DEVICE Unbounded operator-(const Unbounded& a) noexcept { return {-a.fraction_, a.exponent_}; }
  friend LOD_HOST_DEVICE Unbounded operator+(const Unbounded& a, const Unbounded& b) noexcept {
    if (a.fraction_ == 0 || b.fraction_ == 0) return a.fraction_ == 0 && b.fraction_ != 0 ? b : a.plus_zero(b);
    const Unbounded& large = a.exponent_ < b.exponent_ ? b : a;
    const Unbounded& small = a.exponent_ < b.exponent_ ? a : b;
    const std::int64_t distance = large.exponent_ - small.exponent_;
    const double term = distance > 200 ? 0 * small.fraction_ : std::ldexp(small.fraction_, -static_cast<int>(distance));
    return {large.fraction_ + term, large.exponent_};
  }
  friend LOD_HOST_DEVICE Unbounded operator-(const Unbounded& a, const Unbounded& b) noexcept { return a + -b; }
  friend LOD_HOST_DEVICE Unbounded operator*(const Unbounded& a, const Unbounded& b) noexcept {
    return {a.fraction_ * b.fraction_, a.exponent_ + b.exponent_};
  }
  friend LOD_HOST_DEVICE Unbounded operator/(const Unbounded& a, const Unbounded& b) noexcept {
    return quotient(a, b, Unbounded(0));
  }
  /// a / b; `of_zero` if b is 0.
  friend LOD_HOST_DEVICE Unbounded quotient(const Unbounded& a, const Unbounded& b, const Unbounded& of_zero) noexcept {
    if (b.fraction_ == 0) return of_zero;
    return {a.fraction_ / b.fraction_, a.exponent_ - b.exponent_};
  }
  friend LOD_HOST_DEVICE bool operator<(const Unbounded& a, const Unbounded& b) noexcept {
    return (a - b).fraction_ < 0;
  }
  friend LOD_HOST_DEVICE bool operator>(const Unbounded& a, const Unbounded& b) noexcept { return b < a; }

  friend LOD_HOST_DEVICE Unbounded select(bool condition, const Unbounded& yes, const Unbounded& no) noexcept {
    return condition ? yes : no;
  }
  friend LOD_HOST_DEVICE Unbounded abs(const Unbounded& a) noexcept { return {std::fabs(a.fraction_), a.exponent_}; }
  /// 0 for a negative number, here and in `pow`.
  friend LOD_HOST_DEVICE Unbounded sqrt(const Unbounded& a) noexcept {
    if (a.fraction_ < 0) return Unbounded(0);
    const bool odd = a.exponent_ % 2 != 0;
    return {std::sqrt(odd ? 2 * a.fraction_ : a.fraction_), (a.exponent_ - (odd ? 1 : 0)) / 2};
  }
  /// Also 0 if a is 0, unless the power is 0.
  friend LOD_HOST_DEVICE Unbounded pow(const Unbounded& a, const Unbounded& b) noexcept {
    const double power = b.to_double();
    if (power == 0) return Unbounded(1);
    if (a.fraction_ <= 0) return Unbounded(0);
    // a^b = fraction^b * 2^(exponent * b), whose integral part goes into the exponent.
    const double exponent = static_cast<double>(a.exponent_) * power, whole = std::floor(exponent);
    constexpr double most = 0x1p40;
    if (!(std::fabs(exponent) < most)) return exponent > 0 ? Unbounded(0.5, std::int64_t{1} << 40) : Unbounded(0);
    return Unbounded(std::pow(a.fraction_, power)) *
           Unbounded(std::exp2(exponent - whole), static_cast<std::int64_t>(whole));
  }

 private:
  /// The sum of this number and a zero of either sign.
  LOD_HOST_DEVICE Unbounded plus_zero(const Unbounded& zero) const noexcept {
    Unbounded sum = *this;
    if (fraction_ == 0) sum.fraction_ = fraction_ + zero.fraction_;
    return sum;
  }

  double fraction_ = 0;
  std::int64_t exponent_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sums that do not overflow on the way: of 64-bit integers in 128 bits; of floating-point numbers again, where a plain
/// sum has become infinite or NaN. Pooling rounds or truncates them once, at the end.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/partition_point.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/kernels/unbounded.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/sequence_pool.hpp>

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// A sum of numbers of type A, added in order, in double; doubles are scaled by a power of two.
template <std::floating_point A>
class WideSum {
  static constexpr double scale = std::same_as<A, double> ? 0x1p-64 : 1;

 public:
  LOD_HOST_DEVICE void add(A number) noexcept { add_compensated(sum_, error_, static_cast<double>(number) * scale); }
  /// NaN stays, whatever is added.
  LOD_HOST_DEVICE bool is_nan() const noexcept { return sum_ != sum_; }

  /// The sum, or its quotient by n or by the square root of n. A mean of finite numbers is finite.
  LOD_HOST_DEVICE A pooled(PoolType type, std::int64_t n) const noexcept {
    if (!is_finite(sum_)) return static_cast<A>(sum_);
    const auto number = static_cast<double>(n);
    const double divisor = type == PoolType::AVERAGE ? number : type == PoolType::SQRT ? std::sqrt(number) : 1;
    // Corrected by the remainder of the division and the rounding errors of the sum.
    const double first = sum_ / divisor, rest = std::fma(-first, divisor, sum_) + error_;
    const double quotient = (first + rest / divisor) / scale;
    if (type != PoolType::AVERAGE) return static_cast<A>(quotient);
    constexpr double greatest = greatest_finite<A>;
    return static_cast<A>(quotient > greatest ? greatest : quotient < -greatest ? -greatest : quotient);
  }

 private:
  double sum_ = empty_sum<double>();
  double error_ = empty_sum<double>();
};

/// The sum of number(0) to number(count - 1), divided by n: added in order, and again as a WideSum if that fails.
LOD_ON_THE_CALLERS_SIDE
template <std::floating_point A, class F>
LOD_HOST_DEVICE A mean_in_order(const F& number, std::int64_t count, std::int64_t n) {
  A sum{};
  for (std::int64_t k = 0; k < count; ++k) sum += number(k);
  if (is_finite(sum)) return sum / static_cast<A>(n);
  WideSum<A> wide;
  for (std::int64_t k = 0; k < count; ++k) wide.add(number(k));
  return wide.pooled(PoolType::AVERAGE, n);
}

/// An integer of 128 bits, in two's complement.
class WideInteger {
 public:
  WideInteger() = default;
  LOD_HOST_DEVICE constexpr WideInteger(std::uint64_t low, std::int64_t high) noexcept : low_(low), high_(high) {}
  template <std::integral T>
  LOD_HOST_DEVICE explicit constexpr WideInteger(T number) noexcept
      : low_(static_cast<std::uint64_t>(number)), high_(std::signed_integral<T> && number < T{} ? -1 : 0) {}

  static LOD_HOST_DEVICE constexpr WideInteger empty_sum() noexcept { return {0, 0}; }
  friend LOD_HOST_DEVICE constexpr WideInteger operator+(const WideInteger& a, const WideInteger& b) noexcept {
    const std::uint64_t low = a.low_ + b.low_;
    const std::uint64_t high =
        static_cast<std::uint64_t>(a.high_) + static_cast<std::uint64_t>(b.high_) + (low < a.low_ ? 1 : 0);
    return {low, static_cast<std::int64_t>(high)};
  }
  friend LOD_HOST_DEVICE constexpr WideInteger operator-(const WideInteger& a) noexcept {
    return WideInteger(~a.low_, ~a.high_) + WideInteger(1, 0);
  }

  /// The sum of n integers, or its quotient by n or by the square root of n, truncated towards zero and clamped to T,
  /// except that a sum wraps around.
  template <std::integral T>
  LOD_HOST_DEVICE T pooled(PoolType type, std::int64_t n) const noexcept {
    if (type == PoolType::SUM) return static_cast<T>(low_);
    if constexpr (std::signed_integral<T>) {
      const auto number = static_cast<std::int64_t>(low_);
      if (type == PoolType::AVERAGE && high_ == number >> 63) return static_cast<T>(number / n);  // nearly always
    }
    const bool negative = high_ < 0;
    const WideInteger size = negative ? -*this : *this;
    const auto divisor = static_cast<std::uint64_t>(n);
    const std::uint64_t quotient = type == PoolType::AVERAGE ? size.divided_by(divisor) : size.divided_by_root(divisor);
    if constexpr (std::signed_integral<T>) {
      constexpr std::uint64_t most = std::uint64_t{detail::greatest_integer<T>} + 1;
      if (negative) return static_cast<T>(0 - (quotient < most ? quotient : most));
    } else {
      if (negative) return 0;
    }
    constexpr std::uint64_t most = detail::greatest_integer<T>;
    return static_cast<T>(quotient < most ? quotient : most);
  }

 private:
  /// The result for a quotient that exceeds 64 bits.
  static constexpr std::uint64_t beyond = ~std::uint64_t{0};

  // For numbers that are not negative.

  LOD_HOST_DEVICE std::uint64_t divided_by(std::uint64_t divisor) const noexcept {
    auto rest = static_cast<std::uint64_t>(high_);
    if (rest == 0) return low_ / divisor;
    if (rest >= divisor) return beyond;
    // Digit by digit: the remainder is less than the divisor, which has 63 bits.
    std::uint64_t quotient = 0;
    for (int bit = 63; bit >= 0; --bit) {
      rest = rest << 1 | (low_ >> bit & 1);
      const bool fits = rest >= divisor;
      rest -= fits ? divisor : 0;
      quotient = quotient << 1 | (fits ? 1 : 0);
    }
    return quotient;
  }
  /// The greatest q with q^2 * n <= the square of the number.
  LOD_HOST_DEVICE std::uint64_t divided_by_root(std::uint64_t n) const noexcept {
    // With so few bits, dividing by a square root in double never gives an integer above the quotient: an irrational
    // quotient is farther from any integer than the rounding errors reach.
    constexpr int bits = 24;
    if (high_ == 0 && low_ < std::uint64_t{1} << bits) {
      return static_cast<std::uint64_t>(static_cast<double>(low_) / std::sqrt(static_cast<double>(n)));
    }
    const double size = static_cast<double>(high_) * 0x1p64 + static_cast<double>(low_);
    const double quotient = size / std::sqrt(static_cast<double>(n));
    // Covers the rounding errors of three operations, and more.
    const double error = quotient * 0x1p-50;
    const double least = std::floor(quotient - error), most = std::floor(quotient + error);
    if (least >= 0x1p64) return beyond;
    if (least == most) return static_cast<std::uint64_t>(least);
    const Product square = Product(*this).times(*this);
    // The last candidate that is not too large.
    return partition_point(static_cast<std::uint64_t>(least),
                           most >= 0x1p64 ? beyond : static_cast<std::uint64_t>(most), [&](std::uint64_t candidate) {
                             const WideInteger next(candidate + 1, 0);
                             return !square.is_less_than(Product(next).times(next).times(WideInteger(n, 0)));
                           });
  }

  /// A number of 256 bits, lowest word first.
  struct Product {
    static constexpr int words = 8;
    std::uint32_t word[words] = {};

    LOD_HOST_DEVICE explicit Product(const WideInteger& number) noexcept {
      for (int k = 0; k < 4; ++k) word[k] = number.word(k);
    }
    LOD_HOST_DEVICE Product times(const WideInteger& factor) const noexcept {
      Product product(WideInteger(0, 0));
      for (int k = 0; k < 4; ++k) {
        std::uint64_t carry = 0;
        for (int i = 0; i + k < words; ++i) {
          carry += std::uint64_t{word[i]} * factor.word(k) + product.word[i + k];
          product.word[i + k] = static_cast<std::uint32_t>(carry);
          carry >>= 32;
        }
      }
      return product;
    }
    LOD_HOST_DEVICE bool is_less_than(const Product& other) const noexcept {
      for (int k = words - 1; k >= 0; --k) {
        if (word[k] != other.word[k]) return word[k] < other.word[k];
      }
      return false;
    }
  };
  LOD_HOST_DEVICE std::uint32_t word(int k) const noexcept {
    const std::uint64_t half = k < 2 ? low_ : static_cast<std::uint64_t>(high_);
    return static_cast<std::uint32_t>(half >> (k % 2 * 32));
  }

  std::uint64_t low_ = 0;
  std::int64_t high_ = 0;
};

/// Whether sums of numbers of type T need to be wide before the division: such sums would exceed 64 bits.
template <class T>
inline constexpr bool divides_wide_sums = std::integral<T> && sizeof(T) == sizeof(std::uint64_t);

/// The pooled result of `length` integers of type T from their sum; for gradients, the same with dy as `sum`.
template <std::integral T, std::integral Sum>
LOD_HOST_DEVICE T pooled_integer(PoolType type, std::int64_t length, Sum sum) noexcept {
  if (type == PoolType::SUM || length == 1) return static_cast<T>(sum);
  if constexpr (!divides_wide_sums<T> || std::signed_integral<Sum>) {
    if (type == PoolType::AVERAGE) return static_cast<T>(static_cast<std::int64_t>(sum) / length);
  }
  // A number as small as this, divided by a square root in double, never becomes an integer beyond the quotient: an
  // irrational quotient is farther from any integer than the rounding errors reach. No branch depends on the sign.
  constexpr std::uint64_t end = std::uint64_t{1} << 24, middle = std::signed_integral<Sum> ? end / 2 : 0;
  if (type == PoolType::SQRT && static_cast<std::uint64_t>(sum) + middle < end) {
    const double root = std::sqrt(static_cast<double>(length));
    const auto quotient = static_cast<std::int64_t>(static_cast<double>(static_cast<std::int64_t>(sum)) / root);
    if constexpr (sizeof(T) < sizeof(quotient)) {
      constexpr std::int64_t most = detail::greatest_integer<T>, least = std::signed_integral<T> ? -most - 1 : 0;
      return static_cast<T>(quotient < least ? least : quotient > most ? most : quotient);
    } else {
      return static_cast<T>(quotient);
    }
  }
  return WideInteger(sum).template pooled<T>(type, length);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

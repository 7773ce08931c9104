// SPDX-License-Identifier: Apache-2.0
// The 16-bit floating-point types, against their definition evaluated in double.
#include "support/random_lod.hpp"
#include <lod/float16.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>

using lod::bfloat16;
using lod::float16;
using lod_test::Engine;
using lod_test::first_seed;

namespace {

/// What the definition of a format says, with nothing of the library's: bits to values and values to bits.
template <class T>
struct Format;
template <>
struct Format<float16> {
  static constexpr int exponent_bits = 5, fraction_bits = 10;
};
template <>
struct Format<bfloat16> {
  static constexpr int exponent_bits = 8, fraction_bits = 7;
};

template <class T>
struct Definition : Format<T> {
  using Format<T>::exponent_bits;
  using Format<T>::fraction_bits;
  static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
  static constexpr std::uint16_t infinity = ((1 << exponent_bits) - 1) << fraction_bits;

  static bool is_nan(std::uint16_t bits) { return (bits & 0x7fff) > infinity; }

  static double value(std::uint16_t bits) {
    const int exponent = (bits & 0x7fff) >> fraction_bits;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    double magnitude;
    if ((bits & 0x7fff) == infinity) {
      magnitude = std::numeric_limits<double>::infinity();
    } else if (exponent == 0) {
      magnitude = std::ldexp(fraction, 1 - bias - fraction_bits);
    } else {
      magnitude = std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
    }
    return bits & 0x8000 ? -magnitude : magnitude;
  }

  /// The nearest value, of two the one with the even last bit.
  static double round(double value) {
    if (value == 0 || !std::isfinite(value)) return value;
    const int unit = std::max(std::ilogb(value), 1 - bias) - fraction_bits;
    const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
    const double beyond = std::ldexp(1, bias + 1);
    return std::abs(rounded) < beyond ? rounded : std::copysign(std::numeric_limits<double>::infinity(), value);
  }
};

/// The same value and sign, or both NaN.
bool same_number(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

/// Calls body(number) for every positive number of T but infinity, with its bits.
template <class T, class Body>
void for_each_finite(const Body& body) {
  for (std::uint16_t bits = 0; bits < Definition<T>::infinity; ++bits) {
    CAPTURE(bits);
    body(bits);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("16-bit floats: every bit pattern is its value, and comes back", T, float16, bfloat16) {
  int nans = 0;
  for (std::uint32_t pattern = 0; pattern <= 0xffff; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    CAPTURE(bits);
    const T x = T::from_bits(bits);
    REQUIRE(x.bits() == bits);
    const float value = x;
    const T back = value;
    if (Definition<T>::is_nan(bits)) {
      ++nans;
      REQUIRE(std::isnan(value));
      // The sign and the payload, made quiet.
      REQUIRE(back.bits() == (bits | 1 << (Definition<T>::fraction_bits - 1)));
      REQUIRE(!(x == x));
    } else {
      REQUIRE(same_number(value, Definition<T>::value(bits)));
      REQUIRE(back.bits() == bits);
      REQUIRE(T(static_cast<double>(value)).bits() == bits);
      REQUIRE(x == x);
    }
  }
  CHECK(nans == 2 * ((1 << Definition<T>::fraction_bits) - 1));
}

TEST_CASE_TEMPLATE("16-bit floats: between two neighbours, to the nearer, in the middle to the even one", T, float16,
                   bfloat16) {
  for_each_finite<T>([](std::uint16_t low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    // The middle between the greatest and where the next one would be rounds to infinity, which has an even last bit.
    const double below = Definition<T>::value(low);
    const double above =
        high < Definition<T>::infinity ? Definition<T>::value(high) : std::ldexp(1, Definition<T>::bias + 1);
    const double middle = (below + above) / 2;  // exact, in float too
    const auto even = low % 2 == 0 ? low : high;
    for (const double sign : {1.0, -1.0}) {
      const auto rounds_to = [&](double value, std::uint16_t expected) {
        const auto bits = static_cast<std::uint16_t>(expected | (sign < 0 ? 0x8000 : 0));
        REQUIRE(T(sign * value).bits() == bits);
        if (static_cast<float>(value) == value) REQUIRE(T(static_cast<float>(sign * value)).bits() == bits);
      };
      rounds_to(middle, even);
      rounds_to(std::nextafter(static_cast<float>(middle), 0.f), low);
      rounds_to(std::nextafter(static_cast<float>(middle), std::numeric_limits<float>::infinity()), high);
      // So near the middle that a float cannot tell: rounding by way of float would go wrong here.
      rounds_to(std::nextafter(middle, 0), low);
      rounds_to(std::nextafter(middle, std::numeric_limits<double>::infinity()), high);
    }
  });
}

TEST_CASE_TEMPLATE("16-bit floats: random numbers round as the definition says", T, float16, bfloat16) {
  INFO("LOD_TEST_SEED=", first_seed());
  Engine engine(first_seed());
  for (int i = 0; i < 50000; ++i) {
    const std::uint64_t bits = engine();
    const auto single = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    CAPTURE(bits);
    REQUIRE(same_number(T(single), Definition<T>::round(single)));
    // Of any exponent; and of those around the format's own.
    const auto wide = std::bit_cast<double>(bits);
    REQUIRE(same_number(T(wide), Definition<T>::round(wide)));
    const double near = std::ldexp(static_cast<double>(bits >> 11), static_cast<int>(bits % 64) - 53 - 32);
    REQUIRE(same_number(T(near), Definition<T>::round(near)));
    REQUIRE(same_number(T(-near), Definition<T>::round(-near)));
  }
  CHECK(std::isnan(T(std::numeric_limits<double>::quiet_NaN())));
  CHECK(T(std::numeric_limits<double>::infinity()) == std::numeric_limits<float>::infinity());
  CHECK(T(-1e300) == -std::numeric_limits<float>::infinity());
  CHECK(same_number(T(1e-300), 0.0));
  CHECK(same_number(T(-std::numeric_limits<double>::denorm_min()), -0.0));
}

TEST_CASE_TEMPLATE("16-bit floats: integers round once", T, float16, bfloat16) {
  constexpr int digits = std::numeric_limits<T>::digits;
  const auto check = [](std::uint64_t magnitude) {
    CAPTURE(magnitude);
    // In integers, since a double does not hold all of these.
    const int dropped = std::max(0, static_cast<int>(std::bit_width(magnitude)) - digits);
    std::uint64_t kept = magnitude >> dropped;
    const std::uint64_t rest = magnitude - (kept << dropped);
    const std::uint64_t half = dropped > 0 ? std::uint64_t{1} << (dropped - 1) : 1;
    if (rest > half || (dropped > 0 && rest == half && kept % 2 == 1)) ++kept;
    double expected = std::ldexp(static_cast<double>(kept), dropped);
    if (expected > static_cast<double>(std::numeric_limits<T>::max()))
      expected = std::numeric_limits<double>::infinity();
    REQUIRE(same_number(T(magnitude), expected));
    if (magnitude <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      const auto number = static_cast<std::int64_t>(magnitude);
      REQUIRE(same_number(T(number), expected));
      REQUIRE(T(-number) == -expected);
    }
    if (magnitude <= static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
      REQUIRE(same_number(T(static_cast<std::int32_t>(magnitude)), expected));
      REQUIRE(same_number(T(static_cast<std::uint32_t>(magnitude)), expected));
    }
  };
  for (std::uint64_t number = 0; number < 1 << 13; ++number) check(number);
  // A middle, and what is one beside it, which beyond 2^53 a double does not tell from it.
  for (int bit = digits; bit < 64; ++bit) {
    const std::uint64_t top = std::uint64_t{1} << bit;
    for (const std::uint64_t last : {std::uint64_t{0}, std::uint64_t{1} << (bit - digits + 1)}) {
      const std::uint64_t middle = top + last + (std::uint64_t{1} << (bit - digits));
      for (const std::uint64_t number : {top, middle - 1, middle, middle + 1}) check(number);
    }
  }
  Engine engine(first_seed());
  for (int i = 0; i < 30000; ++i) check(engine() >> engine() % 64);
  check(std::numeric_limits<std::uint64_t>::max());
  CHECK(same_number(T(std::numeric_limits<std::int64_t>::min()),
                    std::is_same_v<T, float16> ? -std::numeric_limits<double>::infinity() : -0x1p63));
  CHECK(T(true) == 1.f);
}

TEST_CASE_TEMPLATE("16-bit floats: sums, differences, products and quotients are correctly rounded", T, float16,
                   bfloat16) {
  INFO("LOD_TEST_SEED=", first_seed());
  Engine engine(first_seed());
  for (int i = 0; i < 50000; ++i) {
    const std::uint64_t bits = engine();
    CAPTURE(bits);
    const T a = T::from_bits(static_cast<std::uint16_t>(bits));
    // Anything; or of nearly the same exponent, where sums cancel and carry.
    const T b = T::from_bits(static_cast<std::uint16_t>(i % 2 == 0 ? bits >> 16 : bits ^ (bits >> 16 & 0x8fff)));
    const double x = a, y = b;
    // A double has more than twice the digits and two, so rounding its result once again changes nothing.
    REQUIRE(same_number(a + b, Definition<T>::round(x + y)));
    REQUIRE(same_number(a - b, Definition<T>::round(x - y)));
    REQUIRE(same_number(a * b, Definition<T>::round(x * y)));
    REQUIRE(same_number(a / b, Definition<T>::round(x / y)));
    T sum = a, difference = a, product = a, quotient = a;
    sum += b;
    difference -= b;
    product *= b;
    quotient /= b;
    REQUIRE(same_number(sum, a + b));
    REQUIRE(same_number(difference, a - b));
    REQUIRE(same_number(product, a * b));
    REQUIRE(same_number(quotient, a / b));
    REQUIRE((-a).bits() == (a.bits() ^ 0x8000));
    REQUIRE((+a).bits() == a.bits());
    REQUIRE((a < b) == (x < y));
    REQUIRE((a == b) == (x == y));
  }
}

TEST_CASE_TEMPLATE("16-bit floats: the types of mixed arithmetic", T, float16, bfloat16) {
  const T a = 3;
  CHECK(std::is_same_v<decltype(a + a), T>);
  CHECK(std::is_same_v<decltype(a * 2), T>);
  CHECK(std::is_same_v<decltype(std::int64_t{2} / a), T>);
  CHECK(std::is_same_v<decltype(a + 1.f), float>);
  CHECK(std::is_same_v<decltype(1.0 - a), double>);
  CHECK(a * 2 == 6.f);
  CHECK(std::uint8_t{1} / a == T(1 / 3.f));
  CHECK(1.0 - a == -2.0);
  CHECK(std::sqrt(a + 1) == 2.f);

  T sum = 1;
  sum += 1;
  sum *= 2.5f;
  sum -= 0.5;
  CHECK(sum == T(4.5f));
  // In the type of the right-hand side, rounded once: in T itself, the step would be lost.
  const float step = std::ldexp(1.f, -std::numeric_limits<T>::digits);
  T one = 1;
  one += step + step / 2;
  CHECK(one == 1 + std::numeric_limits<T>::epsilon());
}

TEST_CASE_TEMPLATE("16-bit floats: numeric_limits", T, float16, bfloat16) {
  using Limits = std::numeric_limits<T>;
  using Format = Definition<T>;
  const auto value = [](T number) { return static_cast<double>(number); };
  CHECK(Limits::is_specialized);
  CHECK(Limits::digits == Format::fraction_bits + 1);
  CHECK(Limits::digits10 == static_cast<int>((Limits::digits - 1) * std::log10(2)));
  CHECK(Limits::max_digits10 == static_cast<int>(std::ceil(1 + Limits::digits * std::log10(2))));
  CHECK(Limits::max_exponent == Format::bias + 1);
  CHECK(Limits::min_exponent == 2 - Format::bias);
  CHECK(Limits::max_exponent10 == static_cast<int>(std::log10(value(Limits::max()))));
  CHECK(Limits::min_exponent10 == static_cast<int>(std::log10(value(Limits::min()))));
  CHECK(value(Limits::min()) == std::ldexp(1, 1 - Format::bias));
  CHECK(value(Limits::max()) == Format::value(Format::infinity - 1));
  CHECK(value(Limits::lowest()) == -value(Limits::max()));
  CHECK(value(Limits::epsilon()) == std::ldexp(1, -Format::fraction_bits));
  CHECK(value(Limits::round_error()) == 0.5);
  CHECK(value(Limits::denorm_min()) == Format::value(1));
  CHECK(Limits::infinity().bits() == Format::infinity);
  CHECK(std::isnan(Limits::quiet_NaN()));
  CHECK(std::isnan(Limits::signaling_NaN()));
  CHECK((Limits::quiet_NaN().bits() >> (Format::fraction_bits - 1) & 1) == 1);
  CHECK((Limits::signaling_NaN().bits() >> (Format::fraction_bits - 1) & 1) == 0);
  CHECK(Limits::is_iec559 == std::is_same_v<T, float16>);
}

TEST_CASE_TEMPLATE("16-bit floats: equal values have equal hashes", T, float16, bfloat16) {
  const std::hash<T> hash;
  CHECK(hash(T(0)) == hash(-T(0)));
  CHECK(hash(T(1)) == hash(T(1.0)));
  CHECK(hash(T(1)) != hash(T(2)));
}

namespace {

/// A sample, for the compiler to convert: it has no processor to ask, so it takes the code in integers.
template <class T>
constexpr bool converts_in_constants() {
  for (std::uint32_t pattern = 0; pattern <= 0xffff; pattern += 97) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    if (Definition<T>::infinity < (bits & 0x7fff)) continue;  // NaN
    if (T(static_cast<float>(T::from_bits(bits))).bits() != bits) return false;
  }
  return true;
}
static_assert(converts_in_constants<float16>() && converts_in_constants<bfloat16>());

static_assert(float16(65519.f) == 65504.f && float16(65520.f).bits() == 0x7c00 && float16(-1e9f).bits() == 0xfc00);
static_assert(float16(0x1p-24f).bits() == 1 && float16(0x1p-25f).bits() == 0 && float16(0x1.8p-24f).bits() == 2);
static_assert(float16(0x1.002p0f).bits() == 0x3c00 && float16(0x1.006p0f).bits() == 0x3c02);
static_assert(float16(0x1.002p0 + 0x1p-50).bits() == 0x3c01);
static_assert(float16(__builtin_nanf("")).bits() == 0x7e00);
static_assert(bfloat16(0x1.01p0f).bits() == 0x3f80 && bfloat16(0x1.03p0f).bits() == 0x3f82);
static_assert(bfloat16(0x1.01p0 + 0x1p-50).bits() == 0x3f81);
static_assert(bfloat16(3.4e38f).bits() == 0x7f80 && bfloat16(0x1p-133f).bits() == 1);
static_assert(float16{}.bits() == 0 && bfloat16{}.bits() == 0);
static_assert(float16(2) + 1 == 3.f && -bfloat16(2) * 4 == -8.f);

}  // namespace

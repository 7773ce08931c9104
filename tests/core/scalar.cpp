// SPDX-License-Identifier: Apache-2.0
#include <lod/core/scalar.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

using lod::Scalar;

namespace {

template <class T>
constexpr T greatest = std::numeric_limits<T>::max();
template <class T>
constexpr T least = std::numeric_limits<T>::lowest();

}  // namespace

TEST_CASE("Scalar: integers are kept exactly, with and without a sign") {
  CHECK(Scalar(greatest<std::uint64_t>).to<std::uint64_t>() == greatest<std::uint64_t>);
  CHECK(Scalar(greatest<std::uint64_t>).to<double>() == 0x1p64);
  CHECK(Scalar(greatest<std::uint64_t>).to<float>() == 0x1p64f);
  CHECK(Scalar(least<std::int64_t>).to<std::int64_t>() == least<std::int64_t>);
  CHECK(Scalar(-3).to<double>() == -3);
  CHECK(Scalar(true).to<float>() == 1);
  CHECK(Scalar(2).to<bool>());
}

TEST_CASE("Scalar: what T cannot hold is rounded once") {
  constexpr std::int64_t number = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
  CHECK(Scalar(number).to<float>() == 0x1.000002p+60f);
  CHECK(Scalar(2049).to<lod::float16>() == lod::float16(2048));
  CHECK(Scalar(0.1).to<lod::bfloat16>() == lod::bfloat16(0.1));
}

TEST_CASE("Scalar: integers wrap around in a narrower integer") {
  CHECK(Scalar(-1).to<std::uint8_t>() == 255);
  CHECK(Scalar(300).to<std::int8_t>() == 44);
}

TEST_CASE("Scalar: real numbers beyond an integer's range become the end of that range, NaN 0") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK(Scalar(-1e9).to<std::int8_t>() == -128);
  CHECK(Scalar(1e9).to<std::int8_t>() == 127);
  CHECK(Scalar(-1.0).to<std::uint8_t>() == 0);
  CHECK(Scalar(-infinity).to<std::int32_t>() == least<std::int32_t>);
  CHECK(Scalar(infinity).to<std::int64_t>() == greatest<std::int64_t>);
  CHECK(Scalar(0x1p63).to<std::int64_t>() == greatest<std::int64_t>);
  CHECK(Scalar(0x1p64).to<std::uint64_t>() == greatest<std::uint64_t>);
  CHECK(Scalar(std::numeric_limits<double>::quiet_NaN()).to<std::int32_t>() == 0);
  CHECK(Scalar(-2.9).to<std::int32_t>() == -2);
  CHECK(Scalar(0.5).to<bool>());
  CHECK_FALSE(Scalar(0.0).to<bool>());
}

TEST_CASE("Scalar: 16-bit numbers") {
  CHECK(Scalar(lod::float16(-1.5f)).to<float>() == -1.5f);
  CHECK(Scalar(lod::bfloat16(3)).to<std::int64_t>() == 3);
}

TEST_CASE("Scalar: to_string has all digits of an integer, and of a real number as many as it needs") {
  CHECK(to_string(Scalar(greatest<std::uint64_t>)) == "18446744073709551615");
  CHECK(to_string(Scalar(least<std::int64_t>)) == "-9223372036854775808");
  CHECK(to_string(Scalar(0.1)) == "0.1");
  CHECK(to_string(Scalar(-1e300)) == "-1e+300");
  CHECK(to_string(Scalar(lod::float16(0.5))) == "0.5");
  CHECK(to_string(Scalar(-std::numeric_limits<double>::infinity())) == "-inf");
}

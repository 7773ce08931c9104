// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// The two 16-bit floating-point types that C++20 lacks.
///
/// Everything includes this header, so it avoids `<string>` and `<functional>`; `<typeindex>` is here because it is the
/// cheapest standard header that declares std::hash. The types also work in CUDA kernels: hence LOD_HOST_DEVICE, and
/// the compiler's builtin in place of std::bit_cast, which only the host can call.
#pragma once

#include <lod/core/target.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <typeindex>

/// Marks functions that kernels also call: empty unless nvcc compiles.
#ifndef LOD_HOST_DEVICE
#  ifdef __CUDACC__
#    define LOD_HOST_DEVICE __host__ __device__
#  else
#    define LOD_HOST_DEVICE
#  endif
#endif
/// Before templates of such functions that call functions of one side only: CPU vectors, users' functions.
#ifndef LOD_ON_THE_CALLERS_SIDE
#  ifdef __CUDACC__
#    define LOD_ON_THE_CALLERS_SIDE _Pragma("nv_exec_check_disable")
#  else
#    define LOD_ON_THE_CALLERS_SIDE
#  endif
#endif
/// For functions that kernels rarely call: out of line, so that they take no registers of the kernels.
#ifndef LOD_NOINLINE
#  ifdef __CUDACC__
#    define LOD_NOINLINE __noinline__
#  else
#    define LOD_NOINLINE [[gnu::noinline]]
#  endif
#endif

namespace lod::inline LOD_INTERFACE {

namespace detail {

LOD_TAGGED LOD_HOST_DEVICE constexpr std::uint32_t bits_of(float value) noexcept {
  return __builtin_bit_cast(std::uint32_t, value);
}
LOD_TAGGED LOD_HOST_DEVICE constexpr float float_of(std::uint32_t bits) noexcept {
  return __builtin_bit_cast(float, bits);
}

/// Whether a number is NaN, or infinite: by its bits, since files that are compiled with -ffast-math share this code.
LOD_TAGGED LOD_HOST_DEVICE constexpr bool is_nan(float value) noexcept {
  return (bits_of(value) & 0x7fffffffu) > 0x7f800000u;
}
LOD_TAGGED LOD_HOST_DEVICE constexpr bool is_nan(double value) noexcept {
  return (__builtin_bit_cast(std::uint64_t, value) & ~(std::uint64_t{1} << 63)) > std::uint64_t{0x7ff} << 52;
}
LOD_TAGGED LOD_HOST_DEVICE constexpr bool is_infinite(float value) noexcept {
  return (bits_of(value) & 0x7fffffffu) == 0x7f800000u;
}
LOD_TAGGED LOD_HOST_DEVICE constexpr bool is_infinite(double value) noexcept {
  return (__builtin_bit_cast(std::uint64_t, value) & ~(std::uint64_t{1} << 63)) == std::uint64_t{0x7ff} << 52;
}

/// A double rounded to odd: if it lies between two floats, the one whose last bit is odd. Rounding that float to
/// nearest, to any format with at least two bits fewer, gives the same as rounding the double directly. Computed in
/// integers, so that neither the rounding mode nor a compiler that assumes no NaNs matters.
LOD_TAGGED LOD_HOST_DEVICE constexpr float round_to_odd(double value) noexcept {
  const auto bits = __builtin_bit_cast(std::uint64_t, value);
  const auto sign = static_cast<std::uint32_t>(bits >> 32) & 0x80000000u;
  const std::uint64_t magnitude = bits & ~(std::uint64_t{1} << 63);
  const auto exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent > 127) {  // NaN stays NaN, quiet; a finite number beyond all floats becomes the one before infinity
    const auto rest = static_cast<std::uint32_t>(magnitude >> 29) & 0x7fffffu;
    if (exponent < 1024) return float_of(sign | 0x7f7fffffu);
    return float_of(sign | 0x7f800000u | (is_nan(value) ? 0x400000u | rest : 0));
  }
  std::uint64_t significand = magnitude - (std::uint64_t{1023 - 127} << 52);
  int dropped = 29;
  if (exponent < -126) {  // subnormal as a float, or less than the least of those
    significand = (magnitude & ((std::uint64_t{1} << 52) - 1)) | std::uint64_t{1} << 52;
    dropped = exponent < -152 ? 54 : 29 - 126 - exponent;
    if (magnitude == 0) significand = 0;
  }
  const std::uint64_t kept = significand >> dropped;
  return float_of(sign | static_cast<std::uint32_t>(kept) | (kept << dropped != significand ? 1u : 0u));
}

template <class T>
concept Integer = std::is_integral_v<T>;

/// The same for an integer. Bits beyond the 53 of a double go into its last bit first.
template <Integer I>
LOD_TAGGED LOD_HOST_DEVICE constexpr float round_to_odd(I value) noexcept {
  if constexpr (sizeof(I) == 8) {
    constexpr I doubles_are_exact = I{1} << 53;
    if (value > doubles_are_exact || (std::is_signed_v<I> && value < I{0} - doubles_are_exact)) {
      const I high = value & ~I{0x7ff};
      return round_to_odd(static_cast<double>(value == high ? high : high | I{0x800}));
    }
  }
  return round_to_odd(static_cast<double>(value));
}

#if defined(__F16C__) && !defined(__CUDACC__)  // nvcc does not know this initialisation of vectors
#  define LOD_DETAIL_F16C
using Floats4 = float __attribute__((vector_size(16)));
using Shorts8 = short __attribute__((vector_size(16)));
#endif

// GPUs also have a conversion instruction, to nearest, ties to even. It turns every NaN into the same one.
#ifdef __CUDA_ARCH__
inline __device__ std::uint16_t float_to_binary16_on_gpu(float value) noexcept {
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
inline __device__ float binary16_to_float_on_gpu(std::uint16_t bits) noexcept {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}
#  if __CUDA_ARCH__ >= 800
#    define LOD_DETAIL_GPU_BFLOAT16
inline __device__ std::uint16_t float_to_bfloat16_on_gpu(float value) noexcept {
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}
#  endif
#endif

LOD_TAGGED LOD_HOST_DEVICE constexpr std::uint16_t float_to_binary16(float value) noexcept {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) return float_to_binary16_on_gpu(value);
#endif
#ifdef LOD_DETAIL_F16C
  if (!std::is_constant_evaluated()) {
    return static_cast<std::uint16_t>(
        Shorts8(__builtin_ia32_vcvtps2ph(Floats4{value, 0, 0, 0}, 0 /* to nearest, ties to even */))[0]);
  }
#endif
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN stays NaN: the quiet bit, and what fits of the rest
    magnitude = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x47800000u) {  // 2^16 and beyond
    magnitude = 0x7c00u;
  } else if (magnitude >= 0x38800000u) {  // normal: move the exponent; a carry out of the rounding may reach infinity
    magnitude = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  } else if (magnitude < 0x33000000u) {  // less than half of the least
    magnitude = 0;
  } else {  // subnormal: a count of 2^-24
    const std::uint32_t significand = (magnitude & 0x7fffffu) | 0x800000u, dropped = 126 - (magnitude >> 23);
    magnitude = (significand + (1u << (dropped - 1)) - 1 + ((significand >> dropped) & 1u)) >> dropped;
  }
  return static_cast<std::uint16_t>(sign | magnitude);
}

LOD_TAGGED LOD_HOST_DEVICE constexpr float binary16_to_float(std::uint16_t bits) noexcept {
#ifdef __CUDA_ARCH__
  if (!__builtin_is_constant_evaluated()) return binary16_to_float_on_gpu(bits);
#endif
#ifdef LOD_DETAIL_F16C
  if (!std::is_constant_evaluated()) {
#  if __has_builtin(__builtin_ia32_vcvtph2ps)
    return Floats4(__builtin_ia32_vcvtph2ps(Shorts8{static_cast<short>(bits)}))[0];
#  else  // clang 22 no longer has such a name, and knows the type, which clang 14 does not
    return static_cast<float>(__builtin_bit_cast(_Float16, bits));
#  endif
  }
#endif
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude > 0x7c00u) {  // NaN: quiet, as in the processors' conversion
    magnitude = 0x7fc00000u | (magnitude << 13);
  } else if (magnitude == 0x7c00u) {
    magnitude = 0x7f800000u;
  } else if (magnitude >= 0x0400u) {
    magnitude = (magnitude << 13) + 0x38000000u;
  } else {  // subnormal: a count of 2^-24, exact in float
    magnitude = bits_of(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  }
  return float_of(sign | magnitude);
}

#undef LOD_DETAIL_F16C

LOD_TAGGED LOD_HOST_DEVICE constexpr std::uint16_t float_to_bfloat16(float value) noexcept {
#ifdef LOD_DETAIL_GPU_BFLOAT16
  if (!__builtin_is_constant_evaluated()) return float_to_bfloat16_on_gpu(value);
#endif
  const std::uint32_t bits = bits_of(value);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return static_cast<std::uint16_t>((is_nan ? bits | 0x400000u : bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

#undef LOD_DETAIL_GPU_BFLOAT16

LOD_TAGGED LOD_HOST_DEVICE constexpr float bfloat16_to_float(std::uint16_t bits) noexcept {
  return float_of(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace detail

/// IEEE 754 binary16: 11 significant bits, up to 65504. Two bytes, trivial: a default-initialised one is indeterminate,
/// as a float is; float16{} is 0.
///
/// Converts to float implicitly and exactly; from float, double and integers implicitly, rounding once, to nearest,
/// ties to even, with subnormals, infinities and NaN. Arithmetic follows std::float16_t of C++23: with its own type or
/// with an integer the result is a float16, each operation correctly rounded; with a float or a double it has that
/// type. Comparisons and the functions of `<cmath>` work through the conversion to float. As both conversions are
/// implicit, the two arms of ?: must have the same type.
class float16 {
 public:
  LOD_TAGGED float16() = default;
  /// @{
  /// The nearest float16; ties to even.
  LOD_TAGGED LOD_HOST_DEVICE constexpr float16(float value) noexcept : bits_(detail::float_to_binary16(value)) {}
  LOD_TAGGED LOD_HOST_DEVICE constexpr float16(double value) noexcept : float16(detail::round_to_odd(value)) {}
  template <detail::Integer I>
  LOD_TAGGED LOD_HOST_DEVICE constexpr float16(I value) noexcept : float16(detail::round_to_odd(value)) {}
  /// @}
  /// The same number.
  LOD_TAGGED LOD_HOST_DEVICE constexpr operator float() const noexcept { return detail::binary16_to_float(bits_); }

  /// The float16 whose representation is `bits`: sign, 5 bits of exponent, 10 of fraction.
  LOD_TAGGED LOD_HOST_DEVICE static constexpr float16 from_bits(std::uint16_t bits) noexcept {
    float16 result{};
    result.bits_ = bits;
    return result;
  }
  /// The representation.
  LOD_TAGGED LOD_HOST_DEVICE constexpr std::uint16_t bits() const noexcept { return bits_; }

 private:
  std::uint16_t bits_;
};

/// bfloat16: the upper half of a float. 8 significant bits, the range of a float. Otherwise as float16.
class bfloat16 {
 public:
  LOD_TAGGED bfloat16() = default;
  /// @{
  /// The nearest bfloat16; ties to even.
  LOD_TAGGED LOD_HOST_DEVICE constexpr bfloat16(float value) noexcept : bits_(detail::float_to_bfloat16(value)) {}
  LOD_TAGGED LOD_HOST_DEVICE constexpr bfloat16(double value) noexcept : bfloat16(detail::round_to_odd(value)) {}
  template <detail::Integer I>
  LOD_TAGGED LOD_HOST_DEVICE constexpr bfloat16(I value) noexcept : bfloat16(detail::round_to_odd(value)) {}
  /// @}
  /// The same number.
  LOD_TAGGED LOD_HOST_DEVICE constexpr operator float() const noexcept { return detail::bfloat16_to_float(bits_); }

  /// The bfloat16 whose representation is `bits`: sign, 8 bits of exponent, 7 of fraction.
  LOD_TAGGED LOD_HOST_DEVICE static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
    bfloat16 result{};
    result.bits_ = bits;
    return result;
  }
  /// The representation.
  LOD_TAGGED LOD_HOST_DEVICE constexpr std::uint16_t bits() const noexcept { return bits_; }

 private:
  std::uint16_t bits_;
};

static_assert(sizeof(float16) == 2 && std::is_trivial_v<float16> && std::is_standard_layout_v<float16>);
static_assert(sizeof(bfloat16) == 2 && std::is_trivial_v<bfloat16> && std::is_standard_layout_v<bfloat16>);

namespace detail {

template <class T>
concept Half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// The 16-bit type of an operation's result: for two operands of that type, or one and an integer. Every other mixture
/// goes through the conversion to float and the built-in operators.
template <class A, class B>
  requires((Half<A> && (std::is_same_v<A, B> || Integer<B>)) || (Integer<A> && Half<B>))
using HalfResult = std::conditional_t<Half<A>, A, B>;

}  // namespace detail

// A float has twice the significant bits of a 16-bit type plus two more, so rounding its sum, difference, product or
// quotient once again gives the correctly rounded result.
/// a + b, correctly rounded. Here and below either operand may be an integer, which is rounded first.
template <class A, class B>
LOD_TAGGED LOD_HOST_DEVICE constexpr detail::HalfResult<A, B> operator+(A a, B b) noexcept {
  using Result = detail::HalfResult<A, B>;
  return Result(static_cast<float>(Result(a)) + static_cast<float>(Result(b)));
}
/// a - b, correctly rounded.
template <class A, class B>
LOD_TAGGED LOD_HOST_DEVICE constexpr detail::HalfResult<A, B> operator-(A a, B b) noexcept {
  using Result = detail::HalfResult<A, B>;
  return Result(static_cast<float>(Result(a)) - static_cast<float>(Result(b)));
}
/// a * b, correctly rounded.
template <class A, class B>
LOD_TAGGED LOD_HOST_DEVICE constexpr detail::HalfResult<A, B> operator*(A a, B b) noexcept {
  using Result = detail::HalfResult<A, B>;
  return Result(static_cast<float>(Result(a)) * static_cast<float>(Result(b)));
}
/// a / b, correctly rounded.
template <class A, class B>
LOD_TAGGED LOD_HOST_DEVICE constexpr detail::HalfResult<A, B> operator/(A a, B b) noexcept {
  using Result = detail::HalfResult<A, B>;
  return Result(static_cast<float>(Result(a)) / static_cast<float>(Result(b)));
}

/// a.
template <detail::Half T>
LOD_TAGGED LOD_HOST_DEVICE constexpr T operator+(T a) noexcept {
  return a;
}
/// Flips the sign, also of a NaN.
template <detail::Half T>
LOD_TAGGED LOD_HOST_DEVICE constexpr T operator-(T a) noexcept {
  return T::from_bits(static_cast<std::uint16_t>(a.bits() ^ 0x8000u));
}

/// @{
/// b may be anything for which a op b is defined: computed in the type of a op b, then rounded once.
template <detail::Half T, class B>
LOD_TAGGED LOD_HOST_DEVICE constexpr T& operator+=(T& a, B b) noexcept {
  return a = T(a + b);
}
template <detail::Half T, class B>
LOD_TAGGED LOD_HOST_DEVICE constexpr T& operator-=(T& a, B b) noexcept {
  return a = T(a - b);
}
template <detail::Half T, class B>
LOD_TAGGED LOD_HOST_DEVICE constexpr T& operator*=(T& a, B b) noexcept {
  return a = T(a * b);
}
template <detail::Half T, class B>
LOD_TAGGED LOD_HOST_DEVICE constexpr T& operator/=(T& a, B b) noexcept {
  return a = T(a / b);
}
/// @}

}  // namespace lod::inline LOD_INTERFACE

/// What `<limits>` says of a floating-point type.
template <>
class std::numeric_limits<lod::float16> {
 public:
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = true;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool is_iec559 = true;
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr bool has_infinity = true;
  static constexpr bool has_quiet_NaN = true;
  static constexpr bool has_signaling_NaN = true;
  static constexpr std::float_denorm_style has_denorm = std::denorm_present;
  static constexpr bool has_denorm_loss = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr bool traps = false;
  static constexpr bool tinyness_before = false;
  static constexpr int radix = 2;
  static constexpr int digits = 11;
  static constexpr int digits10 = 3;
  static constexpr int max_digits10 = 5;
  static constexpr int min_exponent = -13;
  static constexpr int min_exponent10 = -4;
  static constexpr int max_exponent = 16;
  static constexpr int max_exponent10 = 4;
  LOD_HOST_DEVICE static constexpr lod::float16 min() noexcept { return lod::float16::from_bits(0x0400); }
  LOD_HOST_DEVICE static constexpr lod::float16 lowest() noexcept { return lod::float16::from_bits(0xfbff); }
  LOD_HOST_DEVICE static constexpr lod::float16 max() noexcept { return lod::float16::from_bits(0x7bff); }
  LOD_HOST_DEVICE static constexpr lod::float16 epsilon() noexcept { return lod::float16::from_bits(0x1400); }
  LOD_HOST_DEVICE static constexpr lod::float16 round_error() noexcept { return lod::float16::from_bits(0x3800); }
  LOD_HOST_DEVICE static constexpr lod::float16 infinity() noexcept { return lod::float16::from_bits(0x7c00); }
  LOD_HOST_DEVICE static constexpr lod::float16 quiet_NaN() noexcept { return lod::float16::from_bits(0x7e00); }
  LOD_HOST_DEVICE static constexpr lod::float16 signaling_NaN() noexcept { return lod::float16::from_bits(0x7d00); }
  LOD_HOST_DEVICE static constexpr lod::float16 denorm_min() noexcept { return lod::float16::from_bits(0x0001); }
};

/// As above. Not an interchange format of IEEE 754, hence is_iec559 is false, though it follows its rules.
template <>
class std::numeric_limits<lod::bfloat16> : public std::numeric_limits<lod::float16> {
 public:
  static constexpr bool is_iec559 = false;
  static constexpr int digits = 8;
  static constexpr int digits10 = 2;
  static constexpr int max_digits10 = 4;
  static constexpr int min_exponent = -125;
  static constexpr int min_exponent10 = -37;
  static constexpr int max_exponent = 128;
  static constexpr int max_exponent10 = 38;
  LOD_HOST_DEVICE static constexpr lod::bfloat16 min() noexcept { return lod::bfloat16::from_bits(0x0080); }
  LOD_HOST_DEVICE static constexpr lod::bfloat16 lowest() noexcept { return lod::bfloat16::from_bits(0xff7f); }
  LOD_HOST_DEVICE static constexpr lod::bfloat16 max() noexcept { return lod::bfloat16::from_bits(0x7f7f); }
  LOD_HOST_DEVICE static constexpr lod::bfloat16 epsilon() noexcept { return lod::bfloat16::from_bits(0x3c00); }
  LOD_HOST_DEVICE static constexpr lod::bfloat16 round_error() noexcept { return lod::bfloat16::from_bits(0x3f00); }
  LOD_HOST_DEVICE static constexpr lod::bfloat16 infinity() noexcept { return lod::bfloat16::from_bits(0x7f80); }
  LOD_HOST_DEVICE static constexpr lod::bfloat16 quiet_NaN() noexcept { return lod::bfloat16::from_bits(0x7fc0); }
  LOD_HOST_DEVICE static constexpr lod::bfloat16 signaling_NaN() noexcept { return lod::bfloat16::from_bits(0x7fa0); }
  LOD_HOST_DEVICE static constexpr lod::bfloat16 denorm_min() noexcept { return lod::bfloat16::from_bits(0x0001); }
};

/// Equal values have equal hashes, including 0 and -0.
template <>
struct std::hash<lod::float16> {
  std::size_t operator()(lod::float16 value) const noexcept { return value.bits() == 0x8000 ? 0 : value.bits(); }
};
template <>
struct std::hash<lod::bfloat16> {
  std::size_t operator()(lod::bfloat16 value) const noexcept { return value.bits() == 0x8000 ? 0 : value.bits(); }
};

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whole vectors of 16-bit floating-point numbers: to floats and back, bit for bit as the scalar conversions of
/// float16.hpp.
///
/// Where the processor has instructions for float16, they are used; otherwise, and always for bfloat16, this is integer
/// arithmetic on the compiler's own vectors, for whatever instruction set it is compiled for.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/cpu/intrinsics.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#  define LOD_HALVES_BY_MASKS
#endif

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// As many numbers at a time as the machine's vectors hold floats. All functions are always inlined: a call would cost
/// more than they do.
struct HalfVector {
#if defined(__AVX512F__)
  static constexpr std::size_t lanes = 16;
#elif defined(__AVX__)
  static constexpr std::size_t lanes = 8;
#else
  static constexpr std::size_t lanes = 4;
#endif
  // g++ 12 miscompiles vectors whose size depends on a template parameter.
  typedef std::uint16_t Halves __attribute__((vector_size(2 * lanes)));
  typedef std::uint32_t Bits __attribute__((vector_size(4 * lanes)));
  typedef std::int32_t Numbers __attribute__((vector_size(4 * lanes)));
  typedef float Floats __attribute__((vector_size(4 * lanes)));

  /// `lanes` numbers.
  template <detail::Half T>
  [[gnu::always_inline]] static inline Floats load(const T* x) noexcept {
    Halves halves;
    std::memcpy(&halves, x, sizeof halves);
    return floats(halves, x);
  }
  /// The first `count` of them, 0 to `lanes`, followed by zeros.
  template <detail::Half T>
  [[gnu::always_inline]] static inline Floats load(const T* x, std::int64_t count) noexcept {
#ifdef LOD_HALVES_BY_MASKS
    return floats(__builtin_bit_cast(Halves, _mm256_maskz_loadu_epi16(first(count), x)), x);
#else
    T some[lanes]{};
    for (std::int64_t i = 0; i < count; ++i) some[i] = x[i];
    return load(some);
#endif
  }
  template <detail::Half T>
  [[gnu::always_inline]] static inline void store(T* y, const Floats& numbers) noexcept {
    const Halves rounded = halves(numbers, y);
    std::memcpy(static_cast<void*>(y), &rounded, sizeof rounded);
  }
  /// The first `count` of them only.
  template <detail::Half T>
  [[gnu::always_inline]] static inline void store(T* y, const Floats& numbers, std::int64_t count) noexcept {
#ifdef LOD_HALVES_BY_MASKS
    _mm256_mask_storeu_epi16(y, first(count), __builtin_bit_cast(__m256i, halves(numbers, y)));
#else
    T some[lanes];
    store(some, numbers);
    for (std::int64_t i = 0; i < count; ++i) y[i] = some[i];
#endif
  }

 private:
  // The type of the pointer says which type the halves are.

  [[gnu::always_inline]] static inline Floats floats(const Halves& halves, const bfloat16*) noexcept {
    return floats_of(__builtin_convertvector(halves, Bits) << 16);
  }

  [[gnu::always_inline]] static inline Halves halves(const Floats& floats, const bfloat16*) noexcept {
    const Bits bits = bits_of(floats);
    const Bits is_nan = above(bits & 0x7fffffffu, 0x7f800000u);
    const Bits rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    return __builtin_convertvector(select(is_nan, bits | 0x400000u, rounded) >> 16, Halves);
  }

  [[gnu::always_inline]] static inline Floats floats(const Halves& halves, const float16*) noexcept {
#ifdef __F16C__
#  ifdef __AVX512F__
    return __builtin_bit_cast(Floats, _mm512_cvtph_ps(__builtin_bit_cast(__m256i, halves)));
#  else
    return __builtin_bit_cast(Floats, _mm256_cvtph_ps(__builtin_bit_cast(__m128i, halves)));
#  endif
#else
    const Bits bits = __builtin_convertvector(halves, Bits);
    const Bits sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu, moved = magnitude << 13;
    const Bits subnormal = bits_of(__builtin_convertvector(__builtin_bit_cast(Numbers, magnitude), Floats) * 0x1p-24f);
    const Bits infinite = 0x7f800000u | moved | (above(magnitude, 0x7c00u) & 0x400000u);
    const Bits finite = select(above(magnitude, 0x3ffu), moved + 0x38000000u, subnormal);
    return floats_of(sign | select(above(magnitude, 0x7bffu), infinite, finite));
#endif
  }

  [[gnu::always_inline]] static inline Halves halves(const Floats& floats, const float16*) noexcept {
#ifdef __F16C__
    constexpr int nearest_even = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#  ifdef __AVX512F__
    constexpr __mmask16 all = 0xffff;  // without it, g++ 12 warns of a conversion inside its own macro
    return __builtin_bit_cast(Halves, _mm512_maskz_cvtps_ph(all, __builtin_bit_cast(__m512, floats), nearest_even));
#  else
    return __builtin_bit_cast(Halves, _mm256_cvtps_ph(__builtin_bit_cast(__m256, floats), nearest_even));
#  endif
#else
    const Bits bits = bits_of(floats);
    const Bits sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    const Bits nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    const Bits infinite = select(above(magnitude, 0x7f800000u), nan, Bits{} + 0x7c00u);
    const Bits normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const Bits subnormal = bits_of(floats_of(magnitude) + 0.5f) - 0x3f000000u;
    const Bits finite = select(above(magnitude, 0x387fffffu), normal, subnormal);
    return __builtin_convertvector(sign | select(above(magnitude, 0x477fffffu), infinite, finite), Halves);
#endif
  }

#ifdef LOD_HALVES_BY_MASKS
  static __mmask16 first(std::int64_t count) noexcept { return static_cast<__mmask16>((1u << count) - 1); }
#endif

  [[gnu::always_inline]] static inline Floats floats_of(Bits bits) noexcept { return __builtin_bit_cast(Floats, bits); }
  [[gnu::always_inline]] static inline Bits bits_of(Floats floats) noexcept { return __builtin_bit_cast(Bits, floats); }

  /// All bits set where a number is greater than the limit, none elsewhere. Both are less than 2^31, since processors
  /// compare signed numbers only.
  [[gnu::always_inline]] static inline Bits above(Bits numbers, std::uint32_t limit) noexcept {
    const Numbers limits = Numbers{} + static_cast<std::int32_t>(limit);
    return __builtin_bit_cast(Bits, __builtin_bit_cast(Numbers, numbers) > limits);
  }
  [[gnu::always_inline]] static inline Bits select(Bits where, Bits yes, Bits no) noexcept {
    return (where & yes) | (~where & no);
  }
};
#undef LOD_HALVES_BY_MASKS

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Whole vectors of integers of 8, 16 and 32 bits, which are computed in 64 bits.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/half_vector.hpp>
#include <lod/kernels/cpu/intrinsics.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Integers of 8, 16 or 32 bits, which are computed in int64.
template <class T>
concept NarrowInteger = std::integral<T> && !std::same_as<T, bool> && sizeof(T) < sizeof(std::int64_t);
/// The compiler's own vectors for those of 32 bits.
typedef std::int32_t Int32Vector __attribute__((vector_size(2 * HalfVector::lanes)));
typedef std::uint32_t Uint32Vector __attribute__((vector_size(2 * HalfVector::lanes)));
typedef std::int64_t Int64Vector __attribute__((vector_size(4 * HalfVector::lanes)));

/// Loads a vector of integers from x, widened to 64 bits.
template <NarrowInteger T>
[[gnu::always_inline]] inline Int64Vector load_widened(const T* x) noexcept {
#ifdef __AVX512F__
  // g++ 12 widens numbers of 8 and 16 bits in several steps.
  if constexpr (sizeof(T) == 1) {
    __m128i numbers = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
#  ifndef __CUDA_ARCH__
    asm("" : "+v"(numbers));  // g++ 12 joins the load with this and with a mask, and cannot compile that
#  endif
    return __builtin_bit_cast(Int64Vector,
                              std::signed_integral<T> ? _mm512_cvtepi8_epi64(numbers) : _mm512_cvtepu8_epi64(numbers));
  }
  if constexpr (sizeof(T) == 2) {
    const __m128i numbers = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
    return __builtin_bit_cast(
        Int64Vector, std::signed_integral<T> ? _mm512_cvtepi16_epi64(numbers) : _mm512_cvtepu16_epi64(numbers));
  }
#elif defined(__AVX2__)
  if constexpr (sizeof(T) == 1) {
    std::int32_t bytes;
    std::memcpy(&bytes, x, sizeof bytes);
    const __m128i numbers = _mm_cvtsi32_si128(bytes);
    return __builtin_bit_cast(Int64Vector,
                              std::signed_integral<T> ? _mm256_cvtepi8_epi64(numbers) : _mm256_cvtepu8_epi64(numbers));
  }
  if constexpr (sizeof(T) == 2) {
    const __m128i numbers = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
    return __builtin_bit_cast(
        Int64Vector, std::signed_integral<T> ? _mm256_cvtepi16_epi64(numbers) : _mm256_cvtepu16_epi64(numbers));
  }
#endif
  if constexpr (sizeof(T) == sizeof(std::int32_t)) {
    const auto widened = [x](auto numbers) {
      std::memcpy(&numbers, x, sizeof numbers);
      return __builtin_convertvector(numbers, Int64Vector);
    };
    if constexpr (std::signed_integral<T>) return widened(Int32Vector{});
    return widened(Uint32Vector{});
  } else {
    Int64Vector wide;
    for (std::size_t i = 0; i < sizeof wide / sizeof wide[0]; ++i) wide[i] = x[i];
    return wide;
  }
}
/// Stores the lowest bits of each number to y.
template <NarrowInteger T>
[[gnu::always_inline]] inline void store_narrowed(T* y, const Int64Vector& numbers) noexcept {
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 1)
    return _mm_storel_epi64(reinterpret_cast<__m128i*>(y), _mm512_cvtepi64_epi8(__builtin_bit_cast(__m512i, numbers)));
  if constexpr (sizeof(T) == 2)
    return _mm_storeu_si128(reinterpret_cast<__m128i*>(y), _mm512_cvtepi64_epi16(__builtin_bit_cast(__m512i, numbers)));
#endif
  if constexpr (sizeof(T) == sizeof(std::int32_t)) {
    const auto narrow = __builtin_convertvector(numbers, Int32Vector);
    std::memcpy(y, &narrow, sizeof narrow);
  } else {
    for (std::size_t i = 0; i < sizeof numbers / sizeof numbers[0]; ++i) y[i] = static_cast<T>(numbers[i]);
  }
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

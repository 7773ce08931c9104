// SPDX-License-Identifier: Apache-2.0
/// @file
/// Vectors of numbers for CPU kernels: the only place that includes xsimd. Whatever type a tensor holds, kernels
/// compute in its `Accumulator`, in whole vectors; loads and stores convert, and also handle the tail of an array.
#pragma once

#include <lod/core/float16.hpp>
#include <lod/core/target.hpp>
#include <lod/kernels/cpu/half_vector.hpp>
#include <lod/kernels/cpu/intrinsics.hpp>
#include <lod/kernels/cpu/narrow_integers.hpp>
#include <lod/ops/kernel.hpp>

#include <xsimd/xsimd.hpp>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__AVX512BW__) && !defined(__OPTIMIZE__) && !defined(__clang__) && XSIMD_VERSION_MAJOR < 10
// Without optimisation g++ has macros in place of these functions, with casts that xsimd's own `select` of integers,
// which its `log` and `pow` call, does not compile with.
namespace xsimd {
template <>
inline batch<std::int32_t, avx512bw> select(const batch_bool<std::int32_t, avx512bw>& condition,
                                            const batch<std::int32_t, avx512bw>& a,
                                            const batch<std::int32_t, avx512bw>& b) noexcept {
  return _mm512_mask_blend_epi32(condition, b, a);
}
template <>
inline batch<std::int64_t, avx512bw> select(const batch_bool<std::int64_t, avx512bw>& condition,
                                            const batch<std::int64_t, avx512bw>& a,
                                            const batch<std::int64_t, avx512bw>& b) noexcept {
  return _mm512_mask_blend_epi64(condition, b, a);
}
}  // namespace xsimd
#endif

#if XSIMD_WITH_NEON64
// xsimd divides floats and takes their square roots by estimates, also where the processor has instructions for both.
// Vectors give what one number after the other does: the nearest number, and an infinite root of infinity.
namespace xsimd {
template <>
inline batch<float, neon64>& batch<float, neon64>::operator/=(const batch<float, neon64>& other) noexcept {
  return *this = batch<float, neon64>(vdivq_f32(*this, other));
}
template <>
inline batch<float, neon64> sqrt(const batch<float, neon64>& x) noexcept {
  return vsqrtq_f32(x);
}
}  // namespace xsimd
#endif

#ifdef __CUDACC__  // it passes `#pragma GCC unroll` on, but warns that it does not know it
#  pragma nv_diag_suppress 1675
#endif

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <class T>
using Vector = xsimd::batch<Accumulator<T>>;
/// The numbers in a vector.
template <class T>
inline constexpr std::int64_t lanes = static_cast<std::int64_t>(Vector<T>::size);

/// x * y + z, rounded once if the processor can do that. xsimd 8.1 lacks this for AVX-512.
template <class A>
inline xsimd::batch<A> multiply_add(const xsimd::batch<A>& x, const xsimd::batch<A>& y, const xsimd::batch<A>& z) {
#ifdef __AVX512F__
  if constexpr (std::same_as<A, float> && sizeof(x) == 64) return _mm512_fmadd_ps(x, y, z);
  if constexpr (std::same_as<A, double> && sizeof(x) == 64) return _mm512_fmadd_pd(x, y, z);
#endif
  return xsimd::fma(x, y, z);
}

/// Whether `multiply_add` rounds once.
#if defined(__FMA__) || defined(__AVX512F__) || defined(__ARM_FEATURE_FMA)
inline constexpr bool fuses_multiply_add = true;
#else
inline constexpr bool fuses_multiply_add = false;
#endif

static_assert(HalfVector::lanes == xsimd::batch<float>::size);
static_assert(sizeof(Int64Vector) == sizeof(xsimd::batch<std::int64_t>));

/// Whether `load` and `store` handle a part of a vector by a mask, as fast as a whole one.
#ifdef __AVX512F__
template <class T>
inline constexpr bool masked = std::same_as<T, Accumulator<T>> ? sizeof(Vector<T>) == 64 : lod::detail::Half<T>;
#else
template <class T>
inline constexpr bool masked = false;
#endif

/// Whether `load` reads a part of a vector by one instruction, even if that is slower than reading a whole one.
#ifdef __AVX2__
template <class T>
inline constexpr bool loads_parts = masked<T> || std::same_as<T, Accumulator<T>>;
#else
template <class T>
inline constexpr bool loads_parts = false;
#endif

#ifdef __AVX512F__
/// The first `count` lanes, none if it is negative.
template <class T>
inline auto first_bits(std::int64_t count) {
  using Mask = std::conditional_t<lanes<T> == 16, __mmask16, __mmask8>;
  return static_cast<Mask>((1u << std::max<std::int64_t>(count, 0)) - 1);
}
#endif

/// `lanes<T>` numbers from x, which need not be aligned.
template <class T>
inline Vector<T> load(const T* x) {
  if constexpr (std::same_as<T, Accumulator<T>>) {
    return Vector<T>::load_unaligned(x);
  } else if constexpr (std::same_as<T, std::uint64_t>) {
    return load(reinterpret_cast<const std::int64_t*>(x));
  } else if constexpr (lod::detail::Half<T>) {
    return __builtin_bit_cast(Vector<T>, HalfVector::load(x));
  } else if constexpr (NarrowInteger<T>) {
    return __builtin_bit_cast(Vector<T>, load_widened(x));
  } else {
    alignas(64) Accumulator<T> wide[Vector<T>::size];
    for (std::size_t i = 0; i < Vector<T>::size; ++i) wide[i] = static_cast<Accumulator<T>>(x[i]);
    return Vector<T>::load_aligned(wide);
  }
}
/// True in the lanes before `count`, which may be negative or beyond the last.
template <class T>
inline auto first_lanes(std::int64_t count) {
  static_assert(lanes<T> <= 16);
  alignas(64) static constexpr Accumulator<T> numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return Vector<T>::load_aligned(numbers) < Vector<T>(static_cast<Accumulator<T>>(count));
}
/// The first `count` <= `lanes<T>` numbers from x, none if it is negative, followed by `fill`.
template <class T>
inline Vector<T> load(const T* x, std::int64_t count, Accumulator<T> fill) {
  if constexpr (std::same_as<T, std::uint64_t>) return load(reinterpret_cast<const std::int64_t*>(x), count, fill);
#ifdef __AVX512F__
  if constexpr (masked<T>) {
    const auto first = first_bits<T>(count);
    if constexpr (std::same_as<T, float>) return _mm512_mask_loadu_ps(Vector<T>(fill), first, x);
    if constexpr (std::same_as<T, double>) return _mm512_mask_loadu_pd(Vector<T>(fill), first, x);
    if constexpr (std::same_as<T, std::int64_t>) return _mm512_mask_loadu_epi64(Vector<T>(fill), first, x);
  }
#elif defined(__AVX2__)
  if constexpr (std::same_as<T, Accumulator<T>>) {
    const auto first = first_lanes<T>(count);
    const auto mask = __builtin_bit_cast(__m256i, first);
    Vector<T> numbers;
    if constexpr (std::same_as<T, float>) numbers = _mm256_maskload_ps(x, mask);
    if constexpr (std::same_as<T, double>) numbers = _mm256_maskload_pd(x, mask);
    if constexpr (std::same_as<T, std::int64_t>) {
      numbers = _mm256_maskload_epi64(reinterpret_cast<const long long*>(x), mask);
    }
    return xsimd::select(first, numbers, Vector<T>(fill));
  }
#endif
  if constexpr (lod::detail::Half<T>) {
    const auto first = __builtin_bit_cast(Vector<T>, HalfVector::load(x, std::max<std::int64_t>(count, 0)));
    return xsimd::select(first_lanes<T>(count), first, Vector<T>(fill));
  } else if constexpr (std::same_as<T, float>) {
    // Not by an array: a vector would wait until the numbers that were written one by one are in the cache.
    HalfVector::Floats numbers{};
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < lanes<T>; ++i) numbers[i] = i < count ? x[i] : fill;
    return __builtin_bit_cast(Vector<T>, numbers);
  } else {
    alignas(64) Accumulator<T> wide[Vector<T>::size];
    for (std::int64_t i = 0; i < lanes<T>; ++i) wide[i] = i < count ? static_cast<Accumulator<T>>(x[i]) : fill;
    return Vector<T>::load_aligned(wide);
  }
}
/// The first numbers from x, with `fill` in the lanes from `count` on; `count` may be anything. `readable` numbers may
/// be read from x on: if they fill the vector, that is one load.
template <class T>
inline Vector<T> load_first(const T* x, std::int64_t count, Accumulator<T> fill, std::int64_t readable) {
  if (readable < lanes<T>) return load(x, std::min(count, lanes<T>), fill);
  return xsimd::select(first_lanes<T>(count), load(x), Vector<T>(fill));
}
template <class T>
inline void store(T* y, const Vector<T>& vector) {
  if constexpr (std::same_as<T, Accumulator<T>>) {
    vector.store_unaligned(y);
  } else if constexpr (std::same_as<T, std::uint64_t>) {
    store<std::int64_t>(reinterpret_cast<std::int64_t*>(y), vector);
  } else if constexpr (lod::detail::Half<T>) {
    HalfVector::store(y, __builtin_bit_cast(HalfVector::Floats, vector));
  } else if constexpr (NarrowInteger<T>) {
    store_narrowed(y, __builtin_bit_cast(Int64Vector, vector));
  } else {
    alignas(64) Accumulator<T> wide[Vector<T>::size];
    vector.store_aligned(wide);
    for (std::size_t i = 0; i < Vector<T>::size; ++i) y[i] = static_cast<T>(wide[i]);
  }
}
/// The first `count` < `lanes<T>` numbers only.
template <class T>
inline void store(T* y, const Vector<T>& vector, std::int64_t count) {
#ifdef __AVX512F__
  if constexpr (masked<T>) {
    const auto first = first_bits<T>(count);
    if constexpr (std::same_as<T, float>) return _mm512_mask_storeu_ps(y, first, vector);
    if constexpr (std::same_as<T, double>) return _mm512_mask_storeu_pd(y, first, vector);
    if constexpr (std::same_as<T, std::int64_t>) return _mm512_mask_storeu_epi64(y, first, vector);
  }
#endif
  if constexpr (lod::detail::Half<T>) {
    HalfVector::store(y, __builtin_bit_cast(HalfVector::Floats, vector), count);
  } else {
    alignas(64) Accumulator<T> wide[Vector<T>::size];
    vector.store_aligned(wide);
    for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(wide[i]);
  }
}

/// The first `count` <= `lanes<T>` numbers. `writable` numbers may be written from y on, those after the first `count`
/// with anything: if they fill the vector, that is one store.
template <class T>
inline void store_first(T* y, const Vector<T>& vector, std::int64_t count, std::int64_t writable) {
  if (count == lanes<T> || writable >= lanes<T>) {
    store<T>(y, vector);
  } else {
    store<T>(y, vector, count);
  }
}

/// For an array that is processed by vectors: the vector from x on, which has `count` <= `lanes<T>` numbers of the
/// array; as `load_first`.
template <class T>
inline Vector<T> load_vector(const T* x, std::int64_t count, Accumulator<T> fill = {}, std::int64_t readable = 0) {
  return count == lanes<T> ? load(x) : load_first(x, count, fill, readable);
}

/// Where numbers are finite.
template <class A>
[[gnu::always_inline]] inline xsimd::batch_bool<A> finite_lanes(const xsimd::batch<A>& numbers) {
#ifdef __AVX512DQ__
  constexpr int infinite_or_nan = 0x99;
  if constexpr (std::same_as<A, float> && sizeof(numbers) == 64) {
    return _knot_mask16(_mm512_fpclass_ps_mask(numbers, infinite_or_nan));
  }
  if constexpr (std::same_as<A, double> && sizeof(numbers) == 64) {
    return _knot_mask8(_mm512_fpclass_pd_mask(numbers, infinite_or_nan));
  }
#endif
  return numbers - numbers == xsimd::batch<A>(A{});
}
/// Whether all numbers are finite.
template <class A>
[[gnu::always_inline]] inline bool all_finite(const xsimd::batch<A>& numbers) {
  return xsimd::all(finite_lanes(numbers));
}

/// Where numbers are negative zeros.
template <std::floating_point A>
inline xsimd::batch_bool<A> is_negative_zero(const xsimd::batch<A>& numbers) {
#ifdef __AVX512DQ__
  constexpr int negative_zero = 0x04;
  if constexpr (std::same_as<A, float> && sizeof(numbers) == 64) {
    return _mm512_fpclass_ps_mask(numbers, negative_zero);
  }
  if constexpr (std::same_as<A, double> && sizeof(numbers) == 64) {
    return _mm512_fpclass_pd_mask(numbers, negative_zero);
  }
#endif
  using Bit = std::conditional_t<std::same_as<A, float>, std::int32_t, std::int64_t>;
  const auto bits = __builtin_bit_cast(xsimd::batch<Bit>, numbers);
  return __builtin_bit_cast(xsimd::batch_bool<A>, bits == xsimd::batch<Bit>(std::numeric_limits<Bit>::min()));
}

/// Whether functions that also run on GPUs may be called with vectors. When nvcc compiles for a GPU, it also parses the
/// functions for the CPU, though it does not need them, and rejects vectors in functions for both.
#ifdef __CUDA_ARCH__
inline constexpr bool calls_with_vectors = false;
#else
inline constexpr bool calls_with_vectors = true;
#endif

/// y[i] = f(x[i]) for i in [0, count), with f from Vector<X> to Vector<Y>, the same type. x and y may be the same
/// array.
template <class X, class Y, class F>
inline void transform(const X* x, std::int64_t count, Y* y, const F& f) {
  if constexpr (calls_with_vectors) {
    std::int64_t i = 0;
    for (; i + lanes<X> <= count; i += lanes<X>) store<Y>(y + i, f(load<X>(x + i)));
    if (i < count) store<Y>(y + i, f(load<X>(x + i, count - i, Accumulator<X>{})), count - i);
  }
}
/// y[i] = f(a[i], b[i]).
template <class A, class B, class Y, class F>
inline void transform(const A* a, const B* b, std::int64_t count, Y* y, const F& f) {
  if constexpr (calls_with_vectors) {
    std::int64_t i = 0;
    for (; i + lanes<A> <= count; i += lanes<A>) store<Y>(y + i, f(load<A>(a + i), load<B>(b + i)));
    if (i < count) {
      const std::int64_t left = count - i;
      store<Y>(y + i, f(load<A>(a + i, left, Accumulator<A>{}), load<B>(b + i, left, Accumulator<B>{})), left);
    }
  }
}

/// Whether `convert` computes by vectors: g++ vectorizes such loops by itself with -O3 only, and not where one of the
/// types has 16 bits.
template <class X, class Y>
inline constexpr bool converts_by_vectors = lod::detail::Half<X> || lod::detail::Half<Y> ||
                                            (std::floating_point<X> && std::same_as<X, Y>);
/// Fewer numbers are converted faster one by one.
template <class X, class Y>
inline constexpr std::int64_t few_numbers = std::same_as<X, Y>&& std::floating_point<X> ? lanes<X> : 4;

/// y[i] = f(x[i]), computed in the accumulator's type and rounded to Y. f takes numbers as well as vectors. x and y may
/// be the same.
template <class X, class Y, class F>
inline void convert(const X* x, std::int64_t count, Y* y, const F& f) {
  if constexpr (converts_by_vectors<X, Y>) {
    if (count >= few_numbers<X, Y>) return transform(x, count, y, f);
  }
  for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<Y>(f(static_cast<Accumulator<X>>(x[i])));
}
/// y[i] = f(a[i], b[i]).
template <class A, class B, class Y, class F>
inline void convert(const A* a, const B* b, std::int64_t count, Y* y, const F& f) {
  if constexpr (lod::detail::Half<B> || converts_by_vectors<A, Y>) {
    if (count >= few_numbers<A, Y>) return transform(a, b, count, y, f);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    y[i] = static_cast<Y>(f(static_cast<Accumulator<A>>(a[i]), static_cast<Accumulator<B>>(b[i])));
  }
}
/// y[i] = x[i], rounded to Y; integers wrap around.
template <class X, class Y>
inline void convert(const X* x, std::int64_t count, Y* y) {
  convert(x, count, y, [](const auto& number) { return number; });
}

/// Where rows at random addresses most likely are. Rows that are read only once come from memory.
enum class Whereabouts { CACHE, MEMORY };

/// Prefetches a row that will soon be read or written: random rows are limited by latency, not by bandwidth. At most
/// four cache lines; after those the hardware reads ahead by itself. From memory into the second-level cache, which can
/// have twice as many lines in flight as the first: on a Zen 4, rows of 64 floats arrive at 26 GB/s instead of 13. From
/// a cache into the first-level one: on a Xeon whose last-level cache holds the table, rows of 64 floats, some of which
/// occur often, take a fifth less time. Always inlined: g++ treats a function that only prefetches as one without
/// effect and drops the calls.
template <class T>
[[gnu::always_inline]] inline void prefetch(const T* row, std::int64_t row_size,
                                            Whereabouts whereabouts = Whereabouts::MEMORY) {
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(T));
  if (whereabouts == Whereabouts::MEMORY) {
    for (std::int64_t i = 0; i < row_size && i < 4 * line; i += line) __builtin_prefetch(row + i, 0, 2);
  } else {
    for (std::int64_t i = 0; i < row_size && i < 4 * line; i += line) __builtin_prefetch(row + i, 0, 3);
  }
}
/// How many rows ahead rows at random addresses are prefetched.
inline constexpr std::int64_t prefetch_distance = 32;

/// The compiler does not move any read from after this call to before it.
[[gnu::always_inline]] inline void keep_order() noexcept { std::atomic_signal_fence(std::memory_order_acq_rel); }

/// The same numbers, from now on in a register: two instructions that need them do not each read them.
template <class A>
[[gnu::always_inline]] inline xsimd::batch<A> read_once(xsimd::batch<A> numbers) noexcept {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
  asm("" : "+v"(numbers.data));
#endif
  return numbers;
}

/// y[i] = value.
template <class T>
inline void fill(T* y, std::int64_t count, T value) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = value;
}
/// y[i] = x[i]. The two do not overlap.
template <class T>
inline void copy(const T* x, std::int64_t count, T* y) {
  if (count > 0) std::memcpy(static_cast<void*>(y), x, static_cast<std::size_t>(count) * sizeof(T));
}

// Short arrays one after the other, such as short sequences of scalar rows: copying whole blocks of 32 bytes is faster
// than the exact number of bytes, as no branch depends on it. From x and from y on, `room` numbers may be read and
// written; what is written in y after the array is overwritten later.

/// Whether so many bytes are a whole number of T, which may not hold for a user's own type.
template <class T, std::size_t bytes = 32>
inline constexpr bool fits_blocks = bytes % sizeof(T) == 0;

/// The bytes that are copied first: two vectors hold most short sequences of scalars.
inline constexpr std::int64_t short_bytes = 2 * static_cast<std::int64_t>(sizeof(Vector<float>));

/// y[i] = value.
template <class T>
inline void fill(T* y, std::int64_t count, T value, std::int64_t room) {
  std::int64_t i = 0;
  if constexpr (fits_blocks<T>) {
    const auto fill_blocks = [&](auto bytes) {
      constexpr std::int64_t step = bytes / static_cast<std::int64_t>(sizeof(T));
      for (; i < count && i + step <= room; i += step) {
        for (std::int64_t lane = 0; lane < step; ++lane) y[i + lane] = value;
      }
    };
    fill_blocks(std::integral_constant<std::int64_t, short_bytes>());
    fill_blocks(std::integral_constant<std::int64_t, 32>());
  }
  for (; i < count; ++i) y[i] = value;
}
/// y[i] = x[i]. The parts of the two that may be touched do not overlap.
template <class T>
inline void copy(const T* x, std::int64_t count, T* y, std::int64_t room) {
  std::int64_t i = 0;
  if constexpr (fits_blocks<T>) {
    constexpr std::int64_t step = 32 / static_cast<std::int64_t>(sizeof(T));
    if (count <= 8 * step) {
      for (; i < count && i + step <= room; i += step) std::memcpy(static_cast<void*>(y + i), x + i, 32);
    }
  }
  if (i < count) copy(x + i, count - i, y + i);
}

/// `count` copies of a row of at most `width` bytes, which `row` begins with, by one store each. From y on, `room`
/// bytes may be written; those after the copies are overwritten later.
template <std::int64_t width>
inline void repeat_block(const std::byte* row, std::int64_t row_bytes, std::int64_t count, std::byte* y,
                         std::int64_t room) {
  struct alignas(width) Block {
    std::byte bytes[static_cast<std::size_t>(width)];
  } block;
  std::memcpy(&block, row, sizeof block);
  const std::byte* const end = y + count * row_bytes;
  for (const std::byte* const last = y + room - width; y < end && y <= last; y += row_bytes) {
    std::memcpy(y, &block, sizeof block);
  }
  for (; y < end; y += row_bytes) std::memcpy(y, row, static_cast<std::size_t>(row_bytes));
}

/// Writes `count` copies of a row, one after the other, to y, which does not overlap it. There is room for `room` rows;
/// those written after the copies are overwritten later.
template <class T>
inline void repeat_row(const T* row, std::int64_t row_size, std::int64_t count, T* y, std::int64_t room) {
  if (row_size == 1) {
    fill(y, count, *row, room);
    return;
  }
  const std::int64_t bytes = row_size * static_cast<std::int64_t>(sizeof(T));
  if (bytes > 64 || count < 2) {
    for (std::int64_t i = 0; i < count; ++i) copy(row, row_size, y + i * row_size);
    return;
  }
  alignas(64) std::byte padded[64];
#ifdef __AVX512BW__
  _mm512_store_si512(padded, _mm512_maskz_loadu_epi8(~std::uint64_t{0} >> (64 - bytes), row));
#else
  std::memcpy(padded, static_cast<const void*>(row), static_cast<std::size_t>(bytes));
#endif
  auto* const to = reinterpret_cast<std::byte*>(y);
  if (bytes <= 16) return repeat_block<16>(padded, bytes, count, to, room * bytes);
  if (bytes <= 32) return repeat_block<32>(padded, bytes, count, to, room * bytes);
  repeat_block<64>(padded, bytes, count, to, room * bytes);
}

/// The greater of two numbers by the library's rule: NaN is greater than everything, and of equals the first stays. NaN
/// is tested explicitly: with AVX, xsimd 8.1 claims that it does not differ from itself.
template <class V>
inline auto exceeds(const V& candidate, const V& best) {
  using Number = typename V::value_type;
  if constexpr (std::floating_point<Number>) {
    return (candidate > best) | (xsimd::isnan(candidate) & (best == best));
  } else {
    return candidate > best;
  }
}
template <class V>
inline auto falls_below(const V& candidate, const V& best) {
  using Number = typename V::value_type;
  if constexpr (std::floating_point<Number>) {
    return (candidate < best) | (xsimd::isnan(candidate) & (best == best));
  } else {
    return candidate < best;
  }
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

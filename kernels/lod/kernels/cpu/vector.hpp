// SPDX-License-Identifier: Apache-2.0
/// @file
/// Vectors of numbers for CPU kernels: the one doorway of xsimd. Whatever type a tensor holds, kernels compute in its
/// `Accumulator`, in whole vectors; loads and stores convert, and take what is left at the end of an array too.
#pragma once

#include <lod/float16.hpp>
#include <lod/kernel.hpp>
#include <lod/target.hpp>

// g++ 12 takes its own header of AVX-512, wherever xsimd's functions use it, for a user of variables without values.
#if defined(__GNUC__) && !defined(__clang__)
#  pragma GCC diagnostic push
#  pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#  pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <xsimd/xsimd.hpp>
#if defined(__GNUC__) && !defined(__clang__)
#  pragma GCC diagnostic pop
#endif

#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lod::inline LOD_TARGET {
namespace kernel::cpu {

template <class T>
using Vector = xsimd::batch<Accumulator<T>>;
/// Numbers in a vector.
template <class T>
inline constexpr std::int64_t lanes = static_cast<std::int64_t>(Vector<T>::size);

/// x * y + z, rounded once where the processor can do that. xsimd 8.1 leaves it out for AVX-512.
template <class A>
inline xsimd::batch<A> multiply_add(const xsimd::batch<A>& x, const xsimd::batch<A>& y, const xsimd::batch<A>& z) {
#ifdef __AVX512F__
  if constexpr (std::same_as<A, float> && sizeof(x) == 64) return _mm512_fmadd_ps(x, y, z);
  if constexpr (std::same_as<A, double> && sizeof(x) == 64) return _mm512_fmadd_pd(x, y, z);
#endif
  return xsimd::fma(x, y, z);
}

/// `lanes<T>` numbers from x, which need not be aligned.
template <class T>
inline Vector<T> load(const T* x) {
  if constexpr (std::same_as<T, Accumulator<T>>) {
    return Vector<T>::load_unaligned(x);
  } else {
    alignas(64) Accumulator<T> wide[Vector<T>::size];
    for (std::size_t i = 0; i < Vector<T>::size; ++i) wide[i] = static_cast<Accumulator<T>>(x[i]);
    return Vector<T>::load_aligned(wide);
  }
}
/// The first `count` < `lanes<T>` numbers from x, and `fill` behind them.
template <class T>
inline Vector<T> load(const T* x, std::int64_t count, Accumulator<T> fill) {
  alignas(64) Accumulator<T> wide[Vector<T>::size];
  for (std::int64_t i = 0; i < lanes<T>; ++i) wide[i] = i < count ? static_cast<Accumulator<T>>(x[i]) : fill;
  return Vector<T>::load_aligned(wide);
}
/// True in the lanes before `count`, which may be negative or beyond the last.
template <class T>
inline auto first_lanes(std::int64_t count) {
  static_assert(lanes<T> <= 16);
  alignas(64) static constexpr Accumulator<T> numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return Vector<T>::load_aligned(numbers) < Vector<T>(static_cast<Accumulator<T>>(count));
}
/// The first numbers from x, `fill` in the lanes from `count` on, which may be anything. From x on, `readable` numbers
/// may be read: where they fill the vector, that is one load.
template <class T>
inline Vector<T> load_first(const T* x, std::int64_t count, Accumulator<T> fill, std::int64_t readable) {
  if (readable < lanes<T>) return load(x, count, fill);
  return xsimd::select(first_lanes<T>(count), load(x), Vector<T>(fill));
}
template <class T>
inline void store(T* y, const Vector<T>& vector) {
  if constexpr (std::same_as<T, Accumulator<T>>) {
    vector.store_unaligned(y);
  } else {
    alignas(64) Accumulator<T> wide[Vector<T>::size];
    vector.store_aligned(wide);
    for (std::size_t i = 0; i < Vector<T>::size; ++i) y[i] = static_cast<T>(wide[i]);
  }
}
/// The first `count` < `lanes<T>` numbers only.
template <class T>
inline void store(T* y, const Vector<T>& vector, std::int64_t count) {
  alignas(64) Accumulator<T> wide[Vector<T>::size];
  vector.store_aligned(wide);
  for (std::int64_t i = 0; i < count; ++i) y[i] = static_cast<T>(wide[i]);
}

/// The first `count` <= `lanes<T>` numbers. From y on, `writable` numbers may be written, those behind the first ones
/// with anything: where they fill the vector, that is one store.
template <class T>
inline void store_first(T* y, const Vector<T>& vector, std::int64_t count, std::int64_t writable) {
  if (count == lanes<T> || writable >= lanes<T>) {
    store<T>(y, vector);
  } else {
    store<T>(y, vector, count);
  }
}

/// y[i] = f(x[i]) for i in [0, count), f from Vector<T> to Vector<T>. x and y may be the same.
template <class T, class F>
inline void transform(const T* x, std::int64_t count, T* y, const F& f) {
  std::int64_t i = 0;
  for (; i + lanes<T> <= count; i += lanes<T>) store<T>(y + i, f(load<T>(x + i)));
  if (i < count) store<T>(y + i, f(load<T>(x + i, count - i, Accumulator<T>{})), count - i);
}
/// y[i] = f(a[i], b[i]).
template <class T, class F>
inline void transform(const T* a, const T* b, std::int64_t count, T* y, const F& f) {
  std::int64_t i = 0;
  for (; i + lanes<T> <= count; i += lanes<T>) store<T>(y + i, f(load<T>(a + i), load<T>(b + i)));
  if (i < count) {
    const std::int64_t left = count - i;
    store<T>(y + i, f(load<T>(a + i, left, Accumulator<T>{}), load<T>(b + i, left, Accumulator<T>{})), left);
  }
}
/// Asks for a row that will be read or written soon: random rows wait for memory, not for bandwidth. Four cache lines
/// at most; behind them the machine reads ahead by itself. Into the second-level cache, which can wait for twice as
/// many lines as the first: on a Zen 4, rows of 64 floats come at 26 GB/s instead of 13. Always inline: g++ takes a
/// function that does nothing but this for one without an effect, and drops the calls of it.
template <class T>
[[gnu::always_inline]] inline void prefetch(const T* row, std::int64_t row_size) {
  constexpr auto line = static_cast<std::int64_t>(64 / sizeof(T));
  for (std::int64_t i = 0; i < row_size && i < 4 * line; i += line) __builtin_prefetch(row + i, 0, 2);
}
/// Rows that lie anywhere are asked for when so many others are still before them.
inline constexpr std::int64_t prefetch_distance = 32;

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

// Short arrays one behind the other, as those of short sequences of scalar rows: whole blocks of 32 bytes are quicker
// than the right number of bytes, as there is no end to be guessed. From x and from y on, `room` numbers may be read
// and written; what lies behind the array in y is written later.

/// y[i] = value.
template <class T>
inline void fill(T* y, std::int64_t count, T value, std::int64_t room) {
  constexpr std::int64_t step = 32 / static_cast<std::int64_t>(sizeof(T));
  std::int64_t i = 0;
  for (; i < count && i + step <= room; i += step) {
    for (std::int64_t lane = 0; lane < step; ++lane) y[i + lane] = value;
  }
  for (; i < count; ++i) y[i] = value;
}
/// y[i] = x[i]. What may be touched of the two does not overlap.
template <class T>
inline void copy(const T* x, std::int64_t count, T* y, std::int64_t room) {
  constexpr std::int64_t step = 32 / static_cast<std::int64_t>(sizeof(T));
  std::int64_t i = 0;
  if (count <= 8 * step) {
    for (; i < count && i + step <= room; i += step) std::memcpy(static_cast<void*>(y + i), x + i, 32);
  }
  if (i < count) copy(x + i, count - i, y + i);
}

/// Writes `count` copies of a row, one behind the other, to y, which does not overlap it. There is room for `room`
/// rows, those behind the copies are written later.
template <class T>
inline void repeat_row(const T* row, std::int64_t row_size, std::int64_t count, T* y, std::int64_t room) {
  if (row_size == 1) {
    fill(y, count, *row, room);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) copy(row, row_size, y + i * row_size);
}

/// The greater of two numbers by the rule of the library: NaN is greater than all, and of equals the first stays. A NaN
/// is asked for by name: with AVX, xsimd 8.1 answers that it does not differ from itself.
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

}  // namespace kernel::cpu
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// How large results are written. A plain store first reads the cache line that it writes to, so that a copy moves its
/// bytes three times: read, read for the store, write. A result that no cache would keep is written with non-temporal
/// stores, in whole lines, which avoids the second read.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/intrinsics.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/sum_tree.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// A result of at least this size, half of the last-level cache that servers have for a few cores, is assumed not to
/// stay in the cache. A smaller one is likely to be read next, from the cache.
inline constexpr std::int64_t large_output_bytes = 256 * grain;

/// Makes the calling thread's non-temporal stores visible to threads that wait for it. Costs nothing on processors that
/// have no such stores.
inline void finish_large_output() noexcept {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

/// Copies a line of 64 bytes past the caches, to an address that is a multiple of 64.
inline void write_line(const std::byte* x, std::byte* y) noexcept {
#if defined(__AVX__)
  const auto* from = reinterpret_cast<const __m256i*>(x);
  auto* to = reinterpret_cast<__m256i*>(y);
  const __m256i low = _mm256_loadu_si256(from), high = _mm256_loadu_si256(from + 1);
  _mm256_stream_si256(to, low);
  _mm256_stream_si256(to + 1, high);
#elif defined(__SSE2__)
  for (int part = 0; part < 4; ++part) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(y) + part, _mm_loadu_si128(reinterpret_cast<const __m128i*>(x) + part));
  }
#else
  std::memcpy(y, x, 64);
#endif
}

/// Writes a vector past the caches, to a multiple of its size; by a plain store if there is no instruction for that.
template <class T>
[[gnu::always_inline]] inline void write_vector(T* y, const Vector<T>& numbers) noexcept {
  [[maybe_unused]] constexpr std::size_t bytes = Vector<T>::size * sizeof(T);
#ifdef __AVX512F__
  if constexpr (bytes == 64) {
    if constexpr (std::same_as<T, float>) return _mm512_stream_ps(y, numbers);
    if constexpr (std::same_as<T, double>) return _mm512_stream_pd(y, numbers);
    if constexpr (std::integral<T>) return _mm512_stream_si512(reinterpret_cast<__m512i*>(y), numbers);
  }
#endif
#ifdef __AVX__
  if constexpr (bytes == 32) {
    if constexpr (std::same_as<T, float>) return _mm256_stream_ps(y, numbers);
    if constexpr (std::same_as<T, double>) return _mm256_stream_pd(y, numbers);
    if constexpr (std::integral<T>) return _mm256_stream_si256(reinterpret_cast<__m256i*>(y), numbers);
  }
#endif
  store<T>(y, numbers);
}

/// Whether a line holds a whole number of elements and begins with a whole one: others may straddle lines.
template <class T>
inline constexpr bool fills_lines = sizeof(T) == alignof(T) && fits_blocks<T>;

/// Writes rows of a result of `bytes` bytes in all.
class LargeOutput {
 public:
  explicit LargeOutput(std::int64_t bytes) noexcept : past_caches_(bytes >= large_output_bytes) {}

  /// y[i] = x[i]. The two do not overlap.
  template <class T>
  void copy(const T* x, std::int64_t count, T* y) const noexcept {
    if (past_caches_ && count * static_cast<std::int64_t>(sizeof(T)) >= shortest) {
      write(reinterpret_cast<const std::byte*>(x), 64, count * static_cast<std::int64_t>(sizeof(T)),
            reinterpret_cast<std::byte*>(y));
    } else {
      cpu::copy(x, count, y);
    }
  }
  /// The same as `copy` of vector.hpp with `room`.
  template <class T>
  void copy(const T* x, std::int64_t count, T* y, std::int64_t room) const noexcept {
    if (past_caches_ && count * static_cast<std::int64_t>(sizeof(T)) >= shortest) return copy(x, count, y);
    cpu::copy(x, count, y, room);
  }

  /// y[i] = value. Up to `room` numbers may be written from y on, as by `fill` of vector.hpp.
  template <class T>
  void fill(T* y, std::int64_t count, T value, std::int64_t room) const noexcept {
    if constexpr (fills_lines<T>) {
      if (past_caches_ && count * static_cast<std::int64_t>(sizeof(T)) >= shortest) {
        alignas(64) T line[64 / sizeof(T)];
        std::fill(std::begin(line), std::end(line), value);
        write(reinterpret_cast<const std::byte*>(line), 0, count * static_cast<std::int64_t>(sizeof(T)),
              reinterpret_cast<std::byte*>(y));
        return;
      }
    }
    cpu::fill(y, count, value, room);
  }

  /// Writes `count` copies of a row, as `repeat_row` of vector.hpp.
  template <class T>
  void repeat_row(const T* row, std::int64_t row_size, std::int64_t count, T* y, std::int64_t room) const noexcept {
    if (row_size == 1) return fill(y, count, *row, room);
    if (row_size * static_cast<std::int64_t>(sizeof(T)) < shortest) {
      return cpu::repeat_row(row, row_size, count, y, room);
    }
    for (std::int64_t i = 0; i < count; ++i) copy(row, row_size, y + i * row_size);
  }

  bool past_caches() const noexcept { return past_caches_; }

 private:
  /// Shorter runs consist mostly of partial lines.
  static constexpr std::int64_t shortest = 256;

  /// Whole lines go past the caches, the partial ones at both ends do not. The source advances by `step` bytes a line:
  /// with 0 it is one line of equal numbers.
  static void write(const std::byte* x, std::int64_t step, std::int64_t bytes, std::byte* y) noexcept {
    const auto head = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(y) % 64);
    std::memcpy(y, x, static_cast<std::size_t>(head));
    if (step > 0) x += head;
    y += head;
    bytes -= head;
    for (; bytes >= 64; bytes -= 64, x += step, y += 64) write_line(x, y);
    std::memcpy(y, x, static_cast<std::size_t>(bytes));
  }
  bool past_caches_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

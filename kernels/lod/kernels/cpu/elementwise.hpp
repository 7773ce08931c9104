// SPDX-License-Identifier: Apache-2.0
/// @file
/// Elementwise arithmetic on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_words.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/elementwise.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// z[i] = f(x[i], y[i]), in whole vectors; integers one by one in their own type, which the compiler vectorizes.
template <class T, class F>
inline void combine(const F& f, const T* x, const T* y, std::int64_t count, T* z) {
  if constexpr (std::integral<T>) {
    for (std::int64_t i = 0; i < count; ++i) z[i] = f(x[i], y[i]);
  } else {
    transform(x, y, count, z, f);
  }
}
/// The same with one number y for all.
template <class T, class F>
inline void combine(const F& f, const T* x, T y, std::int64_t count, T* z) {
  if constexpr (std::integral<T>) {
    for (std::int64_t i = 0; i < count; ++i) z[i] = f(x[i], y);
  } else {
    const Vector<T> right(static_cast<Accumulator<T>>(y));
    transform(x, count, z, [&](const auto& a) { return f(a, right); });
  }
}

template <>
struct Kernel<Map> {
  template <class F, class T>
  static void run(const CpuExecutor& executor, const F& f, const T* x, std::int64_t count, T* y) {
    const std::int64_t bytes = lod::detail::bytes_of<T>(2, count);
    cpu::parallel_ranges(executor, count, bytes, [&](std::int64_t begin, std::int64_t end) {
      if constexpr (std::integral<T>) {
        for (std::int64_t i = begin; i < end; ++i) y[i] = static_cast<T>(f(static_cast<MappedInteger<T>>(x[i])));
      } else {
        cpu::transform(x + begin, end - begin, y + begin, f);
      }
    });
  }
};

template <>
struct Kernel<Combine> {
  template <class F, class T>
  static void run(const CpuExecutor& executor, const F& f, const T* x, const T* y, std::int64_t count, T* z) {
    cpu::parallel_ranges(
        executor, count, lod::detail::bytes_of<T>(3, count),
        [&](std::int64_t begin, std::int64_t end) { cpu::combine(f, x + begin, y + begin, end - begin, z + begin); });
  }
};

template <>
struct Kernel<CombineRows> {
  template <class F, class T>
  static void run(const CpuExecutor& executor, const F& f, const T* x, const T* y, const Segments& sequences,
                  std::int64_t row_size, T* z) {
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(2, row_size);
#if LOD_MOVES_WORDS
    if constexpr (std::floating_point<T>) {
      constexpr std::int64_t number_words = sizeof(T) / sizeof(float);
      if (row_size % cpu::lanes<T> != 0 && row_size * number_words <= cpu::RepeatedRow::most) {
        return combine_words(executor, f, x, y, sequences, row_size, cpu::RepeatedRow(row_size * number_words), z);
      }
    }
#endif
    // Rows narrower than a vector are processed in blocks: as many rows as there are lanes fill whole vectors.
    constexpr std::int64_t block = cpu::lanes<T>;
    cpu::parallel_rows(executor, sequences, row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
                         const T* const right = y + i * row_size;
                         const std::int64_t first = (sequences.begin(i) + begin) * row_size;
                         if (row_size == 1) {
                           cpu::combine(f, x + first, *right, end - begin, z + first);
                           return;
                         }
                         std::int64_t row = begin, at = first;
                         if (row_size < block && end - begin > 1) {
                           T rows[static_cast<std::size_t>(block * block)];
                           cpu::repeat_row(right, row_size, block, rows, block);
                           for (; row < end; row += block, at += block * row_size) {
                             cpu::combine(f, x + at, rows, std::min(block, end - row) * row_size, z + at);
                           }
                           return;
                         }
                         for (; row < end; ++row, at += row_size) cpu::combine(f, x + at, right, row_size, z + at);
                       });
  }

#if LOD_MOVES_WORDS
 private:
  /// For rows of a few words, each of which is a float or half of a double.
  template <class F, class T>
  static void combine_words(const CpuExecutor& executor, const F& f, const T* x, const T* y, const Segments& sequences,
                            std::int64_t row_size, const cpu::RepeatedRow& repeated, T* z) {
    using V = cpu::Vector<T>;
    // In place, what comes after a sequence is still to be read.
    const bool in_place = x == z;
    cpu::parallel_rows(executor, sequences, lod::detail::bytes_of<T>(2, row_size),
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t room) {
                         const std::int64_t number = (sequences.begin(i) + begin) * row_size;
                         const auto* const from = reinterpret_cast<const float*>(x + number);
                         auto* const to = reinterpret_cast<float*>(z + number);
                         const auto write = [&f, from, to ](std::int64_t at, std::int64_t first, std::int64_t last,
                                                            const cpu::Words& right) __attribute__((always_inline)) {
                           const cpu::Words left = cpu::load_part(from + at, first, last);
                           const V combined = f(__builtin_bit_cast(V, left), __builtin_bit_cast(V, right));
                           cpu::store_part(to + at, __builtin_bit_cast(cpu::Words, combined), first, last);
                         };
                         repeated.for_each_vector(repeated.read(y + i * row_size), end - begin,
                                                  in_place ? end - begin : room, to, write);
                       });
  }
#endif
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Runs of rows, copied on the CPU by all threads: cut by rows, not by runs.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/intrinsics.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/line_writer.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/run_copy.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

#ifdef __AVX2__

/// Runs of a few dozen bytes: nothing is read after the end of a run, but bytes after it are written, which the next
/// run overwrites. So no branch depends on its length.
class ShortRuns {
 public:
  /// Whether runs are these: short on average, and none so long that threads should share it.
  static bool are(const Segments& runs, std::int64_t row_bytes) noexcept {
    return row_bytes % read_bytes == 0 && runs.rows() * row_bytes <= runs.size * most_bytes &&
           runs.max_rows * row_bytes <= grain;
  }

  /// Run i consists of the bytes from sources[i] on.
  template <class T>
  static void copy(const CpuExecutor& executor, const T* const* sources, const Segments& runs, std::int64_t row_bytes,
                   const LargeOutput& output, std::byte* y) {
    parallel_sequences(executor, runs, 2 * row_bytes, [&](std::int64_t begin, std::int64_t end) {
      const auto source = [=](std::int64_t i) { return reinterpret_cast<const std::byte*>(sources[i]); };
      const auto bytes = [=](std::int64_t i) { return runs.length(i) * row_bytes; };
      // The runs may be anywhere in memory.
      const auto ask_after = [=](std::int64_t i) __attribute__((always_inline)) {
        prefetch(source(std::min(i + prefetch_distance, end - 1)), 1);
      };
      std::byte* to = y + runs.begin(begin) * row_bytes;
      if (output.past_caches()) {
        LineWriter<std::byte> writer(output, to);
        for (std::int64_t i = begin; i < end; ++i) {
          ask_after(i);
          const std::byte* from = source(i);
          std::int64_t left = bytes(i);
          for (; left > most_bytes; left -= most_bytes, from += most_bytes) {
            std::memcpy(writer.place(), from, most_bytes);
            writer.advance(most_bytes);
          }
          copy_one(from, left, writer.place());
          writer.advance(left);
        }
        return;
      }
      const std::byte* const last = y + runs.begin(end) * row_bytes;
      for (std::int64_t i = begin; i < end; ++i) {
        ask_after(i);
        const std::int64_t count = bytes(i);
        if (count <= most_bytes && last - to >= most_bytes) {
          copy_one(source(i), count, to);
        } else {
          cpu::copy(source(i), count, to);
        }
        to += count;
      }
    });
  }

 private:
  static constexpr std::int64_t most_bytes = 128;
#  ifdef __AVX512BW__
  static constexpr std::int64_t read_bytes = 1;  ///< bytes read at a time, of which some may be masked
#  else
  static constexpr std::int64_t read_bytes = 4;
  /// first_words + 8 - n is a mask of the first n words of a vector.
  static constexpr std::array<std::int32_t, 16> first_words = {-1, -1, -1, -1, -1, -1, -1, -1};
#  endif

  /// Writes `most_bytes` from y on: the first `count` of them come from x, the others are unspecified.
  static void copy_one(const std::byte* x, std::int64_t count, std::byte* y) noexcept {
#  ifdef __AVX512BW__
    const auto all = ~std::uint64_t{0};
    const auto bits = static_cast<unsigned>(std::min<std::int64_t>(count, 64));
    const auto more = static_cast<unsigned>(std::max<std::int64_t>(count - 64, 0));
    const __m512i low = _mm512_maskz_loadu_epi8(bits == 64 ? all : ~(all << bits), x);
    // Not 64: after a shorter run, which may be an empty one at a null pointer, there is no such address.
    const __m512i high = _mm512_maskz_loadu_epi8(more == 64 ? all : ~(all << more), x + bits);
    _mm512_storeu_si512(y, low);
    _mm512_storeu_si512(y + 64, high);
#  else
    for (std::int64_t i = 0; i < most_bytes; i += 32) {
      const std::int64_t words = std::clamp<std::int64_t>((count - i) / read_bytes, 0, 8);
      const auto mask = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first_words.data() + 8 - words));
      const auto* const from = reinterpret_cast<const int*>(x + std::min(i, count));
      const __m256i some = _mm256_maskload_epi32(from, mask);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), some);
    }
#  endif
  }
};

#endif

template <>
struct Kernel<RunCopy> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* const* sources, const Segments& destination,
                  std::int64_t row_size, T* y) {
    if (destination.rows() == 0 || row_size == 0) return;
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    const cpu::LargeOutput output(destination.rows() * row_bytes);
#ifdef __AVX2__
    if (cpu::ShortRuns::are(destination, row_bytes)) {
      return cpu::ShortRuns::copy(executor, sources, destination, row_bytes, output, reinterpret_cast<std::byte*>(y));
    }
#endif
    // Runs of a few lines, which may be anywhere, end before the processor has seen that they are read in order.
    constexpr std::int64_t few_bytes = 1024;
    const bool are_short = destination.rows() * row_bytes <= destination.size * few_bytes;
    cpu::parallel_rows(executor, destination, 2 * row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
                         const std::int64_t later = std::min(i + cpu::prefetch_distance, destination.size - 1);
                         if (are_short) cpu::prefetch(sources[later], row_size);
                         output.copy(sources[i] + begin * row_size, (end - begin) * row_size,
                                     y + (destination.begin(i) + begin) * row_size);
                       });
  }
};

template <>
struct Kernel<RunScatter> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& runs, std::int64_t row_size,
                  T* const* destinations) {
    if (runs.rows() == 0 || row_size == 0) return;
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(row_size);
    const cpu::LargeOutput output(runs.rows() * row_bytes);
    cpu::parallel_rows(executor, runs, 2 * row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
                         output.copy(x + (runs.begin(i) + begin) * row_size, (end - begin) * row_size,
                                     destinations[i] + begin * row_size);
                       });
  }
};

template <>
struct Kernel<CopyValues> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, std::int64_t count, T* y) {
    const std::int64_t bytes = lod::detail::bytes_of<T>(count);
    const cpu::LargeOutput output(bytes);
    cpu::parallel_ranges(executor, count, 2 * bytes,
                         [&](std::int64_t begin, std::int64_t end) { output.copy(x + begin, end - begin, y + begin); });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sliding windows on the CPU: one pass over the result, which is written in whole cache lines.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/line_writer.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_enumerate.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<SequenceEnumerate> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t window, T pad_value,
                  T* y) {
    const std::int64_t rows = sequences.rows(), result_bytes = lod::detail::bytes_of<T>(rows, window);
    const std::int64_t bytes = result_bytes + rows * static_cast<std::int64_t>(sizeof(T));
    const cpu::LargeOutput output(result_bytes);
    cpu::parallel_ranges(executor, rows, bytes, [&](std::int64_t begin, std::int64_t end) {
      if (begin == end) return;
      const Windows<T> windows{x, sequences, window, pad_value};
      cpu::LineWriter<T> to(output, y + begin * window);
      switch (window) {
        case 1:
          return windows.write_short(Fixed<1>(), begin, end, to);
        case 2:
          return windows.write_short(Fixed<2>(), begin, end, to);
        case 3:
          return windows.write_short(Fixed<3>(), begin, end, to);
        case 4:
          return windows.write_short(Fixed<4>(), begin, end, to);
        case 5:
          return windows.write_short(Fixed<5>(), begin, end, to);
        case 6:
          return windows.write_short(Fixed<6>(), begin, end, to);
        case 7:
          return windows.write_short(Fixed<7>(), begin, end, to);
        case 8:
          return windows.write_short(Fixed<8>(), begin, end, to);
        default:
          break;
      }
      if (window <= cpu::LineWriter<T>::room) {
        windows.write_short(window, begin, end, to);
      } else {
        windows.write_long(begin, end, to);
      }
    });
  }

 private:
  /// A window width that is known at compile time.
  template <std::int64_t width>
  using Fixed = std::integral_constant<std::int64_t, width>;

  /// The functions write the windows of rows [begin, end), of which there is at least one.
  template <class T>
  struct Windows {
    /// As many windows at a time as there is room for: first as if all rows were one sequence, without checking where a
    /// window ends, then the padding after the end of each sequence.
    template <std::int64_t width>
    void write_short(Fixed<width>, std::int64_t begin, std::int64_t end, cpu::LineWriter<T>& to) const {
      constexpr std::int64_t some = cpu::LineWriter<T>::room / width;
      const std::int64_t rows = sequences.rows();
      for (std::int64_t i = cpu::sequence_of(sequences, begin), row = begin; row < end;) {
        const std::int64_t stop = std::min(row + some, end), whole = std::min(stop, rows - width + 1);
        T* const out = to.place();
        std::int64_t at = row;
        for (; at < whole; ++at)
          std::memcpy(out + (at - row) * width, x + at, sizeof(T) * static_cast<std::size_t>(width));
        for (; at < stop; ++at) cpu::copy(x + at, rows - at, out + (at - row) * width);
        for (;; ++i) {
          write_pads<width>(i, row, stop, out);
          if (sequences.begin(i + 1) >= stop) break;
        }
        to.advance((stop - row) * width);
        row = stop;
      }
    }
    /// The same in whole blocks that overlap the next window.
    void write_short(std::int64_t width, std::int64_t begin, std::int64_t end, cpu::LineWriter<T>& to) const {
      const std::int64_t some = cpu::LineWriter<T>::room / width, rows = sequences.rows();
      // Blocks of ids may be read from the rows before this one.
      const std::int64_t readable = rows + 1 - (width + block - 1) / block * block;
      T pads[static_cast<std::size_t>(block)];
      std::fill_n(pads, block, pad_value);
      for (std::int64_t i = cpu::sequence_of(sequences, begin), row = begin; row < end;) {
        const std::int64_t first = row, stop = std::min(row + some, end);
        T* out = to.place();
        for (;; ++i) {
          const std::int64_t last = sequences.begin(i + 1);
          for (; row < std::min(last, stop); ++row, out += width) {
            if (row < readable) {
              for (std::int64_t at = 0; at < width; at += block) std::memcpy(out + at, x + row + at, sizeof pads);
            } else {
              cpu::copy(x + row, std::min(width, rows - row), out);
            }
            for (std::int64_t at = last - row; at < width; at += block) std::memcpy(out + at, pads, sizeof pads);
          }
          if (last >= stop) break;
        }
        to.advance((stop - first) * width);
      }
    }

    void write_long(std::int64_t begin, std::int64_t end, cpu::LineWriter<T>& to) const {
      for (std::int64_t i = cpu::sequence_of(sequences, begin), row = begin; row < end; ++i) {
        for (const std::int64_t last = sequences.begin(i + 1); row < std::min(last, end); ++row) {
          const std::int64_t left = std::min(window, last - row);
          for (std::int64_t at = 0, count = 0; at < window; at += count) {
            count = std::min((at < left ? left : window) - at, cpu::LineWriter<T>::room);
            if (at < left) {
              cpu::copy(x + row + at, count, to.place());
            } else {
              cpu::fill(to.place(), count, pad_value);
            }
            to.advance(count);
          }
        }
      }
    }

    const T* x;
    Segments sequences;
    std::int64_t window;
    T pad_value;

   private:
    /// Writes the padding after the end of sequence i in the windows of rows [row, stop).
    template <std::int64_t width>
    void write_pads(std::int64_t i, std::int64_t row, std::int64_t stop, T* out) const {
      const std::int64_t last = sequences.begin(i + 1), first = std::max({last - width + 1, sequences.begin(i), row});
      const auto write = [&](std::int64_t left) {  // in the window of the row that has `left` rows left in its sequence
        for (std::int64_t at = left; at < width; ++at) out[(last - left - row) * width + at] = pad_value;
      };
      if (first == last - width + 1 && last <= stop) {  // most sequences: loops without conditions
        for (std::int64_t left = 1; left < width; ++left) write(left);
      } else {
        for (std::int64_t at = first; at < std::min(last, stop); ++at) write(last - at);
      }
    }

    /// Blocks have 32 bytes.
    static constexpr std::int64_t block = 32 / static_cast<std::int64_t>(sizeof(T));
  };
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Sliding windows on the CPU: one pass over the result, which is written by whole cache lines.
#pragma once

#include <lod/kernels/cpu/line_writer.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_enumerate.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel {

template <>
struct SequenceEnumerate<InlineCpu> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* x, const Segments& sequences, std::int64_t window, T pad_value,
                  T* y) {
    const std::int64_t rows = sequences.rows(), result_bytes = rows * window * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t bytes = result_bytes + rows * static_cast<std::int64_t>(sizeof(T));
    const cpu::LargeOutput output(result_bytes);
    cpu::parallel_ranges(executor, rows, bytes, [&](std::int64_t begin, std::int64_t end) {
      if (begin == end) return;
      const Windows<T> windows{x, sequences, window, pad_value};
      cpu::LineWriter<T> to(output, y + begin * window);
      if (window <= cpu::LineWriter<T>::room) {
        windows.write_short(begin, end, to);
      } else {
        windows.write_long(begin, end, to);
      }
    });
  }

 private:
  /// Both functions write the windows of rows [begin, end), which are some.
  template <class T>
  struct Windows {
    /// As many windows at a time as there is room for: in whole blocks that run into the next window, and what is
    /// behind the end of a sequence by a mask, so that nobody asks for a number of ids.
    void write_short(std::int64_t begin, std::int64_t end, cpu::LineWriter<T>& to) const {
      const std::int64_t rows = sequences.rows(), some = cpu::LineWriter<T>::room / window;
      // Blocks of ids may be read from the rows before this one.
      const std::int64_t readable = rows + 1 - (window + block - 1) / block * block;
      for (std::int64_t i = cpu::sequence_of(sequences, begin), row = begin; row < end; ++i) {
        const std::int64_t last = sequences.begin(i + 1);
        for (std::int64_t stop = 0; row < std::min(last, end); row = stop) {
          stop = std::min({row + some, last, end});
          T* const out = to.place();
          if (stop > readable) {
            write_rows(row, stop, last, out);
          } else if (stop + window - 1 <= last) {
            for (std::int64_t k = row; k < stop; ++k) {
              copy_blocks(k, out + (k - row) * window, [](const Block& ids, std::int64_t) { return ids; });
            }
          } else {
            write_padded_blocks(row, stop, last, out);
          }
          to.advance((stop - row) * window);
        }
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
    using Block = xsimd::batch<std::uint8_t>;
    static constexpr auto block_bytes = static_cast<std::int64_t>(Block::size);
    static constexpr auto sizeof_id = static_cast<std::int64_t>(sizeof(T));
    static constexpr std::int64_t block = block_bytes / sizeof_id;

    /// The ids from a row on; change(ids, at) gives what is written for those from number `at` on.
    template <class Change>
    void copy_blocks(std::int64_t row, T* out, const Change& change) const {
      std::int64_t at = 0;
      do {
        const Block ids = Block::load_unaligned(reinterpret_cast<const std::uint8_t*>(x + row + at));
        change(ids, at).store_unaligned(reinterpret_cast<std::uint8_t*>(out + at));
        at += block;
      } while (at < window);
    }

    void write_padded_blocks(std::int64_t row, std::int64_t stop, std::int64_t last, T* out) const {
      // From byte block_bytes - n on, the mask of n bytes.
      alignas(64) static constexpr auto masks = [] {
        std::array<std::uint8_t, 2 * Block::size> bytes{};
        for (std::size_t i = 0; i < Block::size; ++i) bytes[i] = 0xFF;
        return bytes;
      }();
      alignas(64) T numbers[static_cast<std::size_t>(block)];
      cpu::fill(numbers, block, pad_value);
      const Block pads = Block::load_aligned(reinterpret_cast<const std::uint8_t*>(numbers));
      for (; row < stop; ++row, out += window) {
        copy_blocks(row, out, [&](const Block& ids, std::int64_t at) {
          const std::int64_t left = std::clamp<std::int64_t>(last - row - at, 0, block) * sizeof_id;
          return pads ^ ((pads ^ ids) & Block::load_unaligned(masks.data() + (block_bytes - left)));
        });
      }
    }

    void write_rows(std::int64_t row, std::int64_t stop, std::int64_t last, T* out) const {
      for (; row < stop; ++row, out += window) {
        const std::int64_t left = std::min(window, last - row);
        cpu::copy(x + row, left, out);
        cpu::fill(out + left, window - left, pad_value);
      }
    }
  };
};

}  // namespace kernel
}  // namespace lod::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A result that is written once from start to end: it is assembled in the first-level cache and written from there in
/// whole lines, past the caches if it is large.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Copies bytes in blocks of 32, when they are so few that a call would take longer.
template <std::size_t bytes>
inline void copy_blocks(const void* x, void* y) noexcept {
  static_assert(bytes % 32 == 0);
  for (std::size_t i = 0; i < bytes; i += 32) {
    std::memcpy(static_cast<std::byte*>(y) + i, static_cast<const std::byte*>(x) + i, 32);
  }
}

/// The numbers are assembled in a staging buffer, which stays in the first-level cache, and leave it in whole lines.
template <class T>
class LineWriter {
  static_assert(fills_lines<T>);
  static constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));

 public:
  /// How many numbers may be written at `place()`.
  static constexpr std::int64_t room = std::max<std::int64_t>(32 * line, 512);

  /// The first number goes to *y; what is written is all or part of `output`.
  LineWriter(const LargeOutput& output, T* y) noexcept : y_(y), past_caches_(output.past_caches()) {
    // The stage begins where the cache line of *y begins.
    skipped_ = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(y) % 64 / sizeof(T));
    used_ = skipped_;
  }
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  ~LineWriter() {
    flush();
    copy(stage_, used_, y_);
  }

  /// Where the next numbers go. More than needed may be written there: the next ones overwrite the excess.
  T* place() noexcept { return stage_ + used_; }
  /// `count` <= `room` numbers have been written at `place()`.
  void advance(std::int64_t count) noexcept {
    used_ += count;
    if (used_ >= stage) flush();
  }

 private:
  static constexpr std::int64_t stage = 64 * line;

  /// Writes all whole lines; what remains of the last one moves to the start of the stage.
  void flush() noexcept {
    const std::int64_t whole = used_ / line * line;
    if (whole == 0 && skipped_ > 0) {
      copy(stage_ + skipped_, used_ - skipped_, y_);
      used_ = skipped_ = 0;
      return;
    }
    std::int64_t from = skipped_;
    if (skipped_ > 0) {
      from = line;
      copy(stage_ + skipped_, line - skipped_, y_);
    }
    T* const to = y_ + (from - skipped_);
    for (std::int64_t i = 0; i < whole - from; i += line) {
      if (past_caches_) {
        write_line(reinterpret_cast<const std::byte*>(stage_ + from + i), reinterpret_cast<std::byte*>(to + i));
      } else {
        copy_blocks<64>(stage_ + from + i, to + i);
      }
    }
    y_ += whole - skipped_;
    skipped_ = 0;
    used_ -= whole;
    std::copy(stage_ + whole, stage_ + whole + used_, stage_);
  }

  // After `room` comes space for what the last block writes beyond its rows.
  alignas(64) T stage_[static_cast<std::size_t>(stage + room + line)];
  T* y_;                  // where the number at `skipped_` goes
  std::int64_t skipped_;  // the numbers before the first one in its cache line
  std::int64_t used_;
  bool past_caches_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

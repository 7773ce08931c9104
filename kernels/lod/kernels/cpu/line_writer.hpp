// SPDX-License-Identifier: Apache-2.0
/// @file
/// A result that is written once from its start to its end: put together in the first cache, and written from there by
/// whole lines, where it is large past the caches.
#pragma once

#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lod::inline LOD_TARGET {
namespace kernel::cpu {

/// Copies so many bytes in blocks of 32, where they are so few that a call would take longer.
template <std::size_t bytes>
inline void copy_blocks(const void* x, void* y) noexcept {
  static_assert(bytes % 32 == 0);
  for (std::size_t i = 0; i < bytes; i += 32) {
    std::memcpy(static_cast<std::byte*>(y) + i, static_cast<const std::byte*>(x) + i, 32);
  }
}

/// The numbers are put together in a stage, which stays in the first cache, and leave it by lines.
template <class T>
class LineWriter {
  static_assert(fills_lines<T>);
  static constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(T));
  static constexpr std::int64_t stage = 64 * line;

 public:
  /// Numbers that may be written at `place()`.
  static constexpr std::int64_t room = 32 * line;

  /// The first number goes to *y; what is written is `output` or a part of it.
  LineWriter(const LargeOutput& output, T* y) noexcept : y_(y), past_caches_(output.past_caches()) {
    // The stage begins where the line of *y does.
    skipped_ = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(y) % 64 / sizeof(T));
    used_ = skipped_;
  }
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  ~LineWriter() {
    flush();
    copy(stage_, used_, y_);
  }

  /// Where the next numbers go. More than are meant may be written there: the next ones overwrite them.
  T* place() noexcept { return stage_ + used_; }
  /// `count` <= `room` numbers have been written at `place()`.
  void advance(std::int64_t count) noexcept {
    used_ += count;
    if (used_ >= stage) flush();
  }

 private:
  /// All whole lines leave; what is left of the last one stays, at the start of the stage.
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

  // Past the room: what the last block writes beyond its rows.
  alignas(64) T stage_[static_cast<std::size_t>(stage + room + line)];
  T* y_;                  // where the number at `skipped_` goes
  std::int64_t skipped_;  // before the first number, of the line that it is in
  std::int64_t used_;
  bool past_caches_;
};

}  // namespace kernel::cpu
}  // namespace lod::inline LOD_TARGET

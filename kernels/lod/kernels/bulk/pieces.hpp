// SPDX-License-Identifier: Apache-2.0
/// @file
/// Moving rows, several numbers at a time: the memory of a GPU is fastest when each thread moves 16 bytes.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/bulk/few.hpp>
#include <lod/ops/kernel.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// What a thread moves at a time: 16 bytes if all rows of the target begin at a multiple of 16; otherwise one number.
template <class T>
class Pieces {
 public:
  static constexpr auto most = static_cast<std::int64_t>(in_sixteen_bytes<T>);

  /// For rows of `row_size` numbers that are written to `to`.
  Pieces(const T* to, std::int64_t row_size) noexcept
      : width_(row_size % most == 0 && reinterpret_cast<std::uintptr_t>(to) % 16 == 0 ? most : 1),
        in_row_(row_size / width_) {}

  /// The number of pieces in a row.
  LOD_HOST_DEVICE std::int64_t in_row() const noexcept { return in_row_; }
  /// The number of numbers in a piece.
  LOD_HOST_DEVICE std::int64_t width() const noexcept { return width_; }
  /// Copies a piece.
  LOD_HOST_DEVICE void copy(T* to, const T* from) const noexcept {
    if constexpr (most > 1) {
      if (width_ == most) {
        if (reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
          *reinterpret_cast<Sixteen*>(to) = *reinterpret_cast<const Sixteen*>(from);
        } else {
          for (std::int64_t i = 0; i < most; ++i) to[i] = from[i];
        }
        return;
      }
    }
    *to = *from;
  }
  /// Copies piece `piece` of a row.
  LOD_HOST_DEVICE void copy(T* to, const T* from, std::int64_t piece) const noexcept {
    copy(to + piece * width_, from + piece * width_);
  }
  /// Writes the same number to all positions of a piece.
  LOD_HOST_DEVICE void fill(T* to, const T& number) const noexcept {
    if constexpr (most > 1) {
      if (width_ == most) {
        Few<T, in_sixteen_bytes<T>> numbers;
        for (T& each : numbers.number) each = number;
        write_few(to, numbers);
        return;
      }
    }
    *to = number;
  }

 private:
  std::int64_t width_;  ///< in a piece
  std::int64_t in_row_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The innermost part of matrix products on the CPU: a small block of sums that stays in registers.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/vector.hpp>

#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Numbers of an operand for the registers, and the distances between its rows (or columns) and between its terms.
template <class A>
struct Block {
  const A* first;
  std::int64_t stride;
  std::int64_t term_stride;
};

/// rows x (vectors * lanes) sums of `count` products each, in registers. The columns of b are contiguous. The rows of
/// `tile` are `vectors` vectors apart.
template <std::int64_t rows, std::int64_t vectors, class A>
inline void multiply_registers(const Block<A>& a, const Block<A>& b, std::int64_t count, A* tile) noexcept {
  constexpr std::int64_t width = lanes<A>;
  Vector<A> sums[static_cast<std::size_t>(rows)][static_cast<std::size_t>(vectors)];
#pragma GCC unroll 16
  for (std::int64_t row = 0; row < rows; ++row) {
#pragma GCC unroll 16
    for (std::int64_t v = 0; v < vectors; ++v) sums[row][v] = Vector<A>(A{});
  }
  for (std::int64_t term = 0; term < count; ++term) {
    Vector<A> right[static_cast<std::size_t>(vectors)];
#pragma GCC unroll 16
    for (std::int64_t v = 0; v < vectors; ++v) {
      right[v] = Vector<A>::load_unaligned(b.first + term * b.term_stride + v * width);
    }
#pragma GCC unroll 16
    for (std::int64_t row = 0; row < rows; ++row) {
      const Vector<A> left(a.first[row * a.stride + term * a.term_stride]);
#pragma GCC unroll 16
      for (std::int64_t v = 0; v < vectors; ++v) sums[row][v] = multiply_add(left, right[v], sums[row][v]);
    }
  }
#pragma GCC unroll 16
  for (std::int64_t row = 0; row < rows; ++row) {
#pragma GCC unroll 16
    for (std::int64_t v = 0; v < vectors; ++v) sums[row][v].store_aligned(tile + (row * vectors + v) * width);
  }
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The innermost part of matrix products on the CPU: what is multiplied, and a small block of sums that stays in
/// registers.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>

#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// A matrix that is read line by line, with its lines at equal distances in memory.
template <class T>
struct StridedLines {
  const T* first;
  std::int64_t stride;
  /// Numbers [begin, begin + count) of a line.
  void read(std::int64_t line, std::int64_t begin, std::int64_t count, Accumulator<T>* to) const noexcept {
    widen(first + line * stride + begin, count, to);
  }
};

/// One of the two matrices of a product. `Lines` has a function read(line, begin, count, to) as StridedLines does.
template <class Lines>
struct Operand {
  Lines lines;
  /// True if a line holds the numbers that are multiplied and added up: a row of the left matrix, a column of the right
  /// one. Otherwise there is a line for each term of the sums.
  bool along_terms;
};
template <class Lines>
Operand(Lines, bool) -> Operand<Lines>;

/// Numbers of an operand for the registers, and the distances between its rows (or columns) and between its terms.
template <class A>
struct Block {
  const A* first;
  std::int64_t stride;
  std::int64_t term_stride;
};

/// Where sums go from the registers: a matrix whose rows are `stride` numbers apart. Null: nowhere.
template <class A>
struct SumsPlace {
  A* first = nullptr;
  std::int64_t stride = 0;
  bool is_added_to = false;  // else overwritten

  SumsPlace at(std::int64_t row, std::int64_t column) const noexcept {
    return {first + row * stride + column, stride, is_added_to};
  }
};

/// rows x (vectors * lanes) sums of `count` products each, in registers, then to `to`. The columns of b are contiguous.
template <std::int64_t rows, std::int64_t vectors, class A>
inline void multiply_registers(const Block<A>& a, const Block<A>& b, std::int64_t count,
                               const SumsPlace<A>& to) noexcept {
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
    for (std::int64_t v = 0; v < vectors; ++v) {
      A* const place = to.first + row * to.stride + v * width;
      if (to.is_added_to) sums[row][v] += Vector<A>::load_unaligned(place);
      sums[row][v].store_unaligned(place);
    }
  }
}
/// The same to a tile, whose rows are `vectors` vectors apart.
template <std::int64_t rows, std::int64_t vectors, class A>
inline void multiply_registers(const Block<A>& a, const Block<A>& b, std::int64_t count, A* tile) noexcept {
  multiply_registers<rows, vectors>(a, b, count, SumsPlace<A>{tile, vectors * lanes<A>});
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

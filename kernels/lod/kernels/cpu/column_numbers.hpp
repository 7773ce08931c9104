// SPDX-License-Identifier: Apache-2.0
/// @file
/// The rows of a sequence as one array: whole vectors of it are processed, whatever the row size.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/vector.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// One number for each column, followed by the first ones again, so that a vector may be read from any column. The rows
/// of a sequence can then be processed as one array, whatever their size.
template <class A>
class ColumnNumbers {
 public:
  static constexpr std::int64_t scratch(std::int64_t row_size) noexcept { return row_size + lanes<A>; }
  ColumnNumbers(A* numbers, std::int64_t row_size) noexcept : numbers_(numbers), row_size_(row_size) {}

  void set(const A* numbers) const noexcept {
    for (std::int64_t column = 0; column < row_size_; ++column) numbers_[column] = numbers[column];
    repeat_first();
  }
  /// Stores change(numbers, column) for each vector of numbers, the first of which belongs to `column`.
  template <class Change>
  void set(const A* numbers, const Change& change) const noexcept {
    for (std::int64_t column = 0; column < row_size_; column += lanes<A>) {
      const Vector<A> some = load_vector(numbers + column, std::min(row_size_ - column, lanes<A>), A{1});
      change(some, column).store_unaligned(numbers_ + column);
    }
    repeat_first();
  }
  Vector<A> operator()(std::int64_t column) const noexcept { return Vector<A>::load_unaligned(numbers_ + column); }

 private:
  void repeat_first() const noexcept {
    if (row_size_ >= lanes<A>) return (*this)(0).store_unaligned(numbers_ + row_size_);
    for (std::int64_t i = 0; i < lanes<A>; ++i) numbers_[row_size_ + i] = numbers_[i];
  }
  A* numbers_;
  std::int64_t row_size_;
};

/// Calls body(i, count, column) for each vector of `rows` rows, taken as one array: the vector holds the numbers from i
/// on, the first of which is in `column`. `count` is `lanes<T>`, except perhaps in the last vector.
template <class T, class Body>
inline void for_each_vector(std::int64_t rows, std::int64_t row_size, const Body& body) {
  const std::int64_t numbers = rows * row_size;
  const std::int64_t step = lanes<T> % row_size;
  std::int64_t column = 0, i = 0;
  for (; i + lanes<T> <= numbers; i += lanes<T>) {
    body(i, lanes<T>, column);
    column += step;
    if (column >= row_size) column -= row_size;
  }
  if (i < numbers) body(i, numbers - i, column);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

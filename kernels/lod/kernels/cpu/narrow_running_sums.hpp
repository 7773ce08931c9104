// SPDX-License-Identifier: Apache-2.0
/// @file
/// Running sums of rows of a few numbers, as many rows at a time as a vector holds. Each step adds one row to itself
/// and to all that follow it: so each number is added up in the order of the rows, and none waits for memory.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/row_words.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/sum_tree.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if LOD_MOVES_WORDS
namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <class T, class Y>
class NarrowRunningSums {
  using A = Accumulator<T>;

 public:
  /// The numbers that a row may have.
  static constexpr std::int64_t least = 2, most = lanes<T> / 2;
  /// How many sequences are processed at a time: each addition waits for the one before it in its sequence.
  static constexpr std::size_t side_by_side = 4;

  NarrowRunningSums(std::int64_t row_size, bool exclusive, bool reverse) noexcept
      : row_size_(row_size),
        rows_(row_size >= least && row_size <= most ? lanes<T> / row_size : 0),
        reverse_(reverse),
        exclusive_(exclusive) {
    constexpr auto words = static_cast<std::int32_t>(sizeof(A) / sizeof(float));
    const auto row_words = static_cast<std::int32_t>(row_size) * words, rows = static_cast<std::int32_t>(rows_);
    if (rows == 0) return;
    // The rows are counted in the order in which they are added.
    alignas(64) A order[Vector<T>::size];
    for (std::int32_t i = 0, place = 0, column = 0; i < word_lanes; ++i) {
      order[i / words] = static_cast<A>(reverse_ ? rows - 1 - place : place);
      for (std::int32_t k = 0; k < rows; ++k) added_[k][i] = (reverse ? rows - 1 - k : k) * row_words + column;
      if (++column == row_words) column = 0, ++place;
    }
    const auto orders = Vector<T>::load_aligned(order);
    for (std::int32_t k = 0; k < rows; ++k) {
      const Vector<T> row(static_cast<A>(exclusive ? k + 1 : k));
      to_[k] = row <= orders;
    }
  }

  /// Whether rows have `least` to `most` numbers.
  bool fits() const noexcept { return rows_ > 0; }

  /// The numbers of a sequence, and where their running sums go, which may be the same place.
  struct Numbers {
    const T* x;
    Y* y;  ///< may be null if there is one sequence
    std::int64_t count;
  };

  /// Computes the running sums of several sequences, each of which begins with the numbers of `totals`, and writes
  /// finish(sums) of each vector. `totals` become those of the sequences, repeated.
  template <std::size_t size, class Finish>
  void operator()(const Numbers (&sequences)[size], Vector<T> (&totals)[size], const Finish& finish) const noexcept {
    const bool exclusive = exclusive_, reverse = reverse_;
    const std::int64_t steps = exclusive ? rows_ - 1 : rows_, most_numbers = rows_ * row_size_;
    const auto last = WordPlaces::load_aligned(added_[rows_ - 1]);
    const Vector<T> none(empty_sum<A>());
    std::int64_t longest = 0, left[size];
    Vector<T> sums[size];
#  pragma GCC unroll 16
    for (std::size_t i = 0; i < size; ++i) {
      left[i] = sequences[i].count;
      longest = std::max(longest, left[i]);
      sums[i] = totals[i];
    }
    for (std::int64_t done = 0; done < longest; done += most_numbers) {
      Vector<T> rows[size];
      std::int64_t count[size];
#  pragma GCC unroll 16
      for (std::size_t i = 0; i < size; ++i) {
        count[i] = std::min(most_numbers, left[i]);
        left[i] -= count[i];
        const T* const x = sequences[i].x + (reverse ? left[i] : done);
        rows[i] = masked<T> || count[i] < lanes<T> ? load(x, count[i], empty_sum<A>()) : load(x);
      }
      for (std::int64_t k = 0; k < steps; ++k) {
        const auto places = WordPlaces::load_aligned(added_[k]);
#  pragma GCC unroll 16
        for (std::size_t i = 0; i < size; ++i) {
          sums[i] += xsimd::select(to_[k], moved(rows[i], places), none);
        }
      }
#  pragma GCC unroll 16
      for (std::size_t i = 0; i < size; ++i) {
        if (size > 1 || sequences[i].y) {
          Y* const y = sequences[i].y + (reverse ? left[i] : done);
          const Vector<T> result = finish(sums[i]);
          masked<Y> || count[i] < lanes<T> ? store<Y>(y, result, count[i]) : store<Y>(y, result);
        }
        sums[i] = moved(sums[i], last);
        if (exclusive) sums[i] += moved(rows[i], last);
      }
    }
#  pragma GCC unroll 16
    for (std::size_t i = 0; i < size; ++i) totals[i] = sums[i];
  }

  /// A row in the place of each row of a vector.
  Vector<T> repeated(const A* row) const noexcept {
    const Vector<T> numbers = load_vector(row, row_size_);
    return moved(numbers, WordPlaces::load_aligned(added_[reverse_ ? rows_ - 1 : 0]));
  }

 private:
  [[gnu::always_inline]] static Vector<T> moved(const Vector<T>& numbers, const WordPlaces& places) noexcept {
    return __builtin_bit_cast(Vector<T>, cpu::moved(__builtin_bit_cast(Words, numbers), places));
  }

  std::int64_t row_size_;
  std::int64_t rows_;  // in a vector
  bool reverse_;
  bool exclusive_;
  // For each row: itself in the place of each row of a vector, and the rows to which it is added.
  alignas(64) std::int32_t added_[static_cast<std::size_t>(lanes<T> / least)][static_cast<std::size_t>(word_lanes)];
  typename Vector<T>::batch_bool_type to_[static_cast<std::size_t>(lanes<T> / least)];
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu
#endif

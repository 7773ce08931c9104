// SPDX-License-Identifier: Apache-2.0
/// @file
/// Exponentials of many short sequences of narrow rows at once, and their sums: what softmax and logsumexp have in
/// common.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/column_numbers.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/for_each_short_sequence.hpp>
#include <lod/kernels/cpu/narrow_rows.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/sequence_pool.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// A block of many short sequences of rows of 1 to 7 columns: computations for each number treat them as one array, so
/// that no vector is cut at the end of a sequence; only the maxima and the sums are for each column of a sequence.
template <class T>
class NarrowExponentials {
 protected:
  using A = Accumulator<T>;

 private:
  static constexpr A least = -std::numeric_limits<A>::infinity();
  /// The numbers of a block fit the first-level cache.
  static constexpr std::int64_t most_numbers = 2048;
  static constexpr std::int64_t most_columns = 512;
  /// How many numbers after those of a block may be read and written.
  static constexpr std::int64_t slack = 64;

 public:
  static constexpr std::int64_t scratch() noexcept { return 2 * (most_numbers + slack) + 2 * most_columns; }
  NarrowExponentials(A* scratch, std::int64_t row_size) noexcept
      : row_size_(row_size),
        terms_(scratch),
        others_(terms_ + most_numbers + slack),
        shifts_(others_ + most_numbers + slack),
        sums_(shifts_ + most_columns) {}

  /// The end, at most `end`, of the block of sequences from `begin` on: it stops before a sequence of more than a leaf
  /// of rows. It is `begin` if the first sequence is that long, or has more numbers than a block.
  std::int64_t block_end(const Segments& sequences, std::int64_t begin, std::int64_t end) const noexcept {
    std::int64_t last = begin;
    const std::int64_t full = sequences.begin(begin) + most_numbers / row_size_;
    const std::int64_t most = std::min(end, begin + (most_columns - slack) / row_size_);
    while (last < most && sequences.begin(last + 1) <= full && sequences.length(last) <= leaf_rows) ++last;
    return last;
  }

 protected:
  /// to[k] = exp(x[k]) for the numbers of a block.
  void plain_exponentials(const T* x, std::int64_t count, std::int64_t readable, A* to) const noexcept {
    for_each_vector<T>(count, 1, [=](std::int64_t k, std::int64_t some, std::int64_t) {
      // The next block is read after all passes over this one, which is too far for the hardware to read ahead.
      __builtin_prefetch(x + k + most_numbers, 0, 2);
      exponential(load_vector(x + k, some, A{}, readable - k)).store_unaligned(to + k);
    });
  }
  /// to[k] = exp(terms_[k]).
  void exponentials(std::int64_t count, A* to) const noexcept {
    for (std::int64_t k = 0; k < count; k += lanes<A>) {
      exponential(Vector<A>::load_unaligned(terms_ + k)).store_unaligned(to + k);
    }
  }

  /// sums_[c] = the sum of the terms of column c of the block, the columns of one sequence after those of the one
  /// before; `none` for an empty sequence.
  void sum(const Segments& block, const A* terms, A none) const noexcept {
    const std::int64_t readable = block.rows() * row_size_ + slack;
    if constexpr (ShortSequences<A>::available) {
      if (row_size_ == 1) {
        const auto one = [&](std::int64_t i) { sum_one<1>(block, i, terms, readable, none); };
        const auto pool = [none](const ShortSequences<A>& some, std::int64_t i, A* sums) {
          return some.pool_sums(i, PoolType::SUM, none, sums);
        };
        const PooledShortSequences some(ShortSequences<A>(terms, block, readable), pool, none, sums_);
        return for_each_short_sequence(0, block.size, some, one);
      }
    }
    with_narrow_columns(row_size_, [&](auto columns) {
      for (std::int64_t i = 0; i < block.size; ++i) sum_one<columns>(block, i, terms, readable, none);
    });
  }

  /// shifts_[c] = the greatest number of column c; -inf for an empty sequence.
  void maxima(const T* x, const Segments& block, std::int64_t readable) const noexcept {
    if constexpr (ShortSequences<T>::available) {
      if (row_size_ == 1) {
        const auto one = [&](std::int64_t i) { find_greatest<1>(x, block, i, readable); };
        const auto pool = [](const ShortSequences<T>& some, std::int64_t i, A* greatest) {
          return some.pool_greatest(i, greatest);
        };
        const PooledShortSequences some(ShortSequences<T>(x, block, readable), pool, least, shifts_);
        return for_each_short_sequence(0, block.size, some, one);
      }
    }
    with_narrow_columns(row_size_, [&](auto columns) {
      for (std::int64_t i = 0; i < block.size; ++i) find_greatest<columns>(x, block, i, readable);
    });
  }
  /// After `maxima`: terms_[k] = x[k] - the shift of its column, and shifts_[c] = shift_of(shifts_[c], sums_[c]), for
  /// vectors of them.
  template <class ShiftOf>
  void subtract_shifts(const T* x, const Segments& block, std::int64_t readable,
                       const ShiftOf& shift_of) const noexcept {
    for (std::int64_t c = 0; c < block.size * row_size_; c += lanes<A>) {
      const auto greatest = Vector<A>::load_unaligned(shifts_ + c);
      shift_of(greatest, Vector<A>::load_unaligned(sums_ + c)).store_unaligned(shifts_ + c);
    }
    const auto subtract = [=, terms = terms_](std::int64_t k, std::int64_t some, const Vector<A>& shift) {
      const Vector<T> numbers = readable - k < lanes<T> ? load(x + k, some, A{}) : load(x + k);
      (numbers - shift).store_unaligned(terms + k);
    };
    for_each_vector_of_sequences(block, subtract, shifts_);
  }

  /// Calls body(k, count, number, ...) for vectors of the numbers of a sequence, from number k on, in the order of the
  /// sequences: what a call writes after the end of its sequence, the next call overwrites. The first `count` numbers
  /// belong to the sequence; `count` may exceed the number of lanes, or be negative. `number` holds, for each of them,
  /// its column's entry in `numbers`.
  template <class Body, class... Numbers>
  void for_each_vector_of_sequences(const Segments& of, const Body& body, const Numbers*... numbers) const noexcept {
    const Segments block = of;  // a copy, so that it is not reloaded after each store
    if (row_size_ == 1) {
      for (std::int64_t i = 0; i < block.size; ++i) {
        const std::int64_t first = block.begin(i), length = block.length(i);
        if (length == 0) continue;
        const auto call = [&](std::int64_t k, const Vector<Numbers>&... number) {
          body(first + k, length - k, number...);
        };
        const auto call_all = [&](const Vector<Numbers>&... number) {
          // A fixed number of steps, so that all short sequences are alike to the branch predictor.
          std::int64_t k = 0;
          for (; k < 32; k += lanes<T>) call(k, number...);
          for (; k < length; k += lanes<T>) call(k, number...);
        };
        call_all(Vector<Numbers>(numbers[i])...);
      }
      return;
    }
    with_narrow_columns<2>(row_size_, [&](auto columns) { for_each_narrow<columns()>(block, body, numbers...); });
  }

  std::int64_t row_size_;
  A* terms_;
  A* others_;
  A* shifts_;  // of each column of each sequence
  A* sums_;    // likewise

 private:
  /// A function of its own, since nvcc refuses `columns` of a lambda in the parameters of another one.
  template <std::size_t columns, class Body, class... Numbers>
  static void for_each_narrow(const Segments& block, const Body& body, const Numbers*... numbers) noexcept {
    constexpr auto row_size = static_cast<std::int64_t>(columns);
    for (std::int64_t i = 0; i < block.size; ++i) {
      const std::int64_t end = block.begin(i + 1) * row_size;
      const auto call_all = [&](const RepeatedColumns<columns, Numbers>&... number) {
        for (std::int64_t k = block.begin(i) * row_size; k < end;) {
#pragma GCC unroll 16
          for (std::size_t v = 0; v < columns; ++v, k += lanes<T>) {
            if (k >= end) break;  // as the loop's condition it would make g++ warn at -O0
            body(k, end - k, number.vector[v]...);
          }
        }
      };
      call_all(RepeatedColumns<columns, Numbers>(numbers + i * row_size)...);
    }
  }
  template <std::size_t columns>
  void sum_one(const Segments& block, std::int64_t i, const A* terms, std::int64_t readable, A none) const noexcept {
    constexpr auto row_size = static_cast<std::int64_t>(columns);
    const std::int64_t first = block.begin(i) * row_size;
    A* const sum = sums_ + i * row_size;
    sum_narrow_leaf<columns, A>(ContiguousRows<A>{terms + first, row_size, readable - first}, 0, block.length(i), sum);
    if (block.length(i) == 0) std::fill_n(sum, columns, none);
  }
  template <std::size_t columns>
  void find_greatest(const T* x, const Segments& block, std::int64_t i, std::int64_t readable) const noexcept {
    constexpr auto row_size = static_cast<std::int64_t>(columns);
    const std::int64_t first = block.begin(i) * row_size;
    const ContiguousRows<T> rows{x + first, row_size, readable - first};
    const auto greater = [](const Vector<T>& a, const Vector<T>& b) { return xsimd::max(a, b); };
    join_narrow_rows<columns>(rows, 0, block.length(i), least, greater).store(shifts_ + i * row_size);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

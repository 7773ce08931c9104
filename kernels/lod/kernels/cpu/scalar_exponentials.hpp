// SPDX-License-Identifier: Apache-2.0
/// @file
/// Exponentials of many short sequences of scalar rows at once, and their sums: what softmax and logsumexp have in
/// common.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/for_each_short_sequence.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/softmax_terms.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/sequence_pool.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// A block of many short sequences of scalar rows: computations for each number treat them as one array, so that no
/// vector is cut at the end of a sequence; only the maxima and the sums are per sequence.
template <class T>
class ScalarExponentials {
 protected:
  using A = Accumulator<T>;

 private:
  /// The numbers of a block fit the first-level cache.
  static constexpr std::int64_t most_numbers = 2048;
  static constexpr std::int64_t most_sequences = 512;
  /// So many numbers after those of a block may be read and written.
  static constexpr std::int64_t slack = 64;

 public:
  static constexpr std::int64_t scratch() noexcept { return 2 * (most_numbers + slack) + 2 * most_sequences; }
  explicit ScalarExponentials(A* scratch) noexcept
      : terms_(scratch),
        others_(terms_ + most_numbers + slack),
        shifts_(others_ + most_numbers + slack),
        sums_(shifts_ + most_sequences) {}

  /// The end, at most `end`, of the block of sequences from `begin` on: it stops before a sequence of more than a leaf
  /// of rows. It is `begin` if the first sequence is such a one, or has more numbers than a block.
  static std::int64_t block_end(const Segments& sequences, std::int64_t begin, std::int64_t end,
                                std::int64_t row_size = 1) noexcept {
    std::int64_t last = begin;
    const std::int64_t full = sequences.begin(begin) + most_numbers / row_size;
    const std::int64_t most = std::min(end, begin + (most_sequences - slack) / row_size);
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

  /// sums_[i] = the sum of the terms of sequence i; 1 for an empty one, which needs no shift.
  void sum(const Segments& block, const A* terms) const noexcept {
    const std::int64_t readable = block.rows() + slack;
    const auto one = [&](std::int64_t i) {
      const ContiguousRows<A> rows{terms + block.begin(i), 1, readable - block.begin(i)};
      sum_narrow_leaf<1, A>(rows, 0, block.length(i), sums_ + i);
      if (block.length(i) == 0) sums_[i] = A{1};
    };
    if constexpr (ShortSequences<A>::available) {
      const auto pool = [](const ShortSequences<A>& some, std::int64_t i, A* sums) {
        return some.pool_sums(i, PoolType::SUM, A{1}, sums);
      };
      const PooledShortSequences some(ShortSequences<A>(terms, block, readable), pool, A{1}, sums_);
      for_each_short_sequence(0, block.size, some, one);
    } else {
      for (std::int64_t i = 0; i < block.size; ++i) one(i);
    }
  }

  /// shifts_[i] = the greatest number of sequence i; unspecified for an empty sequence.
  void maxima(const T* x, const Segments& block, std::int64_t readable) const noexcept {
    const auto maximum = [&](std::int64_t i) {
      if (block.length(i) > 0) shifts_[i] = greatest_number(x + block.begin(i), block.length(i));
    };
    if constexpr (ShortSequences<T>::available) {
      const auto pool = [](const ShortSequences<T>& some, std::int64_t i, A* greatest) {
        return some.pool_greatest(i, greatest);
      };
      const PooledShortSequences some(ShortSequences<T>(x, block, readable), pool, A{}, shifts_);
      for_each_short_sequence(0, block.size, some, maximum);
    } else {
      for (std::int64_t i = 0; i < block.size; ++i) maximum(i);
    }
  }
  /// After `maxima`: terms_[k] = x[k] - the shift of its sequence, and shifts_[i] = shift_of(shifts_[i], sums_[i]),
  /// for vectors of them.
  template <class ShiftOf>
  void subtract_shifts(const T* x, const Segments& block, std::int64_t readable,
                       const ShiftOf& shift_of) const noexcept {
    for (std::int64_t i = 0; i < block.size; i += lanes<A>) {
      const auto greatest = Vector<A>::load_unaligned(shifts_ + i);
      shift_of(greatest, Vector<A>::load_unaligned(sums_ + i)).store_unaligned(shifts_ + i);
    }
    for_each_vector_of_sequences(block, [=, terms = terms_, shifts = shifts_](std::int64_t i) {
      const Vector<A> shift(shifts[i]);
      return [=](std::int64_t k, std::int64_t some) {
        const Vector<T> numbers = readable - k < lanes<T> ? load(x + k, some, A{}) : load(x + k);
        (numbers - shift).store_unaligned(terms + k);
      };
    });
  }

  /// Calls body_of(i)(k, count) for vectors that hold the numbers of sequence i from number k on, in the order of the
  /// sequences: what one writes after the end of a sequence, the next one overwrites. The first `count` numbers belong
  /// to the sequence; `count` may exceed the number of lanes, or be negative.
  template <class BodyOf>
  static void for_each_vector_of_sequences(const Segments& of, const BodyOf& body_of) noexcept {
    const Segments block = of;  // a copy, so that it is not reloaded after each store
    for (std::int64_t i = 0; i < block.size; ++i) {
      const std::int64_t first = block.begin(i), length = block.length(i);
      if (length == 0) continue;
      const auto body = body_of(i);
      // A fixed number of steps, so that all short sequences are alike to the branch predictor.
      std::int64_t k = 0;
      for (; k < 32; k += lanes<T>) body(first + k, length - k);
      for (; k < length; k += lanes<T>) body(first + k, length - k);
    }
  }

  A* terms_;
  A* others_;
  A* shifts_;  // of each sequence
  A* sums_;    // likewise
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Softmax of short sequences of scalar rows: many at once.
#pragma once

#include <lod/kernel.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/short_sequences.hpp>
#include <lod/kernels/cpu/softmax_terms.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_TARGET {
namespace kernel::cpu {

/// Many short sequences of scalar rows at once: what is worked out for each number goes through them as one array, so
/// that no vector is cut by the end of a sequence; only the maxima and the sums are by sequence.
template <bool logarithm, class T>
class ScalarSoftmax {
  using A = Accumulator<T>;
  /// A block keeps its numbers in the first-level cache.
  static constexpr std::int64_t most_numbers = 2048;
  static constexpr std::int64_t most_sequences = 512;
  /// Behind the numbers of a block, so many may be read and written.
  static constexpr std::int64_t slack = 64;

 public:
  static constexpr std::int64_t scratch() noexcept { return 2 * (most_numbers + slack) + 2 * most_sequences; }
  ScalarSoftmax(A* scratch, const LargeOutput& output) noexcept
      : output_(output),
        terms_(scratch),
        others_(terms_ + most_numbers + slack),
        shifts_(others_ + most_numbers + slack),
        sums_(shifts_ + most_sequences) {}

  /// The end of the block of sequences from `begin` on, before `end`: it stops before a sequence of more than a leaf of
  /// rows. It is `begin` where that is such a one.
  static std::int64_t block_end(const Segments& sequences, std::int64_t begin, std::int64_t end) noexcept {
    std::int64_t last = begin;
    const std::int64_t full = sequences.begin(begin) + most_numbers, most = std::min(end, begin + most_sequences);
    while (last < most && sequences.begin(last + 1) <= full && sequences.length(last) <= leaf_rows) ++last;
    return last;
  }

  /// The sequences of a block; x and y may be the same. `readable` numbers may be read from x on.
  void run(const T* x, const Segments& block, std::int64_t readable, T* y) const noexcept {
    const std::int64_t count = block.rows();
    // The logarithm also keeps what is shifted.
    A* const exponentials = logarithm ? others_ : terms_;
    bool shifted = logarithm;
    if (!logarithm) {
      for_each_vector<T>(count, 1, [=](std::int64_t k, std::int64_t some, std::int64_t) {
        // The next block is read after all passes over this one, and the machine does not read ahead so far.
        __builtin_prefetch(x + k + most_numbers, 0, 2);
        exponential(load_vector(x + k, some, A{}, readable - k)).store_unaligned(exponentials + k);
      });
      sum(block, exponentials);
      shifted = !are_plain(sums_, block.size);
    }
    if (shifted) {
      subtract_shifts(x, block, readable);
      for (std::int64_t k = 0; k < count; k += lanes<A>) {
        exponential(Vector<A>::load_unaligned(terms_ + k)).store_unaligned(exponentials + k);
      }
      sum(block, exponentials);
    }
    transform(sums_, block.size, sums_, softmax_normaliser<logarithm, A>);
    if (!logarithm) transform(sums_, block.size, shifts_, [](const Vector<A>& sum) { return Vector<A>(A{1}) / sum; });
    for_each_vector_of_sequences(
        block, [terms = terms_, results = others_, sums = sums_, reciprocals = shifts_](std::int64_t i) {
          const Vector<A> sum(sums[i]), reciprocal(reciprocals[i]);
          return [=](std::int64_t k, std::int64_t) {
            const auto term = Vector<A>::load_unaligned(terms + k);
            (logarithm ? term - sum : softmax_quotient(term, sum, reciprocal)).store_unaligned(results + k);
          };
        });
    if constexpr (std::same_as<T, A>) {
      output_.copy(others_, count, y);
    } else {
      convert(others_, count, y);
    }
  }

 private:
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

  /// terms_[k] = x[k] - the shift of its sequence. Other than a logarithm's, sums_ are those of what is not shifted.
  void subtract_shifts(const T* x, const Segments& block, std::int64_t readable) const noexcept {
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
    for (std::int64_t i = 0; i < block.size; i += lanes<A>) {
      const auto greatest = Vector<A>::load_unaligned(shifts_ + i);
      const auto total = Vector<A>::load_unaligned(sums_ + i);
      (logarithm ? softmax_shift(greatest) : softmax_shift(greatest, total)).store_unaligned(shifts_ + i);
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
  /// sequences: what one writes behind the end of a sequence, the next one writes again. The first `count` are the
  /// sequence's; that may be more than there are lanes, or less than none.
  template <class BodyOf>
  static void for_each_vector_of_sequences(const Segments& of, const BodyOf& body_of) noexcept {
    const Segments block = of;  // not read again after each store
    for (std::int64_t i = 0; i < block.size; ++i) {
      const std::int64_t first = block.begin(i), length = block.length(i);
      if (length == 0) continue;
      const auto body = body_of(i);
      // So many that short sequences are all alike.
      std::int64_t k = 0;
      for (; k < 32; k += lanes<T>) body(first + k, length - k);
      for (; k < length; k += lanes<T>) body(first + k, length - k);
    }
  }

  LargeOutput output_;
  A* terms_;
  A* others_;  // the exponentials of a logarithm, then the results
  A* shifts_;  // of each sequence: the maximum, what is subtracted, then one over the sum
  A* sums_;    // likewise: at last what it is normalised by
};

}  // namespace kernel::cpu
}  // namespace lod::inline LOD_TARGET

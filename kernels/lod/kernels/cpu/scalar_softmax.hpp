// SPDX-License-Identifier: Apache-2.0
/// @file
/// Softmax of many short sequences of scalar rows at once.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/scalar_exponentials.hpp>
#include <lod/kernels/cpu/softmax_terms.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// See `ScalarExponentials`. `terms_` holds the numbers to normalise; `others_` the exponentials for the logarithm,
/// then the results; finally `shifts_` holds the sums' reciprocals, and `sums_` what terms are normalised by.
template <bool logarithm, class T>
class ScalarSoftmax : public ScalarExponentials<T> {
  using Base = ScalarExponentials<T>;
  using Base::others_, Base::shifts_, Base::sums_, Base::terms_;
  using typename Base::A;

 public:
  ScalarSoftmax(A* scratch, const LargeOutput& output) noexcept : Base(scratch), output_(output) {}

  /// Processes the sequences of a block; x and y may be the same. `readable` numbers may be read from x on.
  void run(const T* x, const Segments& block, std::int64_t readable, T* y) noexcept {
    const std::int64_t count = block.rows();
    // The logarithm also keeps the shifted numbers.
    A* const exponentials = logarithm ? others_ : terms_;
    bool shifted = logarithm || block_before_ == Block::SHIFTED;
    if (shifted) this->maxima(x, block, readable);
    if constexpr (!logarithm) {
      // Where the maxima tell of most sequences that their exponentials need a shift, those of the block are not tried.
      if (shifted && 4 * unsure(block) <= block.size) {
        sum_unless_shifted(x, block, readable);
      } else {
        this->plain_exponentials(x, count, readable, exponentials);
        this->sum(block, exponentials);
        const bool has_maxima = shifted;
        shifted = !are_plain(sums_, block.size);
        if (shifted && !has_maxima) this->maxima(x, block, readable);
      }
      block_before_ = are_plain(sums_, block.size) ? Block::PLAIN : Block::SHIFTED;
    }
    if (shifted) {
      this->subtract_shifts(x, block, readable, [](const Vector<A>& greatest, const Vector<A>& total) {
        return logarithm ? softmax_shift(greatest) : softmax_shift(greatest, total);
      });
      this->exponentials(count, exponentials);
      this->sum(block, exponentials);
    }
    transform(sums_, block.size, sums_, softmax_normaliser<logarithm, A>);
    if (!logarithm) transform(sums_, block.size, shifts_, [](const Vector<A>& sum) { return Vector<A>(A{1}) / sum; });
    this->for_each_vector_of_sequences(
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
  enum class Block { PLAIN, SHIFTED };

  /// After `maxima`: the sequences whose maximum does not tell whether their exponentials need a shift.
  std::int64_t unsure(const Segments& of) const noexcept {
    const Segments block = of;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < block.size; ++i) count += block.length(i) > 0 && !needs_shift(shifts_[i]);
    return count;
  }
  /// After `maxima`: sums_[i] = the sum of the exponentials of sequence i; 0 where its maximum tells that they need a
  /// shift, 1 for an empty sequence.
  void sum_unless_shifted(const T* x, const Segments& of, std::int64_t readable) const noexcept {
    const Segments block = of;  // a copy, so that it is not reloaded after each store
    for (std::int64_t i = 0; i < block.size; ++i) {
      const std::int64_t first = block.begin(i), length = block.length(i);
      sums_[i] = static_cast<A>(length == 0);
      if (length == 0 || needs_shift(shifts_[i])) continue;
      for (std::int64_t k = 0; k < length; k += lanes<T>) {
        const std::int64_t at = first + k;
        exponential(load_vector(x + at, std::min(length - k, lanes<T>), A{}, readable - at))
            .store_unaligned(terms_ + at);
      }
      sum_narrow_leaf<1, A>(ContiguousRows<A>{terms_ + first, 1, length}, 0, length, sums_ + i);
    }
  }

  LargeOutput output_;
  Block block_before_ = Block::PLAIN;  // its exponentials tell what to expect
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

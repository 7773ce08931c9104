// SPDX-License-Identifier: Apache-2.0
/// @file
/// Softmax of many short sequences of narrow rows at once.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/narrow_exponentials.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/softmax_terms.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// See `NarrowExponentials`. `terms_` holds the numbers to normalise; `others_` the exponentials for the logarithm,
/// then the results; finally `shifts_` holds the sums' reciprocals, and `sums_` what terms are normalised by.
template <bool logarithm, class T>
class NarrowSoftmax : public NarrowExponentials<T> {
  using Base = NarrowExponentials<T>;
  using Base::others_, Base::row_size_, Base::shifts_, Base::sums_, Base::terms_;
  using typename Base::A;

 public:
  NarrowSoftmax(A* scratch, std::int64_t row_size, const LargeOutput& output) noexcept
      : Base(scratch, row_size), output_(output) {}

  /// Processes the sequences of a block; x and y may be the same. `readable` numbers may be read from x on.
  void run(const T* x, const Segments& block, std::int64_t readable, T* y) noexcept {
    const std::int64_t count = block.rows() * row_size_, columns = block.size * row_size_;
    // The logarithm also keeps the shifted numbers.
    A* const exponentials = logarithm ? others_ : terms_;
    bool shifted = logarithm || block_before_ == Block::SHIFTED;
    if (shifted) this->maxima(x, block, readable);
    if constexpr (!logarithm) {
      // If the maxima show that most sequences need a shift, the plain exponentials of the block are not tried.
      if (shifted && 4 * unsure(block) <= columns) {
        sum_unless_shifted(x, block, readable);
      } else {
        this->plain_exponentials(x, count, readable, exponentials);
        this->sum(block, exponentials, A{1});
        const bool has_maxima = shifted;
        shifted = !are_plain(sums_, columns);
        if (shifted && !has_maxima) this->maxima(x, block, readable);
      }
      block_before_ = are_plain(sums_, columns) ? Block::PLAIN : Block::SHIFTED;
    }
    if (shifted) {
      this->subtract_shifts(x, block, readable, [](const Vector<A>& greatest, const Vector<A>& total) {
        return logarithm ? softmax_shift(greatest) : softmax_shift(greatest, total);
      });
      this->exponentials(count, exponentials);
      this->sum(block, exponentials, A{1});
    }
    transform(sums_, columns, sums_, softmax_normaliser<logarithm, A>);
    if (!logarithm) transform(sums_, columns, shifts_, [](const Vector<A>& sum) { return Vector<A>(A{1}) / sum; });
    if constexpr (logarithm) {
      const auto subtract = [terms = terms_, results = others_](std::int64_t k, std::int64_t, const Vector<A>& sum) {
        (Vector<A>::load_unaligned(terms + k) - sum).store_unaligned(results + k);
      };
      this->for_each_vector_of_sequences(block, subtract, sums_);
    } else {
      const auto divide = [terms = terms_, results = others_](std::int64_t k, std::int64_t, const Vector<A>& sum,
                                                              const Vector<A>& reciprocal) {
        softmax_quotient(Vector<A>::load_unaligned(terms + k), sum, reciprocal).store_unaligned(results + k);
      };
      this->for_each_vector_of_sequences(block, divide, sums_, shifts_);
    }
    if constexpr (std::same_as<T, A>) {
      output_.copy(others_, count, y);
    } else {
      convert(others_, count, y);
    }
  }

 private:
  enum class Block { PLAIN, SHIFTED };

  /// After `maxima`: the number of columns whose maximum does not show whether their exponentials need a shift.
  std::int64_t unsure(std::int64_t i) const noexcept {
    std::int64_t count = 0;
    for (std::int64_t c = i * row_size_; c < (i + 1) * row_size_; ++c) count += !needs_shift(shifts_[c]);
    return count;
  }
  std::int64_t unsure(const Segments& of) const noexcept {
    const Segments block = of;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < block.size; ++i) count += block.length(i) > 0 ? unsure(i) : 0;
    return count;
  }
  /// After `maxima`: sums_[c] = the sum of the exponentials of column c; 0 if the maxima of a sequence show that all of
  /// its columns need a shift, 1 for an empty sequence.
  void sum_unless_shifted(const T* x, const Segments& of, std::int64_t readable) const noexcept {
    const Segments block = of;  // a copy, so that it is not reloaded after each store
    for (std::int64_t i = 0; i < block.size; ++i) {
      const std::int64_t first = block.begin(i) * row_size_, numbers = block.length(i) * row_size_;
      A* const sum = sums_ + i * row_size_;
      std::fill_n(sum, row_size_, static_cast<A>(numbers == 0));
      if (numbers == 0 || unsure(i) == 0) continue;
      for (std::int64_t k = 0; k < numbers; k += lanes<T>) {
        const std::int64_t at = first + k;
        exponential(load_vector(x + at, std::min(numbers - k, lanes<T>), A{}, readable - at))
            .store_unaligned(terms_ + at);
      }
      sum_leaf<A>(ContiguousRows<A>{terms_ + first, row_size_, numbers}, 0, block.length(i), row_size_, sum);
    }
  }

  LargeOutput output_;
  Block block_before_ = Block::PLAIN;  // its exponentials tell what to expect
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

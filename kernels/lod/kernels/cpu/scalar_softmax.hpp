// SPDX-License-Identifier: Apache-2.0
/// @file
/// Softmax of many short sequences of scalar rows at once.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/large_output.hpp>
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
    // Where the maxima tell that no sum would be plain, that need not be tried.
    if (!logarithm && !(shifted && need_shifts(block))) {
      this->plain_exponentials(x, count, readable, exponentials);
      this->sum(block, exponentials);
      shifted = !are_plain(sums_, block.size);
      if (shifted) this->maxima(x, block, readable);
    } else {
      std::fill_n(sums_, block.size, A{});
    }
    if (shifted) {
      this->subtract_shifts(x, block, readable, [](const Vector<A>& greatest, const Vector<A>& total) {
        return logarithm ? softmax_shift(greatest) : softmax_shift(greatest, total);
      });
      this->exponentials(count, exponentials);
      this->sum(block, exponentials);
    }
    block_before_ = shifted ? Block::SHIFTED : Block::PLAIN;
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
  /// Whether the maxima alone tell that the exponentials of every sequence need a shift.
  bool need_shifts(const Segments& block) const noexcept {
    bool all = true;
    for (std::int64_t i = 0; i < block.size; ++i) all &= block.length(i) == 0 || needs_shift(shifts_[i]);
    return all;
  }

  LargeOutput output_;
  Block block_before_ = Block::PLAIN;  // its exponentials tell what to expect
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

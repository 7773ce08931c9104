// SPDX-License-Identifier: Apache-2.0
/// @file
/// Softmax of many short sequences of narrow rows at once.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/narrow_rows.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/scalar_exponentials.hpp>
#include <lod/kernels/cpu/softmax_terms.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/kernel.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// See `ScalarExponentials`, for rows of 2 to 7 numbers. `terms_` holds the exponentials, `sums_` those of each column
/// of each sequence, `shifts_` their reciprocals, `others_` the results.
template <class T>
class NarrowSoftmax : public ScalarExponentials<T> {
  using Base = ScalarExponentials<T>;
  using Base::others_, Base::shifts_, Base::sums_, Base::terms_;
  using typename Base::A;

 public:
  NarrowSoftmax(A* scratch, std::int64_t row_size, const LargeOutput& output) noexcept
      : Base(scratch), row_size_(row_size), output_(output) {}

  /// Processes the sequences of a block; x and y may be the same. `readable` numbers may be read from x on. Returns
  /// false, having written nothing, if exponentials of the block need a shift.
  bool run(const T* x, const Segments& block, std::int64_t readable, T* y) const noexcept {
    switch (row_size_) {
      case 2:
        return run<2>(x, block, readable, y);
      case 3:
        return run<3>(x, block, readable, y);
      case 4:
        return run<4>(x, block, readable, y);
      case 5:
        return run<5>(x, block, readable, y);
      case 6:
        return run<6>(x, block, readable, y);
      default:
        return run<7>(x, block, readable, y);
    }
  }

 private:
  template <std::size_t columns>
  bool run(const T* x, const Segments& of, std::int64_t readable, T* y) const noexcept {
    const Segments block = of;  // a copy, so that it is not reloaded after each store
    constexpr auto row_size = static_cast<std::int64_t>(columns);
    const std::int64_t count = block.rows() * row_size, sums = block.size * row_size;
    A *const terms = terms_, *const results = others_;
    this->plain_exponentials(x, count, readable, terms);
    for (std::int64_t i = 0; i < block.size; ++i) {
      A* const sum = sums_ + i * row_size;
      if (block.length(i) == 0) {
        std::fill_n(sum, columns, A{1});
        continue;
      }
      const ContiguousRows<A> rows{terms + block.begin(i) * row_size, row_size, count - block.begin(i) * row_size};
      sum_narrow_rows<columns, A>(rows, 0, block.length(i)).store(sum);
    }
    if (!are_plain(sums_, sums)) return false;
    transform(sums_, sums, sums_, softmax_normaliser<false, A>);
    transform(sums_, sums, shifts_, [](const Vector<A>& sum) { return Vector<A>(A{1}) / sum; });
    for (std::int64_t i = 0; i < block.size; ++i) {
      Vector<A> sum[columns], reciprocal[columns];
      repeat_columns(sums_ + i * row_size, sum);
      repeat_columns(shifts_ + i * row_size, reciprocal);
      const std::int64_t end = block.begin(i + 1) * row_size;
      for (std::int64_t k = block.begin(i) * row_size; k < end;) {
        for (std::size_t v = 0; v < columns && k < end; ++v, k += lanes<A>) {
          softmax_quotient(Vector<A>::load_unaligned(terms + k), sum[v], reciprocal[v]).store_unaligned(results + k);
        }
      }
    }
    if constexpr (std::same_as<T, A>) {
      output_.copy(results, count, y);
    } else {
      convert(results, count, y);
    }
    return true;
  }

  std::int64_t row_size_;
  LargeOutput output_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

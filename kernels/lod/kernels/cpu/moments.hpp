// SPDX-License-Identifier: Apache-2.0
/// @file
/// Means and variances on CPUs: the arithmetic of moments, and the memory in which long sequences and many columns keep
/// theirs.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/column_numbers.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/moments.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The arithmetic of <lod/kernels/moments.hpp> for numbers and vectors.
struct MomentsArithmetic {
  template <std::floating_point A>
  A product(A a, A b) const noexcept {
    const volatile A rounded = a * b;
    return rounded;
  }
  template <class A>
  [[gnu::always_inline]] xsimd::batch<A> product(const xsimd::batch<A>& a, const xsimd::batch<A>& b) const noexcept {
    xsimd::batch<A> rounded = a * b;
#if defined(__aarch64__)
    asm("" : "+w"(rounded.data));
    return rounded;
#else
    return read_once(rounded);  // which compilers do not fuse with an addition
#endif
  }
  template <std::floating_point A>
  A positive(A a) const noexcept {
    return a < 0 ? A{} : a;
  }
  template <class A>
  xsimd::batch<A> positive(const xsimd::batch<A>& a) const noexcept {
    return xsimd::select(a < xsimd::batch<A>(A{}), xsimd::batch<A>(A{}), a);
  }
  template <class V>
  V least(const V& a, const V& b) const noexcept {
    if constexpr (std::floating_point<V>) {
      return std::min(a, b);
    } else {
      return xsimd::min(a, b);
    }
  }
  template <class V>
  V greatest(const V& a, const V& b) const noexcept {
    if constexpr (std::floating_point<V>) {
      return std::max(a, b);
    } else {
      return xsimd::max(a, b);
    }
  }
};

/// The rows from `row` on.
template <class T>
ContiguousRows<T> rows_from(const ContiguousRows<T>& rows, std::int64_t row) noexcept {
  return {rows(row), rows.row_size, rows.readable - row * rows.row_size, rows.far};
}

/// Numbers for each column, in rows of whole vectors.
template <class A>
class MomentsScratch {
 public:
  static constexpr std::int64_t rows = 14;
  static constexpr std::int64_t shared_rows = 4;
  static constexpr std::int64_t stride(std::int64_t row_size) noexcept {
    return (row_size + lanes<A> - 1) / lanes<A> * lanes<A>;
  }
  static std::int64_t size(std::int64_t row_size) noexcept {
    return lod::detail::saturated_product(rows, lod::detail::saturated_sum(row_size, lanes<A>));
  }

  MomentsScratch(A* numbers, std::int64_t row_size) noexcept
      : numbers_(numbers), row_size_(row_size), stride_(stride(row_size)) {}

  std::int64_t row_size() const noexcept { return row_size_; }
  /// @{
  /// The sums of a leaf.
  A* shift() const noexcept { return row(0); }
  A* sum() const noexcept { return row(1); }
  A* squares() const noexcept { return row(2); }
  /// @}
  /// @{
  /// Moments, four rows each.
  A* all() const noexcept { return row(3); }
  A* chunk() const noexcept { return row(7); }
  /// @}
  /// @{
  /// Results.
  A* mean() const noexcept { return row(11); }
  A* mean_error() const noexcept { return row(12); }
  A* variance() const noexcept { return row(13); }
  /// @}

  /// Calls f.template operator()<V>(column) for each number, or for each vector of wide rows.
  template <class F>
  void for_each_column(const F& f) const {
    if (row_size_ <= narrow_row_size) {
      for (std::int64_t column = 0; column < row_size_; ++column) f.template operator()<A>(column);
    } else {
      for (std::int64_t column = 0; column < row_size_; column += lanes<A>) f.template operator()<Vector<A>>(column);
    }
  }
  template <class V>
  static V load(const A* from) noexcept {
    if constexpr (std::same_as<V, A>) {
      return *from;
    } else {
      return V::load_unaligned(from);
    }
  }
  template <class V>
  static void store(A* to, const V& numbers) noexcept {
    if constexpr (std::same_as<V, A>) {
      *to = numbers;
    } else {
      numbers.store_unaligned(to);
    }
  }
  template <class V>
  Moments<V> load_moments(const A* from, std::int64_t column) const noexcept {
    const auto part = [&](std::int64_t k) { return load<V>(from + k * stride_ + column); };
    return {part(0), part(1), part(2), part(3)};
  }
  template <class V>
  void store_moments(A* to, std::int64_t column, const Moments<V>& moments) const noexcept {
    store(to + column, moments.mean);
    store(to + stride_ + column, moments.mean_error);
    store(to + 2 * stride_ + column, moments.squares);
    store(to + 3 * stride_ + column, moments.squares_error);
  }
  template <class V>
  Moments<V> moments_of_leaf(std::int64_t column, std::int64_t rows_of_leaf) const noexcept {
    return leaf_moments(load<V>(shift() + column), load<V>(sum() + column), load<V>(squares() + column),
                        V(static_cast<A>(rows_of_leaf)), MomentsArithmetic());
  }

 private:
  A* row(std::int64_t k) const noexcept { return numbers_ + k * stride_; }

  A* numbers_;
  std::int64_t row_size_;
  std::int64_t stride_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Turns the sums of sequences into pooled results, on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/large_output.hpp>
#include <lod/kernels/cpu/row_sum.hpp>
#include <lod/kernels/cpu/sequence_sums.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/wide_sum.hpp>
#include <lod/ops/sequence_pool.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The divisor for the sum of `length` rows.
template <class A>
inline A pool_divisor(PoolType type, std::int64_t length) {
  switch (type) {
    case PoolType::AVERAGE:
      return static_cast<A>(length);
    case PoolType::SQRT:
      return static_cast<A>(std::sqrt(static_cast<double>(length)));
    default:
      return A{1};
  }
}

/// Fewer sums are divided one by one.
inline constexpr std::int64_t few_sums = 8;

/// Divides integers of type A in double and truncates the quotients towards zero, clamped to T. `doubt` is the relative
/// error that a quotient in double may have. Returns false, having done nothing, if double cannot hold one of the
/// integers or the error leaves open which integer a quotient becomes.
template <class T, std::integral A>
[[gnu::always_inline]] inline bool divide(double divisor, double doubt, Vector<A>& numbers) {
  typedef double Doubles __attribute__((vector_size(sizeof(Int64Vector))));
  constexpr int bits = 52;
  constexpr std::int64_t middle = std::signed_integral<A> ? std::int64_t{1} << (bits - 1) : 0;
  const Doubles quotients = __builtin_convertvector(__builtin_bit_cast(Int64Vector, numbers), Doubles) / divisor;
  const Doubles errors = quotients * doubt;
  const auto cut = [](const Doubles& x) {
    return __builtin_bit_cast(Vector<A>, __builtin_convertvector(x, Int64Vector));
  };
  Vector<A> integers = cut(quotients - errors);
  const Vector<A> wrong = ((numbers + Vector<A>(middle)) >> bits) | (integers ^ cut(quotients + errors));
  if (!xsimd::all(wrong == Vector<A>(0))) return false;
  if constexpr (sizeof(T) < sizeof(std::int64_t)) {
    constexpr std::int64_t most = lod::detail::greatest_integer<T>, least = std::signed_integral<T> ? -most - 1 : 0;
    integers = xsimd::min(xsimd::max(integers, Vector<A>(least)), Vector<A>(most));
  }
  numbers = integers;
  return true;
}

/// y = sum / sqrt(length), and so on, for `row_size` sums; for gradients, the same with dy as `sum`.
template <class T, class Sum>
inline void finish_sum(PoolType type, std::int64_t length, const Sum* sum, std::int64_t row_size, T* y) {
  using A = Accumulator<T>;
  if (type == PoolType::SUM || (std::integral<T> && length == 1)) {
    convert(sum, row_size, y);
  } else if constexpr (std::floating_point<A>) {
    const A divisor = pool_divisor<A>(type, length);
    convert(sum, row_size, y, [divisor](const auto& number) { return number / divisor; });
  } else {
    const bool average = type == PoolType::AVERAGE;
    std::int64_t i = 0;
    if (row_size >= few_sums && length < std::int64_t{1} << 51) {
      const double number = static_cast<double>(length), divisor = average ? number : std::sqrt(number);
      // Three roundings where the root is irrational: then no quotient is an integer. Branch-free: lengths are random.
      const auto root = static_cast<std::int64_t>(divisor);
      const double doubt =
          0x1p-50 * static_cast<double>(static_cast<int>(!average) & static_cast<int>(root * root != length));
      for (; i < row_size; i += lanes<Sum>) {
        const std::int64_t count = std::min(row_size - i, lanes<Sum>);
        const bool whole = count == lanes<Sum>;
        Vector<Sum> numbers = whole ? load<Sum>(sum + i) : load<Sum>(sum + i, count, 0);
        if (!divide<T, Sum>(divisor, doubt, numbers)) break;
        whole ? store<T>(y + i, numbers) : store<T>(y + i, numbers, count);
      }
    }
    for (; i < row_size; ++i) y[i] = pooled_integer<T>(type, length, sum[i]);
  }
}

/// Writes the pooled sums of sequences: y[to[i]], or y[i] if `to` is null, = the sum of sequence i, divided as the type
/// says.
template <class T>
class PooledSums {
  using A = Accumulator<T>;

 public:
  PooledSums(PoolType type, const Segments& sequences, std::int64_t row_size, T pad_value, const std::int64_t* to,
             T* y) noexcept
      : type_(type),
        sequences_(sequences),
        row_size_(row_size),
        pad_value_(pad_value),
        to_(to),
        y_(y),
        output_(lod::detail::bytes_of<T>(sequences.size, row_size)),
        // Vectors are written past the caches if each of them lies within a cache line.
        vectors_past_caches_(output_.past_caches() && reinterpret_cast<std::uintptr_t>(y) % 64 == 0) {}

  /// `sums` is null for an empty sequence.
  void operator()(std::int64_t i, const A* sums) const {
    T* const out = row(i);
    if (!sums) return fill(out, row_size_, pad_value_);
    if constexpr (std::same_as<T, A>) {
      if (type_ == PoolType::SUM) return output_.copy(sums, row_size_, out);
    }
    finish_sum(type_, sequences_.length(i), sums, row_size_, out);
  }
  /// Whether results of consecutive sequences are still in the cache once written, and can be checked then.
  bool stays_in_caches() const noexcept { return !to_ && !output_.past_caches(); }
  /// If a sum is not finite, its pooled result is not finite either.
  bool seem_finite(std::int64_t begin, std::int64_t end) const {
    return cpu::seem_finite(row(begin), (end - begin) * row_size_);
  }
  void operator()(std::int64_t i, const WideInteger* sums) const {
    T* const out = row(i);
    if (!sums) return fill(out, row_size_, pad_value_);
    for (std::int64_t column = 0; column < row_size_; ++column) {
      out[column] = sums[column].template pooled<T>(type_, sequences_.length(i));
    }
  }
  /// Replaces column `column` of a nonempty sequence; called after the sequence's sums, where this one was not finite.
  template <std::floating_point B>
  void correct(std::int64_t i, std::int64_t column, const WideSum<B>& sum) const {
    row(i)[column] = static_cast<T>(sum.pooled(type_, sequences_.length(i)));
  }
  template <std::size_t columns>
  void operator()(std::int64_t i, NarrowRow<columns, T>& sums) const {
    if (type_ != PoolType::SUM) {
      if constexpr (std::floating_point<A>) {
        const Vector<T> divisor(pool_divisor<A>(type_, sequences_.length(i)));
        for (Vector<T>& part : sums.part) part /= divisor;
      } else {
        alignas(64) A numbers[NarrowRow<columns, T>::vectors * Vector<T>::size];
        for (std::size_t v = 0; v < sums.vectors; ++v) sums.part[v].store_aligned(numbers + v * Vector<T>::size);
        return finish_sum(type_, sequences_.length(i), numbers, row_size_, row(i));
      }
    }
    sums.store(row(i));
  }
  template <std::size_t vectors>
  void operator()(std::int64_t i, VectorRow<vectors, T>& sums) const {
    T* const out = row(i);
    if (type_ != PoolType::SUM) {
      if constexpr (std::floating_point<T>) {
        const Vector<T> divisor(pool_divisor<T>(type_, sequences_.length(i)));
#pragma GCC unroll 16
        for (std::size_t v = 0; v < vectors; ++v) sums[v] /= divisor;
      } else {
        alignas(64) T numbers[vectors * Vector<T>::size];
#pragma GCC unroll 16
        for (std::size_t v = 0; v < vectors; ++v) sums[v].store_aligned(numbers + v * Vector<T>::size);
        return finish_sum(type_, sequences_.length(i), numbers, row_size_, out);
      }
    }
    if (row_size_ % lanes < T >> 0) {
#pragma GCC unroll 16
      for (std::size_t v = 0; v < vectors; ++v) {
        const std::int64_t column = static_cast<std::int64_t>(v) * lanes<T>;
        store_first(out + column, sums[v], std::min(row_size_ - column, lanes<T>), 0);
      }
      return;
    }
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      T* const part = out + v * Vector<T>::size;
      vectors_past_caches_ ? write_vector(part, sums[v]) : store<T>(part, sums[v]);
    }
  }

 private:
  T* row(std::int64_t i) const noexcept { return y_ + (to_ ? to_[i] : i) * row_size_; }

  PoolType type_;
  Segments sequences_;
  std::int64_t row_size_;
  T pad_value_;
  const std::int64_t* to_;
  T* y_;
  LargeOutput output_;
  bool vectors_past_caches_;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

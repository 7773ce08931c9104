// SPDX-License-Identifier: Apache-2.0
/// @file
/// Logarithms of probabilities, one row for each step of a sequence, which are kept near 0: scores of paths, and sums
/// of exponentials over a row.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/vector.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// At most the greatest finite number, so that nothing becomes infinity - infinity; NaN stays.
template <class A>
[[gnu::always_inline]] inline xsimd::batch<A> bounded(const xsimd::batch<A>& x) {
  const xsimd::batch<A> most(std::numeric_limits<A>::max());
  return xsimd::select(x > most, most, x);
}

/// The sum of all lanes.
template <class A>
inline A sum_of_lanes(const xsimd::batch<A>& numbers) {
  alignas(64) A lane[xsimd::batch<A>::size];
  numbers.store_aligned(lane);
  for (std::size_t half = xsimd::batch<A>::size / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[half + i];
  }
  return lane[0];
}
/// The greatest number of all lanes; NaN if one is.
template <class A>
inline A greatest_lane(const xsimd::batch<A>& numbers) {
  alignas(64) A lane[xsimd::batch<A>::size];
  numbers.store_aligned(lane);
  for (std::size_t half = xsimd::batch<A>::size / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lane[i] = lane[i] > lane[half + i] ? lane[i] : lane[half + i];
  }
  return xsimd::any(xsimd::isnan(numbers)) ? std::numeric_limits<A>::quiet_NaN() : lane[0];
}

/// The scores of a row: the best of them, unless it is -inf, is subtracted from all of them.
template <class A>
class ScoreRow {
 public:
  explicit ScoreRow(A* scores) noexcept : scores_(scores) {}

  /// Puts the scores of the tags from j on.
  [[gnu::always_inline]] void put(std::int64_t j, const Vector<A>& unbounded) noexcept {
    const Vector<A> numbers = bounded<A>(unbounded);
    best_ = xsimd::select(exceeds(numbers, best_), numbers, best_);
    store<A>(scores_ + j, numbers);
  }
  /// To be called when all scores have been put: subtracts the best from all of them, unless it is -inf, and returns
  /// what it has subtracted. NaN makes all scores NaN.
  A shift(std::int64_t stride) const noexcept {
    const A best = greatest_lane(best_);
    const A by = best == -std::numeric_limits<A>::infinity() ? A{} : best;
    for (std::int64_t j = 0; j < stride; j += lanes<A>) {
      store<A>(scores_ + j, load(scores_ + j) - Vector<A>(by));
    }
    return by;
  }

 private:
  A* scores_;
  Vector<A> best_ = Vector<A>(-std::numeric_limits<A>::infinity());
};

/// log(sum(e^x)) in two parts, the greatest number and what the others add, so that its difference from a number close
/// to it is exact.
template <class A>
struct LogSum {
  A greatest, rest;
  A total() const noexcept { return greatest + rest; }
};
/// The LogSum of `count` numbers; +inf counts as the greatest finite number. -inf if all are -inf; NaN if one is NaN.
template <class T>
LogSum<Accumulator<T>> log_sum_of_row(const T* x, std::int64_t count) {
  using A = Accumulator<T>;
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  const auto numbers = [=](std::int64_t i) {
    return bounded<A>(load_vector(x + i, std::min(count - i, lanes<T>), nothing, count - i));
  };
  Vector<T> most(nothing);
  for (std::int64_t i = 0; i < count; i += lanes<T>) {
    const Vector<T> some = numbers(i);
    most = xsimd::select(exceeds(some, most), some, most);
  }
  const A greatest = greatest_lane(most);
  if (greatest == nothing) return {nothing, A{}};
  Vector<T> sum(A{});
  for (std::int64_t i = 0; i < count; i += lanes<T>) sum += exponential(numbers(i) - Vector<T>(greatest));
  return {greatest, std::log(sum_of_lanes(sum))};
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

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

/// What is to be subtracted from numbers before scores are added to them, of which these are the greatest, in each
/// lane, without NaN: the greatest of all, if it is so far from 0 that what is added would lose digits. Else 0, which
/// costs less to tell than which is the greatest.
template <class A>
[[gnu::always_inline]] inline A far_from_zero(const xsimd::batch<A>& greatest) {
  constexpr A far = 64, nothing = -std::numeric_limits<A>::infinity();
  if (!xsimd::any(greatest > xsimd::batch<A>(far)) && xsimd::any(greatest >= xsimd::batch<A>(-far))) return A{};
  const A result = greatest_lane(greatest);
  return result == nothing ? A{} : result;
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
/// The greatest of `count` numbers; -inf of none; NaN if one is NaN. +inf counts as the greatest finite number.
template <class T>
Accumulator<T> greatest_of_row(const T* x, std::int64_t count) {
  using A = Accumulator<T>;
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  // Side by side, so that no comparison waits for the one before it.
  constexpr std::int64_t side_by_side = 4;
  Vector<T> most[side_by_side] = {Vector<T>(nothing), Vector<T>(nothing), Vector<T>(nothing), Vector<T>(nothing)};
  const auto take = [](Vector<T> & all, const Vector<T>& some) __attribute__((always_inline)) {
    all = xsimd::select(exceeds(some, all), some, all);
  };
  std::int64_t i = 0;
  for (; i + side_by_side * lanes<T> <= count; i += side_by_side * lanes<T>) {
#pragma GCC unroll 4
    for (std::int64_t v = 0; v < side_by_side; ++v) take(most[v], load(x + i + v * lanes<T>));
  }
  for (; i < count; i += lanes<T>) {
    take(most[0], load_vector(x + i, std::min(count - i, lanes<T>), nothing, count - i));
  }
  for (std::int64_t v = 1; v < side_by_side; ++v) take(most[0], most[v]);
  return greatest_lane(bounded<A>(most[0]));
}
/// The sum of e^(x - greatest), where +inf counts as the greatest finite number; use(i, exponentials, count) is called
/// for the numbers from i on.
template <class T, class Use>
[[gnu::always_inline]] inline Accumulator<T> sum_of_exponentials(const T* x, std::int64_t count,
                                                                 Accumulator<T> greatest, const Use& use) {
  using A = Accumulator<T>;
  const Vector<T> from(greatest);
  Vector<T> sum(A{});
  const auto add = [&](std::int64_t i, const Vector<T>& numbers, std::int64_t some) __attribute__((always_inline)) {
    const Vector<T> result = exponential(numbers - from);
    sum += result;
    use(i, result, some);
  };
  std::int64_t i = 0;
  // If the greatest is not the greatest finite number, nothing is infinite.
  if (greatest < std::numeric_limits<A>::max()) {
    for (; i + lanes<T> <= count; i += lanes<T>) add(i, load(x + i), lanes<T>);
  }
  for (; i < count; i += lanes<T>) {
    const std::int64_t some = std::min(count - i, lanes<T>);
    add(i, bounded<A>(load_vector(x + i, some, -std::numeric_limits<A>::infinity(), count - i)), some);
  }
  return sum_of_lanes(sum);
}
/// The LogSum of `count` numbers; +inf counts as the greatest finite number. -inf if all are -inf; NaN if one is NaN.
template <class T>
LogSum<Accumulator<T>> log_sum_of_row(const T* x, std::int64_t count) {
  using A = Accumulator<T>;
  const A greatest = greatest_of_row(x, count);
  if (greatest == -std::numeric_limits<A>::infinity()) return {greatest, A{}};
  const auto ignore = [](std::int64_t, const Vector<T>&, std::int64_t) {};
  return {greatest, std::log(sum_of_exponentials(x, count, greatest, ignore))};
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Logarithms of probabilities in bulk, one row for each step of a sequence, which are kept near 0: scores of paths,
/// and sums of exponentials over a row.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/bulk/lanes.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

// A constant, because device code cannot call the functions of numeric_limits.
template <class A>
inline constexpr A no_path = -std::numeric_limits<A>::infinity();
template <class A>
inline constexpr A greatest_finite = std::numeric_limits<A>::max();

/// At most the greatest finite number, so that nothing becomes infinity - infinity; NaN stays.
template <class A>
LOD_HOST_DEVICE A bounded(A x) {
  return x > greatest_finite<A> ? greatest_finite<A> : x;
}
/// The greater of two numbers; NaN is greater than all.
struct GreaterScore {
  template <class A>
  LOD_HOST_DEVICE A operator()(A a, A b) const {
    return b > a || b != b ? b : a;
  }
};

/// Writes `count` scores, of(j) for the j-th, minus the best of them, which is returned, unless it is -inf. NaN makes
/// all scores NaN.
template <class Lanes, class A, class Of>
LOD_HOST_DEVICE A put_scores(const Lanes& lanes, A* to, std::int64_t count, const Of& of) {
  const GreaterScore greater;
  const auto take = [&](A& best, std::int64_t j, int) {
    to[j] = bounded(of(j));
    best = greater(best, to[j]);
  };
  const A nothing = no_path<A>, best = lanes.shared(lanes.template fold_rows<0>(count, nothing, take, greater));
  const A by = best == nothing ? A{} : best;
  // Each lane has the numbers that it wrote.
  lanes.template for_each_row<0>(count, [&](std::int64_t j, int) { to[j] -= by; });
  lanes.meet();
  return by;
}

/// log(sum(e^number(i))) over `count` numbers; -inf if all are -inf.
template <class A, class Number>
LOD_HOST_DEVICE A log_sum(std::int64_t count, const Number& number) {
  const GreaterScore greater;
  A most = no_path<A>;
  for (std::int64_t i = 0; i < count; ++i) most = greater(most, number(i));
  if (most == no_path<A>) return most;
  A sum{};
  for (std::int64_t i = 0; i < count; ++i) sum += std::exp(number(i) - most);
  return most + std::log(sum);
}
/// log(sum(e^x)) in two parts, the greatest number and what the others add, so that its difference from a number close
/// to it is exact.
template <class A>
struct LogSum {
  A greatest, rest;
  LOD_HOST_DEVICE A total() const { return greatest + rest; }
};
/// The greatest of `count` numbers, on all lanes, each of which gets the result; +inf counts as the greatest finite
/// number.
template <class A, class Lanes, class Number>
LOD_HOST_DEVICE A greatest_by_lanes(const Lanes& lanes, std::int64_t count, const Number& number) {
  const GreaterScore greater;
  const A nothing = no_path<A>;
  const auto take = [&](A& best, std::int64_t i, int) { best = greater(best, bounded(number(i))); };
  return lanes.shared(lanes.template fold_rows<0>(count, nothing, take, greater));
}
/// The sum of exponentials likewise.
template <class A, class Lanes, class Number>
LOD_HOST_DEVICE LogSum<A> log_sum_by_lanes(const Lanes& lanes, std::int64_t count, const Number& number) {
  const A most = greatest_by_lanes<A>(lanes, count, number), zero{};
  if (most == no_path<A>) return {most, zero};
  const auto add = [&](A& sum, std::int64_t i, int) { sum += std::exp(bounded(number(i)) - most); };
  const A sum = lanes.template fold_rows<0>(count, zero, add, [](A a, A b) { return a + b; });
  return {most, std::log(lanes.shared(sum))};
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

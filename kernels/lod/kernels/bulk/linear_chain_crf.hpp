// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conditional random fields in bulk: the lanes of a warp share the tags of a row, and go from row to row.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/ops/linear_chain_crf.hpp>
#include <lod/ops/staging.hpp>

#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

// Outside functions, because those of numeric_limits are host functions.
template <class A>
inline constexpr A no_path = -std::numeric_limits<A>::infinity();
template <class A>
inline constexpr A greatest_finite = std::numeric_limits<A>::max();

/// At most the greatest finite number, so that nothing becomes infinity - infinity; NaN stays.
template <class A>
LOD_HOST_DEVICE A bounded(A x) {
  return x > greatest_finite<A> ? greatest_finite<A> : x;
}

/// A tag and its score.
template <class A>
struct ScoredTag {
  A score;
  std::int64_t tag;
};
/// The better of two; NaN is the best, of equals the first one.
template <class A>
struct BetterTag {
  LOD_HOST_DEVICE ScoredTag<A> nothing() const { return {no_path<A>, -1}; }
  LOD_HOST_DEVICE ScoredTag<A> operator()(const ScoredTag<A>& a, const ScoredTag<A>& b) const {
    const bool a_is_nan = a.score != a.score, b_is_nan = b.score != b.score;
    const bool equal = a.score == b.score || (a_is_nan && b_is_nan);
    // There may be none, whose score is -inf.
    if (equal) return b.tag >= 0 && (a.tag < 0 || b.tag < a.tag) ? b : a;
    return b_is_nan || b.score > a.score ? b : a;
  }
};

/// A conditional random field over a batch.
template <class T>
struct LinearChain {
  using A = Accumulator<T>;

  const T* emission;
  Segments sequences;
  std::int64_t tags;
  const T* transition;
  A* scores;  ///< of each row and tag

  LOD_HOST_DEVICE A emission_of(std::int64_t row, std::int64_t j) const {
    return bounded(static_cast<A>(emission[row * tags + j]));
  }
  LOD_HOST_DEVICE A start(std::int64_t j) const { return bounded(static_cast<A>(transition[j])); }
  LOD_HOST_DEVICE A stop(std::int64_t j) const { return bounded(static_cast<A>(transition[tags + j])); }
  LOD_HOST_DEVICE A weight(std::int64_t i, std::int64_t j) const {
    return bounded(static_cast<A>(transition[(i + crf_ends) * tags + j]));
  }

  /// Writes the scores of a row, of(j) for tag j: the best of them, unless it is -inf, is subtracted from all; returns
  /// it. NaN makes all scores NaN.
  template <class Lanes, class Of>
  LOD_HOST_DEVICE A put_row(const Lanes& lanes, std::int64_t row, const Of& of) const {
    A* const to = scores + row * tags;
    const auto greater = [](A a, A b) { return b > a || b != b ? b : a; };
    const auto take = [&](A& best, std::int64_t j, int) {
      to[j] = bounded(of(j));
      best = greater(best, to[j]);
    };
    const A nothing = no_path<A>, best = lanes.shared(lanes.template fold_rows<0>(tags, nothing, take, greater));
    const A by = best == nothing ? A{} : best;
    // Each lane has the numbers that it wrote.
    lanes.template for_each_row<0>(tags, [&](std::int64_t j, int) { to[j] -= by; });
    lanes.meet();
    return by;
  }
};

/// Writes the best path of a sequence.
template <class T>
struct DecodeSequence {
  using A = Accumulator<T>;

  LinearChain<T> chain;
  std::int64_t* y;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, const Lanes& lanes) const {
    const std::int64_t begin = chain.sequences.begin(i), end = begin + chain.sequences.length(i);
    if (begin == end) return;
    const std::int64_t tags = chain.tags;
    chain.put_row(lanes, begin, [&](std::int64_t j) { return chain.start(j) + chain.emission_of(begin, j); });
    for (std::int64_t row = begin + 1; row < end; ++row) {
      const A* const before = chain.scores + (row - 1) * tags;
      chain.put_row(lanes, row, [&](std::int64_t j) {
        A best = no_path<A>;
        for (std::int64_t k = 0; k < tags; ++k) {
          const A sum = before[k] + chain.weight(k, j);
          best = sum > best || sum != sum ? sum : best;
        }
        return bounded(best) + chain.emission_of(row, j);
      });
    }
    std::int64_t tag = best_tag(lanes, end - 1, [&](std::int64_t j) { return chain.stop(j); });
    if (lanes.is_first()) y[end - 1] = tag;
    for (std::int64_t row = end - 1; row > begin; --row) {
      tag = best_tag(lanes, row - 1, [&](std::int64_t j) { return chain.weight(j, tag); });
      if (lanes.is_first()) y[row - 1] = tag;
    }
  }

 private:
  /// The first tag of a row with the greatest sum of its score and weight(tag); 0 if one is NaN.
  template <class Lanes, class Weight>
  LOD_HOST_DEVICE std::int64_t best_tag(const Lanes& lanes, std::int64_t row, const Weight& weight) const {
    const A* const scores = chain.scores + row * chain.tags;
    const BetterTag<A> better;
    const auto take = [&](ScoredTag<A>& best, std::int64_t j, int) {
      best = better(best, ScoredTag<A>{scores[j] + weight(j), j});
    };
    const auto best = lanes.shared(lanes.template fold_rows<0>(chain.tags, better.nothing(), take, better));
    return best.score != best.score ? 0 : best.tag;
  }
};

template <>
struct Kernel<CrfDecoding> {
  template <class E, class T>
  static void run(const E& executor, const T* emission, const Segments& sequences, std::int64_t tags,
                  const T* transition, std::int64_t* y) {
    const Scratch<E, Accumulator<T>> scores(executor, lod::detail::saturated_product(sequences.rows(), tags));
    for_each_by_warps(executor, sequences.size,
                      DecodeSequence<T>{{emission, sequences, tags, transition, scores.data()}, y});
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

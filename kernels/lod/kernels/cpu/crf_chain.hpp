// SPDX-License-Identifier: Apache-2.0
/// @file
/// The scores of a conditional random field on the CPU, whole vectors of tags at a time. For linear_chain_crf.hpp.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/score_row.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/scaled_chain.hpp>
#include <lod/ops/linear_chain_crf.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// The size of an array with a number for each tag, padded to whole vectors.
template <class A>
constexpr std::int64_t tag_stride(std::int64_t tags) noexcept {
  return lod::detail::saturated_sum(tags, lanes<A> - 1) / lanes<A> * lanes<A>;
}

/// Folds the numbers of tags before a row with their weights: finish(j, result) for each vector of tags j of the row,
/// where the result has fold.take(all, before[i], weights[i][j]) of all i. Rows of weights are padded with anything.
template <std::size_t vectors, class A, class Fold, class Finish>
[[gnu::always_inline]] inline void fold_vectors(const A* before, std::int64_t tags, const A* weights,
                                                std::int64_t stride, std::int64_t first, const Fold& fold,
                                                const Finish& finish) {
  // Each operation waits for the one before it; several independent chains, each with tags of its own, hide that.
  constexpr std::size_t chains = vectors > 2 ? 1 : 4 / vectors;
  Vector<A> all[chains][vectors];
  for (auto& chain : all) {
    for (auto& vector : chain) vector = fold.start();
  }
  const auto take = [&](auto& chain, std::int64_t i) {
    const Vector<A> from(before[i]);
    const A* const row = weights + i * stride + first;
#pragma GCC unroll 16
    for (std::size_t v = 0; v < vectors; ++v) {
      chain[v] = fold.take(chain[v], from, load<A>(row + static_cast<std::int64_t>(v) * lanes<A>));
    }
  };
  constexpr auto step = static_cast<std::int64_t>(chains);
  std::int64_t i = 0;
  for (; i + step <= tags; i += step) {
    for (std::size_t chain = 0; chain < chains; ++chain) take(all[chain], i + static_cast<std::int64_t>(chain));
  }
  for (; i < tags; ++i) take(all[0], i);
  for (std::size_t folded = chains / 2; folded > 0; folded /= 2) {
    for (std::size_t chain = 0; chain < folded; ++chain) {
#pragma GCC unroll 16
      for (std::size_t v = 0; v < vectors; ++v) all[chain][v] = fold.join(all[chain][v], all[folded + chain][v]);
    }
  }
#pragma GCC unroll 16
  for (std::size_t v = 0; v < vectors; ++v) finish(first + static_cast<std::int64_t>(v) * lanes<A>, all[0][v]);
}
template <class A, class Fold, class Finish>
[[gnu::always_inline]] inline void fold_tags(const A* before, std::int64_t tags, const A* weights, const Fold& fold,
                                             const Finish& finish) {
  const std::int64_t stride = tag_stride<A>(tags);
  std::int64_t j = 0;
  for (; j + 4 * lanes<A> <= stride; j += 4 * lanes<A>) fold_vectors<4>(before, tags, weights, stride, j, fold, finish);
  const std::int64_t left = (stride - j) / lanes<A>;
  if (left == 3) fold_vectors<3>(before, tags, weights, stride, j, fold, finish);
  if (left == 2) fold_vectors<2>(before, tags, weights, stride, j, fold, finish);
  if (left == 1) fold_vectors<1>(before, tags, weights, stride, j, fold, finish);
}

/// The best of all tags before: the greatest sum. NaN is skipped.
template <class A>
struct BestTag {
  Vector<A> start() const { return Vector<A>(-std::numeric_limits<A>::infinity()); }
  Vector<A> take(const Vector<A>& best, const Vector<A>& from, const Vector<A>& weight) const {
    return xsimd::max(from + weight, best);
  }
  Vector<A> join(const Vector<A>& a, const Vector<A>& b) const { return xsimd::max(a, b); }
};

/// The sum over all tags before.
template <class A>
struct SumOfTags {
  Vector<A> start() const { return Vector<A>(A{}); }
  Vector<A> take(const Vector<A>& sum, const Vector<A>& from, const Vector<A>& weight) const {
    return multiply_add(from, weight, sum);
  }
  Vector<A> join(const Vector<A>& a, const Vector<A>& b) const { return a + b; }
};

/// The emission and the transition of a conditional random field.
template <class T>
class Chain {
 public:
  using A = Accumulator<T>;
  static constexpr A nothing = -std::numeric_limits<A>::infinity();

  /// The size of its scratch memory.
  static constexpr std::int64_t scratch(std::int64_t tags) noexcept {
    return lod::detail::saturated_product(2 * tags + crf_ends, tag_stride<A>(tags));
  }
  Chain(const T* emission, std::int64_t rows, std::int64_t tags, const T* transition, A* scratch)
      : emission_(emission),
        transition_(transition),
        numbers_(rows * tags),
        tags_(tags),
        stride_(tag_stride<A>(tags)),
        weights_(scratch),
        into_(scratch + (tags + crf_ends) * stride_) {
    for (std::int64_t row = 0; row < tags + crf_ends; ++row) {
      for (std::int64_t j = 0; j < tags; j += lanes<A>) {
        const Vector<A> some = load_vector(transition + row * tags + j, std::min(tags - j, lanes<A>), nothing);
        store<A>(weights_ + row * stride_ + j, bounded<A>(some));
        extreme_ = extreme_ || xsimd::any(some > Vector<A>(most_plain_score<A>));
      }
    }
    std::fill_n(into_, tags * stride_, nothing);
    for (std::int64_t i = 0; i < tags; ++i) {
      for (std::int64_t j = 0; j < tags; ++j) into_[j * stride_ + i] = from(i)[j];
    }
  }

  std::int64_t tags() const noexcept { return tags_; }
  std::int64_t stride() const noexcept { return stride_; }
  /// The weights of each tag as the first of a sequence, as the last, after tag i, and before tag j; padded with -inf.
  const A* start() const noexcept { return weights_; }
  const A* stop() const noexcept { return weights_ + stride_; }
  const A* from(std::int64_t i) const noexcept { return weights_ + (i + crf_ends) * stride_; }
  const A* into(std::int64_t j) const noexcept { return into_ + j * stride_; }

  /// The emissions of the tags from j on.
  [[gnu::always_inline]] Vector<A> emission(std::int64_t row, std::int64_t j) const noexcept {
    const std::int64_t at = row * tags_ + j;
    return bounded<A>(load_vector(emission_ + at, std::min(tags_ - j, lanes<A>), nothing, numbers_ - at));
  }
  A emission_of_tag(std::int64_t row, std::int64_t j) const noexcept {
    return std::min(static_cast<A>(emission_[row * tags_ + j]), std::numeric_limits<A>::max());
  }
  /// What is to be subtracted from the emissions of a row first, by `far_from_zero`. `most` becomes the greatest of all
  /// rows so far, in each lane.
  A far_emission(std::int64_t row, Vector<A>& most) const noexcept {
    Vector<A> greatest(nothing);
    for (std::int64_t j = 0; j < stride_; j += lanes<A>)
      greatest = xsimd::max(emission(row, j), greatest);  // skips NaN
    most = xsimd::max(greatest, most);
    return far_from_zero<A>(greatest);
  }
  /// Whether a weight, or the greatest emission, makes a sequence extreme: see scaled_chain.hpp.
  bool is_extreme(const Vector<A>& most) const noexcept {
    return extreme_ || xsimd::any(most > Vector<A>(most_plain_score<A>));
  }
  /// The chain of extreme sequences.
  ScaledChain<T> scaled(A* scores, std::int64_t kept) const noexcept {
    return {emission_, tags_, transition_, scores, stride_, kept};
  }
  /// Writes the scores of the first row of a sequence, from emissions less `far`; returns what is subtracted from them.
  A start_scores(std::int64_t row, A far, A* scores) const noexcept {
    ScoreRow<A> first(scores);
    for (std::int64_t j = 0; j < stride_; j += lanes<A>) {
      first.put(j, load(start() + j) + (emission(row, j) - Vector<A>(far)));
    }
    return first.shift(stride_);
  }

 private:
  const T* emission_;
  const T* transition_;
  std::int64_t numbers_;
  std::int64_t tags_;
  std::int64_t stride_;
  A* weights_;
  A* into_;
  bool extreme_ = false;
};

/// The weight of a row when work is shared out, in bytes: the weights are read from the nearest cache, some eight times
/// as fast as the memory for which bytes stand.
template <class A>
constexpr std::int64_t crf_row_bytes(std::int64_t tags) noexcept {
  return std::max<std::int64_t>(lod::detail::bytes_of<A>(tags, tag_stride<A>(tags)) / 8, 1);
}
/// Calls body(i, thread) for each sequence.
template <class A, class Body>
void for_each_chain(const CpuExecutor& executor, const Segments& sequences, std::int64_t tags, const Body& body) {
  parallel_sequences(executor, sequences, crf_row_bytes<A>(tags),
                     [&](std::int64_t first, std::int64_t last, int thread) {
                       for (std::int64_t i = first; i < last; ++i) body(i, thread);
                     });
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

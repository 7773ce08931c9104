// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conditional random fields on the CPU: for each row the scores of whole vectors of tags at a time.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/linear_chain_crf.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// At most the greatest finite number, so that nothing becomes infinity - infinity; NaN stays.
template <class A>
[[gnu::always_inline]] inline xsimd::batch<A> bounded(const xsimd::batch<A>& x) {
  const xsimd::batch<A> most(std::numeric_limits<A>::max());
  return choose(x > most, most, x);
}

/// A number for each tag, filled up to whole vectors: how many that are.
template <class A>
constexpr std::int64_t tag_stride(std::int64_t tags) noexcept {
  return lod::detail::saturated_sum(tags, lanes<A> - 1) / lanes<A> * lanes<A>;
}

/// Folds the numbers of tags before a row with their weights: finish(j, result) for each vector of tags j of the row,
/// where the result has fold.take(all, before[i], weights[i][j]) of all i. Rows of weights are filled up with anything.
template <std::size_t vectors, class A, class Fold, class Finish>
[[gnu::always_inline]] inline void fold_vectors(const A* before, std::int64_t tags, const A* weights,
                                                std::int64_t stride, std::int64_t first, const Fold& fold,
                                                const Finish& finish) {
  // An operation waits for the one before it, unless there are several to do: each of these has tags of its own.
  constexpr std::size_t chains = vectors > 2 ? 1 : 4 / vectors;
  Vector<A> all[chains][vectors];
  for (auto& chain : all) {
    for (auto& vector : chain) vector = fold.start();
  }
  const auto take = [&](auto& chain, std::int64_t i) {
    const Vector<A> from(before[i]);
    const A* const row = weights + i * stride + first;
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
      for (std::size_t v = 0; v < vectors; ++v) all[chain][v] = fold.join(all[chain][v], all[folded + chain][v]);
    }
  }
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

/// The scores of the rows of a sequence: the best of a row, unless it is -inf, is subtracted from all of them.
template <class A>
class ScoreRow {
 public:
  explicit ScoreRow(A* scores) noexcept : scores_(scores) {}

  /// The next scores, of the tags from j on.
  [[gnu::always_inline]] void put(std::int64_t j, const Vector<A>& unbounded) noexcept {
    const Vector<A> numbers = bounded<A>(unbounded);
    best_ = choose(exceeds(numbers, best_), numbers, best_);
    store<A>(scores_ + j, numbers);
  }
  /// When all scores have been put: what is subtracted. NaN makes all scores NaN.
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

/// A transition as vectors read it: its rows in the type of the computation, bounded and filled up with -inf.
template <class T>
void widen_transition(const T* transition, std::int64_t tags, Accumulator<T>* weights) {
  using A = Accumulator<T>;
  constexpr A nothing = -std::numeric_limits<A>::infinity();
  const std::int64_t stride = tag_stride<A>(tags);
  for (std::int64_t row = 0; row < tags + crf_ends; ++row) {
    for (std::int64_t j = 0; j < tags; j += lanes<A>) {
      const Vector<A> some = load_vector(transition + row * tags + j, std::min(tags - j, lanes<A>), nothing);
      store<A>(weights + row * stride + j, bounded<A>(some));
    }
  }
}

/// What a row of a conditional random field weighs when rows are shared out: its weights are read from the nearest
/// cache, which is some eight times as fast as what bytes are measured by.
template <class A>
constexpr std::int64_t crf_row_bytes(std::int64_t tags) noexcept {
  return std::max<std::int64_t>(lod::detail::bytes_of<A>(tags, tag_stride<A>(tags)) / 8, 1);
}

template <>
struct Kernel<CrfDecoding> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* emission, const Segments& sequences, std::int64_t tags,
                  const T* transition, std::int64_t* y) {
    using A = Accumulator<T>;
    constexpr A nothing = -std::numeric_limits<A>::infinity();
    const std::int64_t stride = cpu::tag_stride<A>(tags), rows = sequences.rows();
    if (rows == 0) return;
    const Workspace::Loan<A> weights(executor.workspace(), (tags + crf_ends) * stride);
    // To each tag: its weights from all others, and what makes its scores NaN.
    const Workspace::Loan<A> into(executor.workspace(), (tags + 1) * stride);
    const Workspace::Loan<A> scores(executor.workspace(), lod::detail::saturated_product(rows, stride));
    cpu::widen_transition(transition, tags, weights.data());
    const A* const start = weights.data();
    const A* const stop = start + stride;
    const A* const between = stop + stride;
    A* const nans = into.data() + tags * stride;
    std::fill_n(into.data(), (tags + 1) * stride, A{});
    for (std::int64_t i = 0; i < tags; ++i) {
      for (std::int64_t j = 0; j < tags; ++j) {
        const A weight = between[i * stride + j];
        into[j * stride + i] = weight;
        if (lod::detail::is_nan(weight)) nans[j] = weight;
      }
    }
    const auto decode = [&](std::int64_t i) {
      const std::int64_t begin = sequences.begin(i), end = begin + sequences.length(i);
      if (begin == end) return;
      const auto emission_of = [&](std::int64_t row, std::int64_t j) {
        const std::int64_t at = row * tags + j;
        return cpu::bounded<A>(
            cpu::load_vector(emission + at, std::min(tags - j, cpu::lanes<A>), nothing, rows * tags - at));
      };
      cpu::ScoreRow<A> first(scores.data() + begin * stride);
      for (std::int64_t j = 0; j < stride; j += cpu::lanes<A>)
        first.put(j, cpu::load(start + j) + emission_of(begin, j));
      // Once NaN, scores stay NaN.
      A nan = zero_or_nan(first.shift(stride));
      for (std::int64_t row = begin + 1; row < end; ++row) {
        A* const to = scores.data() + row * stride;
        cpu::ScoreRow<A> next(to);
        cpu::fold_tags(to - stride, tags, between, cpu::BestTag<A>(), [&](std::int64_t j, const cpu::Vector<A>& best) {
          next.put(j, (cpu::bounded<A>(best) + emission_of(row, j)) + (cpu::load(nans + j) + cpu::Vector<A>(nan)));
        });
        nan = zero_or_nan(next.shift(stride));
      }
      const A* from = scores.data() + (end - 1) * stride;
      y[end - 1] = best_tag(from, stop, tags);
      for (std::int64_t row = end - 1; row > begin; --row) {
        from -= stride;
        y[row - 1] = best_tag(from, into.data() + y[row] * stride, tags);
      }
    };
    cpu::parallel_sequences(executor, sequences, cpu::crf_row_bytes<A>(tags),
                            [&](std::int64_t first, std::int64_t last) {
                              for (std::int64_t i = first; i < last; ++i) decode(i);
                            });
  }

 private:
  template <class A>
  static A zero_or_nan(A shift) noexcept {
    return shift - shift;
  }
  /// The first tag with the greatest sum; 0 if one is NaN.
  template <class A>
  static std::int64_t best_tag(const A* scores, const A* weights, std::int64_t tags) noexcept {
    cpu::Vector<A> best(-std::numeric_limits<A>::infinity());
    for (std::int64_t j = 0; j < tags; j += cpu::lanes<A>) {
      const cpu::Vector<A> sums = cpu::load(scores + j) + cpu::load(weights + j);
      best = cpu::choose(cpu::exceeds(sums, best), sums, best);
    }
    const A greatest = cpu::greatest_lane(best);
    for (std::int64_t j = 0; j < tags; ++j) {
      if (scores[j] + weights[j] == greatest) return j;
    }
    return 0;
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

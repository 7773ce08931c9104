// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conditional random fields in bulk: the lanes of a warp share the tags of a row, and go from row to row.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/bulk/path_scores.hpp>
#include <lod/kernels/bulk/row_sum.hpp>
#include <lod/kernels/path_likelihood.hpp>
#include <lod/kernels/scaled_chain.hpp>
#include <lod/ops/linear_chain_crf.hpp>
#include <lod/ops/staging.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// A tag and its score.
template <class A>
struct ScoredTag {
  A score;
  std::int64_t tag;
};
/// The better of two: NaN is best; of equal scores, the first.
template <class A>
struct BetterTag {
  LOD_HOST_DEVICE ScoredTag<A> nothing() const { return {no_path<A>, -1}; }
  LOD_HOST_DEVICE ScoredTag<A> operator()(const ScoredTag<A>& a, const ScoredTag<A>& b) const {
    const bool a_is_nan = a.score != a.score, b_is_nan = b.score != b.score;
    const bool equal = a.score == b.score || (a_is_nan && b_is_nan);
    // One may be no tag, with the score -inf.
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

  /// What is subtracted from the scores of a row.
  struct Subtracted {
    A emission;  ///< the greatest of the row, from all emissions, so that large ones leave digits
    A score;     ///< then the best score
    /// See scaled_chain.hpp.
    LOD_HOST_DEVICE bool is_extreme() const { return emission > most_plain_score<A> || exceeds_plain_scores(score); }
  };
  /// Writes the scores of a row, before(j) and the emission for tag j, by `put_scores`.
  template <class Lanes, class Before>
  LOD_HOST_DEVICE Subtracted put_row(const Lanes& lanes, std::int64_t row, const Before& before) const {
    const A nothing = no_path<A>;
    const auto take = [&](A& best, std::int64_t j, int) {
      const A some = emission_of(row, j);
      best = some > best ? some : best;  // skips NaN
    };
    A greatest = lanes.shared(lanes.template fold_rows<0>(tags, nothing, take, GreaterScore()));
    if (greatest == nothing) greatest = A{};
    return {greatest, put_scores(lanes, scores + row * tags, tags,
                                 [&](std::int64_t j) { return before(j) + (emission_of(row, j) - greatest); })};
  }
  /// Writes the scores of the first row of a sequence.
  template <class Lanes>
  LOD_HOST_DEVICE Subtracted put_first(const Lanes& lanes, std::int64_t row) const {
    return put_row(lanes, row, [&](std::int64_t j) { return start(j); });
  }

  /// Whether a weight makes all sequences extreme: see scaled_chain.hpp.
  template <class Lanes>
  LOD_HOST_DEVICE bool has_extreme_weights(const Lanes& lanes) const {
    const GreaterScore greater;
    const auto take = [&](A& most, std::int64_t k, int) {
      const A some = static_cast<A>(transition[k]);
      most = some > most ? some : most;
    };
    const A nothing = no_path<A>;
    return lanes.shared(lanes.template fold_rows<0>((tags + crf_ends) * tags, nothing, take, greater)) >
           most_plain_score<A>;
  }
  /// The chain of extreme sequences.
  LOD_HOST_DEVICE ScaledChain<T> scaled() const { return {emission, tags, transition, scores, tags, __INT64_MAX__}; }
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
    bool extreme = chain.has_extreme_weights(lanes);
    extreme |= chain.put_first(lanes, begin).is_extreme();  // written in any case: the next row reads it
    for (std::int64_t row = begin + 1; row < end; ++row) {
      const A* const before = chain.scores + (row - 1) * tags;
      const auto by = chain.put_row(lanes, row, [&](std::int64_t j) {
        A best = no_path<A>;
        for (std::int64_t k = 0; k < tags; ++k) {
          const A sum = before[k] + chain.weight(k, j);
          best = sum > best || sum != sum ? sum : best;
        }
        return bounded(best);
      });
      extreme |= by.is_extreme();
    }
    const ScoredTag<A> last = best_tag(lanes, end - 1, [&](std::int64_t j) { return chain.stop(j); });
    lanes.meet();  // all have read the scores of the last row
    if (extreme || exceeds_plain_scores(last.score)) {
      if (lanes.is_first()) chain.scaled().decode(begin, end, y);
      return;
    }
    std::int64_t tag = last.tag;
    if (lanes.is_first()) y[end - 1] = tag;
    for (std::int64_t row = end - 1; row > begin; --row) {
      tag = best_tag(lanes, row - 1, [&](std::int64_t j) { return chain.weight(j, tag); }).tag;
      if (lanes.is_first()) y[row - 1] = tag;
    }
  }

 private:
  /// The first tag of a row with the greatest sum of its score and weight(tag); 0 if one is NaN.
  template <class Lanes, class Weight>
  LOD_HOST_DEVICE ScoredTag<A> best_tag(const Lanes& lanes, std::int64_t row, const Weight& weight) const {
    const A* const scores = chain.scores + row * chain.tags;
    const BetterTag<A> better;
    const auto take = [&](ScoredTag<A>& best, std::int64_t j, int) {
      best = better(best, ScoredTag<A>{scores[j] + weight(j), j});
    };
    const auto best = lanes.shared(lanes.template fold_rows<0>(chain.tags, better.nothing(), take, better));
    return {best.score, best.score != best.score ? 0 : best.tag};
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

/// Sums over all paths.
template <class T>
struct PathSums {
  using A = Accumulator<T>;

  LinearChain<T> chain;
  const std::int64_t* labels;
  A* logarithms;  ///< for each row and tag, of the sum over all tags of the row before

  /// The score of tag i of the row before plus the weight of its transition to tag j.
  LOD_HOST_DEVICE A score_before(std::int64_t row, std::int64_t i, std::int64_t j) const {
    return chain.scores[(row - 1) * chain.tags + i] + chain.weight(i, j);
  }
  /// The logarithm of the sum over all paths of a sequence, computed by every lane.
  LOD_HOST_DEVICE A log_of_all(std::int64_t last_row) const {
    const A* const scores = chain.scores + last_row * chain.tags;
    return log_sum<A>(chain.tags, [&](std::int64_t j) { return scores[j] + chain.stop(j); });
  }
  /// The logarithm of the probability of the labels of a sequence of rows [begin, end), which is not empty. Writes the
  /// scores of all rows, and the logarithms of all but the first.
  template <class Lanes>
  LOD_HOST_DEVICE Likelihood likelihood(const Lanes& lanes, std::int64_t begin, std::int64_t end) const {
    if (chain.has_extreme_weights(lanes)) return {0, true};
    PathLikelihood likelihood;
    bool extreme = false;
    const auto add_row = [&](std::int64_t row, const typename LinearChain<T>::Subtracted& by) {
      extreme |= by.is_extreme();
      const std::int64_t label = labels[row], before = row == begin ? 0 : labels[row - 1];
      if (label < 0 || before < 0) return;  // an error that is thrown later
      const A weight = row == begin ? chain.start(label) : chain.weight(before, label);
      likelihood.add_row(static_cast<double>(weight),
                         static_cast<double>(chain.emission_of(row, label)) - static_cast<double>(by.emission),
                         static_cast<double>(by.score));
    };
    add_row(begin, chain.put_first(lanes, begin));
    for (std::int64_t row = begin + 1; row < end; ++row) {
      const auto by = chain.put_row(lanes, row, [&](std::int64_t j) {
        const A all = log_sum<A>(chain.tags, [&](std::int64_t i) { return score_before(row, i, j); });
        logarithms[row * chain.tags + j] = all;
        return bounded(all);
      });
      add_row(row, by);
    }
    const std::int64_t label = labels[end - 1];
    const A log_sum = log_of_all(end - 1);
    return {likelihood.total(static_cast<double>(label < 0 ? A{} : chain.stop(label)), static_cast<double>(log_sum)),
            extreme || exceeds_plain_scores(log_sum)};
  }
};

/// Writes the likelihood of the labels of a sequence.
template <class T>
struct LikelihoodOfSequence {
  PathSums<T> paths;
  T* y;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, const Lanes& lanes) const {
    const Segments& sequences = paths.chain.sequences;
    const std::int64_t begin = sequences.begin(i), end = begin + sequences.length(i);
    Likelihood found{};
    if (begin < end) found = paths.likelihood(lanes, begin, end);
    lanes.meet();  // all have read the scores of the last row
    if (!lanes.is_first()) return;
    if (found.is_extreme) found.value = paths.chain.scaled().likelihood(begin, end, paths.labels);
    y[i] = static_cast<T>(found.value);
  }
};

template <>
struct Kernel<LinearChainCrf> {
  template <class E, class T>
  static void run(const E& executor, const T* emission, const Segments& sequences, std::int64_t tags,
                  const T* transition, const std::int64_t* labels, T* y) {
    const std::int64_t numbers = lod::detail::saturated_product(sequences.rows(), tags);
    const Scratch<E, Accumulator<T>> scores(executor, numbers), logarithms(executor, numbers);
    const LinearChain<T> chain{emission, sequences, tags, transition, scores.data()};
    for_each_by_warps(executor, sequences.size, LikelihoodOfSequence<T>{{chain, labels, logarithms.data()}, y});
  }
};

/// Writes the share of all paths that each tag of a sequence has, and the gradient of its emissions.
template <class T>
struct SharesOfSequence {
  using A = Accumulator<T>;

  PathSums<T> paths;
  const T* dy;
  A* shares;             ///< of each row and tag
  std::int64_t* of_row;  ///< the sequence of each row; of an extreme one, its complement
  T* demission;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, const Lanes& lanes) const {
    const LinearChain<T>& chain = paths.chain;
    const std::int64_t tags = chain.tags;
    const std::int64_t begin = chain.sequences.begin(i), end = begin + chain.sequences.length(i);
    if (begin == end) return;
    const bool extreme = paths.likelihood(lanes, begin, end).is_extreme;
    const A all = paths.log_of_all(end - 1), factor = static_cast<A>(dy[i]);
    if (extreme) {
      lanes.meet();  // all have read the scores of the last row
      if (lanes.is_first()) {
        chain.scaled().likelihood(begin, end, paths.labels);
        chain.scaled().find_shares(begin, end, shares);
      }
      lanes.meet();
      for (std::int64_t row = begin; row < end; ++row) {
        lanes.template for_each_row<0>(tags, [&](std::int64_t j, int) { write(row, j, factor); });
        if (lanes.is_first()) of_row[row] = ~i;
      }
      return;
    }
    for (std::int64_t row = end - 1; row >= begin; --row) {
      A* const to = shares + row * tags;
      const A* const after = to + tags;
      // Shares add up to 1, unless there is no path.
      const auto take = [&](A& sum, std::int64_t j, int) {
        if (row == end - 1) {
          to[j] = all == no_path<A> ? A{} : std::exp(chain.scores[row * tags + j] + chain.stop(j) - all);
        } else {
          A share{};
          for (std::int64_t k = 0; k < tags; ++k) share += part(row + 1, j, k, after[k]);
          to[j] = share;
        }
        sum += to[j];
      };
      const A nothing{},
          sum = lanes.shared(lanes.template fold_rows<0>(tags, nothing, take, [](A a, A b) { return a + b; }));
      lanes.template for_each_row<0>(tags, [&](std::int64_t j, int) {
        if (sum != A{}) to[j] /= sum;
        write(row, j, factor);
      });
      if (lanes.is_first()) of_row[row] = i;
      lanes.meet();
    }
  }

  LOD_HOST_DEVICE void write(std::int64_t row, std::int64_t j, A factor) const {
    const std::int64_t at = row * paths.chain.tags + j;
    demission[at] = static_cast<T>(((labels_tag(row, j) ? A{1} : A{}) - shares[at]) * factor);
  }
  LOD_HOST_DEVICE bool labels_tag(std::int64_t row, std::int64_t j) const { return paths.labels[row] == j; }
  /// The part of the share of tag j of a row that comes from tag i of the row before.
  LOD_HOST_DEVICE A part(std::int64_t row, std::int64_t i, std::int64_t j, A share) const {
    if (share == A{}) return share;  // perhaps no path leads there
    return share * std::exp(paths.score_before(row, i, j) - paths.logarithms[row * paths.chain.tags + j]);
  }
};
/// What a row contributes to the gradient of a number of the transition.
template <class T>
struct TransitionTerm {
  using A = Accumulator<T>;

  SharesOfSequence<T> found;

  LOD_HOST_DEVICE A operator()(std::int64_t, std::int64_t row, std::int64_t at) const {
    const LinearChain<T>& chain = found.paths.chain;
    const std::int64_t tags = chain.tags, from = at / tags - crf_ends, j = at % tags, of_row = found.of_row[row];
    const bool extreme = of_row < 0;
    const std::int64_t i = extreme ? ~of_row : of_row;
    const bool is_first = chain.sequences.begin(i) == row, is_last = chain.sequences.begin(i + 1) == row + 1;
    const A factor = static_cast<A>(found.dy[i]), share = found.shares[row * tags + j];
    const bool is_label = found.labels_tag(row, j);
    if (from < 0) {
      const bool counts = from == -crf_ends ? is_first : is_last;
      return counts ? ((is_label ? A{1} : A{}) - share) * factor : A{};
    }
    if (is_first) return A{};
    const bool is_taken = is_label && found.labels_tag(row - 1, from);
    const A part = extreme ? chain.scaled().part(row, from, j, share, chain.scaled().log_before(row, j))
                           : found.part(row, from, j, share);
    return ((is_taken ? A{1} : A{}) - part) * factor;
  }
};

template <>
struct Kernel<LinearChainCrfGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const T* emission, const Segments& sequences, std::int64_t tags,
                  const T* transition, const std::int64_t* labels, T* demission, T* dtransition) {
    using A = Accumulator<T>;
    const std::int64_t rows = sequences.rows(), numbers = lod::detail::saturated_product(rows, tags);
    const Scratch<E, A> scores(executor, numbers), logarithms(executor, numbers), shares(executor, numbers);
    const Scratch<E, std::int64_t> of_row(executor, rows);
    const LinearChain<T> chain{emission, sequences, tags, transition, scores.data()};
    const SharesOfSequence<T> found{{chain, labels, logarithms.data()}, dy, shares.data(), of_row.data(), demission};
    const OneSequence<E> all(executor, rows);
    for_each_by_warps(executor, sequences.size, found);
    sum_sequences<A>(
        executor, all.segments(), (tags + crf_ends) * tags, TransitionTerm<T>{found},
        [=] LOD_HOST_DEVICE(std::int64_t, std::int64_t at, A sum) { dtransition[at] = static_cast<T>(sum); });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conditional random fields whose scores leave the range of their type on the way: again, one number after the other,
/// with all scores times a power of two so small that no sum of them overflows.
///
/// Which sequences these are. Let P be `most_plain_score`, and no emission and no weight of a transition greater than
/// it, and let no row lower or raise the score of the best path (or the logarithm of the sum over all of them) by more.
/// Then a path whose score has overflowed to -inf has fallen so far below the best that so many times P as there are
/// rows do not lift it there again: it is none of the best, and its share vanishes. So numbers that stand for -inf,
/// such as the lowest finite one, cost nothing. All other sequences are computed here.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/path_likelihood.hpp>
#include <lod/kernels/scaled_scores.hpp>
#include <lod/ops/linear_chain_crf.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The conditional random field of a sequence, scaled.
template <class T>
struct ScaledChain {
  using A = Accumulator<T>;
  using Scaled = ScaledScores<A>;

  const T* emission;
  std::int64_t tags;
  const T* transition;
  A* scores;            ///< of each row and tag
  std::int64_t stride;  ///< of rows of scores and shares
  std::int64_t kept;    ///< how many rows there are memory for, which are used in turn: two, or all

  /// Writes the scores of the rows [begin, end), of which there is one, and returns the logarithm of the probability of
  /// their labels.
  LOD_HOST_DEVICE double likelihood(std::int64_t begin, std::int64_t end, const std::int64_t* labels) const {
    PathLikelihood likelihood;
    for (std::int64_t row = begin; row < end; ++row) {
      const A shift = put_row(row, [&](std::int64_t j) { return row == begin ? weight(0, j) : log_before(row, j); });
      const std::int64_t label = labels[row], before = row == begin ? 0 : labels[row - 1];
      if (label < 0 || before < 0) continue;  // an error that is thrown later
      const A into = row == begin ? weight(0, label) : weight(before + crf_ends, label);
      likelihood.add_row(static_cast<double>(into), static_cast<double>(emission_of(row, label) - greatest_of(row)),
                         static_cast<double>(shift));
    }
    const std::int64_t label = labels[end - 1];
    return likelihood.total(static_cast<double>(label < 0 ? A{} : weight(1, label)),
                            static_cast<double>(log_of_all(end))) /
           static_cast<double>(Scaled::scale);
  }
  /// After `likelihood`, for which all rows were kept: the share of all paths that each tag of a row has.
  LOD_HOST_DEVICE void find_shares(std::int64_t begin, std::int64_t end, A* shares) const {
    const A all = log_of_all(end);
    for (std::int64_t row = end - 1; row >= begin; --row) {
      A* const to = shares + row * stride;
      for (std::int64_t j = 0; j < tags; ++j) {
        to[j] =
            row + 1 < end || all == Scaled::nothing ? A{} : Scaled::exponential(scores_of(row)[j] + weight(1, j) - all);
      }
      for (std::int64_t j = 0; row + 1 < end && j < tags; ++j) {
        const A share = to[stride + j];
        if (share == A{}) continue;  // perhaps no path leads there
        const A all_before = log_before(row + 1, j);
        for (std::int64_t i = 0; i < tags; ++i) to[i] += part(row + 1, i, j, share, all_before);
      }
      Scaled::normalize(to, tags);
    }
  }
  /// The logarithm of the sum over all tags of the row before, of paths to tag j of a row.
  LOD_HOST_DEVICE A log_before(std::int64_t row, std::int64_t j) const {
    return Scaled::log_sum(tags, [&](std::int64_t i) { return score_before(row, i, j); });
  }
  /// The part of the share of tag j of a row that comes from tag i of the row before; `all` is log_before(row, j).
  LOD_HOST_DEVICE A part(std::int64_t row, std::int64_t i, std::int64_t j, A share, A all) const {
    return share == A{} ? share : share * Scaled::exponential(score_before(row, i, j) - all);
  }

  /// Writes the best path of the rows [begin, end), of which there is one; all rows are kept.
  LOD_HOST_DEVICE void decode(std::int64_t begin, std::int64_t end, std::int64_t* y) const {
    for (std::int64_t row = begin; row < end; ++row) {
      put_row(row, [&](std::int64_t j) {
        if (row == begin) return weight(0, j);
        return Scaled::greatest_of(tags, [&](std::int64_t i) { return score_before(row, i, j); });
      });
    }
    for (std::int64_t row = end - 1; row >= begin; --row) {
      A best = Scaled::nothing;
      std::int64_t first = 0;
      for (std::int64_t j = 0; j < tags; ++j) {
        const A sum = scores_of(row)[j] + (row + 1 == end ? weight(1, j) : weight(j + crf_ends, y[row + 1]));
        if (sum > best) first = j;
        best = Scaled::greater(best, sum);
      }
      y[row] = best == best ? first : 0;
    }
  }

 private:
  LOD_HOST_DEVICE A emission_of(std::int64_t row, std::int64_t j) const {
    return Scaled::scaled(emission[row * tags + j]);
  }
  /// The greatest emission of a row, unless all are -inf: from there down, large ones leave digits of what is added.
  LOD_HOST_DEVICE A greatest_of(std::int64_t row) const {
    return Scaled::subtrahend(Scaled::greatest_of(tags, [&](std::int64_t j) { return emission_of(row, j); }));
  }
  /// A number of the transition.
  LOD_HOST_DEVICE A weight(std::int64_t row, std::int64_t j) const {
    return Scaled::scaled(transition[row * tags + j]);
  }
  LOD_HOST_DEVICE A* scores_of(std::int64_t row) const { return scores + row % kept * stride; }
  LOD_HOST_DEVICE A score_before(std::int64_t row, std::int64_t i, std::int64_t j) const {
    return scores_of(row - 1)[i] + weight(i + crf_ends, j);
  }

  /// Writes the scores of a row, before(j) and the emission for tag j less the greatest of the row, as
  /// ScaledScores::put.
  template <class Before>
  LOD_HOST_DEVICE A put_row(std::int64_t row, const Before& before) const {
    const A greatest = greatest_of(row);
    return Scaled::put(scores_of(row), tags,
                       [&](std::int64_t j) { return before(j) + (emission_of(row, j) - greatest); });
  }
  LOD_HOST_DEVICE A log_of_all(std::int64_t end) const {
    return Scaled::log_sum(tags, [&](std::int64_t j) { return scores_of(end - 1)[j] + weight(1, j); });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

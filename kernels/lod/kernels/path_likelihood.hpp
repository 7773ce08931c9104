// SPDX-License-Identifier: Apache-2.0
/// @file
/// The logarithm of the probability of a path of labels, added up row by row.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/sum_tree.hpp>

#include <cmath>
#include <concepts>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// The greatest weight, emission and shift of a chain whose scores need not be scaled: see scaled_chain.hpp.
template <std::floating_point A>
inline constexpr A most_plain_score = std::same_as<A, double> ? static_cast<A>(0x1p984) : static_cast<A>(0x1p88);
/// Whether a number is greater than that, either way.
template <std::floating_point A>
LOD_HOST_DEVICE bool exceeds_plain_scores(A number) {
  return std::fabs(number) > most_plain_score<A>;
}
/// The likelihood of a sequence; it is to be computed again if scores may have overflowed.
struct Likelihood {
  double value;
  bool is_extreme;
};

/// The score of a path relative to those of all paths. At each row the scores of all paths so far are shifted so that
/// they stay near 0, and this sum is shifted by the same: the difference of two large sums would have no digits left.
class PathLikelihood {
 public:
  /// Adds a row: the weight of the transition to its label, the label's emission, and what was subtracted from all
  /// scores.
  LOD_HOST_DEVICE void add_row(double weight, double emission, double shift) noexcept {
    add_compensated(sum_, error_, weight + emission - shift);
  }
  /// After the last row: the weight of the end, and the logarithm of the sum over all paths. Never more than 0.
  LOD_HOST_DEVICE double total(double weight, double log_sum) const noexcept {
    const double score = sum_ + weight;
    // Without any allowed path, log_sum is -inf too.
    if (score < 0 && score - score != 0 && log_sum == log_sum) return score;
    const double likelihood = score + (error_ - log_sum);
    return likelihood > 0 ? 0 : likelihood;
  }

 private:
  double sum_ = 0;
  double error_ = 0;
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

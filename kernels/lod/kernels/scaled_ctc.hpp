// SPDX-License-Identifier: Apache-2.0
/// @file
/// Connectionist temporal classification for sequences whose scores leave the range of their type on the way: again,
/// one number after the other, with all scores times a power of two so small that no sum of them overflows.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/ctc_states.hpp>
#include <lod/kernels/path_likelihood.hpp>
#include <lod/kernels/scaled_scores.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// A loss, and whether any path spells the labels.
struct ScaledLoss {
  double loss;
  bool is_possible;
};
/// A sequence, scaled. There is a frame.
template <class T>
struct ScaledCtc {
  using A = Accumulator<T>;
  using Scaled = ScaledScores<A>;
  static constexpr A nothing = Scaled::nothing;

  CtcStates<T> states;
  A* scores;            ///< of the states of each frame
  std::int64_t stride;  ///< of frames of scores
  std::int64_t kept;    ///< how many frames there is memory for, which are used in turn: two, or all

  /// The negative logarithm of the probability of the labels.
  LOD_HOST_DEVICE ScaledLoss loss() const {
    PathLikelihood likelihood;
    for (std::int64_t t = 0; t < states.frames; ++t) {
      const A greatest = greatest_logit(t), emission = greatest_emission(t);
      likelihood.add_row(static_cast<double>(emission - greatest), static_cast<double>(put_frame(t, emission)),
                         static_cast<double>(log_of_frame(t, greatest)));
    }
    const A all = log_of_all();
    return {(0 - likelihood.total(static_cast<double>(all), 0)) / static_cast<double>(Scaled::scale), all != nothing};
  }
  /// The gradient of the loss times `factor`, for each frame and class; all frames are kept. `shares` is scratch memory
  /// for the states of two more frames, the second of which begins at `stride_of_shares`.
  LOD_HOST_DEVICE void write_gradient(A* shares, std::int64_t stride_of_shares, A factor, T* to) const {
    for (std::int64_t t = 0; t < states.frames; ++t) put_frame(t, greatest_emission(t));
    for (std::int64_t t = states.frames - 1; t >= 0; --t) {
      A* const own = shares + t % 2 * stride_of_shares;
      find_shares(t, shares + (t + 1) % 2 * stride_of_shares, own);
      write_frame(t, own, factor, to + t * states.classes);
    }
  }

 private:
  LOD_HOST_DEVICE A logit(std::int64_t frame, std::int64_t k) const {
    return Scaled::scaled(states.logits[frame * states.classes + k]);
  }
  LOD_HOST_DEVICE A emission(std::int64_t frame, std::int64_t state) const {
    const std::int64_t k = states.class_of(state);
    return k < 0 ? nothing : logit(frame, k);
  }
  LOD_HOST_DEVICE A log_before(const A* before, std::int64_t s) const {
    const A from[] = {before[s], s > 0 ? before[s - 1] : nothing, states.skips_to(s) ? before[s - 2] : nothing};
    return Scaled::log_sum(3, [&](std::int64_t i) { return from[i]; });
  }
  LOD_HOST_DEVICE A* scores_of(std::int64_t frame) const { return scores + frame % kept * stride; }
  /// @{
  /// The greatest logit of a frame, of all classes or of the states, unless all are -inf. From there down, large ones
  /// leave digits of what is added.
  LOD_HOST_DEVICE A greatest_logit(std::int64_t frame) const {
    return Scaled::subtrahend(Scaled::greatest_of(states.classes, [&](std::int64_t k) { return logit(frame, k); }));
  }
  LOD_HOST_DEVICE A greatest_emission(std::int64_t frame) const {
    return Scaled::subtrahend(Scaled::greatest_of(states.count(), [&](std::int64_t s) { return emission(frame, s); }));
  }
  /// @}
  LOD_HOST_DEVICE A log_of_frame(std::int64_t frame, A greatest) const {
    return Scaled::log_sum(states.classes, [&](std::int64_t k) { return logit(frame, k) - greatest; });
  }
  /// Writes the scores of a frame, by emissions less `greatest`, as ScaledScores::put.
  LOD_HOST_DEVICE A put_frame(std::int64_t frame, A greatest) const {
    return Scaled::put(scores_of(frame), states.count(), [&](std::int64_t s) {
      const A from = frame > 0 ? log_before(scores_of(frame - 1), s) : s < 2 ? A{} : nothing;
      return from + (emission(frame, s) - greatest);
    });
  }
  LOD_HOST_DEVICE A log_of_all() const {
    const A* const last = scores_of(states.frames - 1) + states.count();
    return Scaled::log_sum(states.count() > 1 ? 2 : 1, [&](std::int64_t i) { return last[-1 - i]; });
  }
  /// Writes the share of all paths that each state of a frame has, from those of the frame after it; 0 without a path.
  LOD_HOST_DEVICE void find_shares(std::int64_t frame, const A* after, A* to) const {
    const A* const own = scores_of(frame);
    const std::int64_t count = states.count();
    for (std::int64_t s = 0; s < count; ++s) to[s] = A{};
    if (frame + 1 == states.frames) {
      const A all = log_of_all();
      for (std::int64_t s = count > 1 ? count - 2 : 0; s < count; ++s) {
        if (all != nothing) to[s] = Scaled::exponential(own[s] - all);
      }
    } else {
      for (std::int64_t s = 0; s < count; ++s) {
        if (after[s] == A{}) continue;  // perhaps no path leads there
        const A all = log_before(own, s);
        for (std::int64_t from = s; from >= 0 && from + 2 >= s; --from) {
          if (from + 2 > s || states.skips_to(s)) to[from] += after[s] * Scaled::exponential(own[from] - all);
        }
      }
    }
    Scaled::normalize(to, count);
  }
  LOD_HOST_DEVICE void write_frame(std::int64_t frame, const A* shares, A factor, T* to) const {
    A sum{}, of_blank{};
    for (std::int64_t s = 0; s < states.count(); ++s) {
      sum += shares[s];
      if (s % 2 == 0) of_blank += shares[s];
    }
    const A greatest = greatest_logit(frame), all = log_of_frame(frame, greatest);
    const auto write = [&](std::int64_t k, A share) {
      const A probability = sum == A{} ? A{} : Scaled::exponential(logit(frame, k) - greatest - all);
      to[k] = static_cast<T>((probability - share) * factor);
    };
    for (std::int64_t k = 0; k < states.classes; ++k) write(k, A{});
    write(states.blank, of_blank);
    for (std::int64_t j = 0; j < states.label_count; ++j) {
      const std::int64_t k = states.labels[j];
      if (k < 0) continue;  // an error that is thrown later
      std::int64_t first = 0;
      while (states.labels[first] != k) ++first;
      if (first < j) continue;
      A share{};
      for (std::int64_t same = j; same < states.label_count; ++same) {
        if (states.labels[same] == k) share += shares[2 * same + 1];
      }
      write(k, share);
    }
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

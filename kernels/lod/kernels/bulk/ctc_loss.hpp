// SPDX-License-Identifier: Apache-2.0
/// @file
/// Connectionist temporal classification in bulk: the lanes of a warp share the states of a frame, and go from frame to
/// frame.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/bulk/path_scores.hpp>
#include <lod/kernels/ctc_states.hpp>
#include <lod/kernels/path_likelihood.hpp>
#include <lod/kernels/scaled_ctc.hpp>
#include <lod/ops/ctc_loss.hpp>
#include <lod/ops/staging.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// The logit of a state in a frame; -inf where no path leads.
template <class T>
LOD_HOST_DEVICE Accumulator<T> ctc_emission(const CtcStates<T>& states, std::int64_t frame, std::int64_t state) {
  const std::int64_t k = states.class_of(state);
  return k < 0 ? no_path<Accumulator<T>>
               : bounded(static_cast<Accumulator<T>>(states.logits[frame * states.classes + k]));
}
/// The greatest of all states, unless all are -inf: it is subtracted from the others, so that large ones leave digits.
template <class T, class Lanes>
LOD_HOST_DEVICE Accumulator<T> ctc_greatest_emission(const Lanes& lanes, const CtcStates<T>& states,
                                                     std::int64_t frame) {
  using A = Accumulator<T>;
  const A greatest =
      greatest_by_lanes<A>(lanes, states.count(), [&](std::int64_t s) { return ctc_emission(states, frame, s); });
  return greatest == no_path<A> ? A{} : greatest;
}
/// What is subtracted from the logits of a frame to give logarithms of probabilities.
template <class T, class Lanes>
LOD_HOST_DEVICE LogSum<Accumulator<T>> ctc_log_sum(const Lanes& lanes, const CtcStates<T>& states, std::int64_t frame) {
  using A = Accumulator<T>;
  const T* const row = states.logits + frame * states.classes;
  return log_sum_by_lanes<A>(lanes, states.classes, [=](std::int64_t k) { return static_cast<A>(row[k]); });
}

/// Writes the score of all paths that lead to each state to scores_of(frame), for each frame, and passes what is
/// subtracted to put(frame, from_emissions, from_scores). Returns the logarithm of the sum over all paths, less what
/// was subtracted; -inf if there is no path. There must be a frame.
template <class T, class Lanes, class ScoresOf, class Put>
LOD_HOST_DEVICE Accumulator<T> ctc_scores(const Lanes& lanes, const CtcStates<T>& states, const ScoresOf& scores_of,
                                          const Put& put) {
  using A = Accumulator<T>;
  const std::int64_t count = states.count();
  for (std::int64_t t = 0; t < states.frames; ++t) {
    const A* const before = scores_of(t == 0 ? 0 : t - 1);
    const A greatest = ctc_greatest_emission(lanes, states, t);
    const A best = put_scores(lanes, scores_of(t), count, [&](std::int64_t s) {
      const A emission = ctc_emission(states, t, s) - greatest;
      if (t == 0) return s < 2 ? emission : no_path<A>;
      const A from[] = {before[s], s > 0 ? before[s - 1] : no_path<A>, states.skips_to(s) ? before[s - 2] : no_path<A>};
      return log_sum<A>(3, [&](std::int64_t i) { return from[i]; }) + emission;
    });
    put(t, greatest, best);
  }
  const A* const last = scores_of(states.frames - 1);
  return log_sum<A>(count > 1 ? 2 : 1, [&](std::int64_t i) { return last[count - 1 - i]; });
}

/// Writes the loss of a sequence.
template <class T>
struct CtcLossOfSequence {
  using A = Accumulator<T>;

  CtcBatch<T> batch;
  bool zero_infinity;
  A* scores;  ///< of two frames of each sequence
  T* y;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, const Lanes& lanes) const {
    const CtcStates<T> states = batch[i];
    A* const own = scores + 4 * batch.label_sequences.begin(i) + 2 * i;
    const A nothing = no_path<A>;
    A last = states.label_count == 0 ? A{} : nothing;
    PathLikelihood likelihood;
    bool extreme = false;
    if (states.frames > 0) {
      last = ctc_scores(
          lanes, states, [&](std::int64_t t) { return own + t % 2 * states.count(); },
          [&](std::int64_t t, A emission, A score) {
            const LogSum<A> all = ctc_log_sum(lanes, states, t);
            likelihood.add_row(static_cast<double>(emission) - static_cast<double>(all.greatest),
                               static_cast<double>(score), static_cast<double>(all.rest));
            extreme = extreme || exceeds_plain_scores(emission) || exceeds_plain_scores(score) ||
                      exceeds_plain_scores(all.greatest);
          });
    }
    lanes.meet();  // all have read the scores of the last frame
    if (!lanes.is_first()) return;
    double loss = 0 - likelihood.total(static_cast<double>(last), 0);
    bool is_possible = last != nothing;
    if (states.frames > 0 && (extreme || exceeds_plain_scores(last)) && states.can_be_spelled()) {
      const ScaledLoss found = ScaledCtc<T>{states, own, states.count(), 2}.loss();
      loss = found.loss;
      is_possible = found.is_possible;
    }
    y[i] = static_cast<T>(is_possible ? loss : zero_infinity ? 0 : -static_cast<double>(nothing));
  }
};

/// The size of scratch memory for the states of two frames of all sequences.
template <class T>
std::int64_t ctc_two_frames(const CtcBatch<T>& batch) noexcept {
  return lod::detail::saturated_sum(lod::detail::saturated_product(4, batch.label_sequences.rows()),
                                    lod::detail::saturated_product(2, batch.sequences.size));
}

template <>
struct Kernel<CtcLoss> {
  template <class E, class T>
  static void run(const E& executor, const T* logits, const Segments& sequences, std::int64_t classes,
                  const std::int64_t* labels, const Segments& label_sequences, const CtcLossOptions& options, T* y) {
    const CtcBatch<T> batch{logits, sequences, classes, labels, label_sequences, options.blank};
    const Scratch<E, Accumulator<T>> scores(executor, ctc_two_frames(batch));
    for_each_by_warps(executor, sequences.size, CtcLossOfSequence<T>{batch, options.zero_infinity, scores.data(), y});
  }
};

/// A label in the list of equal labels of a sequence.
struct CtcLink {
  std::int64_t next;  ///< the next equal label; -1 if there is none
  bool is_first;
};

/// Writes the gradient of a sequence.
template <class T>
struct CtcGradientOfSequence {
  using A = Accumulator<T>;

  CtcBatch<T> batch;
  const T* dy;
  std::int64_t most_states;
  A* scores;       ///< of the states of each frame, then their shares
  A* ends;         ///< of two frames of each sequence
  CtcLink* links;  ///< of each label
  T* dlogits;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t i, const Lanes& lanes) const {
    const CtcStates<T> states = batch[i];
    const std::int64_t first = batch.sequences.begin(i), first_label = batch.label_sequences.begin(i);
    if (states.frames == 0) return;
    link_labels(lanes, states, links + first_label);
    const auto scores_of = [&](std::int64_t t) { return scores + (first + t) * most_states; };
    bool extreme = false;
    const A last = ctc_scores(lanes, states, scores_of, [&](std::int64_t, A emission, A score) {
      extreme = extreme || exceeds_plain_scores(emission) || exceeds_plain_scores(score);
    });
    extreme = extreme || exceeds_plain_scores(last);
    lanes.meet();  // all have read the scores of the last frame
    A* const own = ends + 4 * first_label + 2 * i;
    const A factor = static_cast<A>(dy[i]);
    if (extreme && states.can_be_spelled()) {
      if (lanes.is_first()) {
        ScaledCtc<T>{states, scores_of(0), most_states, states.frames}.write_gradient(own, states.count(), factor,
                                                                                      dlogits + first * states.classes);
      }
      return;
    }
    for (std::int64_t t = states.frames - 1; t >= 0; --t) {
      // The scores of all paths from a state on. Without the frame's own emissions they are added to the scores of the
      // paths that lead there; with them, the frame before needs them.
      A *const shares = scores_of(t), *const from_here = own + t % 2 * states.count();
      const A* const after = own + (t + 1) % 2 * states.count();
      const A greatest = ctc_greatest_emission(lanes, states, t);
      put_scores(lanes, from_here, states.count(), [&](std::int64_t s) {
        const A end = t + 1 == states.frames ? last_end(states, s) : end_before(states, after, s);
        shares[s] += end;
        return end + (ctc_emission(states, t, s) - greatest);
      });
      const A of_all = log_sum_by_lanes<A>(lanes, states.count(), [&](std::int64_t s) { return shares[s]; }).total();
      write_frame(lanes, states, t, shares, of_all, factor, links + first_label,
                  dlogits + (first + t) * states.classes);
    }
  }

 private:
  template <class Lanes>
  LOD_HOST_DEVICE static void link_labels(const Lanes& lanes, const CtcStates<T>& states, CtcLink* to) {
    lanes.template for_each_row<0>(states.label_count, [&](std::int64_t j, int) {
      std::int64_t before = j - 1, after = j + 1;
      while (before >= 0 && states.labels[before] != states.labels[j]) --before;
      while (after < states.label_count && states.labels[after] != states.labels[j]) ++after;
      to[j] = {after < states.label_count ? after : -1, before < 0};
    });
    lanes.meet();
  }
  /// The score of ending in a state.
  LOD_HOST_DEVICE static A last_end(const CtcStates<T>& states, std::int64_t s) {
    return s + 2 < states.count() ? no_path<A> : A{};
  }
  /// The score of all paths from a state on, from the scores of the frame after it.
  LOD_HOST_DEVICE static A end_before(const CtcStates<T>& states, const A* after, std::int64_t s) {
    const std::int64_t count = states.count();
    const A ways[] = {after[s], s + 1 < count ? after[s + 1] : no_path<A>,
                      s + 2 < count && states.skips_to(s + 2) ? after[s + 2] : no_path<A>};
    return log_sum<A>(3, [&](std::int64_t k) { return ways[k]; });
  }
  /// The gradient of a frame: the probability of each class, minus the shares of its states.
  template <class Lanes>
  LOD_HOST_DEVICE static void write_frame(const Lanes& lanes, const CtcStates<T>& states, std::int64_t t, A* shares,
                                          A of_all, A factor, const CtcLink* links, T* to) {
    if (of_all == no_path<A>) {
      lanes.template for_each_row<0>(states.classes, [&](std::int64_t k, int) { to[k] = T{}; });
      return;
    }
    const T* const row = states.logits + t * states.classes;
    const LogSum<A> all = ctc_log_sum(lanes, states, t);
    const A nothing{};
    const auto write = [&](std::int64_t k, A share) {
      const A probability = std::exp(bounded(static_cast<A>(row[k])) - all.greatest - all.rest);
      to[k] = static_cast<T>((probability - share) * factor);
    };
    lanes.template for_each_row<0>(states.classes, [&](std::int64_t k, int) { write(k, A{}); });
    const auto add_blank = [&](A& sum, std::int64_t s, int) {
      shares[s] = std::exp(shares[s] - of_all);
      if (s % 2 == 0) sum += shares[s];
    };
    const A of_blank = lanes.template fold_rows<0>(states.count(), nothing, add_blank, [](A a, A b) { return a + b; });
    lanes.meet();
    if (lanes.is_first()) write(states.blank, of_blank);
    lanes.template for_each_row<0>(states.label_count, [&](std::int64_t j, int) {
      const std::int64_t k = states.class_of(2 * j + 1);
      if (k < 0 || !links[j].is_first) return;
      A share{};
      for (std::int64_t same = j; same >= 0; same = links[same].next) share += shares[2 * same + 1];
      write(k, share);
    });
  }
};

template <>
struct Kernel<CtcLossGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const T* logits, const Segments& sequences, std::int64_t classes,
                  const std::int64_t* labels, const Segments& label_sequences, std::int64_t blank, T* dlogits) {
    using A = Accumulator<T>;
    const CtcBatch<T> batch{logits, sequences, classes, labels, label_sequences, blank};
    const std::int64_t most = batch.most_states();
    const Scratch<E, A> scores(executor, lod::detail::saturated_product(sequences.rows(), most));
    const Scratch<E, A> ends(executor, ctc_two_frames(batch));
    const Scratch<E, CtcLink> links(executor, label_sequences.rows());
    for_each_by_warps(executor, sequences.size,
                      CtcGradientOfSequence<T>{batch, dy, most, scores.data(), ends.data(), links.data(), dlogits});
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

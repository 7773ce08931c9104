// SPDX-License-Identifier: Apache-2.0
/// @file
/// Connectionist temporal classification on the CPU: for each frame the scores of whole vectors of states at a time.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/score_row.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/ctc_states.hpp>
#include <lod/kernels/path_likelihood.hpp>
#include <lod/kernels/scaled_ctc.hpp>
#include <lod/ops/ctc_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Rows with a number for each state of a sequence, in whole vectors, between vectors of -inf, which stand for states
/// that do not exist.
template <class A>
class CtcRows {
 public:
  static constexpr A nothing = -std::numeric_limits<A>::infinity();

  /// The size of a row for `states` states.
  static constexpr std::int64_t size(std::int64_t states) noexcept {
    const std::int64_t whole = lod::detail::saturated_sum(states, lanes<A> - 1) / lanes<A> * lanes<A>;
    return lod::detail::saturated_sum(whole, 2 * lanes<A>);
  }
  CtcRows(A* memory, std::int64_t states, std::int64_t rows) noexcept : memory_(memory), size_(size(states)) {
    std::fill_n(memory, rows * size_, nothing);
  }
  /// The states of a row.
  A* operator[](std::int64_t row) const noexcept { return memory_ + row * size_ + lanes<A>; }
  /// The size of a row of states, in whole vectors.
  std::int64_t stride() const noexcept { return size_ - 2 * lanes<A>; }

 private:
  A* memory_;
  std::int64_t size_;
};

/// log(e^a + e^b + e^c).
template <class A>
[[gnu::always_inline]] inline xsimd::batch<A> log_sum_of_three(const xsimd::batch<A>& a, const xsimd::batch<A>& b,
                                                               const xsimd::batch<A>& c) {
  using V = xsimd::batch<A>;
  const V most = xsimd::max(a, xsimd::max(b, c));
  const V by = xsimd::select(most == V(CtcRows<A>::nothing), V(A{}), most);
  return by + logarithm(exponential(a - by) + exponential(b - by) + exponential(c - by));
}

/// Scores of the paths of a sequence.
template <class T>
class CtcPaths {
 public:
  using A = Accumulator<T>;
  static constexpr A nothing = CtcRows<A>::nothing;

  /// The size of scratch memory for `states` states, besides `rows` rows of scores.
  static constexpr std::int64_t scratch(std::int64_t states, std::int64_t rows) noexcept {
    return lod::detail::saturated_product(lod::detail::saturated_sum(rows, 2), CtcRows<A>::size(states));
  }
  CtcPaths(const CtcStates<T>& states, std::int64_t rows, A* memory) noexcept
      : states_(states),
        own_(memory, states.count(), 2),
        rows_(memory + 2 * CtcRows<A>::size(states.count()), states.count(), rows) {
    for (std::int64_t s = 3; s < states.count(); s += 2) skips()[s] = states.skips_to(s) ? A{} : nothing;
  }

  A* row(std::int64_t i) const noexcept { return rows_[i]; }
  std::int64_t stride() const noexcept { return own_.stride(); }

  /// What is subtracted from the scores of a frame.
  struct Subtracted {
    A emission;  ///< from all emissions, by `far_from_zero`
    A score;     ///< then the best score
    bool is_extreme() const noexcept { return exceeds_plain_scores(emission) || exceeds_plain_scores(score); }
  };
  /// Writes the scores of all paths that lead to each state of a frame; `before` are those of the frame before it, null
  /// for the first.
  Subtracted next_scores(std::int64_t frame, const A* before, A* to) const noexcept {
    const A far = read_emissions(frame);
    ScoreRow<A> next(to);
    for (std::int64_t s = 0; s < stride(); s += lanes<A>) {
      const Vector<A> emission = load(own_[0] + s) - Vector<A>(far);
      if (before) {
        next.put(s, emission + log_sum_of_three<A>(load(before + s), load(before + s - 1),
                                                   load(before + s - 2) + load(skips() + s)));
      } else {
        next.put(s, xsimd::select(first_lanes<A>(2 - s), emission, Vector<A>(nothing)));
      }
    }
    return {far, next.shift(stride())};
  }
  /// The logarithm of the sum over all paths, from the scores of the last frame.
  A log_sum_of_last(const A* scores) const noexcept {
    const std::int64_t ends = std::min<std::int64_t>(states_.count(), 2);
    return log_sum_of_row(scores + states_.count() - ends, ends).total();
  }
  /// Adds, to the score of all paths that lead to each state of a frame, the score of all paths that continue from
  /// there. `after` is what this function wrote to `ends` for the frame after it; `ends` receives the scores of
  /// continuing paths including this frame.
  void add_ends(std::int64_t frame, bool is_last, A* scores, const A* after, A* ends) const noexcept {
    const A far = read_emissions(frame);
    ScoreRow<A> put(ends);
    for (std::int64_t s = 0; s < stride(); s += lanes<A>) {
      Vector<A> end;
      if (is_last) {
        const std::int64_t left = states_.count() - s;
        end = xsimd::select(first_lanes<A>(left), Vector<A>(A{}), Vector<A>(nothing));
        end = xsimd::select(first_lanes<A>(left - 2), Vector<A>(nothing), end);
      } else {
        end = log_sum_of_three<A>(load(after + s), load(after + s + 1), load(after + s + 2) + load(skips() + s + 2));
      }
      store<A>(scores + s, load(scores + s) + end);
      put.put(s, end + (load(own_[0] + s) - Vector<A>(far)));
    }
    put.shift(stride());
  }

 private:
  A* skips() const noexcept { return own_[1]; }
  /// Writes the emissions of a frame, and returns what is to be subtracted from them first.
  A read_emissions(std::int64_t frame) const noexcept {
    const T* const row = states_.logits + frame * states_.classes;
    A* const to = own_[0];
    for (std::int64_t s = 0; s < states_.count(); ++s) {
      const std::int64_t k = states_.class_of(s);
      if (k >= 0) to[s] = std::min(static_cast<A>(row[k]), std::numeric_limits<A>::max());
    }
    Vector<A> greatest(nothing);
    for (std::int64_t s = 0; s < stride(); s += lanes<A>) greatest = xsimd::max(load(to + s), greatest);  // skips NaN
    return far_from_zero<A>(greatest);
  }

  CtcStates<T> states_;
  CtcRows<A> own_;  ///< the emissions of a frame; 0 for states that paths skip to, else -inf
  CtcRows<A> rows_;
};

/// Calls body(i, thread) for each sequence.
template <class T, class Body>
void for_each_ctc(const CpuExecutor& executor, const CtcBatch<T>& batch, const Body& body) {
  // A state costs about ten times as much as a class.
  const std::int64_t row_bytes = lod::detail::bytes_of<T>(
      lod::detail::saturated_sum(batch.classes, lod::detail::saturated_product(10, batch.most_states())));
  parallel_sequences(executor, batch.sequences, row_bytes, [&](std::int64_t first, std::int64_t last, int thread) {
    for (std::int64_t i = first; i < last; ++i) body(i, thread);
  });
}

template <>
struct Kernel<CtcLoss> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* logits, const Segments& sequences, std::int64_t classes,
                  const std::int64_t* labels, const Segments& label_sequences, const CtcLossOptions& options, T* y) {
    using A = Accumulator<T>;
    const CtcBatch<T> batch{logits, sequences, classes, labels, label_sequences, options.blank};
    const cpu::ThreadScratch<A> scratch(executor, cpu::CtcPaths<T>::scratch(batch.most_states(), 2));
    constexpr A nothing = cpu::CtcPaths<T>::nothing;
    cpu::for_each_ctc(executor, batch, [&](std::int64_t i, int thread) {
      const CtcStates<T> states = batch[i];
      const cpu::CtcPaths<T> paths(states, 2, scratch(thread));
      A last = states.label_count == 0 ? A{} : nothing;
      PathLikelihood likelihood;
      bool extreme = false;
      for (std::int64_t t = 0; t < states.frames; ++t) {
        const cpu::LogSum<A> all = cpu::log_sum_of_row(states.logits + t * classes, classes);
        const auto by = paths.next_scores(t, t == 0 ? nullptr : paths.row((t - 1) % 2), paths.row(t % 2));
        likelihood.add_row(static_cast<double>(by.emission) - static_cast<double>(all.greatest),
                           static_cast<double>(by.score), static_cast<double>(all.rest));
        extreme = extreme || by.is_extreme() || exceeds_plain_scores(all.greatest);
      }
      if (states.frames > 0) last = paths.log_sum_of_last(paths.row((states.frames - 1) % 2));
      double loss = 0 - likelihood.total(static_cast<double>(last), 0);
      bool is_possible = last != nothing;
      if (states.frames > 0 && (extreme || exceeds_plain_scores(last)) && states.can_be_spelled()) [[unlikely]] {
        const ScaledLoss found = ScaledCtc<T>{states, paths.row(0), paths.row(1) - paths.row(0), 2}.loss();
        loss = found.loss;
        is_possible = found.is_possible;
      }
      y[i] = static_cast<T>(is_possible ? loss : options.zero_infinity ? 0 : -static_cast<double>(nothing));
    });
  }
};

template <>
struct Kernel<CtcLossGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const T* logits, const Segments& sequences,
                  std::int64_t classes, const std::int64_t* labels, const Segments& label_sequences, std::int64_t blank,
                  T* dlogits) {
    using A = Accumulator<T>;
    const CtcBatch<T> batch{logits, sequences, classes, labels, label_sequences, blank};
    const std::int64_t rows = lod::detail::saturated_sum(sequences.max_rows, 2);
    const cpu::ThreadScratch<A> scratch(executor, cpu::CtcPaths<T>::scratch(batch.most_states(), rows));
    const cpu::ThreadScratch<A> shares_of_classes(executor, classes);
    cpu::for_each_ctc(executor, batch, [&](std::int64_t i, int thread) {
      const CtcStates<T> states = batch[i];
      const cpu::CtcPaths<T> paths(states, states.frames + 2, scratch(thread));
      A* const ends[] = {paths.row(states.frames), paths.row(states.frames + 1)};
      A* const shares = shares_of_classes(thread);
      T* const to = dlogits + sequences.begin(i) * classes;
      const A factor = static_cast<A>(dy[i]);
      std::fill_n(shares, classes, A{});
      bool extreme = false;
      for (std::int64_t t = 0; t < states.frames; ++t) {
        extreme |= paths.next_scores(t, t == 0 ? nullptr : paths.row(t - 1), paths.row(t)).is_extreme();
      }
      extreme =
          extreme || (states.frames > 0 && exceeds_plain_scores(paths.log_sum_of_last(paths.row(states.frames - 1))));
      if (extreme && states.can_be_spelled()) [[unlikely]] {
        return ScaledCtc<T>{states, paths.row(0), paths.row(1) - paths.row(0), states.frames}.write_gradient(
            ends[0], ends[1] - ends[0], factor, to);
      }
      for (std::int64_t t = states.frames - 1; t >= 0; --t) {
        A* const scores = paths.row(t);
        paths.add_ends(t, t + 1 == states.frames, scores, ends[(t + 1) % 2], ends[t % 2]);
        const A of_all = cpu::log_sum_of_row(scores, states.count()).total();
        const std::int64_t first = t * classes;
        if (of_all == cpu::CtcPaths<T>::nothing) {
          std::fill_n(to + first, classes, T{});
          continue;
        }
        cpu::transform(scores, paths.stride(), scores,
                       [=](const cpu::Vector<A>& score) { return cpu::exponential(score - cpu::Vector<A>(of_all)); });
        for_each_class(states, [&](std::int64_t s, std::int64_t k) { shares[k] += scores[s]; });
        const cpu::LogSum<A> all = cpu::log_sum_of_row(states.logits + first, classes);
        for (std::int64_t k = 0; k < classes; k += cpu::lanes<T>) {
          const std::int64_t some = std::min(classes - k, cpu::lanes<T>), left = classes - k;
          const auto row = cpu::bounded<A>(cpu::load_vector(states.logits + first + k, some, A{}, left));
          const auto share = cpu::load_vector(shares + k, some, A{}, left);
          const auto probability = cpu::exponential(row - cpu::Vector<A>(all.greatest) - cpu::Vector<A>(all.rest));
          cpu::store_first<T>(to + first + k, (probability - share) * cpu::Vector<A>(factor), some, left);
        }
        for_each_class(states, [&](std::int64_t, std::int64_t k) { shares[k] = A{}; });
      }
    });
  }

 private:
  /// Calls body(state, class) for each state that a path may lead to.
  template <class T, class Body>
  static void for_each_class(const CtcStates<T>& states, const Body& body) {
    for (std::int64_t s = 0; s < states.count(); ++s) {
      const std::int64_t k = states.class_of(s);
      if (k >= 0) body(s, k);
    }
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

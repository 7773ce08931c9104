// SPDX-License-Identifier: Apache-2.0
/// @file
/// Connectionist temporal classification for sequences whose scores leave the range of their type on the way: again,
/// one number after the other, with all scores times a power of two so small that no sum of them overflows.
#pragma once

#include <lod/core/target.hpp>
#include <lod/kernels/ctc_states.hpp>
#include <lod/kernels/path_likelihood.hpp>
#include <lod/kernels/unbounded.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {

/// A loss, and whether any path spells the labels.
struct ScaledLoss {
  double loss;
  bool is_possible;
};
/// The loss of a sequence, scaled.
template <class T>
struct ScaledCtc {
  using A = Accumulator<T>;
  static constexpr A scale = static_cast<A>(0x1p-64);
  static constexpr A nothing = static_cast<A>(-__builtin_huge_val());

  CtcStates<T> states;

  /// The negative logarithm of the probability of the labels. There is a frame.
  /// `scores` is scratch memory for the states of two frames, the second of which begins at `stride`.
  LOD_HOST_DEVICE ScaledLoss loss(A* scores, std::int64_t stride) const {
    PathLikelihood likelihood;
    const std::int64_t count = states.count();
    for (std::int64_t t = 0; t < states.frames; ++t) {
      const A* const before = scores + (t + 1) % 2 * stride;
      A* const to = scores + t % 2 * stride;
      // From the greatest logit down, so that a large one leaves digits of what is added to it.
      A greatest = nothing;
      for (std::int64_t k = 0; k < states.classes; ++k) greatest = greater(greatest, logit(t, k));
      if (greatest == nothing) greatest = A{};
      A best = nothing;
      for (std::int64_t s = 0; s < count; ++s) {
        const A from = t == 0 ? (s < 2 ? A{} : nothing) : log_before(before, s);
        to[s] = from + (emission(t, s) - greatest);
        best = greater(best, to[s]);
      }
      const A by = best == nothing ? A{} : best;
      for (std::int64_t s = 0; s < count; ++s) to[s] -= by;
      const A all = log_sum(states.classes, [&](std::int64_t k) { return logit(t, k) - greatest; });
      likelihood.add_row(0, static_cast<double>(by), static_cast<double>(all));
    }
    const A* const last = scores + (states.frames - 1) % 2 * stride + count;
    const A all = log_sum(count > 1 ? 2 : 1, [&](std::int64_t i) { return last[-1 - i]; });
    return {(0 - likelihood.total(static_cast<double>(all), 0)) / static_cast<double>(scale), all != nothing};
  }

 private:
  LOD_HOST_DEVICE A logit(std::int64_t frame, std::int64_t k) const {
    const A x = static_cast<A>(states.logits[frame * states.classes + k]), most = static_cast<A>(greatest_finite<A>);
    return (x > most ? most : x) * scale;
  }
  LOD_HOST_DEVICE A emission(std::int64_t frame, std::int64_t state) const {
    const std::int64_t k = states.class_of(state);
    return k < 0 ? nothing : logit(frame, k);
  }
  LOD_HOST_DEVICE A log_before(const A* before, std::int64_t s) const {
    const A from[] = {before[s], s > 0 ? before[s - 1] : nothing, states.skips_to(s) ? before[s - 2] : nothing};
    return log_sum(3, [&](std::int64_t i) { return from[i]; });
  }
  /// NaN is greater than all.
  LOD_HOST_DEVICE static A greater(A a, A b) { return b > a || b != b ? b : a; }
  template <class Number>
  LOD_HOST_DEVICE static A log_sum(std::int64_t count, const Number& number) {
    A most = nothing;
    for (std::int64_t i = 0; i < count; ++i) most = greater(most, number(i));
    if (most == nothing) return most;
    A sum{};
    for (std::int64_t i = 0; i < count; ++i) sum += std::exp((number(i) - most) / scale);
    return most + std::log(sum) * scale;
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Cross entropy in bulk: the lanes of a warp share the classes of a row.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/kernels/bulk/lanes.hpp>
#include <lod/kernels/bulk/path_scores.hpp>
#include <lod/kernels/scaled_loss.hpp>
#include <lod/ops/cross_entropy.hpp>

#include <cmath>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

/// Writes the loss of a row.
template <class T>
struct LossOfRow {
  using A = Accumulator<T>;

  const T* logits;
  std::int64_t classes;
  TargetLabels targets;
  A* losses;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const A zero{};
    if (!targets.counts(row)) {
      if (lanes.is_first()) losses[row] = zero;
      return;
    }
    const T* const x = logits + row * classes;
    const auto number = [=](std::int64_t k) { return bounded(static_cast<A>(x[k])); };
    const LogSum<A> all = log_sum_by_lanes<A>(lanes, classes, number);
    // From the greatest logit down, so that large ones leave digits of their difference.
    const A share = static_cast<A>(targets.smoothing), scale = static_cast<A>(targets.scale);
    A loss = all.greatest - number(targets.labels[row]);
    if (share > zero) {
      const auto add = [&](A& sum, std::int64_t k, int) { sum += all.greatest - number(k); };
      const A sum = lanes.template fold_rows<0>(classes, zero, add, [](A a, A b) { return a + b; });
      const A mean = sum / static_cast<A>(classes);
      loss = share < A{1} ? (A{1} - share) * loss + share * mean : mean;
    }
    if (!lanes.is_first()) return;
    loss += all.rest;
    losses[row] = is_finite(loss) ? loss * scale
                                  : scaled_loss(x, classes, targets.labels[row], share, all.greatest, all.rest, scale);
  }
};
template <>
struct Kernel<CrossEntropy> {
  template <class E, class T>
  static void run(const E& executor, const T* logits, std::int64_t rows, std::int64_t classes,
                  const TargetLabels& targets, Accumulator<T>* losses) {
    for_each_by_warps(executor, rows, LossOfRow<T>{logits, classes, targets, losses});
  }
};

/// Writes the gradient of a row.
template <class T>
struct CrossEntropyGradOfRow {
  using A = Accumulator<T>;

  const T* dy;
  std::int64_t dy_step;
  const A* weights;
  const T* logits;
  std::int64_t classes;
  TargetLabels targets;
  T* dlogits;

  template <class Lanes>
  LOD_HOST_DEVICE void operator()(std::int64_t row, const Lanes& lanes) const {
    const T* const x = logits + row * classes;
    T* const to = dlogits + row * classes;
    if (!targets.counts(row)) {
      lanes.template for_each_row<0>(classes, [&](std::int64_t k, int) { to[k] = T{}; });
      return;
    }
    const auto number = [=](std::int64_t k) { return bounded(static_cast<A>(x[k])); };
    const LogSum<A> all = log_sum_by_lanes<A>(lanes, classes, number);
    const A factor = static_cast<A>(dy[row * dy_step]) * (weights ? weights[row] : A{1});
    const A smoothing = static_cast<A>(targets.smoothing), share = smoothing / static_cast<A>(classes);
    const std::int64_t label = targets.labels[row];
    lanes.template for_each_row<0>(classes, [&](std::int64_t k, int) {
      const A target = k == label ? A{1} - smoothing + share : share;
      to[k] = static_cast<T>((std::exp(number(k) - all.greatest - all.rest) - target) * factor);
    });
  }
};
template <>
struct Kernel<CrossEntropyGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, std::int64_t dy_step, const Accumulator<T>* weights, const T* logits,
                  std::int64_t rows, std::int64_t classes, const TargetLabels& targets, T* dlogits) {
    for_each_by_warps(executor, rows,
                      CrossEntropyGradOfRow<T>{dy, dy_step, weights, logits, classes, targets, dlogits});
  }
};

template <>
struct Kernel<CountTargets> {
  template <class E, class A>
  static void run(const E& executor, const TargetLabels& targets, std::int64_t rows, A* counts) {
    for_each(executor, rows, [=] LOD_HOST_DEVICE(std::int64_t row) { counts[row] = targets.counts(row) ? A{1} : A{}; });
  }
};

template <>
struct Kernel<Quotients> {
  template <class E, class A, class Y>
  static void run(const E& executor, const A* a, const A* b, std::int64_t count, const A* divisor, double scale, Y* y) {
    for_each(executor, count, [=] LOD_HOST_DEVICE(std::int64_t i) { y[i] = quotient<A, Y>(a, b, i, divisor, scale); });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

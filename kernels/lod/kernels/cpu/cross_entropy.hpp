// SPDX-License-Identifier: Apache-2.0
/// @file
/// Cross entropy on the CPU: whole vectors of the classes of a row at a time.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/score_row.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/scaled_loss.hpp>
#include <lod/ops/cross_entropy.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<CrossEntropy> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* logits, std::int64_t rows, std::int64_t classes,
                  const TargetLabels& targets, Accumulator<T>* losses) {
    using A = Accumulator<T>;
    const A scale = static_cast<A>(targets.scale);
    const std::int64_t bytes = lod::detail::bytes_of<T>(rows, classes);
    cpu::parallel_ranges(executor, rows, bytes, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) {
        losses[row] = A{};
        if (!targets.counts(row)) continue;
        const T* const x = logits + row * classes;
        const cpu::LogSum<A> all = cpu::log_sum_of_row(x, classes);
        // From the greatest logit down, so that large ones leave digits of their difference.
        const A share = static_cast<A>(targets.smoothing);
        A loss = all.greatest - std::min(static_cast<A>(x[targets.labels[row]]), std::numeric_limits<A>::max());
        if (share > A{}) {
          cpu::Vector<T> sum(A{});
          for (std::int64_t k = 0; k < classes; k += cpu::lanes<T>) {
            const auto some = cpu::load_vector(x + k, std::min(classes - k, cpu::lanes<T>), all.greatest, classes - k);
            sum += cpu::Vector<T>(all.greatest) - cpu::bounded<A>(some);
          }
          const A mean = cpu::sum_of_lanes(sum) / static_cast<A>(classes);
          loss = share < A{1} ? (A{1} - share) * loss + share * mean : mean;
        }
        losses[row] = loss + all.rest;
      }
      if (scale == A{1} && !(targets.smoothing > 0)) return;  // a loss that is too large is one
      for (std::int64_t row = begin; row < end; ++row) {
        if (!is_finite(losses[row])) [[unlikely]] {
          losses[row] = careful_loss(logits + row * classes, classes, targets, row);
        } else {
          losses[row] *= scale;
        }
      }
    });
  }

 private:
  template <class T>
  [[gnu::noinline]] static Accumulator<T> careful_loss(const T* x, std::int64_t classes, const TargetLabels& targets,
                                                       std::int64_t row) {
    using A = Accumulator<T>;
    const cpu::LogSum<A> all = cpu::log_sum_of_row(x, classes);
    return scaled_loss(x, classes, targets.labels[row], static_cast<A>(targets.smoothing), all.greatest, all.rest,
                       static_cast<A>(targets.scale));
  }
};

template <>
struct Kernel<CrossEntropyGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, std::int64_t dy_step, const Accumulator<T>* weights,
                  const T* logits, std::int64_t rows, std::int64_t classes, const TargetLabels& targets, T* dlogits) {
    using A = Accumulator<T>;
    constexpr bool is_own_type = std::same_as<T, A>;
    const A smoothing = static_cast<A>(targets.smoothing), share = smoothing / static_cast<A>(classes);
    const cpu::ThreadScratch<A> scratch(executor, is_own_type ? 0 : classes);
    const std::int64_t bytes = lod::detail::bytes_of<T>(rows, lod::detail::saturated_product(2, classes));
    cpu::parallel_ranges(executor, rows, bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* const x = logits + row * classes;
        T* const to = dlogits + row * classes;
        if (!targets.counts(row)) {
          cpu::fill(to, classes, T{});
          continue;
        }
        // Exponentials are kept from their sum to the quotients: in the row itself, perhaps in place of the logits.
        A* exponentials = scratch(thread);
        if constexpr (is_own_type) exponentials = to;
        const A sum = cpu::sum_of_exponentials(x, classes, cpu::greatest_of_row(x, classes),
                                               [=](std::int64_t k, const cpu::Vector<T>& some, std::int64_t count) {
                                                 cpu::store_first<A>(exponentials + k, some, count, count);
                                               });
        const A factor = static_cast<A>(dy[row * dy_step]) * (weights ? weights[row] : A{1});
        const std::int64_t label = targets.labels[row];
        const A probability = exponentials[label] / sum;
        const cpu::Vector<T> by(A{1} / sum), minus_share(-share), factors(factor);
        for (std::int64_t k = 0; k < classes; k += cpu::lanes<T>) {
          const std::int64_t some = std::min(classes - k, cpu::lanes<T>);
          const cpu::Vector<T> own = cpu::load_vector<A>(exponentials + k, some, A{}, classes - k);
          cpu::store_first<T>(to + k, cpu::multiply_add(own, by, minus_share) * factors, some, classes - k);
        }
        to[label] = static_cast<T>((probability - (A{1} - smoothing + share)) * factor);
      }
    });
  }
};

template <>
struct Kernel<CountTargets> {
  template <class A>
  static void run(const CpuExecutor& executor, const TargetLabels& targets, std::int64_t rows, A* counts) {
    cpu::parallel_ranges(executor, rows, lod::detail::bytes_of<std::int64_t>(rows, 2),
                         [&](std::int64_t begin, std::int64_t end, int) {
                           for (std::int64_t row = begin; row < end; ++row) {
                             counts[row] = targets.counts(row) ? A{1} : A{};
                           }
                         });
  }
};

template <>
struct Kernel<Quotients> {
  template <class A, class Y>
  static void run(const CpuExecutor& executor, const A* a, const A* b, std::int64_t count, const A* divisor,
                  double scale, Y* y) {
    cpu::parallel_ranges(executor, count, lod::detail::bytes_of<A>(count, 3),
                         [&](std::int64_t begin, std::int64_t end, int) {
                           for (std::int64_t i = begin; i < end; ++i) y[i] = quotient<A, Y>(a, b, i, divisor, scale);
                         });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

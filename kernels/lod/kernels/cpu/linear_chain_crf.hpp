// SPDX-License-Identifier: Apache-2.0
/// @file
/// Conditional random fields on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/crf_chain.hpp>
#include <lod/kernels/cpu/exponential.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/matrix_product.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/score_row.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/kernels/path_likelihood.hpp>
#include <lod/kernels/sum_tree.hpp>
#include <lod/ops/linear_chain_crf.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<CrfDecoding> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* emission, const Segments& sequences, std::int64_t tags,
                  const T* transition, std::int64_t* y) {
    using A = Accumulator<T>;
    const std::int64_t stride = cpu::tag_stride<A>(tags), rows = sequences.rows();
    if (rows == 0) return;
    const Workspace::Loan<A> weights(executor.workspace(), cpu::Chain<T>::scratch(tags));
    const Workspace::Loan<A> nans(executor.workspace(), stride);  // what makes the scores of a tag NaN
    const Workspace::Loan<A> scores(executor.workspace(), lod::detail::saturated_product(rows, stride));
    const cpu::Chain<T> chain(emission, rows, tags, transition, weights.data());
    for (std::int64_t j = 0; j < stride; j += cpu::lanes<A>) {
      cpu::Vector<A> nan(A{});
      for (std::int64_t i = 0; i < tags; ++i) {
        const cpu::Vector<A> weight = cpu::load(chain.from(i) + j);
        nan = xsimd::select(xsimd::isnan(weight), weight, nan);
      }
      cpu::store<A>(nans.data() + j, nan);
    }
    cpu::for_each_chain<A>(executor, sequences, tags, [&](std::int64_t i, int) {
      const std::int64_t begin = sequences.begin(i), end = begin + sequences.length(i);
      if (begin == end) return;
      A* to = scores.data() + begin * stride;
      // Once NaN, scores stay NaN.
      cpu::Vector<A> most(-std::numeric_limits<A>::infinity());
      A shift = chain.start_scores(begin, chain.far_emission(begin, most), to), nan = zero_or_nan(shift);
      bool extreme = exceeds_plain_scores(shift);  // see scaled_chain.hpp
      for (std::int64_t row = begin + 1; row < end; ++row) {
        const A* const before = to;
        to += stride;
        cpu::ScoreRow<A> next(to);
        const cpu::Vector<A> far(chain.far_emission(row, most));
        cpu::fold_tags(before, tags, chain.from(0), cpu::BestTag<A>(), [&](std::int64_t j, const cpu::Vector<A>& best) {
          const cpu::Vector<A> nothing_or_nan = cpu::load(nans.data() + j) + cpu::Vector<A>(nan);
          next.put(j, cpu::bounded<A>(best) + (chain.emission(row, j) - far) + nothing_or_nan);
        });
        shift = next.shift(stride);
        nan = zero_or_nan(shift);
        extreme |= exceeds_plain_scores(shift);
      }
      A best{};
      y[end - 1] = best_tag(to, chain.stop(), tags, best);
      if (extreme || exceeds_plain_scores(best) || chain.is_extreme(most)) {
        chain.scaled(scores.data(), rows).decode(begin, end, y);
        return;
      }
      for (std::int64_t row = end - 1; row > begin; --row) {
        to -= stride;
        y[row - 1] = best_tag(to, chain.into(y[row]), tags, best);
      }
    });
  }

 private:
  template <class A>
  static A zero_or_nan(A shift) noexcept {
    return shift - shift;
  }
  /// The first tag with the greatest sum, which is written to `greatest`; 0 if one is NaN.
  template <class A>
  static std::int64_t best_tag(const A* scores, const A* weights, std::int64_t tags, A& greatest) noexcept {
    cpu::Vector<A> best(-std::numeric_limits<A>::infinity());
    for (std::int64_t j = 0; j < tags; j += cpu::lanes<A>) {
      const cpu::Vector<A> sums = cpu::load(scores + j) + cpu::load(weights + j);
      best = xsimd::select(cpu::exceeds(sums, best), sums, best);
    }
    greatest = cpu::greatest_lane(best);
    for (std::int64_t j = 0; j < tags; ++j) {
      if (scores[j] + weights[j] == greatest) return j;
    }
    return 0;
  }
};

/// Sums over all paths. The exponentials of scores and of weights are multiplied and added up, as a product of a vector
/// and a matrix; the greatest of the weights into a tag is first subtracted from them. If a sum is so small that
/// significant terms may have been lost, it is computed again from logarithms.
template <class T>
class PathSums : public Chain<T> {
 public:
  using A = Accumulator<T>;
  using Chain<T>::nothing, Chain<T>::tags, Chain<T>::stride, Chain<T>::into;
  /// Below this, what a sum has lost (exponentials and products below the least normal number) may be significant.
  /// Quotients by a sum of this size do not overflow.
  static constexpr A least_sum = std::same_as<A, double> ? static_cast<A>(0x1p-960) : static_cast<A>(0x1p-90);

  static constexpr std::int64_t scratch(std::int64_t tags) noexcept {
    return lod::detail::saturated_sum(Chain<T>::scratch(tags),
                                      lod::detail::saturated_product(2 * tags + 1, tag_stride<A>(tags)));
  }
  PathSums(const T* emission, std::int64_t rows, std::int64_t count, const T* transition, A* scratch)
      : Chain<T>(emission, rows, count, transition, scratch),
        factors_(scratch + Chain<T>::scratch(count)),
        factors_into_(factors_ + count * stride()),
        greatest_(factors_into_ + count * stride()) {
    std::fill_n(greatest_, stride(), nothing);
    for (std::int64_t j = 0; j < count; ++j) {
      Vector<A> most(nothing);
      for (std::int64_t i = 0; i < stride(); i += lanes<A>) {
        const Vector<A> some = load(into(j) + i);
        most = xsimd::select(exceeds(some, most), some, most);
      }
      greatest_[j] = greatest_lane(most);
    }
    // If no transition leads to a tag, the factors are 1: with a greatest weight of -inf, the sums still come to
    // nothing.
    const auto factors = [](const A* weights, const Vector<A>& greatest, A* to) {
      store<A>(to,
               xsimd::select(greatest == Vector<A>(nothing), Vector<A>(A{1}), exponential(load(weights) - greatest)));
    };
    for (std::int64_t k = 0; k < count; ++k) {
      for (std::int64_t j = 0; j < stride(); j += lanes<A>) {
        factors(this->from(k) + j, load(greatest_ + j), factors_ + k * stride() + j);
        factors(into(k) + j, Vector<A>(greatest_[k]), factors_into_ + k * stride() + j);
      }
    }
  }

  /// The exponentials of the weights from tag i, each minus the greatest weight into its tag.
  const A* factors_from(std::int64_t i) const noexcept { return factors_ + i * stride(); }

  /// Writes the exponentials of the scores of a row.
  void exponentials(const A* scores, A* to) const noexcept {
    for (std::int64_t j = 0; j < stride(); j += lanes<A>) store<A>(to + j, exponential(load(scores + j)));
  }
  /// Writes the scores of a row, from emissions less `far`, the scores of the row before it and their exponentials;
  /// returns what is subtracted from them. Calls put_sums(j, sums) with what `shares_before` needs, for each vector of
  /// tags.
  template <class PutSums>
  A next_scores(std::int64_t row, A far, const A* scores, const A* exponentials, A* to, const PutSums& put_sums) const {
    ScoreRow<A> next(to);
    fold_tags(exponentials, tags(), factors_, SumOfTags<A>(), [&](std::int64_t j, const Vector<A>& sums) {
      Vector<A> exact = sums, logarithms = load(greatest_ + j) + logarithm(sums);
      if (xsimd::any(sums < Vector<A>(least_sum))) sum_carefully(scores, j, exact, logarithms);
      put_sums(j, exact);
      next.put(j, bounded<A>(logarithms) + (this->emission(row, j) - Vector<A>(far)));
    });
    return next.shift(stride());
  }
  /// log(sum(e^(scores[i] + weights[i]))); -inf if all terms are -inf.
  [[gnu::noinline]] A log_sum(const A* scores, const A* weights) const noexcept {
    Vector<A> most(nothing);
    for (std::int64_t i = 0; i < stride(); i += lanes<A>) {
      const Vector<A> some = load(scores + i) + load(weights + i);
      most = xsimd::select(exceeds(some, most), some, most);
    }
    const A greatest = greatest_lane(most);
    if (greatest == nothing) return nothing;
    Vector<A> sum(A{});
    for (std::int64_t i = 0; i < stride(); i += lanes<A>) {
      sum += exponential(load(scores + i) + load(weights + i) - Vector<A>(greatest));
    }
    return greatest + std::log(sum_of_lanes(sum));
  }

  /// The factor of shares that are marked by a negative sign: so small that they vanish in a sum.
  static constexpr A mark = std::same_as<A, double> ? static_cast<A>(0x1p-900) : static_cast<A>(0x1p-80);
  /// From the shares of all paths that the tags of a row have, computes those of the row before it, whose scores these
  /// are. `sums`, those of the row, are replaced by shares / sums, or, where a sum is too small, by the negative share
  /// times `mark`; returns whether any was. `quotients` is scratch for a row.
  bool shares_before(const A* scores, const A* exponentials, A* sums, A* quotients, A* shares) const {
    bool careful = false;
    for (std::int64_t j = 0; j < stride(); j += lanes<A>) {
      const Vector<A> share = load(shares + j), sum = load(sums + j);
      const auto too_small = sum <= Vector<A>(A{});
      const Vector<A> quotient = xsimd::select(too_small, Vector<A>(A{}), share / sum);
      store<A>(quotients + j, quotient);
      const Vector<A> marked = xsimd::select(too_small, share * Vector<A>(-mark), quotient);
      store<A>(sums + j, marked);
      careful = careful || xsimd::any(marked < Vector<A>(A{}));
    }
    A* const before = quotients + stride();
    fold_tags(quotients, tags(), factors_into_, SumOfTags<A>(),
              [&](std::int64_t i, const Vector<A>& sum) { store<A>(before + i, load(exponentials + i) * sum); });
    if (careful) {
      for_each_careful(scores, sums, [&](std::int64_t, std::int64_t i, const Vector<A>& part) {
        store<A>(before + i, load(before + i) + part);
      });
    }
    copy(before, stride(), shares);
    make_whole(shares);
    return careful;
  }
  /// Calls take(j, i, parts) for each tag j of a row whose share is marked: the parts of it that come from the tags
  /// from i on of the row before, whose scores these are.
  template <class Take>
  [[gnu::noinline]] void for_each_careful(const A* scores, const A* marked, const Take& take) const {
    for (std::int64_t j = 0; j < tags(); ++j) {
      if (!(marked[j] < 0)) continue;
      const A share = -marked[j] / mark, all = log_sum(scores, into(j));
      for (std::int64_t i = 0; i < stride(); i += lanes<A>) {
        take(j, i, Vector<A>(share) * exponential(load(scores + i) + load(into(j) + i) - Vector<A>(all)));
      }
    }
  }
  /// The shares of all paths of a sequence that its last tags have.
  void last_shares(const A* scores, A* shares) const {
    const A all = log_sum(scores, this->stop());
    for (std::int64_t j = 0; j < stride(); j += lanes<A>) {
      const Vector<A> share = exponential(load(scores + j) + load(this->stop() + j) - Vector<A>(all));
      store<A>(shares + j, all == nothing ? Vector<A>(A{}) : share);
    }
    make_whole(shares);
  }

 private:
  /// Replaces those sums from j on that are too small: by exact logarithms, and 0 as the sum.
  [[gnu::noinline]] void sum_carefully(const A* scores, std::int64_t j, Vector<A>& sums, Vector<A>& logarithms) const {
    alignas(64) A sum[Vector<A>::size], logarithm_of[Vector<A>::size];
    sums.store_aligned(sum);
    logarithms.store_aligned(logarithm_of);
    for (std::int64_t lane = 0; lane < std::min(lanes<A>, tags() - j); ++lane) {
      if (!(sum[lane] < least_sum)) continue;
      sum[lane] = A{};
      logarithm_of[lane] = log_sum(scores, into(j + lane));
    }
    sums = Vector<A>::load_aligned(sum);
    logarithms = Vector<A>::load_aligned(logarithm_of);
  }
  /// Makes shares add up to 1, unless there is no path, so that rounding errors do not grow from row to row.
  void make_whole(A* shares) const {
    Vector<A> all(A{});
    for (std::int64_t j = 0; j < stride(); j += lanes<A>) all += load(shares + j);
    const A sum = sum_of_lanes(all);
    if (sum == A{}) return;
    for (std::int64_t j = 0; j < stride(); j += lanes<A>) store<A>(shares + j, load(shares + j) / Vector<A>(sum));
  }

  A* factors_;
  A* factors_into_;
  A* greatest_;
};

/// The likelihood of the labels of a sequence of rows [begin, end), which is not empty. Scores are written to
/// scores_of(row), their exponentials, of all rows but the last, to exponentials_of(row), where they are the next
/// row's; put_sums(row, j, sums) as `next_scores`.
template <class T, class ScoresOf, class ExponentialsOf, class PutSums>
Likelihood likelihood_of_labels(const PathSums<T>& paths, std::int64_t begin, std::int64_t end,
                                const std::int64_t* labels, const ScoresOf& scores_of,
                                const ExponentialsOf& exponentials_of, const PutSums& put_sums) {
  using A = Accumulator<T>;
  Vector<A> most(PathSums<T>::nothing);
  if (paths.is_extreme(most)) return {0, true};
  PathLikelihood likelihood;
  bool extreme = false;
  const auto add_row = [&](std::int64_t row, A far, const A* weights, A shift) {
    const std::int64_t label = labels[row];
    likelihood.add_row(static_cast<double>(weights[label]),
                       static_cast<double>(paths.emission_of_tag(row, label)) - static_cast<double>(far),
                       static_cast<double>(shift));
    extreme |= exceeds_plain_scores(shift);
  };
  const A first = paths.far_emission(begin, most);
  add_row(begin, first, paths.start(), paths.start_scores(begin, first, scores_of(begin)));
  for (std::int64_t row = begin + 1; row < end; ++row) {
    const A* const before = scores_of(row - 1);
    paths.exponentials(before, exponentials_of(row));
    const A far = paths.far_emission(row, most);
    const A shift = paths.next_scores(row, far, before, exponentials_of(row), scores_of(row),
                                      [&](std::int64_t j, const Vector<A>& sums) { put_sums(row, j, sums); });
    add_row(row, far, paths.from(labels[row - 1]), shift);
  }
  const A log_sum = paths.log_sum(scores_of(end - 1), paths.stop());
  return {likelihood.total(static_cast<double>(paths.stop()[labels[end - 1]]), static_cast<double>(log_sum)),
          extreme || exceeds_plain_scores(log_sum) || paths.is_extreme(most)};
}

template <>
struct Kernel<LinearChainCrf> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* emission, const Segments& sequences, std::int64_t tags,
                  const T* transition, const std::int64_t* labels, T* y) {
    using A = Accumulator<T>;
    const std::int64_t stride = cpu::tag_stride<A>(tags);
    const Workspace::Loan<A> weights(executor.workspace(), cpu::PathSums<T>::scratch(tags));
    const cpu::ThreadScratch<A> scores(executor, lod::detail::saturated_product(3, stride));
    const cpu::PathSums<T> paths(emission, sequences.rows(), tags, transition, weights.data());
    cpu::for_each_chain<A>(executor, sequences, tags, [&](std::int64_t i, int thread) {
      const std::int64_t begin = sequences.begin(i), end = begin + sequences.length(i);
      A* const here = scores(thread);
      const auto scores_of = [&](std::int64_t row) { return here + row % 2 * stride; };
      const auto exponentials_of = [&](std::int64_t) { return here + 2 * stride; };
      const auto put_sums = [](std::int64_t, std::int64_t, const cpu::Vector<A>&) {};
      Likelihood found{};
      if (begin < end)
        found = cpu::likelihood_of_labels(paths, begin, end, labels, scores_of, exponentials_of, put_sums);
      if (found.is_extreme) found.value = paths.scaled(here, 2).likelihood(begin, end, labels);
      y[i] = static_cast<T>(found.value);
    });
  }
};

template <>
struct Kernel<LinearChainCrfGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const T* emission, const Segments& sequences,
                  std::int64_t tags, const T* transition, const std::int64_t* labels, T* demission, T* dtransition) {
    using A = Accumulator<T>;
    const std::int64_t stride = cpu::tag_stride<A>(tags), rows = sequences.rows();
    const std::int64_t numbers = lod::detail::saturated_product(rows, stride);
    const std::int64_t weights_size = (tags + crf_ends) * stride;
    const Workspace::Loan<A> weights(executor.workspace(), cpu::PathSums<T>::scratch(tags));
    // For each row: its scores; the exponentials of the row before; its sums, then quotients or marked shares, for the
    // first row of a sequence its shares.
    const Workspace::Loan<A> scores(executor.workspace(), numbers), exponentials(executor.workspace(), numbers),
        quotients(executor.workspace(), numbers);
    const Workspace::Loan<A> sums(executor.workspace(), 2 * weights_size);
    const cpu::ThreadScratch<A> shares(executor, lod::detail::saturated_product(3, stride));
    const cpu::PathSums<T> paths(emission, rows, tags, transition, weights.data());
    const Workspace::Loan<unsigned char> extreme(executor.workspace(), sequences.size);
    std::atomic<bool> any_careful = false;
    cpu::for_each_chain<A>(executor, sequences, tags, [&](std::int64_t i, int thread) {
      const std::int64_t begin = sequences.begin(i), end = begin + sequences.length(i);
      if (begin == end) return;
      const auto scores_of = [&](std::int64_t row) { return scores.data() + row * stride; };
      const auto exponentials_of = [&](std::int64_t row) { return exponentials.data() + row * stride; };
      const auto put_sums = [&](std::int64_t row, std::int64_t j, const cpu::Vector<A>& numbers_of_row) {
        cpu::store<A>(quotients.data() + row * stride + j, numbers_of_row);
      };
      const A factor = static_cast<A>(dy[i]);
      extreme.data()[i] =
          cpu::likelihood_of_labels(paths, begin, end, labels, scores_of, exponentials_of, put_sums).is_extreme;
      if (extreme.data()[i]) {
        const ScaledChain<T> scaled = paths.scaled(scores.data(), rows);
        scaled.likelihood(begin, end, labels);
        scaled.find_shares(begin, end, quotients.data());
        for (std::int64_t row = begin; row < end; ++row) {
          A* const of_row = quotients.data() + row * stride;
          std::fill(of_row + tags, of_row + stride, A{});
          write_row(of_row, tags, factor, labels[row], demission + row * tags);
        }
        cpu::fill(exponentials_of(begin), (end - begin) * stride, A{});
        return;
      }
      A* const here = shares(thread);
      paths.last_shares(scores_of(end - 1), here);
      bool careful = false;
      for (std::int64_t row = end - 1;; --row) {
        write_row(here, tags, factor, labels[row], demission + row * tags);
        A* const of_row = exponentials_of(row);
        if (row == begin) {
          cpu::copy(here, stride, quotients.data() + row * stride);
          cpu::fill(of_row, stride, A{});
          break;
        }
        careful |=
            paths.shares_before(scores_of(row - 1), of_row, quotients.data() + row * stride, here + stride, here);
        for (std::int64_t j = 0; j < stride; ++j) of_row[j] *= factor;
      }
      if (careful) any_careful.store(true, std::memory_order_relaxed);
    });

    const FloatingPointControl standard;
    cpu::fill(sums.data(), 2 * weights_size, A{});
    // The expected number of each transition: a product over all rows, times the factors of the weights.
    A* const expected = sums.data() + crf_ends * stride;
    cpu::multiply(executor, tags, tags, rows, A{-1},
                  cpu::Operand{cpu::StridedLines<A>{exponentials.data(), stride}, false},
                  cpu::Operand{cpu::StridedLines<A>{quotients.data(), stride}, false}, A{}, expected, stride);
    for (std::int64_t i = 0; i < tags; ++i) {
      for (std::int64_t j = 0; j < tags; ++j) expected[i * stride + j] *= paths.factors_from(i)[j];
    }
    const auto add = [&](std::int64_t row, std::int64_t j, A term) {
      const std::int64_t at = row * stride + j;
      add_compensated(sums[at], sums[weights_size + at], term);
    };
    A* const of_last = shares(0);
    for (std::int64_t i = 0; i < sequences.size; ++i) {
      const std::int64_t begin = sequences.begin(i), end = begin + sequences.length(i);
      if (begin == end) continue;
      const A factor = static_cast<A>(dy[i]);
      const A* const of_first = quotients.data() + begin * stride;
      if (extreme.data()[i]) {
        cpu::copy(quotients.data() + (end - 1) * stride, stride, of_last);
      } else {
        paths.last_shares(scores.data() + (end - 1) * stride, of_last);
      }
      for (std::int64_t j = 0; j < tags; ++j) {
        add(0, j, -of_first[j] * factor);
        add(1, j, -of_last[j] * factor);
      }
      add(0, labels[begin], factor);
      add(1, labels[end - 1], factor);
      for (std::int64_t row = begin + 1; row < end; ++row) {
        add(labels[row - 1] + crf_ends, labels[row], factor);
        if (extreme.data()[i]) {
          const ScaledChain<T> scaled = paths.scaled(scores.data(), rows);
          for (std::int64_t j = 0; j < tags; ++j) {
            const A share = quotients.data()[row * stride + j], all = scaled.log_before(row, j);
            for (std::int64_t k = 0; k < tags; ++k) add(k + crf_ends, j, -scaled.part(row, k, j, share, all) * factor);
          }
          continue;
        }
        if (!any_careful) continue;
        paths.for_each_careful(scores.data() + (row - 1) * stride, quotients.data() + row * stride,
                               [&](std::int64_t j, std::int64_t first, const cpu::Vector<A>& parts) {
                                 alignas(64) A part[cpu::Vector<A>::size];
                                 parts.store_aligned(part);
                                 for (std::int64_t k = first; k < std::min(tags, first + cpu::lanes<A>); ++k) {
                                   add(k + crf_ends, j, -part[k - first] * factor);
                                 }
                               });
      }
    }
    for (std::int64_t row = 0; row < tags + crf_ends; ++row) {
      const A* const from = sums.data() + row * stride;
      cpu::convert(from, from + weights_size, tags, dtransition + row * tags,
                   [](const auto& sum, const auto& error) { return sum + error; });
    }
  }

 private:
  /// The gradient of the emissions of a row.
  template <class A, class T>
  static void write_row(const A* shares, std::int64_t tags, A factor, std::int64_t label, T* to) noexcept {
    cpu::convert(shares, tags, to, [=](const auto& share) { return -share * factor; });
    to[label] = static_cast<T>((A{1} - shares[label]) * factor);
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup losses
/// The cross entropy of labels, from logits that are read once.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/float16.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/supports.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct cross_entropy : elements::Floating {
  static constexpr Text text{"logits, labels",
                             "-log of the probability that softmax gives each row's label; or the mean of these."};
};
struct cross_entropy_grad : elements::Floating {
  static constexpr Text text{"dy, logits, labels", "The gradient of `cross_entropy`, with its options."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// What `cross_entropy` is averaged over.
enum class Reduction {
  NONE,       ///< nothing: one number for each row
  ROWS,       ///< all rows that count: one number
  SEQUENCES,  ///< sequences of the last level, by their means, if a row of theirs counts: one number
};

/// The options of `cross_entropy`.
struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< the label of rows that do not count
  double label_smoothing = 0;        ///< the part of the target that is spread evenly over all classes, in [0, 1]
  Reduction reduction = Reduction::NONE;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// The labels of rows. Rows with the ignored label do not count, nor do negative ones, which on a GPU stand for errors
/// that are thrown later.
struct TargetLabels {
  const std::int64_t* labels;
  std::int64_t ignored;
  double smoothing;
  double scale = 1;  ///< what losses are multiplied by

  /// Whether a row counts.
  LOD_TAGGED LOD_HOST_DEVICE bool counts(std::int64_t row) const noexcept {
    return labels[row] >= 0 && labels[row] != ignored;
  }
};
/// run(executor, labels, count, classes, ignored, checked, fault): as CheckIds, with -1 for the ignored label.
struct CheckLabels {};
/// run(executor, logits, rows, classes, targets, losses), losses of type Accumulator<T>
struct CrossEntropy {};
/// run(executor, dy, dy_step, weights, logits, rows, classes, targets, dlogits): the gradient with respect to a row's
/// loss is dy[row * dy_step], times weights[row] unless that, of type Accumulator<T>, is null.
struct CrossEntropyGrad {};
/// run(executor, targets, rows, counts): 1 where a row counts, else 0.
struct CountTargets {};
/// run(executor, a, b, count, divisor, scale, y): y[i] = a[i] / b[i], divided by *divisor, unless that is null, and by
/// the scale, a power of two; 0 where b[i] is 0. Without b, a[i].
struct Quotients {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET {
/// What losses are multiplied by before they are added up: no sum of them overflows.
inline constexpr double scale_of_means = 0x1p-32;
/// The greatest scaled mean, and what rounding may make of it.
template <class A>
inline constexpr A greatest_mean = std::numeric_limits<A>::max() * static_cast<A>(scale_of_means);
template <class A>
inline constexpr A greatest_rounded_mean = greatest_mean<A>*(1 + 16 * std::numeric_limits<A>::epsilon());

/// One of these numbers.
template <class A, class Y>
LOD_HOST_DEVICE Y quotient(const A* a, const A* b, std::int64_t i, const A* divisor, double scale) noexcept {
  if (!b) return static_cast<Y>(a[i]);
  if (b[i] == A{}) return Y{};
  A found = divisor ? a[i] / b[i] / *divisor : a[i] / b[i];
  if (scale != 1) {
    // A mean of numbers is not greater than they are, whatever rounding makes of it.
    if (found > greatest_mean<A> && found < greatest_rounded_mean<A>) found = greatest_mean<A>;
    found /= static_cast<A>(scale);
  }
  return static_cast<Y>(found);
}
}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws OutOfRange for invalid options.
inline void check_cross_entropy_options(const CrossEntropyOptions& options, const char* name) {
  if (options.reduction < Reduction::NONE || options.reduction > Reduction::SEQUENCES) {
    throw OutOfRange(detail::text(
        {name, ": Reduction ", static_cast<int>(options.reduction), ", expected NONE, ROWS or SEQUENCES"}));
  }
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    throw OutOfRange(
        detail::text({name, ": label_smoothing ", to_string(Scalar(options.label_smoothing)), ", expected 0 to 1"}));
  }
}
/// Labels in [0, classes), or ignored, for kernels: as `CheckedIds`.
template <class E>
class CheckedLabels {
 public:
  CheckedLabels(const E& executor, std::span<const std::int64_t> labels, std::int64_t classes, std::int64_t ignored,
                const char* what)
      : checked_(executor, static_cast<std::int64_t>(labels.size())) {
    launch(kernel::CheckLabels(), executor, labels.data(), static_cast<std::int64_t>(labels.size()), classes, ignored,
           checked_.data(), executor.fault(what, classes));
  }
  const std::int64_t* data() const noexcept { return checked_.data(); }

 private:
  kernel::Scratch<E, std::int64_t> checked_;
};
template <class E>
  requires(on_cpu<E>)
class CheckedLabels<E> {
 public:
  CheckedLabels(const E&, std::span<const std::int64_t> labels, std::int64_t classes, std::int64_t ignored,
                const char* what)
      : labels_(labels.data()) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] != ignored && (labels[i] < 0 || labels[i] >= classes)) {
        throw OutOfRange(detail::text({what, ": label ", labels[i], " at position ", i, ", expected 0 to ", classes - 1,
                                       " or ", ignored, ", which is ignored"}));
      }
    }
  }
  const std::int64_t* data() const noexcept { return labels_; }

 private:
  const std::int64_t* labels_;
};

/// Throws OutOfRange for invalid options, InvalidLoD if sequences are to be averaged but there is no level,
/// ShapeMismatch unless there are classes and a label for each row.
template <class Logits, class Labels>
void check_cross_entropy(const Logits& logits, const Labels& labels, const CrossEntropyOptions& options,
                         const char* name) {
  check_cross_entropy_options(options, name);
  if (options.reduction == Reduction::SEQUENCES) check_has_level(logits, {name, "logits"});
  if (logits.row_size() == 0) {
    throw ShapeMismatch(detail::text({name, ": logits: rows without elements, expected one class at least"}));
  }
  check_labels(labels, logits, name);
}

/// The weights of rows in the mean over all rows, or over sequences.
template <Executor E, class A>
class RowsThatCount {
 public:
  template <class Logits>
  RowsThatCount(const E& executor, const Logits& logits, const kernel::TargetLabels& targets, Reduction reduction)
      : executor_(executor),
        rows_(executor, logits.rows()),
        sequences_(reduction == Reduction::SEQUENCES ? operation::segments(executor, logits, logits.levels() - 1)
                                                     : rows_.segments()),
        all_(executor, sequences_.size),
        counts_(executor, logits.rows()),
        of_sequences_(executor, sequences_.size),
        any_(executor, sequences_.size),
        total_(executor, 1) {
    launch(kernel::CountTargets(), executor, targets, logits.rows(), counts_.data());
    sum(sequences_, counts_.data(), of_sequences_.data());
    quotients(of_sequences_.data(), of_sequences_.data(), static_cast<const A*>(nullptr), any_.data());
    sum(all_.segments(), any_.data(), total_.data());
  }

  /// The mean of one number for each row, times the scale of means, which is 0 for rows that do not count; 0 if none
  /// counts.
  template <class T>
  void mean(const A* numbers, T* y) const {
    const kernel::Scratch<E, A> means(executor_, sequences_.size);
    mean_of_each(sequences_, numbers, of_sequences_.data(), 1, means.data());
    mean_of_each(all_.segments(), static_cast<const A*>(means.data()), total_.data(), kernel::scale_of_means, y);
  }
  /// The gradient of the mean with respect to the number of each row that counts.
  void weights(A* y) const {
    const kernel::Scratch<E, A> of_sequence(executor_, sequences_.size);
    quotients(any_.data(), of_sequences_.data(), total_.data(), of_sequence.data());
    launch(kernel::SequencePoolGrad(), executor_, static_cast<const A*>(of_sequence.data()), sequences_,
           std::int64_t{1}, PoolType::SUM, y);
  }

 private:
  void sum(const kernel::Segments& sequences, const A* x, A* y) const {
    launch(kernel::SequencePool(), executor_, x, sequences, std::int64_t{1}, PoolType::SUM, A{}, y);
  }
  /// The mean of each sequence's numbers, of which so many count, divided by the scale; others are 0.
  template <class Y>
  void mean_of_each(const kernel::Segments& sequences, const A* numbers, const A* count, double scale, Y* y) const {
    const kernel::Scratch<E, A> sums(executor_, sequences.size);
    sum(sequences, numbers, sums.data());
    launch(kernel::Quotients(), executor_, static_cast<const A*>(sums.data()), count, sequences.size,
           static_cast<const A*>(nullptr), scale, y);
  }
  void quotients(const A* a, const A* b, const A* divisor, A* y) const {
    launch(kernel::Quotients(), executor_, a, b, sequences_.size, divisor, 1.0, y);
  }

  const E& executor_;
  WholeBatch<E> rows_;
  kernel::Segments sequences_;
  WholeBatch<E> all_;
  kernel::Scratch<E, A> counts_;
  kernel::Scratch<E, A> of_sequences_;  // how many rows of each sequence count
  kernel::Scratch<E, A> any_;           // 1 for sequences in which a row counts
  kernel::Scratch<E, A> total_;         // the sum of these
};

template <>
struct Declared<op::cross_entropy> : Takes<Tensor, Ids>, With<CrossEntropyOptions>, LaunchesOnIds<kernel::CheckLabels> {
  static constexpr const char* name = "cross_entropy";
  using Gradient = op::cross_entropy_grad;
  template <class T>
  using Kernels =
      kernel::Instances<kernel::Instance<kernel::CrossEntropy, T>,
                        kernel::Instance<kernel::CountTargets, kernel::Accumulator<T>>,
                        kernel::Instance<kernel::Quotients, kernel::Accumulator<T>, T>,
                        kernel::Instance<kernel::Quotients, kernel::Accumulator<T>, kernel::Accumulator<T>>>;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& logits, const IdsInput<E>& labels,
                  const CrossEntropyOptions& options, const To<E, T>& y) {
    using A = kernel::Accumulator<T>;
    check_cross_entropy(logits, labels, options, name);
    const std::int64_t rows = logits.rows(), classes = logits.row_size();
    const CheckedLabels<E> checked(executor, labels.values(), classes, options.ignore_index, name);
    const bool is_mean = options.reduction != Reduction::NONE;
    const kernel::TargetLabels targets{checked.data(), options.ignore_index, options.label_smoothing,
                                       is_mean ? kernel::scale_of_means : 1};
    const std::initializer_list<OtherMemory> others = {{"logits", logits}, {"labels", labels}};
    const auto out = is_mean ? prepare(executor, name, y, PlainRows{1}, Shape(), others)
                             : prepare(executor, name, y, SameLevels{logits.lod_view()}, Shape(), others);
    const kernel::Scratch<E, A> losses(executor, rows);
    launch(kernel::CrossEntropy(), executor, logits.data(), rows, classes, targets, losses.data());
    const A *const numbers = losses.data(), *const none = nullptr;
    if (is_mean) {
      RowsThatCount<E, A>(executor, logits, targets, options.reduction).mean(numbers, out.data());
    } else {
      launch(kernel::Quotients(), executor, numbers, none, rows, none, 1.0, out.data());
    }
  }
};

template <>
struct Declared<op::cross_entropy_grad>
    : Takes<Tensor, Tensor, Ids>, With<CrossEntropyOptions>, Launches<kernel::CrossEntropyGrad> {
  static constexpr const char* name = "cross_entropy_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& logits, const IdsInput<E>& labels,
                  const CrossEntropyOptions& options, const To<E, T>& dlogits) {
    using A = kernel::Accumulator<T>;
    check_cross_entropy(logits, labels, options, name);
    const std::int64_t rows = logits.rows(), classes = logits.row_size();
    const bool is_mean = options.reduction != Reduction::NONE;
    check_row_count(dy.rows(), is_mean ? 1 : rows, {name, "dy"});
    check_row_shape(dy.row_shape(), Shape(), {name, "dy"});
    const CheckedLabels<E> checked(executor, labels.values(), classes, options.ignore_index, name);
    const kernel::TargetLabels targets{checked.data(), options.ignore_index, options.label_smoothing};
    const auto out = prepare(executor, {name, "dlogits"}, dlogits, SameLevels{logits.lod_view()}, logits.row_shape(),
                             {{"dy", dy}, in_place("logits", logits), {"labels", labels}});
    const kernel::Scratch<E, A> weights(executor, is_mean ? rows : 0);
    if (is_mean) RowsThatCount<E, A>(executor, logits, targets, options.reduction).weights(weights.data());
    launch(kernel::CrossEntropyGrad(), executor, dy.data(), std::int64_t{is_mean ? 0 : 1},
           static_cast<const A*>(is_mean ? weights.data() : nullptr), logits.data(), rows, classes, targets,
           out.data());
  }
};

}  // namespace operation

/// The cross entropy of each row's label: the negative logarithm of the probability that softmax gives that class. The
/// result has one scalar a row and the LoD of the logits, or is one scalar, a mean: over all rows that count, as in
/// PyTorch's cross_entropy, or over the sequences of the last level, each with the same weight, however long it is.
/// Rows with the label `ignore_index` do not count: their loss is 0. If no row counts, the mean is 0. `labels` has a
/// class for each row; its levels are ignored. With `label_smoothing` s, the target of each of the K classes is s / K,
/// and that of the label 1 - s more.
///
/// Probabilities are not stored: each row of logits is read in place, after the first time from a cache. float16 and
/// bfloat16 are computed as float. Logits of any magnitude neither overflow nor lose digits, nor do means, of losses
/// beyond the greatest number either. -inf forbids a class: as a label its loss is infinite; a row of nothing but -inf
/// gives NaN. +inf counts as the greatest finite number; NaN propagates. The bits do not depend on threads. The output
/// must not overlap the arguments. Throws ShapeMismatch if there is no class and unless there is a label for each row,
/// InvalidLoD for the mean over sequences of logits without levels, OutOfRange for a smoothing outside [0, 1], a number
/// that is not a Reduction, and a label that is neither a class nor ignored; on a GPU, the next call that waits for the
/// executor throws this last one.
inline constexpr operation::Call<op::cross_entropy> cross_entropy{};
inline constexpr operation::CallInto<op::cross_entropy> cross_entropy_into{};

/// The gradient of `cross_entropy` with the same options: for each class (probability - target) * dy, where dy has a
/// number for each row, or a single one for the mean, which is then divided among the rows that count. Levels and row
/// shape as the logits; 0 in rows that do not count. The levels of dy are ignored. `dlogits` may be the logits' own
/// tensor, but must not overlap the arguments otherwise. Throws as `cross_entropy`, and ShapeMismatch unless dy has a
/// scalar for each row, or one for the mean.
inline constexpr operation::Call<op::cross_entropy_grad> cross_entropy_grad{};
inline constexpr operation::CallInto<op::cross_entropy_grad> cross_entropy_grad_into{};

/// The result of `cross_entropy`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_cross_entropy(const LoDTensorDesc& logits, const LoDTensorDesc& labels,
                                         const CrossEntropyOptions& options = {}) {
  operation::check_cross_entropy_options(options, "cross_entropy");
  infer::Batch y = infer::batch_for<op::cross_entropy>(logits, "cross_entropy: logits");
  const infer::Batch targets(labels, "cross_entropy: labels");
  infer::check_ids(targets.type, "cross_entropy: labels");
  infer::check_row_count(targets.rows, y.rows, "cross_entropy: labels");
  targets.check_scalar_rows("cross_entropy: labels", "the number of a class");
  if (options.reduction == Reduction::SEQUENCES) y.check_has_level("cross_entropy: logits");
  if (y.row_size("cross_entropy: logits") == 0) {
    throw ShapeMismatch("cross_entropy: logits: rows without elements, expected one class at least");
  }
  if (options.reduction != Reduction::NONE) {
    y.levels = 0;
    y.rows = 1;
  }
  y.row_shape.clear();
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

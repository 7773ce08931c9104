// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup losses
/// Connectionist temporal classification: how likely frames spell a sequence of labels, however the labels are aligned
/// to the frames.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/supports.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct ctc_loss : elements::Floating {
  static constexpr Text text{"logits, labels",
                             "-log of the probability that the frames of each sequence spell its labels (CTC)."};
};
struct ctc_loss_grad : elements::Floating {
  static constexpr Text text{"dy, logits, labels", "The gradient of `ctc_loss`, with its options."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `ctc_loss`.
struct CtcLossOptions {
  std::int64_t blank = 0;      ///< the class that stands for no label
  bool zero_infinity = false;  ///< whether labels that no path spells have the loss 0 instead of infinity
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, logits, sequences, classes, labels, label_sequences, options, y)
struct CtcLoss {};
/// run(executor, dy, logits, sequences, classes, labels, label_sequences, blank, dlogits)
struct CtcLossGrad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws InvalidLoD if one of them has no level, ShapeMismatch for different numbers of sequences, OutOfRange unless
/// the blank is a class.
template <class Logits, class Labels>
void check_ctc(const Logits& logits, const Labels& labels, std::int64_t blank, const char* name) {
  check_has_level(logits, {name, "logits"});
  check_has_level(labels, {name, "labels"});
  if (labels.row_size() != 1) {
    throw ShapeMismatch(
        detail::text({name, ": labels: rows of shape ", to_string(labels.row_shape()), ", expected one label a row"}));
  }
  const std::int64_t sequences = logits.lod_view().size(logits.levels() - 1);
  const std::int64_t found = labels.lod_view().size(labels.levels() - 1);
  if (found != sequences) {
    throw ShapeMismatch(
        detail::text({name, ": labels: ", found, " sequences, expected ", sequences, " as the logits"}));
  }
  if (blank < 0 || blank >= logits.row_size()) {
    throw OutOfRange(detail::text({name, ": blank ", blank, ", expected one of ", logits.row_size(), " classes"}));
  }
}

template <>
struct Declared<op::ctc_loss> : Takes<Tensor, Ids>, With<CtcLossOptions>, Launches<kernel::CtcLoss> {
  static constexpr const char* name = "ctc_loss";
  using Gradient = op::ctc_loss_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& logits, const IdsInput<E>& labels,
                  const CtcLossOptions& options, const To<E, T>& y) {
    check_ctc(logits, labels, options.blank, name);
    const CheckedIds<E> checked(executor, labels, logits.row_size(), name);
    const int level = logits.levels() - 1;
    const auto out = prepare(executor, name, y, LevelsAbove{logits.lod_view(), level}, Shape(),
                             {{"logits", logits}, {"labels", labels}});
    launch(kernel::CtcLoss(), executor, logits.data(), segments(executor, logits, level), logits.row_size(),
           checked.data(), segments(executor, labels, labels.levels() - 1), options, out.data());
  }
};

template <>
struct Declared<op::ctc_loss_grad> : Takes<Tensor, Tensor, Ids>, With<CtcLossOptions>, Launches<kernel::CtcLossGrad> {
  static constexpr const char* name = "ctc_loss_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& logits, const IdsInput<E>& labels,
                  const CtcLossOptions& options, const To<E, T>& dlogits) {
    check_ctc(logits, labels, options.blank, name);
    const int level = logits.levels() - 1;
    check_row_count(dy.rows(), logits.lod_view().size(level), {name, "dy"});
    check_row_shape(dy.row_shape(), Shape(), {name, "dy"});
    const CheckedIds<E> checked(executor, labels, logits.row_size(), name);
    const auto out = prepare(executor, {name, "dlogits"}, dlogits, SameLevels{logits.lod_view()}, logits.row_shape(),
                             {{"dy", dy}, {"logits", logits}, {"labels", labels}});
    launch(kernel::CtcLossGrad(), executor, dy.data(), logits.data(), segments(executor, logits, level),
           logits.row_size(), checked.data(), segments(executor, labels, labels.levels() - 1), options.blank,
           out.data());
  }
};

}  // namespace operation

/// The negative logarithm of the probability that frames spell labels. The frames are a sequence of the last level of
/// the logits; their labels are the same sequence of the last level of `labels`. A frame has a logit for each class,
/// which softmax turns into probabilities. A path takes one class in each frame, and spells what remains when first
/// repetitions and then blanks are removed. One scalar for each sequence; LoD: the levels of the logits above the last.
/// Semantics: PyTorch's ctc_loss after log_softmax without a reduction, and PaddlePaddle's warpctc with
/// `zero_infinity`.
///
/// Labels are classes, one scalar each. No path spells labels that include a blank, nor more labels than there are
/// frames, where two equal labels in a row need one more frame between them: the result is then infinite, or 0 with
/// `zero_infinity`. A loss beyond the greatest number of finite logits is infinite with it, too. Without labels the
/// only path is all blanks; without frames as well, its probability is 1.
///
/// Computed with logarithms that are kept near 0, so that logits of any magnitude and long sequences neither overflow
/// nor lose digits; float16 and bfloat16 are computed as float. -inf forbids a class in a frame; +inf counts as the
/// greatest finite number; NaN propagates. The bits depend neither on threads nor on the rest of the batch. Cost:
/// frames * (classes + 2 * labels). The output must not overlap the arguments. Throws InvalidLoD if one of them has no
/// level, ShapeMismatch for different numbers of sequences and unless labels have row size 1, OutOfRange for a blank or
/// a label that is not a class; for a label on a GPU, the next call that waits for the executor throws it.
inline constexpr operation::Call<op::ctc_loss> ctc_loss{};
inline constexpr operation::CallInto<op::ctc_loss> ctc_loss_into{};

/// The gradient of `ctc_loss`: for each frame and class its probability, minus the probability of the paths through it
/// relative to all paths that spell the labels, times the sequence's number in dy. Levels and row shape as the logits;
/// the levels of dy are ignored. 0 for labels that no path spells, with or without `zero_infinity`.
///
/// Scratch memory: for each frame, one number for each class, or two for each label of the longest label sequence. The
/// output must not overlap the arguments. Throws as `ctc_loss`, and ShapeMismatch unless dy has one number for each
/// sequence.
inline constexpr operation::Call<op::ctc_loss_grad> ctc_loss_grad{};
inline constexpr operation::CallInto<op::ctc_loss_grad> ctc_loss_grad_into{};

/// The result of `ctc_loss`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_ctc_loss(const LoDTensorDesc& logits, const LoDTensorDesc& labels,
                                    const CtcLossOptions& options = {}) {
  const infer::Batch batch = infer::batch_for<op::ctc_loss>(logits, "ctc_loss: logits");
  const infer::Batch spelled(labels, "ctc_loss: labels");
  infer::check_ids(spelled.type, "ctc_loss: labels");
  spelled.check_has_level("ctc_loss: labels");
  spelled.check_scalar_rows("ctc_loss: labels", "one label a row");
  infer::Batch y = batch.pooled(-1, "ctc_loss: logits");
  const std::int64_t classes = batch.row_size("ctc_loss: logits");
  if (options.blank < 0 || (classes != infer::unknown && options.blank >= classes)) {
    throw OutOfRange(detail::text({"ctc_loss: blank ", options.blank, ", expected one of ", classes, " classes"}));
  }
  y.row_shape.clear();
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Softmax over the rows of each sequence.
#pragma once

#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_softmax : elements::Floating {
  static constexpr Text text{"x", "exp(x) divided by its sum over the rows of each sequence, column by column."};
};
struct sequence_softmax_grad : elements::Floating {
  static constexpr Text text{"dy, y", "The gradient of `sequence_softmax`, from its result."};
};
struct sequence_log_softmax : elements::Floating {
  static constexpr Text text{"x", "The log of `sequence_softmax`."};
};
struct sequence_log_softmax_grad : elements::Floating {
  static constexpr Text text{"dy, y", "The gradient of `sequence_log_softmax`, from its result."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_softmax` and `sequence_log_softmax`.
struct SoftmaxOptions {
  int level = -1;  ///< the level whose sequences are normalised; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
struct SequenceSoftmax {};
struct SequenceSoftmaxGrad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <class Op, bool logarithm>
struct Softmax : Takes<Tensor>, With<SoftmaxOptions>, Launches<kernel::SequenceSoftmax> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const SoftmaxOptions& options, const To<E, T>& y) {
    const char* const what = Declared<Op>::name;
    check_has_level(x, what);
    const int level = detail::resolve_level(options.level, x.levels(), what);
    const auto out = prepare<T>(executor, what, y, SameLevels{x.lod_view()}, x.row_shape(), {in_place("x", x)});
    launch(kernel::SequenceSoftmax(), executor, x.data(), segments(executor, x, level), x.row_size(), logarithm,
           out.data());
  }
};

template <class Op, bool logarithm>
struct SoftmaxGradient : Takes<Tensor, Tensor>, With<SoftmaxOptions>, Launches<kernel::SequenceSoftmaxGrad> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& y, const SoftmaxOptions& options,
                  const To<E, T>& dx) {
    const char* const what = Declared<Op>::name;
    check_has_level(y, {what, "y"});
    const int level = detail::resolve_level(options.level, y.levels(), what);
    check_row_count(dy.rows(), y.rows(), {what, "dy"});
    check_row_shape(dy.row_shape(), y.row_shape(), {what, "dy"});
    const auto out = prepare<T>(executor, {what, "dx"}, dx, SameLevels{y.lod_view()}, y.row_shape(),
                                {in_place("dy", dy), in_place("y", y)});
    launch(kernel::SequenceSoftmaxGrad(), executor, dy.data(), y.data(), segments(executor, y, level), y.row_size(),
           logarithm, out.data());
  }
};

template <>
struct Declared<op::sequence_softmax> : Softmax<op::sequence_softmax, false> {
  static constexpr const char* name = "sequence_softmax";
  using Gradient = op::sequence_softmax_grad;
};
template <>
struct Declared<op::sequence_softmax_grad> : SoftmaxGradient<op::sequence_softmax_grad, false> {
  static constexpr const char* name = "sequence_softmax_grad";
};
template <>
struct Declared<op::sequence_log_softmax> : Softmax<op::sequence_log_softmax, true> {
  static constexpr const char* name = "sequence_log_softmax";
  using Gradient = op::sequence_log_softmax_grad;
};
template <>
struct Declared<op::sequence_log_softmax_grad> : SoftmaxGradient<op::sequence_log_softmax_grad, true> {
  static constexpr const char* name = "sequence_log_softmax_grad";
};

}  // namespace operation

/// exp(x) / sum(exp(x)), where the sum is over the rows of the sequence of `level`, column by column; row shape and LoD
/// as x. The rows of a sequence sum to 1 in every column. Semantics: PaddlePaddle's sequence_softmax, with any row size
/// and any level.
///
/// Nothing overflows: if the exponentials of a column would overflow, or would all nearly vanish, its greatest number
/// is subtracted first. A result of less than 2^-100 (for double 2^-990) may become 0, and subnormal arguments count as
/// zero. A sequence of one row gives exactly 1. A column that is -inf throughout its sequence gives 0 there: a sequence
/// that is masked out as a whole has no weight. NaN or +inf makes its column NaN, in that sequence only. Empty
/// sequences have no rows. Each sum has a fixed order, counted from the start of the sequence: the bits depend neither
/// on threads nor on the rest of the batch.
///
/// Sequences of up to 64 Ki elements are read once, longer ones twice; if a column's greatest number is subtracted,
/// twice more. `y` may be x's own tensor (or the same view), but must not overlap x otherwise. Throws InvalidLoD if x
/// has no level, OutOfRange for the level.
inline constexpr operation::Call<op::sequence_softmax> sequence_softmax{};
inline constexpr operation::CallInto<op::sequence_softmax> sequence_softmax_into{};

/// The logarithm of `sequence_softmax`, computed as x - max - log(sum): exact where the softmax itself would be 0. A
/// column that is -inf throughout its sequence stays -inf. Otherwise as `sequence_softmax`.
inline constexpr operation::Call<op::sequence_log_softmax> sequence_log_softmax{};
inline constexpr operation::CallInto<op::sequence_log_softmax> sequence_log_softmax_into{};

/// The gradient of `sequence_softmax`, from its result y: dx = (dy - sum(dy * y)) * y, where the sum is over the rows
/// of each sequence of `level`, column by column. Levels and row shape as y; the levels of dy are ignored. `dx` may be
/// the tensor of dy or of y. Throws InvalidLoD if y has no level, OutOfRange for the level, ShapeMismatch unless dy has
/// the rows and the row shape of y.
inline constexpr operation::Call<op::sequence_softmax_grad> sequence_softmax_grad{};
inline constexpr operation::CallInto<op::sequence_softmax_grad> sequence_softmax_grad_into{};

/// The gradient of `sequence_log_softmax`, from its result y: dx = dy - exp(y) * sum(dy). Otherwise as
/// `sequence_softmax_grad`.
inline constexpr operation::Call<op::sequence_log_softmax_grad> sequence_log_softmax_grad{};
inline constexpr operation::CallInto<op::sequence_log_softmax_grad> sequence_log_softmax_grad_into{};

namespace operation {

template <class Op>
LoDTensorDesc infer_softmax(const LoDTensorDesc& x, const SoftmaxOptions& options) {
  const infer::Batch y = infer::batch_for<Op>(x, Declared<Op>::name);
  y.level(options.level, Declared<Op>::name);
  return y;
}

}  // namespace operation

/// The results of `sequence_softmax` and `sequence_log_softmax`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_softmax(const LoDTensorDesc& x, const SoftmaxOptions& options = {}) {
  return operation::infer_softmax<op::sequence_softmax>(x, options);
}
inline LoDTensorDesc infer_sequence_log_softmax(const LoDTensorDesc& x, const SoftmaxOptions& options = {}) {
  return operation::infer_softmax<op::sequence_log_softmax>(x, options);
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

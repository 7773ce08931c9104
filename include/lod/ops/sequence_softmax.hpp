// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Softmax over the rows of each sequence.
#pragma once

#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_softmax : elements::Floating {};
struct sequence_softmax_grad : elements::Floating {};
struct sequence_log_softmax : elements::Floating {};
struct sequence_log_softmax_grad : elements::Floating {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_softmax` and `sequence_log_softmax`.
struct SoftmaxOptions {
  int level = -1;  ///< the level whose sequences are normalised; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
template <class Executor>
struct SequenceSoftmax : Missing<Executor> {};
template <class Executor>
struct SequenceSoftmaxGrad : Missing<Executor> {};
}  // namespace kernel

namespace operation {

template <bool logarithm, Executor E, LoDTensorLike X, class Y>
void softmax_into(const E& executor, const X& x, const SoftmaxOptions& options, Y&& y) {
  using T = value_type_t<X>;
  detail::check_elements<std::conditional_t<logarithm, op::sequence_log_softmax, op::sequence_softmax>, T>();
  const auto view = x.view();
  constexpr const char* what = logarithm ? "sequence_log_softmax" : "sequence_softmax";
  check_has_level(view, what);
  const int level = detail::resolve_level(options.level, view.levels(), what);
  const auto out =
      prepare<T>(executor, what, y, SameLevels{view.lod_view()}, view.row_shape(), {operation::in_place("x", view)});
  kernel::SequenceSoftmax<E>::run(executor, view.data(), segments(executor, view, level), view.row_size(), logarithm,
                                  out.data());
}

template <bool logarithm, Executor E, LoDTensorLike DY, LoDTensorLike Y, class DX>
void softmax_grad_into(const E& executor, const DY& dy, const Y& y, const SoftmaxOptions& options, DX&& dx) {
  using T = value_type_t<Y>;
  static_assert(std::same_as<value_type_t<DY>, T>, "the gradient of softmax: dy and y must have one element type");
  detail::check_elements<std::conditional_t<logarithm, op::sequence_log_softmax_grad, op::sequence_softmax_grad>, T>();
  constexpr const char* operation = logarithm ? "sequence_log_softmax_grad" : "sequence_softmax_grad";
  const char* const what = logarithm ? "sequence_log_softmax_grad: dy" : "sequence_softmax_grad: dy";
  const auto view = y.view();
  const auto gradient = dy.view();
  check_has_level(view, logarithm ? "sequence_log_softmax_grad: y" : "sequence_softmax_grad: y");
  const int level = detail::resolve_level(options.level, view.levels(), operation);
  check_row_count(gradient.rows(), view.rows(), what);
  check_row_shape(gradient.row_shape(), view.row_shape(), what);
  const auto out = prepare<T>(executor, {operation, "dx"}, dx, SameLevels{view.lod_view()}, view.row_shape(),
                              {operation::in_place("dy", gradient), operation::in_place("y", view)});
  kernel::SequenceSoftmaxGrad<E>::run(executor, gradient.data(), view.data(), segments(executor, view, level),
                                      view.row_size(), logarithm, out.data());
}

}  // namespace operation

/// exp(x) divided by the sum of exp(x) over the rows of its sequence of `level`, for each column on its own; row shape
/// and LoD as x. The rows of a sequence sum to 1 in every column. Semantics: PaddlePaddle's sequence_softmax, with any
/// row size and any level.
///
/// Nothing overflows: where the exponentials of a column would, or would all but vanish, its greatest number is
/// subtracted first. A result of less than 2^-100 (for double 2^-990) may become 0. The only row of a sequence has
/// exactly 1. A column that is -inf throughout its sequence gives 0 there: a sequence that is masked out as a whole has
/// no weight. NaN or +inf makes its column NaN, in its sequence only. Empty sequences have no rows. The sum follows one
/// tree for each sequence, counted from its start: the bits depend neither on threads nor on the rest of the batch.
///
/// Sequences of up to 64 Ki elements are read once, longer ones twice; those with a column that is shifted, twice more.
/// `y` may be x's own tensor (or the view that x is), but overlap in no other way. Throws InvalidLoD where x has no
/// level, OutOfRange for the level.
template <Executor E, LoDTensorLike X, class Y>
void sequence_softmax_into(const E& executor, const X& x, const SoftmaxOptions& options, Y&& y) {
  operation::softmax_into<false>(executor, x, options, y);
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_softmax_into(const E& executor, const X& x, Y&& y) {
  operation::softmax_into<false>(executor, x, SoftmaxOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_softmax(const E& executor, const X& x,
                                                                       const SoftmaxOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_softmax_into(executor, x, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_softmax(const X& x, const SoftmaxOptions& options = {}) {
  return sequence_softmax(default_executor<device_t<X>>(), x, options);
}

/// The logarithm of `sequence_softmax`, computed as x - max - log(sum): exact where the softmax itself would be 0. A
/// column that is -inf throughout its sequence stays -inf. Otherwise as `sequence_softmax`.
template <Executor E, LoDTensorLike X, class Y>
void sequence_log_softmax_into(const E& executor, const X& x, const SoftmaxOptions& options, Y&& y) {
  operation::softmax_into<true>(executor, x, options, y);
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_log_softmax_into(const E& executor, const X& x, Y&& y) {
  operation::softmax_into<true>(executor, x, SoftmaxOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_log_softmax(const E& executor, const X& x,
                                                                           const SoftmaxOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_log_softmax_into(executor, x, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_log_softmax(const X& x, const SoftmaxOptions& options = {}) {
  return sequence_log_softmax(default_executor<device_t<X>>(), x, options);
}

/// The gradient of `sequence_softmax`, from its result y: dx = (dy - sum(dy * y)) * y, the sum taken over the rows of
/// each sequence of `level`, for each column. Levels and row shape as y; the levels of dy do not count. `dx` may be the
/// tensor of dy or of y. Throws InvalidLoD where y has no level, OutOfRange for the level, ShapeMismatch unless dy has
/// the rows and the row shape of y.
template <Executor E, LoDTensorLike DY, LoDTensorLike Y, class DX>
void sequence_softmax_grad_into(const E& executor, const DY& dy, const Y& y, const SoftmaxOptions& options, DX&& dx) {
  operation::softmax_grad_into<false>(executor, dy, y, options, dx);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike Y, class DX>
void sequence_softmax_grad_into(const E& executor, const DY& dy, const Y& y, DX&& dx) {
  operation::softmax_grad_into<false>(executor, dy, y, SoftmaxOptions{}, dx);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike Y>
[[nodiscard]] LoDTensor<value_type_t<Y>, device_t<Y>> sequence_softmax_grad(const E& executor, const DY& dy, const Y& y,
                                                                            const SoftmaxOptions& options = {}) {
  LoDTensor<value_type_t<Y>, device_t<Y>> dx(executor.resource());
  sequence_softmax_grad_into(executor, dy, y, options, dx);
  return dx;
}
template <LoDTensorLike DY, LoDTensorLike Y>
[[nodiscard]] auto sequence_softmax_grad(const DY& dy, const Y& y, const SoftmaxOptions& options = {}) {
  return sequence_softmax_grad(default_executor<device_t<Y>>(), dy, y, options);
}

/// The gradient of `sequence_log_softmax`, from its result y: dx = dy - exp(y) * sum(dy). Otherwise as
/// `sequence_softmax_grad`.
template <Executor E, LoDTensorLike DY, LoDTensorLike Y, class DX>
void sequence_log_softmax_grad_into(const E& executor, const DY& dy, const Y& y, const SoftmaxOptions& options,
                                    DX&& dx) {
  operation::softmax_grad_into<true>(executor, dy, y, options, dx);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike Y, class DX>
void sequence_log_softmax_grad_into(const E& executor, const DY& dy, const Y& y, DX&& dx) {
  operation::softmax_grad_into<true>(executor, dy, y, SoftmaxOptions{}, dx);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike Y>
[[nodiscard]] LoDTensor<value_type_t<Y>, device_t<Y>> sequence_log_softmax_grad(const E& executor, const DY& dy,
                                                                                const Y& y,
                                                                                const SoftmaxOptions& options = {}) {
  LoDTensor<value_type_t<Y>, device_t<Y>> dx(executor.resource());
  sequence_log_softmax_grad_into(executor, dy, y, options, dx);
  return dx;
}
template <LoDTensorLike DY, LoDTensorLike Y>
[[nodiscard]] auto sequence_log_softmax_grad(const DY& dy, const Y& y, const SoftmaxOptions& options = {}) {
  return sequence_log_softmax_grad(default_executor<device_t<Y>>(), dy, y, options);
}

/// What `sequence_softmax` and `sequence_log_softmax` give, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_softmax(const LoDTensorDesc& x, const SoftmaxOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::sequence_softmax>(x, "sequence_softmax");
  y.level(options.level, "sequence_softmax");
  return y;
}
inline LoDTensorDesc infer_sequence_log_softmax(const LoDTensorDesc& x, const SoftmaxOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::sequence_log_softmax>(x, "sequence_log_softmax");
  y.level(options.level, "sequence_log_softmax");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

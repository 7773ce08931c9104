// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup reductions
/// The logarithm of the sum of exponentials over the rows of each sequence.
#pragma once

#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/sequence_softmax.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <concepts>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_logsumexp : elements::Floating {};
struct sequence_logsumexp_grad : elements::Floating {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_logsumexp`.
struct LogsumexpOptions {
  int level = -1;  ///< the level whose sequences are summed over; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
/// run(executor, x, sequences, row_size, y)
template <class Executor>
struct SequenceLogsumexp : Missing<Executor> {};
/// run(executor, factors, sequences, row_size, y): the rows of sequence i of y times row i of the factors.
template <class Executor>
struct ScaleSequences : Missing<Executor> {};
}  // namespace kernel

/// One row for each sequence of `level`: log(sum(exp(x))) over all rows under it, for each column on its own. Row shape
/// as x; LoD: the levels of x above `level`. A smooth maximum, whose gradient is the softmax.
///
/// The greatest of the column is subtracted first, so nothing overflows. An empty sequence gives -inf, as does a column
/// of nothing but -inf; +inf gives +inf, NaN propagates. The sum follows one tree for each sequence: the bits depend
/// neither on threads nor on the rest of the batch. x is read twice. The output must not overlap x. Throws InvalidLoD
/// where x has no level, OutOfRange for the level.
template <Executor E, LoDTensorLike X, class Y>
void sequence_logsumexp_into(const E& executor, const X& x, const LogsumexpOptions& options, Y&& y) {
  detail::check_elements<op::sequence_logsumexp, value_type_t<X>>();
  const auto view = x.view();
  operation::check_has_level(view, "sequence_logsumexp");
  const int level = detail::resolve_level(options.level, view.levels(), "sequence_logsumexp");
  const auto out = operation::prepare<value_type_t<X>>(executor, "sequence_logsumexp", y,
                                                       operation::LevelsAbove{view.lod_view(), level}, view.row_shape(),
                                                       {{"x", view}});
  kernel::SequenceLogsumexp<E>::run(executor, view.data(), operation::segments(executor, view, level), view.row_size(),
                                    out.data());
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_logsumexp_into(const E& executor, const X& x, Y&& y) {
  sequence_logsumexp_into(executor, x, LogsumexpOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_logsumexp(const E& executor, const X& x,
                                                                         const LogsumexpOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_logsumexp_into(executor, x, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_logsumexp(const X& x, const LogsumexpOptions& options = {}) {
  return sequence_logsumexp(default_executor<device_t<X>>(), x, options);
}

/// The gradient of `sequence_logsumexp`: the softmax of x over each sequence of `level`, times the row of dy that
/// belongs to the sequence. Levels and row shape as x; the levels of dy do not count. A column of nothing but -inf gets
/// 0. `dx` may be x's own tensor, but overlap in no other way. Throws as `sequence_logsumexp`, and ShapeMismatch unless
/// dy has one row like those of x for each sequence.
template <Executor E, LoDTensorLike DY, LoDTensorLike X, class DX>
void sequence_logsumexp_grad_into(const E& executor, const DY& dy, const X& x, const LogsumexpOptions& options,
                                  DX&& dx) {
  detail::check_elements<op::sequence_logsumexp_grad, value_type_t<X>>();
  static_assert(std::same_as<value_type_t<DY>, value_type_t<X>>,
                "sequence_logsumexp_grad: dy and x must have one element type");
  const auto gradient = dy.view();
  const auto view = x.view();
  operation::check_has_level(view, "sequence_logsumexp_grad: x");
  const int level = detail::resolve_level(options.level, view.levels(), "sequence_logsumexp_grad");
  const kernel::Segments sequences = operation::segments(executor, view, level);
  operation::check_row_count(gradient.rows(), sequences.size, "sequence_logsumexp_grad: dy");
  operation::check_row_shape(gradient.row_shape(), view.row_shape(), "sequence_logsumexp_grad: dy");
  const auto out = operation::prepare<value_type_t<X>>(executor, {"sequence_logsumexp_grad", "dx"}, dx,
                                                       operation::SameLevels{view.lod_view()}, view.row_shape(),
                                                       {{"dy", gradient}, operation::in_place("x", view)});
  kernel::SequenceSoftmax<E>::run(executor, view.data(), sequences, view.row_size(), false, out.data());
  kernel::ScaleSequences<E>::run(executor, gradient.data(), sequences, view.row_size(), out.data());
}
template <Executor E, LoDTensorLike DY, LoDTensorLike X, class DX>
void sequence_logsumexp_grad_into(const E& executor, const DY& dy, const X& x, DX&& dx) {
  sequence_logsumexp_grad_into(executor, dy, x, LogsumexpOptions{}, dx);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_logsumexp_grad(const E& executor, const DY& dy,
                                                                              const X& x,
                                                                              const LogsumexpOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> dx(executor.resource());
  sequence_logsumexp_grad_into(executor, dy, x, options, dx);
  return dx;
}
template <LoDTensorLike DY, LoDTensorLike X>
[[nodiscard]] auto sequence_logsumexp_grad(const DY& dy, const X& x, const LogsumexpOptions& options = {}) {
  return sequence_logsumexp_grad(default_executor<device_t<X>>(), dy, x, options);
}

/// What `sequence_logsumexp` gives, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_logsumexp(const LoDTensorDesc& x, const LogsumexpOptions& options = {}) {
  return infer::batch_for<op::sequence_logsumexp>(x, "sequence_logsumexp").pooled(options.level, "sequence_logsumexp");
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

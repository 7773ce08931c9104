// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Scattering: adding numbers to elements of a row, listed by a sequence.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/output.hpp>
#include <lod/selected_rows.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_scatter : elements::Arithmetic {};
struct sequence_scatter_grad : elements::Any {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_scatter`.
struct SequenceScatterOptions {
  int level = -1;  ///< the level of the ids whose sequences belong to the rows of x; by default the last
};

/// The result of `sequence_scatter_grad`.
template <class T, class Device>
struct SequenceScatterGrad {
  LoDTensor<T, Device> dx;
  LoDTensor<T, Device> dupdates;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
/// run(executor, ids, updates, sequences, columns, y): y[i][ids[k]] += updates[k] for k in sequence i, in order.
template <class Executor>
struct SequenceScatter : Missing<Executor> {};
/// run(executor, dy, ids, sequences, columns, dupdates): dupdates[k] = dy[i][ids[k]] for k in sequence i.
template <class Executor>
struct SequenceScatterUpdatesGrad : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// The sequences of the ids, one for each row of x. Throws unless they fit, and each id is a column of x.
template <Executor E, class View, class Ids>
kernel::Segments check_scatter(const E& executor, const View& x, const Ids& ids, const SequenceScatterOptions& options,
                               const char* what) {
  static_assert(std::same_as<value_type_t<Ids>, std::int64_t>, "sequence_scatter: ids are int64");
  check_has_level(ids, {what, "ids"});
  const int level = detail::resolve_level(options.level, ids.levels(), what);
  if (ids.row_size() != 1) {
    throw ShapeMismatch(
        detail::text({what, ": ids: rows of shape ", to_string(ids.row_shape()), ", expected one id a row"}));
  }
  const kernel::Segments sequences = segments(executor, ids, level);
  if (x.rows() != sequences.size) {
    throw ShapeMismatch(detail::text(
        {what, ": ", x.rows(), " rows of x, expected ", sequences.size, ", one for each sequence of the ids"}));
  }
  return sequences;
}

}  // namespace operation

/// x with updates[k] added to element ids[k] of row i, for each k of sequence i of the ids. Ids are elements of a row,
/// from 0 to the row size - 1; there is one row for each sequence of `level` of the ids, and one update for each id.
/// Repeated ids add up, in order; in float for float16 and bfloat16, rounded once. Row shape and LoD as x; the levels
/// of the updates are ignored. Semantics: PaddlePaddle's sequence_scatter.
///
/// `y` may be x's own tensor, but must not overlap x otherwise. Throws InvalidLoD if the ids have no level, OutOfRange
/// for the level and for an id that is not an element of a row (on a GPU its update is ignored, and whatever waits for
/// the executor next throws), ShapeMismatch for other numbers of rows or updates.
template <Executor E, LoDTensorLike X, LoDTensorLike Ids, LoDTensorLike Updates, class Y>
void sequence_scatter_into(const E& executor, const X& x, const Ids& ids, const Updates& updates,
                           const SequenceScatterOptions& options, Y&& y) {
  detail::check_elements<op::sequence_scatter, value_type_t<X>>();
  static_assert(std::same_as<value_type_t<Updates>, value_type_t<X>>,
                "sequence_scatter: x and the updates must have one element type");
  const auto view = x.view();
  const auto list = ids.view();
  const auto numbers = updates.view();
  const kernel::Segments sequences = operation::check_scatter(executor, view, list, options, "sequence_scatter");
  const operation::CheckedIds<E> checked(executor, list.values(), view.row_size(), "sequence_scatter");
  if (numbers.rows() != list.rows() || numbers.row_size() != 1) {
    throw ShapeMismatch(detail::text({"sequence_scatter: updates of shape ", to_string(numbers.shape()), ", expected ",
                                      list.rows(), " numbers, one for each id"}));
  }
  const auto out = operation::prepare<value_type_t<X>>(
      executor, "sequence_scatter", y, operation::SameLevels{view.lod_view()}, view.row_shape(),
      {operation::in_place("x", view), {"ids", list}, {"updates", numbers}});
  if constexpr (std::same_as<E, CpuExecutor>) {
    // Allocates scratch memory before anything is written.
    kernel::SequenceScatter<E>::run(executor, checked.data(), numbers.data(), sequences.none(), view.row_size(),
                                    out.data());
  }
  operation::copy_rows(executor, view, out.data());
  kernel::SequenceScatter<E>::run(executor, checked.data(), numbers.data(), sequences, view.row_size(), out.data());
}
template <Executor E, LoDTensorLike X, LoDTensorLike Ids, LoDTensorLike Updates, class Y>
void sequence_scatter_into(const E& executor, const X& x, const Ids& ids, const Updates& updates, Y&& y) {
  sequence_scatter_into(executor, x, ids, updates, SequenceScatterOptions{}, y);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Ids, LoDTensorLike Updates>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_scatter(const E& executor, const X& x, const Ids& ids,
                                                                       const Updates& updates,
                                                                       const SequenceScatterOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_scatter_into(executor, x, ids, updates, options, y);
  return y;
}
template <LoDTensorLike X, LoDTensorLike Ids, LoDTensorLike Updates>
[[nodiscard]] auto sequence_scatter(const X& x, const Ids& ids, const Updates& updates,
                                    const SequenceScatterOptions& options = {}) {
  return sequence_scatter(default_executor<device_t<X>>(), x, ids, updates, options);
}

/// The gradients of `sequence_scatter` with the same ids and options: dx is dy, dupdates[k] is element ids[k] of the
/// row of dy that belongs to its sequence, with the LoD and the row shape of the ids. `dx` may be dy's own tensor;
/// otherwise the outputs must overlap nothing. Throws as `sequence_scatter`.
template <Executor E, LoDTensorLike DY, LoDTensorLike Ids, class DX, class DUpdates>
void sequence_scatter_grad_into(const E& executor, const DY& dy, const Ids& ids, const SequenceScatterOptions& options,
                                DX&& dx, DUpdates&& dupdates) {
  const auto view = dy.view();
  const auto list = ids.view();
  const kernel::Segments sequences = operation::check_scatter(executor, view, list, options, "sequence_scatter_grad");
  const operation::CheckedIds<E> checked(executor, list.values(), view.row_size(), "sequence_scatter_grad");
  const operation::SameLevels rows{view.lod_view()}, updates{list.lod_view()};
  const auto out =
      operation::prepare<value_type_t<DY>>(executor, {"sequence_scatter_grad", "dx"}, dx, rows, view.row_shape(),
                                           {operation::in_place("dy", view), {"ids", list}});
  const auto out_updates =
      operation::prepare<value_type_t<DY>>(executor, {"sequence_scatter_grad", "dupdates"}, dupdates, updates,
                                           list.row_shape(), {{"dy", view}, {"ids", list}, {"dx", dx}});
  kernel::SequenceScatterUpdatesGrad<E>::run(executor, view.data(), checked.data(), sequences, view.row_size(),
                                             out_updates.data());
  operation::copy_rows(executor, view, out.data());
}
template <Executor E, LoDTensorLike DY, LoDTensorLike Ids, class DX, class DUpdates>
void sequence_scatter_grad_into(const E& executor, const DY& dy, const Ids& ids, DX&& dx, DUpdates&& dupdates) {
  sequence_scatter_grad_into(executor, dy, ids, SequenceScatterOptions{}, dx, dupdates);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike Ids>
[[nodiscard]] SequenceScatterGrad<value_type_t<DY>, device_t<DY>> sequence_scatter_grad(
    const E& executor, const DY& dy, const Ids& ids, const SequenceScatterOptions& options = {}) {
  using Tensor = LoDTensor<value_type_t<DY>, device_t<DY>>;
  SequenceScatterGrad<value_type_t<DY>, device_t<DY>> gradients{Tensor(executor.resource()),
                                                                Tensor(executor.resource())};
  sequence_scatter_grad_into(executor, dy, ids, options, gradients.dx, gradients.dupdates);
  return gradients;
}
template <LoDTensorLike DY, LoDTensorLike Ids>
[[nodiscard]] auto sequence_scatter_grad(const DY& dy, const Ids& ids, const SequenceScatterOptions& options = {}) {
  return sequence_scatter_grad(default_executor<device_t<DY>>(), dy, ids, options);
}

/// The result of `sequence_scatter`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_scatter(const LoDTensorDesc& x, const LoDTensorDesc& ids,
                                            const LoDTensorDesc& updates, const SequenceScatterOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::sequence_scatter>(x, "sequence_scatter");
  const infer::Batch list(ids, "sequence_scatter: ids"), numbers(updates, "sequence_scatter: updates");
  infer::check_type(list.type, DataType::INT64, "sequence_scatter: ids");
  infer::check_type(numbers.type, y.type, "sequence_scatter: updates");
  list.level(options.level, "sequence_scatter: ids");
  list.check_scalar_rows("sequence_scatter: ids", "one id a row");
  numbers.check_scalar_rows("sequence_scatter: updates", "one number a row");
  infer::check_row_count(numbers.rows, list.rows, "sequence_scatter: updates");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

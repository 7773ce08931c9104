// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Scattering: adding numbers to elements of a row, listed by a sequence.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/ops/checked_ids.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/rearrange.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_scatter : elements::Arithmetic {
  static constexpr Text text{"x, ids, updates",
                             "x with each update of sequence i added to the element of row i that its id names."};
};
struct sequence_scatter_grad : elements::Any {
  static constexpr Text text{"dy, ids", "The gradients of `sequence_scatter` for x and the updates."};
};
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

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, ids, updates, sequences, columns, y): y[i][ids[k]] += updates[k] for k in sequence i, in order.
struct SequenceScatter {};
/// run(executor, dy, ids, sequences, columns, dupdates): dupdates[k] = dy[i][ids[k]] for k in sequence i.
struct SequenceScatterUpdatesGrad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The sequences of the ids, one for each row of x. Throws unless they fit and each id is a column of x.
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

template <>
struct Declared<op::sequence_scatter>
    : Takes<Tensor, Ids, Tensor>, With<SequenceScatterOptions>, Launches<kernel::SequenceScatter> {
  static constexpr const char* name = "sequence_scatter";
  using Gradient = op::sequence_scatter_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const IdsInput<E>& ids, const Input<E, T>& updates,
                  const SequenceScatterOptions& options, const To<E, T>& y) {
    const kernel::Segments sequences = check_scatter(executor, x, ids, options, name);
    const CheckedIds<E> checked(executor, ids, x.row_size(), name);
    if (updates.rows() != ids.rows() || updates.row_size() != 1) {
      throw ShapeMismatch(detail::text({name, ": updates of shape ", to_string(updates.shape()), ", expected ",
                                        ids.rows(), " numbers, one for each id"}));
    }
    const auto out = prepare(executor, name, y, SameLevels{x.lod_view()}, x.row_shape(),
                             {in_place("x", x), {"ids", ids}, {"updates", updates}});
    if constexpr (std::derived_from<E, CpuExecutor>) {
      // Allocates scratch memory before anything is written.
      launch(kernel::SequenceScatter(), executor, checked.data(), updates.data(), sequences.none(), x.row_size(),
             out.data());
    }
    copy_rows(executor, x, out.data());
    launch(kernel::SequenceScatter(), executor, checked.data(), updates.data(), sequences, x.row_size(), out.data());
  }
};

template <>
struct Declared<op::sequence_scatter_grad> : Takes<Tensor, Ids>,
                                             With<SequenceScatterOptions>,
                                             GivesAll<SequenceScatterGrad, Tensor, Tensor>,
                                             Launches<kernel::SequenceScatterUpdatesGrad> {
  static constexpr const char* name = "sequence_scatter_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const IdsInput<E>& ids,
                  const SequenceScatterOptions& options, const To<E, T>& dx, const To<E, T>& dupdates) {
    const kernel::Segments sequences = check_scatter(executor, dy, ids, options, name);
    const CheckedIds<E> checked(executor, ids, dy.row_size(), name);
    const SameLevels rows{dy.lod_view()}, updates{ids.lod_view()};
    const auto out = prepare(executor, {name, "dx"}, dx, rows, dy.row_shape(), {in_place("dy", dy), {"ids", ids}});
    const auto out_updates = prepare(executor, {name, "dupdates"}, dupdates, updates, ids.row_shape(),
                                     {{"dy", dy}, {"ids", ids}, {"dx", dx}});
    launch(kernel::SequenceScatterUpdatesGrad(), executor, dy.data(), checked.data(), sequences, dy.row_size(),
           out_updates.data());
    copy_rows(executor, dy, out.data());
  }
};

}  // namespace operation

/// x with updates[k] added to element ids[k] of row i, for each k of sequence i of the ids. Ids are elements of a row,
/// from 0 to the row size - 1; there is one row for each sequence of `level` of the ids, and one update for each id.
/// Repeated ids add up, in order; in float for float16 and bfloat16, rounded once. Row shape and LoD as x; the levels
/// of the updates are ignored. Semantics: PaddlePaddle's sequence_scatter.
///
/// `y` may be x's own tensor, but must not overlap x otherwise. Throws InvalidLoD if the ids have no level, OutOfRange
/// for the level and for an id that is not an element of a row (on a GPU its update is ignored, and the next call that
/// waits for the executor throws), ShapeMismatch for wrong numbers of rows or updates.
inline constexpr operation::Call<op::sequence_scatter> sequence_scatter{};
inline constexpr operation::CallInto<op::sequence_scatter> sequence_scatter_into{};

/// The gradients of `sequence_scatter` with the same ids and options: dx is dy, dupdates[k] is element ids[k] of the
/// row of dy for its sequence, with the LoD and the row shape of the ids. `dx` may be dy's own tensor; otherwise the
/// outputs must not overlap each other or an argument. Throws as `sequence_scatter`.
inline constexpr operation::Call<op::sequence_scatter_grad> sequence_scatter_grad{};
inline constexpr operation::CallInto<op::sequence_scatter_grad> sequence_scatter_grad_into{};

/// The result of `sequence_scatter`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_scatter(const LoDTensorDesc& x, const LoDTensorDesc& ids,
                                            const LoDTensorDesc& updates, const SequenceScatterOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::sequence_scatter>(x, "sequence_scatter");
  const infer::Batch list(ids, "sequence_scatter: ids"), numbers(updates, "sequence_scatter: updates");
  infer::check_ids(list.type, "sequence_scatter: ids");
  infer::check_type(numbers.type, y.type, "sequence_scatter: updates");
  list.level(options.level, "sequence_scatter: ids");
  list.check_scalar_rows("sequence_scatter: ids", "one id a row");
  numbers.check_scalar_rows("sequence_scatter: updates", "one number a row");
  infer::check_row_count(numbers.rows, list.rows, "sequence_scatter: updates");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

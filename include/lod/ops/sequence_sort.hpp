// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Sorting sequences: sorted rows, the permutation that sorts, the greatest rows.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/lod_index.hpp>
#include <lod/ops/row_index.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_sort : elements::Arithmetic {};
struct sequence_sort_grad : elements::Any {};
struct sequence_argsort : elements::Arithmetic {};
struct sequence_topk : elements::Arithmetic {};
struct sequence_topk_grad : elements::Any {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_sort` and `sequence_argsort`.
struct SortOptions {
  bool descending = false;               ///< the greatest first
  int level = -1;                        ///< the level whose sequences are sorted; by default the last
  RowIndex row_index = RowIndex::BATCH;  ///< what the rows in an index are counted from
};

/// The options of `sequence_topk`.
struct TopKOptions {
  int level = -1;                        ///< the level from whose sequences rows are taken; by default the last
  RowIndex row_index = RowIndex::BATCH;  ///< what the rows in the index are counted from
};

/// The result of `sequence_topk`.
template <class T, class Device>
struct TopK {
  LoDTensor<T, Device> values;
  /// For each row of `values`, its row in x, counted from the first row of x. No level. With RowIndex::SEQUENCE counted
  /// from the first row of its sequence, with the levels of the values.
  LoDTensor<std::int64_t, Device> index;
};

/// The result of `sequence_topk`, described.
struct TopKDesc {
  LoDTensorDesc values;
  LoDTensorDesc index;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
/// run(executor, x, sequences, descending, y, index): y and index may be null.
template <class Executor>
struct SequenceSort : Missing<Executor> {};
/// run(executor, x, sequences, parts, y, index): part i becomes the first rows of sequence i sorted in descending
/// order.
template <class Executor>
struct SequenceTopK : Missing<Executor> {};
/// run(executor, dy, index, parts, sequences, dx): row k of part i of dy goes to the row of sequence i of dx that
/// index[k] names; the other rows become zeros.
template <class Executor>
struct SequenceSortGrad : Missing<Executor> {};
}  // namespace kernel

namespace operation {

/// Throws ShapeMismatch unless a row is one number.
template <class View>
void check_scalar_rows(const View& x, const char* what) {
  if (x.row_size() != 1) {
    throw ShapeMismatch(
        detail::text({what, ": rows of shape ", to_string(x.row_shape()), ", expected one number a row"}));
  }
}

/// `parts` are the sequences of dy, for the CPU, and `part_offsets` their offsets for a kernel.
template <Executor E, class View, class Index, class DX>
void sort_grad_into(const E& executor, const View& dy, const Index& index, const kernel::Segments& parts,
                    const std::int64_t* part_offsets, const LoDView& lod, int level, RowIndex counted, const char* what,
                    DX&& dx) {
  static_assert(std::same_as<value_type_t<Index>, std::int64_t>, "the index of sorted rows is int64");
  check_scalar_rows(dy, what);
  if (index.rows() * index.row_size() != dy.rows()) {
    throw ShapeMismatch(detail::text(
        {what, ": index: ", index.rows() * index.row_size(), " numbers, expected ", dy.rows(), ", one for each row"}));
  }
  check_row_index(counted, what);
  if constexpr (on_cpu<E>) {
    const kernel::Segments sequences = segments(lod, level);
    for (std::int64_t i = 0; i < parts.size; ++i) {
      const IndexRange range(counted, sequences.begin(i), sequences.length(i));
      for (std::int64_t k = parts.begin(i); k < parts.begin(i + 1); ++k) {
        const std::int64_t row = index.data()[k];
        if (!range.contains(row)) {
          throw OutOfRange(detail::text({what, ": index ", row, " of sequence ", i, ", expected a row from ",
                                         range.first, " to ", range.first + range.length - 1}));
        }
      }
    }
  }
  const RowsOfBatch<E> rows(executor, index.data(), dy.rows(), counted, {parts.at(part_offsets)},
                            segments(executor, lod, level));
  const auto out = prepare<value_type_t<View>>(executor, {what, "dx"}, dx, SameLevels{lod}, dy.row_shape(),
                                               {{"dy", dy}, {"index", index}});
  kernel::SequenceSortGrad<E>::run(executor, dy.data(), rows.data(), parts.at(part_offsets),
                                   segments(executor, lod, level), out.data());
}

}  // namespace operation

/// The rows of each sequence of `level` in ascending order, or in descending order with `descending`. Equal rows keep
/// their order, NaN comes last either way. LoD and row shape as x; sequences below `level` keep their lengths. Rows are
/// of size 1. If `index` is given, it becomes the result of `sequence_argsort`.
///
/// The outputs must not overlap x. Time: a radix sort for long sequences, shared by several threads; those of up to 256
/// rows are sorted many at a time. Throws InvalidLoD if x has no level, OutOfRange for the level, ShapeMismatch for
/// another row size.
template <Executor E, LoDTensorLike X, class Y, class Index>
void sequence_sort_into(const E& executor, const X& x, const SortOptions& options, Y&& y, Index&& index) {
  detail::check_elements<op::sequence_sort, value_type_t<X>>();
  const auto view = x.view();
  operation::check_has_level(view, "sequence_sort");
  const int level = detail::resolve_level(options.level, view.levels(), "sequence_sort");
  operation::check_scalar_rows(view, "sequence_sort");
  operation::check_row_index(options.row_index, "sequence_sort");
  const operation::SameLevels rows{view.lod_view()};
  const operation::IndexLevels<operation::SameLevels> of_index{rows, options.row_index};
  const kernel::Segments sequences = operation::segments(executor, view, level);
  const auto values =
      operation::prepare<value_type_t<X>>(executor, {"sequence_sort", "y"}, y, rows, view.row_shape(), {{"x", view}});
  const auto sources = operation::prepare<std::int64_t>(executor, {"sequence_sort", "index"}, index, of_index,
                                                        view.row_shape(), {{"x", view}, {"y", y}});
  kernel::SequenceSort<E>::run(executor, view.data(), sequences, options.descending, values.data(), sources.data());
  operation::count_by(executor, options.row_index, sequences, sequences, sources.data());
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_sort_into(const E& executor, const X& x, const SortOptions& options, Y&& y) {
  detail::check_elements<op::sequence_sort, value_type_t<X>>();
  const auto view = x.view();
  operation::check_has_level(view, "sequence_sort");
  const int level = detail::resolve_level(options.level, view.levels(), "sequence_sort");
  operation::check_scalar_rows(view, "sequence_sort");
  const auto values = operation::prepare<value_type_t<X>>(
      executor, {"sequence_sort", "y"}, y, operation::SameLevels{view.lod_view()}, view.row_shape(), {{"x", view}});
  kernel::SequenceSort<E>::run(executor, view.data(), operation::segments(executor, view, level), options.descending,
                               values.data(), static_cast<std::int64_t*>(nullptr));
}
template <Executor E, LoDTensorLike X, class Y, class Index>
  requires(!std::same_as<std::remove_cvref_t<Y>, SortOptions>)
void sequence_sort_into(const E& executor, const X& x, Y&& y, Index&& index) {
  sequence_sort_into(executor, x, SortOptions{}, y, index);
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_sort_into(const E& executor, const X& x, Y&& y) {
  sequence_sort_into(executor, x, SortOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_sort(const E& executor, const X& x,
                                                                    const SortOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_sort_into(executor, x, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_sort(const X& x, const SortOptions& options = {}) {
  return sequence_sort(default_executor<device_t<X>>(), x, options);
}

/// For each row of `sequence_sort` with the same options, its row in x, counted from the first row of x. No level, row
/// shape as x. With RowIndex::SEQUENCE counted from the first row of its sequence, with the levels of x. Otherwise as
/// `sequence_sort`.
template <Executor E, LoDTensorLike X, class Index>
void sequence_argsort_into(const E& executor, const X& x, const SortOptions& options, Index&& index) {
  detail::check_elements<op::sequence_argsort, value_type_t<X>>();
  const auto view = x.view();
  operation::check_has_level(view, "sequence_argsort");
  const int level = detail::resolve_level(options.level, view.levels(), "sequence_argsort");
  operation::check_scalar_rows(view, "sequence_argsort");
  operation::check_row_index(options.row_index, "sequence_argsort");
  const operation::SameLevels rows{view.lod_view()};
  const kernel::Segments sequences = operation::segments(executor, view, level);
  const auto sources = operation::prepare<std::int64_t>(
      executor, {"sequence_argsort", "index"}, index,
      operation::IndexLevels<operation::SameLevels>{rows, options.row_index}, view.row_shape(), {{"x", view}});
  kernel::SequenceSort<E>::run(executor, view.data(), sequences, options.descending,
                               static_cast<value_type_t<X>*>(nullptr), sources.data());
  operation::count_by(executor, options.row_index, sequences, sequences, sources.data());
}
template <Executor E, LoDTensorLike X, class Index>
void sequence_argsort_into(const E& executor, const X& x, Index&& index) {
  sequence_argsort_into(executor, x, SortOptions{}, index);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<std::int64_t, device_t<X>> sequence_argsort(const E& executor, const X& x,
                                                                    const SortOptions& options = {}) {
  LoDTensor<std::int64_t, device_t<X>> index(executor.resource());
  sequence_argsort_into(executor, x, options, index);
  return index;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_argsort(const X& x, const SortOptions& options = {}) {
  return sequence_argsort(default_executor<device_t<X>>(), x, options);
}

/// The gradient of `sequence_sort`: dx[index[k]] = dy[k], with the index that `sequence_argsort` returns and the levels
/// of dy, which are those of the result. Of the options, the level and `row_index` are used. `dx` must not overlap dy
/// or index. Throws InvalidLoD if dy has no level, OutOfRange for the level and for an index that is not a row of its
/// sequence (on a GPU this is not checked: one that is not a row at all is ignored), ShapeMismatch unless dy and index
/// are columns of as many numbers.
template <Executor E, LoDTensorLike DY, LoDTensorLike Index, class DX>
void sequence_sort_grad_into(const E& executor, const DY& dy, const Index& index, const SortOptions& options, DX&& dx) {
  const auto view = dy.view();
  operation::check_has_level(view, "sequence_sort_grad: dy");
  const int level = detail::resolve_level(options.level, view.levels(), "sequence_sort_grad");
  const kernel::Segments sequences = operation::segments(view.lod_view(), level);
  operation::sort_grad_into(executor, view, index.view(), sequences,
                            operation::on_device(executor, view.lod_view(), sequences).offsets, view.lod_view(), level,
                            options.row_index, "sequence_sort_grad", dx);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike Index, class DX>
void sequence_sort_grad_into(const E& executor, const DY& dy, const Index& index, DX&& dx) {
  sequence_sort_grad_into(executor, dy, index, SortOptions{}, dx);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike Index>
[[nodiscard]] LoDTensor<value_type_t<DY>, device_t<DY>> sequence_sort_grad(const E& executor, const DY& dy,
                                                                           const Index& index,
                                                                           const SortOptions& options = {}) {
  LoDTensor<value_type_t<DY>, device_t<DY>> dx(executor.resource());
  sequence_sort_grad_into(executor, dy, index, options, dx);
  return dx;
}
template <LoDTensorLike DY, LoDTensorLike Index>
[[nodiscard]] auto sequence_sort_grad(const DY& dy, const Index& index, const SortOptions& options = {}) {
  return sequence_sort_grad(default_executor<device_t<DY>>(), dy, index, options);
}

namespace operation {

/// The levels of a result with at most the first `k` rows of each sequence of `level`; returns the last of them.
inline kernel::Segments add_top_levels(NewLevels& levels, const LoDView& lod, int level, std::int64_t k) {
  for (int above = 0; above < level; ++above) add_level(levels, lod.offsets(above));
  const kernel::Segments sequences = segments(lod, level);
  const auto offsets = levels.add(sequences.size);
  for (std::int64_t i = 0; i < sequences.size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    offsets[at + 1] = offsets[at] + std::min(k, sequences.length(i));
  }
  return {offsets.data(), sequences.size, std::min(k, sequences.max_rows)};
}
inline std::int64_t top_sequences(const LoDView& lod, int level) {
  std::int64_t sequences = 0;
  for (int above = 0; above <= level; ++above) sequences += lod.size(above);
  return sequences;
}

}  // namespace operation

/// The `k` greatest rows of each sequence of `level`, in descending order, and their row numbers; all rows of a
/// sequence with fewer. They are the first rows of `sequence_sort` with `descending`: of equal ones those that come
/// first, NaN only if nothing else is left. The values have the levels of x down to `level`, the index has none, or,
/// with RowIndex::SEQUENCE, the same; row shape as x. Rows are of size 1.
///
/// One pass over x. The outputs must not overlap x. Throws InvalidLoD if x has no level, OutOfRange for the level and
/// for a negative k, ShapeMismatch for another row size.
template <Executor E, LoDTensorLike X, class Values, class Index>
void sequence_topk_into(const E& executor, const X& x, std::int64_t k, const TopKOptions& options, Values&& values,
                        Index&& index) {
  detail::check_elements<op::sequence_topk, value_type_t<X>>();
  const auto view = x.view();
  operation::check_has_level(view, "sequence_topk");
  const int level = detail::resolve_level(options.level, view.levels(), "sequence_topk");
  if (k < 0) throw OutOfRange(detail::text({"sequence_topk: k is ", k, ", expected 0 or more"}));
  operation::check_scalar_rows(view, "sequence_topk");
  const LoDView lod = view.lod_view();
  operation::NewLevels levels(executor.workspace(), level + 1, operation::top_sequences(lod, level));
  const kernel::Segments parts = operation::add_top_levels(levels, lod, level, k);
  operation::check_row_index(options.row_index, "sequence_topk");
  const operation::IndexLevels<operation::NewLevels> of_index{levels, options.row_index};
  const kernel::Segments sequences = operation::segments(executor, view, level);
  const auto out = operation::prepare<value_type_t<X>>(executor, {"sequence_topk", "values"}, values, levels,
                                                       view.row_shape(), {{"x", view}});
  const auto sources = operation::prepare<std::int64_t>(executor, {"sequence_topk", "index"}, index, of_index,
                                                        view.row_shape(), {{"x", view}, {"values", values}});
  const kernel::Segments tops = parts.at(operation::segments(executor, out, level).offsets);
  kernel::SequenceTopK<E>::run(executor, view.data(), sequences, tops, out.data(), sources.data());
  operation::count_by(executor, options.row_index, tops, sequences, sources.data());
}
template <Executor E, LoDTensorLike X, class Values, class Index>
void sequence_topk_into(const E& executor, const X& x, std::int64_t k, Values&& values, Index&& index) {
  sequence_topk_into(executor, x, k, TopKOptions{}, values, index);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] TopK<value_type_t<X>, device_t<X>> sequence_topk(const E& executor, const X& x, std::int64_t k,
                                                               const TopKOptions& options = {}) {
  TopK<value_type_t<X>, device_t<X>> top{LoDTensor<value_type_t<X>, device_t<X>>(executor.resource()),
                                         LoDTensor<std::int64_t, device_t<X>>(executor.resource())};
  sequence_topk_into(executor, x, k, options, top.values, top.index);
  return top;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_topk(const X& x, std::int64_t k, const TopKOptions& options = {}) {
  return sequence_topk(default_executor<device_t<X>>(), x, k, options);
}

/// The gradient of `sequence_topk` with the same k and options: dx, with the rows and the levels of `lod`, has dy at
/// the rows that the index names, and 0 elsewhere. The levels of dy are ignored. `dx` must not overlap dy or index.
/// Throws as `sequence_topk`, ShapeMismatch if dy or index do not have the rows of its result, OutOfRange for an index
/// that is not a row of its sequence; on a GPU as `sequence_sort_grad`.
template <Executor E, LoDTensorLike DY, LoDTensorLike Index, class DX>
void sequence_topk_grad_into(const E& executor, const DY& dy, const Index& index, const LoD& lod, std::int64_t k,
                             const TopKOptions& options, DX&& dx) {
  const auto view = dy.view();
  operation::check_has_level(lod, "sequence_topk_grad: lod");
  const int level = detail::resolve_level(options.level, lod.levels(), "sequence_topk_grad");
  if (k < 0) throw OutOfRange(detail::text({"sequence_topk_grad: k is ", k, ", expected 0 or more"}));
  const LoDView sequences = lod.view();
  operation::NewLevels levels(executor.workspace(), level + 1, operation::top_sequences(sequences, level));
  const kernel::Segments parts = operation::add_top_levels(levels, sequences, level, k);
  operation::check_row_count(view.rows(), parts.rows(), "sequence_topk_grad: dy");
  const operation::OnDevice<E, std::int64_t> offsets(executor,
                                                     {parts.offsets, static_cast<std::size_t>(parts.size) + 1});
  operation::sort_grad_into(executor, view, index.view(), parts, offsets.data(), sequences, level, options.row_index,
                            "sequence_topk_grad", dx);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike Index, class DX>
void sequence_topk_grad_into(const E& executor, const DY& dy, const Index& index, const LoD& lod, std::int64_t k,
                             DX&& dx) {
  sequence_topk_grad_into(executor, dy, index, lod, k, TopKOptions{}, dx);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike Index>
[[nodiscard]] LoDTensor<value_type_t<DY>, device_t<DY>> sequence_topk_grad(const E& executor, const DY& dy,
                                                                           const Index& index, const LoD& lod,
                                                                           std::int64_t k,
                                                                           const TopKOptions& options = {}) {
  LoDTensor<value_type_t<DY>, device_t<DY>> dx(executor.resource());
  sequence_topk_grad_into(executor, dy, index, lod, k, options, dx);
  return dx;
}
template <LoDTensorLike DY, LoDTensorLike Index>
[[nodiscard]] auto sequence_topk_grad(const DY& dy, const Index& index, const LoD& lod, std::int64_t k,
                                      const TopKOptions& options = {}) {
  return sequence_topk_grad(default_executor<device_t<DY>>(), dy, index, lod, k, options);
}

/// The results of `sequence_sort`, `sequence_argsort` and `sequence_topk`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_sort(const LoDTensorDesc& x, const SortOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::sequence_sort>(x, "sequence_sort");
  y.level(options.level, "sequence_sort");
  y.check_scalar_rows("sequence_sort", "one number a row");
  return y;
}
inline LoDTensorDesc infer_sequence_argsort(const LoDTensorDesc& x, const SortOptions& options = {}) {
  infer::Batch y = infer::batch_for<op::sequence_argsort>(x, "sequence_argsort");
  y.level(options.level, "sequence_argsort");
  y.check_scalar_rows("sequence_argsort", "one number a row");
  return operation::infer_index(y, options.row_index, "sequence_argsort");
}
inline TopKDesc infer_sequence_topk(const LoDTensorDesc& x, std::int64_t k, const TopKOptions& options = {}) {
  infer::Batch y = infer::batch_for<op::sequence_topk>(x, "sequence_topk");
  y.levels = y.level(options.level, "sequence_topk") + 1;
  if (k < 0) throw OutOfRange(detail::text({"sequence_topk: k is ", k, ", expected 0 or more"}));
  y.check_scalar_rows("sequence_topk", "one number a row");
  y.rows = k == 0 ? 0 : infer::unknown;
  return {y, operation::infer_index(y, options.row_index, "sequence_topk")};
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

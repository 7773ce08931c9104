// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Sorting sequences: sorted rows, the permutation that sorts, the greatest rows.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/row_index.hpp>
#include <lod/ops/run_copy.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_sort : elements::Arithmetic {
  static constexpr Text text{"x", "The rows of each sequence in order, NaN last; one number a row."};
};
struct sequence_sort_grad : elements::Any {
  static constexpr Text text{"dy, index",
                             "The gradient of `sequence_sort`, from the index that `sequence_argsort` returns."};
};
struct sequence_argsort : elements::Arithmetic {
  static constexpr Text text{"x", "For each row of `sequence_sort`, its row in x."};
};
struct sequence_topk : elements::Arithmetic {
  static constexpr Text text{"x, k",
                             "The k greatest rows of each sequence, in descending order, and their row numbers."};
};
struct sequence_topk_grad : elements::Any {
  static constexpr Text text{"dy, index, lod, k", "The gradient of `sequence_topk`, for the levels of x."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_sort` and `sequence_argsort`.
struct SortOptions {
  bool descending = false;               ///< the greatest first
  int level = -1;                        ///< the level whose sequences are sorted; by default the last
  RowIndex row_index = RowIndex::BATCH;  ///< where an index counts rows from
};

/// The options of `sequence_topk`.
struct TopKOptions {
  int level = -1;                        ///< the level from whose sequences rows are taken; by default the last
  RowIndex row_index = RowIndex::BATCH;  ///< where the index counts rows from
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

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, sequences, descending, y, index): y and index may be null.
struct SequenceSort {};
/// run(executor, x, sequences, parts, y, index): part i becomes the first rows of sequence i in descending order.
struct SequenceTopK {};
/// run(executor, dy, index, parts, sequences, dx): row k of part i of dy goes to the row of sequence i of dx that
/// index[k] names; the other rows become zeros.
struct SequenceSortGrad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

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
template <Executor E, class T>
void sort_grad_into(const E& executor, const Input<E, T>& dy, const Input<E, std::int64_t>& index,
                    const kernel::Segments& parts, const std::int64_t* part_offsets, const LoDView& lod, int level,
                    RowIndex counted, const char* what, const To<E, T>& dx) {
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
  const auto out = prepare(executor, {what, "dx"}, dx, SameLevels{lod}, dy.row_shape(), {{"dy", dy}, {"index", index}});
  launch(kernel::SequenceSortGrad(), executor, dy.data(), rows.data(), parts.at(part_offsets),
         segments(executor, lod, level), out.data());
}

/// Adds a level of at most the first `k` rows of each sequence of `level`, and returns it.
inline kernel::Segments add_top_level(NewLevels& levels, const LoDView& lod, int level, std::int64_t k) {
  const kernel::Segments sequences = segments(lod, level);
  const auto offsets = levels.add(sequences.size);
  for (std::int64_t i = 0; i < sequences.size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    offsets[at + 1] = offsets[at] + std::min(k, sequences.length(i));
  }
  return {offsets.data(), sequences.size, std::min(k, sequences.max_rows)};
}

/// Sorts into y and index, of which one may be null.
template <Executor E, class T>
void sort_into(const E& executor, const char* what, const Input<E, T>& x, const SortOptions& options, const To<E, T>* y,
               const To<E, std::int64_t>* index) {
  check_has_level(x, what);
  const int level = detail::resolve_level(options.level, x.levels(), what);
  check_scalar_rows(x, what);
  if (index) check_row_index(options.row_index, what);
  const SameLevels rows{x.lod_view()};
  const kernel::Segments sequences = segments(executor, x, level);
  std::optional<Output<T, typename E::device>> values;
  std::optional<Output<std::int64_t, typename E::device>> sources;
  if (y) static_cast<void>(values.emplace(prepare(executor, {what, "y"}, *y, rows, x.row_shape(), {{"x", x}})));
  if (index) {
    const IndexLevels<SameLevels> levels{rows, options.row_index};
    const OtherMemory memory("x", x);
    static_cast<void>(sources.emplace(prepare(executor, {what, "index"}, *index, levels, x.row_shape(),
                                              {memory, y ? OtherMemory("y", *y) : memory})));
  }
  launch(kernel::SequenceSort(), executor, x.data(), sequences, options.descending, values ? values->data() : nullptr,
         sources ? sources->data() : nullptr);
  if (index) count_by(executor, options.row_index, sequences, sequences, sources->data());
}

template <>
struct Declared<op::sequence_sort> : Takes<Tensor>, With<SortOptions>, Launches<kernel::SequenceSort> {
  static constexpr const char* name = "sequence_sort";
  using Gradient = op::sequence_sort_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const SortOptions& options, const To<E, T>& y) {
    sort_into<E, T>(executor, name, x, options, &y, nullptr);
  }
};
/// `sequence_sort_into` with the index as another output.
struct SortWithIndex : op::sequence_sort {};
template <>
struct Declared<SortWithIndex> : Takes<Tensor>, With<SortOptions>, GivesAll<TopK, Tensor, TensorOf<std::int64_t>> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const SortOptions& options, const To<E, T>& y,
                  const To<E, std::int64_t>& index) {
    sort_into<E, T>(executor, Declared<op::sequence_sort>::name, x, options, &y, &index);
  }
};
template <>
struct CallInto<op::sequence_sort> : FormsInto<op::sequence_sort, Takes<Tensor>>,
                                     FormsInto<SortWithIndex, Takes<Tensor>> {
  using FormsInto<op::sequence_sort, Takes<Tensor>>::operator();
  using FormsInto<SortWithIndex, Takes<Tensor>>::operator();
};

template <>
struct Declared<op::sequence_argsort> : Takes<Tensor>, With<SortOptions>, Gives<TensorOf<std::int64_t>> {
  static constexpr const char* name = "sequence_argsort";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const SortOptions& options,
                  const To<E, std::int64_t>& index) {
    sort_into<E, T>(executor, name, x, options, nullptr, &index);
  }
};

template <>
struct Declared<op::sequence_sort_grad>
    : Takes<Tensor, TensorOf<std::int64_t>>, With<SortOptions>, Launches<kernel::SequenceSortGrad> {
  static constexpr const char* name = "sequence_sort_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, std::int64_t>& index,
                  const SortOptions& options, const To<E, T>& dx) {
    check_has_level(dy, {name, "dy"});
    const int level = detail::resolve_level(options.level, dy.levels(), name);
    const kernel::Segments sequences = segments(dy.lod_view(), level);
    sort_grad_into<E, T>(executor, dy, index, sequences, on_device(executor, dy.lod_view(), sequences).offsets,
                         dy.lod_view(), level, options.row_index, name, dx);
  }
};

template <>
struct Declared<op::sequence_topk> : Takes<Tensor, std::int64_t>,
                                     With<TopKOptions>,
                                     GivesAll<TopK, Tensor, TensorOf<std::int64_t>>,
                                     Launches<kernel::SequenceTopK> {
  static constexpr const char* name = "sequence_topk";
  using Gradient = op::sequence_topk_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, std::int64_t k, const TopKOptions& options,
                  const To<E, T>& values, const To<E, std::int64_t>& index) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    if (k < 0) throw OutOfRange(detail::text({name, ": k is ", k, ", expected 0 or more"}));
    check_scalar_rows(x, name);
    const LoDView lod = x.lod_view();
    NewLevels levels(executor.workspace(), lod, level, 1, lod.size(level));
    const kernel::Segments parts = add_top_level(levels, lod, level, k);
    check_row_index(options.row_index, name);
    const IndexLevels<NewLevels> of_index{levels, options.row_index};
    const kernel::Segments sequences = segments(executor, x, level);
    const auto out = prepare(executor, {name, "values"}, values, levels, x.row_shape(), {{"x", x}});
    const auto sources =
        prepare(executor, {name, "index"}, index, of_index, x.row_shape(), {{"x", x}, {"values", values}});
    const kernel::Segments tops = parts.at(segments(executor, out, level).offsets);
    launch(kernel::SequenceTopK(), executor, x.data(), sequences, tops, out.data(), sources.data());
    count_by(executor, options.row_index, tops, sequences, sources.data());
  }
};

template <>
struct Declared<op::sequence_topk_grad> : Takes<Tensor, TensorOf<std::int64_t>, LoD, std::int64_t>, With<TopKOptions> {
  static constexpr const char* name = "sequence_topk_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, std::int64_t>& index, const LoD& lod,
                  std::int64_t k, const TopKOptions& options, const To<E, T>& dx) {
    check_has_level(lod, {name, "lod"});
    const int level = detail::resolve_level(options.level, lod.levels(), name);
    if (k < 0) throw OutOfRange(detail::text({name, ": k is ", k, ", expected 0 or more"}));
    const LoDView sequences = lod.view();
    NewLevels levels(executor.workspace(), sequences, level, 1, sequences.size(level));
    const kernel::Segments parts = add_top_level(levels, sequences, level, k);
    check_row_count(dy.rows(), parts.rows(), {name, "dy"});
    const OnDevice<E, std::int64_t> offsets(executor, {parts.offsets, static_cast<std::size_t>(parts.size) + 1});
    sort_grad_into<E, T>(executor, dy, index, parts, offsets.data(), sequences, level, options.row_index, name, dx);
  }
};

}  // namespace operation

/// The rows of each sequence of `level` in ascending order, or in descending order with `descending`. Equal rows keep
/// their order; NaN comes last in both orders. LoD and row shape as x; sequences below `level` keep their lengths. Rows
/// are of size 1. If `index` is given, it becomes the result of `sequence_argsort`.
///
/// The outputs must not overlap x. Time: a radix sort for long sequences, shared by several threads; sequences of up to
/// 256 rows are sorted many at a time. Throws InvalidLoD if x has no level, OutOfRange for the level, ShapeMismatch for
/// any other row size.
inline constexpr operation::Call<op::sequence_sort> sequence_sort{};
inline constexpr operation::CallInto<op::sequence_sort> sequence_sort_into{};

/// For each row of `sequence_sort` with the same options, its row in x, counted from the first row of x. No level, row
/// shape as x. With RowIndex::SEQUENCE counted from the first row of its sequence, with the levels of x. Otherwise as
/// `sequence_sort`.
inline constexpr operation::Call<op::sequence_argsort> sequence_argsort{};
inline constexpr operation::CallInto<op::sequence_argsort> sequence_argsort_into{};

/// The gradient of `sequence_sort`: dx[index[k]] = dy[k], with the index that `sequence_argsort` returns and the levels
/// of dy, which are those of the result. Of the options, the level and `row_index` are used. `dx` must not overlap dy
/// or index. Throws InvalidLoD if dy has no level, OutOfRange for the level and for an index that is not a row of its
/// sequence (on a GPU this is not checked: an index that is not a row at all is ignored), ShapeMismatch unless dy and
/// index have row size 1 and the same number of rows.
inline constexpr operation::Call<op::sequence_sort_grad> sequence_sort_grad{};
inline constexpr operation::CallInto<op::sequence_sort_grad> sequence_sort_grad_into{};

/// The `k` greatest rows of each sequence of `level`, in descending order, and their row numbers; all rows of a
/// sequence with fewer. They are the first rows of `sequence_sort` with `descending`: the first of equal rows, and NaN
/// only if nothing else is left. The values have the levels of x down to `level`; the index has none or, with
/// RowIndex::SEQUENCE, the same levels. Row shape as x. Rows are of size 1.
///
/// One pass over x. The outputs must not overlap x. Throws InvalidLoD if x has no level, OutOfRange for the level and
/// for a negative k, ShapeMismatch for any other row size.
inline constexpr operation::Call<op::sequence_topk> sequence_topk{};
inline constexpr operation::CallInto<op::sequence_topk> sequence_topk_into{};

/// The gradient of `sequence_topk` with the same k and options: dx, with the rows and the levels of `lod`, has dy at
/// the rows that the index names, and 0 elsewhere. The levels of dy are ignored. `dx` must not overlap dy or index.
/// Throws as `sequence_topk`, ShapeMismatch if dy or index do not have the rows of its result, OutOfRange for an index
/// that is not a row of its sequence; on a GPU as `sequence_sort_grad`.
inline constexpr operation::Call<op::sequence_topk_grad> sequence_topk_grad{};
inline constexpr operation::CallInto<op::sequence_topk_grad> sequence_topk_grad_into{};

/// The results of `sequence_sort`, `sequence_argsort` and `sequence_topk`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_sort(const LoDTensorDesc& x, const SortOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::sequence_sort>(x, "sequence_sort");
  y.level(options.level, "sequence_sort");
  y.check_scalar_rows("sequence_sort", "one number a row");
  return y;
}
inline LoDTensorDesc infer_sequence_argsort(const LoDTensorDesc& x, const SortOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::sequence_argsort>(x, "sequence_argsort");
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

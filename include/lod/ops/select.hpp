// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Selecting, keeping and dropping whole sequences, with the levels rebuilt around them.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/selected_rows.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct select : elements::Any {
  static constexpr Text text{"x, ids", "The outermost sequences, or rows, by their numbers, in this order."};
};
struct select_grad : elements::Arithmetic {
  static constexpr Text text{"dy, x_levels, ids",
                             "The gradient of `select`: sums over sequences that were taken repeatedly."};
};
struct filter : elements::Any {
  static constexpr Text text{"x, mask", "The outermost sequences, or rows, whose element of the mask is true."};
};
struct filter_grad : elements::Any {
  static constexpr Text text{"dy, x_levels, mask", "The gradient of `filter`: 0 in sequences that were left out."};
};
struct remove_empty : elements::Any {
  static constexpr Text text{"x", "x without the empty sequences of `level`."};
};
struct remove_empty_grad : elements::Any {
  static constexpr Text text{"dy, x_levels", "The gradient of `remove_empty`: dy under the levels of x."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `remove_empty`.
struct RemoveEmptyOptions {
  int level = 0;  ///< the level whose empty sequences are dropped; by default the first
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws ShapeMismatch unless a mask has one element for each sequence (row); `hint` ends the text.
inline void check_mask(const MaskList& mask, std::int64_t sequences, const char* what, const char* hint = "") {
  if (mask.size() != sequences) {
    throw ShapeMismatch(detail::text({what, ": a mask of ", mask.size(), " elements, expected ", sequences,
                                      ", one for each sequence (row, where there is no level)", hint}));
  }
}

/// The numbers of the sequences whose element of the mask is `kept`, in scratch memory.
class MaskedIds {
 public:
  MaskedIds(Workspace& workspace, const MaskList& mask, bool kept)
      : ids_(workspace, mask.size()), size_(mask.find(kept, ids_.data())) {}
  std::int64_t size() const noexcept { return size_; }
  std::int64_t operator[](std::int64_t i) const noexcept { return ids_[i]; }

 private:
  Workspace::Loan<std::int64_t> ids_;
  std::int64_t size_;
};

/// The number of rows before sequence i of the outermost level (before row i if there is no level), counted from the
/// first row of the part.
inline std::int64_t rows_before(const LoDView& levels, std::int64_t i) {
  if (levels.levels() == 0) return i;
  const auto rows = levels.absolute_offsets(0);
  return rows[static_cast<std::size_t>(i)] - rows[0];
}

template <>
struct Declared<op::select> : Takes<Tensor, IdList> {
  static constexpr const char* name = "select";
  using Gradient = op::select_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const IdList& ids, const To<E, T>& y) {
    detail::check_row_ids(ids, x.size(), name);
    rearrange_into(executor, name, x, static_cast<std::int64_t>(ids.size()),
                   [&](std::int64_t i) { return ids[static_cast<std::size_t>(i)]; }, y, {{"x", x}, {"ids", ids}});
  }
};

template <>
struct Declared<op::select_grad> : Takes<Tensor, BatchLevels, IdList> {
  static constexpr const char* name = "select_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const BatchLevels& x_levels, const IdList& ids,
                  const To<E, T>& dx) {
    const LoDView& levels = x_levels.view();
    const auto count = static_cast<std::int64_t>(ids.size());
    if (count > 0 && levels.size() == 0) {
      throw OutOfRange(detail::text({name, ": ", count, " ids, but x has no sequence to select", x_levels.hint()}));
    }
    detail::check_row_ids(ids, levels.size(), name);
    const auto length = [&](std::int64_t sequence) {
      return rows_before(levels, sequence + 1) - rows_before(levels, sequence);
    };
    const Workspace::Loan<std::int64_t> starts(executor.workspace(), count);  // where each begins in dy
    std::int64_t rows = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      starts[i] = rows;
      if (__builtin_add_overflow(rows, length(ids[static_cast<std::size_t>(i)]), &rows)) {
        throw ShapeMismatch(detail::text({name, ": the selection has more rows than 64 bits count"}));
      }
    }
    check_row_count(dy.rows(), rows, {name, "dy"});
    if (dy.row_size() == 0) {  // there may be more such rows than memory can list
      static_cast<void>(prepare(executor, {name, "dx"}, dx, SameLevels{levels}, dy.row_shape(), {{"dy", dy}}));
      return;
    }

    // Where the copies of each sequence begin in `order`; once all are placed, where they end.
    const Workspace::Loan<std::int64_t> order(executor.workspace(), count);
    const Workspace::Loan<std::int64_t> ends(executor.workspace(), levels.size() + 1);
    std::fill_n(ends.data(), levels.size() + 1, 0);
    for (const std::int64_t sequence : ids) ++ends[sequence + 1];
    for (std::int64_t sequence = 0; sequence < levels.size(); ++sequence) ends[sequence + 1] += ends[sequence];
    for (std::int64_t i = 0; i < count; ++i) order[ends[ids[static_cast<std::size_t>(i)]]++] = i;
    // For each row, its copies.
    const Array<E, std::int64_t> copies(executor, rows), to(executor, rows), row_groups(executor, rows + 1);
    std::int64_t row_count = 0, longest = 0, begin = 0;
    row_groups[0] = 0;
    for (std::int64_t sequence = 0; sequence < levels.size(); begin = ends[sequence++]) {
      const std::int64_t copied = ends[sequence] - begin;
      if (copied == 0) continue;
      const std::int64_t first = rows_before(levels, sequence);
      if (copied > longest) longest = copied;
      for (std::int64_t row = 0; row < length(sequence); ++row) {
        std::int64_t next = row_groups[row_count];
        for (std::int64_t copy = begin; copy < ends[sequence]; ++copy) copies[next++] = starts[order[copy]] + row;
        to[row_count] = first + row;
        row_groups[++row_count] = next;
      }
    }
    const auto out =
        prepare(executor, {name, "dx"}, dx, SameLevels{levels}, dy.row_shape(), {{"dy", dy}, {"ids", ids}});
    const auto sum = [&](const kernel::Segments& groups) {
      launch(kernel::SumGroups(), executor, PoolType::SUM, kernel::NumberedRows<T>{nullptr, dy.data(), dy.row_size()},
             copies.on_device(), groups, dy.row_size(), to.on_device(), out.data());
    };
    const kernel::Segments groups = segments(row_groups, row_count, longest);
    // Takes scratch memory before anything is written.
    if constexpr (std::derived_from<E, CpuExecutor>) sum(groups.none());
    launch(kernel::SetZero(), executor, out.data(), out.rows() * dy.row_size());
    sum(groups);
  }
};

template <>
struct Declared<op::filter> : Takes<Tensor, MaskList> {
  static constexpr const char* name = "filter";
  using Gradient = op::filter_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const MaskList& mask, const To<E, T>& y) {
    check_mask(mask, x.size(), name);
    const MaskedIds kept(executor.workspace(), mask, true);
    rearrange_into(executor, name, x, kept.size(), [&](std::int64_t i) { return kept[i]; }, y, {{"x", x}});
  }
};

template <>
struct Declared<op::filter_grad> : Takes<Tensor, BatchLevels, MaskList> {
  static constexpr const char* name = "filter_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const BatchLevels& x_levels, const MaskList& mask,
                  const To<E, T>& dx) {
    const LoDView& levels = x_levels.view();
    check_mask(mask, levels.size(), name, x_levels.hint());
    const MaskedIds kept(executor.workspace(), mask, true);
    const bool has_elements = dy.row_size() > 0;  // otherwise there may be more rows than memory can list
    const Array<E, std::int64_t> rows(executor, has_elements ? levels.rows() : 0);  // of dy, for each of dx
    for (std::int64_t& row : rows.span()) row = -1;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < kept.size(); ++i) {
      const std::int64_t begin = rows_before(levels, kept[i]), end = rows_before(levels, kept[i] + 1);
      for (std::int64_t row = begin; has_elements && row < end; ++row) rows[row] = count + (row - begin);
      count += end - begin;
    }
    check_row_count(dy.rows(), count, {name, "dy"});
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{levels}, dy.row_shape(), {{"dy", dy}});
    if (!has_elements) return;
    launch(kernel::GatherRows(), executor, dy.data(), rows.on_device(), levels.rows(), dy.row_size(), std::int64_t{-1},
           out.data());
  }
};

template <>
struct Declared<op::remove_empty> : Takes<Tensor>, With<RemoveEmptyOptions> {
  static constexpr const char* name = "remove_empty";
  using Gradient = op::remove_empty_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const RemoveEmptyOptions& options, const To<E, T>& y) {
    check_has_level(x, name);
    const LoDView levels = x.lod_view();
    const int level = detail::resolve_level(options.level, levels.levels(), name);
    const auto offsets = levels.offsets(level);
    // For each sequence, and after the last one, how many are kept before it.
    const Workspace::Loan<std::int64_t> left(executor.workspace(), static_cast<std::int64_t>(offsets.size()));
    left[0] = 0;
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      left[at] = left[at - 1] + (offsets[i] > offsets[i - 1] ? 1 : 0);
    }
    const std::int64_t size = left[static_cast<std::int64_t>(offsets.size()) - 1];
    NewLevels result(executor.workspace(), levels.levels(),
                     NewLevels::sequences_above(levels, levels.levels()) - levels.size(level) + size);
    for (int other = 0; other < levels.levels(); ++other) {
      const auto from = levels.offsets(other);
      if (other == level) {
        const auto to = result.add(size);
        for (std::size_t i = 1; i < from.size(); ++i) {
          to[static_cast<std::size_t>(left[static_cast<std::int64_t>(i)])] = from[i] - from[0];
        }
      } else if (other + 1 == level) {
        const auto to = result.add(levels.size(other));
        for (std::size_t i = 1; i < from.size(); ++i) to[i] = left[from[i] - from[0]];
      } else {
        result.add(from);
      }
    }
    copy_into(executor, name, x, "x", result, y);
  }
};

template <>
struct Declared<op::remove_empty_grad> : RestoredLevels<op::remove_empty_grad> {
  static constexpr const char* name = "remove_empty_grad";
};

}  // namespace operation

/// Sequence ids[i] of the outermost level of x for each i, with everything below it; row ids[i] if x has no level. Ids
/// may repeat and come in any order. As many levels as x, row shape as x.
///
/// `ids` are int64: a range, a list in braces or a tensor. `y` must not overlap x. Throws OutOfRange for an id that is
/// not a sequence of x, with nothing changed.
template <Executor E, LoDTensorLike X>
[[nodiscard]] auto select(const E& executor, const X& x, const operation::IdList& ids) {
  return operation::Call<op::select>()(executor, x, ids);
}
template <LoDTensorLike X>
[[nodiscard]] auto select(const X& x, const operation::IdList& ids) {
  return operation::Call<op::select>()(x, ids);
}
inline constexpr operation::CallInto<op::select> select_into{};

/// The gradient of `select`: the rows of a sequence in dx are the sums of the rows of its copies in dy, in the order in
/// which they were selected; 0 if it was not selected. dx has `x_levels`, the levels of x. Sums as in `sequence_pool`.
///
/// The levels of dy are ignored. `dx` must not overlap dy. Throws OutOfRange for an id that is not a sequence of x,
/// ShapeMismatch unless dy has the rows of the selection.
inline constexpr operation::Call<op::select_grad> select_grad{};
inline constexpr operation::CallInto<op::select_grad> select_grad_into{};

/// The sequences of the outermost level of x, or its rows if it has no level, whose element of the mask is true, in
/// order. As many levels as x, row shape as x. The mask is a range, a list in braces or a tensor, of bool or of
/// numbers, which are true unless they are 0.
///
/// `y` must not overlap x. Throws ShapeMismatch unless the mask has one element for each sequence.
template <Executor E, LoDTensorLike X>
[[nodiscard]] auto filter(const E& executor, const X& x, const operation::MaskList& mask) {
  return operation::Call<op::filter>()(executor, x, mask);
}
template <LoDTensorLike X>
[[nodiscard]] auto filter(const X& x, const operation::MaskList& mask) {
  return operation::Call<op::filter>()(x, mask);
}
inline constexpr operation::CallInto<op::filter> filter_into{};

/// The gradient of `filter`: the rows of dy at the positions of the sequences that were kept, 0 at the others. dx has
/// `x_levels`, the levels of x. The levels of dy are ignored. `dx` must not overlap dy. Throws ShapeMismatch unless the
/// mask has one element for each sequence, and dy the rows of those that were kept.
inline constexpr operation::Call<op::filter_grad> filter_grad{};
inline constexpr operation::CallInto<op::filter_grad> filter_grad_into{};

/// x without the empty sequences of `level`: those that contain nothing of the next level. A sequence that holds only
/// empty ones is not empty. The levels above shrink accordingly; the levels below and the rows are those of x. (To drop
/// everything without rows, call this for each level from the last to the first.)
///
/// `y` may be x's own tensor, but must not overlap x otherwise. Throws InvalidLoD if x has no level, OutOfRange for the
/// level.
inline constexpr operation::Call<op::remove_empty> remove_empty{};
inline constexpr operation::CallInto<op::remove_empty> remove_empty_into{};

/// The gradient of `remove_empty`: the rows of dy, since empty sequences have none, under `x_levels`, the levels of x.
/// `dx` may be dy's own tensor, but must not overlap dy otherwise. Throws ShapeMismatch unless dy has the rows of x.
inline constexpr operation::Call<op::remove_empty_grad> remove_empty_grad{};
inline constexpr operation::CallInto<op::remove_empty_grad> remove_empty_grad_into{};

namespace operation {

/// The number of elements of a mask. Throws ShapeMismatch unless it may be that of the sequences.
inline void infer_mask(const infer::Batch& x, const LoDTensorDesc& mask, const char* what) {
  const infer::Batch list(mask, what);
  infer::check_elements<elements::Arithmetic>(list.type, what);
  const std::int64_t size = list.elements(what);
  if (!infer::agree(size, x.size())) {
    throw ShapeMismatch(detail::text({what, ": a mask of ", size, " elements, expected ", x.size(),
                                      ", one for each sequence (row, where there is no level)"}));
  }
}

}  // namespace operation

/// The results of `select`, `filter` and `remove_empty`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_select(const LoDTensorDesc& x, const LoDTensorDesc& ids) {
  infer::Batch y(x, "select");
  const std::int64_t count = infer::count_of_ids(ids, "select: ids");
  y.rows = y.levels == 0 || count == 0 ? count : infer::unknown;
  return y;
}
inline LoDTensorDesc infer_filter(const LoDTensorDesc& x, const LoDTensorDesc& mask) {
  infer::Batch y(x, "filter");
  operation::infer_mask(y, mask, "filter");
  y.rows = infer::unknown;
  return y;
}
inline LoDTensorDesc infer_remove_empty(const LoDTensorDesc& x, const RemoveEmptyOptions& options = {}) {
  const infer::Batch y(x, "remove_empty");
  y.level(options.level, "remove_empty");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

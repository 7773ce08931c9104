// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Selecting, keeping and dropping whole sequences, with the levels rebuilt around them.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/lod_index.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/output.hpp>
#include <lod/selected_rows.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct select : elements::Any {};
struct select_grad : elements::Arithmetic {};
struct filter : elements::Any {};
struct filter_grad : elements::Any {};
struct remove_empty : elements::Any {};
struct remove_empty_grad : elements::Any {};
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

}  // namespace operation

/// Sequence ids[i] of the outermost level of x for each i, with everything below it; row ids[i] if x has no level. Ids
/// may repeat and come in any order. As many levels as x, row shape as x.
///
/// `ids` are int64: a range, a list in braces or a tensor. `y` must not overlap x. Throws OutOfRange for an id that is
/// not a sequence of x, with nothing changed.
template <Executor E, LoDTensorLike X, operation::ArgumentList Ids = std::initializer_list<std::int64_t>, class Y>
void select_into(const E& executor, const X& x, const Ids& ids, Y&& y) {
  const auto view = x.view();
  const auto list = operation::ids_of(ids);
  detail::check_row_ids(list, view.size(), "select");
  operation::rearrange_into(executor, "select", view, static_cast<std::int64_t>(list.size()),
                            [&](std::int64_t i) { return list[static_cast<std::size_t>(i)]; }, y,
                            {{"x", view}, {"ids", list}});
}
template <Executor E, LoDTensorLike X, operation::ArgumentList Ids = std::initializer_list<std::int64_t>>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> select(const E& executor, const X& x, const Ids& ids) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  select_into(executor, x, ids, y);
  return y;
}
template <LoDTensorLike X, operation::ArgumentList Ids = std::initializer_list<std::int64_t>>
[[nodiscard]] auto select(const X& x, const Ids& ids) {
  return select(default_executor<device_t<X>>(), x, ids);
}

/// The gradient of `select`: in dx, the rows of a sequence are the sum of those of its copies in dy, in the order in
/// which they were selected; 0 if it was not selected. dx has `x_levels`, the levels of x. Sums as in `sequence_pool`.
///
/// The levels of dy are ignored. `dx` must not overlap dy. Throws OutOfRange for an id that is not a sequence of x,
/// ShapeMismatch unless dy has the rows of the selection.
template <Executor E, LoDTensorLike DY, operation::ArgumentList Ids = std::initializer_list<std::int64_t>, class DX>
void select_grad_into(const E& executor, const DY& dy, const BatchLevels& x_levels, const Ids& ids, DX&& dx) {
  detail::check_elements<op::select_grad, value_type_t<DY>>();
  using T = value_type_t<DY>;
  const auto view = dy.view();
  const LoDView& levels = x_levels.view();
  const auto list = operation::ids_of(ids);
  const auto count = static_cast<std::int64_t>(list.size());
  if (count > 0 && levels.size() == 0) {
    throw OutOfRange(detail::text({"select_grad: ", count, " ids, but x has no sequence to select", x_levels.hint()}));
  }
  detail::check_row_ids(list, levels.size(), "select_grad");
  const auto length = [&](std::int64_t sequence) {
    return operation::rows_before(levels, sequence + 1) - operation::rows_before(levels, sequence);
  };
  const Workspace::Loan<std::int64_t> starts(executor.workspace(), count);  // in dy
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    starts[i] = rows;
    if (__builtin_add_overflow(rows, length(list[static_cast<std::size_t>(i)]), &rows)) {
      throw ShapeMismatch("select_grad: the selection has more rows than 64 bits count");
    }
  }
  operation::check_row_count(view.rows(), rows, "select_grad: dy");
  if (view.row_size() == 0) {  // there may be more such rows than could be listed
    static_cast<void>(operation::prepare<T>(executor, {"select_grad", "dx"}, dx, operation::SameLevels{levels},
                                            view.row_shape(), {{"dy", view}}));
    return;
  }

  // The copies of each sequence: first where they begin; once all are in place, where they end.
  const Workspace::Loan<std::int64_t> order(executor.workspace(), count);
  const Workspace::Loan<std::int64_t> ends(executor.workspace(), levels.size() + 1);
  std::fill_n(ends.data(), levels.size() + 1, 0);
  for (const std::int64_t sequence : list) ++ends[sequence + 1];
  for (std::int64_t sequence = 0; sequence < levels.size(); ++sequence) ends[sequence + 1] += ends[sequence];
  for (std::int64_t i = 0; i < count; ++i) order[ends[list[static_cast<std::size_t>(i)]]++] = i;
  // Row by row, the copies of the row.
  const operation::Array<E, std::int64_t> copies(executor, rows), to(executor, rows), row_groups(executor, rows + 1);
  std::int64_t row_count = 0, longest = 0, begin = 0;
  row_groups[0] = 0;
  for (std::int64_t sequence = 0; sequence < levels.size(); begin = ends[sequence++]) {
    const std::int64_t copied = ends[sequence] - begin;
    if (copied == 0) continue;
    const std::int64_t first = operation::rows_before(levels, sequence);
    if (copied > longest) longest = copied;
    for (std::int64_t row = 0; row < length(sequence); ++row) {
      std::int64_t next = row_groups[row_count];
      for (std::int64_t copy = begin; copy < ends[sequence]; ++copy) copies[next++] = starts[order[copy]] + row;
      to[row_count] = first + row;
      row_groups[++row_count] = next;
    }
  }
  const auto out = operation::prepare<T>(executor, {"select_grad", "dx"}, dx, operation::SameLevels{levels},
                                         view.row_shape(), {{"dy", view}, {"ids", list}});
  const auto sum = [&](const kernel::Segments& groups) {
    kernel::SumGroups<E>::run(executor, PoolType::SUM, kernel::NumberedRows<T>{nullptr, view.data(), view.row_size()},
                              copies.on_device(), groups, view.row_size(), to.on_device(), out.data());
  };
  const kernel::Segments groups = operation::segments(row_groups, row_count, longest);
  if constexpr (std::same_as<E, CpuExecutor>) sum(groups.none());  // takes scratch memory before anything is written
  kernel::SetZero<E>::run(executor, out.data(), out.rows() * view.row_size());
  sum(groups);
}
template <Executor E, LoDTensorLike DY, operation::ArgumentList Ids = std::initializer_list<std::int64_t>>
[[nodiscard]] LoDTensor<value_type_t<DY>, device_t<DY>> select_grad(const E& executor, const DY& dy,
                                                                    const BatchLevels& x_levels, const Ids& ids) {
  LoDTensor<value_type_t<DY>, device_t<DY>> dx(executor.resource());
  select_grad_into(executor, dy, x_levels, ids, dx);
  return dx;
}
template <LoDTensorLike DY, operation::ArgumentList Ids = std::initializer_list<std::int64_t>>
[[nodiscard]] auto select_grad(const DY& dy, const BatchLevels& x_levels, const Ids& ids) {
  return select_grad(default_executor<device_t<DY>>(), dy, x_levels, ids);
}

/// The sequences of the outermost level of x, or its rows if it has no level, whose element of the mask is true, in
/// order. As many levels as x, row shape as x. The mask is a range, a list in braces or a tensor, of bool or of
/// numbers, which are true unless they are 0.
///
/// `y` must not overlap x. Throws ShapeMismatch unless the mask has one element for each sequence.
template <Executor E, LoDTensorLike X, operation::ArgumentList Mask = std::initializer_list<bool>, class Y>
void filter_into(const E& executor, const X& x, const Mask& mask, Y&& y) {
  const auto view = x.view();
  operation::check_mask(mask, view.size(), "filter");
  const operation::MaskedIds kept(executor.workspace(), mask, true);
  operation::rearrange_into(executor, "filter", view, kept.size(), [&](std::int64_t i) { return kept[i]; }, y,
                            {{"x", view}});
}
template <Executor E, LoDTensorLike X, operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> filter(const E& executor, const X& x, const Mask& mask) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  filter_into(executor, x, mask, y);
  return y;
}
template <LoDTensorLike X, operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] auto filter(const X& x, const Mask& mask) {
  return filter(default_executor<device_t<X>>(), x, mask);
}

/// The gradient of `filter`: the rows of dy at the positions of the sequences that were kept, 0 at the others. dx has
/// `x_levels`, the levels of x. The levels of dy are ignored. `dx` must not overlap dy. Throws ShapeMismatch unless the
/// mask has one element for each sequence, and dy the rows of those that were kept.
template <Executor E, LoDTensorLike DY, operation::ArgumentList Mask = std::initializer_list<bool>, class DX>
void filter_grad_into(const E& executor, const DY& dy, const BatchLevels& x_levels, const Mask& mask, DX&& dx) {
  const auto view = dy.view();
  const LoDView& levels = x_levels.view();
  operation::check_mask(mask, levels.size(), "filter_grad", x_levels.hint());
  const operation::MaskedIds kept(executor.workspace(), mask, true);
  const bool has_elements = view.row_size() > 0;  // otherwise there may be more rows than could be listed
  const operation::Array<E, std::int64_t> rows(executor, has_elements ? levels.rows() : 0);  // of dy, for each of dx
  for (std::int64_t& row : rows.span()) row = -1;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < kept.size(); ++i) {
    const std::int64_t begin = operation::rows_before(levels, kept[i]),
                       end = operation::rows_before(levels, kept[i] + 1);
    for (std::int64_t row = begin; has_elements && row < end; ++row) rows[row] = count + (row - begin);
    count += end - begin;
  }
  operation::check_row_count(view.rows(), count, "filter_grad: dy");
  const auto out = operation::prepare<value_type_t<DY>>(
      executor, {"filter_grad", "dx"}, dx, operation::SameLevels{levels}, view.row_shape(), {{"dy", view}});
  if (!has_elements) return;
  kernel::GatherRows<E>::run(executor, view.data(), rows.on_device(), levels.rows(), view.row_size(), std::int64_t{-1},
                             out.data());
}
template <Executor E, LoDTensorLike DY, operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] LoDTensor<value_type_t<DY>, device_t<DY>> filter_grad(const E& executor, const DY& dy,
                                                                    const BatchLevels& x_levels, const Mask& mask) {
  LoDTensor<value_type_t<DY>, device_t<DY>> dx(executor.resource());
  filter_grad_into(executor, dy, x_levels, mask, dx);
  return dx;
}
template <LoDTensorLike DY, operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] auto filter_grad(const DY& dy, const BatchLevels& x_levels, const Mask& mask) {
  return filter_grad(default_executor<device_t<DY>>(), dy, x_levels, mask);
}

/// x without the empty sequences of `level`, those that hold nothing of the next level. A sequence that holds only
/// empty ones is not empty. The levels above shrink accordingly; the levels below and the rows are those of x. (To drop
/// everything without rows, go through the levels from the last to the first.)
///
/// `y` may be x's own tensor, but must not overlap x otherwise. Throws InvalidLoD if x has no level, OutOfRange for the
/// level.
template <Executor E, LoDTensorLike X, class Y>
void remove_empty_into(const E& executor, const X& x, const RemoveEmptyOptions& options, Y&& y) {
  const auto view = x.view();
  operation::check_has_level(view, "remove_empty");
  const LoDView levels = view.lod_view();
  const int level = detail::resolve_level(options.level, levels.levels(), "remove_empty");
  const auto offsets = levels.offsets(level);
  // For each sequence, and after the last one, how many are kept before it.
  const Workspace::Loan<std::int64_t> left(executor.workspace(), static_cast<std::int64_t>(offsets.size()));
  left[0] = 0;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    left[at] = left[at - 1] + (offsets[i] > offsets[i - 1] ? 1 : 0);
  }
  const std::int64_t size = left[static_cast<std::int64_t>(offsets.size()) - 1];
  std::int64_t sequences = size;
  for (int other = 0; other < levels.levels(); ++other) sequences += other == level ? 0 : levels.size(other);
  operation::NewLevels result(executor.workspace(), levels.levels(), sequences);
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
      operation::add_level(result, from);
    }
  }
  operation::copy_into(executor, "remove_empty", view, "x", result, y);
}
template <Executor E, LoDTensorLike X, class Y>
void remove_empty_into(const E& executor, const X& x, Y&& y) {
  remove_empty_into(executor, x, RemoveEmptyOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> remove_empty(const E& executor, const X& x,
                                                                   const RemoveEmptyOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  remove_empty_into(executor, x, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto remove_empty(const X& x, const RemoveEmptyOptions& options = {}) {
  return remove_empty(default_executor<device_t<X>>(), x, options);
}

/// The gradient of `remove_empty`: the rows of dy, since empty sequences have none, under `x_levels`, the levels of x.
/// `dx` may be dy's own tensor, but must not overlap dy otherwise. Throws ShapeMismatch unless dy has the rows of x.
template <Executor E, LoDTensorLike DY, class DX>
void remove_empty_grad_into(const E& executor, const DY& dy, const BatchLevels& x_levels, DX&& dx) {
  operation::restore_levels_into(executor, dy, x_levels, "remove_empty_grad", dx);
}
template <Executor E, LoDTensorLike DY>
[[nodiscard]] LoDTensor<value_type_t<DY>, device_t<DY>> remove_empty_grad(const E& executor, const DY& dy,
                                                                          const BatchLevels& x_levels) {
  LoDTensor<value_type_t<DY>, device_t<DY>> dx(executor.resource());
  remove_empty_grad_into(executor, dy, x_levels, dx);
  return dx;
}
template <LoDTensorLike DY>
[[nodiscard]] auto remove_empty_grad(const DY& dy, const BatchLevels& x_levels) {
  return remove_empty_grad(default_executor<device_t<DY>>(), dy, x_levels);
}

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

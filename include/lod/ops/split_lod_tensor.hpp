// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Two branches: each sequence goes into one of them, and afterwards all are merged in their original order.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/lod_index.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/select.hpp>
#include <lod/ops/time_major.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct split_lod_tensor : elements::Any {};
struct split_lod_tensor_grad : elements::Any {};
struct merge_lod_tensor : elements::Any {};
struct merge_lod_tensor_grad : elements::Any {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `split_lod_tensor`.
struct SplitBranchOptions {
  int level = 0;  ///< the level whose sequences are parted; by default the first
};

/// The options of `merge_lod_tensor`.
struct MergeBranchOptions {
  int level = 0;  ///< the level that the sequences had, by default the first; -1: the last of `lod`
  LoD lod = {};   ///< its levels above `level` come above the sequences; does not count for level 0
};

/// The result of `split_lod_tensor`.
template <class T, class Device = Cpu>
struct Branches {
  LoDTensor<T, Device> in_true;
  LoDTensor<T, Device> in_false;
};

/// The result of `split_lod_tensor`, described.
struct BranchesDesc {
  LoDTensorDesc in_true;
  LoDTensorDesc in_false;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// The sequences of `level` of x, or its rows if it has no level, in two batches: those whose element of the mask is
/// true, and the others, each in order. Both have `level` as their outermost level, with everything below it; the
/// levels above are dropped. The mask is a range, a list in braces or a tensor, of bool or of numbers, which are true
/// unless they are 0. Semantics: PaddlePaddle's split_lod_tensor.
///
/// The outputs must not overlap x. Throws OutOfRange for the level, ShapeMismatch unless the mask has one element for
/// each sequence.
template <Executor E, LoDTensorLike X, operation::ArgumentList Mask = std::initializer_list<bool>, class True,
          class False>
void split_lod_tensor_into(const E& executor, const X& x, const Mask& mask, const SplitBranchOptions& options,
                           True&& in_true, False&& in_false) {
  using View = LoDTensorView<const value_type_t<X>, device_t<X>>;
  const View view = x.view();
  // Without levels the rows count as the only level.
  const int level = detail::resolve_level(options.level, view.levels() > 0 ? view.levels() : 1, "split_lod_tensor");
  const LoDView levels = operation::levels_below(view.lod_view(), level - 1);
  const View sequences(view.data(), levels, &view.row_shape(), view.row_size());
  operation::check_mask(mask, sequences.size(), "split_lod_tensor");
  const operation::MaskedIds chosen(executor.workspace(), mask, true), others(executor.workspace(), mask, false);
  constexpr const char* what = "split_lod_tensor";
  const operation::Rearrangement first(executor, what, sequences, chosen.size(),
                                       [&](std::int64_t i) { return chosen[i]; });
  const operation::Rearrangement second(executor, what, sequences, others.size(),
                                        [&](std::int64_t i) { return others[i]; });
  const auto first_rows = first.rows(), second_rows = second.rows();
  const auto out_true = operation::prepare<value_type_t<X>>(executor, {what, "in_true"}, in_true, first.levels(),
                                                            view.row_shape(), {{"x", view}});
  const auto out_false = operation::prepare<value_type_t<X>>(executor, {what, "in_false"}, in_false, second.levels(),
                                                             view.row_shape(), {{"x", view}, {"in_true", in_true}});
  first_rows.copy(out_true.data());
  second_rows.copy(out_false.data());
}
template <Executor E, LoDTensorLike X, operation::ArgumentList Mask = std::initializer_list<bool>, class True,
          class False>
void split_lod_tensor_into(const E& executor, const X& x, const Mask& mask, True&& in_true, False&& in_false) {
  split_lod_tensor_into(executor, x, mask, SplitBranchOptions{}, in_true, in_false);
}
template <Executor E, LoDTensorLike X, operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] Branches<value_type_t<X>, device_t<X>> split_lod_tensor(const E& executor, const X& x, const Mask& mask,
                                                                      const SplitBranchOptions& options = {}) {
  using Tensor = LoDTensor<value_type_t<X>, device_t<X>>;
  Branches<value_type_t<X>, device_t<X>> y{Tensor(executor.resource()), Tensor(executor.resource())};
  split_lod_tensor_into(executor, x, mask, options, y.in_true, y.in_false);
  return y;
}
template <LoDTensorLike X, operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] auto split_lod_tensor(const X& x, const Mask& mask, const SplitBranchOptions& options = {}) {
  return split_lod_tensor(default_executor<device_t<X>>(), x, mask, options);
}

namespace operation {

/// The level of the merged sequences, counted from the outermost, for branches of so many levels. Throws OutOfRange for
/// one that `options.lod` does not have.
inline int merged_level(const MergeBranchOptions& options, int branch_levels) {
  const int levels = options.lod.levels();
  // Without levels the rows count as the only level.
  const int counted = levels > 0 || branch_levels > 0 ? levels : 1;
  const int level = options.level < 0 ? options.level + counted : options.level;
  if (level < 0 || level > levels) {
    throw OutOfRange(
        detail::text({"merge_lod_tensor: level ", options.level, ", but options.lod has ", levels, " levels above"}));
  }
  return level;
}

}  // namespace operation

/// The inverse: for each element of the mask the next sequence of `in_true` if it is true, of `in_false` otherwise;
/// rows if the branches have no level. The contents of the sequences may have changed in between; both branches must
/// have the same number of levels and the same row shape. At a level below the outermost, the levels above come from
/// `options.lod`. Semantics: PaddlePaddle's merge_lod_tensor; empty sequences are sequences like others, and the levels
/// above keep their order.
///
/// `y` must not overlap the branches. Throws InvalidLoD for branches with different numbers of levels; ShapeMismatch
/// for different row shapes, unless each branch has as many sequences as the mask says, and unless `options.lod` has as
/// many at `level`; OutOfRange for a level that `options.lod` does not have.
template <Executor E, LoDTensorLike InTrue, LoDTensorLike InFalse,
          operation::ArgumentList Mask = std::initializer_list<bool>, class Y>
void merge_lod_tensor_into(const E& executor, const InTrue& in_true, const InFalse& in_false, const Mask& mask,
                           const MergeBranchOptions& options, Y&& y) {
  using View = LoDTensorView<const value_type_t<InTrue>, device_t<InTrue>>;
  static_assert(std::same_as<value_type_t<InTrue>, value_type_t<InFalse>>,
                "merge_lod_tensor: both branches must have one element type");
  const View branches[] = {in_true.view(), in_false.view()};
  if (branches[0].levels() != branches[1].levels()) {
    throw InvalidLoD(detail::text({"merge_lod_tensor: in_false has ", branches[1].levels(), " levels, expected ",
                                   branches[0].levels(), " as in_true has"}));
  }
  operation::check_row_shape(branches[1].row_shape(), branches[0].row_shape(), "merge_lod_tensor: in_false");
  const auto& elements = operation::elements_of(mask);
  const auto first = elements.begin();
  const auto size = static_cast<std::int64_t>(elements.size());
  const int level = operation::merged_level(options, branches[0].levels());
  if (level > 0) {
    const auto above = options.lod.offsets(level - 1);
    operation::check_mask(mask, above.back(), "merge_lod_tensor");
  }
  operation::Runs runs(executor.workspace(), std::span<const View>(branches), 0, size);
  std::int64_t next[] = {0, 0};
  for (std::int64_t i = 0; i < size; ++i) {
    const std::size_t branch = static_cast<bool>(first[static_cast<std::ptrdiff_t>(i)]) ? 0 : 1;
    if (next[branch] < branches[branch].size())
      runs.add(static_cast<std::int64_t>(branch), next[branch], next[branch] + 1);
    ++next[branch];
  }
  for (std::size_t branch = 0; branch < 2; ++branch) {
    if (next[branch] != branches[branch].size()) {
      throw ShapeMismatch(
          detail::text({"merge_lod_tensor: ", branch == 0 ? "in_true" : "in_false", " has ", branches[branch].size(),
                        " sequences (rows, where it has no level), expected ", next[branch], " by the mask"}));
    }
  }
  std::int64_t sequences = runs.sequences("merge_lod_tensor");
  for (int above = 0; above < level; ++above) sequences += options.lod.size(above);
  operation::NewLevels levels(executor.workspace(), level + branches[0].levels(), sequences, size);
  for (int above = 0; above < level; ++above) operation::add_level(levels, options.lod.offsets(above));
  runs.descend(levels);
  const auto out =
      operation::prepare<value_type_t<InTrue>>(executor, "merge_lod_tensor", y, levels, branches[0].row_shape(),
                                               {{"in_true", branches[0]}, {"in_false", branches[1]}});
  runs.copy(executor, std::span<const View>(branches), branches[0].row_size(), out.data());
}
template <Executor E, LoDTensorLike InTrue, LoDTensorLike InFalse,
          operation::ArgumentList Mask = std::initializer_list<bool>, class Y>
void merge_lod_tensor_into(const E& executor, const InTrue& in_true, const InFalse& in_false, const Mask& mask, Y&& y) {
  merge_lod_tensor_into(executor, in_true, in_false, mask, MergeBranchOptions{}, y);
}
template <Executor E, LoDTensorLike InTrue, LoDTensorLike InFalse,
          operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] LoDTensor<value_type_t<InTrue>, device_t<InTrue>> merge_lod_tensor(
    const E& executor, const InTrue& in_true, const InFalse& in_false, const Mask& mask,
    const MergeBranchOptions& options = {}) {
  LoDTensor<value_type_t<InTrue>, device_t<InTrue>> y(executor.resource());
  merge_lod_tensor_into(executor, in_true, in_false, mask, options, y);
  return y;
}
template <LoDTensorLike InTrue, LoDTensorLike InFalse, operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] auto merge_lod_tensor(const InTrue& in_true, const InFalse& in_false, const Mask& mask,
                                    const MergeBranchOptions& options = {}) {
  return merge_lod_tensor(default_executor<device_t<InTrue>>(), in_true, in_false, mask, options);
}

/// The gradients: each is that of the other. That of `split_lod_tensor` takes the LoD of its x in the options, if
/// `level` is not the outermost.
template <Executor E, LoDTensorLike DTrue, LoDTensorLike DFalse,
          operation::ArgumentList Mask = std::initializer_list<bool>, class DX>
void split_lod_tensor_grad_into(const E& executor, const DTrue& dtrue, const DFalse& dfalse, const Mask& mask,
                                const MergeBranchOptions& options, DX&& dx) {
  detail::with_name("split_lod_tensor_grad",
                    [&] { merge_lod_tensor_into(executor, dtrue, dfalse, mask, options, dx); });
}
template <Executor E, LoDTensorLike DTrue, LoDTensorLike DFalse,
          operation::ArgumentList Mask = std::initializer_list<bool>, class DX>
void split_lod_tensor_grad_into(const E& executor, const DTrue& dtrue, const DFalse& dfalse, const Mask& mask,
                                DX&& dx) {
  split_lod_tensor_grad_into(executor, dtrue, dfalse, mask, {}, dx);
}
template <Executor E, LoDTensorLike DTrue, LoDTensorLike DFalse,
          operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] auto split_lod_tensor_grad(const E& executor, const DTrue& dtrue, const DFalse& dfalse, const Mask& mask,
                                         const MergeBranchOptions& options = {}) {
  return detail::with_name("split_lod_tensor_grad",
                           [&] { return merge_lod_tensor(executor, dtrue, dfalse, mask, options); });
}
template <LoDTensorLike DTrue, LoDTensorLike DFalse, operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] auto split_lod_tensor_grad(const DTrue& dtrue, const DFalse& dfalse, const Mask& mask,
                                         const MergeBranchOptions& options = {}) {
  return split_lod_tensor_grad(default_executor<device_t<DTrue>>(), dtrue, dfalse, mask, options);
}
/// The gradients of `merge_lod_tensor`: dy, split as by `split_lod_tensor`.
template <Executor E, LoDTensorLike DY, operation::ArgumentList Mask = std::initializer_list<bool>, class DTrue,
          class DFalse>
void merge_lod_tensor_grad_into(const E& executor, const DY& dy, const Mask& mask, const SplitBranchOptions& options,
                                DTrue&& dtrue, DFalse&& dfalse) {
  detail::with_name("merge_lod_tensor_grad",
                    [&] { split_lod_tensor_into(executor, dy, mask, options, dtrue, dfalse); });
}
template <Executor E, LoDTensorLike DY, operation::ArgumentList Mask = std::initializer_list<bool>, class DTrue,
          class DFalse>
void merge_lod_tensor_grad_into(const E& executor, const DY& dy, const Mask& mask, DTrue&& dtrue, DFalse&& dfalse) {
  merge_lod_tensor_grad_into(executor, dy, mask, {}, dtrue, dfalse);
}
template <Executor E, LoDTensorLike DY, operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] auto merge_lod_tensor_grad(const E& executor, const DY& dy, const Mask& mask,
                                         const SplitBranchOptions& options = {}) {
  return detail::with_name("merge_lod_tensor_grad", [&] { return split_lod_tensor(executor, dy, mask, options); });
}
template <LoDTensorLike DY, operation::ArgumentList Mask = std::initializer_list<bool>>
[[nodiscard]] auto merge_lod_tensor_grad(const DY& dy, const Mask& mask, const SplitBranchOptions& options = {}) {
  return merge_lod_tensor_grad(default_executor<device_t<DY>>(), dy, mask, options);
}

/// The results of `split_lod_tensor` and `merge_lod_tensor`, described: see <lod/infer.hpp>.
inline BranchesDesc infer_split_lod_tensor(const LoDTensorDesc& x, const LoDTensorDesc& mask,
                                           const SplitBranchOptions& options = {}) {
  infer::Batch y(x, "split_lod_tensor");
  const int level = detail::resolve_level(options.level, y.levels > 0 ? y.levels : 1, "split_lod_tensor");
  operation::infer_mask(y, mask, "split_lod_tensor");
  y.levels = y.levels > 0 ? y.levels - level : 0;
  y.rows = infer::unknown;
  return {y, y};
}
inline LoDTensorDesc infer_merge_lod_tensor(const LoDTensorDesc& in_true, const LoDTensorDesc& in_false,
                                            const LoDTensorDesc& mask, const MergeBranchOptions& options = {}) {
  infer::Batch y(in_true, "merge_lod_tensor: in_true");
  const infer::Batch other(in_false, "merge_lod_tensor: in_false");
  infer::check_type(other.type, y.type, "merge_lod_tensor: in_false");
  if (other.levels != y.levels) {
    throw InvalidLoD(detail::text(
        {"merge_lod_tensor: in_false has ", other.levels, " levels, expected ", y.levels, " as in_true has"}));
  }
  y.row_shape = infer::common_row_shape(other.row_shape, y.row_shape, "merge_lod_tensor: in_false");
  const int level = operation::merged_level(options, y.levels);
  y.rows = infer::sum(y.rows, other.rows, "merge_lod_tensor");
  operation::infer_mask(y, mask, "merge_lod_tensor");
  y.levels += level;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

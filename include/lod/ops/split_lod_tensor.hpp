// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Two branches: each sequence goes into one of them, and afterwards both are merged in the original order.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/select.hpp>
#include <lod/ops/time_major.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct split_lod_tensor : elements::Any {
  static constexpr Text text{"x, mask", "The sequences of `level` whose element of the mask is true, and the others."};
};
struct split_lod_tensor_grad : elements::Any {
  static constexpr Text text{"dtrue, dfalse, mask"};
};
struct merge_lod_tensor : elements::Any {
  static constexpr Text text{"in_true, in_false, mask", "The inverse of `split_lod_tensor`: joins two branches."};
};
struct merge_lod_tensor_grad : elements::Any {
  static constexpr Text text{"dy, mask", "The gradients of `merge_lod_tensor` for both branches."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `split_lod_tensor`.
struct SplitBranchOptions {
  int level = 0;  ///< the level whose sequences are distributed; by default the first
};

/// The options of `merge_lod_tensor`.
struct MergeBranchOptions {
  int level = 0;  ///< the level that the sequences had, by default the first; -1: the last of `lod`
  LoD lod = {};   ///< provides the levels above `level`; unused for level 0
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

namespace operation {

template <class Op>
struct Split : Takes<Tensor, MaskList>, With<SplitBranchOptions>, GivesAll<Branches, Tensor, Tensor> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const MaskList& mask, const SplitBranchOptions& options,
                  const To<E, T>& in_true, const To<E, T>& in_false) {
    const char* const name = Declared<Op>::name;
    // Without levels, rows are treated as the only level.
    const int level = detail::resolve_level(options.level, x.levels() > 0 ? x.levels() : 1, name);
    const LoDView levels = levels_below(x.lod_view(), level - 1);
    const Input<E, T> sequences(x.data(), levels, &x.row_shape(), x.row_size());
    check_mask(mask, sequences.size(), name);
    const MaskedIds chosen(executor.workspace(), mask, true), others(executor.workspace(), mask, false);
    const Rearrangement first(executor, name, sequences, chosen.size(), [&](std::int64_t i) { return chosen[i]; });
    const Rearrangement second(executor, name, sequences, others.size(), [&](std::int64_t i) { return others[i]; });
    const auto first_rows = first.rows(), second_rows = second.rows();
    const auto out_true = prepare(executor, {name, "in_true"}, in_true, first.levels(), x.row_shape(), {{"x", x}});
    const auto out_false = prepare(executor, {name, "in_false"}, in_false, second.levels(), x.row_shape(),
                                   {{"x", x}, {"in_true", in_true}});
    first_rows.copy(out_true.data());
    second_rows.copy(out_false.data());
  }
};
template <>
struct Declared<op::split_lod_tensor> : Split<op::split_lod_tensor> {
  static constexpr const char* name = "split_lod_tensor";
  using Gradient = op::split_lod_tensor_grad;
};
template <>
struct Declared<op::merge_lod_tensor_grad> : Split<op::merge_lod_tensor_grad> {
  static constexpr const char* name = "merge_lod_tensor_grad";
};

/// The level of the merged sequences, counted from the outermost, for branches with `branch_levels` levels. Throws
/// OutOfRange for a level that `options.lod` does not have.
inline int merged_level(const MergeBranchOptions& options, int branch_levels, const char* what) {
  const int levels = options.lod.levels();
  // Without levels, rows are treated as the only level.
  const int counted = levels > 0 || branch_levels > 0 ? levels : 1;
  const int level = options.level < 0 ? options.level + counted : options.level;
  if (level < 0 || level > levels) {
    throw OutOfRange(
        detail::text({what, ": level ", options.level, ", but options.lod has ", levels, " levels above"}));
  }
  return level;
}

template <class Op>
struct Merge : Takes<Tensor, Tensor, MaskList>, With<MergeBranchOptions> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& in_true, const Input<E, T>& in_false, const MaskList& mask,
                  const MergeBranchOptions& options, const To<E, T>& y) {
    const char* const name = Declared<Op>::name;
    const Input<E, T> branches[] = {in_true, in_false};
    const std::span<const Input<E, T>> views(branches);
    if (branches[0].levels() != branches[1].levels()) {
      throw InvalidLoD(detail::text({name, ": in_false has ", branches[1].levels(), " levels, expected ",
                                     branches[0].levels(), " as in_true has"}));
    }
    check_row_shape(branches[1].row_shape(), branches[0].row_shape(), {name, "in_false"});
    const int level = merged_level(options, branches[0].levels(), name);
    if (level > 0) {
      const auto above = options.lod.offsets(level - 1);
      check_mask(mask, above.back(), name);
    }
    const MaskedIds chosen(executor.workspace(), mask, true);
    Runs runs(executor.workspace(), views, 0, mask.size());
    std::int64_t next[] = {0, 0};
    for (std::int64_t i = 0; i < mask.size(); ++i) {
      const std::size_t branch = next[0] < chosen.size() && chosen[next[0]] == i ? 0 : 1;
      if (next[branch] < branches[branch].size())
        runs.add(static_cast<std::int64_t>(branch), next[branch], next[branch] + 1);
      ++next[branch];
    }
    for (std::size_t branch = 0; branch < 2; ++branch) {
      if (next[branch] != branches[branch].size()) {
        throw ShapeMismatch(
            detail::text({name, ": ", branch == 0 ? "in_true" : "in_false", " has ", branches[branch].size(),
                          " sequences (rows, where it has no level), expected ", next[branch], " by the mask"}));
      }
    }
    NewLevels levels(executor.workspace(), options.lod.view(), level, branches[0].levels(), runs.sequences(name),
                     mask.size());
    runs.descend(levels);
    const auto out = prepare(executor, name, y, levels, branches[0].row_shape(),
                             {{"in_true", branches[0]}, {"in_false", branches[1]}});
    runs.copy(executor, views, branches[0].row_size(), out.data());
  }
};
template <>
struct Declared<op::merge_lod_tensor> : Merge<op::merge_lod_tensor> {
  static constexpr const char* name = "merge_lod_tensor";
  using Gradient = op::merge_lod_tensor_grad;
};
template <>
struct Declared<op::split_lod_tensor_grad> : Merge<op::split_lod_tensor_grad> {
  static constexpr const char* name = "split_lod_tensor_grad";
};

}  // namespace operation

/// The sequences of `level` of x, or its rows if it has no level, in two batches: those whose element of the mask is
/// true, and the others, each in order. Both have `level` as their outermost level, with everything below it; the
/// levels above are dropped. The mask is a range, a list in braces or a tensor, of bool or of numbers, which are true
/// unless they are 0. Semantics: PaddlePaddle's split_lod_tensor.
///
/// The outputs must not overlap x. Throws OutOfRange for the level, ShapeMismatch unless the mask has one element for
/// each sequence.
inline constexpr operation::Call<op::split_lod_tensor> split_lod_tensor{};
inline constexpr operation::CallInto<op::split_lod_tensor> split_lod_tensor_into{};

/// The inverse of `split_lod_tensor`: for each element of the mask the next sequence of `in_true` if it is true,
/// otherwise of `in_false`; rows if the branches have no level. The contents of the sequences may have changed in
/// between; both branches must have the same number of levels and the same row shape. At a level below the outermost,
/// the levels above come from `options.lod`. Semantics: PaddlePaddle's merge_lod_tensor; but empty sequences are
/// treated like others, and the levels above keep their order.
///
/// `y` must not overlap the branches. Throws InvalidLoD for branches with different numbers of levels; ShapeMismatch
/// for different row shapes, unless each branch has as many sequences as the mask assigns to it, and unless
/// `options.lod` has as many sequences at `level` as the mask has elements; OutOfRange for a level that `options.lod`
/// does not have.
inline constexpr operation::Call<op::merge_lod_tensor> merge_lod_tensor{};
inline constexpr operation::CallInto<op::merge_lod_tensor> merge_lod_tensor_into{};

/// The gradient of `split_lod_tensor`: the gradients of both branches, merged as by `merge_lod_tensor`. If `level` is
/// not the outermost, the options need the LoD of x.
inline constexpr operation::Call<op::split_lod_tensor_grad> split_lod_tensor_grad{};
inline constexpr operation::CallInto<op::split_lod_tensor_grad> split_lod_tensor_grad_into{};
/// The gradients of `merge_lod_tensor`: dy, split as by `split_lod_tensor`.
inline constexpr operation::Call<op::merge_lod_tensor_grad> merge_lod_tensor_grad{};
inline constexpr operation::CallInto<op::merge_lod_tensor_grad> merge_lod_tensor_grad_into{};

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
  const int level = operation::merged_level(options, y.levels, "merge_lod_tensor");
  y.rows = infer::sum(y.rows, other.rows, "merge_lod_tensor");
  operation::infer_mask(y, mask, "merge_lod_tensor");
  y.levels += level;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Alignment of connectionist temporal classification: the labels spelled by a path through the frames.
#pragma once

#include <lod/core/target.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/sequence_erase.hpp>
#include <lod/ops/supports.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct ctc_align : elements::Id, elements::OnCpu {
  static constexpr Text text{"x", "The labels of each sequence without blanks and, by default, without repetitions."};
};
struct ctc_align_and_wait : elements::Id {
  static constexpr Text text{"x", "The same as `ctc_align`; on a GPU it waits."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `ctc_align`.
struct CtcAlignOptions {
  std::int64_t blank = 0;      ///< the label that stands for no label
  bool merge_repeated = true;  ///< whether equal labels in a row count once
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// The first step of SequenceErase, with the options in place of the tokens.
struct CtcAlign {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <class Op>
struct CtcAlignment : Takes<Tensor>, With<CtcAlignOptions>, Launches<kernel::CtcAlign> {
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const CtcAlignOptions& options, const To<E, T>& y) {
    filter_rows_into<Op, kernel::CtcAlign>(executor, x, options, Declared<Op>::name, y, {{"x", x}});
  }
};
template <>
struct Declared<op::ctc_align> : CtcAlignment<op::ctc_align> {
  static constexpr const char* name = "ctc_align";
};
template <>
struct Declared<op::ctc_align_and_wait> : CtcAlignment<op::ctc_align_and_wait> {
  static constexpr const char* name = "ctc_align_and_wait";
};

}  // namespace operation

/// For each sequence of the last level, its labels without blanks and, with `merge_repeated`, without labels that equal
/// the row before them; a blank between two equal labels keeps both. Row shape as x; the lengths of the last level
/// shrink, perhaps to 0, and the levels above stay. Semantics: PaddlePaddle's ctc_align, except that an empty result is
/// empty.
///
/// Rows are integers of size 1. One pass to count and one to copy. `y` must not overlap x. Throws InvalidLoD if x has
/// no level, ShapeMismatch for any other row size.
inline constexpr operation::Call<op::ctc_align> ctc_align{};
inline constexpr operation::CallInto<op::ctc_align> ctc_align_into{};

/// `ctc_align` for any device: the same on the CPU; on a GPU it waits as `sequence_erase_and_wait` does.
inline constexpr operation::Call<op::ctc_align_and_wait> ctc_align_and_wait{};
inline constexpr operation::CallInto<op::ctc_align_and_wait> ctc_align_and_wait_into{};

/// The results of `ctc_align` and `ctc_align_and_wait`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_ctc_align(const LoDTensorDesc& x, const CtcAlignOptions& = {}) {
  return operation::infer_filtered<op::ctc_align>(x, "ctc_align");
}
inline LoDTensorDesc infer_ctc_align_and_wait(const LoDTensorDesc& x, const CtcAlignOptions& = {}) {
  return operation::infer_filtered<op::ctc_align_and_wait>(x, "ctc_align_and_wait");
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

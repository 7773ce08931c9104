// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Alignment of connectionist temporal classification: the labels spelled by a path through the frames.
#pragma once

#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/sequence_erase.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct ctc_align : elements::Id, elements::OnCpu {};
struct ctc_align_and_wait : elements::Id {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `ctc_align`.
struct CtcAlignOptions {
  std::int64_t blank = 0;      ///< the label that stands for no label
  bool merge_repeated = true;  ///< whether equal labels in a row count once
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
/// The two steps of SequenceErase, with the options in place of the tokens.
template <class Executor>
struct CtcAlign : Missing<Executor> {};
}  // namespace kernel

/// For each sequence of the last level, its labels without blanks and, with `merge_repeated`, without those equal to
/// the row before them: a blank between two equal labels keeps both. Row shape as x; the lengths of the last level
/// shrink, perhaps to 0, and the levels above stay. Semantics: PaddlePaddle's ctc_align, except that an empty result is
/// empty.
///
/// Rows are integers of size 1. One pass that counts and one that copies. `y` must not overlap x. Throws InvalidLoD if
/// x has no level, ShapeMismatch for another row size.
template <Executor E, LoDTensorLike X, class Y>
void ctc_align_into(const E& executor, const X& x, const CtcAlignOptions& options, Y&& y) {
  operation::filter_rows_into<op::ctc_align, kernel::CtcAlign<E>>(executor, x.view(), options, "ctc_align", y,
                                                                  {{"x", x.view()}});
}
template <Executor E, LoDTensorLike X, class Y>
void ctc_align_into(const E& executor, const X& x, Y&& y) {
  ctc_align_into(executor, x, CtcAlignOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> ctc_align(const E& executor, const X& x,
                                                                const CtcAlignOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  ctc_align_into(executor, x, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto ctc_align(const X& x, const CtcAlignOptions& options = {}) {
  return ctc_align(default_executor<device_t<X>>(), x, options);
}

/// `ctc_align` for any device, and the same on the CPU; on a GPU it waits as `sequence_erase_and_wait` does.
template <Executor E, LoDTensorLike X, class Y>
void ctc_align_and_wait_into(const E& executor, const X& x, const CtcAlignOptions& options, Y&& y) {
  operation::filter_rows_into<op::ctc_align_and_wait, kernel::CtcAlign<E>>(executor, x.view(), options,
                                                                           "ctc_align_and_wait", y, {{"x", x.view()}});
}
template <Executor E, LoDTensorLike X, class Y>
void ctc_align_and_wait_into(const E& executor, const X& x, Y&& y) {
  ctc_align_and_wait_into(executor, x, CtcAlignOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> ctc_align_and_wait(const E& executor, const X& x,
                                                                         const CtcAlignOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  ctc_align_and_wait_into(executor, x, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto ctc_align_and_wait(const X& x, const CtcAlignOptions& options = {}) {
  return ctc_align_and_wait(default_executor<device_t<X>>(), x, options);
}

/// The results of `ctc_align` and `ctc_align_and_wait`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_ctc_align(const LoDTensorDesc& x, const CtcAlignOptions& = {}) {
  return operation::infer_filtered<op::ctc_align>(x, "ctc_align");
}
inline LoDTensorDesc infer_ctc_align_and_wait(const LoDTensorDesc& x, const CtcAlignOptions& = {}) {
  return operation::infer_filtered<op::ctc_align_and_wait>(x, "ctc_align_and_wait");
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Reversal: the rows of each sequence, or its sub-sequences, from the last to the first.
#pragma once

#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <cstdint>
#include <span>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_reverse : elements::Any {};
struct sequence_reverse_grad : elements::Any {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_reverse`.
struct ReverseOptions {
  int level = -1;  ///< the level whose sequences are reversed; by default the last
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
template <class Executor>
struct SequenceReverse : Missing<Executor> {};
}  // namespace kernel

/// What each sequence of `level` holds, in reverse. For the last level that is rows, and the LoD is that of x. For a
/// level above it is sequences of the next level, each kept whole with its rows in order: the levels below `level` are
/// permuted, and so are the rows. Row shape as x. Empty sequences are sequences like others. Semantics: PaddlePaddle's
/// sequence_reverse, with any level.
///
/// `y` must not overlap x. Throws InvalidLoD where x has no level, OutOfRange for the level.
template <Executor E, LoDTensorLike X, class Y>
void sequence_reverse_into(const E& executor, const X& x, const ReverseOptions& options, Y&& y) {
  const auto view = x.view();
  operation::check_has_level(view, "sequence_reverse");
  const int level = detail::resolve_level(options.level, view.levels(), "sequence_reverse");
  const LoDView lod = view.lod_view();
  if (level + 1 == lod.levels()) {
    const auto out = operation::prepare<value_type_t<X>>(executor, "sequence_reverse", y, operation::SameLevels{lod},
                                                         view.row_shape(), {{"x", view}});
    kernel::SequenceReverse<E>::run(executor, view.data(), operation::segments(executor, view, level), view.row_size(),
                                    out.data());
    return;
  }
  const std::span views(&view, 1);
  operation::Runs runs(executor.workspace(), views, level + 1, lod.size(level + 1));
  const auto children = lod.offsets(level);
  for (std::size_t i = 0; i + 1 < children.size(); ++i) {
    for (std::int64_t child = children[i + 1]; child-- > children[i];) {
      runs.add(0, child - children[0], child - children[0] + 1);
    }
  }
  std::int64_t sequences = runs.sequences("sequence_reverse");
  for (int above = 0; above <= level; ++above) sequences += lod.size(above);
  operation::NewLevels levels(executor.workspace(), lod.levels(), sequences);
  for (int above = 0; above <= level; ++above) operation::add_level(levels, lod.offsets(above));
  runs.descend(levels);
  const auto out =
      operation::prepare<value_type_t<X>>(executor, "sequence_reverse", y, levels, view.row_shape(), {{"x", view}});
  runs.copy(executor, views, view.row_size(), out.data());
}
template <Executor E, LoDTensorLike X, class Y>
void sequence_reverse_into(const E& executor, const X& x, Y&& y) {
  sequence_reverse_into(executor, x, ReverseOptions{}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_reverse(const E& executor, const X& x,
                                                                       const ReverseOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_reverse_into(executor, x, options, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_reverse(const X& x, const ReverseOptions& options = {}) {
  return sequence_reverse(default_executor<device_t<X>>(), x, options);
}

/// The gradient of `sequence_reverse`: the reversal of dy, which has the levels of the result. Otherwise as
/// `sequence_reverse`.
template <Executor E, LoDTensorLike DY, class DX>
void sequence_reverse_grad_into(const E& executor, const DY& dy, const ReverseOptions& options, DX&& dx) {
  detail::with_name("sequence_reverse_grad", [&] { sequence_reverse_into(executor, dy, options, dx); });
}
template <Executor E, LoDTensorLike DY, class DX>
void sequence_reverse_grad_into(const E& executor, const DY& dy, DX&& dx) {
  sequence_reverse_grad_into(executor, dy, ReverseOptions{}, dx);
}
template <Executor E, LoDTensorLike DY>
[[nodiscard]] auto sequence_reverse_grad(const E& executor, const DY& dy, const ReverseOptions& options = {}) {
  return detail::with_name("sequence_reverse_grad", [&] { return sequence_reverse(executor, dy, options); });
}
template <LoDTensorLike DY>
[[nodiscard]] auto sequence_reverse_grad(const DY& dy, const ReverseOptions& options = {}) {
  return sequence_reverse_grad(default_executor<device_t<DY>>(), dy, options);
}

/// What `sequence_reverse` gives, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_reverse(const LoDTensorDesc& x, const ReverseOptions& options = {}) {
  const infer::Batch y(x, "sequence_reverse");
  y.level(options.level, "sequence_reverse");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

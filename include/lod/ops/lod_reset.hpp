// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// The same values under other levels.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/lod_index.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace lod::inline LOD_INTERFACE::op {
struct lod_reset : elements::Any {};
struct lod_reset_grad : elements::Any {};
struct lod_append : elements::Any {};
struct lod_append_grad : elements::Any {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws InvalidLoD if the new level of `lod_append`, below `level` others, is invalid, or does not fit the `rows`
/// rows.
inline void check_cuts(std::span<const std::int64_t> cuts, std::size_t level, std::int64_t rows) {
  try {
    detail::check_offsets(cuts, level);
    if (level > 0) detail::check_levels(level - 1, rows, static_cast<std::int64_t>(cuts.size()) - 1);
  } catch (const InvalidLoD& error) {
    throw InvalidLoD(detail::text({"lod_append: ", error.what()}));
  }
}

}  // namespace operation

/// A copy of x under another LoD; one without a level gives a plain tensor. (`x.with_lod(lod)` is the same without the
/// copy.) Semantics: PaddlePaddle's lod_reset.
///
/// `y` may be x's own tensor, but must not overlap x otherwise. Throws ShapeMismatch unless `lod` is for the rows of x.
template <Executor E, LoDTensorLike X, class Y>
void lod_reset_into(const E& executor, const X& x, const LoD& lod, Y&& y) {
  if (lod.levels() > 0 && lod.rows() != x.view().rows()) {
    throw ShapeMismatch(
        detail::text({"lod_reset: the LoD is for ", lod.rows(), " rows, but there are ", x.view().rows()}));
  }
  const auto view = x.view().with_lod(lod);
  operation::copy_into(executor, "lod_reset", view, "x", operation::SameLevels{view.lod_view()}, y);
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> lod_reset(const E& executor, const X& x, const LoD& lod) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  lod_reset_into(executor, x, lod, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto lod_reset(const X& x, const LoD& lod) {
  return lod_reset(default_executor<device_t<X>>(), x, lod);
}

/// A copy of x with one more level, below the existing ones: `offsets` cut the rows. They are offsets, not lengths: the
/// first is 0, the last the number of rows. The former rows, as counted by the last level of x, become the sequences of
/// the new level, so there is one for each row of x; a tensor without levels may be cut into any number. Semantics:
/// PaddlePaddle's lod_append.
///
/// `offsets` are int64: a range, a list in braces or a tensor. `y` may be x's own tensor, but must not overlap x
/// otherwise. Throws InvalidLoD for invalid offsets, or for another number of sequences than x has rows; ShapeMismatch
/// if they end at another number of rows.
template <Executor E, LoDTensorLike X, operation::ArgumentList Offsets = std::initializer_list<std::int64_t>, class Y>
void lod_append_into(const E& executor, const X& x, const Offsets& offsets, Y&& y) {
  const auto view = x.view();
  const auto cuts = operation::ids_of(offsets);
  const auto level = static_cast<std::size_t>(view.levels());
  operation::check_cuts(cuts, level, view.rows());
  const auto size = static_cast<std::int64_t>(cuts.size()) - 1;
  operation::check_row_count(view.rows(), cuts.back(), "lod_append: x");
  std::int64_t sequences = size;
  for (int above = 0; above < view.levels(); ++above) sequences += view.lod_view().size(above);
  operation::NewLevels levels(executor.workspace(), view.levels() + 1, sequences);
  for (int above = 0; above < view.levels(); ++above) operation::add_level(levels, view.lod_view().offsets(above));
  operation::add_level(levels, cuts);
  operation::copy_into(executor, "lod_append", view, "x", levels, y);
}
template <Executor E, LoDTensorLike X, operation::ArgumentList Offsets = std::initializer_list<std::int64_t>>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> lod_append(const E& executor, const X& x,
                                                                 const Offsets& offsets) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  lod_append_into(executor, x, offsets, y);
  return y;
}
template <LoDTensorLike X, operation::ArgumentList Offsets = std::initializer_list<std::int64_t>>
[[nodiscard]] auto lod_append(const X& x, const Offsets& offsets) {
  return lod_append(default_executor<device_t<X>>(), x, offsets);
}

/// The gradients of `lod_reset` and `lod_append`: dy under `x_levels`, the levels of x. `dx` may be dy's own tensor,
/// but must not overlap dy otherwise. Throws ShapeMismatch unless dy has the rows of x.
template <Executor E, LoDTensorLike DY, class DX>
void lod_reset_grad_into(const E& executor, const DY& dy, const BatchLevels& x_levels, DX&& dx) {
  operation::restore_levels_into(executor, dy, x_levels, "lod_reset_grad", dx);
}
template <Executor E, LoDTensorLike DY>
[[nodiscard]] LoDTensor<value_type_t<DY>, device_t<DY>> lod_reset_grad(const E& executor, const DY& dy,
                                                                       const BatchLevels& x_levels) {
  LoDTensor<value_type_t<DY>, device_t<DY>> dx(executor.resource());
  lod_reset_grad_into(executor, dy, x_levels, dx);
  return dx;
}
template <LoDTensorLike DY>
[[nodiscard]] auto lod_reset_grad(const DY& dy, const BatchLevels& x_levels) {
  return lod_reset_grad(default_executor<device_t<DY>>(), dy, x_levels);
}
/// The gradient of `lod_append`: the rows of dy under `x_levels`, the levels of x.
template <Executor E, LoDTensorLike DY, class DX>
void lod_append_grad_into(const E& executor, const DY& dy, const BatchLevels& x_levels, DX&& dx) {
  operation::restore_levels_into(executor, dy, x_levels, "lod_append_grad", dx);
}
template <Executor E, LoDTensorLike DY>
[[nodiscard]] auto lod_append_grad(const E& executor, const DY& dy, const BatchLevels& x_levels) {
  return detail::with_name("lod_append_grad", [&] { return lod_reset_grad(executor, dy, x_levels); });
}
template <LoDTensorLike DY>
[[nodiscard]] auto lod_append_grad(const DY& dy, const BatchLevels& x_levels) {
  return detail::with_name("lod_append_grad", [&] { return lod_reset_grad(dy, x_levels); });
}

/// The results of `lod_reset` and `lod_append`, described: see <lod/infer.hpp>. `lod` describes a tensor with the LoD.
inline LoDTensorDesc infer_lod_reset(const LoDTensorDesc& x, const LoDTensorDesc& lod) {
  infer::Batch y(x, "lod_reset");
  const infer::Batch given(lod, "lod_reset: lod");
  if (given.levels > 0) {
    infer::check_row_count(y.rows, given.rows, "lod_reset: x");
    y.rows = infer::known(y.rows, given.rows);
  }
  y.levels = given.levels;
  return y;
}
inline LoDTensorDesc infer_lod_append(const LoDTensorDesc& x, const LoDTensorDesc& offsets) {
  infer::Batch y(x, "lod_append");
  const std::int64_t count = infer::count_of_ids(offsets, "lod_append: offsets");
  if (count == 0) throw InvalidLoD("lod_append: no offset, expected at least the {0} of no sequences");
  if (y.levels > 0 && count != infer::unknown) {
    if (!infer::agree(y.rows, count - 1)) {
      throw InvalidLoD(detail::text({"lod_append: offsets of ", count - 1, " sequences, expected ", y.rows}));
    }
    y.rows = count - 1;
  }
  ++y.levels;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

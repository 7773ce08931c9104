// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// The same values under other levels.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct lod_reset : elements::Any {
  static constexpr Text text{"x, lod", "A copy of x under other levels."};
};
struct lod_reset_grad : elements::Any {
  static constexpr Text text{"dy, x_levels", "The gradient of `lod_reset`: dy under the levels of x."};
};
struct lod_append : elements::Any {
  static constexpr Text text{"x, offsets", "A copy of x with one more level below the others, of these offsets."};
};
struct lod_append_grad : elements::Any {
  static constexpr Text text{"dy, x_levels", "The gradient of `lod_append`: dy under the levels of x."};
};
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

template <>
struct Declared<op::lod_reset> : Takes<Tensor, LoD> {
  static constexpr const char* name = "lod_reset";
  using Gradient = op::lod_reset_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const LoD& lod, const To<E, T>& y) {
    if (lod.levels() > 0 && lod.rows() != x.rows()) {
      throw ShapeMismatch(detail::text({name, ": the LoD is for ", lod.rows(), " rows, but there are ", x.rows()}));
    }
    const auto view = x.with_lod(lod);
    copy_into(executor, name, view, "x", SameLevels{view.lod_view()}, y);
  }
};

template <>
struct Declared<op::lod_append> : Takes<Tensor, IdList> {
  static constexpr const char* name = "lod_append";
  using Gradient = op::lod_append_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const IdList& offsets, const To<E, T>& y) {
    const auto level = static_cast<std::size_t>(x.levels());
    check_cuts(offsets, level, x.rows());
    const auto size = static_cast<std::int64_t>(offsets.size()) - 1;
    check_row_count(x.rows(), offsets.back(), {name, "x"});
    NewLevels levels(executor.workspace(), x.lod_view(), x.levels(), 1, size);
    levels.add(offsets);
    copy_into(executor, name, x, "x", levels, y);
  }
};

template <>
struct Declared<op::lod_reset_grad> : RestoredLevels<op::lod_reset_grad> {
  static constexpr const char* name = "lod_reset_grad";
};
template <>
struct Declared<op::lod_append_grad> : RestoredLevels<op::lod_append_grad> {
  static constexpr const char* name = "lod_append_grad";
};

}  // namespace operation

/// A copy of x under another LoD; a LoD without levels gives a plain tensor. (`x.with_lod(lod)` does the same without a
/// copy.) Semantics: PaddlePaddle's lod_reset.
///
/// `y` may be x's own tensor, but must not overlap x otherwise. Throws ShapeMismatch unless `lod` is for the rows of x.
inline constexpr operation::Call<op::lod_reset> lod_reset{};
inline constexpr operation::CallInto<op::lod_reset> lod_reset_into{};

/// A copy of x with one more level, below the existing ones: `offsets` cut the rows. They are offsets, not lengths: the
/// first is 0, the last the number of rows. The former rows, as counted by the last level of x, become the sequences of
/// the new level, so there is one for each row of x; a tensor without levels may be cut into any number. Semantics:
/// PaddlePaddle's lod_append.
///
/// `offsets` are int64: a range, a list in braces or a tensor. `y` may be x's own tensor, but must not overlap x
/// otherwise. Throws InvalidLoD for invalid offsets, and unless they describe as many sequences as the last level of x
/// counts rows; ShapeMismatch unless they end at the number of rows.
inline constexpr operation::Call<op::lod_append> lod_append{};
inline constexpr operation::CallInto<op::lod_append> lod_append_into{};

/// The gradients of `lod_reset` and `lod_append`: dy under `x_levels`, the levels of x. `dx` may be dy's own tensor,
/// but must not overlap dy otherwise. Throws ShapeMismatch unless dy has the rows of x.
inline constexpr operation::Call<op::lod_reset_grad> lod_reset_grad{};
inline constexpr operation::CallInto<op::lod_reset_grad> lod_reset_grad_into{};
/// The gradient of `lod_append`: the rows of dy under `x_levels`, the levels of x.
inline constexpr operation::Call<op::lod_append_grad> lod_append_grad{};
inline constexpr operation::CallInto<op::lod_append_grad> lod_append_grad_into{};

/// The results of `lod_reset` and `lod_append`, described: see <lod/infer.hpp>. `lod` describes a tensor that has the
/// LoD.
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

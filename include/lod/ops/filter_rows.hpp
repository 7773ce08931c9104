// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Keeping some of the rows of a batch, within their sequences.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/lod_index.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/levels.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/staging.hpp>
#include <lod/ops/supports.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct filter_rows : elements::Any {
  static constexpr Text text{"x, mask", "The rows whose element of the mask is true; sequences become shorter."};
};
struct filter_rows_grad : elements::Any {
  static constexpr Text text{"dy, x_levels, mask", "The gradient of `filter_rows`: 0 in rows that were left out."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws ShapeMismatch unless a mask has one element for each row; `hint` ends the text.
inline void check_row_mask(const MaskList& mask, std::int64_t rows, const char* what, const char* hint = "") {
  if (mask.size() != rows) {
    throw ShapeMismatch(
        detail::text({what, ": a mask of ", mask.size(), " elements, expected ", rows, ", one for each row", hint}));
  }
}

template <>
struct Declared<op::filter_rows> : Takes<Tensor, MaskList> {
  static constexpr const char* name = "filter_rows";
  using Gradient = op::filter_rows_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const MaskList& mask, const To<E, T>& y) {
    check_row_mask(mask, x.rows(), name);
    const Array<E, std::int64_t> kept(executor, x.rows());
    const std::int64_t count = mask.find(true, kept.data());
    const LoDView lod = x.lod_view();
    const int last = lod.levels() - 1;
    NewLevels levels(executor.workspace(), lod, std::max(last, 0), last >= 0, last >= 0 ? lod.size(last) : 0, count);
    if (last >= 0) {
      const auto from = lod.offsets(last);
      const auto to = levels.add(lod.size(last));
      std::int64_t left = 0;
      for (std::size_t i = 1; i < from.size(); ++i) {
        while (left < count && kept[left] < from[i] - from[0]) ++left;
        to[i] = left;
      }
    }
    const auto out = prepare(executor, name, y, levels, x.row_shape(), {{"x", x}});
    launch(kernel::GatherRows(), executor, x.data(), kept.on_device(count), count, x.row_size(), std::int64_t{-1},
           out.data());
  }
};

template <>
struct Declared<op::filter_rows_grad> : Takes<Tensor, BatchLevels, MaskList> {
  static constexpr const char* name = "filter_rows_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const BatchLevels& x_levels, const MaskList& mask,
                  const To<E, T>& dx) {
    const LoDView& levels = x_levels.view();
    check_row_mask(mask, levels.rows(), name, x_levels.hint());
    const Array<E, std::int64_t> kept(executor, levels.rows()), rows(executor, levels.rows());
    const std::int64_t count = mask.find(true, kept.data());
    check_row_count(dy.rows(), count, {name, "dy"});
    for (std::int64_t& row : rows.span()) row = -1;
    for (std::int64_t i = 0; i < count; ++i) rows[kept[i]] = i;
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{levels}, dy.row_shape(), {{"dy", dy}});
    launch(kernel::GatherRows(), executor, dy.data(), rows.on_device(), levels.rows(), dy.row_size(), std::int64_t{-1},
           out.data());
  }
};

}  // namespace operation

/// The rows of x whose element of the mask is true, in order: the lengths of the last level shrink, perhaps to 0, and
/// the levels above stay. Row shape as x. The mask is on the CPU: a range, a list in braces or a tensor, of bool or of
/// numbers, which are true unless they are 0. (`filter` keeps whole sequences.)
///
/// `y` must not overlap x. Throws ShapeMismatch unless the mask has one element for each row.
inline constexpr operation::Call<op::filter_rows> filter_rows{};
inline constexpr operation::CallInto<op::filter_rows> filter_rows_into{};

/// The gradient of `filter_rows`: the rows of dy at the positions of those that were kept, 0 at the others. dx has
/// `x_levels`, the levels of x. The levels of dy are ignored. `dx` must not overlap dy. Throws ShapeMismatch unless the
/// mask has one element for each row, and dy as many rows as were kept.
inline constexpr operation::Call<op::filter_rows_grad> filter_rows_grad{};
inline constexpr operation::CallInto<op::filter_rows_grad> filter_rows_grad_into{};

/// The result of `filter_rows`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_filter_rows(const LoDTensorDesc& x, const LoDTensorDesc& mask) {
  infer::Batch y(x, "filter_rows");
  const infer::Batch list(mask, "filter_rows: mask");
  infer::check_elements<elements::Arithmetic>(list.type, "filter_rows: mask");
  infer::check_row_count(list.elements("filter_rows: mask"), y.rows, "filter_rows: mask");
  y.rows = infer::unknown;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

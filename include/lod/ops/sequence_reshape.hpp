// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Reshaping: the values of each sequence cut into rows of another size.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/lod_index.hpp>
#include <lod/ops/rearrange.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/output.hpp>
#include <lod/shape.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_reshape : elements::Any {};
struct sequence_reshape_grad : elements::Any {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

/// The values of each sequence of the last level, in order, as rows of `new_row_size` elements: row shape
/// {new_row_size}, as many levels as x, those above the last unchanged. Semantics: PaddlePaddle's sequence_reshape,
/// with any number of levels.
///
/// `y` may be x's own tensor, but must not overlap x otherwise. Throws InvalidLoD if x has no level, OutOfRange for a
/// row size under 1, ShapeMismatch if the values of a sequence are not a whole number of rows.
template <Executor E, LoDTensorLike X, class Y>
void sequence_reshape_into(const E& executor, const X& x, std::int64_t new_row_size, Y&& y) {
  const auto view = x.view();
  operation::check_has_level(view, "sequence_reshape");
  if (new_row_size < 1) {
    throw OutOfRange(detail::text({"sequence_reshape: new_row_size ", new_row_size, ", expected 1 or more"}));
  }
  const LoDView lod = view.lod_view();
  const int last = lod.levels() - 1;
  std::int64_t sequences = 0;
  for (int level = 0; level <= last; ++level) sequences += lod.size(level);
  operation::NewLevels levels(executor.workspace(), lod.levels(), sequences);
  for (int level = 0; level < last; ++level) operation::add_level(levels, lod.offsets(level));
  const auto rows = lod.offsets(last);
  const auto new_rows = levels.add(lod.size(last));
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    const std::int64_t values = (rows[i + 1] - rows[i]) * view.row_size();
    if (values % new_row_size != 0) {
      throw ShapeMismatch(detail::text({"sequence_reshape: sequence ", i, " of level ", last, " has ", values,
                                        " values, expected a multiple of new_row_size, ", new_row_size}));
    }
    new_rows[i + 1] = new_rows[i] + values / new_row_size;
  }
  const auto out = operation::prepare<value_type_t<X>>(executor, "sequence_reshape", y, levels, Shape{new_row_size},
                                                       {operation::in_place("x", view)});
  operation::copy_rows(executor, view, out.data());
}
template <Executor E, LoDTensorLike X>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> sequence_reshape(const E& executor, const X& x,
                                                                       std::int64_t new_row_size) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  sequence_reshape_into(executor, x, new_row_size, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] auto sequence_reshape(const X& x, std::int64_t new_row_size) {
  return sequence_reshape(default_executor<device_t<X>>(), x, new_row_size);
}

/// The gradient of `sequence_reshape` for an x with the levels of `lod` and rows of `row_shape`: the values of dy, with
/// these levels and this shape. The levels of dy are ignored. `dx` may be dy's own tensor, but must not overlap dy
/// otherwise. Throws ShapeMismatch unless dy has as many values as x.
template <Executor E, LoDTensorLike DY, class DX>
void sequence_reshape_grad_into(const E& executor, const DY& dy, const LoD& lod, const Shape& row_shape, DX&& dx) {
  const auto view = dy.view();
  operation::check_has_level(lod, "sequence_reshape_grad: lod");
  std::int64_t values = 0;
  const bool beyond = __builtin_mul_overflow(lod.rows(), row_shape.elements(), &values);
  if (beyond || view.rows() * view.row_size() != values) {
    const std::string expected =
        beyond ? detail::text({lod.rows(), " * ", row_shape.elements()}) : std::to_string(values);
    throw ShapeMismatch(detail::text(
        {"sequence_reshape_grad: dy: ", view.rows() * view.row_size(), " values, expected ", expected, ", as x has"}));
  }
  const auto out = operation::prepare<value_type_t<DY>>(executor, {"sequence_reshape_grad", "dx"}, dx,
                                                        operation::SameLevels{lod.view()}, row_shape,
                                                        {operation::in_place("dy", view)});
  operation::copy_rows(executor, view, out.data());
}
template <Executor E, LoDTensorLike DY>
[[nodiscard]] LoDTensor<value_type_t<DY>, device_t<DY>> sequence_reshape_grad(const E& executor, const DY& dy,
                                                                              const LoD& lod, const Shape& row_shape) {
  LoDTensor<value_type_t<DY>, device_t<DY>> dx(executor.resource());
  sequence_reshape_grad_into(executor, dy, lod, row_shape, dx);
  return dx;
}
template <LoDTensorLike DY>
[[nodiscard]] auto sequence_reshape_grad(const DY& dy, const LoD& lod, const Shape& row_shape) {
  return sequence_reshape_grad(default_executor<device_t<DY>>(), dy, lod, row_shape);
}

/// The result of `sequence_reshape`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_reshape(const LoDTensorDesc& x, std::int64_t new_row_size) {
  infer::Batch y(x, "sequence_reshape");
  y.check_has_level("sequence_reshape");
  if (new_row_size < 1) {
    throw OutOfRange(detail::text({"sequence_reshape: new_row_size ", new_row_size, ", expected 1 or more"}));
  }
  const std::int64_t values = y.elements("sequence_reshape");
  if (values != infer::unknown && values % new_row_size != 0) {
    throw ShapeMismatch(detail::text({"sequence_reshape: all sequences together have ", values,
                                      " values, expected a multiple of new_row_size, ", new_row_size}));
  }
  y.rows = values == infer::unknown ? infer::unknown : values / new_row_size;
  y.row_shape = {new_row_size};
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

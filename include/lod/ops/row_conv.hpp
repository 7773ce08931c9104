// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Look-ahead convolution: each column weighted over the rows that follow.
#pragma once

#include <lod/error.hpp>
#include <lod/infer.hpp>
#include <lod/kernel.hpp>
#include <lod/output.hpp>
#include <lod/supports.hpp>
#include <lod/target.hpp>

#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct row_conv : elements::Floating {};
struct row_conv_grad : elements::Floating {};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `row_conv`.
struct RowConvOptions {
  int level = -1;  ///< the level whose sequences it does not look beyond; by default the last
};

/// The result of `row_conv_grad`.
template <class T, class Device>
struct RowConvGrad {
  LoDTensor<T, Device> dx;
  LoDTensor<T, Device> dfilter;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace kernel {
/// run(executor, x, sequences, row_size, filter, filter_rows, y)
template <class Executor>
struct RowConv : Missing<Executor> {};
/// run(executor, dy, sequences, row_size, filter, filter_rows, dx)
template <class Executor>
struct RowConvInputGrad : Missing<Executor> {};
/// run(executor, x, dy, sequences, row_size, filter_rows, dfilter)
template <class Executor>
struct RowConvFilterGrad : Missing<Executor> {};
}  // namespace kernel

namespace operation {

template <class View, class Filter>
void check_row_conv(const View& x, const Filter& filter, const char* what) {
  using T = value_type_t<View>;
  detail::check_elements<op::row_conv, T>();
  static_assert(std::same_as<value_type_t<Filter>, T>, "row_conv: x and the filter must have one element type");
  check_row_shape(filter.row_shape(), x.row_shape(), what);
}

}  // namespace operation

/// For each row the sum of it and of those that follow, weighted by the rows of `filter`: y[t] = x[t] * filter[0] + x[t
/// + 1] * filter[1] + ..., column by column, up to the end of the sequence of `level`. The filter has rows of the shape
/// of x's, one for each row of the look-ahead; row shape and LoD as x. Semantics: PaddlePaddle's row_conv, with any
/// level.
///
/// The terms are added in this order, in float for float16 and bfloat16. `y` must not overlap the arguments. Throws
/// InvalidLoD if x has no level, OutOfRange for the level, ShapeMismatch if the row shape of the filter differs.
template <Executor E, LoDTensorLike X, LoDTensorLike Filter, class Y>
void row_conv_into(const E& executor, const X& x, const Filter& filter, const RowConvOptions& options, Y&& y) {
  const auto view = x.view();
  const auto weights = filter.view();
  operation::check_has_level(view, "row_conv");
  const int level = detail::resolve_level(options.level, view.levels(), "row_conv");
  operation::check_row_conv(view, weights, "row_conv: filter");
  const auto out = operation::prepare<value_type_t<X>>(executor, "row_conv", y, operation::SameLevels{view.lod_view()},
                                                       view.row_shape(), {{"x", view}, {"filter", weights}});
  kernel::RowConv<E>::run(executor, view.data(), operation::segments(executor, view, level), view.row_size(),
                          weights.data(), weights.rows(), out.data());
}
template <Executor E, LoDTensorLike X, LoDTensorLike Filter, class Y>
void row_conv_into(const E& executor, const X& x, const Filter& filter, Y&& y) {
  row_conv_into(executor, x, filter, RowConvOptions{}, y);
}
template <Executor E, LoDTensorLike X, LoDTensorLike Filter>
[[nodiscard]] LoDTensor<value_type_t<X>, device_t<X>> row_conv(const E& executor, const X& x, const Filter& filter,
                                                               const RowConvOptions& options = {}) {
  LoDTensor<value_type_t<X>, device_t<X>> y(executor.resource());
  row_conv_into(executor, x, filter, options, y);
  return y;
}
template <LoDTensorLike X, LoDTensorLike Filter>
[[nodiscard]] auto row_conv(const X& x, const Filter& filter, const RowConvOptions& options = {}) {
  return row_conv(default_executor<device_t<X>>(), x, filter, options);
}

/// The gradients of `row_conv`: dx with the levels and the row shape of x, dfilter as the filter. The levels of dy are
/// ignored. The sums for the filter follow one tree: the bits do not depend on threads, and the error does not grow
/// with the number of rows. The outputs must not overlap the arguments. If memory runs out, their contents are lost.
/// Throws as `row_conv`, and ShapeMismatch unless dy has the shape of x.
template <Executor E, LoDTensorLike DY, LoDTensorLike X, LoDTensorLike Filter, class DX, class DFilter>
void row_conv_grad_into(const E& executor, const DY& dy, const X& x, const Filter& filter,
                        const RowConvOptions& options, DX&& dx, DFilter&& dfilter) {
  static_assert(std::same_as<value_type_t<DY>, value_type_t<X>>, "row_conv_grad: dy and x must have one element type");
  const auto gradient = dy.view();
  const auto view = x.view();
  const auto weights = filter.view();
  operation::check_has_level(view, "row_conv_grad: x");
  const int level = detail::resolve_level(options.level, view.levels(), "row_conv_grad");
  operation::check_row_conv(view, weights, "row_conv_grad: filter");
  operation::check_row_count(gradient.rows(), view.rows(), "row_conv_grad: dy");
  operation::check_row_shape(gradient.row_shape(), view.row_shape(), "row_conv_grad: dy");
  const operation::SameLevels rows{view.lod_view()};
  const operation::PlainRows filter_rows{weights.rows()};
  const kernel::Segments sequences = operation::segments(executor, view, level);
  const auto out = operation::prepare<value_type_t<X>>(executor, {"row_conv_grad", "dx"}, dx, rows, view.row_shape(),
                                                       {{"dy", gradient}, {"x", view}, {"filter", weights}});
  const auto out_filter = operation::prepare<value_type_t<X>>(
      executor, {"row_conv_grad", "dfilter"}, dfilter, filter_rows, view.row_shape(),
      {{"dy", gradient}, {"x", view}, {"filter", weights}, {"dx", dx}});
  kernel::RowConvInputGrad<E>::run(executor, gradient.data(), sequences, view.row_size(), weights.data(),
                                   weights.rows(), out.data());
  kernel::RowConvFilterGrad<E>::run(executor, view.data(), gradient.data(), sequences, view.row_size(), weights.rows(),
                                    out_filter.data());
}
template <Executor E, LoDTensorLike DY, LoDTensorLike X, LoDTensorLike Filter, class DX, class DFilter>
void row_conv_grad_into(const E& executor, const DY& dy, const X& x, const Filter& filter, DX&& dx, DFilter&& dfilter) {
  row_conv_grad_into(executor, dy, x, filter, RowConvOptions{}, dx, dfilter);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike X, LoDTensorLike Filter>
[[nodiscard]] RowConvGrad<value_type_t<X>, device_t<X>> row_conv_grad(const E& executor, const DY& dy, const X& x,
                                                                      const Filter& filter,
                                                                      const RowConvOptions& options = {}) {
  using Tensor = LoDTensor<value_type_t<X>, device_t<X>>;
  RowConvGrad<value_type_t<X>, device_t<X>> gradients{Tensor(executor.resource()), Tensor(executor.resource())};
  row_conv_grad_into(executor, dy, x, filter, options, gradients.dx, gradients.dfilter);
  return gradients;
}
template <LoDTensorLike DY, LoDTensorLike X, LoDTensorLike Filter>
[[nodiscard]] auto row_conv_grad(const DY& dy, const X& x, const Filter& filter, const RowConvOptions& options = {}) {
  return row_conv_grad(default_executor<device_t<X>>(), dy, x, filter, options);
}

/// The result of `row_conv`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_row_conv(const LoDTensorDesc& x, const LoDTensorDesc& filter,
                                    const RowConvOptions& options = {}) {
  infer::Batch y = infer::batch_for<op::row_conv>(x, "row_conv");
  const infer::Batch weights(filter, "row_conv: filter");
  infer::check_type(weights.type, y.type, "row_conv: filter");
  y.level(options.level, "row_conv");
  y.row_shape = infer::common_row_shape(weights.row_shape, y.row_shape, "row_conv: filter");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

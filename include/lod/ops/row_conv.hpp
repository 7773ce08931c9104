// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Look-ahead convolution: weighted sums of each row and the rows that follow it, column by column.
#pragma once

#include <lod/core/error.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>

namespace lod::inline LOD_INTERFACE::op {
struct row_conv : elements::Floating {
  static constexpr Text text{
      "x, filter", "For each row the sum of it and those that follow in its sequence, weighted by the filter's rows."};
};
struct row_conv_grad : elements::Floating {
  static constexpr Text text{"dy, x, filter", "The gradients of `row_conv` with respect to x and filter."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `row_conv`.
struct RowConvOptions {
  int level = -1;  ///< the level whose sequences it stays within; by default the last
};

/// The result of `row_conv_grad`.
template <class T, class Device>
struct RowConvGrad {
  LoDTensor<T, Device> dx;
  LoDTensor<T, Device> dfilter;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, sequences, row_size, filter, filter_rows, y)
struct RowConv {};
/// run(executor, dy, sequences, row_size, filter, filter_rows, dx)
struct RowConvInputGrad {};
/// run(executor, x, dy, sequences, row_size, filter_rows, dfilter)
struct RowConvFilterGrad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

template <>
struct Declared<op::row_conv> : Takes<Tensor, Tensor>, With<RowConvOptions>, Launches<kernel::RowConv> {
  static constexpr const char* name = "row_conv";
  using Gradient = op::row_conv_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const Input<E, T>& filter, const RowConvOptions& options,
                  const To<E, T>& y) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    check_row_shape(filter.row_shape(), x.row_shape(), {name, "filter"});
    const auto out =
        prepare(executor, name, y, SameLevels{x.lod_view()}, x.row_shape(), {{"x", x}, {"filter", filter}});
    launch(kernel::RowConv(), executor, x.data(), segments(executor, x, level), x.row_size(), filter.data(),
           filter.rows(), out.data());
  }
};

template <>
struct Declared<op::row_conv_grad> : Takes<Tensor, Tensor, Tensor>,
                                     With<RowConvOptions>,
                                     GivesAll<RowConvGrad, Tensor, Tensor>,
                                     Launches<kernel::RowConvInputGrad, kernel::RowConvFilterGrad> {
  static constexpr const char* name = "row_conv_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& x, const Input<E, T>& filter,
                  const RowConvOptions& options, const To<E, T>& dx, const To<E, T>& dfilter) {
    check_has_level(x, {name, "x"});
    const int level = detail::resolve_level(options.level, x.levels(), name);
    check_row_shape(filter.row_shape(), x.row_shape(), {name, "filter"});
    check_row_count(dy.rows(), x.rows(), {name, "dy"});
    check_row_shape(dy.row_shape(), x.row_shape(), {name, "dy"});
    const SameLevels rows{x.lod_view()};
    const PlainRows filter_rows{filter.rows()};
    const kernel::Segments sequences = segments(executor, x, level);
    const auto out =
        prepare(executor, {name, "dx"}, dx, rows, x.row_shape(), {{"dy", dy}, {"x", x}, {"filter", filter}});
    const auto out_filter = prepare(executor, {name, "dfilter"}, dfilter, filter_rows, x.row_shape(),
                                    {{"dy", dy}, {"x", x}, {"filter", filter}, {"dx", dx}});
    launch(kernel::RowConvInputGrad(), executor, dy.data(), sequences, x.row_size(), filter.data(), filter.rows(),
           out.data());
    launch(kernel::RowConvFilterGrad(), executor, x.data(), dy.data(), sequences, x.row_size(), filter.rows(),
           out_filter.data());
  }
};

}  // namespace operation

/// y[t] = x[t] * filter[0] + x[t + 1] * filter[1] + ..., column by column, up to the end of the sequence of `level`.
/// The filter has the row shape of x, and a row for each term of the sum. Row shape and LoD as x. Semantics:
/// PaddlePaddle's row_conv, with any level.
///
/// The terms are added in this order, in float for float16 and bfloat16. `y` must not overlap the arguments. Throws
/// InvalidLoD if x has no level, OutOfRange for the level, ShapeMismatch if the row shape of the filter differs.
inline constexpr operation::Call<op::row_conv> row_conv{};
inline constexpr operation::CallInto<op::row_conv> row_conv_into{};

/// The gradients of `row_conv`: dx with the levels and the row shape of x, dfilter as the filter. The levels of dy are
/// ignored. The sums for the filter have a fixed order: the bits do not depend on threads, and the error does not grow
/// with the number of rows. The outputs must not overlap the arguments. If memory runs out, their contents are lost.
/// Throws as `row_conv`, and ShapeMismatch unless dy has the shape of x.
inline constexpr operation::Call<op::row_conv_grad> row_conv_grad{};
inline constexpr operation::CallInto<op::row_conv_grad> row_conv_grad_into{};

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

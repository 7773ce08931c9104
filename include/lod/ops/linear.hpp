// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// The linear layer: each row times a matrix.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/supports.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::op {
struct linear : elements::Floating {
  static constexpr Text text{"x, weight", "Each row of x times the weight, plus the bias if there is one."};
};
struct linear_grad : elements::Floating {
  static constexpr Text text{"dy, x, weight", "The gradients of `linear` with respect to x, weight and bias."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `linear`.
template <class T, class Device = Cpu>
struct LinearOptions {
  OptionalTensor<T, Device> bias = nullptr;  ///< one number for each column of the weight, added to every row
};

/// The result of `linear_grad`.
template <class T, class Device>
struct LinearGrad {
  LoDTensor<T, Device> dx;
  LoDTensor<T, Device> dweight;
  LoDTensor<T, Device> dbias;  ///< row shape of y, one row without levels
};

/// The options of `infer_linear`: those of `linear`, with the bias described.
struct LinearDescOptions {
  const LoDTensorDesc* bias = nullptr;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws ShapeMismatch unless the weight has a row for each number in a row of x.
template <class X, class Weight>
void check_linear(const X& x, const Weight& weight, const char* name) {
  check_row_count(weight.rows(), x.row_size(), {name, "weight"}, ", one for each number of a row of x");
}

template <>
struct Declared<op::linear> : Takes<Tensor, Tensor>, WithTyped<LinearOptions> {
  static constexpr const char* name = "linear";
  using Gradient = op::linear_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const Input<E, T>& weight,
                  const LinearOptions<T, typename E::device>& options, const To<E, T>& y) {
    check_linear(x, weight, name);
    const std::int64_t columns = weight.row_size(), terms = x.row_size();
    const auto& bias = options.bias;
    if (bias && bias->rows() * bias->row_size() != columns) {
      throw ShapeMismatch(detail::text(
          {name, ": bias: shape ", to_string(bias->shape()), ", expected ", columns, " numbers, one for each column"}));
    }
    const auto out = prepare(executor, name, y, SameLevels{x.lod_view()}, weight.row_shape(),
                             {{"x", x}, {"weight", weight}, {"bias", bias}});
    if (bias) repeat_row(executor, bias.data(), columns, x.rows(), out.data());
    matrix_product<E, T>(executor, false, false, x.rows(), columns, terms, 1, x.data(), terms, weight.data(), columns,
                         bias ? 1 : 0, out.data(), columns);
  }
};

template <>
struct Declared<op::linear_grad> : Takes<Tensor, Tensor, Tensor>, GivesAll<LinearGrad, Tensor, Tensor, Tensor> {
  static constexpr const char* name = "linear_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& x, const Input<E, T>& weight,
                  const To<E, T>& dx, const To<E, T>& dweight, const To<E, T>& dbias) {
    check_linear(x, weight, name);
    check_row_count(dy.rows(), x.rows(), {name, "dy"});
    check_row_shape(dy.row_shape(), weight.row_shape(), {name, "dy"});
    const std::int64_t rows = x.rows(), columns = weight.row_size(), terms = x.row_size();
    const OtherMemory by_y("dy", dy), by_x("x", x), by_weight("weight", weight);
    const auto out =
        prepare(executor, {name, "dx"}, dx, SameLevels{x.lod_view()}, x.row_shape(), {by_y, by_x, by_weight});
    const auto out_weight = prepare(executor, {name, "dweight"}, dweight, PlainRows{terms}, weight.row_shape(),
                                    {by_y, by_x, by_weight, {"dx", dx}});
    const auto out_bias = prepare(executor, {name, "dbias"}, dbias, PlainRows{1}, weight.row_shape(),
                                  {by_y, by_x, by_weight, {"dx", dx}, {"dweight", dweight}});
    matrix_product<E, T>(executor, false, true, rows, terms, columns, 1, dy.data(), columns, weight.data(), columns, 0,
                         out.data(), terms);
    matrix_product<E, T>(executor, true, false, terms, columns, rows, 1, x.data(), terms, dy.data(), columns, 0,
                         out_weight.data(), columns);
    sum_columns(executor, dy.data(), rows, columns, out_bias.data());
  }
};

}  // namespace operation

/// y = x * weight + bias, row by row. Rows of x may have any shape; the weight has a row for each number in them, and
/// its row shape is that of the result. The bias is optional. LoD as x, which may have no level: sequences do not
/// matter.
///
/// One matrix product. float16 and bfloat16 are summed up as float and rounded once, with the bias. On the CPU the bits
/// of a row depend only on that row, the weight and the bias. The output must not overlap the arguments. With a bias,
/// the output's contents are lost if memory runs out. Throws ShapeMismatch if weight or bias do not fit.
template <Executor E, LoDTensorLike X, LoDTensorLike Weight>
[[nodiscard]] auto linear(const E& executor, const X& x, const Weight& weight,
                          const LinearOptions<value_type_t<X>, device_t<X>>& options = {}) {
  return operation::Call<op::linear>()(executor, x, weight, options);
}
template <LoDTensorLike X, LoDTensorLike Weight>
[[nodiscard]] auto linear(const X& x, const Weight& weight,
                          const LinearOptions<value_type_t<X>, device_t<X>>& options = {}) {
  return operation::Call<op::linear>()(x, weight, options);
}
inline constexpr operation::CallInto<op::linear> linear_into{};

/// The gradients of `linear`: dx with the levels and the row shape of x; dweight, shape as the weight; dbias, the sum
/// of dy over all rows, even if there was no bias. The levels of dy are ignored.
///
/// Sums over rows consist of fixed parts: on the CPU the bits do not depend on threads, and the error does not grow
/// with the number of rows. The outputs must not overlap the arguments. If memory runs out, their contents are lost.
/// Throws as `linear`, and ShapeMismatch unless dy has the shape of its result.
inline constexpr operation::Call<op::linear_grad> linear_grad{};
inline constexpr operation::CallInto<op::linear_grad> linear_grad_into{};

/// The result of `linear`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_linear(const LoDTensorDesc& x, const LoDTensorDesc& weight,
                                  const LinearDescOptions& options = {}) {
  infer::Batch y = infer::batch_for<op::linear>(x, "linear: x");
  const infer::Batch by(weight, "linear: weight");
  infer::check_type(by.type, y.type, "linear: weight");
  infer::check_row_count(by.rows, y.row_size("linear: x"), "linear: weight");
  if (options.bias) {
    const infer::Batch bias(*options.bias, "linear: bias");
    infer::check_type(bias.type, y.type, "linear: bias");
    if (!infer::agree(bias.elements("linear: bias"), by.row_size("linear: weight"))) {
      throw ShapeMismatch(detail::text({"linear: bias: shape ", to_string(options.bias->tensor.dims),
                                        ", expected a number for each column of the weight"}));
    }
  }
  y.row_shape = by.row_shape;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

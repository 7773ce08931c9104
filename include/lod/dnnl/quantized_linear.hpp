// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// The linear layer in int8, for inference: rows are quantised as they come, the weights once.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/lod_tensor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/dnnl/quantized_weights.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/output.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>

namespace lod::inline LOD_INTERFACE {

/// The options of `quantized_linear`.
struct QuantizedLinearOptions {
  OptionalTensor<float> bias = nullptr;  ///< one number for each column of the weights, added to every row
};

/// The result of `quantize_rows`.
struct QuantizedRows {
  LoDTensor<std::int8_t> values;  ///< levels and row shape of x, numbers from -127 to 127
  LoDTensor<float> scales;        ///< a number for each row, without levels
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws ShapeMismatch unless there is a row of weights for each number in a row of x.
template <class X>
void check_quantized(const X& x, const QuantizedWeights& weights, const char* name) {
  if (x.row_size() == weights.rows()) return;
  throw ShapeMismatch(detail::text(
      {name, ": weights: ", weights.rows(), " rows, expected ", x.row_size(), ", one for each number of a row of x"}));
}

}  // namespace operation

/// x in int8: round(x / s) for the scale s of each row, its greatest magnitude / 127; ties to even. Its levels and row
/// shape are those of x, which has elements of float or bfloat16. A row of zeros has the scale 0; one that contains
/// infinity or NaN has the scale NaN and zeros for numbers.
///
/// Two passes over a row. No row depends on another, nor any on threads or the processor. The outputs must not overlap
/// x.
template <std::derived_from<CpuExecutor> E, QuantizableTensor X, class Values, class Scales>
void quantize_rows_into(const E& executor, const X& x, Values&& values, Scales&& scales) {
  const auto out = operation::prepare<std::int8_t>(executor, {"quantize_rows", "values"}, values,
                                                   operation::SameLevels{x.lod_view()}, x.row_shape(), {{"x", x}});
  const auto of_rows =
      operation::prepare<float>(executor, {"quantize_rows", "scales"}, scales, operation::PlainRows{x.rows()}, Shape{},
                                {{"x", x}, {"values", values}});
  kernel::by_dnnl::quantize_rows(executor, x.view().data(), x.rows(), x.row_size(), out.data(), of_rows.data());
}
template <std::derived_from<CpuExecutor> E, QuantizableTensor X>
[[nodiscard]] QuantizedRows quantize_rows(const E& executor, const X& x) {
  QuantizedRows y{LoDTensor<std::int8_t>(executor.resource()), LoDTensor<float>(executor.resource())};
  quantize_rows_into(executor, x, y.values, y.scales);
  return y;
}
template <QuantizableTensor X>
[[nodiscard]] QuantizedRows quantize_rows(const X& x) {
  return quantize_rows(default_executor<Cpu>(), x);
}

/// The sums of products of rows of int8 with the numbers of `weights`, in int32, without any scale: exact, on every
/// processor. LoD as values, row shape as the weights.
///
/// By oneDNN where the weights are packed for it; otherwise by plain loops, many times as slow. oneDNN adds 128 to the
/// numbers of rows, as instructions multiply unsigned numbers with signed ones, and subtracts what that adds to sums.
/// Without AVX-512 VNNI its instructions would saturate sums of two such products at 16 bits: that is why it is not
/// used there. The output must not overlap the values. Throws ShapeMismatch unless a row has a number for each row of
/// weights.
template <std::derived_from<CpuExecutor> E, LoDTensorLike X, class Y>
void quantized_product_into(const E& executor, const X& values, const QuantizedWeights& weights, Y&& y) {
  static_assert(std::same_as<value_type_t<X>, std::int8_t>, "quantized products are of rows of std::int8_t");
  operation::check_quantized(values, weights, "quantized_product");
  const auto out =
      operation::prepare<std::int32_t>(executor, "quantized_product", y, operation::SameLevels{values.lod_view()},
                                       weights.row_shape(), {{"values", values}});
  const kernel::by_dnnl::QuantizedProduct product(executor, weights);
  std::int32_t* const to = out.data();
  const std::int64_t columns = weights.row_size();
  product.run(values.view().data(), values.rows(),
              [=](std::int64_t row, std::int64_t column, std::int64_t count, const std::int32_t* sums) {
                std::copy_n(sums, count, to + row * columns + column);
              });
}
template <std::derived_from<CpuExecutor> E, LoDTensorLike X>
[[nodiscard]] LoDTensor<std::int32_t> quantized_product(const E& executor, const X& values,
                                                        const QuantizedWeights& weights) {
  LoDTensor<std::int32_t> y(executor.resource());
  quantized_product_into(executor, values, weights, y);
  return y;
}
template <LoDTensorLike X>
[[nodiscard]] LoDTensor<std::int32_t> quantized_product(const X& values, const QuantizedWeights& weights) {
  return quantized_product(default_executor<Cpu>(), values, weights);
}

/// y = x * weight + bias, row by row, with both in int8: x is quantised by `quantize_rows`, products are those of
/// `quantized_product`, and a sum is multiplied by the scales of its row and its column. x has elements of float or
/// bfloat16, y of float. LoD as x, row shape as the weights; there may be no rows. A row of x that contains infinity or
/// NaN gives NaN.
///
/// For inference: there is no gradient. The error of a number of y is up to a 254th of the greatest magnitude in the
/// row of x times the sum of magnitudes in the column, and the same with row and column exchanged. The bits of a row
/// depend only on that row, the weights and the bias, on all processors that files with the same flags run on. The
/// executor may be any CpuExecutor. Scratch memory: a byte for each number of x, and four for each row. The output must
/// not overlap the arguments. Throws ShapeMismatch if weights or bias do not fit.
template <std::derived_from<CpuExecutor> E, QuantizableTensor X, class Y>
void quantized_linear_into(const E& executor, const X& x, const QuantizedWeights& weights,
                           const QuantizedLinearOptions& options, Y&& y) {
  operation::check_quantized(x, weights, "quantized_linear");
  const auto& bias = options.bias;
  const std::int64_t columns = weights.row_size();
  if (bias && bias->rows() * bias->row_size() != columns) {
    throw ShapeMismatch(detail::text({"quantized_linear: bias: shape ", to_string(bias->shape()), ", expected ",
                                      columns, " numbers, one for each column"}));
  }
  const auto out = operation::prepare<float>(executor, "quantized_linear", y, operation::SameLevels{x.lod_view()},
                                             weights.row_shape(), {{"x", x}, {"bias", bias}});
  const Workspace::Loan<std::int8_t> values(executor.workspace(), detail::saturated_product(x.rows(), x.row_size()));
  const Workspace::Loan<float> scales(executor.workspace(), x.rows());
  const kernel::by_dnnl::QuantizedProduct product(executor, weights);
  kernel::by_dnnl::quantize_rows(executor, x.view().data(), x.rows(), x.row_size(), values.data(), scales.data());
  const float* const of_rows = scales.data();
  const float* const of_columns = weights.scales().data();
  const float* const added = bias.data();
  float* const first = out.data();
  product.run(values.data(), x.rows(),
              [=](std::int64_t row, std::int64_t column, std::int64_t count, const std::int32_t* sums) {
                float* const to = first + row * columns + column;
                const float of_row = of_rows[row];
                for (std::int64_t i = 0; i < count; ++i) {
                  to[i] = static_cast<float>(sums[i]) * of_row * of_columns[column + i];
                }
                for (std::int64_t i = 0; added && i < count; ++i) to[i] += added[column + i];
              });
}
template <std::derived_from<CpuExecutor> E, QuantizableTensor X, class Y>
void quantized_linear_into(const E& executor, const X& x, const QuantizedWeights& weights, Y&& y) {
  quantized_linear_into(executor, x, weights, {}, y);
}
template <std::derived_from<CpuExecutor> E, QuantizableTensor X>
[[nodiscard]] LoDTensor<float> quantized_linear(const E& executor, const X& x, const QuantizedWeights& weights,
                                                const QuantizedLinearOptions& options = {}) {
  LoDTensor<float> y(executor.resource());
  quantized_linear_into(executor, x, weights, options, y);
  return y;
}
template <QuantizableTensor X>
[[nodiscard]] LoDTensor<float> quantized_linear(const X& x, const QuantizedWeights& weights,
                                                const QuantizedLinearOptions& options = {}) {
  return quantized_linear(default_executor<Cpu>(), x, weights, options);
}

/// The result of `quantized_linear`, described: see <lod/infer.hpp>. `weight` describes the matrix that the weights
/// were made of.
inline LoDTensorDesc infer_quantized_linear(const LoDTensorDesc& x, const LoDTensorDesc& weight) {
  infer::Batch y(x, "quantized_linear: x");
  const infer::Batch by(weight, "quantized_linear: weight");
  for (const DataType type : {y.type, by.type}) {
    if (type != DataType::FP32 && type != DataType::BF16) {
      throw ShapeMismatch(
          detail::text({"quantized_linear: elements of ", lod::to_string(type), ", expected bfloat16, float"}));
    }
  }
  infer::check_row_count(by.rows, y.row_size("quantized_linear: x"), "quantized_linear: weight");
  y.type = DataType::FP32;
  y.row_shape = by.row_shape;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup row_preserving
/// Normalisation of rows: by their mean and variance, or by their root mean square.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/scalar.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/supports.hpp>

#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::op {
struct layer_norm : elements::Floating {
  static constexpr Text text{"x", "Each row of x minus its mean, divided by its standard deviation, scaled and moved."};
};
struct layer_norm_grad : elements::Floating {
  static constexpr Text text{"dy, x", "The gradients of `layer_norm` with respect to x, scale and bias."};
};
struct rms_norm : elements::Floating {
  static constexpr Text text{"x", "Each row of x divided by its root mean square, and scaled."};
};
struct rms_norm_grad : elements::Floating {
  static constexpr Text text{"dy, x", "The gradients of `rms_norm` with respect to x and scale."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `layer_norm` and of its gradient.
template <class T, class Device = Cpu>
struct LayerNormOptions {
  OptionalTensor<T, Device> scale = nullptr;  ///< one factor for each number of a row
  OptionalTensor<T, Device> bias = nullptr;   ///< one number for each number of a row, added in the end
  double epsilon = 1e-5;                      ///< added to the variance; 0 or more
};
/// The options of `rms_norm` and of its gradient.
template <class T, class Device = Cpu>
struct RmsNormOptions {
  OptionalTensor<T, Device> scale = nullptr;  ///< one factor for each number of a row
  double epsilon = 1e-5;                      ///< added to the mean of the squares; 0 or more
};

/// The result of `layer_norm_grad`.
template <class T, class Device>
struct LayerNormGrad {
  LoDTensor<T, Device> dx;
  LoDTensor<T, Device> dscale;  ///< row shape of x, one row without levels
  LoDTensor<T, Device> dbias;   ///< row shape of x, one row without levels
};
/// The result of `rms_norm_grad`.
template <class T, class Device>
struct RmsNormGrad {
  LoDTensor<T, Device> dx;
  LoDTensor<T, Device> dscale;  ///< row shape of x, one row without levels
};

/// The options of `infer_layer_norm`: those of `layer_norm`, with the tensors described.
struct LayerNormDescOptions {
  const LoDTensorDesc* scale = nullptr;
  const LoDTensorDesc* bias = nullptr;
  double epsilon = 1e-5;
};
/// The options of `infer_rms_norm`: those of `rms_norm`, with the scale described.
struct RmsNormDescOptions {
  const LoDTensorDesc* scale = nullptr;
  double epsilon = 1e-5;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {
/// run(executor, x, rows, row_size, scale, bias, epsilon, centred, y): divided by the standard deviation if `centred`,
/// else by the root mean square. scale and bias may be null; y may be x.
struct RowNorm {};
/// run(executor, dy, x, rows, row_size, scale, epsilon, centred, dx, dscale, dbias): dbias is null unless `centred`.
struct RowNormGrad {};
}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Throws OutOfRange for an epsilon that is negative, infinite or NaN, or beyond what rows of T are computed in.
template <class T>
void check_epsilon(double epsilon, const char* name) {
  if (!(epsilon >= 0 && epsilon <= std::numeric_limits<double>::max())) {
    throw OutOfRange(
        detail::text({name, ": epsilon ", to_string(Scalar(epsilon)), ", expected a finite number, 0 or more"}));
  }
  static_cast<void>(detail::checked<kernel::Accumulator<T>>(epsilon, name, "epsilon"));
}
/// The same for elements of a type that is known when the program runs.
inline void check_epsilon(DataType type, double epsilon, const char* name) {
  if (type == DataType::FP64) return check_epsilon<double>(epsilon, name);
  check_epsilon<float>(epsilon, name);
}
/// Throws ShapeMismatch unless an optional tensor has a number for each one of a row.
template <class Optional>
void check_numbers_of_row(const Optional& numbers, std::int64_t row_size, const Subject& what) {
  if (numbers && numbers->rows() * numbers->row_size() != row_size) {
    throw ShapeMismatch(detail::text({what.text(), ": shape ", to_string(numbers->shape()), ", expected ", row_size,
                                      " numbers, one for each number of a row of x"}));
  }
}
/// The same of a description.
inline void check_numbers_of_row(const LoDTensorDesc* numbers, const infer::Batch& x, const char* name,
                                 const char* what) {
  if (!numbers) return;
  const infer::Batch found(*numbers, what);
  infer::check_type(found.type, x.type, what);
  if (!infer::agree(found.elements(what), x.row_size(name))) {
    throw ShapeMismatch(detail::text({what, ": shape ", infer::to_string(numbers->tensor.dims),
                                      ", expected a number for each number of a row of x"}));
  }
}

template <>
struct Declared<op::layer_norm> : Takes<Tensor>, WithTyped<LayerNormOptions>, Launches<kernel::RowNorm> {
  static constexpr const char* name = "layer_norm";
  using Gradient = op::layer_norm_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const LayerNormOptions<T, typename E::device>& options,
                  const To<E, T>& y) {
    check_epsilon<T>(options.epsilon, name);
    check_numbers_of_row(options.scale, x.row_size(), {name, "scale"});
    check_numbers_of_row(options.bias, x.row_size(), {name, "bias"});
    const auto out = prepare(executor, name, y, SameLevels{x.lod_view()}, x.row_shape(),
                             {in_place("x", x), {"scale", options.scale}, {"bias", options.bias}});
    launch(kernel::RowNorm(), executor, x.data(), x.rows(), x.row_size(), options.scale.data(), options.bias.data(),
           options.epsilon, true, out.data());
  }
};

template <>
struct Declared<op::rms_norm> : Takes<Tensor>, WithTyped<RmsNormOptions>, Launches<kernel::RowNorm> {
  static constexpr const char* name = "rms_norm";
  using Gradient = op::rms_norm_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const RmsNormOptions<T, typename E::device>& options,
                  const To<E, T>& y) {
    check_epsilon<T>(options.epsilon, name);
    check_numbers_of_row(options.scale, x.row_size(), {name, "scale"});
    const auto out = prepare(executor, name, y, SameLevels{x.lod_view()}, x.row_shape(),
                             {in_place("x", x), {"scale", options.scale}});
    const T* const no_bias = nullptr;
    launch(kernel::RowNorm(), executor, x.data(), x.rows(), x.row_size(), options.scale.data(), no_bias,
           options.epsilon, false, out.data());
  }
};

/// Throws as the gradients of norms do.
template <class View, class Optional>
void check_norm_grad(const View& dy, const View& x, const Optional& scale, double epsilon, const char* name) {
  check_epsilon<value_type_t<View>>(epsilon, name);
  check_numbers_of_row(scale, x.row_size(), {name, "scale"});
  check_row_count(dy.rows(), x.rows(), {name, "dy"});
  check_row_shape(dy.row_shape(), x.row_shape(), {name, "dy"});
}

template <>
struct Declared<op::layer_norm_grad> : Takes<Tensor, Tensor>,
                                       WithTyped<LayerNormOptions>,
                                       GivesAll<LayerNormGrad, Tensor, Tensor, Tensor>,
                                       Launches<kernel::RowNormGrad> {
  static constexpr const char* name = "layer_norm_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& x,
                  const LayerNormOptions<T, typename E::device>& options, const To<E, T>& dx, const To<E, T>& dscale,
                  const To<E, T>& dbias) {
    check_norm_grad(dy, x, options.scale, options.epsilon, name);
    check_numbers_of_row(options.bias, x.row_size(), {name, "bias"});
    const OtherMemory by_y("dy", dy), by_x("x", x), by_scale("scale", options.scale);
    const auto out =
        prepare(executor, {name, "dx"}, dx, SameLevels{x.lod_view()}, x.row_shape(), {by_y, by_x, by_scale});
    const auto out_scale =
        prepare(executor, {name, "dscale"}, dscale, PlainRows{1}, x.row_shape(), {by_y, by_x, by_scale, {"dx", dx}});
    const auto out_bias = prepare(executor, {name, "dbias"}, dbias, PlainRows{1}, x.row_shape(),
                                  {by_y, by_x, by_scale, {"dx", dx}, {"dscale", dscale}});
    launch(kernel::RowNormGrad(), executor, dy.data(), x.data(), x.rows(), x.row_size(), options.scale.data(),
           options.epsilon, true, out.data(), out_scale.data(), out_bias.data());
  }
};

template <>
struct Declared<op::rms_norm_grad> : Takes<Tensor, Tensor>,
                                     WithTyped<RmsNormOptions>,
                                     GivesAll<RmsNormGrad, Tensor, Tensor>,
                                     Launches<kernel::RowNormGrad> {
  static constexpr const char* name = "rms_norm_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const Input<E, T>& x,
                  const RmsNormOptions<T, typename E::device>& options, const To<E, T>& dx, const To<E, T>& dscale) {
    check_norm_grad(dy, x, options.scale, options.epsilon, name);
    const OtherMemory by_y("dy", dy), by_x("x", x), by_scale("scale", options.scale);
    const auto out =
        prepare(executor, {name, "dx"}, dx, SameLevels{x.lod_view()}, x.row_shape(), {by_y, by_x, by_scale});
    const auto out_scale =
        prepare(executor, {name, "dscale"}, dscale, PlainRows{1}, x.row_shape(), {by_y, by_x, by_scale, {"dx", dx}});
    T* const no_bias = nullptr;
    launch(kernel::RowNormGrad(), executor, dy.data(), x.data(), x.rows(), x.row_size(), options.scale.data(),
           options.epsilon, false, out.data(), out_scale.data(), no_bias);
  }
};

}  // namespace operation

/// y = (x - mean) / sqrt(variance + epsilon) * scale + bias, where mean and variance, sum((x - mean)^2) / n, are those
/// of the n numbers of the row. Row shape and LoD as x, which may have no level: sequences do not matter. scale and
/// bias are optional, and have n numbers in any shape.
///
/// float16 and bfloat16 are computed as float and rounded once. Nothing cancels: distances from one of the row's first
/// numbers are squared, or once more from the mean where that one is far off, so that a row far from 0 is normalised as
/// exactly as one around it.
/// Squares beyond the range of the type, such as those of 1e30 in float, and squares that would vanish beside an
/// epsilon of 0, are computed again in a wider range. NaN or an infinite number makes its row NaN, and no other. A row
/// of equal numbers gives the bias, as does a row of one number; with an epsilon of 0 it gives NaN. Rows of no numbers
/// stay so.
///
/// One pass over memory: the second over a row finds it in the cache. The bits of a row depend only on the row, scale
/// and bias: neither on threads nor on other rows; on every device the sums are added up in the same order. `y` may be
/// x's own tensor, but must not overlap the arguments otherwise. Throws OutOfRange unless epsilon is 0 or more and
/// finite, also in the type of the computation, ShapeMismatch if scale or bias do not fit.
inline constexpr operation::Call<op::layer_norm> layer_norm{};
inline constexpr operation::CallInto<op::layer_norm> layer_norm_into{};

/// y = x / sqrt(mean + epsilon) * scale, where mean, sum(x^2) / n, is that of the squares of the n numbers of the row.
/// A row of zeros stays so; with an epsilon of 0 it becomes NaN. Otherwise as `layer_norm`.
inline constexpr operation::Call<op::rms_norm> rms_norm{};
inline constexpr operation::CallInto<op::rms_norm> rms_norm_into{};

/// The gradients of `layer_norm` with the same options, of which the bias does not matter. With
/// z = (x - mean) * r and r = 1 / sqrt(variance + epsilon):
///
///     dx = r * (g - mean(g) - z * mean(g * z)), g = dy * scale, means over the row
///     dscale = the sum of dy * z over all rows
///     dbias = the sum of dy over all rows
///
/// dx has the levels and the row shape of x; dscale and dbias are computed even if there was no scale and no bias, and
/// are 0 of no rows. Means and variances are computed again. The levels of dy are ignored.
///
/// Sums over rows consist of fixed parts: the bits do not depend on threads, and the error does not grow with the
/// number of rows. NaN or an infinite number in x makes dx NaN in its row, and dscale. The outputs must not overlap the
/// arguments. Throws as `layer_norm`, and ShapeMismatch unless dy has the shape of x.
inline constexpr operation::Call<op::layer_norm_grad> layer_norm_grad{};
inline constexpr operation::CallInto<op::layer_norm_grad> layer_norm_grad_into{};

/// The gradients of `rms_norm`, where z = x * r, r = 1 / sqrt(mean(x^2) + epsilon) and dx = r * (g - z * mean(g * z)).
/// Otherwise as `layer_norm_grad`, without dbias.
inline constexpr operation::Call<op::rms_norm_grad> rms_norm_grad{};
inline constexpr operation::CallInto<op::rms_norm_grad> rms_norm_grad_into{};

/// The results of `layer_norm` and `rms_norm`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_layer_norm(const LoDTensorDesc& x, const LayerNormDescOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::layer_norm>(x, "layer_norm: x");
  operation::check_epsilon(y.type, options.epsilon, "layer_norm");
  operation::check_numbers_of_row(options.scale, y, "layer_norm: x", "layer_norm: scale");
  operation::check_numbers_of_row(options.bias, y, "layer_norm: x", "layer_norm: bias");
  return y;
}
inline LoDTensorDesc infer_rms_norm(const LoDTensorDesc& x, const RmsNormDescOptions& options = {}) {
  const infer::Batch y = infer::batch_for<op::rms_norm>(x, "rms_norm: x");
  operation::check_epsilon(y.type, options.epsilon, "rms_norm");
  operation::check_numbers_of_row(options.scale, y, "rms_norm: x", "rms_norm: scale");
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

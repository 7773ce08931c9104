// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Convolution along sequences: windows of rows times a filter.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/ops/argument_list.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/matrix_product.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace lod::inline LOD_INTERFACE::op {
struct sequence_conv : elements::Floating {
  static constexpr Text text{"x, filter",
                             "The window of `context_length` rows around each row, as one row, times the filter."};
};
struct sequence_conv_grad : elements::Floating {
  static constexpr Text text{"dy, x, filter", "The gradients of `sequence_conv`; dpadding if there was padding."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `sequence_conv`.
template <class T, class Device = Cpu>
struct ConvOptions {
  std::int64_t context_length = 3;  ///< rows of a window
  std::int64_t context_start = -1;  ///< the first row of a window, relative to its own row
  /// The rows around every sequence: max(0, -context_start) before its first row, then max(0, context_start +
  /// context_length - 1) after its last. By default zeros.
  OptionalTensor<T, Device> padding = nullptr;
  int level = -1;  ///< the level whose sequences the windows stay within; by default the last
};

/// The result of `sequence_conv_grad`.
template <class T, class Device>
struct ConvGrad {
  LoDTensor<T, Device> dx;
  LoDTensor<T, Device> dfilter;
  LoDTensor<T, Device> dpadding;  ///< no rows if no padding was given
};

/// The options of `infer_sequence_conv`: those of `sequence_conv`, with the padding described.
struct ConvDescOptions {
  std::int64_t context_length = 3;
  std::int64_t context_start = -1;
  const LoDTensorDesc* padding = nullptr;
  int level = -1;
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {

/// The window of row t consists of rows [t + start, t + start + length).
struct ContextWindow {
  std::int64_t length;
  std::int64_t start;
  /// How far windows extend beyond the two ends of a sequence.
  LOD_TAGGED std::int64_t rows_before() const noexcept { return std::max<std::int64_t>(0, -start); }
  LOD_TAGGED std::int64_t rows_after() const noexcept { return std::max<std::int64_t>(0, start + length - 1); }
};

/// run(executor, x, sequences, row_size, window, padding, filter, columns, y); padding may be null.
struct SequenceConv {};
/// run(executor, dy, sequences, columns, window, filter, row_size, dx)
struct SequenceConvInputGrad {};
/// run(executor, x, dy, sequences, row_size, window, padding, columns, dfilter)
struct SequenceConvFilterGrad {};
/// run(executor, dy, sequences, columns, window, filter, row_size, dpadding)
struct SequenceConvPaddingGrad {};

}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The window that the options describe. Throws OutOfRange if it is invalid.
template <class Options>
kernel::ContextWindow context_window(const Options& options, const char* what) {
  const kernel::ContextWindow window{options.context_length, options.context_start};
  // A limit, so that no position of a window exceeds 64 bits.
  constexpr std::int64_t farthest = std::int64_t{1} << 48;
  if (window.length < 1 || window.length > farthest || window.start < -farthest || window.start > farthest) {
    throw OutOfRange(detail::text({what, ": context_length ", window.length, ", context_start ", window.start,
                                   ", expected a length of 1 or more, and less than 2^48 rows away"}));
  }
  return window;
}

/// The same. Also throws unless the filter and the padding fit it.
template <class View, class Filter, class Options>
kernel::ContextWindow check_conv(const View& x, const Filter& filter, const Options& options, const char* what) {
  using T = value_type_t<View>;
  detail::check_elements<op::sequence_conv, T>();
  static_assert(std::same_as<value_type_t<Filter>, T>, "sequence_conv: x and the filter must have one element type");
  const kernel::ContextWindow window = context_window(options, what);
  std::int64_t terms = 0;
  if (__builtin_mul_overflow(window.length, x.row_size(), &terms) || filter.rows() != terms) {
    throw ShapeMismatch(
        detail::text({what, ": filter: ", filter.rows(), " rows, expected context_length times the row size, ",
                      window.length, " * ", x.row_size()}));
  }
  if (options.padding) {
    check_row_count(options.padding->rows(), window.rows_before() + window.rows_after(), {what, "padding"});
    check_row_shape(options.padding->row_shape(), x.row_shape(), {what, "padding"});
  }
  return window;
}

template <>
struct Declared<op::sequence_conv> : Takes<Tensor, Tensor>, WithTyped<ConvOptions>, Launches<kernel::SequenceConv> {
  static constexpr const char* name = "sequence_conv";
  using Gradient = op::sequence_conv_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& x, const Input<E, T>& filter,
                  const ConvOptions<T, typename E::device>& options, const To<E, T>& y) {
    check_has_level(x, name);
    const int level = detail::resolve_level(options.level, x.levels(), name);
    const auto window = check_conv(x, filter, options, name);
    const auto out = prepare(executor, name, y, SameLevels{x.lod_view()}, filter.row_shape(),
                             {{"x", x}, {"filter", filter}, {"padding", options.padding}});
    launch(kernel::SequenceConv(), executor, x.data(), segments(executor, x, level), x.row_size(), window,
           options.padding.data(), filter.data(), filter.row_size(), out.data());
  }
};

}  // namespace operation

/// y[t] = {x[t + start], x[t + start + 1], ...} * filter: the window of row t, context_length rows one after the other,
/// times `filter`. The filter is {context_length * row size, row shape of y...}; LoD as x. Beyond the sequence of
/// `level`, a window has zeros or the rows of `padding`. Semantics: PaddlePaddle's sequence_conv, with any level.
///
/// One matrix product; the windows are never stored. The bits of a row of y depend only on its window. `y` must not
/// overlap the arguments. Throws InvalidLoD if x has no level, OutOfRange for the level and for an invalid window,
/// ShapeMismatch if filter or padding do not fit.
inline constexpr operation::Call<op::sequence_conv> sequence_conv{};
inline constexpr operation::CallInto<op::sequence_conv> sequence_conv_into{};

namespace operation {

template <>
struct Declared<op::sequence_conv_grad>
    : Launches<kernel::SequenceConvInputGrad, kernel::SequenceConvFilterGrad, kernel::SequenceConvPaddingGrad> {};

template <Executor E, class View, class Filter, class Options, class DX, class DFilter, class DPadding>
void conv_grad_into(const E& executor, const View& dy, const View& x, const Filter& filter, const Options& options,
                    DX&& dx, DFilter&& dfilter, DPadding* dpadding) {
  check_has_level(x, "sequence_conv_grad: x");
  const int level = detail::resolve_level(options.level, x.levels(), "sequence_conv_grad");
  const auto window = check_conv(x, filter, options, "sequence_conv_grad");
  check_row_count(dy.rows(), x.rows(), "sequence_conv_grad: dy");
  check_row_shape(dy.row_shape(), filter.row_shape(), "sequence_conv_grad: dy");
  const PlainRows filter_rows{filter.rows()}, padding_rows{window.rows_before() + window.rows_after()};
  const kernel::Segments sequences = segments(executor, x, level);
  const std::int64_t columns = filter.row_size();
  constexpr const char* what = "sequence_conv_grad";
  const OtherMemory padding("padding", options.padding);
  const auto out = prepare<value_type_t<View>>(executor, {what, "dx"}, dx, SameLevels{x.lod_view()}, x.row_shape(),
                                               {{"dy", dy}, {"x", x}, {"filter", filter}, padding});
  const auto out_filter =
      prepare<value_type_t<View>>(executor, {what, "dfilter"}, dfilter, filter_rows, filter.row_shape(),
                                  {{"dy", dy}, {"x", x}, {"filter", filter}, padding, {"dx", dx}});
  std::optional<Output<value_type_t<View>, device_t<View>>> out_padding;
  if (dpadding) {
    static_cast<void>(out_padding.emplace(prepare<value_type_t<View>>(
        executor, {what, "dpadding"}, *dpadding, padding_rows, x.row_shape(),
        {{"dy", dy}, {"x", x}, {"filter", filter}, padding, {"dx", dx}, {"dfilter", dfilter}})));
  }
  launch(kernel::SequenceConvInputGrad(), executor, dy.data(), sequences, columns, window, filter.data(), x.row_size(),
         out.data());
  launch(kernel::SequenceConvFilterGrad(), executor, x.data(), dy.data(), sequences, x.row_size(), window,
         options.padding.data(), columns, out_filter.data());
  if (!dpadding) return;
  launch(kernel::SequenceConvPaddingGrad(), executor, dy.data(), sequences, columns, window, filter.data(),
         x.row_size(), out_padding->data());
}

}  // namespace operation

/// The gradients of `sequence_conv` with the same options: dx with the levels and the row shape of x, dfilter as the
/// filter, and, if an output for it is given, dpadding as the padding, even if there was no padding but zeros. The
/// levels of dy are ignored.
///
/// Sums over rows consist of fixed parts: the bits do not depend on threads, and the error does not grow with the
/// number of rows. The outputs must not overlap the arguments. If memory runs out, their contents are lost. Throws as
/// `sequence_conv`, and ShapeMismatch unless dy has the shape of its result.
template <Executor E, LoDTensorLike DY, LoDTensorLike X, LoDTensorLike Filter, class DX, class DFilter, class DPadding>
void sequence_conv_grad_into(const E& executor, const DY& dy, const X& x, const Filter& filter,
                             const ConvOptions<value_type_t<X>, device_t<X>>& options, DX&& dx, DFilter&& dfilter,
                             DPadding&& dpadding) {
  operation::conv_grad_into(executor, dy.view(), x.view(), filter.view(), options, dx, dfilter, &dpadding);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike X, LoDTensorLike Filter, class DX, class DFilter>
void sequence_conv_grad_into(const E& executor, const DY& dy, const X& x, const Filter& filter,
                             const ConvOptions<value_type_t<X>, device_t<X>>& options, DX&& dx, DFilter&& dfilter) {
  operation::conv_grad_into(executor, dy.view(), x.view(), filter.view(), options, dx, dfilter,
                            static_cast<LoDTensor<value_type_t<X>, device_t<X>>*>(nullptr));
}
template <Executor E, LoDTensorLike DY, LoDTensorLike X, LoDTensorLike Filter, class DX, class DFilter, class DPadding>
  requires LoDTensorLike<std::remove_cvref_t<DX>>
void sequence_conv_grad_into(const E& executor, const DY& dy, const X& x, const Filter& filter, DX&& dx,
                             DFilter&& dfilter, DPadding&& dpadding) {
  sequence_conv_grad_into(executor, dy, x, filter, ConvOptions<value_type_t<X>, device_t<X>>{}, dx, dfilter, dpadding);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike X, LoDTensorLike Filter, class DX, class DFilter>
void sequence_conv_grad_into(const E& executor, const DY& dy, const X& x, const Filter& filter, DX&& dx,
                             DFilter&& dfilter) {
  sequence_conv_grad_into(executor, dy, x, filter, ConvOptions<value_type_t<X>, device_t<X>>{}, dx, dfilter);
}
template <Executor E, LoDTensorLike DY, LoDTensorLike X, LoDTensorLike Filter>
[[nodiscard]] ConvGrad<value_type_t<X>, device_t<X>> sequence_conv_grad(
    const E& executor, const DY& dy, const X& x, const Filter& filter,
    const ConvOptions<value_type_t<X>, device_t<X>>& options = {}) {
  using Tensor = LoDTensor<value_type_t<X>, device_t<X>>;
  ConvGrad<value_type_t<X>, device_t<X>> gradients{Tensor(executor.resource()), Tensor(executor.resource()),
                                                   Tensor(executor.resource())};
  operation::conv_grad_into(executor, dy.view(), x.view(), filter.view(), options, gradients.dx, gradients.dfilter,
                            options.padding ? &gradients.dpadding : nullptr);
  return gradients;
}
template <LoDTensorLike DY, LoDTensorLike X, LoDTensorLike Filter>
[[nodiscard]] auto sequence_conv_grad(const DY& dy, const X& x, const Filter& filter,
                                      const ConvOptions<value_type_t<X>, device_t<X>>& options = {}) {
  return sequence_conv_grad(default_executor<device_t<X>>(), dy, x, filter, options);
}

/// The result of `sequence_conv`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_sequence_conv(const LoDTensorDesc& x, const LoDTensorDesc& filter,
                                         const ConvDescOptions& options = {}) {
  infer::Batch y = infer::batch_for<op::sequence_conv>(x, "sequence_conv");
  const infer::Batch weights(filter, "sequence_conv: filter");
  infer::check_type(weights.type, y.type, "sequence_conv: filter");
  y.level(options.level, "sequence_conv");
  const kernel::ContextWindow window = operation::context_window(options, "sequence_conv");
  infer::check_row_count(weights.rows,
                         infer::product({window.length, y.row_size("sequence_conv")}, "sequence_conv: filter"),
                         "sequence_conv: filter");
  if (options.padding) {
    const infer::Batch padding(*options.padding, "sequence_conv: padding");
    infer::check_type(padding.type, y.type, "sequence_conv: padding");
    infer::check_row_count(padding.rows, window.rows_before() + window.rows_after(), "sequence_conv: padding");
    infer::common_row_shape(padding.row_shape, y.row_shape, "sequence_conv: padding");
  }
  y.row_shape = weights.row_shape;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

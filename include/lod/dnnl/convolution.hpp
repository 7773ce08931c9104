// SPDX-License-Identifier: Apache-2.0
/// @file
/// conv2d, conv2d_transpose, depthwise_conv2d, and their gradients, by oneDNN.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/dnnl/computation.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/convolution.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/windows.hpp>

#include <oneapi/dnnl/dnnl.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_by_dnnl {

/// A convolution of images of one shape by filters of another, as oneDNN describes it.
class Convolution {
  using Dims = dnnl::memory::dims;
  using Tag = dnnl::memory::format_tag;

 public:
  /// Throws ShapeMismatch if images and filters do not fit.
  Convolution(const Shape& images, const Shape& filters, const operators_of_programs::WindowOptions& options,
              std::int64_t groups)
      : of_(images, filters, options, groups),
        vertical_(options.along(0, of_.x.height, filters[2])),
        horizontal_(options.along(1, of_.x.width, filters[3])),
        is_ordinary_(operators_by_dnnl::is_ordinary(images) && operators_by_dnnl::is_ordinary(filters) &&
                     operators_by_dnnl::is_ordinary(of_.shape) && operators_by_dnnl::is_ordinary(vertical_) &&
                     operators_by_dnnl::is_ordinary(horizontal_)),
        pixels_(options.channels_last() ? Tag::nhwc : Tag::nchw),
        x_{of_.x.images, of_.x.channels, of_.x.height, of_.x.width},
        y_{of_.y.images, of_.y.channels, of_.y.height, of_.y.width},
        w_{groups, of_.results, of_.channels, filters[2], filters[3]} {
    if (groups == 1) w_.erase(w_.begin());
  }

  /// The shape of the images.
  const Shape& image_shape() const noexcept { return of_.image_shape; }
  /// The shape of the results.
  const Shape& shape() const noexcept { return of_.shape; }
  /// Whether oneDNN can compute it.
  bool is_ordinary() const noexcept { return is_ordinary_; }

  /// From images and filters to results.
  Computation forward() const {
    const auto of = description(dnnl::prop_kind::forward_inference);
    Computation made(of);
    made.add(DNNL_ARG_SRC, layout(x_, pixels_), of.src_desc());
    made.add(DNNL_ARG_WEIGHTS, weights(), of.weights_desc());
    made.add_output(DNNL_ARG_DST, layout(y_, pixels_), of.dst_desc());
    return made;
  }
  /// From filters and the gradient with respect to the results to that with respect to the images.
  Computation gradient_by_images() const {
    const auto of = gradient<dnnl::convolution_backward_data>();
    Computation made(of);
    made.add(DNNL_ARG_WEIGHTS, weights(), of.weights_desc());
    made.add(DNNL_ARG_DIFF_DST, layout(y_, pixels_), of.diff_dst_desc());
    made.add_output(DNNL_ARG_DIFF_SRC, layout(x_, pixels_), of.diff_src_desc());
    return made;
  }
  /// From images and the gradient with respect to the results to that with respect to the filters.
  Computation gradient_by_filters() const {
    const auto of = gradient<dnnl::convolution_backward_weights>();
    Computation made(of);
    made.add(DNNL_ARG_SRC, layout(x_, pixels_), of.src_desc());
    made.add(DNNL_ARG_DIFF_DST, layout(y_, pixels_), of.diff_dst_desc());
    made.add_output(DNNL_ARG_DIFF_WEIGHTS, weights(), of.diff_weights_desc());
    return made;
  }

 private:
  Layout weights() const { return layout(w_, w_.size() == 4 ? Tag::oihw : Tag::goihw); }
  /// The parameters that all of its primitives share.
  auto arguments() const {
    return std::tuple(dnnl::algorithm::convolution_direct, layout(x_), layout(w_), layout(y_),
                      Dims{vertical_.stride, horizontal_.stride},
                      Dims{vertical_.dilation - 1, horizontal_.dilation - 1},
                      Dims{vertical_.before, horizontal_.before}, Dims{vertical_.after, horizontal_.after});
  }
  dnnl::convolution_forward::primitive_desc description(dnnl::prop_kind kind) const {
    return describe<dnnl::convolution_forward>(std::tuple_cat(std::tuple(kind), arguments()));
  }
  template <class P>
  typename P::primitive_desc gradient() const {
    return describe<P>(arguments(), description(dnnl::prop_kind::forward_training));
  }

  operators_of_programs::Convolution of_;
  operators_of_programs::WindowsAlongSide vertical_;
  operators_of_programs::WindowsAlongSide horizontal_;
  bool is_ordinary_;
  Tag pixels_;
  Dims x_;
  Dims y_;
  Dims w_;
};

/// What conv2d and depthwise_conv2d compute, and how.
class Direct {
 public:
  explicit Direct(const OperatorArguments& op) : options_(op.desc()), groups_(operators_of_programs::groups_of(op)) {}
  Convolution operator()(const Shape& images, const Shape& filters) const {
    return Convolution(images, filters, options_, groups_);
  }
  static const Shape& shape(const Convolution& of) { return of.shape(); }
  static Computation results(const Convolution& of) { return of.forward(); }
  static Computation gradient(const Convolution& of) { return of.gradient_by_images(); }
  /// The arguments of a computation, first to last: `own` is the operator's input or its filters, `other` is what they
  /// meet, the filters or the gradient with respect to the results.
  static std::array<const void*, 2> given(const void* own, const void* other) { return {own, other}; }

 private:
  operators_of_programs::WindowOptions options_;
  std::int64_t groups_;
};
/// What conv2d_transpose and depthwise_conv2d_transpose compute: the gradient of a convolution with respect to its
/// images.
class Transposed {
 public:
  explicit Transposed(const OperatorArguments& op) : of_(op) {}
  Convolution operator()(const Shape& images, const Shape& filters) const {
    const auto made = of_.results(images, filters);
    return Convolution(Shape(made), filters, of_.options_for(images, filters), of_.groups());
  }
  static const Shape& shape(const Convolution& of) { return of.image_shape(); }
  static Computation results(const Convolution& of) { return of.gradient_by_images(); }
  static Computation gradient(const Convolution& of) { return of.forward(); }
  static std::array<const void*, 2> given(const void* own, const void* other) { return {other, own}; }

 private:
  operators_of_programs::TransposedConvolution of_;
};

/// The operators of a Form, `Direct` or `Transposed`; `own` runs what oneDNN does not take.
template <class Form>
RunOperator<> convolve(const OperatorArguments& op, const RunOperator<>& own) {
  struct Made {
    Shape shape;
    Computation results;
  };
  const Slot x = op.input("Input"), filter = op.input("Filter"), out = op.output("Output");
  return [=, form = Form(op), made = MadeForShapes<Made, 2>()](OperatorCall<>& call) mutable {
    const AnyLoDTensor &from = call.tensor(x), &by = call.tensor(filter);
    if (!are_floats({&from, &by})) return own(call);
    const auto* const found = made.find(call.executor(), {from.shape(), by.shape()}, [&]() -> std::optional<Made> {
      const Convolution of = form(from.shape(), by.shape());
      if (!of.is_ordinary()) return std::nullopt;
      return Made{Form::shape(of), Form::results(of)};
    });
    if (!found) return own(call);
    const auto [first, second] = Form::given(from.bytes().data(), by.bytes().data());
    auto y = call.output_bytes(out, DataType::FP32, found->shape, from);
    found->results.run(call.executor(), {first, second, y.template elements<float>()});
  };
}

/// Their gradients.
template <class Form>
RunOperator<> convolve_grad(const OperatorArguments& op, const RunOperator<>& own) {
  struct Made {
    Shape shape;
    std::optional<Computation> by_input;
    std::optional<Computation> by_filters;
  };
  const Slot x = op.input("Input"), filter = op.input("Filter"), dy = op.input("Output@GRAD");
  const Slot dx = op.optional_output("Input@GRAD"), dfilter = op.optional_output("Filter@GRAD");
  return [=, form = Form(op), made = MadeForShapes<Made, 2>()](OperatorCall<>& call) mutable {
    const AnyLoDTensor from = call.tensor(x), by = call.tensor(filter);
    if (!are_floats({&from, &by})) return own(call);
    const auto* const found = made.find(call.executor(), {from.shape(), by.shape()}, [&]() -> std::optional<Made> {
      const Convolution of = form(from.shape(), by.shape());
      if (!of.is_ordinary()) return std::nullopt;
      Made both{Form::shape(of), std::nullopt, std::nullopt};
      if (dx) both.by_input = Form::gradient(of);
      if (dfilter) both.by_filters = of.gradient_by_filters();
      return both;
    });
    if (!found) return own(call);
    const void *const input = from.bytes().data(), *const filters = by.bytes().data();
    const void* const given = operators_of_programs::numbers_of<float>(call, dy, found->shape);
    const auto write = [&](const Slot& slot, const AnyLoDTensor& like, const void* other, const auto& computation) {
      if (!slot) return;
      auto y = call.output_bytes(slot, DataType::FP32, like.lod(), like.row_shape(), like.rows());
      const auto [first, second] = Form::given(other, given);
      computation->run(call.executor(), {first, second, y.template elements<float>()});
    };
    write(dfilter, by, input, found->by_filters);
    write(dx, from, filters, found->by_input);
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_by_dnnl

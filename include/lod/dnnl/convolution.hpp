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

  /// The convolution whose gradient with respect to its images conv2d_transpose is.
  static Convolution transposed(const operators_of_programs::TransposedConvolution& of, const Shape& images,
                                const Shape& filters) {
    const auto made = of.results(images, filters);
    return Convolution(Shape(made), filters, of.options_for(images, filters), of.groups());
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

/// conv2d and depthwise_conv2d; `own` runs what oneDNN does not take.
inline RunOperator<> conv2d(const OperatorArguments& op, const RunOperator<>& own) {
  struct Made {
    Shape shape;
    Computation forward;
  };
  const Slot x = op.input("Input"), filter = op.input("Filter"), out = op.output("Output");
  return [=, options = operators_of_programs::WindowOptions(op.desc()), groups = operators_of_programs::groups_of(op),
          made = MadeForShapes<Made, 2>()](OperatorCall<>& call) mutable {
    const AnyLoDTensor &from = call.tensor(x), &by = call.tensor(filter);
    if (!are_floats({&from, &by})) return own(call);
    const auto* const found = made.find(call.executor(), {from.shape(), by.shape()}, [&]() -> std::optional<Made> {
      const Convolution of(from.shape(), by.shape(), options, groups);
      if (!of.is_ordinary()) return std::nullopt;
      return Made{of.shape(), of.forward()};
    });
    if (!found) return own(call);
    const void *const images = from.bytes().data(), *const filters = by.bytes().data();
    auto y = call.output_bytes(out, DataType::FP32, found->shape, from);
    found->forward.run(call.executor(), {images, filters, y.template elements<float>()});
  };
}

/// Their gradients.
inline RunOperator<> conv2d_grad(const OperatorArguments& op, const RunOperator<>& own) {
  struct Made {
    Shape shape;
    std::optional<Computation> by_images;
    std::optional<Computation> by_filters;
  };
  const Slot x = op.input("Input"), filter = op.input("Filter"), dy = op.input("Output@GRAD");
  const Slot dx = op.optional_output("Input@GRAD"), dfilter = op.optional_output("Filter@GRAD");
  return [=, options = operators_of_programs::WindowOptions(op.desc()), groups = operators_of_programs::groups_of(op),
          made = MadeForShapes<Made, 2>()](OperatorCall<>& call) mutable {
    const AnyLoDTensor from = call.tensor(x), by = call.tensor(filter);
    if (!are_floats({&from, &by})) return own(call);
    const auto* const found = made.find(call.executor(), {from.shape(), by.shape()}, [&]() -> std::optional<Made> {
      const Convolution of(from.shape(), by.shape(), options, groups);
      if (!of.is_ordinary()) return std::nullopt;
      Made both{of.shape(), std::nullopt, std::nullopt};
      if (dx) both.by_images = of.gradient_by_images();
      if (dfilter) both.by_filters = of.gradient_by_filters();
      return both;
    });
    if (!found) return own(call);
    const void *const images = from.bytes().data(), *const filters = by.bytes().data();
    const void* const given = operators_of_programs::numbers_of<float>(call, dy, found->shape);
    const auto write = [&](const Slot& slot, const AnyLoDTensor& like, const void* other, const auto& computation) {
      if (!slot) return;
      auto y = call.output_bytes(slot, DataType::FP32, like.lod(), like.row_shape(), like.rows());
      computation->run(call.executor(), {other, given, y.template elements<float>()});
    };
    write(dfilter, by, images, found->by_filters);
    write(dx, from, filters, found->by_images);
  };
}

/// conv2d_transpose and depthwise_conv2d_transpose.
inline RunOperator<> conv2d_transpose(const OperatorArguments& op, const RunOperator<>& own) {
  struct Made {
    Shape shape;
    Computation by_images;
  };
  const Slot x = op.input("Input"), filter = op.input("Filter"), out = op.output("Output");
  return [=, transposed = operators_of_programs::TransposedConvolution(op),
          made = MadeForShapes<Made, 2>()](OperatorCall<>& call) mutable {
    const AnyLoDTensor &from = call.tensor(x), &by = call.tensor(filter);
    if (!are_floats({&from, &by})) return own(call);
    const auto* const found = made.find(call.executor(), {from.shape(), by.shape()}, [&]() -> std::optional<Made> {
      const Convolution of = Convolution::transposed(transposed, from.shape(), by.shape());
      if (!of.is_ordinary()) return std::nullopt;
      return Made{of.image_shape(), of.gradient_by_images()};
    });
    if (!found) return own(call);
    const void *const images = from.bytes().data(), *const filters = by.bytes().data();
    auto y = call.output_bytes(out, DataType::FP32, found->shape, from);
    found->by_images.run(call.executor(), {filters, images, y.template elements<float>()});
  };
}

/// Their gradients.
inline RunOperator<> conv2d_transpose_grad(const OperatorArguments& op, const RunOperator<>& own) {
  struct Made {
    Shape shape;
    std::optional<Computation> forward;
    std::optional<Computation> by_filters;
  };
  const Slot x = op.input("Input"), filter = op.input("Filter"), dy = op.input("Output@GRAD");
  const Slot dx = op.optional_output("Input@GRAD"), dfilter = op.optional_output("Filter@GRAD");
  return [=, transposed = operators_of_programs::TransposedConvolution(op),
          made = MadeForShapes<Made, 2>()](OperatorCall<>& call) mutable {
    const AnyLoDTensor from = call.tensor(x), by = call.tensor(filter);
    if (!are_floats({&from, &by})) return own(call);
    const auto* const found = made.find(call.executor(), {from.shape(), by.shape()}, [&]() -> std::optional<Made> {
      const Convolution of = Convolution::transposed(transposed, from.shape(), by.shape());
      if (!of.is_ordinary()) return std::nullopt;
      Made both{of.image_shape(), std::nullopt, std::nullopt};
      if (dx) both.forward = of.forward();
      if (dfilter) both.by_filters = of.gradient_by_filters();
      return both;
    });
    if (!found) return own(call);
    const void *const images = from.bytes().data(), *const filters = by.bytes().data();
    const void* const given = operators_of_programs::numbers_of<float>(call, dy, found->shape);
    const auto write = [&](const Slot& slot, const AnyLoDTensor& like, const void* other, const auto& computation) {
      if (!slot) return;
      auto y = call.output_bytes(slot, DataType::FP32, like.lod(), like.row_shape(), like.rows());
      computation->run(call.executor(), {given, other, y.template elements<float>()});
    };
    write(dfilter, by, images, found->by_filters);
    write(dx, from, filters, found->forward);
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_by_dnnl

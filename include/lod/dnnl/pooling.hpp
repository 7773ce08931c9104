// SPDX-License-Identifier: Apache-2.0
/// @file
/// pool2d and its gradient, by oneDNN.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/data_type.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/dnnl/computation.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/pooling.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/windows.hpp>

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_by_dnnl {

/// A pooling of images of one shape, as oneDNN describes it.
class Pooling {
  using Dims = dnnl::memory::dims;
  using ImagePoolOptions = operators_of_programs::ImagePoolOptions;
  using Side = operators_of_programs::WindowsAlongSide;
#if DNNL_VERSION_MAJOR >= 3
  using Forward = dnnl::pooling_forward;
  using Backward = dnnl::pooling_backward;
#else
  using Forward = dnnl::pooling_v2_forward;
  using Backward = dnnl::pooling_v2_backward;
#endif

  static std::int64_t after(const Side& side) noexcept {
    return std::max<std::int64_t>(side.pixel(side.count - 1, 0) + side.window - side.size, 0);
  }
  /// The parameters that all of its primitives share.
  auto arguments() const {
    return std::tuple(x_, y_, Dims{vertical_.stride, horizontal_.stride}, Dims{vertical_.window, horizontal_.window},
                      Dims{0, 0}, Dims{vertical_.before, horizontal_.before},
                      Dims{after(vertical_), after(horizontal_)});
  }
  Forward::primitive_desc description(dnnl::prop_kind kind) const {
    return describe<Forward>(std::tuple_cat(std::tuple(kind, algorithm_), arguments()));
  }

 public:
  /// Throws ShapeMismatch unless there are windows.
  Pooling(const Shape& images, const ImagePoolOptions& options)
      : of_(images, options),
        vertical_(options.along(0, of_.x.height)),
        horizontal_(options.along(1, of_.x.width)),
        is_ordinary_(operators_by_dnnl::is_ordinary(images) && operators_by_dnnl::is_ordinary(of_.shape) &&
                     !options.shares_images() && fits(vertical_, options) && fits(horizontal_, options)),
        algorithm_(options.is_max()            ? dnnl::algorithm::pooling_max
                   : options.counts_paddings() ? dnnl::algorithm::pooling_avg_include_padding
                                               : dnnl::algorithm::pooling_avg_exclude_padding),
        x_(layout_of(of_.x, options)),
        y_(layout_of(of_.y, options)) {}

  /// The shape of the results.
  const Shape& shape() const noexcept { return of_.shape; }
  /// Whether oneDNN can compute it.
  bool is_ordinary() const noexcept { return is_ordinary_; }

  /// From images to results.
  Computation forward() const {
    Computation made(description(dnnl::prop_kind::forward_inference));
    made.add(DNNL_ARG_SRC, x_, x_);
    made.add_output(DNNL_ARG_DST, y_, y_);
    return made;
  }
  /// From images to results and the pixels that they come from.
  Computation forward_of_greatest() const {
    const auto of = description(dnnl::prop_kind::forward_training);
    Computation made(of);
    made.add(DNNL_ARG_SRC, x_, x_);
    made.add_output(DNNL_ARG_DST, y_, y_);
    made.add_output(DNNL_ARG_WORKSPACE, of.workspace_desc(), of.workspace_desc());
    return made;
  }
  /// The bytes that describe these pixels; 0 for means.
  std::int64_t places() const {
    const auto of = description(dnnl::prop_kind::forward_training);
    return algorithm_ == dnnl::algorithm::pooling_max ? static_cast<std::int64_t>(of.workspace_desc().get_size()) : 0;
  }
  /// From the gradient with respect to the results, and for maxima their pixels, to that with respect to the images.
  Computation gradient() const {
    const auto forward = description(dnnl::prop_kind::forward_training);
    const auto of = describe<Backward>(std::tuple_cat(std::tuple(algorithm_), arguments()), forward);
    Computation made(of);
    made.add(DNNL_ARG_DIFF_DST, y_, y_);
    if (algorithm_ == dnnl::algorithm::pooling_max) {
      made.add(DNNL_ARG_WORKSPACE, forward.workspace_desc(), forward.workspace_desc());
    }
    made.add_output(DNNL_ARG_DIFF_SRC, x_, x_);
    return made;
  }

 private:
  static Layout layout_of(const operators_of_programs::ImageLayout& of, const ImagePoolOptions& options) {
    return layout({of.images, of.channels, of.height, of.width},
                  options.windows().channels_last() ? dnnl::memory::format_tag::nhwc : dnnl::memory::format_tag::nchw);
  }
  /// Whether every window has pixels, and oneDNN computes the same means.
  static bool fits(const Side& side, const ImagePoolOptions& options) noexcept {
    if (!operators_by_dnnl::is_ordinary(side)) return false;
    const std::int64_t begin = side.pixel(side.count - 1, 0),
                       all = options.counts_paddings() ? side.before : side.window;
    return side.before < side.window && begin < side.size && begin + side.window <= side.size + all;
  }
  operators_of_programs::Pooling of_;
  Side vertical_;
  Side horizontal_;
  bool is_ordinary_;
  dnnl::algorithm algorithm_;
  Layout x_;
  Layout y_;
};

/// pool2d; `own` runs what oneDNN does not take.
inline RunOperator<> pool2d(const OperatorArguments& op, const RunOperator<>& own) {
  struct Made {
    Shape shape;
    Computation forward;
  };
  const Slot x = op.input("X"), out = op.output("Out");
  return [=, options = operators_of_programs::ImagePoolOptions(op.desc()),
          made = MadeForShapes<Made, 1>()](OperatorCall<>& call) mutable {
    const AnyLoDTensor& from = call.tensor(x);
    if (!are_floats({&from})) return own(call);
    const auto* const found = made.find(call.executor(), {from.shape()}, [&]() -> std::optional<Made> {
      const Pooling of(from.shape(), options);
      if (!of.is_ordinary()) return std::nullopt;
      return Made{of.shape(), of.forward()};
    });
    if (!found) return own(call);
    const void* const images = from.bytes().data();
    auto y = call.output_bytes(out, DataType::FP32, found->shape, from);
    found->forward.run(call.executor(), {images, y.template elements<float>()});
  };
}

/// The gradient of pool2d. It pools again to find the greatest pixels.
inline RunOperator<> pool2d_grad(const OperatorArguments& op, const RunOperator<>& own) {
  struct Made {
    Shape shape;
    std::int64_t places;
    std::optional<Computation> greatest;
    Computation gradient;
  };
  const Slot x = op.input("X"), y = op.input("Out"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  return [=, options = operators_of_programs::ImagePoolOptions(op.desc()),
          made = MadeForShapes<Made, 1>()](OperatorCall<>& call) mutable {
    const AnyLoDTensor& from = call.tensor(x);
    if (!are_floats({&from})) return own(call);
    const auto* const found = made.find(call.executor(), {from.shape()}, [&]() -> std::optional<Made> {
      const Pooling of(from.shape(), options);
      if (!of.is_ordinary()) return std::nullopt;
      Made both{of.shape(), of.places(), std::nullopt, of.gradient()};
      if (options.is_max()) both.greatest = of.forward_of_greatest();
      return both;
    });
    if (!found) return own(call);
    const void* const images = from.bytes().data();
    static_cast<void>(operators_of_programs::numbers_of<float>(call, y, found->shape));
    const void* const given = operators_of_programs::numbers_of<float>(call, dy, found->shape);
    const Workspace::Loan<float> pooled(call.executor().workspace(), found->greatest ? found->shape.elements() : 0);
    const Workspace::Loan<std::byte> places(call.executor().workspace(), found->places);
    auto written = call.output_bytes(dx, DataType::FP32, from.lod(), from.row_shape(), from.rows());
    float* const to = written.template elements<float>();
    if (found->greatest) {
      found->greatest->run(call.executor(), {images, pooled.data(), places.data()});
      found->gradient.run(call.executor(), {given, places.data(), to});
    } else {
      found->gradient.run(call.executor(), {given, to});
    }
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_by_dnnl

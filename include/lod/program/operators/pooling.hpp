// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that pool pixels of images: pool2d, and its gradient.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/windows.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// A window of an image: where its pixels are in the images, and where its result is.
struct PooledWindow {
  std::int64_t channel;  ///< where its channel begins in the images
  PooledPixels rows;
  PooledPixels columns;
  std::int64_t result;

  bool is_empty() const noexcept { return rows.begin >= rows.end || columns.begin >= columns.end; }
};

/// The windows of images of a shape.
class Pooling {
 public:
  /// Throws ShapeMismatch unless there are windows.
  Pooling(const Shape& images, const ImagePoolOptions& options)
      : shape(result(images, options)),
        x(images, options.windows()),
        y(shape, options.windows()),
        options_(options),
        vertical_(options.along(0, x.height)),
        horizontal_(options.along(1, x.width)) {}

  Shape shape;    ///< of the result
  ImageLayout x;  ///< the images
  ImageLayout y;  ///< the result

  /// Calls f(PooledWindow) for each.
  template <class F>
  void for_each(const F& f) const noexcept {
    if (shape.elements() == 0) return;  // other dimensions may be greater than any memory
    for (std::int64_t image = 0; image < x.images; ++image) {
      for (std::int64_t channel = 0; channel < x.channels; ++channel) {
        const std::int64_t first = image * x.image + channel * x.channel;
        const std::int64_t place = image * y.image + channel * y.channel;
        for (std::int64_t i = 0; i < y.height; ++i) {
          const PooledPixels rows = options_.pixels(vertical_, i);
          for (std::int64_t j = 0; j < y.width; ++j) {
            f(PooledWindow{first, rows, options_.pixels(horizontal_, j), place + i * y.row + j * y.pixel});
          }
        }
      }
    }
  }
  /// Calls f(place) for each pixel of a window in the images, from left to right and from top to bottom.
  template <class F>
  void for_each_pixel(const PooledWindow& window, const F& f) const noexcept {
    for (std::int64_t row = window.rows.begin; row < window.rows.end; ++row) {
      std::int64_t place = window.channel + row * x.row + window.columns.begin * x.pixel;
      for (std::int64_t column = window.columns.begin; column < window.columns.end; ++column, place += x.pixel) {
        f(place);
      }
    }
  }
  /// By what the sum over a window is divided to be the mean.
  template <class T>
  T divisor(const PooledWindow& window) const noexcept {
    const PooledPixels &rows = window.rows, &columns = window.columns;
    return static_cast<T>(options_.counts_paddings() ? rows.all * columns.all
                                                     : (rows.end - rows.begin) * (columns.end - columns.begin));
  }

 private:
  static Shape result(const Shape& images, const ImagePoolOptions& options) {
    if (images.size() != 4) {
      throw ShapeMismatch(
          detail::text({"images of shape ", to_string(images), ", expected {images, channels, height, width}"}));
    }
    const WindowOptions& windows = options.windows();
    const std::int64_t channels = images[windows.channel_dim()];
    const std::int64_t height = options.along(0, images[windows.dim(0)]).count,
                       width = options.along(1, images[windows.dim(1)]).count;
    return windows.channels_last() ? Shape{images[0], height, width, channels}
                                   : Shape{images[0], channels, height, width};
  }

  ImagePoolOptions options_;
  WindowsAlongSide vertical_;
  WindowsAlongSide horizontal_;
};

/// pool2d: X -> Out; attributes as ImagePoolOptions; data_format = "NCHW" or "NHWC". A window without pixels has the
/// mean 0 and the greatest number -infinity.
template <Executor E>
RunOperator<E> pool2d(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=, options = ImagePoolOptions(op.desc())](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Pooling of(from.shape(), options);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const images = call.template view<T>(x).data();
      auto y = call.output_bytes(out, from.data_type(), of.shape, from);
      T* const to = y.template elements<T>();
      of.for_each([&](const PooledWindow& window) {
        if (options.is_max()) {
          T greatest = window.is_empty() ? std::numeric_limits<T>::lowest() : -std::numeric_limits<T>::infinity();
          bool has_nan = false;  // without a jump, of which random numbers would mispredict many
          of.for_each_pixel(window, [&](std::int64_t i) {
            greatest = greatest < images[i] ? images[i] : greatest;
            has_nan |= std::isnan(images[i]);
          });
          to[window.result] = has_nan ? std::numeric_limits<T>::quiet_NaN() : greatest;
        } else {
          double total = 0;
          of.for_each_pixel(window, [&](std::int64_t i) { total += static_cast<double>(images[i]); });
          to[window.result] = window.is_empty() ? T{0} : static_cast<T>(total / of.template divisor<double>(window));
        }
      });
    });
  };
}

/// pool2d_grad: X, Out, Out@GRAD -> X@GRAD; attributes as `pool2d`. The greatest number of a window, the first of
/// several, has its gradient.
template <Executor E>
RunOperator<E> pool2d_grad(const OperatorArguments& op) {
  const Slot x = op.input("X"), y = op.input("Out"), dy = op.input("Out@GRAD"), dx = op.output("X@GRAD");
  return [=, options = ImagePoolOptions(op.desc())](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Pooling of(from.shape(), options);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const images = call.template view<T>(x).data();
      const T *const pooled = numbers_of<T>(call, y, of.shape), *const given = numbers_of<T>(call, dy, of.shape);
      write_added<T>(call, dx, from, [&](T* to) {
        of.for_each([&](const PooledWindow& window) {
          if (window.is_empty()) return;
          const T slope = given[window.result], greatest = pooled[window.result];
          if (options.is_max()) {
            std::int64_t winner = -1;
            of.for_each_pixel(window, [&](std::int64_t i) {
              const bool is_it = images[i] == greatest || (std::isnan(images[i]) && std::isnan(greatest));
              if (is_it && winner < 0) winner = i;
            });
            if (winner >= 0) to[winner] += slope;
          } else {
            const T share = slope / of.template divisor<T>(window);
            of.for_each_pixel(window, [&](std::int64_t i) { to[i] += share; });
          }
        });
      });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

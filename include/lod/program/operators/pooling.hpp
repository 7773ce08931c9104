// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that pool pixels of images: pool2d, and its gradient.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/new_offsets.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/wide.hpp>
#include <lod/program/operators/windows.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Max pooling of a window: the greatest number; NaN if one is NaN; the lowest number of the type if there are no
/// pixels.
template <class T>
struct GreatestOfWindow {
  using Partial = T;
  static constexpr Partial none = -std::numeric_limits<T>::infinity();
  static Partial with(Partial greatest, Partial more) noexcept {
    const Partial kept = greatest < more ? more : greatest;  // branch-free: jumps would often be mispredicted
    return std::isnan(more) ? more : kept;
  }
  static T result(Partial greatest, bool is_empty, std::int64_t) noexcept {
    return is_empty ? std::numeric_limits<T>::lowest() : greatest;
  }
};
/// The mean of a window; 0 without pixels.
template <class T>
struct MeanOfWindow {
  using Partial = Wide<T>;
  static constexpr Partial none = 0;
  static Partial with(Partial total, Partial more) noexcept { return total + more; }
  static T result(Partial total, bool, std::int64_t divisor) noexcept {
    return static_cast<T>(total / static_cast<Partial>(divisor));
  }
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

  /// The adjacent numbers of a pixel: its channels if they are the last dimension, otherwise 1.
  std::int64_t lanes() const noexcept { return x.pixel; }
  std::int64_t line() const noexcept { return x.width * lanes(); }  ///< the numbers in a row of pixels

  const WindowsAlongSide& horizontal() const noexcept { return horizontal_; }
  PooledPixels rows(std::int64_t i) const noexcept { return options_.pixels(vertical_, i); }
  PooledPixels columns(std::int64_t j) const noexcept { return options_.pixels(horizontal_, j); }
  /// The divisor of the sum over a window; at least 1, even without pixels.
  std::int64_t divisor(const PooledPixels& rows, const PooledPixels& columns) const noexcept {
    const std::int64_t pixels =
        options_.counts_paddings() ? rows.all * columns.all : (rows.end - rows.begin) * (columns.end - columns.begin);
    return std::max<std::int64_t>(pixels, 1);
  }

  /// Calls f(first number of x, first number of y, part) for each channel of each image or, with channels last, for
  /// each image, on all threads; calls that run at the same time have different parts.
  template <class E, class F>
  void for_each_image(const E& executor, const F& f) const {
    launch(kernel::ForEachRange(), executor, count(), bytes(),
           [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
             const std::int64_t size = x.height * line(), result = y.height * y.width * lanes();
             for (std::int64_t i = begin; i < end; ++i) f(i * size, i * result, part);
           });
  }
  /// The numbers in lines of pixels, or of results, one line for each part.
  template <class E>
  std::int64_t lines(const E& executor, const ImageLayout& of) const noexcept {
    return count() == 0 ? 0 : of.width * lanes() * launch(kernel::RangeCount(), executor, count(), bytes());
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

  /// If there is nothing to compute, the other dimensions may exceed any memory.
  std::int64_t count() const noexcept { return shape.elements() > 0 ? x.images * x.channels / lanes() : 0; }
  std::int64_t bytes() const noexcept {
    return count() * x.height * line() * static_cast<std::int64_t>(sizeof(double));
  }

  ImagePoolOptions options_;
  WindowsAlongSide vertical_;
  WindowsAlongSide horizontal_;
};

/// Pools images: first over the rows of windows, into lines of pixels, then over their columns.
template <class Pool, class E, class T>
void pool(const E& executor, const Pooling& of, const T* images, typename Pool::Partial* lines, T* to) {
  using A = typename Pool::Partial;
  const std::int64_t size = of.line(), lanes = of.lanes();
  of.for_each_image(executor, [&](std::int64_t first, std::int64_t result, std::int64_t part) {
    A* const line = lines + part * size;
    for (std::int64_t i = 0; i < of.y.height; ++i) {
      const PooledPixels rows = of.rows(i);
      std::fill_n(line, size, Pool::none);
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        const T* const pixels = images + first + row * size;
        for (std::int64_t k = 0; k < size; ++k) line[k] = Pool::with(line[k], static_cast<A>(pixels[k]));
      }
      for (std::int64_t j = 0; j < of.y.width; ++j) {
        const PooledPixels columns = of.columns(j);
        const bool is_empty = rows.begin >= rows.end || columns.begin >= columns.end;
        const std::int64_t divisor = of.divisor(rows, columns);
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
          A pooled = Pool::none;
          for (std::int64_t column = columns.begin; column < columns.end; ++column) {
            pooled = Pool::with(pooled, line[column * lanes + lane]);
          }
          to[result++] = Pool::result(pooled, is_empty, divisor);
        }
      }
    }
  });
}

/// pool2d: X -> Out; attributes as ImagePoolOptions; data_format = "NCHW" or "NHWC". A window without pixels has the
/// mean 0, and as its maximum the lowest number of the type.
template <Executor E>
RunOperator<E> pool2d(const OperatorArguments& op) {
  const Slot x = op.input("X"), out = op.output("Out");
  return [=, options = ImagePoolOptions(op.desc())](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Pooling of(from.shape(), options);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const images = call.template view<T>(x).data();
      const auto run = [&]<class Pool>(Pool) {
        const Workspace::Loan<typename Pool::Partial> lines(call.executor().workspace(),
                                                            of.lines(call.executor(), of.x));
        auto y = call.output_bytes(out, from.data_type(), of.shape, from);
        pool<Pool>(call.executor(), of, images, lines.data(), y.template elements<T>());
      };
      options.is_max() ? run(GreatestOfWindow<T>()) : run(MeanOfWindow<T>());
    });
  };
}

/// Adds the gradient of each window to that of its greatest pixel, the first of equal ones. The places of these pixels
/// are found for all windows of a row together, trying pixel k of each window from the last k to the first, so that the
/// first place remains. `places` has a line of results for each part.
template <class E, class T>
void add_to_greatest(const E& executor, const Pooling& of, const T* images, const T* pooled, const T* given,
                     std::int64_t* places, T* to) {
  const std::int64_t size = of.line(), lanes = of.lanes(), results = of.y.width * lanes;
  const WindowsAlongSide& side = of.horizontal();
  // Adjacent windows or, with channels last, the channels of one window.
  const std::int64_t run = lanes == 1 ? of.y.width : lanes, step = lanes == 1 ? side.stride : 1;
  of.for_each_image(executor, [&](std::int64_t first, std::int64_t result, std::int64_t part) {
    const T* const image = images + first;
    std::int64_t* const found = places + part * results;
    for (std::int64_t i = 0; i < of.y.height; ++i, result += results) {
      const PooledPixels rows = of.rows(i);
      const T* const greatest = pooled + result;
      std::fill_n(found, results, std::int64_t{-1});
      for (std::int64_t row = rows.end; row-- > rows.begin;) {
        for (std::int64_t k = side.window; k-- > 0;) {
          const std::int64_t begin = side.first(k) * lanes, end = side.last(k) * lanes;
          if (begin == end) {  // if windows are larger than images, most of their pixels are outside
            if (end == results) break;
            k -= side.pixel(end / lanes, k) - side.size;
          }
          for (std::int64_t j = begin; j < end; j += run) {
            const std::int64_t place = row * size + side.pixel(j / lanes, k) * lanes, stop = std::min(run, end - j);
            for (std::int64_t n = 0; n < stop; ++n) {
              const T number = image[place + n * step], other = greatest[j + n];
              const bool is_it = (number == other) | ((number != number) & (other != other));  // branch-free
              const std::int64_t mask = -static_cast<std::int64_t>(is_it);
              found[j + n] = ((place + n * step) & mask) | (found[j + n] & ~mask);
            }
          }
        }
      }
      for (std::int64_t j = 0; j < results; ++j) {
        if (found[j] >= 0) to[first + found[j]] += given[result + j];
      }
    }
  });
}
/// Adds to the gradient of each pixel its share of the gradient of each window: first collects the shares of a row of
/// windows in a line of pixels, then adds that line to all rows of pixels under the windows.
template <class E, class T>
void add_to_all(const E& executor, const Pooling& of, const T* given, T* lines, T* to) {
  const std::int64_t size = of.line(), lanes = of.lanes();
  of.for_each_image(executor, [&](std::int64_t first, std::int64_t result, std::int64_t part) {
    T* const line = lines + part * size;
    for (std::int64_t i = 0; i < of.y.height; ++i) {
      const PooledPixels rows = of.rows(i);
      std::fill_n(line, size, T{0});
      for (std::int64_t j = 0; j < of.y.width; ++j, result += lanes) {
        const PooledPixels columns = of.columns(j);
        const auto divisor = static_cast<T>(of.divisor(rows, columns));
        for (std::int64_t column = columns.begin; column < columns.end; ++column) {
          for (std::int64_t lane = 0; lane < lanes; ++lane)
            line[column * lanes + lane] += given[result + lane] / divisor;
        }
      }
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        for (std::int64_t k = 0; k < size; ++k) to[first + row * size + k] += line[k];
      }
    }
  });
}

/// pool2d_grad: X, Out, Out@GRAD -> X@GRAD; attributes as `pool2d`. The gradient of a window goes to its greatest
/// number, the first of equal ones.
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
      const Workspace::Loan<std::int64_t> places(call.executor().workspace(),
                                                 options.is_max() ? of.lines(call.executor(), of.y) : 0);
      const Workspace::Loan<T> lines(call.executor().workspace(),
                                     options.is_max() ? 0 : of.lines(call.executor(), of.x));
      write_added<T>(call, dx, from, [&](T* to) {
        options.is_max() ? add_to_greatest(call.executor(), of, images, pooled, given, places.data(), to)
                         : add_to_all(call.executor(), of, given, lines.data(), to);
      });
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

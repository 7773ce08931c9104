// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operators that are convolutions of images: conv2d, conv2d_transpose, depthwise_conv2d, and their gradients. They are
/// computed as products of matrices: the pixels under the windows are copied to the columns of a matrix, some windows
/// at a time.
#pragma once

#include <lod/core/any_tensor.hpp>
#include <lod/core/error.hpp>
#include <lod/core/executor.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/new_offsets.hpp>
#include <lod/program/operator.hpp>
#include <lod/program/operators/shapes.hpp>
#include <lod/program/operators/windows.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// Windows [begin, begin + count) of an image, for the channels and the results of one group.
struct ConvolutionTile {
  std::int64_t image;
  std::int64_t group;
  std::int64_t begin;
  std::int64_t count;
};

/// A convolution of images by filters, of given shapes.
class Convolution {
 public:
  /// Throws ShapeMismatch if images and filters do not fit.
  Convolution(const Shape& pixels, const Shape& filters, const WindowOptions& options, std::int64_t parts)
      : image_shape(pixels),
        shape(result(pixels, filters, options, parts)),
        x(pixels, options),
        y(shape, options),
        groups(parts),
        channels(filters[1]),
        results(filters[0] / parts),
        terms(filters.without_first().elements()),
        vertical_(options.along(0, x.height, filters[2])),
        horizontal_(options.along(1, x.width, filters[3])) {}

  Shape image_shape;      ///< of the images
  Shape shape;            ///< of the result
  ImageLayout x;          ///< the images
  ImageLayout y;          ///< the result
  std::int64_t groups;    ///< the number of groups of channels: a result depends only on the channels of its group
  std::int64_t channels;  ///< of a group
  std::int64_t results;   ///< of a group
  std::int64_t terms;     ///< of the sum for each number of the result

  /// Whether each window is one pixel, in the order of the pixels: then the images themselves are the columns.
  bool is_of_pixels() const noexcept {
    return terms == channels && x.pixel == 1 && y.height == x.height && y.width == x.width && vertical_.before == 0 &&
           vertical_.stride == 1 && horizontal_.before == 0 && horizontal_.stride == 1;
  }
  /// The numbers in the columns of the largest tile: a few MiB, unless a filter alone is larger.
  std::int64_t largest_tile() const noexcept { return terms * windows_at_a_time(); }
  /// Calls f(ConvolutionTile) for each tile.
  template <class F>
  void for_each_tile(const F& f) const {
    // If there is nothing to compute, the other dimensions may exceed any memory.
    if (shape.elements() == 0) return;
    const std::int64_t windows = y.height * y.width, step = windows_at_a_time();
    for (std::int64_t image = 0; image < x.images; ++image) {
      for (std::int64_t group = 0; group < groups; ++group) {
        for (std::int64_t begin = 0; begin < windows; begin += step) {
          f(ConvolutionTile{image, group, begin, std::min(step, windows - begin)});
        }
      }
    }
  }

  /// The positions of a tile's numbers in the images, in the result, and in the filters.
  std::int64_t first_pixel(const ConvolutionTile& tile) const noexcept {
    return tile.image * x.image + tile.group * channels * x.channel;
  }
  std::int64_t first_result(const ConvolutionTile& tile) const noexcept {
    return tile.image * y.image + tile.group * results * y.channel + tile.begin * y.pixel;
  }
  std::int64_t first_filter(const ConvolutionTile& tile) const noexcept { return tile.group * results * terms; }

  /// Copies the pixels under the windows of a tile to columns: `terms` rows of tile.count numbers, with 0 outside of
  /// the images.
  template <class E, class T>
  void write_columns(const E& executor, const ConvolutionTile& tile, const T* images, T* columns) const {
    for_each_line(executor, tile, columns, [=, step = step_](T* to, const Line& line) {
      to = std::fill_n(to, line.before, T{0});
      const T* const from = images + line.pixel;
      if (step == 1) {
        to = std::copy_n(from, line.count, to);
      } else {
        for (std::int64_t i = 0; i < line.count; ++i) *to++ = from[i * step];
      }
      std::fill_n(to, line.after, T{0});
    });
  }
  /// Adds columns to the pixels that they were copied from: the gradient of `write_columns`.
  template <class E, class T>
  void add_columns(const E& executor, const ConvolutionTile& tile, const T* columns, T* images) const {
    for_each_line(executor, tile, columns, [=, step = step_](const T* from, const Line& line) {
      T* const to = images + line.pixel;
      for (std::int64_t i = 0; i < line.count; ++i) to[i * step] += from[line.before + i];
    });
  }

 private:
  static Shape result(const Shape& images, const Shape& filters, const WindowOptions& options, std::int64_t parts) {
    const bool has_dims = images.size() == 4 && filters.size() == 4;
    const std::int64_t channels = has_dims ? images[options.channel_dim()] : 0;
    if (!has_dims || channels % parts != 0 || channels / parts != filters[1] || filters[0] % parts != 0) {
      throw ShapeMismatch(
          detail::text({"images of shape ", to_string(images), ", filters of shape ", to_string(filters), ", ", parts,
                        " groups: expected 4 dimensions, and as many channels and filters a group as those have"}));
    }
    const std::int64_t height = options.along(0, images[options.dim(0)], filters[2]).count,
                       width = options.along(1, images[options.dim(1)], filters[3]).count;
    return options.channels_last() ? Shape{images[0], height, width, filters[0]}
                                   : Shape{images[0], filters[0], height, width};
  }
  /// Few enough for their columns to stay in a cache, and enough for efficient products.
  std::int64_t windows_at_a_time() const noexcept {
    constexpr std::int64_t numbers = std::int64_t{1} << 18, most = 4096;
    return std::clamp<std::int64_t>(numbers / std::max<std::int64_t>(terms, 1), 1,
                                    std::clamp<std::int64_t>(y.height * y.width, 1, most));
  }
  /// Part of a row of windows: `count` of them are over pixels, from `pixel` on; those before and after them are
  /// outside of the images.
  struct Line {
    std::int64_t before;
    std::int64_t count;
    std::int64_t after;
    std::int64_t pixel;
  };
  /// Calls f(its place in the columns, Line) for the windows of a tile in each row of windows, for each term. Threads
  /// share the channels.
  template <class E, class T, class F>
  void for_each_line(const E& executor, const ConvolutionTile& tile, T* columns, const F& f) const {
    launch(kernel::ForEachRange(), executor, channels, terms * tile.count * static_cast<std::int64_t>(sizeof(T)),
           [&](std::int64_t, std::int64_t begin, std::int64_t end) {
             for_each_line_of(tile, begin, end, columns + vertical_.window * horizontal_.window * begin * tile.count,
                              f);
           });
  }
  template <class T, class F>
  void for_each_line_of(const ConvolutionTile& tile, std::int64_t first_channel, std::int64_t last_channel, T* columns,
                        const F& f) const noexcept {
    const std::int64_t end = tile.begin + tile.count;
    for (std::int64_t channel = first_channel; channel < last_channel; ++channel) {
      for (std::int64_t i = 0; i < vertical_.window; ++i) {
        for (std::int64_t j = 0; j < horizontal_.window; ++j) {
          const std::int64_t first = horizontal_.first(j), last = horizontal_.last(j);
          std::int64_t row = tile.begin / y.width;
          for (std::int64_t at = tile.begin; at < end; ++row) {
            const std::int64_t line = row * y.width, stop = std::min(end, line + y.width);
            const std::int64_t height = vertical_.pixel(row, i);
            const bool is_inside = height >= 0 && height < x.height;
            const std::int64_t from = is_inside ? std::clamp(line + first, at, stop) : stop;
            const std::int64_t to = std::clamp(line + last, from, stop);
            f(columns, Line{from - at, to - from, stop - to,
                            channel * x.channel + height * x.row + horizontal_.pixel(from - line, j) * x.pixel});
            columns += stop - at;
            at = stop;
          }
        }
      }
    }
  }

  WindowsAlongSide vertical_;
  WindowsAlongSide horizontal_;
  std::int64_t step_ = horizontal_.stride * x.pixel;  ///< between the pixels of adjacent windows
};

/// The products of a convolution, on the CPU.
template <class E, class T>
class ConvolutionProducts {
 public:
  /// `of` must outlive this object. Without columns, only results of pixels can be computed.
  ConvolutionProducts(const OperatorCall<E>& call, const Convolution& of, bool has_columns = true)
      : executor_(call.executor()), of_(of), columns_(executor_.workspace(), has_columns ? of.largest_tile() : 0) {}

  /// The results of images and filters.
  void results(const T* images, const T* filters, T* results) const {
    of_.for_each_tile([&](const ConvolutionTile& tile) {
      const T *const source = images + of_.first_pixel(tile), *const weights = filters + of_.first_filter(tile);
      const bool is_direct = of_.is_of_pixels();
      const T* const columns = is_direct ? source + tile.begin : columns_.data();
      const std::int64_t step = is_direct ? of_.x.channel : tile.count;
      T* const to = results + of_.first_result(tile);
      if (!is_direct) of_.write_columns(executor_, tile, source, columns_.data());
      if (!is_transposed_) {
        operation::matrix_product<E, T>(executor_, false, false, of_.results, tile.count, of_.terms, 1, weights,
                                        of_.terms, columns, step, 0, to, of_.y.channel);
      } else {
        operation::matrix_product<E, T>(executor_, true, true, tile.count, of_.results, of_.terms, 1, columns, step,
                                        weights, of_.terms, 0, to, of_.y.pixel);
      }
    });
  }
  /// Adds the gradient with respect to the filters, which belong to all windows.
  void add_to_filters(const T* images, const T* dresults, T* dfilters) const {
    of_.for_each_tile([&](const ConvolutionTile& tile) {
      of_.write_columns(executor_, tile, images + of_.first_pixel(tile), columns_.data());
      operation::matrix_product<E, T>(executor_, is_transposed_, true, of_.results, of_.terms, tile.count, 1,
                                      dresults + of_.first_result(tile), step_, columns_.data(), tile.count, 1,
                                      dfilters + of_.first_filter(tile), of_.terms);
    });
  }
  /// Adds the gradient with respect to the images, whose windows overlap.
  void add_to_images(const T* filters, const T* dresults, T* dimages) const {
    of_.for_each_tile([&](const ConvolutionTile& tile) {
      operation::matrix_product<E, T>(executor_, true, is_transposed_, of_.terms, tile.count, of_.results, 1,
                                      filters + of_.first_filter(tile), of_.terms, dresults + of_.first_result(tile),
                                      step_, 0, columns_.data(), tile.count);
      of_.add_columns(executor_, tile, columns_.data(), dimages + of_.first_pixel(tile));
    });
  }

 private:
  const E& executor_;
  const Convolution& of_;
  Workspace::Loan<T> columns_;
  // Rows of the gradient are results or, with channels last, windows.
  bool is_transposed_ = of_.y.pixel != 1;
  std::int64_t step_ = is_transposed_ ? of_.y.pixel : of_.y.channel;
};

/// conv2d: Input, Filter -> Output; groups = 1, data_format = "NCHW" or "NHWC", and the attributes of WindowOptions.
/// Filters are {results, channels of a group, height, width}. depthwise_conv2d is the same.
template <Executor E>
RunOperator<E> conv2d(const OperatorArguments& op) {
  for (const char* const input : {"Bias", "ResidualData"}) op.expect_no_input(input);
  for (const char* const fused : {"fuse_relu", "fuse_relu_before_depthwise_conv"}) op.expect_attr(fused, false);
  const Slot x = op.input("Input"), filter = op.input("Filter"), out = op.output("Output");
  return [=, options = WindowOptions(op.desc()), groups = groups_of(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Convolution of(from.shape(), call.tensor(filter).shape(), options, groups);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const images = call.template view<T>(x).data();
      const T* const filters = call.template view<T>(filter).data();
      const ConvolutionProducts<E, T> products(call, of, !of.is_of_pixels());
      auto y = call.output_bytes(out, from.data_type(), of.shape, from);
      products.results(images, filters, y.template elements<T>());
    });
  };
}

/// conv2d_grad: Input, Filter, Output@GRAD -> Input@GRAD?, Filter@GRAD?; attributes as `conv2d`.
template <Executor E>
RunOperator<E> conv2d_grad(const OperatorArguments& op) {
  const Slot x = op.input("Input"), filter = op.input("Filter"), dy = op.input("Output@GRAD");
  const Slot dx = op.optional_output("Input@GRAD"), dfilter = op.optional_output("Filter@GRAD");
  return [=, options = WindowOptions(op.desc()), groups = groups_of(op)](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(x), weights = call.tensor(filter);
    const Convolution of(from.shape(), weights.shape(), options, groups);
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const images = call.template view<T>(x).data();
      const T* const filters = call.template view<T>(filter).data();
      const T* const given = numbers_of<T>(call, dy, of.shape);
      const ConvolutionProducts<E, T> products(call, of);
      if (dfilter) {
        write_added<T>(call, dfilter, weights, [&](T* to) { products.add_to_filters(images, given, to); });
      }
      if (dx) write_added<T>(call, dx, from, [&](T* to) { products.add_to_images(filters, given, to); });
    });
  };
}

/// The convolution whose gradient with respect to its images conv2d_transpose is.
inline Convolution transposed_convolution(const TransposedConvolution& of, const Shape& images, const Shape& filters) {
  const auto made = of.results(images, filters);
  return Convolution(Shape(made), filters, of.options_for(images, filters), of.groups());
}

/// conv2d_transpose: Input, Filter -> Output: what the gradient of conv2d with respect to its images is. groups = 1,
/// output_size = {}, and the attributes of WindowOptions. Filters are {channels, results of a group, height, width}.
/// Several sizes of results have windows as many as there are pixels: the least is taken, or output_size.
/// depthwise_conv2d_transpose is the same.
template <Executor E>
RunOperator<E> conv2d_transpose(const OperatorArguments& op) {
  op.expect_no_input("Bias");
  op.expect_attr("fuse_relu", false);
  const Slot x = op.input("Input"), filter = op.input("Filter"), out = op.output("Output");
  return [=, transposed = TransposedConvolution(op)](OperatorCall<E>& call) {
    const AnyLoDTensor& from = call.tensor(x);
    const Convolution of = transposed_convolution(transposed, from.shape(), call.tensor(filter).shape());
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const images = numbers_of<T>(call, x, of.shape);
      const T* const filters = call.template view<T>(filter).data();
      const ConvolutionProducts<E, T> products(call, of);
      auto y = call.output_bytes(out, from.data_type(), of.image_shape, from);
      std::fill_n(y.template elements<T>(), of.image_shape.elements(), T{0});
      products.add_to_images(filters, images, y.template elements<T>());
    });
  };
}
/// conv2d_transpose_grad: Input, Filter, Output@GRAD -> Input@GRAD?, Filter@GRAD?; attributes as conv2d_transpose.
template <Executor E>
RunOperator<E> conv2d_transpose_grad(const OperatorArguments& op) {
  const Slot x = op.input("Input"), filter = op.input("Filter"), dy = op.input("Output@GRAD");
  const Slot dx = op.optional_output("Input@GRAD"), dfilter = op.optional_output("Filter@GRAD");
  return [=, transposed = TransposedConvolution(op)](OperatorCall<E>& call) {
    const AnyLoDTensor from = call.tensor(x), weights = call.tensor(filter);
    const Convolution of = transposed_convolution(transposed, from.shape(), weights.shape());
    call.with_floating(x, [&](auto element) {
      using T = typename decltype(element)::type;
      const T* const images = numbers_of<T>(call, x, of.shape);
      const T* const filters = call.template view<T>(filter).data();
      const T* const given = numbers_of<T>(call, dy, of.image_shape);
      const ConvolutionProducts<E, T> products(call, of);
      if (dfilter) {
        write_added<T>(call, dfilter, weights, [&](T* to) { products.add_to_filters(given, images, to); });
      }
      if (!dx) return;
      auto y = call.output_bytes(dx, from.data_type(), from.lod(), from.row_shape(), from.rows());
      products.results(given, filters, y.template elements<T>());
    });
  };
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

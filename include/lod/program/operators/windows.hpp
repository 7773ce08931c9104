// SPDX-License-Identifier: Apache-2.0
/// @file
/// The windows that conv2d, conv2d_transpose and pool2d move over images. The rules of `infer_shapes` use them too,
/// with sizes that may be unknown.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/infer.hpp>
#include <lod/program/operator_arguments.hpp>
#include <lod/program/program.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs {

/// The windows along one side of images: window i begins at i * stride - before and covers `window` pixels that are
/// `dilation` apart. All members except `count` may exceed the size of the images.
struct WindowsAlongSide {
  std::int64_t size = 1;    ///< of the images, in pixels
  std::int64_t window = 1;  ///< the pixels of a window
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;  ///< the padding before the first pixel
  std::int64_t after = 0;   ///< the padding after the last pixel
  std::int64_t count = 1;   ///< of windows

  /// Pixel k of window i; outside of the images if it is negative or not less than `size`.
  std::int64_t pixel(std::int64_t i, std::int64_t k) const noexcept { return i * stride - before + k * dilation; }
  /// The first window whose pixel k is not before the images.
  std::int64_t first(std::int64_t k) const noexcept {
    const std::int64_t missing = before - k * dilation;
    return missing <= 0 ? 0 : std::min(count, (missing - 1) / stride + 1);
  }
  /// The first window after that whose pixel k is after the images.
  std::int64_t last(std::int64_t k) const noexcept {
    const std::int64_t room = size + before - k * dilation;
    return room <= 0 ? 0 : std::min(count, (room - 1) / stride + 1);
  }
};

/// The attributes of operators with windows: strides and dilations, by default 1, paddings, by default 0;
/// padding_algorithm = "EXPLICIT", ceil_mode = false. `paddings` are {height, width} or {top, bottom, left, right}.
class WindowOptions {
 public:
  /// Throws InvalidProgram for invalid values.
  explicit WindowOptions(const OpDesc& op)
      : is_rounded_up_(attr(op, "ceil_mode", false)),
        channels_last_(is_one_of(op, "data_format", {"NCHW", "NHWC", "AnyLayout"}) == 1),
        algorithm_(is_one_of(op, "padding_algorithm", {"EXPLICIT", "SAME", "VALID"})) {
    read(op, "strides", 1, strides_);
    read(op, "dilations", 1, dilations_);
    std::array<std::int64_t, 4> all{};
    read(op, "paddings", 0, all);
    if (attr(op, "paddings", infer::Dims()).size() < 4) all = {all[0], all[0], all[1], all[1]};
    paddings_ = all;
  }

  /// Whether channels are the last dimension of images, not the second.
  bool channels_last() const noexcept { return channels_last_; }
  /// The dimension of a side: 0 for the height, 1 for the width.
  std::size_t dim(std::size_t side) const noexcept { return (channels_last_ ? 1 : 2) + side; }
  std::size_t channel_dim() const noexcept { return channels_last_ ? 3 : 1; }

  /// The windows of `window` pixels along a side of size `size`. If a size is unknown, so is their count. Throws
  /// ShapeMismatch if not even one fits the images.
  WindowsAlongSide along(std::size_t side, std::int64_t size, std::int64_t window) const {
    WindowsAlongSide made{.size = size, .window = window, .stride = strides_[side], .count = infer::unknown};
    if (algorithm_ == explicit_paddings) {
      made.before = paddings_[2 * side];
      made.after = paddings_[2 * side + 1];
    }
    if (algorithm_ != same) made.dilation = dilations_[side];
    if (size == infer::unknown || window == infer::unknown) return made;
    if (window < 1 || window > most || size > most * most) {
      throw ShapeMismatch(detail::text({"a window of ", window, " on a side of ", size}));
    }
    if (algorithm_ == same) {
      // One window for each stride, the last of which may be cut short.
      made.count = size / made.stride + (size % made.stride != 0);
      const std::int64_t missing = std::max<std::int64_t>((made.count - 1) * made.stride - size + window, 0);
      made.before = missing / 2;
      made.after = missing - made.before;
      return made;
    }
    const std::int64_t wide = made.dilation * (window - 1) + 1, padded = made.before + size + made.after;
    if (padded < wide) throw ShapeMismatch(detail::text({"a window of ", wide, " on a side of ", padded}));
    const std::int64_t room = padded - wide;
    made.count = room / made.stride + 1 + (is_rounded_up_ && room % made.stride != 0 ? 1 : 0);
    return made;
  }
  /// The windows whose count is `count`, along a side whose size is the least with as many, or `size` if that is known.
  /// With padding_algorithm "SAME" the paddings are those for a side of size `count`, as in PaddlePaddle. Throws
  /// ShapeMismatch if there is no such side.
  WindowsAlongSide along_transposed(std::size_t side, std::int64_t count, std::int64_t window,
                                    std::int64_t size) const {
    const bool is_known = count != infer::unknown && window != infer::unknown;
    WindowsAlongSide made = along(side, algorithm_ == same ? count : infer::unknown, window);
    made.count = count;
    if (!is_known) {
      made.size = size;
      return made;
    }
    if (count < 1 || window < 1 || count > most || window > most) {
      throw ShapeMismatch(detail::text({count, " windows of ", window}));
    }
    made.size = (count - 1) * made.stride + made.dilation * (window - 1) + 1 - made.before - made.after;
    if (size != infer::unknown) {
      if (size < made.size || size >= made.size + made.stride) {
        throw ShapeMismatch(detail::text(
            {"a side of ", size, ", expected ", made.size, " or more, and less than ", made.size + made.stride}));
      }
      made.size = size;
    }
    if (made.size < 1) throw ShapeMismatch(detail::text({count, " windows of ", window, " on a side of ", made.size}));
    return made;
  }
  /// The same with paddings and dilations as these windows have them.
  WindowOptions with_paddings(const std::array<WindowsAlongSide, 2>& windows) const {
    WindowOptions made = *this;
    made.algorithm_ = explicit_paddings;
    for (std::size_t side = 0; side < 2; ++side) {
      made.dilations_[side] = windows[side].dilation;
      made.paddings_[2 * side] = windows[side].before;
      made.paddings_[2 * side + 1] = windows[side].after;
    }
    return made;
  }

 private:
  friend class ImagePoolOptions;

  enum Algorithm : std::size_t { explicit_paddings, same, valid };
  /// 32 bits for each number, as PaddlePaddle has: products of two of them then never overflow.
  static constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();

  template <class T>
  static T attr(const OpDesc& op, const char* name, T otherwise) {
    return op.find_attr(name) ? op.attr<T>(name) : std::move(otherwise);
  }
  [[noreturn, gnu::cold, gnu::noinline]] static void refuse(const OpDesc& op, const char* name,
                                                            const std::string& expected) {
    throw InvalidProgram(detail::text(
        {"operator '", op.type, "': attribute '", name, "' has a value that is not supported, expected ", expected}));
  }
  static std::size_t is_one_of(const OpDesc& op, const char* name, std::initializer_list<const char*> values) {
    const auto value = attr<std::string>(op, name, *values.begin());
    const auto* const found = std::find(values.begin(), values.end(), value);
    if (found == values.end()) {
      std::string all;
      for (const char* const one : values) all += detail::text({all.empty() ? "" : " or ", one});
      refuse(op, name, all);
    }
    return static_cast<std::size_t>(found - values.begin());
  }
  template <std::size_t size>
  static void read(const OpDesc& op, const char* name, std::int64_t least, std::array<std::int64_t, size>& to) {
    to.fill(least);
    const infer::Dims all = attr(op, name, infer::Dims());
    const bool fits = all.empty() || all.size() == 2 || all.size() == size;
    for (const std::int64_t number : all) {
      if (!fits || number < least || number > most) {
        refuse(op, name, detail::text({size == 4 ? "2 or 4" : "2", " numbers of ", least, " or more"}));
      }
    }
    std::copy_n(all.begin(), all.size(), to.begin());
  }

  bool is_rounded_up_;
  bool channels_last_;
  std::size_t algorithm_;
  std::array<std::int64_t, 2> strides_{};
  std::array<std::int64_t, 2> dilations_{};
  std::array<std::int64_t, 4> paddings_{};
};

/// The pixels [begin, end) of a side that a window of pool2d covers, and their number including the padding; with
/// ceil_mode, the last window may have none.
struct PooledPixels {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t all;
};

/// The attributes of pool2d: ksize; pooling_type = "max" or "avg"; exclusive = true: whether means leave out the
/// padding; global_pooling = false: whether one window is the whole image; adaptive = false: whether the image is
/// divided into ksize windows; and those of WindowOptions.
class ImagePoolOptions {
 public:
  /// Throws InvalidProgram for invalid values.
  explicit ImagePoolOptions(const OpDesc& op)
      : windows_(op),
        is_max_(WindowOptions::is_one_of(op, "pooling_type", {"max", "avg"}) == 0),
        is_exclusive_(WindowOptions::attr(op, "exclusive", true)),
        is_global_(WindowOptions::attr(op, "global_pooling", false)),
        is_adaptive_(WindowOptions::attr(op, "adaptive", false)) {
    WindowOptions::read(op, "ksize", 1, sizes_);
    // PaddlePaddle makes no such programs, and runs them as if `adaptive` were false.
    if (is_max_ && is_adaptive_) WindowOptions::refuse(op, "adaptive", "false, since the pooling_type is max");
  }

  const WindowOptions& windows() const noexcept { return windows_; }
  bool is_max() const noexcept { return is_max_; }
  /// Whether the image is divided among windows (`adaptive`).
  bool shares_images() const noexcept { return is_adaptive_ && !is_global_; }
  /// Whether means include the padding.
  bool counts_paddings() const noexcept { return !is_exclusive_ && !is_adaptive_; }

  /// The windows along a side of size `size`, which may be unknown. Throws as WindowOptions.
  WindowsAlongSide along(std::size_t side, std::int64_t size) const {
    if (is_global_) return {.size = size, .window = size};
    if (is_adaptive_) return {.size = size, .count = sizes_[side]};
    return windows_.along(side, size, sizes_[side]);
  }
  /// The pixels of window i.
  PooledPixels pixels(const WindowsAlongSide& side, std::int64_t i) const noexcept {
    if (shares_images()) {
      const std::int64_t end = (i + 1) * side.size;
      return {i * side.size / side.count, end / side.count + (end % side.count != 0), 0};
    }
    // As in PaddlePaddle, the padding after the last pixel counts only up to the amount before the first pixel.
    const std::int64_t begin = side.pixel(i, 0), end = std::min(begin + side.window, side.size + side.before);
    return {std::max<std::int64_t>(begin, 0), std::min(end, side.size), end - begin};
  }

 private:
  WindowOptions windows_;
  bool is_max_;
  bool is_exclusive_;
  bool is_global_;
  bool is_adaptive_;
  std::array<std::int64_t, 2> sizes_{};
};

/// The layout of a batch of images, with channels as the second dimension or the last: its shape, and the distances
/// between numbers along each dimension.
struct ImageLayout {
  std::int64_t images;
  std::int64_t channels;
  std::int64_t height;
  std::int64_t width;
  std::int64_t image;    ///< the distance between images
  std::int64_t channel;  ///< between channels
  std::int64_t row;      ///< between rows of pixels
  std::int64_t pixel;    ///< between pixels of a row

  ImageLayout(const Shape& shape, const WindowOptions& options) noexcept
      : images(shape[0]),
        channels(shape[options.channel_dim()]),
        height(shape[options.dim(0)]),
        width(shape[options.dim(1)]),
        image(channels * height * width),
        channel(options.channels_last() ? 1 : height * width),
        row(options.channels_last() ? channels * width : width),
        pixel(options.channels_last() ? channels : 1) {}
};

/// The groups of channels.
inline std::int64_t groups_of(const OperatorArguments& op) {
  const std::int32_t groups = op.attr("groups", 1);
  if (groups < 1) op.refuse_attr("groups", "1 or more");
  return groups;
}

/// The attributes of conv2d_transpose.
class TransposedConvolution {
 public:
  explicit TransposedConvolution(const OperatorArguments& op)
      : options_(op.desc()), groups_(groups_of(op)), size_(op.attr("output_size", infer::Dims())) {
    if (!size_.empty() && size_.size() != 2) op.refuse_attr("output_size", "none, or a height and a width");
  }

  std::int64_t groups() const noexcept { return groups_; }
  /// The shape of the results for images and filters, of which any dimension may be unknown. Throws ShapeMismatch.
  std::array<std::int64_t, 4> results(std::span<const std::int64_t> images,
                                      std::span<const std::int64_t> filters) const {
    if (images.size() != 4 || filters.size() != 4 || !infer::agree(images[options_.channel_dim()], filters[0])) {
      throw ShapeMismatch(
          detail::text({"images of shape ", infer::to_string(infer::Dims(images.begin(), images.end())),
                        ", filters of shape ", infer::to_string(infer::Dims(filters.begin(), filters.end())),
                        ", expected 4 dimensions, and as many filters as channels"}));
    }
    std::array<std::int64_t, 4> made{};
    made[0] = images[0];
    for (std::size_t side = 0; side < 2; ++side) {
      const std::int64_t dim = images[options_.dim(side)];
      made[options_.dim(side)] =
          options_.along_transposed(side, dim, filters[2 + side], size_.empty() ? infer::unknown : size_[side]).size;
    }
    made[options_.channel_dim()] =
        filters[1] == infer::unknown ? infer::unknown : lod::detail::saturated_product(filters[1], groups_);
    return made;
  }
  /// The options of the convolution from its results to its images, for shapes of images and filters.
  WindowOptions options_for(const Shape& images, const Shape& filters) const {
    return options_.with_paddings({options_.along_transposed(0, images[options_.dim(0)], filters[2], infer::unknown),
                                   options_.along_transposed(1, images[options_.dim(1)], filters[3], infer::unknown)});
  }

 private:
  WindowOptions options_;
  std::int64_t groups_;
  infer::Dims size_;
};

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET::operators_of_programs

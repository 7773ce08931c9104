// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup restructuring
/// Images as sequences of patches.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/shape.hpp>
#include <lod/core/sizes.hpp>
#include <lod/core/target.hpp>
#include <lod/ops/declaration.hpp>
#include <lod/ops/infer.hpp>
#include <lod/ops/kernel.hpp>
#include <lod/ops/output.hpp>
#include <lod/ops/run_copy.hpp>
#include <lod/ops/supports.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace lod::inline LOD_INTERFACE::op {
struct im2sequence : elements::Any {
  static constexpr Text text{"images",
                             "The patches of each image of {images, channels, height, width} as a sequence, from left "
                             "to right and from top to bottom."};
};
struct im2sequence_grad : elements::Arithmetic {
  static constexpr Text text{"dy, images", "The gradient of `im2sequence`, with its options."};
};
}  // namespace lod::inline LOD_INTERFACE::op

namespace lod::inline LOD_INTERFACE {

/// The options of `im2sequence`.
struct Im2SequenceOptions {
  std::array<std::int64_t, 2> kernels = {1, 1};         ///< height and width of a patch
  std::array<std::int64_t, 2> strides = {1, 1};         ///< from one patch to the next, down and to the right
  std::array<std::int64_t, 4> paddings = {0, 0, 0, 0};  ///< zeros around an image: above, left, below, right
  /// Height and width of the original contents of each image, before it was scaled down by `out_strides` and padded to
  /// the common size: patches are counted by them. Empty: all images are full.
  std::span<const std::int64_t> real_sizes = {};
  std::array<std::int64_t, 2> out_strides = {1, 1};  ///< the divisors of real sizes, rounded up
};

}  // namespace lod::inline LOD_INTERFACE

namespace lod::inline LOD_INTERFACE::kernel {

/// Images of {channels, height, width} and their patches.
struct ImagePatches {
  std::int64_t channels, height, width;
  std::int64_t kernel_height, kernel_width;
  std::int64_t stride_down, stride_right;
  std::int64_t above, left;              ///< zeros
  const std::int64_t* patches_in_a_row;  ///< of each image

  LOD_TAGGED LOD_HOST_DEVICE std::int64_t image_size() const noexcept { return channels * height * width; }
  LOD_TAGGED LOD_HOST_DEVICE std::int64_t patch_size() const noexcept {
    return channels * kernel_height * kernel_width;
  }
};

/// run(executor, images, patches, sequences, y): sequence i consists of the patches of image i.
struct Im2Sequence {};
/// run(executor, dy, patches, sequences, dx)
struct Im2SequenceGrad {};

}  // namespace lod::inline LOD_INTERFACE::kernel

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// The number of patches side by side, or below each other.
inline std::int64_t count_patches(std::int64_t size, std::int64_t padding, std::int64_t kernel,
                                  std::int64_t stride) noexcept {
  const std::int64_t room = size + padding - kernel;
  return room < 0 ? 0 : room / stride + 1;
}

/// Throws OutOfRange for invalid sizes, of an image or among the options.
inline void check_geometry(std::span<const std::int64_t> image, const Im2SequenceOptions& options, const char* what) {
  // A limit, so that no sum of sizes exceeds 64 bits.
  constexpr std::int64_t most = std::int64_t{1} << 48;
  const auto check = [&](std::span<const std::int64_t> numbers, std::int64_t least, const char* name) {
    for (const std::int64_t number : numbers) {
      if (number < least || number > most) {
        throw OutOfRange(detail::text({what, ": ", number, " in ", name, ", expected ", least, " to 2^48"}));
      }
    }
  };
  check(options.kernels, 1, "kernels");
  check(options.strides, 1, "strides");
  check(options.paddings, 0, "paddings");
  check(options.out_strides, 1, "out_strides");
  check(image, 0, "the shape of an image");
}

/// Throws ShapeMismatch unless there are no real sizes, or two for each of the images, whose number may be unknown.
inline void check_real_sizes(std::span<const std::int64_t> real_sizes, std::int64_t images, const char* what) {
  const std::size_t count = real_sizes.size();
  if (count == 0 || (count % 2 == 0 && infer::agree(static_cast<std::int64_t>(count / 2), images))) return;
  const std::string found = detail::text({what, ": ", count, " numbers in real_sizes, expected "});
  if (images == infer::unknown) throw ShapeMismatch(found + "a height and a width for each image");
  throw ShapeMismatch(detail::text(
      {found, 2 * static_cast<std::uint64_t>(images), ", a height and a width for each of ", images, " images"}));
}

/// Images of any type, of which only the shape and the levels are used.
class ImageShapes : public LoDTensorView<const char> {
 public:
  template <LoDTensorLike Images>
  ImageShapes(const Images& images) noexcept : ImageShapes(images.view(), nullptr) {}

 private:
  template <class View>
  ImageShapes(const View& view, std::nullptr_t) noexcept
      : LoDTensorView(nullptr, view.lod_view(), &view.row_shape(), view.row_size()) {}
};

/// The patches of a batch of images, checked. The levels of the result are those of the images, followed by one with a
/// sequence for each image.
template <Executor E>
class PatchLevels {
 public:
  template <class View>
  PatchLevels(const E& executor, const View& images, const Im2SequenceOptions& options, const char* what)
      : levels_(executor.workspace(), images.lod_view(), images.levels(), 1, listed(images.rows(), what)),
        widths_(executor, images.rows()) {
    const Shape& image = images.row_shape();
    if (image.size() != 3) {
      throw ShapeMismatch(detail::text(
          {what, ": images of shape ", to_string(images.shape()), ", expected {images, channels, height, width}"}));
    }
    check_geometry({image.begin(), image.size()}, options, what);
    const auto& [above, left, below, right] = options.paddings;
    patches_ = {
        image[0], image[1], image[2], options.kernels[0], options.kernels[1], options.strides[0], options.strides[1],
        above,    left,     nullptr};
    try {
      patch_size_ = Shape{image[0], options.kernels[0], options.kernels[1]}.elements();
    } catch (const ShapeMismatch& error) {
      throw ShapeMismatch(detail::text({what, ": a patch: ", error.what()}));
    }
    check_real_sizes(options.real_sizes, images.rows(), what);
    const auto offsets = levels_.add(images.rows());
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < images.rows(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto real = [&](std::size_t dim) {
        if (options.real_sizes.empty()) return image[1 + dim];
        const std::int64_t given = options.real_sizes[2 * at + dim], stride = options.out_strides[dim];
        if (given < 0 || given / stride + (given % stride != 0) > image[1 + dim]) {
          throw OutOfRange(detail::text(
              {what, ": real size ", given, " of image ", i, ", expected 0 to ", stride, " * ", image[1 + dim]}));
        }
        return given / stride + (given % stride != 0);
      };
      widths_[i] = count_patches(real(1), left + right, options.kernels[1], options.strides[1]);
      const std::int64_t rows = count_patches(real(0), above + below, options.kernels[0], options.strides[0]);
      std::int64_t count = 0;
      if (__builtin_mul_overflow(rows, widths_[i], &count) ||
          __builtin_add_overflow(offsets[at], count, &offsets[at + 1])) {
        throw ShapeMismatch(detail::text({what, ": more patches than 64 bits count"}));
      }
      most = std::max(most, count);
    }
    patches_.patches_in_a_row = widths_.on_device();
    offsets_.emplace(executor, std::span<const std::int64_t>(offsets));
    sequences_ = kernel::Segments(offsets.data(), images.rows(), most).at(offsets_->data());
  }

  const NewLevels& levels() const noexcept { return levels_; }
  const kernel::ImagePatches& patches() const noexcept { return patches_; }
  const kernel::Segments& sequences() const noexcept { return sequences_; }
  Shape row_shape() const { return Shape{patch_size_}; }

 private:
  static std::int64_t listed(std::int64_t images, const char* what) {
    static_cast<void>(detail::checked_count<std::int64_t>(images, what));
    return images;
  }

  NewLevels levels_;
  Array<E, std::int64_t> widths_;
  std::optional<OnDevice<E, std::int64_t>> offsets_;
  kernel::ImagePatches patches_{};
  kernel::Segments sequences_;
  std::int64_t patch_size_ = 0;
};

template <>
struct Declared<op::im2sequence> : Takes<Tensor>, With<Im2SequenceOptions>, Launches<kernel::Im2Sequence> {
  static constexpr const char* name = "im2sequence";
  using Gradient = op::im2sequence_grad;
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& images, const Im2SequenceOptions& options, const To<E, T>& y) {
    const PatchLevels<E> levels(executor, images, options, name);
    const auto out = prepare(executor, name, y, levels.levels(), levels.row_shape(),
                             {{"images", images}, {"real_sizes", options.real_sizes}});
    launch(kernel::Im2Sequence(), executor, images.data(), levels.patches(), levels.sequences(), out.data());
  }
};

template <>
struct Declared<op::im2sequence_grad>
    : Takes<Tensor, ImageShapes>, With<Im2SequenceOptions>, Launches<kernel::Im2SequenceGrad> {
  static constexpr const char* name = "im2sequence_grad";
  template <Executor E, class T>
  static void run(const E& executor, const Input<E, T>& dy, const ImageShapes& images,
                  const Im2SequenceOptions& options, const To<E, T>& dx) {
    const PatchLevels<E> levels(executor, images, options, name);
    check_row_count(dy.rows(), levels.sequences().rows(), {name, "dy"});
    check_row_shape(dy.row_shape(), levels.row_shape(), {name, "dy"});
    const auto out = prepare(executor, {name, "dx"}, dx, SameLevels{images.lod_view()}, images.row_shape(),
                             {{"dy", dy}, {"real_sizes", options.real_sizes}});
    launch(kernel::Im2SequenceGrad(), executor, dy.data(), levels.patches(), levels.sequences(), out.data());
  }
};

}  // namespace operation

/// The patches of each image, from left to right and from top to bottom, as a sequence: rows of channels x kernel
/// height x kernel width elements, channel by channel, line by line. Images are {images, channels, height, width}; if
/// they have levels, for example as frames of films, the result has one more.
///
/// There are (height + above + below - kernel height) / stride + 1 patches below each other, rounded down, none if the
/// patch is larger than the padded image; side by side likewise. With `real_sizes`, an image has as many patches as one
/// of its real size, divided by `out_strides` and rounded up, would have with these paddings, from the same place on:
/// the last of them may reach beyond its contents, where they have what the image has there, not zeros. Semantics:
/// PaddlePaddle's im2sequence, except that real sizes also apply to a single image.
///
/// One pass. `y` must not overlap the images. Throws ShapeMismatch unless an image has three dimensions, and for a
/// wrong number of real sizes; OutOfRange for kernels or strides under 1, negative paddings, and real sizes beyond the
/// image.
inline constexpr operation::Call<op::im2sequence> im2sequence{};
inline constexpr operation::CallInto<op::im2sequence> im2sequence_into{};

/// The gradient of `im2sequence` with the same options, as images: a pixel has the sum of dy over the patches that
/// contain it, rounded once. Only the shape and the levels of the images are used; the levels of dy are ignored. `dx`
/// must not overlap dy. Throws as `im2sequence`, and ShapeMismatch unless dy has the rows of its result.
inline constexpr operation::Call<op::im2sequence_grad> im2sequence_grad{};
inline constexpr operation::CallInto<op::im2sequence_grad> im2sequence_grad_into{};

/// The result of `im2sequence`, described: see <lod/infer.hpp>.
inline LoDTensorDesc infer_im2sequence(const LoDTensorDesc& images, const Im2SequenceOptions& options = {}) {
  infer::Batch y(images, "im2sequence");
  if (y.row_shape.size() != 3) {
    throw ShapeMismatch(detail::text({"im2sequence: images of shape ", infer::to_string(images.tensor.dims),
                                      ", expected {images, channels, height, width}"}));
  }
  const std::int64_t channels = y.row_shape[0], height = y.row_shape[1], width = y.row_shape[2];
  const std::int64_t sizes[] = {infer::known(channels, 0), infer::known(height, 0), infer::known(width, 0)};
  operation::check_geometry(sizes, options, "im2sequence");
  operation::check_real_sizes(options.real_sizes, y.rows, "im2sequence");
  const auto& [above, left, below, right] = options.paddings;
  const auto count = [&](std::int64_t size, std::int64_t padding, std::size_t dim) {
    return !options.real_sizes.empty() || size == infer::unknown
               ? infer::unknown
               : operation::count_patches(size, padding, options.kernels[dim], options.strides[dim]);
  };
  y.rows = infer::product({y.rows, count(height, above + below, 0), count(width, left + right, 1)}, "im2sequence");
  y.row_shape = {infer::product({channels, options.kernels[0], options.kernels[1]}, "im2sequence")};
  ++y.levels;
  return y;
}

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

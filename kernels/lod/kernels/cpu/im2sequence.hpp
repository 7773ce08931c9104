// SPDX-License-Identifier: Apache-2.0
/// @file
/// Patches of images on the CPU.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/cpu/launch.hpp>
#include <lod/kernels/cpu/parallel.hpp>
#include <lod/kernels/cpu/rows.hpp>
#include <lod/kernels/cpu/vector.hpp>
#include <lod/ops/im2sequence.hpp>

#include <algorithm>
#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

template <>
struct Kernel<Im2Sequence> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* images, const ImagePatches& patches, const Segments& sequences,
                  T* y) {
    const std::int64_t row_bytes = lod::detail::bytes_of<T>(2, patches.patch_size());
    cpu::parallel_rows(executor, sequences, row_bytes,
                       [&](std::int64_t i, std::int64_t begin, std::int64_t end, std::int64_t) {
                         const T* const image = images + i * patches.image_size();
                         const std::int64_t in_a_row = patches.patches_in_a_row[i];
                         for (std::int64_t patch = begin; patch < end; ++patch) {
                           copy_patch(image, patches, patch / in_a_row * patches.stride_down - patches.above,
                                      patch % in_a_row * patches.stride_right - patches.left,
                                      y + (sequences.begin(i) + patch) * patches.patch_size());
                         }
                       });
  }

 private:
  /// The patch whose first pixel is (top, left), which may be outside the image.
  template <class T>
  static void copy_patch(const T* image, const ImagePatches& patches, std::int64_t top, std::int64_t left,
                         T* y) noexcept {
    const std::int64_t width = patches.kernel_width;
    const std::int64_t begin = std::clamp<std::int64_t>(-left, 0, width);
    const std::int64_t end = std::clamp(patches.width - left, begin, width);
    for (std::int64_t channel = 0; channel < patches.channels; ++channel) {
      for (std::int64_t line = top; line < top + patches.kernel_height; ++line, y += width) {
        if (line < 0 || line >= patches.height) {
          cpu::fill(y, width, T{});
          continue;
        }
        const T* const pixels = image + (channel * patches.height + line) * patches.width;
        cpu::fill(y, begin, T{});
        for (std::int64_t column = begin; column < end; ++column) y[column] = pixels[column + left];
        cpu::fill(y + end, width - end, T{});
      }
    }
  }
};

template <>
struct Kernel<Im2SequenceGrad> {
  template <class T>
  static void run(const CpuExecutor& executor, const T* dy, const ImagePatches& patches, const Segments& sequences,
                  T* dx) {
    using A = Accumulator<T>;
    const std::int64_t height = patches.height, width = patches.width;
    const std::int64_t lines = sequences.size * patches.channels * height;
    const std::int64_t bytes = lod::detail::bytes_of<T>(sequences.rows(), patches.patch_size());
    const cpu::ThreadScratch<A> scratch(executor, width);
    cpu::parallel_ranges(executor, lines, bytes, [&](std::int64_t begin, std::int64_t end, int thread) {
      A* const sums = scratch(thread);
      for (std::int64_t line = begin; line < end; ++line) {
        const std::int64_t plane = line / height, image = plane / patches.channels;
        cpu::fill(sums, width, A{});
        if (sequences.length(image) > 0) {
          add_patches(dy + sequences.begin(image) * patches.patch_size(), patches, sequences.length(image),
                      patches.patches_in_a_row[image], plane % patches.channels, line % height, sums);
        }
        cpu::convert(sums, width, dx + line * width);
      }
    });
  }

 private:
  /// Adds to the pixels of a line of an image the gradients of all patches that contain them.
  template <class T, class A>
  static void add_patches(const T* dy, const ImagePatches& patches, std::int64_t count, std::int64_t in_a_row,
                          std::int64_t channel, std::int64_t line, A* sums) noexcept {
    const std::int64_t stride = patches.stride_right, patch_size = patches.patch_size();
    for (std::int64_t row = 0; row < patches.kernel_height; ++row) {
      // The patches whose line `row` is this line of the image.
      const std::int64_t top = line + patches.above - row;
      if (top < 0 || top % patches.stride_down != 0 || top / patches.stride_down >= count / in_a_row) continue;
      const T* const first = dy + top / patches.stride_down * in_a_row * patch_size +
                             (channel * patches.kernel_height + row) * patches.kernel_width;
      for (std::int64_t column = 0; column < patches.kernel_width; ++column) {
        // The first of the patches side by side for which the pixel is inside the image, and the end of these.
        const std::int64_t shift = column - patches.left;
        const std::int64_t from = shift < 0 ? (-shift + stride - 1) / stride : 0;
        const std::int64_t pixels = patches.width - shift;
        const std::int64_t to = std::min(in_a_row, pixels > 0 ? (pixels - 1) / stride + 1 : 0);
        for (std::int64_t patch = from; patch < to; ++patch) {
          A& sum = sums[patch * stride + shift];
          sum = cpu::plus(sum, static_cast<A>(first[patch * patch_size + column]));
        }
      }
    }
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

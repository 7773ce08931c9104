// SPDX-License-Identifier: Apache-2.0
/// @file
/// Patches of images in bulk.
#pragma once

#include <lod/core/version.hpp>
#include <lod/kernels/bulk/bulk.hpp>
#include <lod/ops/im2sequence.hpp>

#include <cstdint>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk {

template <>
struct Kernel<Im2Sequence> {
  template <class E, class T>
  static void run(const E& executor, const T* images, const ImagePatches& patches, const Segments& sequences, T* y) {
    const std::int64_t patch_size = patches.patch_size();
    for_each(executor, sequences.rows() * patch_size, [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t row = at / patch_size, i = sequence_of(sequences, row), patch = row - sequences.begin(i);
      const std::int64_t in_a_row = patches.patches_in_a_row[i];
      const std::int64_t column = at % patches.kernel_width;
      const std::int64_t kernel_row = at / patches.kernel_width % patches.kernel_height;
      const std::int64_t channel = at % patch_size / (patches.kernel_width * patches.kernel_height);
      const std::int64_t line = patch / in_a_row * patches.stride_down - patches.above + kernel_row;
      const std::int64_t pixel = patch % in_a_row * patches.stride_right - patches.left + column;
      const bool inside = line >= 0 && line < patches.height && pixel >= 0 && pixel < patches.width;
      y[at] =
          inside ? images[i * patches.image_size() + (channel * patches.height + line) * patches.width + pixel] : T{};
    });
  }
};

template <>
struct Kernel<Im2SequenceGrad> {
  template <class E, class T>
  static void run(const E& executor, const T* dy, const ImagePatches& patches, const Segments& sequences, T* dx) {
    using A = Accumulator<T>;
    for_each(executor, sequences.size * patches.image_size(), [=] LOD_HOST_DEVICE(std::int64_t at) {
      const std::int64_t plane = at / patches.width / patches.height;
      const std::int64_t image = plane / patches.channels, channel = plane % patches.channels;
      // Positions in the image including its zero padding.
      const std::int64_t down = at / patches.width % patches.height + patches.above;
      const std::int64_t right = at % patches.width + patches.left;
      const std::int64_t in_a_row = patches.patches_in_a_row[image];
      const std::int64_t rows = in_a_row > 0 ? sequences.length(image) / in_a_row : 0;
      const T* const own = dy + sequences.begin(image) * patches.patch_size();
      A sum = {};
      // The patches that contain the pixel, from the last to the first: so its positions in them ascend, and the
      // additions follow the order of a patch's numbers.
      for (std::int64_t i = least(rows - 1, down / patches.stride_down); i >= 0; --i) {
        const std::int64_t row = down - i * patches.stride_down;
        if (row >= patches.kernel_height) break;
        for (std::int64_t j = least(in_a_row - 1, right / patches.stride_right); j >= 0; --j) {
          const std::int64_t column = right - j * patches.stride_right;
          if (column >= patches.kernel_width) break;
          const T* const patch = own + (i * in_a_row + j) * patches.patch_size();
          const T term = patch[(channel * patches.kernel_height + row) * patches.kernel_width + column];
          sum = plus(sum, static_cast<A>(term));
        }
      }
      dx[at] = static_cast<T>(sum);
    });
  }
};

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::bulk

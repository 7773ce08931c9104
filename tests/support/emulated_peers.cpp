// SPDX-License-Identifier: Apache-2.0
/// @file
/// What CUB, Thrust and atomic additions do in the benchmarks on a GPU, on an emulated one: their results, so that what
/// the program measures and writes is tested where there is no GPU.
#include "gpu/peers.hpp"
#include "support/emulated_cuda.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace benchmarks {

using lod_test::emulated_cuda::launch;

void segmented_sums(void* memory, std::size_t& bytes, const float* x, std::int64_t segments,
                    const std::int64_t* offsets, float* sums, cudaStream_t stream) {
  if (!memory) {
    bytes = 1;
    return;
  }
  launch(stream, [=] {
    for (std::int64_t i = 0; i < segments; ++i) {
      float sum = 0;
      for (std::int64_t row = offsets[i]; row < offsets[i + 1]; ++row) sum += x[row];
      sums[i] = sum;
    }
  });
}

void copies(void* memory, std::size_t& needed, const void* const* from, void* const* to, const std::int64_t* bytes,
            std::int64_t count, cudaStream_t stream) {
  if (!memory) {
    needed = 1;
    return;
  }
  launch(stream, [=] {
    for (std::int64_t i = 0; i < count; ++i) std::memcpy(to[i], from[i], static_cast<std::size_t>(bytes[i]));
  });
}

void added_atomically(const std::int32_t* ids, const float* x, std::int64_t rows, std::int64_t row_size, float* y,
                      std::int64_t y_rows, cudaStream_t stream) {
  launch(stream, [=] {
    std::fill(y, y + y_rows * row_size, 0.0F);
    for (std::int64_t at = 0; at < rows * row_size; ++at) {
      y[ids[at / row_size] * row_size + at % row_size] += x[at];
    }
  });
}

void running_sums(const std::int32_t* keys, const float* x, std::int64_t count, float* sums, cudaStream_t stream) {
  launch(stream, [=] {
    for (std::int64_t i = 0; i < count; ++i) sums[i] = x[i] + (i > 0 && keys[i] == keys[i - 1] ? sums[i - 1] : 0);
  });
}

}  // namespace benchmarks

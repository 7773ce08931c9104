// SPDX-License-Identifier: Apache-2.0
#include "peers.hpp"

#include <cub/device/device_memcpy.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <thrust/scan.h>
#include <thrust/system/cuda/execution_policy.h>

#include <cstddef>
#include <cstdint>

namespace benchmarks {
namespace {

__global__ void add_atomically(const std::int32_t* ids, const float* x, std::int64_t count, std::int64_t row_size,
                               float* y) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count; at += step) {
    atomicAdd(y + ids[at / row_size] * row_size + at % row_size, x[at]);
  }
}

}  // namespace

void segmented_sums(void* memory, std::size_t& bytes, const float* x, std::int64_t segments,
                    const std::int64_t* offsets, float* sums, cudaStream_t stream) {
  cub::DeviceSegmentedReduce::Sum(memory, bytes, x, sums, segments, offsets, offsets + 1, stream);
}

void copies(void* memory, std::size_t& needed, const void* const* from, void* const* to, const std::int64_t* bytes,
            std::int64_t count, cudaStream_t stream) {
  cub::DeviceMemcpy::Batched(memory, needed, from, to, bytes, static_cast<std::uint32_t>(count), stream);
}

void added_atomically(const std::int32_t* ids, const float* x, std::int64_t rows, std::int64_t row_size, float* y,
                      std::int64_t y_rows, cudaStream_t stream) {
  cudaMemsetAsync(y, 0, static_cast<std::size_t>(y_rows * row_size) * sizeof(float), stream);
  const std::int64_t count = rows * row_size, blocks = (count + 1023) / 1024;
  add_atomically<<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), 256, 0, stream>>>(ids, x, count, row_size,
                                                                                             y);
}

void running_sums(const std::int32_t* keys, const float* x, std::int64_t count, float* sums, cudaStream_t stream) {
  thrust::inclusive_scan_by_key(thrust::cuda::par_nosync.on(stream), keys, keys + count, x, sums);
}

}  // namespace benchmarks

// SPDX-License-Identifier: Apache-2.0
#include "peers.hpp"

#include <cub/device/device_segmented_reduce.cuh>
#include <thrust/scan.h>
#include <thrust/system/cuda/execution_policy.h>

namespace benchmarks {

void segmented_sums(void* memory, std::size_t& bytes, const float* x, std::int64_t segments,
                    const std::int64_t* offsets, float* sums, cudaStream_t stream) {
  cub::DeviceSegmentedReduce::Sum(memory, bytes, x, sums, segments, offsets, offsets + 1, stream);
}

void running_sums(const std::int32_t* keys, const float* x, std::int64_t count, float* sums, cudaStream_t stream) {
  thrust::inclusive_scan_by_key(thrust::cuda::par_nosync.on(stream), keys, keys + count, x, sums);
}

}  // namespace benchmarks

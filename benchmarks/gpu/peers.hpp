// SPDX-License-Identifier: Apache-2.0
/// @file
/// What CUB and Thrust do, for the benchmarks on a GPU. Compiled by nvcc.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace benchmarks {

/// sums[i] = the sum of x from offsets[i] to offsets[i + 1]. With no memory, `bytes` becomes what it takes.
void segmented_sums(void* memory, std::size_t& bytes, const float* x, std::int64_t segments,
                    const std::int64_t* offsets, float* sums, cudaStream_t stream);
/// Running sums of x that begin anew where the key changes.
void running_sums(const std::int32_t* keys, const float* x, std::int64_t count, float* sums, cudaStream_t stream);

}  // namespace benchmarks

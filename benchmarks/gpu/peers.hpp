// SPDX-License-Identifier: Apache-2.0
/// @file
/// What CUB, Thrust and atomic additions do, for the benchmarks on a GPU. Compiled by nvcc.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace benchmarks {

/// sums[i] = the sum of x from offsets[i] to offsets[i + 1]. With no memory, `bytes` becomes what it takes.
void segmented_sums(void* memory, std::size_t& bytes, const float* x, std::int64_t segments,
                    const std::int64_t* offsets, float* sums, cudaStream_t stream);
/// Copies bytes[i] bytes from from[i] to to[i]. With no memory, `needed` becomes what it takes.
void copies(void* memory, std::size_t& needed, const void* const* from, void* const* to, const std::int64_t* bytes,
            std::int64_t count, cudaStream_t stream);
/// y[ids[i]] += x[i] for rows of `row_size` numbers, in whatever order, after all `y_rows` rows of y were made 0.
void added_atomically(const std::int32_t* ids, const float* x, std::int64_t rows, std::int64_t row_size, float* y,
                      std::int64_t y_rows, cudaStream_t stream);
/// Running sums of x that begin anew where the key changes.
void running_sums(const std::int32_t* keys, const float* x, std::int64_t count, float* sums, cudaStream_t stream);

}  // namespace benchmarks

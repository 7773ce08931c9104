// SPDX-License-Identifier: Apache-2.0
/// @file
/// What libtorch has for the same work. Nothing is added where it was not found.
#pragma once

#include "workload.hpp"

#include <span>
#include <string>

namespace benchmarks {

/// @{
/// Adds contenders; they keep no reference to the arguments but to their values, which the job's own contender keeps.
void add_libtorch_pool(Job& job, const lod::LoDTensor<float>& x, const std::string& variant, int threads);
void add_libtorch_expand_as_grad(Job& job, const lod::LoDTensor<float>& dy, int threads);
void add_libtorch_merge_add(Job& job, std::span<const std::int64_t> ids, const lod::LoDTensor<float>& x,
                            std::int64_t height, int threads);
void add_libtorch_embedding_pool(Job& job, const lod::LoDTensor<float>& table, std::span<const std::int64_t> ids,
                                 std::span<const std::int64_t> offsets, int threads);
/// @}

/// The weights of a recurrent layer as libtorch has them: [gates * hidden, ...].
struct RecurrentWeights {
  std::span<const float> input, recurrent, bias;
};
/// Packed sequences, longest first.
void add_libtorch_recurrent(Job& job, bool gru, const lod::LoDTensor<float>& x, std::int64_t hidden,
                            const RecurrentWeights& weights, int threads);

}  // namespace benchmarks

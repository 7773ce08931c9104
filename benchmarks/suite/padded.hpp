// SPDX-License-Identifier: Apache-2.0
/// @file
/// What one does without ragged tensors: the batch padded to its longest sequence, in xtensor.
#pragma once

#include "workload.hpp"

namespace benchmarks {

/// @{
/// The contender "padded xtensor", left out where the padded batch would take more than four times the memory.
void add_padded_pool(Job& job, const lod::LoDTensor<float>& x, const std::string& variant, int threads);
void add_padded_softmax(Job& job, const lod::LoDTensor<float>& x, bool logarithm, int threads);
/// @}

}  // namespace benchmarks

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The compiled library for an emulated GPU: kernels for float, and for ids and bfloat16 as far as
/// tests and the benchmark call them.
#include "support/emulated_stream.hpp"

#include <kernels/instantiate/cuda_instances.hpp>

#include <cstdint>

namespace {

using namespace lod;

using WithIds =
    operation::List<op::chunk_eval, op::cross_entropy, op::ctc_align, op::edit_distance, op::embedding,
                    op::embedding_pool, op::embedding_pool_grad, op::grouped_linear_grad, op::lod_reset_grad,
                    op::merge_add, op::merge_add_grad, op::sequence_concat, op::sequence_enumerate, op::sequence_erase,
                    op::sequence_mask, op::sequence_max_pool, op::sequence_pool, op::sequence_positions,
                    op::split_selected_rows, op::unique_sequences_and_wait>;

static_assert(kernel::instantiate<kernel::CudaLibrary, float>());
static_assert(kernel::instantiate<kernel::CudaLibrary, std::int64_t>(WithIds()));
static_assert(kernel::instantiate<kernel::CudaLibrary, bool>());
static_assert(kernel::instantiate<kernel::CudaLibrary, bfloat16>(operation::List<op::sequence_attention>()));

}  // namespace

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What runs on GPUs where no kernel is written for them: the bodies of the Thrust back end. Bodies that hand a number
/// to the CPU, or read scratch memory there, are not among them.
#pragma once

#include <lod/core/target.hpp>
#include <lod/cuda/executor.hpp>
#include <lod/kernels/bulk/checked_ids.hpp>
#include <lod/kernels/bulk/clip.hpp>
#include <lod/kernels/bulk/ctc_align.hpp>
#include <lod/kernels/bulk/edit_distance.hpp>
#include <lod/kernels/bulk/elementwise.hpp>
#include <lod/kernels/bulk/embedding.hpp>
#include <lod/kernels/bulk/embedding_pool.hpp>
#include <lod/kernels/bulk/gru.hpp>
#include <lod/kernels/bulk/im2sequence.hpp>
#include <lod/kernels/bulk/lstm.hpp>
#include <lod/kernels/bulk/matrix_product.hpp>
#include <lod/kernels/bulk/merge_rows.hpp>
#include <lod/kernels/bulk/optimizers.hpp>
#include <lod/kernels/bulk/recurrent.hpp>
#include <lod/kernels/bulk/row_conv.hpp>
#include <lod/kernels/bulk/row_index.hpp>
#include <lod/kernels/bulk/row_sparse.hpp>
#include <lod/kernels/bulk/run_copy.hpp>
#include <lod/kernels/bulk/sequence_conv.hpp>
#include <lod/kernels/bulk/sequence_cumsum.hpp>
#include <lod/kernels/bulk/sequence_enumerate.hpp>
#include <lod/kernels/bulk/sequence_erase.hpp>
#include <lod/kernels/bulk/sequence_expand.hpp>
#include <lod/kernels/bulk/sequence_logsumexp.hpp>
#include <lod/kernels/bulk/sequence_mask.hpp>
#include <lod/kernels/bulk/sequence_pad.hpp>
#include <lod/kernels/bulk/sequence_pool.hpp>
#include <lod/kernels/bulk/sequence_reverse.hpp>
#include <lod/kernels/bulk/sequence_scatter.hpp>
#include <lod/kernels/bulk/sequence_slice.hpp>
#include <lod/kernels/bulk/sequence_softmax.hpp>
#include <lod/kernels/bulk/sequence_sort.hpp>
#include <lod/kernels/bulk/sequence_topk_avg_pooling.hpp>
#include <lod/kernels/bulk/split_selected_rows.hpp>
#include <lod/kernels/bulk/unique_sequences.hpp>
#include <lod/kernels/compiled/kernels.hpp>
#include <lod/kernels/cuda/on_the_cpu.hpp>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {
namespace kernel {

namespace bulk::on_gpu {
using namespace bulk;
/// The variant in which the CPU does not wait for the number of groups.
using GroupRows = GroupRowsInPlaces;
}  // namespace bulk::on_gpu

#define LOD_FALLBACK(name) \
  template <>              \
  struct name<CudaExecutor> : bulk::on_gpu::name {};
LOD_SHARED_KERNELS(LOD_FALLBACK)
LOD_CUDA_ONLY_KERNELS(LOD_FALLBACK)
LOD_FILTERS(LOD_FALLBACK)
#undef LOD_FALLBACK

}  // namespace kernel
}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

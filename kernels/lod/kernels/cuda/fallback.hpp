// SPDX-License-Identifier: Apache-2.0
/// @file
/// What runs on GPUs where no kernel is written for them: the bodies of the Thrust back end. Bodies that hand a number
/// to the CPU, or read scratch memory there, are not among them.
#pragma once

#include <lod/cuda/executor.hpp>
#include <lod/kernels/compiled/kernels.hpp>
#include <lod/kernels/cuda/on_the_cpu.hpp>
#include <lod/kernels/thrust/checked_ids.hpp>
#include <lod/kernels/thrust/clip.hpp>
#include <lod/kernels/thrust/ctc_align.hpp>
#include <lod/kernels/thrust/edit_distance.hpp>
#include <lod/kernels/thrust/elementwise.hpp>
#include <lod/kernels/thrust/embedding.hpp>
#include <lod/kernels/thrust/embedding_pool.hpp>
#include <lod/kernels/thrust/gru.hpp>
#include <lod/kernels/thrust/im2sequence.hpp>
#include <lod/kernels/thrust/lstm.hpp>
#include <lod/kernels/thrust/matrix_product.hpp>
#include <lod/kernels/thrust/merge_rows.hpp>
#include <lod/kernels/thrust/optimizers.hpp>
#include <lod/kernels/thrust/recurrent.hpp>
#include <lod/kernels/thrust/row_conv.hpp>
#include <lod/kernels/thrust/row_index.hpp>
#include <lod/kernels/thrust/row_sparse.hpp>
#include <lod/kernels/thrust/run_copy.hpp>
#include <lod/kernels/thrust/sequence_conv.hpp>
#include <lod/kernels/thrust/sequence_cumsum.hpp>
#include <lod/kernels/thrust/sequence_enumerate.hpp>
#include <lod/kernels/thrust/sequence_erase.hpp>
#include <lod/kernels/thrust/sequence_expand.hpp>
#include <lod/kernels/thrust/sequence_logsumexp.hpp>
#include <lod/kernels/thrust/sequence_mask.hpp>
#include <lod/kernels/thrust/sequence_pad.hpp>
#include <lod/kernels/thrust/sequence_pool.hpp>
#include <lod/kernels/thrust/sequence_reverse.hpp>
#include <lod/kernels/thrust/sequence_scatter.hpp>
#include <lod/kernels/thrust/sequence_slice.hpp>
#include <lod/kernels/thrust/sequence_softmax.hpp>
#include <lod/kernels/thrust/sequence_sort.hpp>
#include <lod/kernels/thrust/sequence_topk_avg_pooling.hpp>
#include <lod/kernels/thrust/split_selected_rows.hpp>
#include <lod/kernels/thrust/unique_sequences.hpp>
#include <lod/target.hpp>

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

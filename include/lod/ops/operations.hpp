// SPDX-License-Identifier: Apache-2.0
/// @file
/// All operations, without a back end: their meaning, not their implementation. <lod/lod.hpp> has them with the CPU's.
///
/// Outputs: an operation throws std::invalid_argument if an output overlaps something that it must not overlap, an
/// argument or another output; a tensor counts with all of its memory. If an output may be an argument's own tensor,
/// the two begin at the same element. Levels may be those of the output itself: they are used as they are before the
/// call.
///
/// Errors: whatever throws leaves the outputs unchanged, even if memory runs out; exceptions to this are documented
/// with the operation. On a GPU, as with the Thrust back end, the contents of results may be lost.
#pragma once

#include <lod/ops/batch_levels.hpp>
#include <lod/ops/clip.hpp>
#include <lod/ops/concat.hpp>
#include <lod/ops/ctc_align.hpp>
#include <lod/ops/dynamic_rnn.hpp>
#include <lod/ops/edit_distance.hpp>
#include <lod/ops/elementwise.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/embedding_max_pool.hpp>
#include <lod/ops/embedding_pool.hpp>
#include <lod/ops/for_each_sequence.hpp>
#include <lod/ops/gru.hpp>
#include <lod/ops/im2sequence.hpp>
#include <lod/ops/levels.hpp>
#include <lod/ops/lod_reset.hpp>
#include <lod/ops/lstm.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/optimizers.hpp>
#include <lod/ops/row_conv.hpp>
#include <lod/ops/row_sparse.hpp>
#include <lod/ops/select.hpp>
#include <lod/ops/sequence_concat.hpp>
#include <lod/ops/sequence_conv.hpp>
#include <lod/ops/sequence_cumsum.hpp>
#include <lod/ops/sequence_enumerate.hpp>
#include <lod/ops/sequence_erase.hpp>
#include <lod/ops/sequence_expand.hpp>
#include <lod/ops/sequence_logsumexp.hpp>
#include <lod/ops/sequence_mask.hpp>
#include <lod/ops/sequence_mean_var.hpp>
#include <lod/ops/sequence_pad.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/sequence_reshape.hpp>
#include <lod/ops/sequence_reverse.hpp>
#include <lod/ops/sequence_scatter.hpp>
#include <lod/ops/sequence_slice.hpp>
#include <lod/ops/sequence_softmax.hpp>
#include <lod/ops/sequence_sort.hpp>
#include <lod/ops/sequence_topk_avg_pooling.hpp>
#include <lod/ops/split_lod_tensor.hpp>
#include <lod/ops/split_selected_rows.hpp>
#include <lod/ops/tensor_array.hpp>
#include <lod/ops/time_major.hpp>
#include <lod/ops/unique_sequences.hpp>

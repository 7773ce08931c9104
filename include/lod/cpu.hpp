// SPDX-License-Identifier: Apache-2.0
/// @file
/// The CPU back end: the kernels of every operation for CpuExecutor. xsimd is included here and nowhere else.
///
/// Or from the library lodtensor::cpu, whose target defines LOD_CPU_LIBRARY: kernels for elements of type float,
/// double, float16, bfloat16, int32 and int64 are then called, not compiled, threads included, and use the widest
/// vectors that the processor has at run time, whatever flags the including file is compiled with: see
/// <lod/instruction_set.hpp>. Kernels for other elements, and those that call functions of the caller's, still come
/// from the headers.
#pragma once

#include <lod/core/include_folders.hpp>
#include <lod/kernels/cpu/chunk_eval.hpp>
#include <lod/kernels/cpu/clip.hpp>
#include <lod/kernels/cpu/cross_entropy.hpp>
#include <lod/kernels/cpu/ctc_align.hpp>
#include <lod/kernels/cpu/ctc_loss.hpp>
#include <lod/kernels/cpu/edit_distance.hpp>
#include <lod/kernels/cpu/elementwise.hpp>
#include <lod/kernels/cpu/embedding.hpp>
#include <lod/kernels/cpu/embedding_pool.hpp>
#include <lod/kernels/cpu/for_each_range.hpp>
#include <lod/kernels/cpu/for_each_sequence.hpp>
#include <lod/kernels/cpu/im2sequence.hpp>
#include <lod/kernels/cpu/linear_chain_crf.hpp>
#include <lod/kernels/cpu/matrix_product.hpp>
#include <lod/kernels/cpu/merge_rows.hpp>
#include <lod/kernels/cpu/optimizers.hpp>
#include <lod/kernels/cpu/recurrent.hpp>
#include <lod/kernels/cpu/row_conv.hpp>
#include <lod/kernels/cpu/row_sparse.hpp>
#include <lod/kernels/cpu/run_copy.hpp>
#include <lod/kernels/cpu/sequence_conv.hpp>
#include <lod/kernels/cpu/sequence_cumsum.hpp>
#include <lod/kernels/cpu/sequence_dropout.hpp>
#include <lod/kernels/cpu/sequence_enumerate.hpp>
#include <lod/kernels/cpu/sequence_erase.hpp>
#include <lod/kernels/cpu/sequence_expand.hpp>
#include <lod/kernels/cpu/sequence_logsumexp.hpp>
#include <lod/kernels/cpu/sequence_mask.hpp>
#include <lod/kernels/cpu/sequence_mean_var.hpp>
#include <lod/kernels/cpu/sequence_pad.hpp>
#include <lod/kernels/cpu/sequence_pool.hpp>
#include <lod/kernels/cpu/sequence_reverse.hpp>
#include <lod/kernels/cpu/sequence_scatter.hpp>
#include <lod/kernels/cpu/sequence_slice.hpp>
#include <lod/kernels/cpu/sequence_softmax.hpp>
#include <lod/kernels/cpu/sequence_sort.hpp>
#include <lod/kernels/cpu/sequence_topk_avg_pooling.hpp>
#include <lod/kernels/cpu/unique_sequences.hpp>

#ifdef LOD_CPU_LIBRARY
#  include <lod/kernels/compiled/cpu.hpp>
#endif

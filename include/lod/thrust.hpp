// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Thrust back end: the kernels of every operation for ThrustExecutor. The headers of Thrust (from the CUDA
/// toolkit, or Debian's) must be found, and without nvcc THRUST_DEVICE_SYSTEM must be set: lodtensor::thrust does both.
/// The policies are in <thrust/system/cpp/execution_policy.h> and its neighbours.
#pragma once

#include <lod/core/include_folders.hpp>
#include <lod/core/thrust_executor.hpp>
#include <lod/kernels/bulk/clip.hpp>
#include <lod/kernels/bulk/ctc_align.hpp>
#include <lod/kernels/bulk/edit_distance.hpp>
#include <lod/kernels/bulk/elementwise.hpp>
#include <lod/kernels/bulk/embedding.hpp>
#include <lod/kernels/bulk/embedding_pool.hpp>
#include <lod/kernels/bulk/for_each_sequence.hpp>
#include <lod/kernels/bulk/gru.hpp>
#include <lod/kernels/bulk/im2sequence.hpp>
#include <lod/kernels/bulk/lstm.hpp>
#include <lod/kernels/bulk/matrix_product.hpp>
#include <lod/kernels/bulk/merge_rows.hpp>
#include <lod/kernels/bulk/optimizers.hpp>
#include <lod/kernels/bulk/row_conv.hpp>
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
#include <lod/kernels/bulk/system.hpp>
#include <lod/kernels/bulk/unique_sequences.hpp>

// SPDX-License-Identifier: Apache-2.0
/// @file
/// The Thrust back end: the kernels of every operation for ThrustExecutor. The headers of Thrust (from the CUDA
/// toolkit, or Debian's) must be found, and without nvcc THRUST_DEVICE_SYSTEM must be set: lodtensor::thrust does both.
/// The policies are in <thrust/system/cpp/execution_policy.h> and its neighbours.
#pragma once

#include <lod/include_folders.hpp>
#include <lod/kernels/thrust/clip.hpp>
#include <lod/kernels/thrust/ctc_align.hpp>
#include <lod/kernels/thrust/edit_distance.hpp>
#include <lod/kernels/thrust/elementwise.hpp>
#include <lod/kernels/thrust/embedding.hpp>
#include <lod/kernels/thrust/embedding_pool.hpp>
#include <lod/kernels/thrust/for_each_sequence.hpp>
#include <lod/kernels/thrust/gru.hpp>
#include <lod/kernels/thrust/im2sequence.hpp>
#include <lod/kernels/thrust/lstm.hpp>
#include <lod/kernels/thrust/matrix_product.hpp>
#include <lod/kernels/thrust/merge_rows.hpp>
#include <lod/kernels/thrust/optimizers.hpp>
#include <lod/kernels/thrust/row_conv.hpp>
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
#include <lod/kernels/thrust/system.hpp>
#include <lod/kernels/thrust/unique_sequences.hpp>
#include <lod/thrust_executor.hpp>

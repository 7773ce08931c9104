// SPDX-License-Identifier: Apache-2.0
/// @file
/// All of the library for the CPU: the core, the operations, their CPU kernels. Never CUDA, Thrust, xtensor or
/// protobuf; those have headers of their own.
#pragma once

#include <lod/cpu.hpp>
#include <lod/data_type.hpp>
#include <lod/device.hpp>
#include <lod/error.hpp>
#include <lod/executor.hpp>
#include <lod/lod_batch.hpp>
#include <lod/lod_index.hpp>
#include <lod/lod_tensor.hpp>
#include <lod/lod_view.hpp>
#include <lod/ops/batch_levels.hpp>
#include <lod/ops/concat.hpp>
#include <lod/ops/dynamic_rnn.hpp>
#include <lod/ops/embedding.hpp>
#include <lod/ops/for_each_sequence.hpp>
#include <lod/ops/gru.hpp>
#include <lod/ops/levels.hpp>
#include <lod/ops/lod_reset.hpp>
#include <lod/ops/lstm.hpp>
#include <lod/ops/matrix_product.hpp>
#include <lod/ops/merge_rows.hpp>
#include <lod/ops/optimizers.hpp>
#include <lod/ops/rank_table.hpp>
#include <lod/ops/select.hpp>
#include <lod/ops/sequence_concat.hpp>
#include <lod/ops/sequence_conv.hpp>
#include <lod/ops/sequence_enumerate.hpp>
#include <lod/ops/sequence_erase.hpp>
#include <lod/ops/sequence_expand.hpp>
#include <lod/ops/sequence_mask.hpp>
#include <lod/ops/sequence_pad.hpp>
#include <lod/ops/sequence_pool.hpp>
#include <lod/ops/sequence_reshape.hpp>
#include <lod/ops/sequence_reverse.hpp>
#include <lod/ops/sequence_slice.hpp>
#include <lod/ops/sequence_softmax.hpp>
#include <lod/ops/split_lod_tensor.hpp>
#include <lod/ops/tensor_array.hpp>
#include <lod/ops/time_major.hpp>
#include <lod/ops/unique_sequences.hpp>
#include <lod/selected_rows.hpp>
#include <lod/shape.hpp>
#include <lod/version.hpp>

// SPDX-License-Identifier: Apache-2.0
#include "operation_calls_inl.hpp"

namespace lod_python {

OperationCalls byte_calls() {
  namespace op = lod::op;
  using Moves = lod::operation::List<
      op::array_to_lod_tensor, op::array_to_lod_tensor_grad, op::concat, op::concat_grad, op::embedding, op::filter,
      op::filter_grad, op::filter_rows, op::filter_rows_grad, op::flatten, op::flatten_grad, op::from_dense,
      op::from_time_major, op::from_time_major_grad, op::insert_level, op::insert_level_grad, op::lod_append,
      op::lod_append_grad, op::lod_reset, op::lod_reset_grad, op::lod_tensor_to_array, op::lod_tensor_to_array_grad,
      op::merge_lod_tensor, op::merge_lod_tensor_grad, op::remove_empty, op::remove_empty_grad, op::remove_level,
      op::remove_level_grad, op::reorder_lod_tensor_by_rank, op::reorder_lod_tensor_by_rank_grad, op::select,
      op::sequence_concat, op::sequence_concat_grad, op::sequence_expand, op::sequence_expand_as,
      op::sequence_first_step, op::sequence_last_step, op::sequence_pad, op::sequence_pad_grad, op::sequence_reverse,
      op::sequence_reverse_grad, op::sequence_slice, op::sequence_slice_grad, op::sequence_unpad,
      op::sequence_unpad_grad, op::shrink_rnn_memory, op::shrink_rnn_memory_grad, op::split, op::split_at,
      op::split_grad, op::split_lod_tensor, op::split_lod_tensor_grad, op::split_selected_rows,
      op::split_selected_rows_grad, op::to_time_major, op::to_time_major_grad, op::transpose_levels,
      op::transpose_levels_grad, op::unique_sequences, op::unique_sequences_and_wait>;
  return calls_of<std::uint8_t>(Moves());
}

}  // namespace lod_python

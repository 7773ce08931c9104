// SPDX-License-Identifier: Apache-2.0
/// @file
/// All operations, without a back end: their meaning, not their implementation. <lod/lod.hpp> adds the CPU's.
///
/// Outputs: an operation throws std::invalid_argument if an output overlaps something that it must not overlap, an
/// argument or another output; all of a tensor's memory counts. If an output may be an argument's own tensor, both must
/// begin at the same element. Levels that are passed may be the output's own: their state before the call is used.
///
/// Errors: whatever throws leaves the outputs unchanged, even if memory runs out; exceptions to this are documented
/// with the operation. On a GPU, and with the Thrust back end, the contents of results may be lost.
///
/// `AllOperations` lists them as types, for tables, tests and bindings that visit all of them.
///
/// The list of headers is also the list of kernels, whose headers have the same names. A back end includes its own by
///
///     #define LOD_KERNELS(name) <lod/kernels/cpu/name.hpp>
///     #include <lod/ops/operations.hpp>
#ifdef LOD_KERNELS
#  define LOD_HEADER(name) LOD_KERNELS(name)
#else
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#  define LOD_HEADER(name) <lod/ops/name.hpp>
// Operations without kernels of their own.
#  include <lod/core/target.hpp>
#  include <lod/ops/batch_levels.hpp>
#  include <lod/ops/beam_search.hpp>
#  include <lod/ops/beam_search_decode.hpp>
#  include <lod/ops/concat.hpp>
#  include <lod/ops/dynamic_rnn.hpp>
#  include <lod/ops/embedding_max_pool.hpp>
#  include <lod/ops/filter_rows.hpp>
#  include <lod/ops/gru.hpp>
#  include <lod/ops/gru_cell.hpp>
#  include <lod/ops/levels.hpp>
#  include <lod/ops/linear.hpp>
#  include <lod/ops/lod_reset.hpp>
#  include <lod/ops/lstm.hpp>
#  include <lod/ops/lstm_cell.hpp>
#  include <lod/ops/select.hpp>
#  include <lod/ops/sequence_concat.hpp>
#  include <lod/ops/sequence_reshape.hpp>
#  include <lod/ops/split_lod_tensor.hpp>
#  include <lod/ops/split_selected_rows.hpp>
#  include <lod/ops/stacked_gru.hpp>
#  include <lod/ops/stacked_lstm.hpp>
#  include <lod/ops/tensor_array.hpp>
#  include <lod/ops/time_major.hpp>
#endif

// Operations with kernels.
#include LOD_HEADER(checked_ids)
#include LOD_HEADER(chunk_eval)
#include LOD_HEADER(clip)
#include LOD_HEADER(cross_entropy)
#include LOD_HEADER(ctc_align)
#include LOD_HEADER(ctc_loss)
#include LOD_HEADER(edit_distance)
#include LOD_HEADER(elementwise)
#include LOD_HEADER(embedding)
#include LOD_HEADER(embedding_pool)
#include LOD_HEADER(for_each_sequence)
#include LOD_HEADER(grouped_linear)
#include LOD_HEADER(im2sequence)
#include LOD_HEADER(jagged_bmm)
#include LOD_HEADER(layer_norm)
#include LOD_HEADER(linear_chain_crf)
#include LOD_HEADER(map_rows)
#include LOD_HEADER(matrix_product)
#include LOD_HEADER(merge_rows)
#include LOD_HEADER(optimizers)
#include LOD_HEADER(recurrent)
#include LOD_HEADER(reduce_sequences)
#include LOD_HEADER(rotary_embedding)
#include LOD_HEADER(row_conv)
#include LOD_HEADER(row_sparse)
#include LOD_HEADER(run_copy)
#include LOD_HEADER(scan_sequences)
#include LOD_HEADER(sequence_attention)
#include LOD_HEADER(sequence_conv)
#include LOD_HEADER(sequence_cumsum)
#include LOD_HEADER(sequence_dropout)
#include LOD_HEADER(sequence_enumerate)
#include LOD_HEADER(sequence_erase)
#include LOD_HEADER(sequence_expand)
#include LOD_HEADER(sequence_linear_scan)
#include LOD_HEADER(sequence_logsumexp)
#include LOD_HEADER(sequence_mask)
#include LOD_HEADER(sequence_mean_var)
#include LOD_HEADER(sequence_pad)
#include LOD_HEADER(sequence_pool)
#include LOD_HEADER(sequence_positions)
#include LOD_HEADER(sequence_reverse)
#include LOD_HEADER(sequence_scatter)
#include LOD_HEADER(sequence_slice)
#include LOD_HEADER(sequence_softmax)
#include LOD_HEADER(sequence_sort)
#include LOD_HEADER(sequence_topk_avg_pooling)
#include LOD_HEADER(unique_sequences)
#undef LOD_HEADER

#ifdef LOD_KERNELS
#  undef LOD_KERNELS
#elif !defined LOD_ALL_OPERATIONS
#  define LOD_ALL_OPERATIONS
#  include <cstddef>
#  include <string_view>

namespace lod::inline LOD_INTERFACE::inline LOD_TARGET {

namespace operation {

/// Operations, by their tags.
template <class... Ops>
struct List {
  static constexpr std::size_t size = sizeof...(Ops);  ///< the number of operations
};

/// The compiler's name of a tag, without namespaces.
template <class Op>
constexpr std::string_view name_of_tag() noexcept {
  // "... [with Op = lod::v1::op::add; ...]" by g++, "... [Op = lod::op::add]" by clang, "... [with Op=lod::op::add]" by
  // nvcc.
  const std::string_view function = __PRETTY_FUNCTION__;
  const std::size_t begin = function.find("Op");
  const std::string_view tag = function.substr(begin, function.find_first_of(";]", begin) - begin);
  return tag.substr(tag.rfind(':') + 1);
}
/// The name of an operation, which is that of its tag: `name_of<op::add>` is "add". It works both for declared
/// operations and for those that have a function for each form.
template <class Op>
inline constexpr std::string_view name_of = name_of_tag<Op>();

/// Calls f.template operator()<Op>() for each operation of a list, in its order.
template <class... Ops, class F>
constexpr void for_each_operation(List<Ops...>, F&& f) {
  (f.template operator()<Ops>(), ...);
}

}  // namespace operation

/// All operations, by their names.
using AllOperations = operation::List<
    op::adagrad, op::adam, op::add, op::add_grad, op::array_to_lod_tensor, op::array_to_lod_tensor_grad,
    op::beam_search, op::beam_search_and_wait, op::beam_search_decode, op::beam_search_decode_and_wait, op::chunk_eval,
    op::clip, op::clip_by_norm, op::clip_by_norm_grad, op::clip_grad, op::concat, op::concat_grad, op::crf_decoding,
    op::cross_entropy, op::cross_entropy_grad, op::ctc_align, op::ctc_align_and_wait, op::ctc_loss, op::ctc_loss_grad,
    op::div, op::div_grad, op::dynamic_rnn, op::dynamic_rnn_grad, op::edit_distance, op::embedding, op::embedding_grad,
    op::embedding_max_pool, op::embedding_max_pool_grad, op::embedding_min_pool, op::embedding_min_pool_grad,
    op::embedding_pool, op::embedding_pool_grad, op::embedding_pool_weights_grad, op::filter, op::filter_grad,
    op::filter_rows, op::filter_rows_grad, op::flatten, op::flatten_grad, op::for_each_sequence, op::from_dense,
    op::from_time_major, op::from_time_major_grad, op::ftrl, op::grouped_linear, op::grouped_linear_grad, op::gru,
    op::gru_cell, op::gru_cell_grad, op::gru_grad, op::im2sequence, op::im2sequence_grad, op::insert_level,
    op::insert_level_grad, op::jagged_dense_bmm, op::jagged_dense_bmm_grad, op::jagged_jagged_bmm,
    op::jagged_jagged_bmm_grad, op::layer_norm, op::layer_norm_grad, op::linear, op::linear_chain_crf,
    op::linear_chain_crf_grad, op::linear_grad, op::lod_append, op::lod_append_grad, op::lod_reset, op::lod_reset_grad,
    op::lod_tensor_to_array, op::lod_tensor_to_array_grad, op::lstm, op::lstm_cell, op::lstm_cell_grad, op::lstm_grad,
    op::map_sequences, op::merge_add, op::merge_add_grad, op::merge_average, op::merge_average_grad,
    op::merge_lod_tensor, op::merge_lod_tensor_grad, op::momentum, op::mul, op::mul_grad, op::remove_empty,
    op::remove_empty_grad, op::remove_level, op::remove_level_grad, op::reorder_lod_tensor_by_rank,
    op::reorder_lod_tensor_by_rank_grad, op::rms_norm, op::rms_norm_grad, op::rmsprop, op::rotary_embedding,
    op::rotary_embedding_grad, op::row_conv, op::row_conv_grad, op::scale, op::scatter, op::scatter_grad, op::select,
    op::select_grad, op::sequence_argsort, op::sequence_attention, op::sequence_attention_grad, op::sequence_concat,
    op::sequence_concat_grad, op::sequence_conv, op::sequence_conv_grad, op::sequence_cumsum, op::sequence_cumsum_grad,
    op::sequence_dropout, op::sequence_dropout_grad, op::sequence_enumerate, op::sequence_erase,
    op::sequence_erase_and_wait, op::sequence_expand, op::sequence_expand_as, op::sequence_expand_as_grad,
    op::sequence_expand_grad, op::sequence_first_step, op::sequence_last_step, op::sequence_linear_scan,
    op::sequence_linear_scan_grad, op::sequence_log_softmax, op::sequence_log_softmax_grad, op::sequence_logsumexp,
    op::sequence_logsumexp_grad, op::sequence_mask, op::sequence_max_pool, op::sequence_max_pool_grad,
    op::sequence_mean_var, op::sequence_mean_var_grad, op::sequence_min_pool, op::sequence_min_pool_grad,
    op::sequence_pad, op::sequence_pad_grad, op::sequence_pool, op::sequence_pool_grad, op::sequence_positions,
    op::sequence_reshape, op::sequence_reshape_grad, op::sequence_reverse, op::sequence_reverse_grad,
    op::sequence_scatter, op::sequence_scatter_grad, op::sequence_slice, op::sequence_slice_grad, op::sequence_softmax,
    op::sequence_softmax_grad, op::sequence_sort, op::sequence_sort_grad, op::sequence_topk,
    op::sequence_topk_avg_pooling, op::sequence_topk_avg_pooling_grad, op::sequence_topk_grad, op::sequence_unpad,
    op::sequence_unpad_grad, op::sgd, op::shrink_rnn_memory, op::shrink_rnn_memory_grad, op::split, op::split_at,
    op::split_grad, op::split_lod_tensor, op::split_lod_tensor_grad, op::split_selected_rows,
    op::split_selected_rows_grad, op::stacked_gru, op::stacked_gru_grad, op::stacked_lstm, op::stacked_lstm_grad,
    op::sub, op::sub_grad, op::to_dense, op::to_dense_grad, op::to_time_major, op::to_time_major_grad,
    op::transpose_levels, op::transpose_levels_grad, op::unique_sequences, op::unique_sequences_and_wait>;

}  // namespace lod::inline LOD_INTERFACE::inline LOD_TARGET

#endif

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Every operation by its plain name, beside all that C and the standard library have. None is left out: declared ones
/// are counted by their objects, the others by their tags.
#include <lod/lod.hpp>

#include <stdlib.h>
#include <sys/select.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <ranges>
#include <system_error>
#include <utility>
#include <vector>

using namespace lod;
using namespace std;

template <class... Ops>
constexpr size_t count(const operation::Call<Ops>&...) {
  return sizeof...(Ops);
}
constexpr size_t objects = count(
    add, add_grad, array_to_lod_tensor, array_to_lod_tensor_grad, clip, clip_by_norm, clip_by_norm_grad, clip_grad,
    ctc_align, ctc_align_and_wait, div_grad, edit_distance, embedding, embedding_grad, embedding_max_pool,
    embedding_max_pool_grad, embedding_min_pool, embedding_min_pool_grad, embedding_pool, embedding_pool_grad,
    embedding_pool_weights_grad, filter_grad, flatten, flatten_grad, from_dense, from_time_major, from_time_major_grad,
    gru, gru_grad, im2sequence, im2sequence_grad, insert_level, insert_level_grad, lod_append, lod_append_grad,
    lod_reset, lod_reset_grad, lod_tensor_to_array, lod_tensor_to_array_grad, lstm, lstm_grad, merge_add,
    merge_add_grad, merge_average, merge_average_grad, merge_lod_tensor, merge_lod_tensor_grad, mul, mul_grad,
    remove_empty, remove_empty_grad, remove_level, remove_level_grad, reorder_lod_tensor_by_rank,
    reorder_lod_tensor_by_rank_grad, row_conv, row_conv_grad, scale, scatter_grad, select_grad, sequence_argsort,
    sequence_concat, sequence_conv, sequence_cumsum_grad, sequence_enumerate, sequence_expand, sequence_expand_as,
    sequence_expand_as_grad, sequence_expand_grad, sequence_first_step, sequence_last_step, sequence_log_softmax,
    sequence_log_softmax_grad, sequence_logsumexp, sequence_logsumexp_grad, sequence_max_pool, sequence_max_pool_grad,
    sequence_mean_var, sequence_mean_var_grad, sequence_min_pool, sequence_min_pool_grad, sequence_pad,
    sequence_pad_grad, sequence_pool_grad, sequence_reshape, sequence_reshape_grad, sequence_reverse,
    sequence_reverse_grad, sequence_scatter, sequence_scatter_grad, sequence_slice, sequence_slice_grad,
    sequence_softmax, sequence_softmax_grad, sequence_sort, sequence_sort_grad, sequence_topk,
    sequence_topk_avg_pooling, sequence_topk_avg_pooling_grad, sequence_topk_grad, sequence_unpad, sequence_unpad_grad,
    shrink_rnn_memory, shrink_rnn_memory_grad, split_grad, split_lod_tensor, split_lod_tensor_grad, split_selected_rows,
    sub, sub_grad, to_dense, to_dense_grad, to_time_major, to_time_major_grad, transpose_levels, transpose_levels_grad,
    unique_sequences, unique_sequences_and_wait);
using Functions =
    operation::List<op::adagrad, op::adam, op::concat, op::concat_grad, op::div, op::dynamic_rnn, op::dynamic_rnn_grad,
                    op::filter, op::for_each_sequence, op::ftrl, op::map_sequences, op::momentum, op::rmsprop,
                    op::scatter, op::select, op::sequence_concat_grad, op::sequence_conv_grad, op::sequence_cumsum,
                    op::sequence_erase, op::sequence_erase_and_wait, op::sequence_mask, op::sequence_pool, op::sgd,
                    op::split, op::split_at, op::split_selected_rows_grad>;
static_assert(objects + Functions::size == AllOperations::size);

template <class... Results>
void called(const Results&...) {}

void functions(LoDTensor<float>& x, LoDTensor<float>& y, const SelectedRows<float>& g, const LoDTensor<int64_t>& ids) {
  const vector<LoD> lods = {x.lod(), x.lod()};
  const RankTable ranks(x.lod());
  const auto cell = [](const auto& state, const auto& step) { return pair(state, step); };
  const auto cell_grad = [](const auto&, const auto&, const auto& dstate, const auto& dstep) {
    return pair(dstate, dstep);
  };
  const auto same = [](const auto& sequence) { return sequence; };
  called(concat(x, x), concat_grad(y, lods), split(x, 2), split_at(x, {1}), select(x, {0}), filter(x, {true}));
  called(div(x, y), sequence_pool(x, PoolType::SUM), sequence_cumsum(x), sequence_mask<float>({1, 2}));
  called(sequence_concat_grad(y, lods), sequence_conv_grad(y, x, y), sequence_erase(ids, {int64_t{1}}));
  called(sequence_erase_and_wait(ids, {int64_t{1}}), split_selected_rows_grad(vector{g, g}));
  called(dynamic_rnn(x, ranks, y, cell), dynamic_rnn_grad(x, y, x, ranks, y, cell, cell_grad), map_sequences(x, same));
  for_each_sequence(x, 0, [](const auto&) {});
  scatter(g, ScatterOp::ADD, y);
  sgd(x, g, 0.1);
  momentum(x, y, g);
  adagrad(x, y, g);
  rmsprop(x, y, y, g);
  adam(x, y, y, g, {.step = 1});
  ftrl(x, y, y, g);
}

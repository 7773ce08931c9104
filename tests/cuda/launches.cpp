// SPDX-License-Identifier: Apache-2.0
/// @file
/// How many kernels operations launch: of short sequences, and of a giant among them. A sort and a scan are one each
/// here; on a GPU a sort is as many as its passes, and a scan is two. What the CPU has worked out is copied beside
/// them, and is no part of graphs.
#include "support/check_on_gpu.hpp"
#include "support/random_batch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using lod::ScatterOp;
using lod::SelectedRows;
using namespace lod_test;

#ifdef LOD_TEST_EMULATED_GPU

namespace {

/// What holds for operations, but for those below.
constexpr std::int64_t most_launches = 3;

struct MoreLaunches {
  std::vector<std::string> operations;
  std::int64_t launches;
  const char* why;
};
const MoreLaunches more_launches[] = {
    {{"merge_add", "merge_average", "to_dense", "scatter", "sgd", "momentum", "adagrad", "rmsprop", "adam", "ftrl",
      "sgd, EXACT", "adagrad, EXACT"},
     5,
     "rows are listed, sorted and grouped; nobody knows how long the longest group is, so there are leaves to be "
     "joined"},
    {{"momentum, EXACT", "rmsprop, EXACT", "adam, EXACT", "ftrl, EXACT"},
     6,
     "the same, and the rows that are not listed, by a search among those that are"},
    {{"add, row-sparse", "clip"}, 6, "a copy and a scatter; merge_add and the cutting of what it gave"},
    {{"embedding_max_pool_grad", "embedding_min_pool_grad"}, 5, "as merge_add"},
    {{"embedding_pool_grad"}, 6, "as merge_add; for AVERAGE and SQRT gradients are divided before"},
    {{"merge_add_grad"}, 6, "ids listed, copied, sorted and grouped; the group of each, and what it has"},
    {{"merge_average_grad"}, 7, "the same, and the division"},
    {{"scatter_grad"}, 6, "a copy of dy and of ids; rows are listed, sorted and grouped, and gone through backwards"},
    {{"clip_grad"}, 9, "merge_add, its gradient, a copy of the ids; the group of each, and what it has"},
    {{"clip_by_norm"}, 9, "merge_add; all as one sequence, whose sum is there before a row is made shorter"},
    {{"clip_by_norm_grad"}, 14, "both of these, and another sum"},
    {{"split_selected_rows"}, 4, "ids and values of each part: here there are two"},
    {{"unique_sequences_and_wait"},
     11,
     "sequences are numbered, sorted, compared and counted, and may be giants whose leaves are joined; three outputs"},
    {{"sequence_logsumexp_grad"}, 4, "a softmax, whose leaves may be joined before they are written, times dy"},
    {{"embedding_pool_weights_grad"},
     4,
     "for MAX and MIN: the ids checked, the pool with its leaves joined, the weights"},
    {{"sub_grad", "mul_grad"}, 4, "dx; the terms of dy, or their sign; their sums, with leaves joined"},
    {{"div_grad"}, 5, "dx; the terms of dy in two steps that round; their sums, with leaves joined"},
    {{"row_conv_grad"},
     5,
     "dx; the rows of the filter need to know where sequences end, and sum all rows as one sequence"},
    {{"sequence_conv_grad"}, 8, "three gradients: each a product, of rows whose sequences are found, or of sums"},
    {{"sequence_scatter"}, 5, "the ids checked, x copied, updates listed, sorted and added"},
    {{"sequence_topk_avg_pooling"}, 4, "numbers are listed and sorted; one for each k: here there are two"},
    {{"sequence_topk_avg_pooling_grad"}, 6, "the same, after zeros, and where each number goes"},
    {{"lod_tensor_to_array", "array_to_lod_tensor_grad"}, 4, "one for each step: here there are four"},
    {{"lstm"},
     15,
     "one product for all rows; for each step, here four, a product and the cells; first and last states"},
    {{"gru"}, 13, "the same"},
    {{"lstm_grad", "gru_grad"}, 21, "the same backwards, and the gradients by the weights"},
    {{"dynamic_rnn"}, 16, "what the user does for each step, and where its rows come from and go"},
    {{"dynamic_rnn_grad"}, 30, "the same forwards, and backwards"},
};

/// Calls operations, and keeps the most that each has launched.
struct LaunchCensus {
  using Tensor = LoDTensor<float, lod::Cuda>;
  using Ids = LoDTensor<std::int64_t, lod::Cuda>;
  using Rows = SelectedRows<float, lod::Cuda>;

  Engine engine = Engine(64);
  lod::CudaExecutor e;
  std::map<std::string, std::int64_t> found;

  Tensor tensor() const { return Tensor(e.resource()); }
  Ids numbers() const { return Ids(e.resource()); }
  Rows rows() const { return Rows(e.resource()); }
  template <class X>
  auto there(const X& x) const {
    return lod::to<lod::Cuda>(e, x);
  }
  Tensor dense(const lod::Shape& shape) { return there(small_reals<float>(engine, shape)); }

  template <class Call>
  void count(const std::string& name, const Call& call) {
    std::int64_t& most = found[name];
    most = std::max(most, launches_of(e, call));
  }

  void sequences(const LoD& index, std::int64_t row_size);
  void structure(const LoD& index, std::int64_t row_size);
  void row_sparse(std::int64_t count, std::int64_t row_size);
  void recurrent(const LoD& index);
};

void LaunchCensus::sequences(const LoD& index, std::int64_t row_size) {
  const auto x = there(real_numbers<float>(engine, index, {row_size})),
             column = there(real_numbers<float>(engine, index, {}));
  const auto ids = there(random_ids(engine, index, 20)), others = there(random_ids(engine, index, 20));
  const auto table = dense({20, row_size}), by_sequence = dense({index.size(-1), row_size}), row = dense({row_size});
  auto y = tensor(), dx = tensor(), z = tensor();
  auto at = numbers();
  auto dtable = rows();
  for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::MAX, PoolType::FIRST}) {
    count("sequence_pool", [&] { lod::sequence_pool_into(e, x, type, y); });
    count("embedding_pool", [&] { lod::embedding_pool_into(e, table, ids, type, y); });
    count("embedding_pool_weights_grad",
          [&] { lod::embedding_pool_weights_grad_into(e, by_sequence, table, ids, type, {.weights = column}, z); });
    if (type == PoolType::MAX) continue;
    count("sequence_pool_grad", [&] { lod::sequence_pool_grad_into(e, by_sequence, index, type, dx); });
    count("embedding_pool_grad", [&] { lod::embedding_pool_grad_into(e, by_sequence, ids, 20, type, dtable); });
  }
  count("sequence_first_step", [&] { lod::sequence_first_step_into(e, x, y); });
  count("sequence_last_step", [&] { lod::sequence_last_step_into(e, x, y); });
  count("sequence_max_pool", [&] { lod::sequence_max_pool_into(e, x, y, at); });
  count("sequence_max_pool_grad", [&] { lod::sequence_max_pool_grad_into(e, y, at, index, dx); });
  count("sequence_min_pool", [&] { lod::sequence_min_pool_into(e, x, y, at); });
  count("sequence_min_pool_grad", [&] { lod::sequence_min_pool_grad_into(e, y, at, index, dx); });
  count("sequence_logsumexp", [&] { lod::sequence_logsumexp_into(e, x, y); });
  count("sequence_logsumexp_grad", [&] { lod::sequence_logsumexp_grad_into(e, y, x, dx); });
  count("sequence_mean_var", [&] { lod::sequence_mean_var_into(e, x, y, z); });
  count("sequence_mean_var_grad", [&] { lod::sequence_mean_var_grad_into(e, y, z, x, dx); });
  count("sequence_softmax", [&] { lod::sequence_softmax_into(e, x, y); });
  count("sequence_softmax_grad", [&] { lod::sequence_softmax_grad_into(e, x, y, dx); });
  count("sequence_log_softmax", [&] { lod::sequence_log_softmax_into(e, x, y); });
  count("sequence_log_softmax_grad", [&] { lod::sequence_log_softmax_grad_into(e, x, y, dx); });
  count("sequence_cumsum", [&] { lod::sequence_cumsum_into(e, x, y); });
  count("sequence_cumsum_grad", [&] { lod::sequence_cumsum_grad_into(e, x, dx); });
  count("sequence_reverse", [&] { lod::sequence_reverse_into(e, x, y); });
  count("sequence_reverse_grad", [&] { lod::sequence_reverse_grad_into(e, x, dx); });
  count("sequence_sort", [&] { lod::sequence_sort_into(e, column, y); });
  count("sequence_argsort", [&] { lod::sequence_argsort_into(e, column, at); });
  count("sequence_sort_grad", [&] { lod::sequence_sort_grad_into(e, column, at, dx); });
  count("sequence_topk", [&] { lod::sequence_topk_into(e, column, 3, y, at); });
  count("sequence_topk_grad", [&] { lod::sequence_topk_grad_into(e, y, at, index, 3, dx); });
  count("embedding", [&] { lod::embedding_into(e, table, ids, y); });
  count("embedding_grad", [&] { lod::embedding_grad_into(e, y, ids, 20, dtable); });
  count("embedding_max_pool", [&] { lod::embedding_max_pool_into(e, table, ids, y, at); });
  count("embedding_max_pool_grad", [&] { lod::embedding_max_pool_grad_into(e, y, at, ids, 20, dtable); });
  count("embedding_min_pool", [&] { lod::embedding_min_pool_into(e, table, ids, y, at); });
  count("embedding_min_pool_grad", [&] { lod::embedding_min_pool_grad_into(e, y, at, ids, 20, dtable); });
  const auto wide = dense({index.size(-1), 20});
  count("sequence_scatter", [&] { lod::sequence_scatter_into(e, wide, ids, column, y); });
  count("sequence_scatter_grad", [&] { lod::sequence_scatter_grad_into(e, y, ids, dx, z); });
  for (const auto* const second : {&x, &row, &by_sequence}) {
    const lod::ElementwiseOptions options{.level = 0};
    count("add", [&] { lod::add_into(e, x, *second, options, y); });
    count("sub", [&] { lod::sub_into(e, x, *second, options, y); });
    count("mul", [&] { lod::mul_into(e, x, *second, options, y); });
    count("div", [&] { lod::div_into(e, x, *second, options, y); });
    count("add_grad", [&] { lod::add_grad_into(e, x, x, *second, options, dx, z); });
    count("sub_grad", [&] { lod::sub_grad_into(e, x, x, *second, options, dx, z); });
    count("mul_grad", [&] { lod::mul_grad_into(e, x, x, *second, options, dx, z); });
    count("div_grad", [&] { lod::div_grad_into(e, x, x, *second, options, dx, z); });
  }
  const auto filter = dense({3 * row_size, 5}), padding = dense({2, row_size}), ahead = dense({4, row_size});
  const lod::ConvOptions<float, lod::Cuda> window = {.context_length = 3, .context_start = -1, .padding = &padding};
  auto dfilter = tensor(), dpadding = tensor();
  count("sequence_conv", [&] { lod::sequence_conv_into(e, x, filter, window, y); });
  count("sequence_conv_grad", [&] { lod::sequence_conv_grad_into(e, y, x, filter, window, dx, dfilter, dpadding); });
  count("row_conv", [&] { lod::row_conv_into(e, x, ahead, y); });
  count("row_conv_grad", [&] { lod::row_conv_grad_into(e, x, x, ahead, dx, dfilter); });
  count("sequence_enumerate", [&] { lod::sequence_enumerate_into(e, ids, 3, {}, at); });
  if (index.max_length(-1) < 300) count("edit_distance", [&] { lod::edit_distance_into(e, ids, others, y); });
  const std::vector<std::int64_t> tokens = {0, 3};
  count("sequence_erase_and_wait", [&] { lod::sequence_erase_and_wait_into(e, ids, tokens, at); });
  count("ctc_align_and_wait", [&] { lod::ctc_align_and_wait_into(e, ids, at); });
  auto twins = numbers(), firsts = numbers(), counts = numbers();
  count("unique_sequences_and_wait", [&] { lod::unique_sequences_and_wait_into(e, ids, twins, firsts, counts); });
  const LoD matrix_rows = LoD::from_lengths({{2, 0, 3}}), columns = LoD::from_lengths({{3, 5, 2}});
  const auto matrices = there(real_numbers<float>(engine, LoD::from_lengths({{12, 0, 12}}), {}));
  const std::vector<std::int64_t> topks = {1, 3};
  count("sequence_topk_avg_pooling",
        [&] { lod::sequence_topk_avg_pooling_into(e, matrices, matrix_rows, columns, topks, 2, y); });
  count("sequence_topk_avg_pooling_grad",
        [&] { lod::sequence_topk_avg_pooling_grad_into(e, y, matrices, matrix_rows, columns, topks, 2, dx); });
}

void LaunchCensus::structure(const LoD& index, std::int64_t row_size) {
  const auto x = there(real_numbers<float>(engine, index, {row_size}));
  auto y = tensor(), z = tensor(), dx = tensor();
  auto at = numbers();
  std::vector<Tensor> two(2, tensor()), three(3, tensor());
  const std::vector<LoD> lods = {index, index};
  count("concat", [&] { lod::concat_into(e, x, x, y); });
  count("concat_grad", [&] { lod::concat_grad_into(e, y, lods, two); });
  count("split", [&] { lod::split_into(e, x, 3, three); });
  count("split_grad", [&] { lod::split_grad_into(e, three, dx); });
  const std::vector<std::int64_t> borders = {1, 2};
  count("split_at", [&] { lod::split_at_into(e, x, borders, three); });
  const std::vector<std::int64_t> chosen = {2, 0, 2};
  count("select", [&] { lod::select_into(e, x, chosen, y); });
  count("select_grad", [&] { lod::select_grad_into(e, y, index, chosen, dx); });
  std::vector<bool> mask(static_cast<std::size_t>(index.size(0)));
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 > 0;
  count("filter", [&] { lod::filter_into(e, x, mask, y); });
  count("filter_grad", [&] { lod::filter_grad_into(e, y, index, mask, dx); });
  count("remove_empty", [&] { lod::remove_empty_into(e, x, y); });
  count("remove_empty_grad", [&] { lod::remove_empty_grad_into(e, y, index, dx); });
  const lod::MergeBranchOptions back{.lod = index};
  count("split_lod_tensor", [&] { lod::split_lod_tensor_into(e, x, mask, y, z); });
  count("merge_lod_tensor", [&] { lod::merge_lod_tensor_into(e, y, z, mask, back, dx); });
  count("split_lod_tensor_grad", [&] { lod::split_lod_tensor_grad_into(e, y, z, mask, back, dx); });
  count("merge_lod_tensor_grad", [&] { lod::merge_lod_tensor_grad_into(e, x, mask, y, z); });
  count("remove_level", [&] { lod::remove_level_into(e, x, 0, y); });
  count("remove_level_grad", [&] { lod::remove_level_grad_into(e, y, index, dx); });
  const LoD above = LoD::from_lengths({{0, index.size(0)}});
  count("insert_level", [&] { lod::insert_level_into(e, x, 0, above, y); });
  count("insert_level_grad", [&] { lod::insert_level_grad_into(e, y, index, dx); });
  count("flatten", [&] { lod::flatten_into(e, x, y); });
  count("flatten_grad", [&] { lod::flatten_grad_into(e, y, index, dx); });
  if (index.levels() > 1) {
    count("transpose_levels", [&] { lod::transpose_levels_into(e, x, y); });
    count("transpose_levels_grad", [&] { lod::transpose_levels_grad_into(e, y, index, dx); });
  }
  count("map_sequences", [&] {
    lod::map_sequences_into(
        e, x, [](const auto& sequence) { return sequence; }, y);
  });
  count("for_each_sequence", [&] { lod::for_each_sequence(e, x, 0, [](const auto&) {}); });
  count("lod_reset", [&] { lod::lod_reset_into(e, x, LoD(), y); });
  count("lod_reset_grad", [&] { lod::lod_reset_grad_into(e, y, index, dx); });
  std::vector<std::int64_t> every(static_cast<std::size_t>(index.rows()) + 1);
  std::iota(every.begin(), every.end(), std::int64_t{0});
  count("lod_append", [&] { lod::lod_append_into(e, x, every, y); });
  count("lod_append_grad", [&] { lod::lod_append_grad_into(e, y, index, dx); });
  std::vector<std::int64_t> repeated(static_cast<std::size_t>(index.size(0)), 2);
  const LoD repeats = LoD::from_lengths({repeated});
  count("sequence_expand", [&] { lod::sequence_expand_into(e, x, repeats, y); });
  count("sequence_expand_grad", [&] { lod::sequence_expand_grad_into(e, y, index, repeats, dx); });
  const auto one_each = dense({index.size(-1), row_size});
  count("sequence_expand_as", [&] { lod::sequence_expand_as_into(e, one_each, index, y); });
  count("sequence_expand_as_grad", [&] { lod::sequence_expand_as_grad_into(e, x, index, dx); });
  count("sequence_concat", [&] { lod::sequence_concat_into(e, x, x, y); });
  count("sequence_concat_grad", [&] { lod::sequence_concat_grad_into(e, y, lods, two); });
  std::vector<std::int64_t> first(mask.size(), 0), taken = index.lengths(0);
  count("sequence_slice", [&] { lod::sequence_slice_into(e, x, first, taken, y); });
  count("sequence_slice_grad", [&] { lod::sequence_slice_grad_into(e, y, index, first, taken, dx); });
  const lod::PadOptions pad{.padded_length = 20, .truncate = true};
  count("sequence_pad", [&] { lod::sequence_pad_into(e, x, pad, y, at); });
  count("sequence_pad_grad", [&] { lod::sequence_pad_grad_into(e, y, index, pad, dx); });
  std::vector<std::int64_t> lengths = {4, 0, 7};
  const auto padded = dense({3, 20, row_size});
  count("sequence_unpad", [&] { lod::sequence_unpad_into(e, padded, lengths, y); });
  count("sequence_unpad_grad", [&] { lod::sequence_unpad_grad_into(e, y, lengths, 20, dx); });
  count("sequence_mask", [&] { lod::sequence_mask_into(e, lengths, at); });
  count("sequence_reshape", [&] { lod::sequence_reshape_into(e, x, 1, y); });
  count("sequence_reshape_grad", [&] { lod::sequence_reshape_grad_into(e, y, index, {row_size}, dx); });
  const auto images = dense({2, row_size, 4, 5});
  const lod::Im2SequenceOptions patches = {.kernels = {2, 3}};
  count("im2sequence", [&] { lod::im2sequence_into(e, images, patches, y); });
  count("im2sequence_grad", [&] { lod::im2sequence_grad_into(e, y, images, patches, dx); });
}

void LaunchCensus::row_sparse(std::int64_t size, std::int64_t row_size) {
  constexpr std::int64_t height = 900;
  std::vector<std::int64_t> listed;
  for (std::int64_t i = 0; i < size; ++i) listed.push_back(random_number(engine, 0, height - 1));
  const SelectedRows<float> here(listed, height, real_numbers<float>(engine, {size, row_size}));
  const auto g = there(here);
  auto merged = rows(), other = rows();
  auto y = dense({height, row_size}), dy = dense({height, row_size});
  auto dx = tensor();
  count("merge_add", [&] { lod::merge_add_into(e, g, merged); });
  count("merge_average", [&] { lod::merge_average_into(e, g, merged); });
  count("merge_add_grad", [&] { lod::merge_add_grad_into(e, merged, listed, other); });
  count("merge_average_grad", [&] { lod::merge_average_grad_into(e, merged, listed, other); });
  count("to_dense", [&] { lod::to_dense_into(e, g, y); });
  count("to_dense_grad", [&] { lod::to_dense_grad_into(e, y, listed, other); });
  count("from_dense", [&] { lod::from_dense_into(e, y, listed, other); });
  count("add, row-sparse", [&] { lod::add_into(e, g, g, other); });
  count("add, row-sparse", [&] { lod::add_into(e, g, y, dx); });
  count("scale", [&] { lod::scale_into(e, g, 0.5, other); });
  count("clip", [&] { lod::clip_into(e, g, -1, 1, other); });
  count("clip_grad", [&] { lod::clip_grad_into(e, merged, g, -1, 1, other); });
  count("clip_by_norm", [&] { lod::clip_by_norm_into(e, g, 1, other); });
  count("clip_by_norm_grad", [&] { lod::clip_by_norm_grad_into(e, merged, g, 1, other); });
  std::vector<Rows> parts;
  count("split_selected_rows", [&] { lod::split_selected_rows_into(e, g, {300, 600}, parts); });
  count("split_selected_rows_grad", [&] { lod::split_selected_rows_grad_into(e, parts, other); });
  for (const ScatterOp op : {ScatterOp::ASSIGN, ScatterOp::ADD, ScatterOp::MUL}) {
    count("scatter", [&] { lod::scatter(e, g, op, y); });
    count("scatter_grad", [&] { lod::scatter_grad_into(e, dy, g, op, y, dx, other); });
  }
  auto s = dense({height, row_size}), t = dense({height, row_size}), u = dense({height, row_size});
  for (const lod::Sparse mode : {lod::Sparse::LAZY, lod::Sparse::EXACT}) {
    const std::string lazy = mode == lod::Sparse::LAZY ? "" : ", EXACT";
    count("sgd" + lazy, [&] { lod::sgd(e, y, g, {.mode = mode}); });
    count("momentum" + lazy, [&] { lod::momentum(e, y, s, g, {.mode = mode}); });
    count("adagrad" + lazy, [&] { lod::adagrad(e, y, s, g, {.mode = mode}); });
    count("rmsprop" + lazy, [&] { lod::rmsprop(e, y, s, t, g, {.mode = mode}); });
    count("rmsprop" + lazy, [&] { lod::rmsprop(e, y, s, t, u, g, {.mode = mode}); });
    count("adam" + lazy, [&] { lod::adam(e, y, s, t, g, {.step = 1, .mode = mode}); });
    count("ftrl" + lazy, [&] { lod::ftrl(e, y, s, t, g, {.mode = mode}); });
  }
  count("sgd, dense", [&] { lod::sgd(e, y, dy); });
  count("momentum, dense", [&] { lod::momentum(e, y, s, dy); });
  count("adagrad, dense", [&] { lod::adagrad(e, y, s, dy); });
  count("rmsprop, dense", [&] { lod::rmsprop(e, y, s, t, dy); });
  count("adam, dense", [&] { lod::adam(e, y, s, t, dy, {.step = 1}); });
  count("ftrl, dense", [&] { lod::ftrl(e, y, s, t, dy); });
}

void LaunchCensus::recurrent(const LoD& index) {
  const auto x = there(real_numbers<float>(engine, index, {3}));
  auto y = tensor(), z = tensor(), v = tensor(), dx = tensor(), first = tensor(), second = tensor();
  const lod::RankTable table(index, {.level = -1});
  lod::TimeMajor<float, lod::Cuda> steps, dsteps;
  count("to_time_major", [&] { lod::to_time_major_into(e, x, table, steps); });
  count("to_time_major_grad", [&] { lod::to_time_major_grad_into(e, steps, table, dx); });
  count("from_time_major", [&] { lod::from_time_major_into(e, steps, table, y); });
  count("from_time_major_grad", [&] { lod::from_time_major_grad_into(e, y, table, dsteps); });
  lod::TensorArray<float, lod::Cuda> array, darray;
  count("lod_tensor_to_array", [&] { lod::lod_tensor_to_array_into(e, x, table, array); });
  count("lod_tensor_to_array_grad", [&] { lod::lod_tensor_to_array_grad_into(e, array, table, dx); });
  count("array_to_lod_tensor", [&] { lod::array_to_lod_tensor_into(e, array, table, y); });
  count("array_to_lod_tensor_grad", [&] { lod::array_to_lod_tensor_grad_into(e, y, table, darray); });
  const lod::RankTable outer(index, {.level = 0});
  count("shrink_rnn_memory", [&] { lod::shrink_rnn_memory_into(e, x, outer, 1, y); });
  count("shrink_rnn_memory_grad", [&] { lod::shrink_rnn_memory_grad_into(e, y, index, outer, 1, dx); });
  count("reorder_lod_tensor_by_rank", [&] { lod::reorder_lod_tensor_by_rank_into(e, x, outer, y); });
  count("reorder_lod_tensor_by_rank_grad", [&] { lod::reorder_lod_tensor_by_rank_grad_into(e, y, outer, dx); });
  const lod::LstmWeights<float, lod::Cuda> lstm{dense({3, 8}), dense({2, 8}), dense({8})};
  lod::LstmWeights<float, lod::Cuda> dlstm{tensor(), tensor(), tensor()};
  lod::LstmTrace<float, lod::Cuda> cells;
  count("lstm", [&] { lod::lstm_into(e, x, lstm, {}, y, z, v, cells); });
  count("lstm_grad", [&] { lod::lstm_grad_into(e, y, x, lstm, cells, {}, dx, dlstm, first, second); });
  const lod::GruWeights<float, lod::Cuda> gru{dense({3, 6}), dense({2, 6}), dense({6}), dense({2})};
  lod::GruWeights<float, lod::Cuda> dgru{tensor(), tensor(), tensor(), tensor()};
  lod::GruTrace<float, lod::Cuda> units;
  count("gru", [&] { lod::gru_into(e, x, gru, {}, y, z, units); });
  count("gru_grad", [&] { lod::gru_grad_into(e, y, x, gru, units, {}, dx, dgru, first); });
  const auto states = dense({table.size(), 3});
  const auto cell = [&](const auto& state, const auto& step) { return std::pair(lod::add(e, state, step), step); };
  const auto cell_grad = [&](const auto&, const auto&, const auto& dstate, const auto& doutput) {
    return std::pair(lod::add(e, dstate, doutput), dstate);
  };
  count("dynamic_rnn", [&] { lod::dynamic_rnn_into(e, x, table, states, cell, y, z); });
  count("dynamic_rnn_grad", [&] { lod::dynamic_rnn_grad_into(e, y, z, x, table, states, cell, cell_grad, dx, first); });
}

}  // namespace

TEST_CASE("on a GPU: no operation launches more than three kernels, but for those of which it is said why") {
  LaunchCensus census;
  const LoD flat = giant_among_short(census.engine, 100, 20),
            giant = giant_among_short(census.engine, 100, 257 * lod::kernel::leaf_rows),
            nested = LoD::from_lengths({{2, 0, 3, 1}, {3, 1, 0, 2, 4, 1}});
  census.sequences(flat, 1);
  census.sequences(flat, 8);
  census.sequences(giant, 1);
  census.structure(nested, 3);
  census.recurrent(nested);
  census.row_sparse(1000, 1);
  census.row_sparse(2 * lod::kernel::chunk_rows(1), 1);
  std::map<std::string, const MoreLaunches*> more;
  for (const MoreLaunches& those : more_launches) {
    for (const std::string& name : those.operations) {
      CAPTURE(name);
      CHECK(census.found.contains(name));
      more[name] = &those;
    }
  }
  for (const auto& operation : census.found) {
    const std::string& name = operation.first;
    const std::int64_t launches = operation.second;
    CAPTURE(name);
    if (const auto found = more.find(name); found != more.end()) {
      CAPTURE(found->second->why);
      CHECK(launches == found->second->launches);
    } else {
      CHECK(launches <= most_launches);
    }
  }
}

#endif

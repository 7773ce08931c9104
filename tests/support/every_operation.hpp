// SPDX-License-Identifier: Apache-2.0
/// @file
/// What users of the compiled libraries do: each operation called for each type of elements that these have. That such
/// a program links says that nothing is missing there.
#pragma once

#include <lod/ops.hpp>

#include <concepts>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace lod_test {

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using lod::RankTable;
using lod::SelectedRows;

/// Arguments for all operations, where the executor works: `Copy` is what makes copies of tensors there.
template <class E, class Copy, class T>
struct Arguments {
  using Device = typename E::device;
  using Tensor = LoDTensor<T, Device>;

  explicit Arguments(const E& on) : executor(on) {}

  Tensor batch(const lod::Shape& row_shape) const { return filled(LoDTensor<T>(index, row_shape)); }
  Tensor scalars(const LoD& lod) const { return filled(LoDTensor<T>(lod, {})); }
  Tensor dense(const lod::Shape& shape) const { return filled(LoDTensor<T>(shape)); }
  Tensor filled(LoDTensor<T> x) const {
    std::int64_t next = 0;
    for (T& number : x.values()) number = static_cast<T>(next++ % 5 + 1);
    return Copy()(executor, x);
  }
  LoDTensor<std::int64_t, Device> ids() const {
    LoDTensor<std::int64_t> x(index, {});
    std::int64_t next = 0;
    for (std::int64_t& id : x.values()) id = next++ % 7;
    return Copy()(executor, x);
  }
  SelectedRows<T, Device> rows() const {
    SelectedRows<T> g({4, 0, 4}, 7, {3});
    for (T& number : g.value().values()) number = static_cast<T>(2);
    return Copy()(executor, g);
  }

  const E& executor;
  LoD index = LoD::from_lengths({{2, 0, 1}, {2, 0, 3}});
  RankTable table{index};
};

/// What these calls give is not looked at.
template <class Result>
void called(const Result&) {}

template <class E, class Copy, class T>
void keep_or_move(const Arguments<E, Copy, T>& a) {
  const auto& e = a.executor;
  const LoD& index = a.index;
  const auto x = a.batch({3});
  const std::vector<LoD> lods = {index, index};
  called(lod::concat_grad(e, lod::concat(e, x, x), lods));
  called(lod::split_grad(e, lod::split(e, x, 3)));
  called(lod::split_at(e, x, {1, 1}));
  const std::vector<std::int64_t> chosen = {2, 0, 2};
  called(lod::select_grad(e, lod::select(e, x, chosen), index, chosen));
  called(lod::filter_grad(e, lod::filter(e, x, {true, false, true}), index, {true, false, true}));
  called(lod::remove_empty_grad(e, lod::remove_empty(e, x), index));
  const std::vector<bool> mask = {true, false, true};
  const auto parts = lod::split_lod_tensor(e, x, mask);
  called(lod::split_lod_tensor_grad(e, parts.in_true, parts.in_false, mask));
  called(lod::merge_lod_tensor_grad(e, lod::merge_lod_tensor(e, parts.in_true, parts.in_false, mask), mask));
  const auto flat = lod::remove_level(e, x, 0);
  called(lod::remove_level_grad(e, flat, index));
  called(lod::insert_level_grad(e, lod::insert_level(e, flat, 0, LoD::from_lengths({{1, 2}})), flat.lod()));
  called(lod::flatten_grad(e, lod::flatten(e, x), index));
  called(lod::unique_sequences_and_wait(e, x));
  called(lod::transpose_levels_grad(e, lod::transpose_levels(e, x), index));
  called(lod::lod_reset_grad(e, lod::lod_reset(e, x, LoD()), index));
  const std::vector<std::int64_t> offsets = {0, 1, 5};
  called(lod::lod_append_grad(e, lod::lod_append(e, a.dense({5, 3}), offsets), 5));
  const auto first_states = a.dense({3, 3});
  const auto cell = [&](const auto& state, const auto& step) { return std::pair(lod::add(e, state, step), step); };
  const auto cell_grad = [&](const auto&, const auto&, const auto& dstate, const auto& doutput) {
    return std::pair(lod::add(e, dstate, doutput), dstate);
  };
  const RankTable rows_of(index, {.level = -1});
  const auto unrolled = lod::dynamic_rnn(e, x, rows_of, first_states, cell);
  called(lod::dynamic_rnn_grad(e, unrolled.output, unrolled.state, x, rows_of, first_states, cell, cell_grad));
  called(lod::to_time_major_grad(e, lod::to_time_major(e, x, a.table), a.table));
  called(lod::from_time_major_grad(e, lod::from_time_major(e, lod::to_time_major(e, x, a.table), a.table), a.table));
  const auto array = lod::lod_tensor_to_array(e, x, a.table);
  called(lod::lod_tensor_to_array_grad(e, array, a.table));
  called(lod::array_to_lod_tensor_grad(e, lod::array_to_lod_tensor(e, array, a.table), a.table));
  called(lod::shrink_rnn_memory_grad(e, lod::shrink_rnn_memory(e, x, a.table, 1), index, a.table, 1));
  called(lod::reorder_lod_tensor_by_rank_grad(e, lod::reorder_lod_tensor_by_rank(e, x, a.table), a.table));
  called(lod::sequence_reverse_grad(e, lod::sequence_reverse(e, x)));
  lod::for_each_sequence(e, x, 0, [&](const auto& sequence) { called(lod::sequence_reverse(e, sequence)); });
  called(lod::map_sequences(e, x, [&](const auto& sequence) { return lod::sequence_reverse(e, sequence); }));
  called(lod::sequence_concat_grad(e, lod::sequence_concat(e, x, x), lods));
  const std::vector<std::int64_t> first = {1, 0, 0}, counts = {1, 0, 1};
  called(lod::sequence_slice_grad(e, lod::sequence_slice(e, x, first, counts), index, first, counts));
  called(lod::sequence_pad_grad(e, lod::sequence_pad(e, x, {.level = 1}).dense, index, {.level = 1}));
  const std::vector<std::int64_t> lengths = {1, 0, 2};
  called(lod::sequence_unpad_grad(e, lod::sequence_unpad(e, a.dense({3, 2, 3}), lengths), lengths, 2));
  called(lod::sequence_mask<T>(e, lengths));
  called(lod::sequence_reshape_grad(e, lod::sequence_reshape(e, x, 1), index, {3}));
  called(lod::sequence_enumerate(e, a.scalars(index), 2));
  const LoD repeats = LoD::from_lengths({{2, 0, 3}});
  called(lod::sequence_expand_grad(e, lod::sequence_expand(e, x, repeats), index, repeats));
  called(lod::sequence_expand_as_grad(e, lod::sequence_expand_as(e, a.dense({3, 3}), index), index));
  const lod::Im2SequenceOptions patches = {.kernels = {2, 2}};
  const auto images = a.dense({1, 2, 3, 3});
  called(lod::im2sequence_grad(e, lod::im2sequence(e, images, patches), images, patches));
}

template <class E, class Copy, class T>
void compute(const Arguments<E, Copy, T>& a) {
  const auto& e = a.executor;
  const LoD& index = a.index;
  const auto x = a.batch({3}), column = a.scalars(index), row = a.dense({3}), by_sequence = a.dense({3, 3});
  called(lod::add(e, lod::sub(e, x, x), row));
  called(lod::mul(e, lod::div(e, x, x), by_sequence, {.level = 1}));
  for (const PoolType type : {PoolType::SUM, PoolType::MAX}) called(lod::sequence_pool(e, x, type));
  if constexpr (lod::kernel::has_wide_sums<T, lod::kernel::Accumulator<T>>) {
    called(lod::sequence_pool<lod::kernel::Accumulator<T>>(e, x, PoolType::SUM));
    called(lod::sequence_cumsum<lod::kernel::Accumulator<T>>(e, x));
  }
  called(lod::sequence_pool_grad(e, by_sequence, index, PoolType::AVERAGE));
  called(lod::sequence_first_step(e, x));
  called(lod::sequence_last_step(e, x));
  called(lod::sequence_max_pool_grad(e, by_sequence, lod::sequence_max_pool(e, x).index, index));
  called(lod::sequence_min_pool_grad(e, by_sequence, lod::sequence_min_pool(e, x).index, index));
  called(lod::sequence_cumsum_grad(e, lod::sequence_cumsum(e, x)));
  called(lod::sequence_sort(e, column));
  called(lod::sequence_sort_grad(e, column, lod::sequence_argsort(e, column)));
  const auto top = lod::sequence_topk(e, column, 1);
  called(lod::sequence_topk_grad(e, top.values, top.index, index, 1));
  const auto ids = a.ids();
  const auto table = a.dense({7, 3});
  called(lod::embedding_grad(e, lod::embedding(e, table, ids), ids, 7));
  lod::EmbeddingPoolOptions<T, typename E::device> weighted;
  weighted.weights = column;
  called(lod::embedding_pool_grad(e, lod::embedding_pool(e, table, ids, PoolType::SUM, weighted), ids, 7, PoolType::SUM,
                                  weighted));
  called(lod::embedding_pool_weights_grad(e, by_sequence, table, ids, PoolType::SUM, weighted));
  called(lod::embedding_max_pool_grad(e, by_sequence, lod::embedding_max_pool(e, table, ids).index, ids, 7));
  called(lod::embedding_min_pool_grad(e, by_sequence, lod::embedding_min_pool(e, table, ids).index, ids, 7));
  called(lod::sequence_scatter_grad(e, lod::sequence_scatter(e, a.dense({3, 7}), ids, column), ids));
}

template <class E, class Copy, class T>
void with_rows(const Arguments<E, Copy, T>& a) {
  const auto& e = a.executor;
  const auto g = a.rows();
  const std::vector<std::int64_t> listed = {4, 0, 4};
  called(lod::split_selected_rows_grad(e, lod::split_selected_rows(e, g, {3, 4})));
  const auto merged = lod::merge_add(e, g);
  called(lod::merge_add_grad(e, merged, listed));
  called(lod::merge_average_grad(e, lod::merge_average(e, g), listed));
  const auto dense = lod::to_dense(e, g);
  called(lod::to_dense_grad(e, dense, {0, 2}));
  called(lod::from_dense(e, dense, {0, 2}));
  called(lod::add(e, g, g));
  called(lod::add(e, g, dense));
  called(lod::scale(e, g, 2));
  called(lod::clip(e, g, 0, 1));
  auto y = lod::to_dense(e, g);
  for (const auto op : {lod::ScatterOp::ASSIGN, lod::ScatterOp::ADD, lod::ScatterOp::SUB, lod::ScatterOp::SUBBY,
                        lod::ScatterOp::MUL, lod::ScatterOp::DIV, lod::ScatterOp::DIVBY}) {
    if (lod::elements::Floating::includes<T> || op < lod::ScatterOp::DIV) lod::scatter(e, g, op, y);
  }
}

template <class E, class Copy, class T>
void of_floating_types(const Arguments<E, Copy, T>& a) {
  const auto& e = a.executor;
  const auto x = a.batch({3}), row = a.dense({3});
  called(lod::add_grad(e, x, x, row));
  called(lod::sub_grad(e, x, x, row));
  called(lod::mul_grad(e, x, x, row));
  called(lod::div_grad(e, x, x, row));
  called(lod::sequence_softmax_grad(e, x, lod::sequence_softmax(e, x)));
  called(lod::sequence_log_softmax_grad(e, x, lod::sequence_log_softmax(e, x)));
  called(lod::sequence_logsumexp_grad(e, lod::sequence_logsumexp(e, x), x));
  const auto described = lod::sequence_mean_var(e, x);
  called(lod::sequence_mean_var_grad(e, described.mean, described.variance, x));
  const LoD sides = LoD::from_lengths({{2, 0, 1}});
  const std::vector<std::int64_t> topks = {1, 2};
  const auto matrices = a.scalars(LoD::from_lengths({{4, 0, 1}}));
  called(lod::sequence_topk_avg_pooling_grad(e, lod::sequence_topk_avg_pooling(e, matrices, sides, sides, topks, 1),
                                             matrices, sides, sides, topks, 1));
  const auto padding = a.dense({2, 3}), filter = a.dense({9, 2});
  const lod::ConvOptions<T, typename E::device> window = {
      .context_length = 3, .context_start = -1, .padding = &padding};
  called(lod::sequence_conv_grad(e, lod::sequence_conv(e, x, filter, window), x, filter, window));
  called(lod::row_conv_grad(e, lod::row_conv(e, x, padding), x, padding));
  const lod::LstmWeights<T, typename E::device> lstm = {a.dense({3, 8}), a.dense({2, 8}), a.dense({8})};
  const auto cells = lod::lstm(e, x, lstm);
  called(lod::lstm_grad(e, cells.hidden, x, lstm, cells.trace));
  const lod::GruWeights<T, typename E::device> gru = {a.dense({3, 6}), a.dense({2, 6}), a.dense({6}), a.dense({2})};
  const auto units = lod::gru(e, x, gru);
  called(lod::gru_grad(e, units.hidden, x, gru, units.trace));
  const auto g = a.rows();
  const auto dense = a.dense({7, 3});
  called(lod::scatter_grad(e, dense, g, lod::ScatterOp::MUL, dense));
  const auto merged = lod::merge_add(e, g);
  called(lod::clip_grad(e, merged, g, 0, 1));
  called(lod::clip_by_norm_grad(e, lod::clip_by_norm(e, g, 1), g, 1));
  const auto update = [&](auto zero, const auto& gradient) {
    const Arguments<E, Copy, decltype(zero)> of_states(e);
    auto y = a.dense({7, 3});
    auto s = of_states.dense({7, 3}), t = of_states.dense({7, 3}), u = of_states.dense({7, 3});
    lod::sgd(e, y, gradient, {.learning_rate = 0.1});
    lod::momentum(e, y, s, gradient);
    lod::adagrad(e, y, s, gradient);
    lod::rmsprop(e, y, s, t, gradient);
    lod::rmsprop(e, y, s, t, u, gradient);
    lod::adam(e, y, s, t, gradient, {.step = 1});
    lod::ftrl(e, y, s, t, gradient);
  };
  update(T{}, g);
  update(T{}, dense);
  if constexpr (sizeof(T) == 2) {
    update(float{}, g);
    update(float{}, dense);
  }
}

template <class T, class E, class Copy>
void call_every_operation_for(const E& executor) {
  const Arguments<E, Copy, T> arguments(executor);
  keep_or_move(arguments);
  compute(arguments);
  with_rows(arguments);
  if constexpr (lod::elements::Floating::includes<T>) of_floating_types(arguments);
  if constexpr (lod::elements::Id::includes<T>) {
    const auto ids = arguments.scalars(arguments.index);
    called(lod::edit_distance(executor, ids, ids));
    called(lod::sequence_erase_and_wait(executor, ids, std::vector<T>{3}));
    called(lod::ctc_align_and_wait(executor, ids));
  }
}

/// Calls each of them. `copy(executor, x)` is a copy of x where the executor works.
template <class E, class Copy>
void call_every_operation(const E& executor, const Copy&) {
  call_every_operation_for<float, E, Copy>(executor);
  call_every_operation_for<double, E, Copy>(executor);
  call_every_operation_for<lod::float16, E, Copy>(executor);
  call_every_operation_for<lod::bfloat16, E, Copy>(executor);
  call_every_operation_for<std::int32_t, E, Copy>(executor);
  call_every_operation_for<std::int64_t, E, Copy>(executor);
}

}  // namespace lod_test

// SPDX-License-Identifier: Apache-2.0
#include "support/every_output.hpp"

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <tuple>
#include <utility>

namespace lod_test {

std::vector<OperationWithOutputs> operations_with_outputs() {
  std::vector<OperationWithOutputs> all;
  // call(executor, arguments..., outputs...) is the operation.
  const auto visit = [&]<class... In, class... Out, class Call>(const char* name, Failure failure,
                                                                std::tuple<In...> arguments, std::tuple<Out...> outputs,
                                                                Call call) {
    const auto values = [](auto&&... each) { return Values{Value(std::move(each))...}; };
    const auto run = [call]<std::size_t... i, std::size_t... o>(
        std::index_sequence<i...>, std::index_sequence<o...>, const lod::CpuExecutor& executor,
        std::span<const Value* const> ins, std::span<Value* const> outs) {
      call(executor, std::get<In>(*ins[i])..., std::get<Out>(*outs[o])...);
    };
    all.push_back({name, failure, std::apply(values, std::move(arguments)), std::apply(values, std::move(outputs)),
                   std::bind_front(run, std::index_sequence_for<In...>(), std::index_sequence_for<Out...>())});
  };
  using Tensor = LoDTensor<float>;
  using Ids = LoDTensor<std::int64_t>;
  using Rows = SelectedRows<float>;
  constexpr Failure strong = Failure::CHANGES_NOTHING, weak = Failure::CONTENTS_LOST;
  const LoD index = LoD::from_lengths({{2, 0, 1}, {2, 0, 3}});
  const LoD flat = LoD::from_lengths({{2, 0, 3}});
  const RankTable table(index), rows_of(index, {.level = -1});
  const auto batch = [&](const LoD& lod, const lod::Shape& row_shape) { return numbered(Tensor(lod, row_shape)); };
  const auto dense = [](const lod::Shape& shape) { return numbered(Tensor(shape), 2); };
  const auto numbers = [](std::initializer_list<std::int64_t> values) { return Ids::from_values(LoD(), {}, values); };
  const Tensor x = batch(index, {3}), column = batch(index, {}), states = dense({3, 3});
  const Ids ids = Ids::from_values(index, {}, {4, 0, 4, 6, 1});
  const auto sparse = [&] {
    Rows g({4, 0, 4}, 7, {3});
    g.value() = dense({3, 3});
    return g;
  };
  const auto one = [](auto out) { return std::tuple(std::move(out)); };
  const auto tensor = [] { return std::tuple(Tensor()); };
  const auto both = [] { return std::tuple(Tensor(), Tensor()); };
  const auto with_index = [] { return std::tuple(Tensor(), Ids()); };
  const auto in = [](auto... arguments) { return std::tuple(std::move(arguments)...); };

  // Levels and order.
  visit("add", strong, in(x, x), tensor(),
        [](const auto& e, const auto& a, const auto& b, auto& y) { lod::add_into(e, a, b, y); });
  visit("sub of a row", strong, in(x, dense({3})), tensor(),
        [](const auto& e, const auto& a, const auto& b, auto& y) { lod::sub_into(e, a, b, y); });
  visit("mul of a row for each sequence", strong, in(x, states), tensor(),
        [](const auto& e, const auto& a, const auto& b, auto& y) { lod::mul_into(e, a, b, {.level = 1}, y); });
  visit("div", strong, in(x, x), tensor(),
        [](const auto& e, const auto& a, const auto& b, auto& y) { lod::div_into(e, a, b, y); });
  visit("add_grad", strong, in(x, x, dense({3})), both(),
        [](const auto& e, const auto& dz, const auto& a, const auto& b, auto& da, auto& db) {
          lod::add_grad_into(e, dz, a, b, da, db);
        });
  visit("sub_grad", strong, in(x, x, states), both(),
        [](const auto& e, const auto& dz, const auto& a, const auto& b, auto& da, auto& db) {
          lod::sub_grad_into(e, dz, a, b, {.level = 1}, da, db);
        });
  visit("mul_grad", strong, in(x, x, dense({3})), both(),
        [](const auto& e, const auto& dz, const auto& a, const auto& b, auto& da, auto& db) {
          lod::mul_grad_into(e, dz, a, b, da, db);
        });
  visit("div_grad", strong, in(x, x, dense({3})), both(),
        [](const auto& e, const auto& dz, const auto& a, const auto& b, auto& da, auto& db) {
          lod::div_grad_into(e, dz, a, b, da, db);
        });
  visit("concat", strong, in(x, batch(index, {3})), tensor(),
        [](const auto& e, const auto& a, const auto& b, auto& y) { lod::concat_into(e, a, b, y); });
  visit("concat_grad", strong, in(dense({10, 3})), one(std::vector<Tensor>(2)),
        [=](const auto& e, const auto& dy, auto& dxs) {
          lod::concat_grad_into(e, dy, std::vector<LoD>{index, index}, dxs);
        });
  visit("split", strong, in(x), one(std::vector<Tensor>(3)),
        [](const auto& e, const auto& a, auto& parts) { lod::split_into(e, a, 3, parts); });
  visit("split_at", strong, in(x), one(std::vector<Tensor>(2)),
        [](const auto& e, const auto& a, auto& parts) { lod::split_at_into(e, a, {1}, parts); });
  visit("select", strong, in(x, numbers({2, 0, 2})), tensor(),
        [](const auto& e, const auto& a, const auto& list, auto& y) { lod::select_into(e, a, list, y); });
  visit("select of flat sequences", strong, in(batch(flat, {3}), numbers({2, 0, 2})), tensor(),
        [](const auto& e, const auto& a, const auto& list, auto& y) { lod::select_into(e, a, list, y); });
  visit(
      "select_grad", strong, in(dense({6, 3}), numbers({2, 2})), tensor(),
      [=](const auto& e, const auto& dy, const auto& list, auto& dx) { lod::select_grad_into(e, dy, flat, list, dx); });
  visit("filter", strong, in(x), tensor(), [](const auto& e, const auto& a, auto& y) {
    lod::filter_into(e, a, {true, false, true}, y);
  });
  visit("filter_grad", strong, in(dense({5, 3})), tensor(), [=](const auto& e, const auto& dy, auto& dx) {
    lod::filter_grad_into(e, dy, index, {true, false, true}, dx);
  });
  visit("remove_empty", strong, in(x), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::remove_empty_into(e, a, y); });
  visit("remove_empty_grad", strong, in(x), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::remove_empty_grad_into(e, a, index, y); });
  visit("split_lod_tensor", strong, in(x), both(), [](const auto& e, const auto& a, auto& t, auto& f) {
    lod::split_lod_tensor_into(e, a, {true, false, true}, t, f);
  });
  visit("merge_lod_tensor", strong, in(x, x), tensor(), [](const auto& e, const auto& t, const auto& f, auto& y) {
    lod::merge_lod_tensor_into(e, t, f, {true, false, false, true, true, false}, y);
  });
  visit("remove_level", strong, in(x), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::remove_level_into(e, a, 0, y); });
  visit("remove_level_grad", strong, in(batch(flat, {3})), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::remove_level_grad_into(e, a, index, y); });
  visit("insert_level", strong, in(batch(flat, {3})), tensor(), [](const auto& e, const auto& a, auto& y) {
    lod::insert_level_into(e, a, 0, LoD::from_lengths({{1, 2}}), y);
  });
  visit("insert_level_grad", strong, in(x), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::insert_level_grad_into(e, a, flat, y); });
  visit("flatten", strong, in(x), tensor(), [](const auto& e, const auto& a, auto& y) { lod::flatten_into(e, a, y); });
  visit("flatten_grad", strong, in(x), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::flatten_grad_into(e, a, index, y); });
  visit("unique_sequences", strong, in(batch(LoD::from_lengths({{1, 1, 2, 1}}), {})),
        std::tuple(Tensor(), Ids(), Ids()),
        [](const auto& e, const auto& a, auto& v, auto& i, auto& c) { lod::unique_sequences_into(e, a, v, i, c); });
  visit("transpose_levels", strong, in(x), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::transpose_levels_into(e, a, y); });
  visit("transpose_levels_grad", strong, in(batch(LoD::from_lengths({{2, 1}, {2, 3, 0}}), {3})), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::transpose_levels_grad_into(e, a, index, y); });
  visit("lod_reset", strong, in(x), tensor(), [=](const auto& e, const auto& a, auto& y) {
    lod::lod_reset_into(e, a, LoD::from_lengths({{1, 4}}), y);
  });
  visit("lod_reset_grad", strong, in(x), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::lod_reset_grad_into(e, a, index, y); });
  visit("lod_append", strong, in(dense({5, 3})), tensor(), [](const auto& e, const auto& a, auto& y) {
    lod::lod_append_into(e, a, {0, 1, 5}, y);
  });
  visit("lod_append_grad", strong, in(x), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::lod_append_grad_into(e, a, 5, y); });
  visit("map_sequences", strong, in(x), tensor(), [](const auto& e, const auto& a, auto& y) {
    lod::map_sequences_into(
        e, a, [&](const auto& sequence) { return sequence; }, y);
  });

  // Steps.
  const auto cell = [](const auto& state, const auto& step) { return std::pair(state, step); };
  visit("dynamic_rnn", strong, in(x, states), both(),
        [=](const auto& e, const auto& a, const auto& initial, auto& output, auto& last) {
          lod::dynamic_rnn_into(e, a, rows_of, initial, cell, output, last);
        });
  const auto cell_grad = [](const auto&, const auto&, const auto& dstate, const auto& doutput) {
    return std::pair(dstate, doutput);
  };
  visit("dynamic_rnn_grad", strong, in(x, states, x, states), both(),
        [=](const auto& e, const auto& dy, const auto& dlast, const auto& a, const auto& initial, auto& dx, auto& d) {
          lod::dynamic_rnn_grad_into(e, dy, dlast, a, rows_of, initial, cell, cell_grad, dx, d);
        });
  visit("to_time_major", strong, in(x), one(lod::TimeMajor<float>()),
        [=](const auto& e, const auto& a, auto& z) { lod::to_time_major_into(e, a, table, z); });
  visit("from_time_major", strong, in(batch(LoD::from_lengths({{2, 1}, {2, 3, 0}}), {3})), tensor(),
        [=](const auto& e, const auto& z, auto& y) {
          const lod::TimeMajor<float> steps(z);
          lod::from_time_major_into(e, steps, table, y);
        });
  visit("array_to_lod_tensor", strong,
        in(batch(LoD::from_lengths({{2, 3}}), {3}), batch(LoD::from_lengths({{0}}), {3})), tensor(),
        [=](const auto& e, const auto& first, const auto& second, auto& y) {
          const lod::TensorArray<float> array({first, second});
          lod::array_to_lod_tensor_into(e, array, table, y);
        });
  visit("shrink_rnn_memory", strong, in(x), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::shrink_rnn_memory_into(e, a, table, 1, y); });
  visit("shrink_rnn_memory_grad", strong, in(dense({2, 3})), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::shrink_rnn_memory_grad_into(e, a, index, table, 1, y); });
  visit("reorder_lod_tensor_by_rank", strong, in(x), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::reorder_lod_tensor_by_rank_into(e, a, table, y); });
  visit("reorder_lod_tensor_by_rank_grad", strong, in(x), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::reorder_lod_tensor_by_rank_grad_into(e, a, table, y); });
  const lod::LstmWeights<float> lstm = {dense({3, 8}), dense({2, 8}), dense({8})};
  visit("lstm", strong, in(x, dense({3, 2})), std::tuple(Tensor(), Tensor(), Tensor()),
        [=](const auto& e, const auto& a, const auto& initial, auto& hidden, auto& last, auto& cells) {
          lod::LstmTrace<float> trace;
          lod::lstm_into(e, a, lstm, {.initial_hidden = initial}, hidden, last, cells, trace);
        });
  const lod::LstmTrace<float> lstm_trace = lod::lstm(x, lstm).trace;
  visit("lstm_grad", weak, in(dense({5, 2}), x), std::tuple(Tensor(), lod::LstmWeights<float>(), Tensor(), Tensor()),
        [=](const auto& e, const auto& dhidden, const auto& a, auto& dx, auto& dweights, auto& d, auto& c) {
          lod::lstm_grad_into(e, dhidden, a, lstm, lstm_trace, dx, dweights, d, c);
        });
  const lod::GruWeights<float> gru = {dense({3, 6}), dense({2, 6}), dense({6}), dense({2})};
  visit("gru", strong, in(x, dense({3, 2})), both(),
        [=](const auto& e, const auto& a, const auto& initial, auto& hidden, auto& last) {
          lod::GruTrace<float> trace;
          lod::gru_into(e, a, gru, {.initial_hidden = initial}, hidden, last, trace);
        });
  const lod::GruTrace<float> gru_trace = lod::gru(x, gru).trace;
  visit("gru_grad", weak, in(dense({5, 2}), x), std::tuple(Tensor(), lod::GruWeights<float>(), Tensor()),
        [=](const auto& e, const auto& dhidden, const auto& a, auto& dx, auto& dweights, auto& d) {
          lod::gru_grad_into(e, dhidden, a, gru, gru_trace, dx, dweights, d);
        });

  // Sequences.
  visit("sequence_reverse", strong, in(x), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::sequence_reverse_into(e, a, y); });
  visit("sequence_reverse of sequences", strong, in(x), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::sequence_reverse_into(e, a, {.level = 0}, y); });
  visit("sequence_concat", strong, in(x, x), tensor(),
        [](const auto& e, const auto& a, const auto& b, auto& y) { lod::sequence_concat_into(e, a, b, y); });
  visit("sequence_concat of flat sequences", strong, in(batch(flat, {3}), batch(flat, {3})), tensor(),
        [](const auto& e, const auto& a, const auto& b, auto& y) { lod::sequence_concat_into(e, a, b, y); });
  visit("sequence_concat_grad", strong, in(dense({10, 3})), one(std::vector<Tensor>(2)),
        [=](const auto& e, const auto& dy, auto& dxs) {
          lod::sequence_concat_grad_into(e, dy, std::vector<LoD>{index, index}, dxs);
        });
  visit("sequence_slice", strong, in(x, numbers({1, 0, 0}), numbers({1, 0, 1})), tensor(),
        [](const auto& e, const auto& a, const auto& from, const auto& count, auto& y) {
          lod::sequence_slice_into(e, a, from, count, y);
        });
  visit("sequence_slice_grad", strong, in(dense({3, 3}), numbers({1, 0, 0}), numbers({1, 0, 1})), tensor(),
        [=](const auto& e, const auto& dy, const auto& from, const auto& count, auto& dx) {
          lod::sequence_slice_grad_into(e, dy, index, from, count, dx);
        });
  visit("sequence_pad", strong, in(x), with_index(), [](const auto& e, const auto& a, auto& padded, auto& lengths) {
    lod::sequence_pad_into(e, a, {.level = 1}, padded, lengths);
  });
  visit("sequence_pad_grad", strong, in(dense({3, 3, 3})), tensor(),
        [=](const auto& e, const auto& dy, auto& dx) { lod::sequence_pad_grad_into(e, dy, index, {.level = 1}, dx); });
  visit("sequence_unpad", strong, in(dense({3, 3, 3}), numbers({2, 0, 3})), tensor(),
        [](const auto& e, const auto& a, const auto& lengths, auto& y) { lod::sequence_unpad_into(e, a, lengths, y); });
  visit("sequence_unpad_grad", strong, in(x, numbers({2, 0, 3})), tensor(),
        [](const auto& e, const auto& dy, const auto& lengths, auto& dx) {
          lod::sequence_unpad_grad_into(e, dy, lengths, 3, dx);
        });
  visit("sequence_mask", strong, in(numbers({2, 0, 3})), one(Ids()),
        [](const auto& e, const auto& lengths, auto& y) { lod::sequence_mask_into(e, lengths, y); });
  visit("sequence_reshape", strong, in(x), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::sequence_reshape_into(e, a, 1, y); });
  visit("sequence_reshape_grad", strong, in(dense({15, 1})), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::sequence_reshape_grad_into(e, a, index, {3}, y); });
  visit("sequence_enumerate", strong, in(column), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::sequence_enumerate_into(e, a, 2, y); });
  visit("sequence_erase", strong, in(ids), one(Ids()), [](const auto& e, const auto& a, auto& y) {
    lod::sequence_erase_into(e, a, {4, 1}, y);
  });
  visit("ctc_align", strong, in(ids), one(Ids()),
        [](const auto& e, const auto& a, auto& y) { lod::ctc_align_into(e, a, y); });
  visit("edit_distance", strong, in(ids, ids), tensor(),
        [](const auto& e, const auto& a, const auto& b, auto& y) { lod::edit_distance_into(e, a, b, y); });
  const LoD repeats = LoD::from_lengths({{2, 0, 3}});
  visit("sequence_expand", strong, in(x), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::sequence_expand_into(e, a, repeats, y); });
  visit("sequence_expand of rows", strong, in(states), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::sequence_expand_into(e, a, repeats, y); });
  visit("sequence_expand_grad", strong, in(dense({13, 3})), tensor(),
        [=](const auto& e, const auto& dy, auto& dx) { lod::sequence_expand_grad_into(e, dy, index, repeats, dx); });
  visit("sequence_expand_as", strong, in(states), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::sequence_expand_as_into(e, a, index, y); });
  visit("sequence_expand_as_grad", strong, in(x), tensor(),
        [=](const auto& e, const auto& dy, auto& dx) { lod::sequence_expand_as_grad_into(e, dy, index, dx); });
  const lod::Im2SequenceOptions patches = {.kernels = {2, 2}};
  visit("im2sequence", strong, in(dense({1, 2, 3, 3})), tensor(),
        [=](const auto& e, const auto& a, auto& y) { lod::im2sequence_into(e, a, patches, y); });
  visit("im2sequence_grad", strong, in(dense({4, 8}), dense({1, 2, 3, 3})), tensor(),
        [=](const auto& e, const auto& dy, const auto& a, auto& dx) {
          lod::im2sequence_grad_into(e, dy, a, patches, dx);
        });
  for (const PoolType type : {PoolType::SUM, PoolType::SQRT, PoolType::MAX, PoolType::LAST}) {
    visit("sequence_pool", strong, in(x), tensor(),
          [=](const auto& e, const auto& a, auto& y) { lod::sequence_pool_into(e, a, type, y); });
    visit("embedding_pool", strong, in(dense({7, 3}), ids, column), tensor(),
          [=](const auto& e, const auto& rows, const auto& list, const auto& weights, auto& y) {
            lod::embedding_pool_into(e, rows, list, type, {.weights = weights}, y);
          });
    visit("embedding_pool_weights_grad", strong, in(states, dense({7, 3}), ids, column), tensor(),
          [=](const auto& e, const auto& dy, const auto& rows, const auto& list, const auto& weights, auto& d) {
            lod::embedding_pool_weights_grad_into(e, dy, rows, list, type, {.weights = weights}, d);
          });
    if (type == PoolType::MAX) continue;
    visit("sequence_pool_grad", strong, in(states), tensor(),
          [=](const auto& e, const auto& dy, auto& dx) { lod::sequence_pool_grad_into(e, dy, index, type, dx); });
    visit("embedding_pool_grad", strong, in(states, ids, column), one(Rows()),
          [=](const auto& e, const auto& dy, const auto& list, const auto& weights, auto& d) {
            lod::embedding_pool_grad_into(e, dy, list, 7, type, {.weights = weights}, d);
          });
  }
  visit("sequence_max_pool", strong, in(x), with_index(),
        [](const auto& e, const auto& a, auto& y, auto& i) { lod::sequence_max_pool_into(e, a, y, i); });
  visit("sequence_min_pool", strong, in(x), with_index(),
        [](const auto& e, const auto& a, auto& y, auto& i) { lod::sequence_min_pool_into(e, a, y, i); });
  const Ids winners = lod::sequence_max_pool(x).index;
  visit("sequence_max_pool_grad", strong, in(states, winners), tensor(),
        [=](const auto& e, const auto& dy, const auto& i, auto& dx) {
          lod::sequence_max_pool_grad_into(e, dy, i, index, dx);
        });
  visit("sequence_cumsum", strong, in(x), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::sequence_cumsum_into(e, a, y); });
  visit("sequence_cumsum, exclusive and reverse", strong, in(x), tensor(), [](const auto& e, const auto& a, auto& y) {
    lod::sequence_cumsum_into(e, a, {.exclusive = true, .reverse = true}, y);
  });
  visit("sequence_softmax", strong, in(x), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::sequence_softmax_into(e, a, y); });
  visit("sequence_log_softmax of scalars", strong, in(column), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::sequence_log_softmax_into(e, a, y); });
  visit("sequence_softmax_grad", strong, in(x, x), tensor(),
        [](const auto& e, const auto& dy, const auto& y, auto& dx) { lod::sequence_softmax_grad_into(e, dy, y, dx); });
  visit("sequence_log_softmax_grad", strong, in(x, x), tensor(),
        [](const auto& e, const auto& dy, const auto& y, auto& dx) {
          lod::sequence_log_softmax_grad_into(e, dy, y, dx);
        });
  visit("sequence_logsumexp", strong, in(x), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::sequence_logsumexp_into(e, a, y); });
  visit(
      "sequence_logsumexp_grad", strong, in(states, x), tensor(),
      [](const auto& e, const auto& dy, const auto& a, auto& dx) { lod::sequence_logsumexp_grad_into(e, dy, a, dx); });
  visit("sequence_mean_var", strong, in(x), both(),
        [](const auto& e, const auto& a, auto& y, auto& z) { lod::sequence_mean_var_into(e, a, y, z); });
  visit("sequence_mean_var_grad", strong, in(states, states, x), tensor(),
        [](const auto& e, const auto& dmean, const auto& dvariance, const auto& a, auto& dx) {
          lod::sequence_mean_var_grad_into(e, dmean, dvariance, a, dx);
        });
  visit("sequence_sort", strong, in(column), with_index(),
        [](const auto& e, const auto& a, auto& y, auto& i) { lod::sequence_sort_into(e, a, y, i); });
  visit("sequence_sort without an index", strong, in(column), tensor(),
        [](const auto& e, const auto& a, auto& y) { lod::sequence_sort_into(e, a, y); });
  visit("sequence_argsort", strong, in(column), one(Ids()),
        [](const auto& e, const auto& a, auto& i) { lod::sequence_argsort_into(e, a, i); });
  visit("sequence_sort_grad", strong, in(column, lod::sequence_argsort(column)), tensor(),
        [](const auto& e, const auto& dy, const auto& i, auto& dx) { lod::sequence_sort_grad_into(e, dy, i, dx); });
  visit("sequence_topk", strong, in(column), with_index(),
        [](const auto& e, const auto& a, auto& y, auto& i) { lod::sequence_topk_into(e, a, 1, y, i); });
  visit("sequence_topk_grad", strong, in(dense({2}), lod::sequence_topk(column, 1).index), tensor(),
        [=](const auto& e, const auto& dy, const auto& i, auto& dx) {
          lod::sequence_topk_grad_into(e, dy, i, index, 1, dx);
        });
  const LoD sides = LoD::from_lengths({{2, 0, 1}}), squares = LoD::from_lengths({{4, 0, 1}});
  visit("sequence_topk_avg_pooling", strong, in(batch(squares, {})), tensor(),
        [=](const auto& e, const auto& a, auto& y) {
          lod::sequence_topk_avg_pooling_into(e, a, sides, sides, {1, 2}, 1, y);
        });
  visit("sequence_topk_avg_pooling_grad", strong, in(dense({3, 2}), batch(squares, {})), tensor(),
        [=](const auto& e, const auto& dy, const auto& a, auto& dx) {
          lod::sequence_topk_avg_pooling_grad_into(e, dy, a, sides, sides, {1, 2}, 1, dx);
        });
  visit("sequence_conv", strong, in(x, dense({9, 2}), dense({2, 3})), tensor(),
        [](const auto& e, const auto& a, const auto& filter, const auto& padding, auto& y) {
          lod::sequence_conv_into(e, a, filter, {.padding = padding}, y);
        });
  visit("sequence_conv_grad", weak, in(dense({5, 2}), x, dense({9, 2}), dense({2, 3})),
        std::tuple(Tensor(), Tensor(), Tensor()),
        [](const auto& e, const auto& dy, const auto& a, const auto& filter, const auto& padding, auto& dx,
           auto& dfilter, auto& dpadding) {
          lod::sequence_conv_grad_into(e, dy, a, filter, {.padding = padding}, dx, dfilter, dpadding);
        });
  visit("row_conv", strong, in(x, dense({2, 3})), tensor(),
        [](const auto& e, const auto& a, const auto& filter, auto& y) { lod::row_conv_into(e, a, filter, y); });
  visit("row_conv_grad", weak, in(x, x, dense({2, 3})), both(),
        [](const auto& e, const auto& dy, const auto& a, const auto& filter, auto& dx, auto& dfilter) {
          lod::row_conv_grad_into(e, dy, a, filter, dx, dfilter);
        });
  visit("sequence_scatter", strong, in(dense({3, 7}), ids, column), tensor(),
        [](const auto& e, const auto& a, const auto& list, const auto& updates, auto& y) {
          lod::sequence_scatter_into(e, a, list, updates, y);
        });
  visit("sequence_scatter_grad", strong, in(dense({3, 7}), ids), both(),
        [](const auto& e, const auto& dy, const auto& list, auto& dx, auto& dupdates) {
          lod::sequence_scatter_grad_into(e, dy, list, dx, dupdates);
        });

  // Rows of tables.
  visit("embedding", strong, in(dense({7, 3}), ids), tensor(),
        [](const auto& e, const auto& rows, const auto& list, auto& y) { lod::embedding_into(e, rows, list, y); });
  visit("embedding_grad", strong, in(x, ids), one(Rows()),
        [](const auto& e, const auto& dy, const auto& list, auto& d) { lod::embedding_grad_into(e, dy, list, 7, d); });
  visit("embedding_max_pool", strong, in(dense({7, 3}), ids), with_index(),
        [](const auto& e, const auto& rows, const auto& list, auto& y, auto& i) {
          lod::embedding_max_pool_into(e, rows, list, y, i);
        });
  visit("embedding_max_pool_grad", strong, in(states, winners, ids), one(Rows()),
        [](const auto& e, const auto& dy, const auto& i, const auto& list, auto& d) {
          lod::embedding_max_pool_grad_into(e, dy, i, list, 7, d);
        });
  const Rows merged = lod::merge_add(sparse());
  visit("merge_add", strong, in(sparse(), sparse()), one(Rows()),
        [](const auto& e, const auto& a, const auto& b, auto& out) { lod::merge_add_into(e, a, b, out); });
  visit("merge_average", strong, in(sparse()), one(Rows()),
        [](const auto& e, const auto& g, auto& out) { lod::merge_average_into(e, g, out); });
  visit("merge_add_grad", strong, in(merged, numbers({4, 0, 4})), one(Rows()),
        [](const auto& e, const auto& dy, const auto& list, auto& dg) { lod::merge_add_grad_into(e, dy, list, dg); });
  visit(
      "merge_average_grad", strong, in(merged, numbers({4, 0, 4})), one(Rows()),
      [](const auto& e, const auto& dy, const auto& list, auto& dg) { lod::merge_average_grad_into(e, dy, list, dg); });
  visit("to_dense", strong, in(sparse()), tensor(),
        [](const auto& e, const auto& g, auto& y) { lod::to_dense_into(e, g, y); });
  visit("from_dense", strong, in(dense({7, 3}), numbers({4, 0, 4})), one(Rows()),
        [](const auto& e, const auto& a, const auto& list, auto& g) { lod::from_dense_into(e, a, list, g); });
  visit("clip", strong, in(sparse()), one(Rows()),
        [](const auto& e, const auto& g, auto& out) { lod::clip_into(e, g, 2, 4, out); });
  visit("clip_grad", strong, in(merged, sparse()), one(Rows()),
        [](const auto& e, const auto& dy, const auto& g, auto& dg) { lod::clip_grad_into(e, dy, g, 2, 4, dg); });
  visit("clip_by_norm", strong, in(sparse()), one(Rows()),
        [](const auto& e, const auto& g, auto& out) { lod::clip_by_norm_into(e, g, 1, out); });
  visit("clip_by_norm_grad", strong, in(merged, sparse()), one(Rows()),
        [](const auto& e, const auto& dy, const auto& g, auto& dg) { lod::clip_by_norm_grad_into(e, dy, g, 1, dg); });
  visit("add of rows", strong, in(sparse(), sparse()), one(Rows()),
        [](const auto& e, const auto& a, const auto& b, auto& out) { lod::add_into(e, a, b, out); });
  visit("add of rows and a tensor", strong, in(sparse(), dense({7, 3})), tensor(),
        [](const auto& e, const auto& g, const auto& a, auto& y) { lod::add_into(e, g, a, y); });
  visit("scale", strong, in(sparse()), one(Rows()),
        [](const auto& e, const auto& g, auto& out) { lod::scale_into(e, g, 2, out); });
  visit("scatter_grad", strong, in(dense({7, 3}), sparse(), dense({7, 3})), std::tuple(Tensor(), Rows()),
        [](const auto& e, const auto& dy, const auto& g, const auto& a, auto& da, auto& dg) {
          lod::scatter_grad_into(e, dy, g, lod::ScatterOp::MUL, a, da, dg);
        });
  visit("split_selected_rows", strong, in(sparse()), one(std::vector<Rows>()),
        [](const auto& e, const auto& g, auto& parts) {
          lod::split_selected_rows_into(e, g, {3, 4}, parts);
        });
  visit("split_selected_rows_grad", strong, in(sparse(), merged), one(Rows()),
        [](const auto& e, const auto& a, const auto& b, auto& dg) {
          const std::vector<Rows> parts = {a, b};
          lod::split_selected_rows_grad_into(e, parts, dg);
        });
  return all;
}

}  // namespace lod_test

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Samples of the operations that go step by step, and of recurrent networks.
#pragma once

#include <lod/ops.hpp>

#include <cstdint>

namespace lod_test {

namespace op = lod::op;

const lod::RankTable& ranks_of_level(auto& c) { return c.ranks(c.index, c.level); }
/// Ranks of the sequences of level 0 by other lengths than theirs.
const lod::RankTable& other_ranks(auto& c) { return c.ranks(c.lod(c.size(), 3), 0); }

void sample(op::to_time_major, auto& c) {
  lod::to_time_major_into(c.executor, c.rows(), ranks_of_level(c), c.out_steps());
}
void sample(op::to_time_major_grad, auto& c) {
  const auto x = c.rows();
  const lod::RankTable& table = ranks_of_level(c);
  const auto& dz = c.given([&] { return lod::to_time_major(c.executor, x, table); });
  lod::to_time_major_grad_into(c.executor, dz, table, c.out());
}
void sample(op::from_time_major, auto& c) {
  const auto x = c.rows();
  const lod::RankTable& table = ranks_of_level(c);
  const auto& z = c.given([&] { return lod::to_time_major(c.executor, x, table); });
  lod::from_time_major_into(c.executor, z, table, c.out());
}
void sample(op::from_time_major_grad, auto& c) {
  lod::from_time_major_grad_into(c.executor, c.rows(), ranks_of_level(c), c.out_steps());
}
void sample(op::lod_tensor_to_array, auto& c) {
  if (!c.is_short()) return;
  lod::lod_tensor_to_array_into(c.executor, c.rows(), ranks_of_level(c), c.out_array());
}
void sample(op::lod_tensor_to_array_grad, auto& c) {
  if (!c.is_short()) return;
  const auto x = c.rows();
  const lod::RankTable& table = ranks_of_level(c);
  const auto& dy = c.given([&] { return lod::lod_tensor_to_array(c.executor, x, table); });
  lod::lod_tensor_to_array_grad_into(c.executor, dy, table, c.out());
}
void sample(op::array_to_lod_tensor, auto& c) {
  if (!c.is_short()) return;
  const auto x = c.rows();
  const lod::RankTable& table = ranks_of_level(c);
  const auto& array = c.given([&] { return lod::lod_tensor_to_array(c.executor, x, table); });
  lod::array_to_lod_tensor_into(c.executor, array, table, c.out());
}
void sample(op::array_to_lod_tensor_grad, auto& c) {
  if (!c.is_short()) return;
  lod::array_to_lod_tensor_grad_into(c.executor, c.rows(), ranks_of_level(c), c.out_array());
}
void sample(op::shrink_rnn_memory, auto& c) {
  lod::shrink_rnn_memory_into(c.executor, c.rows(), other_ranks(c), 1, c.out());
}
void sample(op::shrink_rnn_memory_grad, auto& c) {
  const auto x = c.rows();
  const lod::RankTable& table = other_ranks(c);
  const auto& dy = c.given([&] { return lod::shrink_rnn_memory(c.executor, x, table, 1); });
  lod::shrink_rnn_memory_grad_into(c.executor, dy, c.index, table, 1, c.out());
}
void sample(op::reorder_lod_tensor_by_rank, auto& c) {
  lod::reorder_lod_tensor_by_rank_into(c.executor, c.rows(), other_ranks(c), c.out());
}
void sample(op::reorder_lod_tensor_by_rank_grad, auto& c) {
  const auto x = c.rows();
  const lod::RankTable& table = other_ranks(c);
  const auto& dy = c.given([&] { return lod::reorder_lod_tensor_by_rank(c.executor, x, table); });
  lod::reorder_lod_tensor_by_rank_grad_into(c.executor, dy, table, c.out());
}
void sample(op::dynamic_rnn, auto& c) {
  if (!c.is_short()) return;
  const lod::RankTable& table = c.ranks(c.index, -1);
  const auto first = c.dense({table.size(), c.row_size});
  lod::dynamic_rnn_into(c.executor, c.rows(), table, first, c.cell(), c.out(), c.out());
}
void sample(op::dynamic_rnn_grad, auto& c) {
  if (!c.is_short()) return;
  const lod::RankTable& table = c.ranks(c.index, -1);
  const auto dstate = c.dense({table.size(), c.row_size}), first = c.dense({table.size(), c.row_size});
  lod::dynamic_rnn_grad_into(c.executor, c.rows(), dstate, c.rows(), table, first, c.cell(), c.cell_grad(), c.out(),
                             c.out());
}
void sample(op::lstm, auto& c) {
  if (!c.is_short()) return;
  const auto hidden = c.weights({c.sequences(), 2}), cell = c.weights({c.sequences(), 2});
  lod::lstm_into(c.executor, c.rows(), c.lstm_weights(),
                 {.initial_hidden = hidden, .initial_cell = cell, .level = c.level}, c.out(), c.out(), c.out(),
                 c.lstm_trace());
}
void sample(op::lstm_grad, auto& c) {
  if (!c.is_short()) return;
  const auto x = c.rows(), hidden = c.weights({c.sequences(), 2});
  const auto& weights = c.lstm_weights();
  const auto& trace =
      c.given([&] { return lod::lstm(c.executor, x, weights, {.initial_hidden = hidden, .level = c.level}).trace; });
  lod::lstm_grad_into(c.executor, c.weights({c.index.rows(), 2}), x, weights, trace,
                      {.dlast_cell = c.weights({c.sequences(), 2})}, c.out(), c.out_lstm(), c.out(), c.out());
}
void sample(op::gru, auto& c) {
  if (!c.is_short()) return;
  const auto hidden = c.weights({c.sequences(), 2});
  lod::gru_into(c.executor, c.rows(), c.gru_weights(), {.initial_hidden = hidden, .reverse = true, .level = c.level},
                c.out(), c.out(), c.gru_trace());
}
void sample(op::gru_grad, auto& c) {
  if (!c.is_short()) return;
  const auto x = c.rows();
  const auto& weights = c.gru_weights();
  const auto& trace =
      c.given([&] { return lod::gru(c.executor, x, weights, {.reverse = true, .level = c.level}).trace; });
  lod::gru_grad_into(c.executor, c.weights({c.index.rows(), 2}), x, weights, trace,
                     {.dlast_hidden = c.weights({c.sequences(), 2})}, c.out(), c.out_gru(), c.out());
}

}  // namespace lod_test

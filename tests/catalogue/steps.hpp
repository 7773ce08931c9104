// SPDX-License-Identifier: Apache-2.0
/// @file
/// Samples of the operations that go step by step, and of recurrent networks.
#pragma once

#include <lod/ops.hpp>

#include <cstdint>
#include <utility>

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
template <class On>
void differences(op::to_time_major_grad, On& on) {
  const lod::RankTable table(on.index, {.level = on.level});
  on.check(
      on.x, [&](const auto& at) { return typename On::There(lod::to_time_major(on.executor, at, table).values()); },
      [&](const auto& dz) {
        return lod::to_time_major_grad(on.executor, lod::TimeMajor<double, typename On::Device>(dz), table);
      });
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
void differences(op::from_time_major_grad, auto& on) {
  const lod::RankTable table(on.index, {.level = on.level});
  on.check(
      on.x,
      [&](const auto& at) {
        return lod::from_time_major(on.executor, lod::to_time_major(on.executor, at, table), table);
      },
      [&](const auto& dy) {
        return lod::to_time_major_grad(on.executor, lod::from_time_major_grad(on.executor, dy, table), table);
      });
}
// One for each step: here there are four.
inline Launches launches(op::lod_tensor_to_array) { return {{"", 4}}; }
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
// As lod_tensor_to_array.
inline Launches launches(op::array_to_lod_tensor_grad) { return {{"", 4}}; }
void sample(op::array_to_lod_tensor_grad, auto& c) {
  if (!c.is_short()) return;
  lod::array_to_lod_tensor_grad_into(c.executor, c.rows(), ranks_of_level(c), c.out_array());
}
void array_differences(auto& on) {
  const lod::RankTable table(on.index, {.level = on.level});
  on.check(
      on.x,
      [&](const auto& at) {
        return lod::array_to_lod_tensor(on.executor, lod::lod_tensor_to_array(on.executor, at, table), table);
      },
      [&](const auto& dy) {
        return lod::lod_tensor_to_array_grad(on.executor, lod::array_to_lod_tensor_grad(on.executor, dy, table), table);
      });
}
void differences(op::lod_tensor_to_array_grad, auto& on) { array_differences(on); }
void differences(op::array_to_lod_tensor_grad, auto& on) { array_differences(on); }
void sample(op::shrink_rnn_memory, auto& c) {
  lod::shrink_rnn_memory_into(c.executor, c.rows(), other_ranks(c), 1, c.out());
}
void sample(op::shrink_rnn_memory_grad, auto& c) {
  const auto x = c.rows();
  const lod::RankTable& table = other_ranks(c);
  const auto& dy = c.given([&] { return lod::shrink_rnn_memory(c.executor, x, table, 1); });
  lod::shrink_rnn_memory_grad_into(c.executor, dy, c.index, table, 1, c.out());
}
void differences(op::shrink_rnn_memory_grad, auto& on) {
  const lod::RankTable table(lod::LoD::from_lengths({on.random(on.x.size(), 0, 3)}));
  on.check(
      on.x, [&](const auto& at) { return lod::shrink_rnn_memory(on.executor, at, table, 1); },
      [&](const auto& dy) { return lod::shrink_rnn_memory_grad(on.executor, dy, on.index, table, 1); });
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
void differences(op::reorder_lod_tensor_by_rank_grad, auto& on) {
  const lod::RankTable table(lod::LoD::from_lengths({on.random(on.x.size(), 0, 3)}));
  on.check(
      on.x, [&](const auto& at) { return lod::reorder_lod_tensor_by_rank(on.executor, at, table); },
      [&](const auto& dy) { return lod::reorder_lod_tensor_by_rank_grad(on.executor, dy, table); });
}
// What the user does for each step, and where its rows come from and go.
inline Launches launches(op::dynamic_rnn) { return {{"", 16}}; }
void sample(op::dynamic_rnn, auto& c) {
  if (!c.is_short()) return;
  const lod::RankTable& table = c.ranks(c.index, -1);
  const auto first = c.dense({table.size(), c.row_size});
  lod::dynamic_rnn_into(c.executor, c.rows(), table, first, c.cell(), c.out(), c.out());
}
// As dynamic_rnn, forwards, and backwards.
inline Launches launches(op::dynamic_rnn_grad) { return {{"", 34}}; }
void sample(op::dynamic_rnn_grad, auto& c) {
  if (!c.is_short()) return;
  const lod::RankTable& table = c.ranks(c.index, -1);
  const auto dstate = c.dense({table.size(), c.row_size}), first = c.dense({table.size(), c.row_size});
  lod::dynamic_rnn_grad_into(c.executor, c.rows(), dstate, c.rows(), table, first, c.cell(), c.cell_grad(), c.out(),
                             c.out());
}
void differences(op::dynamic_rnn_grad, auto& on) {
  // h = h' + x; the output is h * x.
  const auto& e = on.executor;
  const auto cell = [&](const auto& before, const auto& step) {
    auto after = lod::add(e, before, step);
    auto output = lod::mul(e, after, step);
    return std::pair(std::move(after), std::move(output));
  };
  const auto cell_grad = [&](const auto& before, const auto& step, const auto& dstate, const auto& doutput) {
    const auto d = lod::mul_grad(e, doutput, lod::add(e, before, step), step);
    auto dbefore = lod::add(e, dstate, d.x);
    auto dstep = lod::add(e, dbefore, d.y);
    return std::pair(std::move(dbefore), std::move(dstep));
  };
  const lod::RankTable table(on.index, {.level = -1});
  auto first = on.weights({table.size(), on.row_size});
  const auto f = [&](const auto&) { return lod::dynamic_rnn(e, on.there(on.x), table, on.there(first), cell).output; };
  const auto grad = [&](const auto& dy) {
    const auto no_state = on.there(on.zeros({table.size(), on.row_size}));
    return lod::dynamic_rnn_grad(e, dy, no_state, on.there(on.x), table, on.there(first), cell, cell_grad);
  };
  on.check(on.x, f, [&](const auto& dy) { return grad(dy).x; });
  on.check("of the first state", first, f, [&](const auto& dy) { return grad(dy).initial_state.with_lod(lod::LoD()); });
}
// One product for all rows; for each step, here four, a product and the cells; first and last states, in the order of
// the ranks.
inline Launches launches(op::lstm) { return {{"", 18}, {"with peepholes", 18}, {"projected", 26}}; }
void sample(op::lstm, auto& c) {
  if (!c.is_short()) return;
  const auto hidden = c.weights({c.sequences(), 2}), cell = c.weights({c.sequences(), 2});
  lod::lstm_into(c.executor, c.rows(), c.lstm_weights(),
                 {.initial_hidden = hidden, .initial_cell = cell, .level = c.level, .projection_clip = 0.5}, c.out(),
                 c.out(), c.out(), c.lstm_trace());
}
// As lstm, backwards, and the gradients by the weights; with peepholes their sums.
inline Launches launches(op::lstm_grad) { return {{"", 21}, {"with peepholes", 22}, {"projected", 32}}; }
void sample(op::lstm_grad, auto& c) {
  if (!c.is_short()) return;
  const auto x = c.rows(), hidden = c.weights({c.sequences(), 2});
  const auto& weights = c.lstm_weights();
  const auto& trace =
      c.given([&] { return lod::lstm(c.executor, x, weights, {.initial_hidden = hidden, .level = c.level}).trace; });
  lod::lstm_grad_into(c.executor, c.weights({c.index.rows(), 2}), x, weights, trace,
                      {.dlast_cell = c.weights({c.sequences(), 2})}, c.out(), c.out_lstm(), c.out(), c.out());
}
template <class On>
void differences(op::lstm_grad, On& on) {
  auto input = on.weights({on.row_size, 8}), recurrent = on.weights({2, 8}), bias = on.weights({8});
  auto states = on.weights({on.index.size(on.level), 2}), cells = on.weights({on.index.size(on.level), 2});
  auto peepholes = on.weights({on.random(0, 1) * 6}), projection = on.weights({on.random(0, 1) * 2, 2});
  const auto weights = [&] {
    return lod::LstmWeights<double, typename On::Device>{on.there(input), on.there(recurrent), on.there(bias),
                                                         on.there(peepholes), on.there(projection)};
  };
  const auto run = [&] {
    const auto hidden = on.there(states), cell = on.there(cells);
    return lod::lstm(on.executor, on.there(on.x), weights(),
                     {.initial_hidden = hidden, .initial_cell = cell, .level = on.level});
  };
  // The tensor that is moved is among the arguments; a result that has no level of its own is of that tensor's.
  const auto check = [&](const char* what, auto& at, const auto& member) {
    on.check(
        what, at, [&](const auto&) { return run().hidden; },
        [&](const auto& dy) {
          return member(lod::lstm_grad(on.executor, dy, on.there(on.x), weights(), run().trace)).with_lod(at.lod());
        });
  };
  check("of x", on.x, [](const auto& d) { return d.x; });
  check("of the input's weights", input, [](const auto& d) { return d.weights.input; });
  check("of the state's weights", recurrent, [](const auto& d) { return d.weights.recurrent; });
  check("of the bias", bias, [](const auto& d) { return d.weights.bias; });
  if (peepholes.rows() > 0) check("of the peepholes", peepholes, [](const auto& d) { return d.weights.peepholes; });
  if (projection.rows() > 0) check("of the projection", projection, [](const auto& d) { return d.weights.projection; });
  check("of the first state", states, [](const auto& d) { return d.initial_hidden; });
  check("of the first cell", cells, [](const auto& d) { return d.initial_cell; });
}
// As lstm; without reset_after two products in each step, and a half of the cells after each.
inline Launches launches(op::gru) { return {{"", 15}, {"reset before", 23}}; }
void sample(op::gru, auto& c) {
  if (!c.is_short()) return;
  if (c.variant(2) == 1) c.named("reset before");
  const auto hidden = c.weights({c.sequences(), 2});
  lod::gru_into(c.executor, c.rows(), c.gru_weights(),
                {.initial_hidden = hidden, .reverse = true, .level = c.level, .reset_after = c.variant(2) == 0},
                c.out(), c.out(), c.gru_trace());
}
// As lstm_grad; without reset_after in halves of steps, and one more product by the weights.
inline Launches launches(op::gru_grad) { return {{"", 21}, {"reset before", 30}}; }
void sample(op::gru_grad, auto& c) {
  if (!c.is_short()) return;
  if (c.variant(2) == 1) c.named("reset before");
  const auto x = c.rows();
  const auto& weights = c.gru_weights();
  const auto& trace = c.given([&] {
    return lod::gru(c.executor, x, weights,
                    {.reverse = true, .level = c.level, .reset_after = c.variant(2) == 0, .origin_mode = false})
        .trace;
  });
  lod::gru_grad_into(c.executor, c.weights({c.index.rows(), 2}), x, weights, trace,
                     {.dlast_hidden = c.weights({c.sequences(), 2})}, c.out(), c.out_gru(), c.out());
}
template <class On>
void differences(op::gru_grad, On& on) {
  auto input = on.weights({on.row_size, 6}), recurrent = on.weights({2, 6}), bias = on.weights({6}),
       recurrent_bias = on.weights({2}), states = on.weights({on.index.size(on.level), 2});
  const auto weights = [&] {
    return lod::GruWeights<double, typename On::Device>{on.there(input), on.there(recurrent), on.there(bias),
                                                        on.there(recurrent_bias)};
  };
  const bool reset_after = on.random(0, 1) == 1, origin_mode = on.random(0, 1) == 1;
  const auto run = [&] {
    const auto hidden = on.there(states);
    return lod::gru(
        on.executor, on.there(on.x), weights(),
        {.initial_hidden = hidden, .level = on.level, .reset_after = reset_after, .origin_mode = origin_mode});
  };
  const auto check = [&](const char* what, auto& at, const auto& member) {
    on.check(
        what, at, [&](const auto&) { return run().hidden; },
        [&](const auto& dy) {
          return member(lod::gru_grad(on.executor, dy, on.there(on.x), weights(), run().trace)).with_lod(at.lod());
        });
  };
  check("of x", on.x, [](const auto& d) { return d.x; });
  check("of the input's weights", input, [](const auto& d) { return d.weights.input; });
  check("of the state's weights", recurrent, [](const auto& d) { return d.weights.recurrent; });
  check("of the bias", bias, [](const auto& d) { return d.weights.bias; });
  check("of the products' bias", recurrent_bias, [](const auto& d) { return d.weights.recurrent_bias; });
  check("of the first state", states, [](const auto& d) { return d.initial_hidden; });
}
// Three times lstm, with a dropout, and the projected states of a layer; without, three times gru.
inline Launches launches(op::stacked_lstm) { return {{"", 63}}; }
void sample(op::stacked_lstm, auto& c) {
  if (!c.is_short()) return;
  const auto hidden = c.weights({c.sequences(), 6}), cell = c.weights({c.sequences(), 7});
  lod::stacked_lstm_into(c.executor, c.rows(), c.lstm_layers(),
                         {.initial_hidden = hidden, .initial_cell = cell, .level = c.level, .dropout = 0.25, .seed = 3},
                         c.out(), c.out(), c.out(), c.stacked_lstm_trace());
}
inline Launches launches(op::stacked_lstm_grad) { return {{"", 73}}; }
void sample(op::stacked_lstm_grad, auto& c) {
  if (!c.is_short()) return;
  const auto x = c.rows();
  const auto& layers = c.lstm_layers();
  const auto& trace = c.given([&] { return lod::stacked_lstm(c.executor, x, layers, {.level = c.level}).trace; });
  lod::stacked_lstm_grad_into(c.executor, c.weights({c.index.rows(), 2}), x, layers, trace,
                              {.dlast_cell = c.weights({c.sequences(), 7})}, c.out(), c.out_lstm_layers(), c.out(),
                              c.out());
}
template <class On>
void differences(op::stacked_lstm_grad, On& on) {
  using Weights = lod::LstmWeights<double, typename On::Device>;
  auto input = on.weights({on.row_size, 8}), recurrent = on.weights({2, 8}), second = on.weights({4, 12}),
       projected = on.weights({2, 12}), projection = on.weights({3, 2});
  const auto layers = [&] {
    return lod::LstmLayers<double, typename On::Device>{
        {.forward = Weights{on.there(input), on.there(recurrent)},
         .backward = Weights{on.there(input), on.there(recurrent)}},
        {.backward =
             Weights{.input = on.there(second), .recurrent = on.there(projected), .projection = on.there(projection)}}};
  };
  const auto run = [&] {
    return lod::stacked_lstm(on.executor, on.there(on.x), layers(), {.level = on.level, .dropout = 0.25, .seed = 1});
  };
  const auto check = [&](const char* what, auto& at, const auto& member) {
    on.check(
        what, at, [&](const auto&) { return run().hidden; },
        [&](const auto& dy) {
          return member(lod::stacked_lstm_grad(on.executor, dy, on.there(on.x), layers(), run().trace))
              .with_lod(at.lod());
        });
  };
  check("of x", on.x, [](const auto& d) { return d.x; });
  check("of the second layer's weights", second, [](const auto& d) { return d.layers[1].backward.input; });
  check("of the projection", projection, [](const auto& d) { return d.layers[1].backward.projection; });
}
inline Launches launches(op::stacked_gru) { return {{"", 46}}; }
void sample(op::stacked_gru, auto& c) {
  if (!c.is_short()) return;
  const auto hidden = c.weights({c.sequences(), 6});
  lod::stacked_gru_into(c.executor, c.rows(), c.gru_layers(), {.initial_hidden = hidden, .level = c.level}, c.out(),
                        c.out(), c.stacked_gru_trace());
}
inline Launches launches(op::stacked_gru_grad) { return {{"", 56}}; }
void sample(op::stacked_gru_grad, auto& c) {
  if (!c.is_short()) return;
  const auto x = c.rows();
  const auto& layers = c.gru_layers();
  const auto& trace = c.given([&] { return lod::stacked_gru(c.executor, x, layers, {.level = c.level}).trace; });
  lod::stacked_gru_grad_into(c.executor, c.weights({c.index.rows(), 2}), x, layers, trace,
                             {.dlast_hidden = c.weights({c.sequences(), 6})}, c.out(), c.out_gru_layers(), c.out());
}
template <class On>
void differences(op::stacked_gru_grad, On& on) {
  using Weights = lod::GruWeights<double, typename On::Device>;
  auto input = on.weights({on.row_size, 6}), recurrent = on.weights({2, 6}), second = on.weights({4, 6});
  const auto layers = [&] {
    return lod::GruLayers<double, typename On::Device>{{.forward = Weights{on.there(input), on.there(recurrent)},
                                                        .backward = Weights{on.there(input), on.there(recurrent)}},
                                                       {.backward = Weights{on.there(second), on.there(recurrent)}}};
  };
  const auto run = [&] { return lod::stacked_gru(on.executor, on.there(on.x), layers(), {.level = on.level}); };
  const auto check = [&](const char* what, auto& at, const auto& member) {
    on.check(
        what, at, [&](const auto&) { return run().hidden; },
        [&](const auto& dy) {
          return member(lod::stacked_gru_grad(on.executor, dy, on.there(on.x), layers(), run().trace))
              .with_lod(at.lod());
        });
  };
  check("of x", on.x, [](const auto& d) { return d.x; });
  check("of the second layer's weights", second, [](const auto& d) { return d.layers[1].backward.input; });
}
// The bias, two products, the cells.
inline Launches launches(op::lstm_cell) { return {{"", 4}, {"with peepholes", 4}, {"projected", 6}}; }
void sample(op::lstm_cell, auto& c) {
  const auto x = c.rows(), hidden = c.weights({c.index.rows(), 2}), cell = c.weights({c.index.rows(), 2});
  lod::lstm_cell_into(c.executor, x, hidden, cell, c.lstm_weights(), {.projection_clip = 0.5}, c.out(), c.out(),
                      c.out());
}
// The states' gradients copied, the weights transposed, the cells; four products; the sums by the bias, and by
// peepholes.
inline Launches launches(op::lstm_cell_grad) { return {{"", 12}, {"with peepholes", 14}, {"projected", 18}}; }
void sample(op::lstm_cell_grad, auto& c) {
  const lod::Shape shape = {c.index.rows(), 2};
  // Small enough that gates stay away from 0 and 1, near which gradients keep few of their bits.
  const auto x = c.weights({c.index.rows(), c.row_size}), hidden = c.weights(shape), cell = c.weights(shape);
  const auto& weights = c.lstm_weights();
  const auto& y = c.given([&] { return lod::lstm_cell(c.executor, x, hidden, cell, weights); });
  lod::lstm_cell_grad_into(c.executor, c.weights(shape), c.weights(shape), x, hidden, cell, weights, y.cell, y.gates,
                           c.out(), c.out_lstm(), c.out(), c.out());
}
template <class On>
void differences(op::lstm_cell_grad, On& on) {
  const bool projects = on.random(0, 1) == 1;
  auto x = on.weights({on.x.rows(), projects ? 3 : 8});
  auto input = on.weights({projects ? 3 : 0, 8}), recurrent = on.weights({2, 8}), bias = on.weights({8});
  auto states = on.weights({on.x.rows(), 2}), cells = on.weights({on.x.rows(), 2});
  auto peepholes = on.weights({on.random(0, 1) * 6}), projection = on.weights({on.random(0, 1) * 2, 2});
  const bool of_cell = on.random(0, 1) == 1;
  const auto weights = [&] {
    return lod::LstmWeights<double, typename On::Device>{on.there(input), on.there(recurrent), on.there(bias),
                                                         on.there(peepholes), on.there(projection)};
  };
  const auto run = [&] {
    return lod::lstm_cell(on.executor, on.there(x), on.there(states), on.there(cells), weights());
  };
  const auto check = [&](const char* what, auto& at, const auto& member) {
    on.check(
        what, at, [&](const auto&) { return of_cell ? run().cell : run().hidden; },
        [&](const auto& dy) {
          const auto none = on.there(on.zeros({0, 2}));
          const auto y = run();
          return member(lod::lstm_cell_grad(on.executor, of_cell ? none : dy, of_cell ? dy : none, on.there(x),
                                            on.there(states), on.there(cells), weights(), y.cell, y.gates));
        });
  };
  check("of x", x, [](const auto& d) { return d.x; });
  if (projects) check("of the input's weights", input, [](const auto& d) { return d.weights.input; });
  check("of the state's weights", recurrent, [](const auto& d) { return d.weights.recurrent; });
  check("of the bias", bias, [](const auto& d) { return d.weights.bias; });
  if (peepholes.rows() > 0) check("of the peepholes", peepholes, [](const auto& d) { return d.weights.peepholes; });
  if (projection.rows() > 0) check("of the projection", projection, [](const auto& d) { return d.weights.projection; });
  check("of the state", states, [](const auto& d) { return d.hidden; });
  check("of the cell", cells, [](const auto& d) { return d.cell; });
}
// As lstm_cell; without reset_after three products, and the cells in halves.
inline Launches launches(op::gru_cell) { return {{"", 4}, {"reset before", 6}}; }
void sample(op::gru_cell, auto& c) {
  if (c.variant(2) == 1) c.named("reset before");
  lod::gru_cell_into(c.executor, c.rows(), c.weights({c.index.rows(), 2}), c.gru_weights(),
                     {.reset_after = c.variant(2) == 0}, c.out(), c.out(), c.out());
}
// As lstm_cell_grad; without reset_after six products, and the cells in halves.
inline Launches launches(op::gru_cell_grad) { return {{"", 14}, {"reset before", 18}}; }
void sample(op::gru_cell_grad, auto& c) {
  if (c.variant(2) == 1) c.named("reset before");
  const bool reset_after = c.variant(2) == 0;
  const lod::Shape shape = {c.index.rows(), 2};
  const auto x = c.rows(), hidden = c.weights(shape);
  const auto& weights = c.gru_weights();
  const auto& y = c.given([&] {
    return lod::gru_cell(c.executor, x, hidden, weights, {.reset_after = reset_after, .origin_mode = false});
  });
  lod::gru_cell_grad_into(c.executor, c.weights(shape), x, hidden, weights, y.gates, y.memory,
                          {.reset_after = reset_after, .origin_mode = false}, c.out(), c.out_gru(), c.out());
}
template <class On>
void differences(op::gru_cell_grad, On& on) {
  const bool projects = on.random(0, 1) == 1;
  auto x = on.weights({on.x.rows(), projects ? 3 : 6});
  auto input = on.weights({projects ? 3 : 0, 6}), recurrent = on.weights({2, 6}), bias = on.weights({6}),
       recurrent_bias = on.weights({2}), states = on.weights({on.x.rows(), 2});
  const auto weights = [&] {
    return lod::GruWeights<double, typename On::Device>{on.there(input), on.there(recurrent), on.there(bias),
                                                        on.there(recurrent_bias)};
  };
  const bool reset_after = on.random(0, 1) == 1, origin_mode = on.random(0, 1) == 1;
  const auto run = [&] {
    return lod::gru_cell(on.executor, on.there(x), on.there(states), weights(),
                         {.reset_after = reset_after, .origin_mode = origin_mode});
  };
  const auto check = [&](const char* what, auto& at, const auto& member) {
    on.check(
        what, at, [&](const auto&) { return run().hidden; },
        [&](const auto& dy) {
          const auto y = run();
          return member(lod::gru_cell_grad(on.executor, dy, on.there(x), on.there(states), weights(), y.gates, y.memory,
                                           {.reset_after = reset_after, .origin_mode = origin_mode}));
        });
  };
  check("of x", x, [](const auto& d) { return d.x; });
  if (projects) check("of the input's weights", input, [](const auto& d) { return d.weights.input; });
  check("of the state's weights", recurrent, [](const auto& d) { return d.weights.recurrent; });
  check("of the bias", bias, [](const auto& d) { return d.weights.bias; });
  check("of the products' bias", recurrent_bias, [](const auto& d) { return d.weights.recurrent_bias; });
  check("of the state", states, [](const auto& d) { return d.hidden; });
}

}  // namespace lod_test

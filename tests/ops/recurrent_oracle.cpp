// SPDX-License-Identifier: Apache-2.0
/// @file
/// lstm, gru and stacked_lstm against torch::nn::LSTM and torch::nn::GRU on packed sequences, in both directions, with
/// gradients.
/// Built where Torch is found. Torch knows no empty sequences, so there are none here.
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES  // Torch has a CHECK of its own
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/utils/rnn.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod_test::Engine;
using Tensor = LoDTensor<double>;

namespace {

/// A tensor of torch's with the numbers of one of ours.
torch::Tensor to_torch(const Tensor& x) {
  const auto shape = x.shape();
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  return torch::from_blob(const_cast<double*>(x.data()), sizes, torch::kDouble).clone();
}

/// Gives one of ours the numbers of a tensor of torch's.
void set(Tensor& ours, const torch::Tensor& numbers) {
  const torch::Tensor from = numbers.detach().contiguous();
  DOCTEST_REQUIRE_EQ(static_cast<std::int64_t>(ours.values().size()), from.numel());
  std::copy(from.data_ptr<double>(), from.data_ptr<double>() + from.numel(), ours.data());
}

/// The greatest difference between our numbers and torch's.
double difference(const Tensor& x, const torch::Tensor& y) {
  const torch::Tensor numbers = y.detach().contiguous();
  DOCTEST_REQUIRE_EQ(static_cast<std::int64_t>(x.values().size()), numbers.numel());
  double greatest = 0;
  for (std::int64_t i = 0; i < numbers.numel(); ++i) {
    greatest = std::max(greatest, std::abs(x.data()[i] - numbers.data_ptr<double>()[i]));
  }
  return greatest;
}

constexpr double tolerance = 1e-12;

/// One direction of a layer of torch's, with our names.
struct Direction {
  torch::Tensor input, recurrent, input_bias, recurrent_bias;
};
template <class Network>
Direction direction(const Network& network, bool reverse) {
  const auto named = network->named_parameters();
  const std::string end = reverse ? "_l0_reverse" : "_l0";
  return {named["weight_ih" + end], named["weight_hh" + end], named["bias_ih" + end], named["bias_hh" + end]};
}

/// A batch of sequences, and what goes with it.
struct Batch {
  Batch(Engine& engine, const LoD& lod, std::int64_t inputs, std::int64_t size)
      : x(lod_test::real_numbers<double>(engine, lod, {inputs})),
        hidden(lod_test::real_numbers<double>(engine, {2 * lod.size(0), size})),
        cell(lod_test::real_numbers<double>(engine, {2 * lod.size(0), size})),
        dhidden{lod_test::real_numbers<double>(engine, lod, {size}),
                lod_test::real_numbers<double>(engine, lod, {size})},
        dlast(lod_test::real_numbers<double>(engine, {2 * lod.size(0), size})),
        dlast_cell(lod_test::real_numbers<double>(engine, {2 * lod.size(0), size})) {}

  std::int64_t sequences() const { return x.size(); }
  /// The half of a tensor for one direction.
  auto half(const Tensor& states, bool reverse) const {
    return states.between(reverse ? sequences() : 0, reverse ? 2 * sequences() : sequences());
  }
  /// torch's form: the states of both directions one after the other.
  torch::Tensor states(const Tensor& ours) const {
    return to_torch(ours).reshape({2, sequences(), ours.row_size()}).requires_grad_();
  }
  torch::Tensor padded() const {
    const auto pad = lod::sequence_pad(x);
    return to_torch(pad.dense).requires_grad_();
  }
  torch::Tensor lengths() const { return torch::tensor(x.lod().lengths(0), torch::kLong); }
  /// The rows of one direction out of a padded tensor of torch's.
  Tensor rows(const torch::Tensor& padded_rows, std::int64_t first, std::int64_t columns) const {
    const torch::Tensor part = padded_rows.detach().narrow(2, first, columns).contiguous();
    Tensor y(x.lod(), {columns});
    std::int64_t row = 0;
    for (std::int64_t i = 0; i < sequences(); ++i) {
      for (std::int64_t t = 0; t < x[i].rows(); ++t, ++row) {
        const double* from = part.data_ptr<double>() + (i * part.size(1) + t) * columns;
        std::copy(from, from + columns, y.row(row).begin());
      }
    }
    return y;
  }

  Tensor x, hidden, cell;
  Tensor dhidden[2];
  Tensor dlast, dlast_cell;
};

/// The loss whose gradients are those of the batch.
torch::Tensor loss_of(const Batch& batch, const torch::Tensor& output, const torch::Tensor& last) {
  const auto weights = torch::cat(
      {to_torch(lod::sequence_pad(batch.dhidden[0]).dense), to_torch(lod::sequence_pad(batch.dhidden[1]).dense)}, 2);
  return (output * weights).sum() + (last * to_torch(batch.dlast).reshape(last.sizes())).sum();
}

/// The batches that both networks are compared on: many lengths, equal ones, a single sequence, single rows.
template <class Body>
void for_each_batch(const Body& body) {
  Engine engine(20171023);
  for (const auto& lengths : std::vector<std::vector<std::int64_t>>{{3, 7, 1, 7, 4, 2}, {5, 5, 5}, {9}, {1, 1}}) {
    for (const std::int64_t size : {1, 5, 16}) {
      DOCTEST_CAPTURE(size);
      torch::manual_seed(static_cast<std::uint64_t>(size));
      body(Batch(engine, LoD::from_lengths({lengths}), 3, size), size);
    }
  }
}

}  // namespace

DOCTEST_TEST_CASE("lstm: results and gradients are those of torch::nn::LSTM on packed sequences") {
  for_each_batch([](const Batch& batch, std::int64_t size) {
    torch::nn::LSTM network(torch::nn::LSTMOptions(3, size).bidirectional(true).batch_first(true));
    network->to(torch::kDouble);
    const auto x = batch.padded(), hidden = batch.states(batch.hidden), cell = batch.states(batch.cell);
    const auto packed = torch::nn::utils::rnn::pack_padded_sequence(x, batch.lengths(), true, false);
    const auto [packed_output, last] = network->forward_with_packed_input(packed, std::make_tuple(hidden, cell));
    const auto output = std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(packed_output, true));
    const auto [last_hidden, last_cell] = last;
    (loss_of(batch, output, last_hidden) + (last_cell * to_torch(batch.dlast_cell).reshape(last_cell.sizes())).sum())
        .backward();

    Tensor dx(batch.x.lod(), {3});
    for (const bool reverse : {false, true}) {
      DOCTEST_CAPTURE(reverse);
      const std::int64_t side = reverse ? 1 : 0;
      const Direction theirs = direction(network, reverse);
      lod::LstmWeights<double> weights{Tensor({3, 4 * size}), Tensor({size, 4 * size}), Tensor({4 * size})};
      set(weights.input, theirs.input.t());
      set(weights.recurrent, theirs.recurrent.t());
      set(weights.bias, theirs.input_bias + theirs.recurrent_bias);
      const auto ours = lod::lstm(batch.x, weights,
                                  {.initial_hidden = batch.half(batch.hidden, reverse),
                                   .initial_cell = batch.half(batch.cell, reverse),
                                   .reverse = reverse});
      DOCTEST_CHECK_LT(difference(ours.hidden, to_torch(batch.rows(output, side * size, size))), tolerance);
      DOCTEST_CHECK_LT(difference(ours.last_hidden, last_hidden[side]), tolerance);
      DOCTEST_CHECK_LT(difference(ours.last_cell, last_cell[side]), tolerance);
      const auto d = lod::lstm_grad(
          batch.dhidden[side], batch.x, weights, ours.trace,
          {.dlast_hidden = batch.half(batch.dlast, reverse), .dlast_cell = batch.half(batch.dlast_cell, reverse)});
      DOCTEST_CHECK_LT(difference(d.weights.input, theirs.input.grad().t()), tolerance);
      DOCTEST_CHECK_LT(difference(d.weights.recurrent, theirs.recurrent.grad().t()), tolerance);
      DOCTEST_CHECK_LT(difference(d.weights.bias, theirs.input_bias.grad()), tolerance);
      DOCTEST_CHECK_LT(difference(d.initial_hidden, hidden.grad()[side]), tolerance);
      DOCTEST_CHECK_LT(difference(d.initial_cell, cell.grad()[side]), tolerance);
      for (std::size_t i = 0; i < dx.values().size(); ++i) dx.values()[i] += d.x.values()[i];
    }
    DOCTEST_CHECK_LT(difference(dx, to_torch(batch.rows(x.grad(), 0, 3))), tolerance);
  });
}

DOCTEST_TEST_CASE("gru: results and gradients are those of torch::nn::GRU on packed sequences") {
  for_each_batch([](const Batch& batch, std::int64_t size) {
    torch::nn::GRU network(torch::nn::GRUOptions(3, size).bidirectional(true).batch_first(true));
    network->to(torch::kDouble);
    const auto x = batch.padded(), hidden = batch.states(batch.hidden);
    const auto packed = torch::nn::utils::rnn::pack_padded_sequence(x, batch.lengths(), true, false);
    const auto [packed_output, last] = network->forward_with_packed_input(packed, hidden);
    const auto output = std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(packed_output, true));
    loss_of(batch, output, last).backward();

    Tensor dx(batch.x.lod(), {3});
    for (const bool reverse : {false, true}) {
      DOCTEST_CAPTURE(reverse);
      const std::int64_t side = reverse ? 1 : 0;
      const Direction theirs = direction(network, reverse);
      lod::GruWeights<double> weights{Tensor({3, 3 * size}), Tensor({size, 3 * size}), Tensor({3 * size}),
                                      Tensor({size})};
      set(weights.input, theirs.input.t());
      set(weights.recurrent, theirs.recurrent.t());
      set(weights.bias, torch::cat({(theirs.input_bias + theirs.recurrent_bias).narrow(0, 0, 2 * size),
                                    theirs.input_bias.narrow(0, 2 * size, size)}));
      set(weights.recurrent_bias, theirs.recurrent_bias.narrow(0, 2 * size, size));
      const auto ours =
          lod::gru(batch.x, weights, {.initial_hidden = batch.half(batch.hidden, reverse), .reverse = reverse});
      DOCTEST_CHECK_LT(difference(ours.hidden, to_torch(batch.rows(output, side * size, size))), tolerance);
      DOCTEST_CHECK_LT(difference(ours.last_hidden, last[side]), tolerance);
      const auto d = lod::gru_grad(batch.dhidden[side], batch.x, weights, ours.trace,
                                   {.dlast_hidden = batch.half(batch.dlast, reverse)});
      DOCTEST_CHECK_LT(difference(d.weights.input, theirs.input.grad().t()), tolerance);
      DOCTEST_CHECK_LT(difference(d.weights.recurrent, theirs.recurrent.grad().t()), tolerance);
      DOCTEST_CHECK_LT(difference(d.weights.bias, theirs.input_bias.grad()), tolerance);
      DOCTEST_CHECK_LT(difference(d.weights.recurrent_bias, theirs.recurrent_bias.grad().narrow(0, 2 * size, size)),
                       tolerance);
      DOCTEST_CHECK_LT(difference(d.initial_hidden, hidden.grad()[side]), tolerance);
      for (std::size_t i = 0; i < dx.values().size(); ++i) dx.values()[i] += d.x.values()[i];
    }
    DOCTEST_CHECK_LT(difference(dx, to_torch(batch.rows(x.grad(), 0, 3))), tolerance);
  });
}

DOCTEST_TEST_CASE("stacked_lstm: results and gradients are those of torch::nn::LSTM, in layers, also projected") {
  for_each_batch([](const Batch& batch, std::int64_t size) {
    for (const std::int64_t projected : {std::int64_t{0}, size / 2}) {
      if (projected == 0 && size == 1) continue;
      DOCTEST_CAPTURE(projected);
      constexpr std::int64_t layers = 2;
      const std::int64_t width = projected > 0 ? projected : size;
      torch::nn::LSTM network(
          torch::nn::LSTMOptions(3, size).num_layers(layers).bidirectional(true).batch_first(true).proj_size(
              projected));
      network->to(torch::kDouble);
      const auto x = batch.padded();
      const auto packed = torch::nn::utils::rnn::pack_padded_sequence(x, batch.lengths(), true, false);
      const auto [packed_output, last] = network->forward_with_packed_input(packed);
      const auto output = std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(packed_output, true));
      const auto [last_hidden, last_cell] = last;
      (output.square().sum() + last_hidden.square().sum() + last_cell.square().sum()).backward();

      const auto theirs = network->named_parameters();
      const auto named = [&](const char* which, std::int64_t layer, bool reverse) {
        return theirs[which + std::string("_l") + std::to_string(layer) + (reverse ? "_reverse" : "")];
      };
      lod::LstmLayers<double> ours(layers);
      for (std::int64_t i = 0; i < layers; ++i) {
        for (const bool reverse : {false, true}) {
          auto& layer = ours[static_cast<std::size_t>(i)];
          auto& weights = reverse ? layer.backward : layer.forward;
          weights = {Tensor({i > 0 ? 2 * width : 3, 4 * size}), Tensor({width, 4 * size}), Tensor({4 * size})};
          set(weights.input, named("weight_ih", i, reverse).t());
          set(weights.recurrent, named("weight_hh", i, reverse).t());
          set(weights.bias, named("bias_ih", i, reverse) + named("bias_hh", i, reverse));
          if (projected == 0) continue;
          weights.projection = Tensor({size, projected});
          set(weights.projection, named("weight_hr", i, reverse).t());
        }
      }
      const auto y = lod::stacked_lstm(batch.x, ours);
      DOCTEST_CHECK_LT(difference(y.hidden, to_torch(batch.rows(output, 0, 2 * width))), tolerance);
      // Theirs are by layer and direction first, ours by sequence.
      DOCTEST_CHECK_LT(difference(y.last_hidden, last_hidden.transpose(0, 1)), tolerance);
      DOCTEST_CHECK_LT(difference(y.last_cell, last_cell.transpose(0, 1)), tolerance);
      const auto twice = [](const Tensor& numbers) { return lod::add(numbers, numbers); };
      const auto d = lod::stacked_lstm_grad(twice(y.hidden), batch.x, ours, y.trace,
                                            {.dlast_hidden = twice(y.last_hidden), .dlast_cell = twice(y.last_cell)});
      DOCTEST_CHECK_LT(difference(d.x, to_torch(batch.rows(x.grad(), 0, 3))), tolerance);
      for (std::int64_t i = 0; i < layers; ++i) {
        for (const bool reverse : {false, true}) {
          const auto& layer = d.layers[static_cast<std::size_t>(i)];
          const auto& gradient = reverse ? layer.backward : layer.forward;
          DOCTEST_CHECK_LT(difference(gradient.input, named("weight_ih", i, reverse).grad().t()), tolerance);
          DOCTEST_CHECK_LT(difference(gradient.recurrent, named("weight_hh", i, reverse).grad().t()), tolerance);
          DOCTEST_CHECK_LT(difference(gradient.bias, named("bias_ih", i, reverse).grad()), tolerance);
          if (projected == 0) continue;
          DOCTEST_CHECK_LT(difference(gradient.projection, named("weight_hr", i, reverse).grad().t()), tolerance);
        }
      }
    }
  });
}

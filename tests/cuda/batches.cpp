// SPDX-License-Identifier: Apache-2.0
#include "support/check_on_gpu.hpp"
#include "support/random_batch.hpp"
#include "support/same_bits.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::RankTable;
using namespace lod_test;

namespace {

LoD nested() { return LoD::from_lengths({{3, 0, 1, 2}, {2, 0, 70, 1, 5, 3}}); }

/// The tensors of a result that has several, and room for it on the device.
template <class Call>
auto room_for_parts(Call& call, std::size_t count) {
  using Part = typename Call::template Tensor<float>;
  return &call.template kept<std::vector<Part>>(count, Part(call.executor().resource()));
}

}  // namespace

TEST_CASE("on a GPU: batches joined, cut, picked from") {
  Engine engine(4);
  const LoD index = nested();
  const auto x = real_numbers<float>(engine, index, {3}), z = real_numbers<float>(engine, index, {3});
  check_on_gpu("concat and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::concat_into(call.executor(), call.on(x), call.on(z), y);
    auto& parts = *room_for_parts(call, 2);
    const std::vector<LoD> lods = {index, index};
    lod::concat_grad_into(call.executor(), y, lods, parts);
    for (auto& part : parts) call.result(part);
  });
  check_on_gpu("split, split_at and the gradient", [&](auto& call) {
    auto& parts = *room_for_parts(call, 2);
    lod::split_into(call.executor(), call.on(x), 2, parts);
    for (auto& part : parts) call.result(part);
    lod::split_grad_into(call.executor(), parts, call.template out<float>());
    auto& others = *room_for_parts(call, 3);
    lod::split_at_into(call.executor(), call.on(x), {1, 1}, others);
    for (auto& part : others) call.result(part);
  });
  const std::vector<std::int64_t> ids = {3, 0, 3, 1};
  check_on_gpu("select and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::select_into(call.executor(), call.on(x), ids, y);
    lod::select_grad_into(call.executor(), y, index, ids, call.template out<float>());
  });
  check_on_gpu("filter and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::filter_into(call.executor(), call.on(x), {true, false, false, true}, y);
    lod::filter_grad_into(call.executor(), y, index, {true, false, false, true}, call.template out<float>());
  });
  check_on_gpu("remove_empty and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::remove_empty_into(call.executor(), call.on(x), y);
    lod::remove_empty_grad_into(call.executor(), y, index, call.template out<float>());
  });
  const std::vector<bool> mask = {true, false, true, true};
  check_on_gpu("split_lod_tensor, merge_lod_tensor and their gradients", [&](auto& call) {
    auto& first = call.template out<float>();
    auto& second = call.template out<float>();
    lod::split_lod_tensor_into(call.executor(), call.on(x), mask, {}, first, second);
    lod::merge_lod_tensor_into(call.executor(), first, second, mask, {}, call.template out<float>());
    lod::split_lod_tensor_grad_into(call.executor(), first, second, mask, {}, call.template out<float>());
    auto& dfirst = call.template out<float>();
    lod::merge_lod_tensor_grad_into(call.executor(), call.on(x), mask, {}, dfirst, call.template out<float>());
  });
}

TEST_CASE("on a GPU: levels") {
  Engine engine(5);
  const LoD index = nested();
  const auto x = real_numbers<float>(engine, index, {3});
  check_on_gpu("remove_level, insert_level and their gradients", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::remove_level_into(call.executor(), call.on(x), 0, y);
    lod::remove_level_grad_into(call.executor(), y, index, call.template out<float>());
    auto& z = call.template out<float>();
    lod::insert_level_into(call.executor(), y, 0, LoD::from_lengths({{2, 4}}), z);
    lod::insert_level_grad_into(call.executor(), z, y.lod(), call.template out<float>());
  });
  check_on_gpu("flatten, transpose_levels and their gradients", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::flatten_into(call.executor(), call.on(x), y);
    lod::flatten_grad_into(call.executor(), y, index, call.template out<float>());
    auto& z = call.template out<float>();
    lod::transpose_levels_into(call.executor(), call.on(x), z);
    lod::transpose_levels_grad_into(call.executor(), z, index, call.template out<float>());
  });
}

TEST_CASE("on a GPU: functions of the user's for each sequence") {
  Engine engine(15);
  const LoD index = nested();
  const auto x = real_numbers<float>(engine, index, {3});
  check_on_gpu("map_sequences", [&](auto& call) {
    const auto same = [](const auto& sequence) { return sequence; };
    lod::map_sequences_into(call.executor(), call.on(x), same, call.template out<float>());
  });
  check_on_gpu("for_each_sequence", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::lod_reset_into(call.executor(), call.on(x), index, y);
    const auto sequences = call.on(x).view();
    lod::for_each_sequence(call.executor(), y, 0, [&](const auto& sequence, std::int64_t i) {
      lod::sequence_reverse_into(call.executor(), sequences.element(i), {}, sequence);
    });
  });
}

TEST_CASE("on a GPU: elementwise, with all forms of the second argument") {
  Engine engine(6);
  const LoD index = nested();
  const auto x = real_numbers<float>(engine, index, {3}), same = real_numbers<float>(engine, index, {3});
  const auto row = real_numbers<float>(engine, {3}), rows = real_numbers<float>(engine, {index.size(0), 3});
  const auto with = [&](const LoDTensor<float>& y, const lod::ElementwiseOptions& options) {
    check_on_gpu("add, sub, mul, div and their gradients", [&](auto& call) {
      lod::add_into(call.executor(), call.on(x), call.on(y), options, call.template out<float>());
      lod::sub_into(call.executor(), call.on(x), call.on(y), options, call.template out<float>());
      lod::mul_into(call.executor(), call.on(x), call.on(y), options, call.template out<float>());
      lod::div_into(call.executor(), call.on(x), call.on(y), options, call.template out<float>());
      const auto grad = [&](const auto& f) {
        auto& dx = call.template out<float>();
        f(dx, call.template out<float>());
      };
      grad([&](auto& dx, auto& dy) {
        lod::add_grad_into(call.executor(), call.on(x), call.on(x), call.on(y), options, dx, dy);
      });
      grad([&](auto& dx, auto& dy) {
        lod::sub_grad_into(call.executor(), call.on(x), call.on(x), call.on(y), options, dx, dy);
      });
      grad([&](auto& dx, auto& dy) {
        lod::mul_grad_into(call.executor(), call.on(x), call.on(x), call.on(y), options, dx, dy);
      });
      grad([&](auto& dx, auto& dy) {
        lod::div_grad_into(call.executor(), call.on(x), call.on(x), call.on(y), options, dx, dy);
      });
    });
  };
  with(same, {});
  with(row, {});
  with(rows, {.level = 0});
}

TEST_CASE("on a GPU: convolutions and patches") {
  Engine engine(7);
  const LoD index = nested();
  const auto x = real_numbers<float>(engine, index, {3}), filter = real_numbers<float>(engine, {9, 2});
  const auto padding = real_numbers<float>(engine, {2, 3}), dy = real_numbers<float>(engine, index, {2});
  check_on_gpu("sequence_conv and its gradients", [&](auto& call) {
    using Device = typename std::remove_cvref_t<decltype(call)>::Device;
    const lod::ConvOptions<float, Device> options = {
        .context_length = 3, .context_start = -1, .padding = &call.on(padding)};
    lod::sequence_conv_into(call.executor(), call.on(x), call.on(filter), options, call.template out<float>());
    auto& dx = call.template out<float>();
    auto& dfilter = call.template out<float>();
    lod::sequence_conv_grad_into(call.executor(), call.on(dy), call.on(x), call.on(filter), options, dx, dfilter,
                                 call.template out<float>());
  });
  const auto ahead = real_numbers<float>(engine, {2, 3});
  check_on_gpu("row_conv and its gradients", [&](auto& call) {
    lod::row_conv_into(call.executor(), call.on(x), call.on(ahead), call.template out<float>());
    auto& dx = call.template out<float>();
    lod::row_conv_grad_into(call.executor(), call.on(x), call.on(x), call.on(ahead), dx, call.template out<float>());
  });
  const auto images = real_numbers<float>(engine, {2, 2, 4, 5});
  check_on_gpu("im2sequence and its gradient", [&](auto& call) {
    auto& y = call.template out<float>();
    const lod::Im2SequenceOptions options = {.kernels = {2, 3}, .strides = {1, 2}, .paddings = {1, 0, 0, 1}};
    lod::im2sequence_into(call.executor(), call.on(images), options, y);
    lod::im2sequence_grad_into(call.executor(), y, call.on(images), options, call.template out<float>());
  });
}

TEST_CASE("on a GPU: time steps") {
  Engine engine(8);
  const LoD index = nested();
  const auto x = real_numbers<float>(engine, index, {3});
  for (const int level : {0, 1}) {
    const RankTable table(index, {.level = level});
    check_on_gpu("to_time_major, from_time_major and their gradients", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      auto& z = call.template kept<lod::TimeMajor<float, Device>>();
      lod::to_time_major_into(call.executor(), call.on(x), table, z);
      call.result(z.values());
      lod::to_time_major_grad_into(call.executor(), z, table, call.template out<float>());
      auto& y = call.template out<float>();
      lod::from_time_major_into(call.executor(), z, table, y);
      auto& dz = call.template kept<lod::TimeMajor<float, Device>>();
      lod::from_time_major_grad_into(call.executor(), y, table, dz);
      call.result(dz.values());
    });
    check_on_gpu("lod_tensor_to_array, array_to_lod_tensor and their gradients", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      auto& array = call.template kept<lod::TensorArray<float, Device>>();
      lod::lod_tensor_to_array_into(call.executor(), call.on(x), table, array);
      for (auto& element : array) call.result(element);
      auto& y = call.template out<float>();
      lod::array_to_lod_tensor_into(call.executor(), array, table, y);
      lod::lod_tensor_to_array_grad_into(call.executor(), array, table, call.template out<float>());
      auto& darray = call.template kept<lod::TensorArray<float, Device>>();
      lod::array_to_lod_tensor_grad_into(call.executor(), y, table, darray);
      for (auto& element : darray) call.result(element);
    });
  }
  const RankTable table(index, {.level = 0});
  check_on_gpu("shrink_rnn_memory, reorder_lod_tensor_by_rank and their gradients", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::shrink_rnn_memory_into(call.executor(), call.on(x), table, 1, y);
    lod::shrink_rnn_memory_grad_into(call.executor(), y, index, table, 1, call.template out<float>());
    auto& z = call.template out<float>();
    lod::reorder_lod_tensor_by_rank_into(call.executor(), call.on(x), table, z);
    lod::reorder_lod_tensor_by_rank_grad_into(call.executor(), z, table, call.template out<float>());
  });
}

TEST_CASE("on a GPU: recurrent networks") {
  Engine engine(9);
  const LoD index = LoD::from_lengths({{3, 0, 7, 2}});
  const auto x = real_numbers<float>(engine, index, {3}), dy = real_numbers<float>(engine, index, {4});
  const auto states = real_numbers<float>(engine, {4, 4}), cells = real_numbers<float>(engine, {4, 4});
  const auto input = real_numbers<float>(engine, {3, 16}), recurrent = real_numbers<float>(engine, {4, 16});
  const auto bias = real_numbers<float>(engine, {16});
  check_on_gpu("lstm and its gradients", [&](auto& call) {
    using Device = typename std::remove_cvref_t<decltype(call)>::Device;
    using Weights = lod::LstmWeights<float, Device>;
    const auto& weights = call.made([&] { return Weights{call.on(input), call.on(recurrent), call.on(bias)}; });
    auto& trace = call.template kept<lod::LstmTrace<float, Device>>();
    auto& hidden = call.template out<float>();
    auto& last_hidden = call.template out<float>();
    auto& last_cell = call.template out<float>();
    lod::lstm_into(call.executor(), call.on(x), weights,
                   {.initial_hidden = call.on(states).view(), .initial_cell = call.on(cells).view()}, hidden,
                   last_hidden, last_cell, trace);
    auto& dweights = call.template kept<Weights>();
    auto& dx = call.template out<float>();
    auto& dinitial_hidden = call.template out<float>();
    auto& dinitial_cell = call.template out<float>();
    lod::lstm_grad_into(call.executor(), call.on(dy), call.on(x), weights, trace, {.dlast_cell = call.on(cells).view()},
                        dx, dweights, dinitial_hidden, dinitial_cell);
    call.result(dweights.input);
    call.result(dweights.recurrent);
    call.result(dweights.bias);
  });
  const auto gates = real_numbers<float>(engine, {3, 12}), products = real_numbers<float>(engine, {4, 12});
  const auto gate_bias = real_numbers<float>(engine, {12}), product_bias = real_numbers<float>(engine, {4});
  check_on_gpu("gru and its gradients", [&](auto& call) {
    using Device = typename std::remove_cvref_t<decltype(call)>::Device;
    using Weights = lod::GruWeights<float, Device>;
    const auto& weights = call.made([&] {
      return Weights{call.on(gates), call.on(products), call.on(gate_bias), call.on(product_bias)};
    });
    auto& trace = call.template kept<lod::GruTrace<float, Device>>();
    auto& hidden = call.template out<float>();
    auto& last_hidden = call.template out<float>();
    lod::gru_into(call.executor(), call.on(x), weights, {.reverse = true}, hidden, last_hidden, trace);
    auto& dweights = call.template kept<Weights>();
    auto& dx = call.template out<float>();
    auto& dinitial_hidden = call.template out<float>();
    lod::gru_grad_into(call.executor(), call.on(dy), call.on(x), weights, trace,
                       {.dlast_hidden = call.on(states).view()}, dx, dweights, dinitial_hidden);
    call.result(dweights.input);
    call.result(dweights.recurrent);
    call.result(dweights.bias);
    call.result(dweights.recurrent_bias);
  });
}

TEST_CASE("on a GPU: embeddings and scattered updates") {
  Engine engine(10);
  const LoD index = nested();
  const auto table = real_numbers<float>(engine, {20, 3});
  const auto ids = random_ids(engine, index, 20);
  LoDTensor<std::int32_t> narrow(index, {});
  std::ranges::transform(ids.values(), narrow.data(), [](std::int64_t id) { return static_cast<std::int32_t>(id); });
  const auto weights = real_numbers<float>(engine, index, {});
  check_on_gpu("embedding", [&](auto& call) {
    lod::embedding_into(call.executor(), call.on(table), call.on(ids), {.padding_idx = 3}, call.template out<float>());
    lod::embedding_into(call.executor(), call.on(table), call.on(narrow), {}, call.template out<float>());
  });
  const auto dy = real_numbers<float>(engine, {index.size(-1), 3});
  for (const lod::PoolType type : {lod::PoolType::SUM, lod::PoolType::AVERAGE, lod::PoolType::MAX}) {
    check_on_gpu("embedding_pool and the gradient by its weights", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      const lod::EmbeddingPoolOptions<float, Device> options = {
          .weights = call.on(weights), .padding_idx = 3, .pad_value = 5};
      lod::embedding_pool_into(call.executor(), call.on(table), call.on(ids), type, options,
                               call.template out<float>());
      lod::embedding_pool_weights_grad_into(call.executor(), call.on(dy), call.on(table), call.on(ids), type, options,
                                            call.template out<float>());
    });
  }
  check_on_gpu("embedding_max_pool and embedding_min_pool", [&](auto& call) {
    auto& most = call.template out<float>();
    lod::embedding_max_pool_into(call.executor(), call.on(table), call.on(ids), {}, most,
                                 call.template out<std::int64_t>());
    auto& least = call.template out<float>();
    lod::embedding_min_pool_into(call.executor(), call.on(table), call.on(ids), {}, least,
                                 call.template out<std::int64_t>());
  });
  const auto x = real_numbers<float>(engine, {index.size(-1), 20});
  check_on_gpu("sequence_scatter and its gradients", [&](auto& call) {
    auto& y = call.template out<float>();
    lod::sequence_scatter_into(call.executor(), call.on(x), call.on(ids), call.on(weights), y);
    auto& dx = call.template out<float>();
    lod::sequence_scatter_grad_into(call.executor(), y, call.on(ids), dx, call.template out<float>());
  });
}

TEST_CASE("on a GPU: optimizers, with dense gradients") {
  Engine engine(11);
  const auto weights = real_numbers<float>(engine, {7, 3}), gradient = real_numbers<float>(engine, {7, 3});
  check_on_gpu("sgd, momentum, adagrad, rmsprop, adam, ftrl", [&](auto& call) {
    // Parameters and states are changed in place: each call begins with the same ones.
    const auto begin = [&](float value) -> auto& {
      auto& y = call.template out<float>();
      lod::lod_reset_into(call.executor(), call.on(weights), LoD(), y);
      lod::mul_into(call.executor(), y, y, y);
      if (value == 0) lod::sub_into(call.executor(), y, y, y);
      return y;
    };
    const auto& dy = call.on(gradient);
    lod::sgd(call.executor(), begin(1), dy, 0.5);
    auto& moved = begin(1);
    lod::momentum(call.executor(), moved, begin(0), dy, {.learning_rate = 0.1});
    auto& scaled = begin(1);
    lod::adagrad(call.executor(), scaled, begin(0), dy, {.learning_rate = 0.1});
    auto& averaged = begin(1);
    auto& mean = begin(0);
    lod::adam(call.executor(), averaged, mean, begin(0), dy, {.learning_rate = 0.1, .step = 1});
    auto& regularised = begin(1);
    auto& squares = begin(0);
    lod::ftrl(call.executor(), regularised, squares, begin(0), dy, {.learning_rate = 0.1, .l1 = 0.2});
  });
}

TEST_CASE("on a GPU: dynamic_rnn, with a cell of operations") {
  Engine engine(12);
  const LoD index = LoD::from_lengths({{3, 0, 7, 2}});
  const auto x = real_numbers<float>(engine, index, {3}), initial = real_numbers<float>(engine, {4, 3});
  const RankTable table(index);
  const auto run = [&](const auto& executor, const auto& rows, const auto& first) {
    // h = h' + x; the output is h * x.
    const auto cell = [&](const auto& before, const auto& step) {
      auto after = lod::add(executor, before, step);
      auto output = lod::mul(executor, after, step);
      return std::pair(std::move(after), std::move(output));
    };
    return lod::dynamic_rnn(executor, rows, table, first, cell);
  };
  const auto expected = run(ThrustExecutor(), x, initial);
  const lod::CudaExecutor executor;
  const auto found = run(executor, lod::to<lod::Cuda>(executor, x), lod::to<lod::Cuda>(executor, initial));
  CHECK(same_bits(lod::to<lod::Cpu>(executor, found.output), expected.output));
  CHECK(same_bits(lod::to<lod::Cpu>(executor, found.state), expected.state));
}

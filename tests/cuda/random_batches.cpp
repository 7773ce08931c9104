// SPDX-License-Identifier: Apache-2.0
/// @file
/// Operations on whole batches, on their numbers and step by step, on random batches of every row size: a GPU gives
/// what the CPU gives.
#include "support/check_on_gpu.hpp"
#include "support/gpu_batches.hpp"
#include "support/same_bits.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using lod::RankTable;
using namespace lod_test;

namespace {

/// The tensors of a result that has several, and room for it on the device.
template <class Call>
auto& several(Call& call, std::size_t count) {
  using Part = typename Call::template Tensor<float>;
  return call.template kept<std::vector<Part>>(count, Part(call.executor().resource()));
}
template <class Call, class Parts>
void results(Call& call, Parts& parts) {
  for (auto& part : parts) call.result(part);
}

}  // namespace

TEST_CASE("on a GPU, random batches: joined, cut, picked from") {
  for_each_gpu_batch([](const Middle& middle) {
    const LoD& index = middle.index;
    const int level = middle.level;
    const auto x = middle.rows(), z = middle.rows();
    check_on_gpu("concat and its gradient", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::concat_into(call.executor(), middle.of(call, x), middle.of(call, z), y);
      auto& parts = several(call, 2);
      const std::vector<LoD> lods = {index, index};
      lod::concat_grad_into(call.executor(), y, lods, parts);
      results(call, parts);
    });
    check_on_gpu("split, split_at and their gradient", [&](auto& call) {
      auto& parts = several(call, 3);
      lod::split_into(call.executor(), middle.of(call, x), 3, parts);
      results(call, parts);
      lod::split_grad_into(call.executor(), parts, call.template out<float>());
      auto& others = several(call, 3);
      const std::vector<std::int64_t> borders = {middle.size() / 2, middle.size() / 2};
      lod::split_at_into(call.executor(), middle.of(call, x), borders, others);
      results(call, others);
    });
    const auto ids = middle.size() > 0 ? middle.numbers(5, 0, middle.size() - 1) : std::vector<std::int64_t>();
    check_on_gpu("select and its gradient", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::select_into(call.executor(), middle.of(call, x), ids, y);
      lod::select_grad_into(call.executor(), y, index, ids, call.template out<float>());
    });
    const std::vector<bool> kept = middle.mask(middle.size()), in_true = middle.mask(index.size(level));
    check_on_gpu("filter, remove_empty and their gradients", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::filter_into(call.executor(), middle.of(call, x), kept, y);
      lod::filter_grad_into(call.executor(), y, index, kept, call.template out<float>());
      auto& w = call.template out<float>();
      lod::remove_empty_into(call.executor(), middle.of(call, x), {.level = level}, w);
      lod::remove_empty_grad_into(call.executor(), w, index, call.template out<float>());
    });
    check_on_gpu("split_lod_tensor, merge_lod_tensor and their gradients", [&](auto& call) {
      auto& first = call.template out<float>();
      auto& second = call.template out<float>();
      const lod::MergeBranchOptions back{.level = level, .lod = index};
      lod::split_lod_tensor_into(call.executor(), middle.of(call, x), in_true, {.level = level}, first, second);
      lod::merge_lod_tensor_into(call.executor(), first, second, in_true, back, call.template out<float>());
      lod::split_lod_tensor_grad_into(call.executor(), first, second, in_true, back, call.template out<float>());
      auto& dfirst = call.template out<float>();
      lod::merge_lod_tensor_grad_into(call.executor(), middle.of(call, z), in_true, {.level = level}, dfirst,
                                      call.template out<float>());
    });
  });
}

TEST_CASE("on a GPU, random batches: levels, and functions of the user's") {
  for_each_gpu_batch([](const Middle& middle) {
    const LoD& index = middle.index;
    const auto x = middle.rows();
    check_on_gpu("remove_level, insert_level, flatten and their gradients", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::remove_level_into(call.executor(), middle.of(call, x), middle.level, y);
      lod::remove_level_grad_into(call.executor(), y, index, call.template out<float>());
      auto& z = call.template out<float>();
      lod::insert_level_into(call.executor(), middle.of(call, x), 0, LoD::from_lengths({{0, middle.size()}}), z);
      lod::insert_level_grad_into(call.executor(), z, index, call.template out<float>());
      auto& w = call.template out<float>();
      lod::flatten_into(call.executor(), middle.of(call, x), w);
      lod::flatten_grad_into(call.executor(), w, index, call.template out<float>());
    });
    if (index.levels() > 1) {
      check_on_gpu("transpose_levels and its gradient", [&](auto& call) {
        auto& y = call.template out<float>();
        lod::transpose_levels_into(call.executor(), middle.of(call, x), y);
        lod::transpose_levels_grad_into(call.executor(), y, index, call.template out<float>());
      });
    }
    check_on_gpu("map_sequences and for_each_sequence", [&](auto& call) {
      const auto rows = middle.of(call, x);
      lod::map_sequences_into(
          call.executor(), rows, [](const auto& sequence) { return sequence; }, call.template out<float>());
      auto& y = call.template out<float>();
      lod::lod_reset_into(call.executor(), rows, index, y);
      lod::for_each_sequence(call.executor(), y, 0, [&](const auto& sequence, std::int64_t i) {
        lod::add_into(call.executor(), rows.element(i), rows.element(i), sequence);
      });
    });
  });
}

TEST_CASE("on a GPU, random batches: arithmetic, with all forms of the second argument") {
  for_each_gpu_batch([](const Middle& middle) {
    const int level = middle.level;
    const auto x = middle.rows(), dz = middle.rows();
    // Away from 0, so that what is divided by them and summed keeps its last bits.
    const auto divisors = [](LoDTensor<float> y) {
      for (float& number : y.values()) number = 2 + number / 4;
      return y;
    };
    const auto same = divisors(middle.rows());
    const auto row = divisors(real_numbers<float>(middle.engine, {middle.row_size}));
    const auto rows = divisors(real_numbers<float>(middle.engine, {middle.index.size(level), middle.row_size}));
    for (const auto* const y : {&same, &row, &rows}) {
      const lod::ElementwiseOptions options{.level = y == &rows ? level : 0};
      check_on_gpu("add, sub, mul, div and their gradients", [&](auto& call) {
        const auto with = [&](const auto& second) {
          const auto& e = call.executor();
          const auto first = middle.of(call, x), d = middle.of(call, dz);
          const auto grad = [&](const auto& f) {
            auto& dx = call.template out<float>();
            f(dx, call.template out<float>());
          };
          lod::add_into(e, first, second, options, call.template out<float>());
          lod::sub_into(e, first, second, options, call.template out<float>());
          lod::mul_into(e, first, second, options, call.template out<float>());
          lod::div_into(e, first, second, options, call.template out<float>());
          grad([&](auto& dx, auto& dy) { lod::add_grad_into(e, d, first, second, options, dx, dy); });
          grad([&](auto& dx, auto& dy) { lod::sub_grad_into(e, d, first, second, options, dx, dy); });
          grad([&](auto& dx, auto& dy) { lod::mul_grad_into(e, d, first, second, options, dx, dy); });
          grad([&](auto& dx, auto& dy) { lod::div_grad_into(e, d, first, second, options, dx, dy); });
        };
        if (y == &same) {
          with(middle.of(call, *y));
        } else {
          with(call.on(*y).view());
        }
      });
    }
  });
}

TEST_CASE("on a GPU, random batches: convolutions and patches") {
  for_each_gpu_batch([](const Middle& middle) {
    const int level = middle.level;
    const auto x = middle.rows();
    const auto filter = small_reals<float>(middle.engine, {3 * middle.row_size, 5});
    const auto padding = real_numbers<float>(middle.engine, {2, middle.row_size});
    check_on_gpu("sequence_conv and its gradients", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      const lod::ConvOptions<float, Device> options = {
          .context_length = 3, .context_start = -1, .padding = &call.on(padding), .level = level};
      auto& y = call.template out<float>();
      lod::sequence_conv_into(call.executor(), middle.of(call, x), call.on(filter), options, y);
      auto& dx = call.template out<float>();
      auto& dfilter = call.template out<float>();
      lod::sequence_conv_grad_into(call.executor(), y, middle.of(call, x), call.on(filter), options, dx, dfilter,
                                   call.template out<float>());
    });
    const auto ahead = small_reals<float>(middle.engine, {4, middle.row_size});
    check_on_gpu("row_conv and its gradients", [&](auto& call) {
      lod::row_conv_into(call.executor(), middle.of(call, x), call.on(ahead), {.level = level},
                         call.template out<float>());
      auto& dx = call.template out<float>();
      lod::row_conv_grad_into(call.executor(), middle.of(call, x), middle.of(call, x), call.on(ahead), {.level = level},
                              dx, call.template out<float>());
    });
    const auto images = real_numbers<float>(middle.engine, {2, middle.row_size, 4, 5});
    check_on_gpu("im2sequence and its gradient", [&](auto& call) {
      auto& y = call.template out<float>();
      const lod::Im2SequenceOptions options = {.kernels = {2, 3}, .strides = {1, 2}, .paddings = {1, 0, 0, 1}};
      lod::im2sequence_into(call.executor(), call.on(images), options, y);
      lod::im2sequence_grad_into(call.executor(), y, call.on(images), options, call.template out<float>());
    });
  });
}

TEST_CASE("on a GPU, random batches: tables looked up, and scattered updates") {
  for_each_gpu_batch([](const Middle& middle) {
    const int level = middle.level;
    const auto table = real_numbers<float>(middle.engine, {20, middle.row_size});
    const auto ids = middle.ids(20);
    const auto weights = middle.scalars();
    check_on_gpu("embedding and its gradient", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::embedding_into(call.executor(), call.on(table), middle.of(call, ids), {.padding_idx = 3}, y);
      lod::embedding_grad_into(call.executor(), y, middle.of(call, ids), 20, {.padding_idx = 3},
                               call.template out_rows<float>());
    });
    auto some = ids;
    for (std::int64_t& id : some.values()) id = id % 4 == 1 ? -1 : id;
    check_on_gpu("embedding and embedding_max_pool with ids -1 as padding", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      lod::embedding_into(call.executor(), call.on(table), middle.of(call, some),
                          {.padding_idx = 3, .skip_minus_one = true}, call.template out<float>());
      const lod::EmbeddingPoolOptions<float, Device> options = {
          .skip_minus_one = true, .level = level, .row_index = lod::RowIndex::SEQUENCE};
      auto& most = call.template out<float>();
      auto& winners = call.template out<std::int64_t>();
      lod::embedding_max_pool_into(call.executor(), call.on(table), middle.of(call, some), options, most, winners);
      lod::embedding_max_pool_grad_into(call.executor(), most, winners, middle.of(call, some), 20, options,
                                        call.template out_rows<float>());
    });
    for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT, PoolType::MAX, PoolType::MIN,
                                PoolType::FIRST, PoolType::LAST}) {
      check_on_gpu("embedding_pool and its gradients", [&](auto& call) {
        using Device = typename std::remove_cvref_t<decltype(call)>::Device;
        const lod::EmbeddingPoolOptions<float, Device> options = {
            .weights = middle.of(call, weights), .padding_idx = 3, .pad_value = 5, .level = level};
        auto& y = call.template out<float>();
        lod::embedding_pool_into(call.executor(), call.on(table), middle.of(call, ids), type, options, y);
        lod::embedding_pool_weights_grad_into(call.executor(), y, call.on(table), middle.of(call, ids), type, options,
                                              call.template out<float>());
        if (type == PoolType::MAX || type == PoolType::MIN) return;
        lod::embedding_pool_grad_into(call.executor(), y, middle.of(call, ids), 20, type, options,
                                      call.template out_rows<float>());
      });
    }
    check_on_gpu("embedding_max_pool, embedding_min_pool and their gradients", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      const lod::EmbeddingPoolOptions<float, Device> options = {.padding_idx = 3, .level = level};
      auto& most = call.template out<float>();
      auto& winners = call.template out<std::int64_t>();
      lod::embedding_max_pool_into(call.executor(), call.on(table), middle.of(call, ids), options, most, winners);
      lod::embedding_max_pool_grad_into(call.executor(), most, winners, middle.of(call, ids), 20, options,
                                        call.template out_rows<float>());
      auto& least = call.template out<float>();
      auto& losers = call.template out<std::int64_t>();
      lod::embedding_min_pool_into(call.executor(), call.on(table), middle.of(call, ids), options, least, losers);
      lod::embedding_min_pool_grad_into(call.executor(), least, losers, middle.of(call, ids), 20, options,
                                        call.template out_rows<float>());
    });
    const auto rows = real_numbers<float>(middle.engine, {middle.index.size(level), 20});
    check_on_gpu("sequence_scatter and its gradients", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::sequence_scatter_into(call.executor(), call.on(rows), middle.of(call, ids), middle.of(call, weights),
                                 {.level = level}, y);
      auto& dx = call.template out<float>();
      lod::sequence_scatter_grad_into(call.executor(), y, middle.of(call, ids), {.level = level}, dx,
                                      call.template out<float>());
    });
  });
}

TEST_CASE("on a GPU, random batches: step by step") {
  for_each_gpu_batch([](const Middle& middle) {
    const LoD& index = middle.index;
    const auto x = middle.rows();
    const RankTable sequences(LoD::from_lengths({middle.numbers(middle.size(), 0, 3)}));
    check_on_gpu("shrink_rnn_memory, reorder_lod_tensor_by_rank and their gradients", [&](auto& call) {
      auto& y = call.template out<float>();
      lod::shrink_rnn_memory_into(call.executor(), middle.of(call, x), sequences, 1, y);
      lod::shrink_rnn_memory_grad_into(call.executor(), y, index, sequences, 1, call.template out<float>());
      auto& z = call.template out<float>();
      lod::reorder_lod_tensor_by_rank_into(call.executor(), middle.of(call, x), sequences, z);
      lod::reorder_lod_tensor_by_rank_grad_into(call.executor(), z, sequences, call.template out<float>());
    });
    const RankTable table(index, {.level = middle.level});
    check_on_gpu("to_time_major, from_time_major and their gradients", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      auto& z = call.template kept<lod::TimeMajor<float, Device>>();
      lod::to_time_major_into(call.executor(), middle.of(call, x), table, z);
      call.result(z.values());
      lod::to_time_major_grad_into(call.executor(), z, table, call.template out<float>());
      auto& y = call.template out<float>();
      lod::from_time_major_into(call.executor(), z, table, y);
      auto& dz = call.template kept<lod::TimeMajor<float, Device>>();
      lod::from_time_major_grad_into(call.executor(), y, table, dz);
      call.result(dz.values());
    });
    if (!middle.is_short()) return;
    check_on_gpu("lod_tensor_to_array, array_to_lod_tensor and their gradients", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      auto& array = call.template kept<lod::TensorArray<float, Device>>();
      lod::lod_tensor_to_array_into(call.executor(), middle.of(call, x), table, array);
      results(call, array);
      auto& y = call.template out<float>();
      lod::array_to_lod_tensor_into(call.executor(), array, table, y);
      lod::lod_tensor_to_array_grad_into(call.executor(), array, table, call.template out<float>());
      auto& darray = call.template kept<lod::TensorArray<float, Device>>();
      lod::array_to_lod_tensor_grad_into(call.executor(), y, table, darray);
      results(call, darray);
    });
  });
}

TEST_CASE("on a GPU, random batches: networks that are unrolled") {
  for_each_gpu_batch([](const Middle& middle) {
    if (!middle.is_short()) return;
    const auto x = middle.rows();
    const std::int64_t size = middle.row_size, sequences = middle.index.size(middle.level);
    const auto weights = [&](const lod::Shape& shape) { return small_reals<float>(middle.engine, shape); };
    const auto input = weights({size, 8}), recurrent = weights({2, 8}), bias = weights({8});
    const auto states = weights({sequences, 2}), cells = weights({sequences, 2});
    check_on_gpu("lstm and its gradients", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      using Weights = lod::LstmWeights<float, Device>;
      const auto& w = call.made([&] { return Weights{call.on(input), call.on(recurrent), call.on(bias)}; });
      auto& trace = call.template kept<lod::LstmTrace<float, Device>>();
      auto& hidden = call.template out<float>();
      auto& last_hidden = call.template out<float>();
      auto& last_cell = call.template out<float>();
      lod::lstm_into(
          call.executor(), middle.of(call, x), w,
          {.initial_hidden = call.on(states).view(), .initial_cell = call.on(cells).view(), .level = middle.level},
          hidden, last_hidden, last_cell, trace);
      auto& dw = call.template kept<Weights>();
      auto& dx = call.template out<float>();
      auto& dinitial_hidden = call.template out<float>();
      lod::lstm_grad_into(call.executor(), hidden, middle.of(call, x), w, trace, {.dlast_cell = call.on(cells).view()},
                          dx, dw, dinitial_hidden, call.template out<float>());
      for (auto* const d : {&dw.input, &dw.recurrent, &dw.bias}) call.result(*d);
    });
    const auto gates = weights({size, 6}), products = weights({2, 6}), gate_bias = weights({6});
    const auto product_bias = weights({2});
    check_on_gpu("gru and its gradients", [&](auto& call) {
      using Device = typename std::remove_cvref_t<decltype(call)>::Device;
      using Weights = lod::GruWeights<float, Device>;
      const auto& w = call.made([&] {
        return Weights{call.on(gates), call.on(products), call.on(gate_bias), call.on(product_bias)};
      });
      auto& trace = call.template kept<lod::GruTrace<float, Device>>();
      auto& hidden = call.template out<float>();
      auto& last_hidden = call.template out<float>();
      lod::gru_into(call.executor(), middle.of(call, x), w, {.reverse = true, .level = middle.level}, hidden,
                    last_hidden, trace);
      auto& dw = call.template kept<Weights>();
      auto& dx = call.template out<float>();
      lod::gru_grad_into(call.executor(), hidden, middle.of(call, x), w, trace,
                         {.dlast_hidden = call.on(states).view()}, dx, dw, call.template out<float>());
      for (auto* const d : {&dw.input, &dw.recurrent, &dw.bias, &dw.recurrent_bias}) call.result(*d);
    });
    // h = h' + x; the output is h * x.
    const RankTable table(middle.index, {.level = -1});
    const auto initial = real_numbers<float>(middle.engine, {table.size(), size});
    const auto doutput = real_numbers<float>(middle.engine, middle.index, {size});
    const auto run = [&](const auto& e, const auto& rows, const auto& first, const auto& dy) {
      const auto cell = [&](const auto& before, const auto& step) {
        auto after = lod::add(e, before, step);
        auto output = lod::mul(e, after, step);
        return std::pair(std::move(after), std::move(output));
      };
      const auto cell_grad = [&](const auto& before, const auto& step, const auto& dstate, const auto& dout) {
        const auto d = lod::mul_grad(e, dout, lod::add(e, before, step), step);
        auto dbefore = lod::add(e, dstate, d.x);
        auto dstep = lod::add(e, dbefore, d.y);
        return std::pair(std::move(dbefore), std::move(dstep));
      };
      auto y = lod::dynamic_rnn(e, rows, table, first, cell);
      auto d = lod::dynamic_rnn_grad(e, dy, y.state, rows, table, first, cell, cell_grad);
      return std::pair(std::move(y), std::move(d));
    };
    CAPTURE("dynamic_rnn and its gradients");
    const ThrustExecutor on_cpu;
    DeviceCall<ThrustExecutor> here(on_cpu);
    here.make([&](auto& call) {
      auto& all = call.made([&] { return run(on_cpu, middle.of(call, x), initial, doutput); });
      for (auto* const y : {&all.first.output, &all.first.state, &all.second.x, &all.second.initial_state}) {
        call.result(*y);
      }
    });
    const lod::CudaExecutor executor;
    DeviceCall<lod::CudaExecutor> there(executor);
    there.make([&](auto& call) {
      auto& all = call.made([&] { return run(executor, middle.of(call, x), call.on(initial), call.on(doutput)); });
      for (auto* const y : {&all.first.output, &all.first.state, &all.second.x, &all.second.initial_state}) {
        call.result(*y);
      }
    });
    check_same_results(there.results(), here.results());
  });
}

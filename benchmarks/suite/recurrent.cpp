// SPDX-License-Identifier: Apache-2.0
/// @file
/// W17: LSTM and GRU over sequences of very different lengths.
#include "batch.hpp"
#include "libtorch.hpp"

#include <algorithm>

namespace benchmarks {
namespace {

constexpr std::int64_t batch_size = 64;

/// 64 sequences with lengths as `zipf11` has them, but at most 256: time grows with the longest.
lod::LoD short_sequences() {
  std::vector<std::int64_t> all = lengths("zipf11", 1 << 16);
  std::vector<std::int64_t> result;
  for (const std::int64_t length : all) {
    if (static_cast<std::int64_t>(result.size()) == batch_size) break;
    result.push_back(std::min<std::int64_t>(4 * length, 256));
  }
  return lod::LoD::from_lengths({result});
}

struct Recurrent {
  Recurrent(const Workload& workload, int threads)
      : executor(threads), hidden_size(workload.row_size), gates(workload.op == "gru" ? 3 : 4), lod(short_sequences()) {
    x = random_tensor<float>(lod, hidden_size, 1);
    w_input = random_tensor<float>(lod::Shape{gates * hidden_size, hidden_size}, 2);
    w_recurrent = random_tensor<float>(lod::Shape{gates * hidden_size, hidden_size}, 3);
    bias = random_tensor<float>(lod::Shape{gates * hidden_size}, 4);
    for (auto* weights : {&w_input, &w_recurrent, &bias}) {
      for (float& weight : weights->values()) weight *= 0.05F;
    }
  }
  /// As this library has weights: a column a gate.
  lod::LoDTensor<float> transposed(const lod::LoDTensor<float>& weights) const {
    const std::int64_t columns = gates * hidden_size;
    lod::LoDTensor<float> result(lod::Shape{hidden_size, columns});
    for (std::int64_t row = 0; row < hidden_size; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        result.data()[row * columns + column] = weights.data()[column * hidden_size + row];
      }
    }
    return result;
  }

  lod::CpuExecutor executor;
  std::int64_t hidden_size, gates;
  lod::LoD lod;
  lod::LoDTensor<float> x, w_input, w_recurrent, bias;
  lod::LoDTensor<float> hidden, last_hidden, last_cell;
  lod::LstmWeights<float> lstm_weights;
  lod::LstmTrace<float> lstm_trace;
  lod::GruWeights<float> gru_weights;
  lod::GruTrace<float> gru_trace;
};

Job recurrent(const Workload& workload, int threads) {
  const auto data = std::make_shared<Recurrent>(workload, threads);
  Job job{.rows = data->lod.rows(),
          .sequences = data->lod.size(0),
          .bytes = 0,
          .parameters = "{\"hidden\": " + std::to_string(data->hidden_size) +
                        ", \"longest\": " + std::to_string(data->lod.max_length(0)) + ", \"operations\": " +
                        std::to_string(4 * data->lod.rows() * data->gates * data->hidden_size * data->hidden_size) +
                        "}"};
  add_input(job, "x", data, data->x);
  add_input(job, "offsets", data, data->lod.offsets(0));
  add_input(job, "w_ih", data, data->w_input);
  add_input(job, "w_hh", data, data->w_recurrent);
  add_input(job, "bias", data, data->bias);
  if (workload.op == "lstm") {
    data->lstm_weights = {data->transposed(data->w_input), data->transposed(data->w_recurrent), data->bias};
    job.contenders.push_back(lodtensor(
        data,
        [](Recurrent& d) {
          lod::lstm_into(d.executor, d.x, d.lstm_weights, {}, d.hidden, d.last_hidden, d.last_cell, d.lstm_trace);
        },
        &Recurrent::hidden));
  } else {
    data->gru_weights = {data->transposed(data->w_input), data->transposed(data->w_recurrent), data->bias};
    job.contenders.push_back(lodtensor(
        data,
        [](Recurrent& d) { lod::gru_into(d.executor, d.x, d.gru_weights, {}, d.hidden, d.last_hidden, d.gru_trace); },
        &Recurrent::hidden));
  }
  add_libtorch_recurrent(job, workload.op == "gru", data->x, data->hidden_size,
                         {data->w_input.values(), data->w_recurrent.values(), data->bias.values()}, threads);
  return job;
}

}  // namespace

void add_recurrent(std::vector<Workload>& all) {
  for (const char* op : {"lstm", "gru"}) {
    for (const std::int64_t hidden : {256, 512}) {
      add_workload(all,
                   {.work = "W17",
                    .op = op,
                    .lengths = "zipf11",
                    .row_size = hidden,
                    .dtype = "float32",
                    .size = "64x256",
                    .make = recurrent},
                   hidden == 256 ? "64x256" : "");
    }
  }
}

}  // namespace benchmarks

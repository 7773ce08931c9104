// SPDX-License-Identifier: Apache-2.0
/// @file
/// W18: attention among the rows of sequences of very different lengths, and its gradient.
#include "batch.hpp"
#include "workload.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace benchmarks {
namespace {

constexpr std::int64_t head_size = 64;

/// 64 sequences with lengths as `zipf11` has them, eight times as long, but at most 1,024: time grows with squares.
lod::LoD sequences() {
  std::vector<std::int64_t> result;
  for (const std::int64_t length : lengths("zipf11", 1 << 16)) {
    if (result.size() == 64) break;
    result.push_back(std::min<std::int64_t>(8 * length, 1024));
  }
  return lod::LoD::from_lengths({result});
}

struct Attention {
  Attention(std::int64_t row_size, int threads) : executor(threads), options{.heads = row_size / head_size} {
    const lod::LoD lod = sequences();
    for (auto* rows : {&q, &k, &v, &dy}) *rows = random_tensor<float>(lod, row_size, ++seed);
    lod::sequence_attention_into(executor, q, k, v, options, y, logsumexp);
  }
  lod::CpuExecutor executor;
  lod::AttentionOptions<float> options;
  std::uint32_t seed = 0;
  lod::LoDTensor<float> q, k, v, dy, y, logsumexp, dq, dk, dv;
};

Job attention(const Workload& workload, int threads) {
  const auto data = std::make_shared<Attention>(workload.row_size, threads);
  const lod::LoD& lod = data->q.lod();
  std::int64_t pairs = 0;
  for (const std::int64_t length : lod.lengths(0)) pairs += length * length;
  const bool is_gradient = workload.op == "sequence_attention_grad";
  Job job{.rows = lod.rows(),
          .sequences = lod.size(0),
          .bytes = 0,
          .parameters = "{\"heads\": " + std::to_string(data->options.heads) +
                        ", \"longest\": " + std::to_string(lod.max_length(0)) + ", \"operations\": " +
                        std::to_string((is_gradient ? 10 : 4) * pairs * workload.row_size) + "}"};
  add_input(job, "q", data, data->q);
  add_input(job, "k", data, data->k);
  add_input(job, "v", data, data->v);
  add_input(job, "dy", data, data->dy);
  add_input(job, "offsets", data, lod.offsets(0));
  if (is_gradient) {
    job.contenders.push_back(lodtensor(
        data,
        [](Attention& d) {
          lod::sequence_attention_grad_into(d.executor, d.dy, d.q, d.k, d.v, d.y, d.logsumexp, d.options, d.dq, d.dk,
                                            d.dv);
        },
        &Attention::dq));
  } else {
    job.contenders.push_back(lodtensor(
        data,
        [](Attention& d) { lod::sequence_attention_into(d.executor, d.q, d.k, d.v, d.options, d.y, d.logsumexp); },
        &Attention::y));
  }
  return job;
}

}  // namespace

void add_attention(std::vector<Workload>& all) {
  for (const char* op : {"sequence_attention", "sequence_attention_grad"}) {
    add_workload(all,
                 {.work = "W18",
                  .op = op,
                  .lengths = "zipf11",
                  .row_size = 512,
                  .dtype = "float32",
                  .size = "64x1024",
                  .make = attention},
                 "64x1024");
  }
}

}  // namespace benchmarks

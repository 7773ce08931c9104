// SPDX-License-Identifier: Apache-2.0
/// @file
/// W19: 21 operations, one after the other, on a batch that fits in the cache, and on one of a few rows: what a call
/// costs.
#include "batch.hpp"

namespace benchmarks {
namespace {

struct Chain : Batch<float> {
  Chain(const Workload& workload, int threads) : Batch<float>(workload, threads) {}
  lod::LoDTensor<float> a, b, pooled;
};

Job chain(const Workload& workload, int threads) {
  const auto batch = std::make_shared<Chain>(workload, threads);
  Job job = job_of<float>(batch, 21 * batch->x_bytes());
  job.parameters = "{\"operations\": 21}";
  job.contenders.push_back(lodtensor(
      batch,
      [](Chain& d) {
        const auto& e = d.executor;
        for (int round = 0; round < 4; ++round) {
          lod::sequence_reverse_into(e, round == 0 ? d.x : d.b, d.a);
          lod::sequence_pool_into(e, d.a, lod::PoolType::AVERAGE, d.pooled);
          lod::sequence_expand_as_into(e, d.pooled, d.lod, d.b);
          lod::sequence_cumsum_into(e, d.b, d.a);
          lod::sequence_reverse_into(e, d.a, d.b);
        }
        lod::sequence_pool_into(e, d.b, lod::PoolType::MAX, d.y);
      },
      &Chain::y));
  return job;
}

}  // namespace

void add_chain(std::vector<Workload>& all) {
  const auto add = [&](std::int64_t row_size, const std::string& size) {
    add_workload(all,
                 {.work = "W19",
                  .op = "chain of 21 operations",
                  .lengths = "u16",
                  .row_size = row_size,
                  .dtype = "float32",
                  .size = size,
                  .make = chain},
                 size);
  };
  add(64, "128KiB");
  add(8, "1KiB");  // 32 rows, so that little but the calls is measured
}

}  // namespace benchmarks

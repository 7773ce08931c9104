// SPDX-License-Identifier: Apache-2.0
/// @file
/// W11: sequences sorted, and the greatest of each.
#include "batch.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace benchmarks {
namespace {

constexpr std::int64_t k = 8;

struct Order : Batch<float> {
  using Batch<float>::Batch;
  lod::LoDTensor<std::int64_t> index;
  std::vector<std::int64_t> plain_index;
};

Job order(const Workload& workload, int threads) {
  const auto batch = std::make_shared<Order>(workload, threads);
  const bool top = workload.op == "sequence_topk", index = workload.op == "sequence_argsort";
  std::int64_t kept = batch->x.rows();
  if (top) {
    kept = 0;
    for (const std::int64_t length : batch->lod.lengths(0)) kept += std::min(length, k);
  }
  Job job = job_of<float>(batch, batch->x_bytes() + batch->offset_bytes() + kept * (index ? 8 : top ? 12 : 4));
  if (top) {
    job.parameters = "{\"k\": 8}";
    job.contenders.push_back(lodtensor(
        batch, [](Order& data) { lod::sequence_topk_into(data.executor, data.x, k, data.y, data.index); }, &Order::y));
    batch->plain_y.resize(static_cast<std::size_t>(kept));
    job.contenders.push_back(contender(
        "scalar loop", batch,
        [](Order& data) {
          const auto offsets = data.offsets();
          float* to = data.plain_y.data();
          for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
            const std::int64_t count = std::min(offsets[i + 1] - offsets[i], k);
            std::partial_sort_copy(data.x.data() + offsets[i], data.x.data() + offsets[i + 1], to, to + count,
                                   std::greater<>());
            to += count;
          }
        },
        &Order::plain_y, "std::partial_sort_copy, one thread; without the index"));
    return job;
  }
  if (index) {
    // Of the sorted values: those that others return beside the index.
    const auto sorted = [batch](std::span<const std::int64_t> order_of) {
      std::vector<float> values;
      values.reserve(order_of.size());
      for (const std::int64_t row : order_of) values.push_back(batch->x.data()[row]);
      return checksum_of(std::span<const float>(values));
    };
    job.contenders.push_back({"lodtensor",
                              [batch] { lod::sequence_argsort_into(batch->executor, batch->x, batch->index); },
                              [batch, sorted] { return sorted(batch->index.values()); }});
    batch->plain_index.resize(static_cast<std::size_t>(kept));
    job.contenders.push_back(
        {"scalar loop",
         [batch] {
           Order& data = *batch;
           const auto offsets = data.offsets();
           std::int64_t* const order = data.plain_index.data();
           for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
             std::iota(order + offsets[i], order + offsets[i + 1], offsets[i]);
             std::stable_sort(order + offsets[i], order + offsets[i + 1],
                              [&](std::int64_t a, std::int64_t b) { return data.x.data()[a] < data.x.data()[b]; });
           }
         },
         [batch, sorted] { return sorted(batch->plain_index); },
         {},
         "std::stable_sort, one thread"});
    return job;
  }
  job.contenders.push_back(lodtensor(
      batch, [](Order& data) { lod::sequence_sort_into(data.executor, data.x, data.y); }, &Order::y));
  batch->plain_y.resize(batch->x.values().size());
  job.contenders.push_back(contender(
      "scalar loop", batch,
      [](Order& data) {
        const auto offsets = data.offsets();
        std::ranges::copy(data.x.values(), data.plain_y.begin());
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
          std::sort(data.plain_y.data() + offsets[i], data.plain_y.data() + offsets[i + 1]);
        }
      },
      &Order::plain_y, "std::sort, one thread"));
  return job;
}

}  // namespace

void add_order(std::vector<Workload>& all) {
  for (const char* op : {"sequence_sort", "sequence_argsort", "sequence_topk"}) {
    for (const char* lengths : {"u16", "u256", "giant"}) {
      add_workload(all,
                   {.work = "W11", .op = op, .lengths = lengths, .dtype = "float32", .size = "64MiB", .make = order},
                   std::string_view(lengths) == "u16" ? "16MiB" : "");
    }
  }
}

}  // namespace benchmarks

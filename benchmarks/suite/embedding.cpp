// SPDX-License-Identifier: Apache-2.0
/// @file
/// W14: the sums of the rows of a large table that sequences of ids name.
#include "batch.hpp"
#include "libtorch.hpp"

namespace benchmarks {
namespace {

struct Bags {
  Bags(const Workload& workload, int threads)
      : executor(threads),
        height(bytes_of(workload.size) / (4 * workload.row_size)),
        lod(lod::LoD::from_lengths({lengths(workload.lengths, 2 * height)})),
        table(random_tensor<float>(lod::Shape{height, workload.row_size})),
        ids(lod, lod::Shape{}, lod::uninitialized) {
    std::ranges::copy(benchmarks::ids(workload.ids, lod.rows(), height), ids.data());
  }
  lod::CpuExecutor executor;
  std::int64_t height;
  lod::LoD lod;
  lod::LoDTensor<float> table;
  lod::LoDTensor<std::int64_t> ids;
  lod::LoDTensor<float> y;
  std::vector<float> plain_y;
};

Job embedding_pool(const Workload& workload, int threads) {
  const auto data = std::make_shared<Bags>(workload, threads);
  const std::int64_t columns = workload.row_size;
  Job job{.rows = data->lod.rows(),
          .sequences = data->lod.size(0),
          .bytes = data->lod.rows() * (4 * columns + 8) + data->lod.size(0) * (4 * columns + 8)};
  add_input(job, "table", data, data->table);
  add_input(job, "ids", data, data->ids);
  add_input(job, "offsets", data, data->lod.offsets(0));
  job.contenders.push_back(lodtensor(
      data, [](Bags& d) { lod::embedding_pool_into(d.executor, d.table, d.ids, lod::PoolType::SUM, {}, d.y); },
      &Bags::y));
  data->plain_y.resize(static_cast<std::size_t>(data->lod.size(0) * columns));
  job.contenders.push_back(contender(
      "scalar loop", data,
      [columns](Bags& d) {
        const auto offsets = d.lod.offsets(0);
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
          float* const sum = d.plain_y.data() + static_cast<std::int64_t>(i) * columns;
          std::fill_n(sum, columns, 0.0F);
          for (std::int64_t at = offsets[i]; at < offsets[i + 1]; ++at) {
            const float* const row = d.table.data() + d.ids.data()[at] * columns;
            for (std::int64_t column = 0; column < columns; ++column) sum[column] += row[column];
          }
        }
      },
      &Bags::plain_y, "one thread"));
  add_libtorch_embedding_pool(job, data->table, data->ids.values(), data->lod.offsets(0), threads);
  return job;
}

}  // namespace

void add_embedding(std::vector<Workload>& all) {
  const auto add = [&all](std::string ids, std::string size, std::string short_size = {}) {
    add_workload(all,
                 {.work = "W14",
                  .op = "embedding_pool",
                  .variant = "SUM",
                  .lengths = "u16",
                  .ids = std::move(ids),
                  .row_size = 64,
                  .dtype = "float32",
                  .size = std::move(size),
                  .roof = Roof::GATHER,
                  .make = embedding_pool},
                 short_size);
  };
  for (const char* ids : {"uniform", "zipf"}) add(ids, "1GiB", "128MiB");
  add("uniform", "256KiB");
}

}  // namespace benchmarks

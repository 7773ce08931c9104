// SPDX-License-Identifier: Apache-2.0
/// @file
/// W12, W13: row-sparse gradients merged, and applied by Adam.
#include "distributions.hpp"
#include "libtorch.hpp"
#include "workload.hpp"
#include <lod/lod.hpp>

#include <cmath>
#include <map>

namespace benchmarks {
namespace {

struct Sparse {
  Sparse(const Workload& workload, int threads)
      : executor(threads),
        count(bytes_of(workload.size) / (4 * workload.row_size)),
        height(2 * count),
        ids(benchmarks::ids(workload.ids, count, height)),
        gradient(ids, height, lod::Shape{workload.row_size}, lod::uninitialized) {
    fill_random(gradient.value().values());
  }
  lod::CpuExecutor executor;
  std::int64_t count, height;
  std::vector<std::int64_t> ids;
  lod::SelectedRows<float> gradient, merged;
  lod::LoDTensor<float> parameter, mean, squares;
  std::int64_t step = 0;

  Job job(std::int64_t bytes) const {
    return {
        .rows = count, .sequences = 0, .bytes = bytes, .parameters = "{\"height\": " + std::to_string(height) + "}"};
  }
};

Job merge_add(const Workload& workload, int threads) {
  const auto data = std::make_shared<Sparse>(workload, threads);
  lod::merge_add_into(data->executor, data->gradient, data->merged);
  const auto unique = static_cast<std::int64_t>(data->merged.rows().size());
  Job job = data->job(data->count * (4 * workload.row_size + 8) + unique * (4 * workload.row_size + 8));
  add_input(job, "x", data, data->gradient.value());
  add_input(job, "ids", data, std::span<const std::int64_t>(data->ids));
  job.contenders.push_back({"lodtensor", [data] { lod::merge_add_into(data->executor, data->gradient, data->merged); },
                            [data] { return checksum_of(std::span<const float>(data->merged.value().values())); }});
  // An ordered map from ids to rows: the way that PaddlePaddle's kernel for CPUs goes.
  const auto sums = std::make_shared<std::vector<float>>();
  job.contenders.push_back({"scalar loop",
                            [data, sums] {
                              const std::int64_t columns = data->gradient.value().row_size();
                              std::map<std::int64_t, std::int64_t> places;
                              for (const std::int64_t id : data->ids) places.emplace(id, 0);
                              std::int64_t place = 0;
                              for (auto& entry : places) entry.second = place++;
                              sums->assign(static_cast<std::size_t>(place * columns), 0);
                              const float* row = data->gradient.value().data();
                              for (const std::int64_t id : data->ids) {
                                float* const sum = sums->data() + places.find(id)->second * columns;
                                for (std::int64_t column = 0; column < columns; ++column) sum[column] += *row++;
                              }
                            },
                            [sums] { return checksum_of(std::span<const float>(*sums)); },
                            {},
                            "by an ordered map, one thread"});
  add_libtorch_merge_add(job, data->ids, data->gradient.value(), data->height, threads);
  return job;
}

Job adam(const Workload& workload, int threads) {
  const auto data = std::make_shared<Sparse>(workload, threads);
  lod::merge_add_into(data->executor, data->gradient, data->merged);
  const auto unique = static_cast<std::int64_t>(data->merged.rows().size());
  data->merged = {};
  const lod::Shape shape{data->height, workload.row_size};
  data->parameter = random_tensor<float>(shape, 1);
  data->mean = lod::LoDTensor<float>(shape);
  data->squares = lod::LoDTensor<float>(shape);
  // The gradient is read; parameter and moments of the rows it names are read and written.
  Job job = data->job(data->count * (4 * workload.row_size + 8) + 6 * unique * 4 * workload.row_size);
  add_input(job, "x", data, data->gradient.value());
  add_input(job, "ids", data, std::span<const std::int64_t>(data->ids));
  add_input(job, "table", data, data->parameter);
  job.contenders.push_back({"lodtensor", [data] {
                              lod::adam(data->executor, data->parameter, data->mean, data->squares, data->gradient,
                                        {.step = ++data->step, .mode = lod::Sparse::LAZY});
                            }});
  return job;
}

}  // namespace

void add_row_sparse(std::vector<Workload>& all) {
  const auto add = [&all](std::string work, std::string op, std::string ids, std::string size,
                          Job (*make)(const Workload&, int), std::string short_size = {}) {
    add_workload(all,
                 {.work = std::move(work),
                  .op = std::move(op),
                  .ids = std::move(ids),
                  .row_size = 64,
                  .dtype = "float32",
                  .size = std::move(size),
                  .roof = Roof::READ,
                  .make = make},
                 short_size);
  };
  for (const char* ids : {"uniform", "zipf", "same"}) add("W12", "merge_add", ids, "512MiB", merge_add, "64MiB");
  add("W13", "sparse_adam", "uniform", "256MiB", adam);
  add("W13", "sparse_adam", "zipf", "256MiB", adam, "64MiB");
}

}  // namespace benchmarks

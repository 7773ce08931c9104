// SPDX-License-Identifier: Apache-2.0
/// @file
/// W20: linear layers in bfloat16 and int8, by the library and, where it is found, by oneDNN.
#include "batch.hpp"
#include "workload.hpp"

#ifdef LOD_BENCHMARK_DNNL
#  include <lod/dnnl.hpp>
#endif

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace benchmarks {
namespace {

constexpr std::int64_t groups = 64;

struct Narrow : Batch<lod::bfloat16> {
  using Batch<lod::bfloat16>::Batch;

  lod::LoDTensor<lod::bfloat16> weight;
  lod::LoDTensor<std::int64_t> group_of;
};

/// The same products by an executor of either kind.
template <class E>
Job product(const Workload& workload, int threads) {
  const auto data = std::make_shared<Narrow>(workload, threads);
  const E executor(threads);
  const std::int64_t size = workload.row_size;
  if (workload.op == "linear") {
    data->weight = random_tensor<lod::bfloat16>(lod::Shape{size, size}, 1);
    Job job = job_of<lod::bfloat16>(data, 2 * data->x_bytes());
    job.contenders.push_back(lodtensor(
        data, [executor](Narrow& d) { lod::linear_into(executor, d.x, d.weight, d.y); }, &Narrow::y));
    return job;
  }
  // As many sequences as groups, each of another one.
  data->lod = lod::LoD::from_lengths({std::vector<std::int64_t>(groups, data->x.rows() / groups)});
  data->x = random_tensor<lod::bfloat16>(data->lod, size);
  data->weight = random_tensor<lod::bfloat16>(lod::Shape{groups, size, size}, 1);
  data->group_of = lod::LoDTensor<std::int64_t>({groups});
  for (std::int64_t i = 0; i < groups; ++i) data->group_of.data()[i] = i * 37 % groups;
  Job job = job_of<lod::bfloat16>(data, 2 * data->x_bytes());
  job.contenders.push_back(lodtensor(
      data, [executor](Narrow& d) { lod::grouped_linear_into(executor, d.x, d.weight, d.group_of, d.y); }, &Narrow::y));
  return job;
}

#ifdef LOD_BENCHMARK_DNNL
struct Quantized : Batch<float> {
  using Batch<float>::Batch;

  std::optional<lod::QuantizedWeights> weights;
};

/// Rows are quantised in the call, weights before it.
Job quantized_product(const Workload& workload, int threads) {
  const auto data = std::make_shared<Quantized>(workload, threads);
  data->weights.emplace(data->executor, random_tensor<float>(lod::Shape{workload.row_size, workload.row_size}, 1));
  Job job = job_of<float>(data, 2 * data->x_bytes());
  job.contenders.push_back(lodtensor(
      data, [](Quantized& d) { lod::quantized_linear_into(d.executor, d.x, *d.weights, d.y); }, &Quantized::y));
  return job;
}
#endif

}  // namespace

void add_narrow_products(std::vector<Workload>& all) {
  const auto add = [&all](const char* op, const char* variant, const char* dtype, const char* size,
                          Job (*make)(const Workload&, int)) {
    add_workload(all,
                 {.work = "W20",
                  .op = op,
                  .variant = variant,
                  .lengths = "u16",
                  .row_size = 256,
                  .dtype = dtype,
                  .size = size,
                  .make = make},
                 size);
  };
  for (const char* op : {"linear", "grouped_linear"}) {
    add(op, "", "bfloat16", "2MiB", product<lod::CpuExecutor>);
#ifdef LOD_BENCHMARK_DNNL
    add(op, "oneDNN", "bfloat16", "2MiB", product<lod::DnnlExecutor>);
#endif
  }
#ifdef LOD_BENCHMARK_DNNL
  add("quantized_linear", "oneDNN", "float32", "4MiB", quantized_product);
#endif
}

}  // namespace benchmarks

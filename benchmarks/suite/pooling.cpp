// SPDX-License-Identifier: Apache-2.0
/// @file
/// W1, W2, W3: one row for each sequence.
#include "batch.hpp"
#include "libtorch.hpp"
#include "padded.hpp"

#include <algorithm>
#include <cstddef>

namespace benchmarks {
namespace {

lod::PoolType type_of(const std::string& variant) {
  if (variant == "AVERAGE") return lod::PoolType::AVERAGE;
  return variant == "MAX" ? lod::PoolType::MAX : lod::PoolType::SUM;
}

/// What one writes without a library: row by row, in the type itself.
template <class T>
void pool_by_loop(const Batch<T>& batch, lod::PoolType type, std::vector<T>& y) {
  const T* const x = batch.x.data();
  const auto offsets = batch.offsets();
  const std::int64_t columns = batch.row_size();
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    T* const out = y.data() + static_cast<std::int64_t>(i) * columns;
    std::fill_n(out, columns, T{});
    for (std::int64_t row = offsets[i]; row < offsets[i + 1]; ++row) {
      const T* const from = x + row * columns;
      for (std::int64_t column = 0; column < columns; ++column) {
        if (type == lod::PoolType::MAX) {
          if (row == offsets[i] || from[column] > out[column]) out[column] = from[column];
        } else {
          out[column] = static_cast<T>(out[column] + from[column]);
        }
      }
    }
    const auto length = static_cast<float>(offsets[i + 1] - offsets[i]);
    if (type == lod::PoolType::AVERAGE && length > 0) {
      for (std::int64_t column = 0; column < columns; ++column) out[column] = static_cast<T>(out[column] / length);
    }
  }
}

template <class T>
Job pool(const Workload& workload, int threads) {
  const auto batch = std::make_shared<Batch<T>>(workload, threads);
  const lod::PoolType type = type_of(workload.variant);
  Job job = job_of<T>(batch, batch->x_bytes() + batch->offset_bytes() + batch->sequences() * batch->row_bytes());
  job.contenders.push_back(lodtensor(
      batch, [type](Batch<T>& data) { lod::sequence_pool_into(data.executor, data.x, type, data.y); }, &Batch<T>::y));
  batch->plain_y.resize(static_cast<std::size_t>(batch->sequences() * batch->row_size()));
  job.contenders.push_back(contender(
      "scalar loop", batch, [type](Batch<T>& data) { pool_by_loop(data, type, data.plain_y); }, &Batch<T>::plain_y,
      "one thread"));
  if constexpr (std::same_as<T, float>) {
    add_padded_pool(job, batch->x, workload.variant, threads);
    add_libtorch_pool(job, batch->x, workload.variant, threads);
  }
  return job;
}

template <class T>
struct Extremes : Batch<T> {
  using Batch<T>::Batch;
  lod::LoDTensor<std::int64_t> index;
};

template <class T>
Job max_pool(const Workload& workload, int threads) {
  const auto batch = std::make_shared<Extremes<T>>(workload, threads);
  Job job = job_of<T>(batch, batch->x_bytes() + batch->offset_bytes() +
                                 batch->sequences() * (batch->row_bytes() + 8 * batch->row_size()));
  job.contenders.push_back({"lodtensor",
                            [batch] { lod::sequence_max_pool_into(batch->executor, batch->x, batch->y, batch->index); },
                            [batch] { return checksum_of(std::span<const T>(batch->y.values())); }});
  return job;
}

/// y is the variance.
template <class T>
struct Described : Batch<T> {
  using Batch<T>::Batch;
  lod::LoDTensor<T> mean;
  std::vector<T> plain_mean;
};

/// Row by row, first the means, then the squares.
template <class T>
void mean_var_by_loop(Described<T>& batch) {
  pool_by_loop(batch, lod::PoolType::AVERAGE, batch.plain_mean);
  const T* const x = batch.x.data();
  const auto offsets = batch.offsets();
  const std::int64_t columns = batch.row_size();
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const T* const mean = batch.plain_mean.data() + static_cast<std::int64_t>(i) * columns;
    T* const out = batch.plain_y.data() + static_cast<std::int64_t>(i) * columns;
    std::fill_n(out, columns, T{});
    for (std::int64_t row = offsets[i]; row < offsets[i + 1]; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        const T distance = x[row * columns + column] - mean[column];
        out[column] += distance * distance;
      }
    }
    const auto length = static_cast<T>(std::max<std::int64_t>(offsets[i + 1] - offsets[i], 1));
    for (std::int64_t column = 0; column < columns; ++column) out[column] /= length;
  }
}

Job mean_var(const Workload& workload, int threads) {
  using T = float;
  const auto batch = std::make_shared<Described<T>>(workload, threads);
  Job job = job_of<T>(batch, batch->x_bytes() + batch->offset_bytes() + 2 * batch->sequences() * batch->row_bytes());
  job.contenders.push_back(lodtensor(
      batch, [](Described<T>& data) { lod::sequence_mean_var_into(data.executor, data.x, data.mean, data.y); },
      &Described<T>::y));
  batch->plain_mean.resize(static_cast<std::size_t>(batch->sequences() * batch->row_size()));
  batch->plain_y.resize(batch->plain_mean.size());
  job.contenders.push_back(contender(
      "scalar loop", batch, [](Described<T>& data) { mean_var_by_loop(data); }, &Described<T>::plain_y,
      "one thread, two passes"));
  return job;
}

Job any_pool(const Workload& workload, int threads) {
  return with_dtype(workload.dtype, [&](auto zero) {
    using T = decltype(zero);
    return workload.op == "sequence_pool" ? pool<T>(workload, threads) : max_pool<T>(workload, threads);
  });
}

}  // namespace

void add_pooling(std::vector<Workload>& all) {
  const auto add = [&all](std::string work, std::string variant, std::string lengths, std::int64_t row_size,
                          std::string size, std::string short_size = {}, std::string dtype = "float32") {
    const bool index = variant == "MAX with index";
    add_workload(all,
                 {.work = std::move(work),
                  .op = index ? "sequence_max_pool" : "sequence_pool",
                  .variant = index ? "" : std::move(variant),
                  .lengths = std::move(lengths),
                  .row_size = row_size,
                  .dtype = std::move(dtype),
                  .size = std::move(size),
                  .roof = Roof::READ,
                  .make = any_pool},
                 short_size);
  };
  for (const char* variant : {"SUM", "AVERAGE", "MAX"}) add("W1", variant, "u16", 1, "512MiB", "64MiB");
  for (const char* lengths : {"giant", "zipf11", "empty90"}) {
    add("W2", "SUM", lengths, 1, "512MiB", "64MiB");
    add("W2", "MAX", lengths, 1, "512MiB");
  }
  for (const char* lengths : {"u256", "all1", "one", "pow2align", "real-like"}) add("W2", "SUM", lengths, 1, "512MiB");
  for (const std::int64_t row_size : {64, 100}) {
    for (const char* variant : {"SUM", "MAX", "MAX with index"}) {
      add("W3", variant, "u16", row_size, "512MiB", row_size == 64 ? "64MiB" : "");
    }
  }
  for (const std::int64_t row_size : {1, 16, 64}) {
    for (const char* lengths : {"u16", "u256", "giant"}) {
      add_workload(all,
                   {.work = "mean and variance",
                    .op = "sequence_mean_var",
                    .variant = "",
                    .lengths = lengths,
                    .row_size = row_size,
                    .dtype = "float32",
                    .size = "512MiB",
                    .roof = Roof::READ,
                    .make = mean_var},
                   row_size == 64 ? "64MiB" : "");
    }
  }
  for (const std::int64_t row_size : {3, 8, 768}) add("rows", "SUM", "u16", row_size, "512MiB");
  for (const char* size : {"4KiB", "256KiB", "16MiB"}) {
    for (const std::int64_t row_size : {1, 64}) add("sizes", "SUM", "u16", row_size, size);
  }
  for (const char* dtype : {"float64", "float16", "bfloat16"}) {
    for (const char* variant : {"SUM", "MAX"}) add("types", variant, "u16", 64, "512MiB", {}, dtype);
  }
}

}  // namespace benchmarks

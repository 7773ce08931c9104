// SPDX-License-Identifier: Apache-2.0
/// @file
/// W4: softmax over the rows of each sequence.
#include "batch.hpp"
#include "padded.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace benchmarks {
namespace {

/// Column by column, as one writes it.
template <class T>
void softmax_by_loop(const Batch<T>& batch, bool logarithm, std::vector<T>& y) {
  const std::int64_t columns = batch.row_size();
  const auto offsets = batch.offsets();
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const T* const x = batch.x.data() + offsets[i] * columns;
    T* const out = y.data() + offsets[i] * columns;
    const std::int64_t numbers = (offsets[i + 1] - offsets[i]) * columns;
    for (std::int64_t column = 0; column < columns; ++column) {
      T greatest = -std::numeric_limits<T>::infinity(), total = 0;
      for (std::int64_t at = column; at < numbers; at += columns) greatest = std::max(greatest, x[at]);
      for (std::int64_t at = column; at < numbers; at += columns) total += out[at] = std::exp(x[at] - greatest);
      const T log_total = std::log(total);
      for (std::int64_t at = column; at < numbers; at += columns) {
        out[at] = logarithm ? x[at] - greatest - log_total : out[at] / total;
      }
    }
  }
}

Job softmax(const Workload& workload, int threads) {
  using T = float;
  const auto batch = std::make_shared<Batch<T>>(workload, threads);
  const bool logarithm = workload.op == "sequence_log_softmax";
  Job job = job_of<T>(batch, 2 * batch->x_bytes() + batch->offset_bytes());
  job.contenders.push_back(lodtensor(
      batch,
      [logarithm](Batch<T>& data) {
        if (logarithm) {
          lod::sequence_log_softmax_into(data.executor, data.x, data.y);
        } else {
          lod::sequence_softmax_into(data.executor, data.x, data.y);
        }
      },
      &Batch<T>::y));
  batch->plain_y.resize(batch->x.values().size());
  job.contenders.push_back(contender(
      "scalar loop", batch, [logarithm](Batch<T>& data) { softmax_by_loop(data, logarithm, data.plain_y); },
      &Batch<T>::plain_y, "one thread"));
  add_padded_softmax(job, batch->x, logarithm, threads);
  return job;
}

}  // namespace

void add_softmax(std::vector<Workload>& all) {
  const auto add = [&all](std::string work, std::string op, std::string lengths, std::int64_t row_size,
                          std::string size, std::string short_size = {}) {
    add_workload(all,
                 {.work = std::move(work),
                  .op = std::move(op),
                  .lengths = std::move(lengths),
                  .row_size = row_size,
                  .dtype = "float32",
                  .size = std::move(size),
                  .roof = Roof::COPY,
                  .make = softmax},
                 short_size);
  };
  for (const std::int64_t row_size : {1, 64}) {
    add("W4", "sequence_softmax", "u16", row_size, "512MiB", "64MiB");
    add("W4", "sequence_log_softmax", "u16", row_size, "512MiB");
  }
  for (const char* lengths : {"giant", "zipf11", "real-like"}) {
    add("W4", "sequence_softmax", lengths, 1, "512MiB");
  }
  for (const char* size : {"4KiB", "256KiB", "16MiB"}) add("sizes", "sequence_softmax", "u16", 1, size);
}

}  // namespace benchmarks

// SPDX-License-Identifier: Apache-2.0
/// @file
/// W6: to a dense block and back.
#include "batch.hpp"

#include <algorithm>
#include <cstring>

namespace benchmarks {
namespace {

struct Padding : Batch<float> {
  Padding(const Workload& workload, int threads) : Batch<float>(workload, threads), longest(lod.max_length(0)) {
    lod::sequence_pad_into(executor, x, dense, lengths);
    other.resize(dense.values().size());
  }
  std::int64_t longest;
  lod::LoDTensor<float> dense;
  lod::LoDTensor<std::int64_t> lengths;
  std::vector<float> other;
};

/// The bytes of a copy of the dense block: what memcpy of the same bytes would move.
void copy_block(const float* from, std::int64_t count, float* to, int threads) {
#ifdef _OPENMP
#  pragma omp parallel for num_threads(threads)
#endif
  for (int thread = 0; thread < threads; ++thread) {
    const std::int64_t begin = count * thread / threads, end = count * (thread + 1) / threads;
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin) * sizeof(float));
  }
}

Job padding(const Workload& workload, int threads) {
  const auto batch = std::make_shared<Padding>(workload, threads);
  const std::int64_t dense_bytes = batch->sequences() * batch->longest * batch->row_bytes();
  const bool back = workload.op == "sequence_unpad";
  Job job = job_of<float>(batch, batch->x_bytes() + (back ? batch->x_bytes() : dense_bytes) + batch->offset_bytes());
  job.parameters = "{\"padded_length\": " + std::to_string(batch->longest) + "}";
  const std::int64_t columns = batch->row_size();
  if (back) {
    job.contenders.push_back(lodtensor(
        batch, [](Padding& data) { lod::sequence_unpad_into(data.executor, data.dense, data.lengths, data.y); },
        &Padding::y));
    job.contenders.push_back(contender(
        "scalar loop", std::shared_ptr<Padding>(batch),
        [columns](Padding& data) {
          data.plain_y.resize(data.x.values().size());
          const auto offsets = data.offsets();
          for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
            const std::int64_t numbers = (offsets[i + 1] - offsets[i]) * columns;
            const float* const from = data.dense.data() + static_cast<std::int64_t>(i) * data.longest * columns;
            std::copy_n(from, numbers, data.plain_y.data() + offsets[i] * columns);
          }
        },
        &Padding::plain_y, "one thread"));
  } else {
    job.contenders.push_back(lodtensor(
        batch, [](Padding& data) { lod::sequence_pad_into(data.executor, data.x, data.dense, data.lengths); },
        &Padding::dense));
    job.contenders.push_back(contender(
        "scalar loop", batch,
        [columns](Padding& data) {
          const auto offsets = data.offsets();
          for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
            const std::int64_t numbers = (offsets[i + 1] - offsets[i]) * columns;
            float* const to = data.other.data() + static_cast<std::int64_t>(i) * data.longest * columns;
            std::copy_n(data.x.data() + offsets[i] * columns, numbers, to);
            std::fill(to + numbers, to + data.longest * columns, 0.0F);
          }
        },
        &Padding::other, "one thread"));
  }
  // As many bytes as the operation touches at least, half of them read and half of them written.
  const std::int64_t moved = (job.bytes - batch->offset_bytes()) / 2 / 4;
  const auto block = std::make_shared<std::pair<std::vector<float>, std::vector<float>>>(
      std::vector<float>(static_cast<std::size_t>(moved), 1), std::vector<float>(static_cast<std::size_t>(moved)));
  job.contenders.push_back(
      {"memcpy",
       [block, moved, threads] { copy_block(block->first.data(), moved, block->second.data(), threads); },
       {},
       {},
       "of as many bytes as the operation must read and write"});
  return job;
}

}  // namespace

void add_padding(std::vector<Workload>& all) {
  const auto add = [&all](std::string op, std::int64_t row_size, std::string size, std::string short_size = {}) {
    add_workload(all,
                 {.work = "W6",
                  .op = std::move(op),
                  .lengths = "u16",
                  .row_size = row_size,
                  .dtype = "float32",
                  .size = std::move(size),
                  .roof = Roof::COPY,
                  .make = padding},
                 short_size);
  };
  for (const char* op : {"sequence_pad", "sequence_unpad"}) {
    for (const std::int64_t row_size : {1, 64}) add(op, row_size, "256MiB", "64MiB");
    for (const char* size : {"256KiB", "16MiB"}) add(op, 64, size);
  }
}

}  // namespace benchmarks

// SPDX-License-Identifier: Apache-2.0
/// @file
/// W7, W8: rows that only change places, and the gradient of those that are repeated.
#include "batch.hpp"
#include "libtorch.hpp"

#include <algorithm>

namespace benchmarks {
namespace {

struct Copies : Batch<float> {
  Copies(const Workload& workload, int threads) : Batch<float>(workload, threads) {}
  lod::LoDTensor<float> x2;                     ///< of sequence_concat
  lod::LoDTensor<std::int64_t> starts, counts;  ///< of sequence_slice
  std::vector<std::int64_t> chosen;             ///< of select
};

Job reverse(const std::shared_ptr<Copies>& batch) {
  Job job = job_of<float>(batch, 2 * batch->x_bytes() + batch->offset_bytes());
  job.contenders.push_back(lodtensor(
      batch, [](Copies& data) { lod::sequence_reverse_into(data.executor, data.x, data.y); }, &Copies::y));
  batch->plain_y.resize(batch->x.values().size());
  job.contenders.push_back(contender(
      "scalar loop", batch,
      [](Copies& data) {
        const auto offsets = data.offsets();
        const std::int64_t columns = data.row_size();
        float* to = data.plain_y.data();
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
          for (std::int64_t row = offsets[i + 1]; row-- > offsets[i];) {
            to = std::copy_n(data.x.data() + row * columns, columns, to);
          }
        }
      },
      &Copies::plain_y, "one thread"));
  return job;
}

Job slice(const std::shared_ptr<Copies>& batch) {
  // The middle half of each sequence.
  const auto size = batch->sequences();
  batch->starts = lod::LoDTensor<std::int64_t>(lod::Shape{size});
  batch->counts = lod::LoDTensor<std::int64_t>(lod::Shape{size});
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t length = batch->offsets()[at + 1] - batch->offsets()[at];
    batch->starts.data()[i] = length / 4;
    kept += batch->counts.data()[i] = (length + 1) / 2;
  }
  Job job = job_of<float>(batch, 2 * kept * batch->row_bytes() + 3 * batch->offset_bytes());
  add_input(job, "starts", batch, batch->starts);
  add_input(job, "counts", batch, batch->counts);
  job.contenders.push_back(lodtensor(
      batch, [](Copies& data) { lod::sequence_slice_into(data.executor, data.x, data.starts, data.counts, data.y); },
      &Copies::y));
  batch->plain_y.resize(static_cast<std::size_t>(kept * batch->row_size()));
  job.contenders.push_back(contender(
      "scalar loop", batch,
      [](Copies& data) {
        const auto offsets = data.offsets();
        const std::int64_t columns = data.row_size();
        float* to = data.plain_y.data();
        for (std::int64_t i = 0; i < data.sequences(); ++i) {
          const std::int64_t first = offsets[static_cast<std::size_t>(i)] + data.starts.data()[i];
          to = std::copy_n(data.x.data() + first * columns, data.counts.data()[i] * columns, to);
        }
      },
      &Copies::plain_y, "one thread; the new offsets are not made"));
  return job;
}

Job concat(const std::shared_ptr<Copies>& batch) {
  batch->x2 = random_tensor<float>(batch->lod, batch->row_size(), 1);
  Job job = job_of<float>(batch, 4 * batch->x_bytes() + 3 * batch->offset_bytes());
  add_input(job, "x2", batch, batch->x2);
  add_input(job, "offsets2", batch, batch->offsets());
  job.contenders.push_back(lodtensor(
      batch, [](Copies& data) { lod::sequence_concat_into(data.executor, data.x, data.x2, data.y); }, &Copies::y));
  batch->plain_y.resize(2 * batch->x.values().size());
  job.contenders.push_back(contender(
      "scalar loop", batch,
      [](Copies& data) {
        const auto offsets = data.offsets();
        const std::int64_t columns = data.row_size();
        float* to = data.plain_y.data();
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
          const std::int64_t first = offsets[i] * columns, numbers = offsets[i + 1] * columns - first;
          to = std::copy_n(data.x.data() + first, numbers, to);
          to = std::copy_n(data.x2.data() + first, numbers, to);
        }
      },
      &Copies::plain_y, "one thread; the new offsets are not made"));
  return job;
}

Job select(const std::shared_ptr<Copies>& batch) {
  // As many sequences as there are, drawn with replacement.
  batch->chosen = ids("uniform", batch->sequences(), batch->sequences());
  std::int64_t kept = 0;
  for (const std::int64_t id : batch->chosen) {
    const auto at = static_cast<std::size_t>(id);
    kept += batch->offsets()[at + 1] - batch->offsets()[at];
  }
  Job job = job_of<float>(batch, 2 * kept * batch->row_bytes() + 3 * batch->offset_bytes());
  add_input(job, "chosen", batch, std::span<const std::int64_t>(batch->chosen));
  job.contenders.push_back(lodtensor(
      batch, [](Copies& data) { lod::select_into(data.executor, data.x, data.chosen, data.y); }, &Copies::y));
  batch->plain_y.resize(static_cast<std::size_t>(kept * batch->row_size()));
  job.contenders.push_back(contender(
      "scalar loop", batch,
      [](Copies& data) {
        const auto offsets = data.offsets();
        const std::int64_t columns = data.row_size();
        float* to = data.plain_y.data();
        for (const std::int64_t id : data.chosen) {
          const std::int64_t first = offsets[static_cast<std::size_t>(id)] * columns;
          to = std::copy_n(data.x.data() + first, offsets[static_cast<std::size_t>(id) + 1] * columns - first, to);
        }
      },
      &Copies::plain_y, "one thread; the new offsets are not made"));
  return job;
}

/// Here x is one row a sequence, and the batch is the result.
struct Expansion {
  Expansion(const Workload& workload, int threads)
      : executor(threads),
        lod(lod_of<float>(workload)),
        x(random_tensor<float>(workload.row_size == 1 ? lod::Shape{lod.size(0)}
                                                      : lod::Shape{lod.size(0), workload.row_size})) {}
  lod::CpuExecutor executor;
  lod::LoD lod;
  lod::LoDTensor<float> x, y;
  std::vector<float> plain_y;
};

Job expand(const Workload& workload, int threads) {
  const auto data = std::make_shared<Expansion>(workload, threads);
  const std::int64_t row_bytes = workload.row_size * 4;
  Job job{.rows = data->lod.rows(),
          .sequences = data->lod.size(0),
          .bytes = data->lod.rows() * row_bytes + data->lod.size(0) * (row_bytes + 8)};
  add_input(job, "x", data, data->x);
  add_input(job, "offsets", data, data->lod.offsets(0));
  job.contenders.push_back(lodtensor(
      data, [](Expansion& d) { lod::sequence_expand_as_into(d.executor, d.x, d.lod, d.y); }, &Expansion::y));
  data->plain_y.resize(static_cast<std::size_t>(data->lod.rows() * workload.row_size));
  job.contenders.push_back(contender(
      "scalar loop", data,
      [](Expansion& d) {
        const auto offsets = d.lod.offsets(0);
        const std::int64_t columns = d.x.row_size();
        float* to = d.plain_y.data();
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
          const float* const row = d.x.data() + static_cast<std::int64_t>(i) * columns;
          for (std::int64_t copy = offsets[i]; copy < offsets[i + 1]; ++copy) to = std::copy_n(row, columns, to);
        }
      },
      &Expansion::plain_y, "one thread"));
  return job;
}

Job expand_grad(const std::shared_ptr<Copies>& batch, int threads) {
  Job job = job_of<float>(batch, batch->x_bytes() + batch->offset_bytes() + batch->sequences() * batch->row_bytes());
  job.contenders.push_back(lodtensor(
      batch, [](Copies& data) { lod::sequence_expand_as_grad_into(data.executor, data.x, data.lod, data.y); },
      &Copies::y));
  add_libtorch_expand_as_grad(job, batch->x, threads);
  return job;
}

Job any_copies(const Workload& workload, int threads) {
  if (workload.op == "sequence_expand_as") return expand(workload, threads);
  const auto batch = std::make_shared<Copies>(workload, threads);
  if (workload.op == "sequence_reverse") return reverse(batch);
  if (workload.op == "sequence_slice") return slice(batch);
  if (workload.op == "sequence_concat") return concat(batch);
  if (workload.op == "select") return select(batch);
  return expand_grad(batch, threads);
}

}  // namespace

void add_copies(std::vector<Workload>& all) {
  const auto add = [&all](std::string work, std::string op, std::int64_t row_size, Roof roof) {
    add_workload(all,
                 {.work = std::move(work),
                  .op = std::move(op),
                  .lengths = "u16",
                  .row_size = row_size,
                  .dtype = "float32",
                  .size = "256MiB",
                  .roof = roof,
                  .make = any_copies},
                 row_size == 64 ? "64MiB" : "");
  };
  for (const std::int64_t row_size : {1, 64}) {
    for (const char* op : {"sequence_reverse", "sequence_slice", "sequence_concat", "select", "sequence_expand_as"}) {
      add("W7", op, row_size, Roof::COPY);
    }
    add("W8", "sequence_expand_as_grad", row_size, Roof::READ);
  }
}

}  // namespace benchmarks

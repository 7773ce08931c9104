// SPDX-License-Identifier: Apache-2.0
/// @file
/// W9, W10: sequences of ids without some of them, windows of ids, running sums; how far sequences of ids are apart.
#include "batch.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

namespace benchmarks {
namespace {

constexpr std::int64_t vocabulary = 1000;
constexpr std::array<std::int64_t, 3> erased = {0, 7, 500};
constexpr std::int64_t window = 3;

/// Ids of a small vocabulary, so that some are erased: the frequent ones are what one erases.
struct Tokens : Batch<std::int64_t> {
  Tokens(const Workload& workload, int threads) : Batch<std::int64_t>(workload, threads) {
    const auto tokens = ids("zipf", x.rows(), vocabulary);
    std::ranges::copy(tokens, x.data());
  }
};

Job erase(const Workload& workload, int threads) {
  const auto batch = std::make_shared<Tokens>(workload, threads);
  std::int64_t kept = 0;
  for (const std::int64_t id : batch->x.values()) kept += std::ranges::find(erased, id) == erased.end();
  Job job = job_of<std::int64_t>(batch, batch->x_bytes() + 8 * kept + 2 * batch->offset_bytes());
  job.parameters = "{\"tokens\": [0, 7, 500]}";
  job.contenders.push_back(lodtensor(
      batch, [](Tokens& data) { lod::sequence_erase_into(data.executor, data.x, erased, data.y); }, &Tokens::y));
  batch->plain_y.resize(static_cast<std::size_t>(kept));
  job.contenders.push_back(contender(
      "scalar loop", batch,
      [](Tokens& data) {
        std::int64_t* to = data.plain_y.data();
        for (const std::int64_t id : data.x.values()) {
          if (std::ranges::find(erased, id) == erased.end()) *to++ = id;
        }
      },
      &Tokens::plain_y, "one thread; the new offsets are not made"));
  return job;
}

Job enumerate(const Workload& workload, int threads) {
  const auto batch = std::make_shared<Tokens>(workload, threads);
  Job job = job_of<std::int64_t>(batch, (1 + window) * batch->x_bytes() + batch->offset_bytes());
  job.parameters = "{\"window\": 3}";
  job.contenders.push_back(lodtensor(
      batch, [](Tokens& data) { lod::sequence_enumerate_into(data.executor, data.x, window, data.y); }, &Tokens::y));
  batch->plain_y.resize(batch->x.values().size() * window);
  job.contenders.push_back(contender(
      "scalar loop", batch,
      [](Tokens& data) {
        const auto offsets = data.offsets();
        std::int64_t* to = data.plain_y.data();
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
          for (std::int64_t row = offsets[i]; row < offsets[i + 1]; ++row) {
            for (std::int64_t at = row; at < row + window; ++at) *to++ = at < offsets[i + 1] ? data.x.data()[at] : 0;
          }
        }
      },
      &Tokens::plain_y, "one thread"));
  return job;
}

/// Recognised tokens and the right ones: of these, a quarter was recognised as another.
struct Recognised : Tokens {
  Recognised(const Workload& workload, int threads) : Tokens(workload, threads), truth(x) {
    const auto others = ids("uniform", 2 * x.rows(), vocabulary);
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      const std::int64_t* const drawn = others.data() + 2 * row;
      if (drawn[0] % 4 == 0) truth.data()[row] = drawn[1];
    }
  }
  lod::LoDTensor<std::int64_t> truth;
  lod::LoDTensor<float> distances;
  std::vector<float> plain_distances;
};

/// The whole table of a pair of sequences, row by row.
std::int64_t distance(const lod::LoDTensorView<const std::int64_t>& a, const lod::LoDTensorView<const std::int64_t>& b,
                      std::vector<std::int64_t>& row) {
  row.resize(static_cast<std::size_t>(b.rows()) + 1);
  std::iota(row.begin(), row.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < a.rows(); ++i) {
    std::int64_t diagonal = row[0]++;
    for (std::int64_t k = 0; k < b.rows(); ++k) {
      const auto at = static_cast<std::size_t>(k);
      const std::int64_t here = std::min(diagonal + (a.data()[i] != b.data()[k]), std::min(row[at], row[at + 1]) + 1);
      diagonal = std::exchange(row[at + 1], here);
    }
  }
  return row.back();
}

Job edit_distance(const Workload& workload, int threads) {
  const auto batch = std::make_shared<Recognised>(workload, threads);
  Job job = job_of<std::int64_t>(batch, 2 * batch->x_bytes() + 2 * batch->offset_bytes());
  add_input(job, "truth", batch, batch->truth);
  job.contenders.push_back(lodtensor(
      batch, [](Recognised& data) { lod::edit_distance_into(data.executor, data.x, data.truth, data.distances); },
      &Recognised::distances));
  batch->plain_distances.resize(static_cast<std::size_t>(batch->sequences()));
  job.contenders.push_back(contender(
      "scalar loop", batch,
      [](Recognised& data) {
        std::vector<std::int64_t> row;
        for (std::int64_t i = 0; i < data.sequences(); ++i) {
          data.plain_distances[static_cast<std::size_t>(i)] =
              static_cast<float>(distance(data.x.slice({i}), data.truth.slice({i}), row));
        }
      },
      &Recognised::plain_distances, "one thread"));
  return job;
}

Job cumsum(const Workload& workload, int threads) {
  const auto batch = std::make_shared<Batch<float>>(workload, threads);
  Job job = job_of<float>(batch, 2 * batch->x_bytes() + batch->offset_bytes());
  job.contenders.push_back(lodtensor(
      batch, [](Batch<float>& data) { lod::sequence_cumsum_into(data.executor, data.x, data.y); }, &Batch<float>::y));
  batch->plain_y.resize(batch->x.values().size());
  job.contenders.push_back(contender(
      "scalar loop", batch,
      [](Batch<float>& data) {
        const auto offsets = data.offsets();
        const std::int64_t columns = data.row_size();
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
          for (std::int64_t at = offsets[i] * columns; at < offsets[i + 1] * columns; ++at) {
            const auto place = static_cast<std::size_t>(at);
            const bool first = at < (offsets[i] + 1) * columns;
            data.plain_y[place] =
                data.x.data()[at] + (first ? 0 : data.plain_y[place - static_cast<std::size_t>(columns)]);
          }
        }
      },
      &Batch<float>::plain_y, "one thread"));
  return job;
}

}  // namespace

void add_tokens(std::vector<Workload>& all) {
  const auto add = [&all](std::string work, std::string op, std::string lengths, std::int64_t row_size,
                          std::string dtype, Job (*make)(const Workload&, int), std::string short_size = {}) {
    add_workload(all,
                 {.work = std::move(work),
                  .op = std::move(op),
                  .lengths = std::move(lengths),
                  .row_size = row_size,
                  .dtype = std::move(dtype),
                  .size = "256MiB",
                  .roof = Roof::COPY,
                  .make = make},
                 short_size);
  };
  add("W9", "sequence_erase", "u16", 1, "int64", erase, "64MiB");
  add("W9", "sequence_enumerate", "u16", 1, "int64", enumerate, "64MiB");
  add("W10", "sequence_cumsum", "u16", 1, "float32", cumsum, "64MiB");
  for (const char* lengths : {"zipf11", "giant"}) add("W10", "sequence_cumsum", lengths, 1, "float32", cumsum);
  add("W10", "sequence_cumsum", "u16", 64, "float32", cumsum);
  for (const char* lengths : {"u16", "u256"}) {
    all.push_back({.work = "edit distance",
                   .op = "edit_distance",
                   .lengths = lengths,
                   .dtype = "int64",
                   .size = "8MiB",
                   .in_short_form = true,
                   .make = edit_distance});
  }
}

}  // namespace benchmarks

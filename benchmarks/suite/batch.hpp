// SPDX-License-Identifier: Apache-2.0
/// @file
/// A batch of random sequences, as most workloads have one.
#pragma once

#include "distributions.hpp"
#include "workload.hpp"
#include <lod/lod.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace benchmarks {

/// Rows of a batch whose values take `size`.
template <class T>
std::int64_t rows_of(const Workload& workload) {
  return bytes_of(workload.size) / (workload.row_size * static_cast<std::int64_t>(sizeof(T)));
}

/// The LoD of a workload: one level, by the name of its lengths; "20 levels" are 19 of one sequence each above "u16".
template <class T>
lod::LoD lod_of(const Workload& workload) {
  if (workload.lengths == "20 levels") {
    std::vector<std::vector<std::int64_t>> levels(20, lengths("u16", rows_of<T>(workload)));
    std::fill_n(levels.begin(), 19, std::vector<std::int64_t>(levels.back().size(), 1));
    return lod::LoD::from_lengths(levels);
  }
  return lod::LoD::from_lengths({lengths(workload.lengths, rows_of<T>(workload))});
}

/// Sequences, and where results go.
template <class T>
struct Batch {
  Batch(const Workload& workload, int threads)
      : executor(threads), lod(lod_of<T>(workload)), x(random_tensor<T>(lod, workload.row_size)) {}

  lod::CpuExecutor executor;
  lod::LoD lod;
  lod::LoDTensor<T> x;
  lod::LoDTensor<T> y;
  std::vector<T> plain_y;  ///< of contenders without tensors

  std::span<const std::int64_t> offsets() const { return lod.offsets(0); }
  std::int64_t sequences() const { return lod.size(0); }
  std::int64_t row_size() const { return x.row_size(); }
  std::int64_t x_bytes() const { return x.rows() * x.row_size() * static_cast<std::int64_t>(sizeof(T)); }
  std::int64_t offset_bytes() const { return (sequences() + 1) * static_cast<std::int64_t>(sizeof(std::int64_t)); }
  std::int64_t row_bytes() const { return row_size() * static_cast<std::int64_t>(sizeof(T)); }
};

/// A job over a batch, with x and offsets as its inputs; `bytes` is what the work must touch.
template <class T, class Data>
Job job_of(const std::shared_ptr<Data>& batch, std::int64_t bytes) {
  Job job{.rows = batch->x.rows(), .sequences = batch->sequences(), .bytes = bytes};
  add_input(job, "x", batch, batch->x);
  add_input(job, "offsets", batch, batch->offsets());
  return job;
}

/// Calls body(T{}) for the type of that name.
template <class Body>
auto with_dtype(const std::string& name, const Body& body) {
  if (name == "float64") return body(double{});
  if (name == "float16") return body(lod::float16{});
  if (name == "bfloat16") return body(lod::bfloat16{});
  return body(float{});
}

}  // namespace benchmarks

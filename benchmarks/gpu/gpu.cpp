// SPDX-License-Identifier: Apache-2.0
/// @file
/// Times operations on a GPU, beside what CUB and Thrust do, against a copy of as many bytes on the same GPU in the
/// same run:
///   benchmark_gpu [mebibytes of values (256)]
/// Prints a table in Markdown. What a call takes is the median of several rounds of calls, timed by events of the GPU;
/// its bytes are those that it must read and write at least, each once.
#include "peers.hpp"
#include "suite/distributions.hpp"
#include <lod/cuda.hpp>
#include <lod/ops.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using lod::Cuda;
using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using lod::SelectedRows;
template <class T>
using Tensor = LoDTensor<T, Cuda>;

class Table {
 public:
  explicit Table(const lod::CudaExecutor& executor) : executor_(executor) {
    std::printf("| workload | ms | GB/s | of the copy | beside | its ms | ratio |\n|---|---|---|---|---|---|---|\n");
  }

  /// The copy that others are compared with.
  void roof(std::int64_t bytes) {
    const lod::kernel::Scratch<lod::CudaExecutor, char> from(executor_, bytes), to(executor_, bytes);
    const double time = milliseconds([&] { executor_.resource()->copy(to.data(), from.data(), std::size_t(bytes)); });
    roof_ = speed(2 * bytes, time);
    std::printf("| copy of %.0f MiB | %.3f | %.0f | 100%% | | | |\n", static_cast<double>(bytes) / (1 << 20), time,
                roof_);
  }
  template <class Call>
  void row(const std::string& name, std::int64_t bytes, const Call& call) {
    row(name, bytes, call, "", [] {});
  }
  /// The same with a peer.
  template <class Call, class Peer>
  void row(const std::string& name, std::int64_t bytes, const Call& call, const char* peer_name, const Peer& peer) {
    const double time = milliseconds(call), reached = speed(bytes, time);
    std::printf("| %s | %.3f | %.0f | %.0f%% |", name.c_str(), time, reached, 100 * reached / roof_);
    if (*peer_name) {
      const double other = milliseconds(peer);
      std::printf(" %s | %.3f | %.2f |\n", peer_name, other, other / time);
    } else {
      std::printf(" | | |\n");
    }
    std::fflush(stdout);
  }

 private:
  static double speed(std::int64_t bytes, double time) { return static_cast<double>(bytes) / time / 1e6; }

  /// What a call takes.
  template <class Call>
  double milliseconds(const Call& call) const {
    for (int warm = 0; warm < 3; ++warm) call();
    const int calls = static_cast<int>(std::clamp(20 / std::max(timed(call, 1), 1e-3), 1.0, 1000.0));
    std::vector<double> rounds;
    for (int round = 0; round < 7; ++round) rounds.push_back(timed(call, calls) / calls);
    std::nth_element(rounds.begin(), rounds.begin() + 3, rounds.end());
    return rounds[3];
  }
  template <class Call>
  double timed(const Call& call, int calls) const {
    cudaEvent_t begin = nullptr, end = nullptr;
    check(cudaEventCreate(&begin));
    check(cudaEventCreate(&end));
    check(cudaEventRecord(begin, executor_.stream()));
    for (int i = 0; i < calls; ++i) call();
    check(cudaEventRecord(end, executor_.stream()));
    executor_.synchronize();
    float time = 0;
    check(cudaEventElapsedTime(&time, begin, end));
    check(cudaEventDestroy(begin));
    check(cudaEventDestroy(end));
    return static_cast<double>(time);
  }
  static void check(cudaError_t error) { lod::detail::check_cuda(error, "an event"); }

  const lod::CudaExecutor& executor_;
  double roof_ = 1;
};

LoD batch_of(std::string_view distribution, std::int64_t rows) {
  return LoD::from_lengths({benchmarks::lengths(distribution, rows)});
}
/// Numbers in [0, 1).
Tensor<float> numbers(const lod::CudaExecutor& executor, LoDTensor<float> x) {
  std::uint32_t state = 1;
  for (float& number : x.values()) {
    state = state * 1664525 + 1013904223;
    number = static_cast<float>(state >> 8) / 16777216.0F;
  }
  return lod::to<Cuda>(executor, x);
}
Tensor<std::int64_t> id_batch(const lod::CudaExecutor& executor, std::string_view distribution, const LoD& index,
                              std::int64_t height) {
  LoDTensor<std::int64_t> ids(index, {});
  std::ranges::copy(benchmarks::ids(distribution, index.rows(), height), ids.values().begin());
  return lod::to<Cuda>(executor, ids);
}

void scalar_rows(const lod::CudaExecutor& executor, Table& table, std::int64_t bytes) {
  const std::int64_t rows = bytes / 4;
  for (const char* const distribution : {"u16", "giant", "zipf11", "empty90"}) {
    const std::string name(distribution);
    const LoD index = batch_of(distribution, rows);
    const std::int64_t per_sequence = 12 * index.size(-1);  // an offset and a result
    const auto x = numbers(executor, LoDTensor<float>(index, {}));
    Tensor<float> sums(executor.resource()), y(executor.resource()), peer(executor.resource());
    peer.resize(LoD(), {}, index.size(-1));
    const lod::kernel::Segments sequences = lod::operation::segments(executor, x, -1);
    std::size_t needed = 0;
    benchmarks::segmented_sums(nullptr, needed, x.data(), sequences.size, sequences.offsets, peer.data(),
                               executor.stream());
    const lod::kernel::Scratch<lod::CudaExecutor, char> memory(executor, static_cast<std::int64_t>(needed));
    table.row(
        "sequence_pool SUM, row size 1, " + name, 4 * rows + per_sequence,
        [&] { lod::sequence_pool_into(executor, x, PoolType::SUM, sums); }, "cub::DeviceSegmentedReduce",
        [&] {
          benchmarks::segmented_sums(memory.data(), needed, x.data(), sequences.size, sequences.offsets, peer.data(),
                                     executor.stream());
        });
    table.row("sequence_softmax, row size 1, " + name, 8 * rows + per_sequence,
              [&] { lod::sequence_softmax_into(executor, x, y); });
    table.row("sequence_reverse, row size 1, " + name, 8 * rows + per_sequence,
              [&] { lod::sequence_reverse_into(executor, x, y); });
  }
  const LoD index = batch_of("u16", rows);
  const auto x = numbers(executor, LoDTensor<float>(index, {}));
  Tensor<float> y(executor.resource());
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : index.row_ids(-1)) ids.push_back(static_cast<std::int32_t>(id));
  const auto keys = executor.upload(ids.data(), ids.size() * sizeof(std::int32_t));
  table.row(
      "sequence_cumsum, row size 1, u16", 8 * rows, [&] { lod::sequence_cumsum_into(executor, x, y); },
      "thrust::inclusive_scan_by_key",
      [&] {
        benchmarks::running_sums(static_cast<const std::int32_t*>(keys.data()), x.data(), rows, y.data(),
                                 executor.stream());
      });
}

void wide_rows(const lod::CudaExecutor& executor, Table& table, std::int64_t bytes) {
  const LoD index = batch_of("u16", bytes / 256);
  const std::int64_t read = 256 * index.rows(), pooled = 256 * index.size(-1);
  const auto x = numbers(executor, LoDTensor<float>(index, {64}));
  Tensor<float> y(executor.resource()), z(executor.resource());
  Tensor<std::int64_t> winners(executor.resource()), lengths(executor.resource());
  table.row("sequence_pool SUM, row size 64, u16", read + pooled,
            [&] { lod::sequence_pool_into(executor, x, PoolType::SUM, y); });
  table.row("sequence_max_pool, row size 64, u16", read + 3 * pooled,
            [&] { lod::sequence_max_pool_into(executor, x, {}, y, winners); });
  table.row("sequence_softmax, row size 64, u16", 2 * read, [&] { lod::sequence_softmax_into(executor, x, y); });
  table.row("sequence_reverse, row size 64, u16", 2 * read, [&] { lod::sequence_reverse_into(executor, x, y); });
  table.row("sequence_concat with itself, row size 64, u16", 4 * read,
            [&] { lod::sequence_concat_into(executor, x, x, y); });
  std::vector<std::int64_t> every(static_cast<std::size_t>(index.size(0)));
  std::iota(every.rbegin(), every.rend(), std::int64_t{0});
  table.row("select, all backwards, row size 64, u16", 2 * read, [&] { lod::select_into(executor, x, every, y); });
  const std::int64_t padded = 256 * index.size(-1) * index.max_length(-1);
  table.row("sequence_pad, row size 64, u16", read + padded,
            [&] { lod::sequence_pad_into(executor, x, {}, y, lengths); });
  const std::vector<std::int64_t> host_lengths = index.lengths(-1);
  table.row("sequence_unpad, row size 64, u16", 2 * read,
            [&] { lod::sequence_unpad_into(executor, y, host_lengths, z); });
  lod::sequence_pool_into(executor, x, PoolType::SUM, y);
  table.row("sequence_expand_as, row size 64, u16", read + pooled,
            [&] { lod::sequence_expand_as_into(executor, y, index, z); });
  table.row("sequence_expand_as_grad, row size 64, u16", read + pooled,
            [&] { lod::sequence_expand_as_grad_into(executor, x, index, y); });
}

void rows_by_id(const lod::CudaExecutor& executor, Table& table) {
  constexpr std::int64_t height = 4'000'000, listed = 2'000'000, row_size = 64;
  const auto parameter = numbers(executor, LoDTensor<float>({height, row_size}));
  for (const char* const distribution : {"uniform", "zipf", "same"}) {
    const std::string name(distribution);
    SelectedRows<float> on_cpu(benchmarks::ids(distribution, listed, height), height, {row_size});
    for (float& number : on_cpu.value().values()) number = 1;
    const auto g = lod::to<Cuda>(executor, on_cpu);
    SelectedRows<float, Cuda> merged(executor.resource());
    const std::int64_t read = listed * (4 * row_size + 8);
    table.row("merge_add, 2 M ids, " + name, 2 * read, [&] { lod::merge_add_into(executor, g, merged); });
    auto weights = parameter;
    Tensor<float> mean = parameter, squares = parameter;
    table.row("adam, LAZY, 2 M ids, " + name, 7 * read,
              [&] { lod::adam(executor, weights, mean, squares, g, {.step = 1, .mode = lod::Sparse::LAZY}); });
  }
  const LoD index = batch_of("u16", listed);
  for (const char* const distribution : {"uniform", "zipf"}) {
    const auto ids = id_batch(executor, distribution, index, height);
    Tensor<float> y(executor.resource());
    table.row("embedding_pool SUM, 4 M rows of 64, " + std::string(distribution),
              listed * (4 * row_size + 8) + index.size(-1) * 4 * row_size,
              [&] { lod::embedding_pool_into(executor, parameter, ids, PoolType::SUM, {}, y); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t bytes = (argc > 1 ? std::atoll(argv[1]) : 256) << 20;
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  cudaDeviceProp properties{};
  lod::detail::check_cuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  std::printf("%s, float32\n\n", properties.name);
  const lod::CudaExecutor executor;
  Table table(executor);
  table.roof(bytes);
  scalar_rows(executor, table, bytes);
  wide_rows(executor, table, bytes);
  rows_by_id(executor, table);
  table.roof(bytes);
}

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Times operations on a GPU, beside what CUB, Thrust and atomic additions do, against a copy of as many bytes on the
/// same GPU in the same run:
///   benchmark_gpu [mebibytes of values (256)] [--output FOLDER] [--quick]
/// Prints a table in Markdown. What a call takes is the median of several rounds of calls, timed by events of the GPU;
/// its bytes are those that it must read and write at least, each once. Into the folder it writes results.json, in the
/// form that tools/bench has for CPUs, and the offsets and ids, for peers that are programs of their own: they make the
/// same numbers as `numbers` does, and find there what came of ours. --quick makes one call a round, which says that
/// all of it works.
#include "peers.hpp"
#include "suite/distributions.hpp"
#include "support/counting_cuda_resource.hpp"
#include <lod/cuda.hpp>
#include <lod/ops.hpp>

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <span>
#include <sstream>
#include <stdexcept>
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
using lod_test::CountingCudaResource;
template <class T>
using Tensor = LoDTensor<T, Cuda>;

/// What is timed, and on what.
struct Workload {
  std::string op = {};
  std::string variant = {};
  std::string data = {};  ///< the lengths, or the distribution of ids
  std::int64_t row_size = 1;
  std::int64_t rows = 0;
  std::int64_t sequences = 0;
  std::int64_t bytes = 0;
  std::string offsets = {};  ///< files of the output's folder; none where they are not written
  std::string ids = {};
  std::int64_t height = 0;  ///< of the table that is looked up or updated
  std::int64_t length = 0;  ///< of padded sequences
  std::string type = "float32";
  bool in_place = false;  ///< a call changes what it is given, so that the next one gives something else

  std::string id() const {
    std::string text = op;
    for (const std::string& part : {variant, data, std::to_string(row_size)}) text += part.empty() ? "" : "/" + part;
    return text;
  }
};

/// What another does for the same result.
struct Peer {
  const char* by = "";
  std::function<void()> call = [] {};
};

/// A result on the CPU: what others compare theirs with.
class Summary {
 public:
  explicit Summary(std::span<const float> values) {
    for (const float value : values) {
      checksum += static_cast<double>(value);
      magnitude += std::fabs(static_cast<double>(value));
    }
    const std::size_t size = values.size(), count = std::min<std::size_t>(size, 64);
    for (std::size_t i = 0; i < count; ++i) sample.push_back(values[count > 1 ? i * (size - 1) / (count - 1) : 0]);
  }
  double checksum = 0;
  double magnitude = 0;
  std::vector<float> sample;  ///< spread over the whole, the first and the last among them
};

class Table {
 public:
  Table(const lod::CudaExecutor& executor, const CountingCudaResource& resource, std::string folder, bool quick)
      : executor_(executor), resource_(resource), folder_(std::move(folder)), quick_(quick) {
    std::printf(
        "| workload | ms | GB/s | of the copy | as a graph, ms | allocations, waits, launches | beside | its ms | "
        "ratio |\n"
        "|---|---|---|---|---|---|---|---|---|\n");
  }

  /// The copy that others are compared with.
  void roof(std::int64_t bytes) {
    const lod::kernel::Scratch<lod::CudaExecutor, char> from(executor_, bytes), to(executor_, bytes);
    const double time =
        median(milliseconds([&] { executor_.resource()->copy(to.data(), from.data(), std::size_t(bytes)); }));
    roofs_.push_back(speed(2 * bytes, time));
    std::printf("| copy of %.0f MiB | %.3f | %.0f | 100%% | | | | | |\n", static_cast<double>(bytes) / (1 << 20), time,
                roofs_.back());
  }

  /// The name of the file with these numbers, which others read; none where there is no folder.
  std::string file(const std::string& name, std::span<const std::int64_t> numbers) const {
    if (folder_.empty()) return "";
    std::ofstream out(folder_ + "/" + name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(numbers.data()), static_cast<std::streamsize>(numbers.size_bytes()));
    if (!out) throw std::runtime_error(folder_ + "/" + name + " could not be written");
    return name;
  }

  /// `result` brings what a call has given to the CPU. Others compare theirs with that of the first call.
  void row(const Workload& work, const std::function<void()>& call, const std::function<LoDTensor<float>()>& result,
           const Peer& peer = {}) {
    std::ostringstream json;
    json.precision(17);
    profiled(call);
    const LoDTensor<float> first = result();
    const std::vector<double> times = milliseconds(call);
    const Cost cost = cost_of(call);
    const double time = median(times), reached = speed(work.bytes, time);
    std::printf("| %s | %.4f | %.0f | %.0f%% | %.4f | %lld, %lld, %lld |", work.id().c_str(), time, reached,
                100 * reached / roofs_.back(), cost.graph.empty() ? 0 : median(cost.graph),
                static_cast<long long>(cost.allocations), static_cast<long long>(cost.synchronisations),
                static_cast<long long>(cost.launches));
    json << "{\"workload\":{\"id\":\"" << work.id() << "\",\"op\":\"" << work.op << "\",\"variant\":\"" << work.variant
         << "\",\"lengths\":\"" << work.data << "\",\"row_size\":" << work.row_size << ",\"dtype\":\"" << work.type
         << "\",\"rows\":" << work.rows << ",\"sequences\":" << work.sequences << ",\"bytes\":" << work.bytes
         << ",\"roof\":\"copy\""
         << ",\"offsets\":\"" << work.offsets << "\",\"ids\":\"" << work.ids << "\",\"height\":" << work.height
         << ",\"length\":" << work.length << "},\"results\":[{\"by\":\"lodtensor\",\"seconds\":";
    seconds(json, times);
    json << ",\"allocations\":" << cost.allocations << ",\"synchronisations\":" << cost.synchronisations
         << ",\"launches\":" << cost.launches << ",\"graph_seconds\":";
    seconds(json, cost.graph);
    if (!work.in_place) json << ",\"different_bits\":" << differing(first, result());
    const Summary summary(first.values());
    json << ",\"checksum\":" << summary.checksum << ",\"magnitude\":" << summary.magnitude << ",\"sample\":[";
    for (std::size_t i = 0; i < summary.sample.size(); ++i) json << (i ? "," : "") << summary.sample[i];
    json << "]";
    json << "}";
    if (*peer.by) {
      const std::vector<double> others = milliseconds(peer.call);
      std::printf(" %s | %.4f | %.2f |\n", peer.by, median(others), median(others) / time);
      json << ",{\"by\":\"" << peer.by << "\",\"seconds\":";
      seconds(json, others);
      json << "}";
    } else {
      std::printf(" | | |\n");
    }
    std::fflush(stdout);
    json << "]";
    workloads_.push_back(json.str());
  }

  /// Writes results.json, if there is a folder.
  void write(const char* gpu, std::int64_t bytes) const {
    if (folder_.empty()) return;
    std::ofstream out(folder_ + "/results.json");
    out << "{\"format\":1,\"gpu\":\"" << gpu << "\",\"bytes\":" << bytes << ",\"quick\":" << (quick_ ? "true" : "false")
        << ",\"workloads\":[";
    for (std::size_t i = 0; i < workloads_.size(); ++i) {
      out << (i ? ",\n" : "\n") << workloads_[i] << ",\"roofs_before\":{\"copy\":" << roofs_.front() * 1e9
          << "},\"roofs_after\":{\"copy\":" << roofs_.back() * 1e9 << "}}";
    }
    out << "\n]}\n";
    if (!out) throw std::runtime_error(folder_ + "/results.json could not be written");
  }

 private:
  struct Cost {
    std::int64_t allocations = 0;
    std::int64_t synchronisations = 0;
    std::int64_t launches = 0;  ///< kernels, copies and fills
    /// Milliseconds of rounds of a graph of the call: what is left of it where the CPU has nothing to do. None if a
    /// call waits.
    std::vector<double> graph = {};
  };

  static double speed(std::int64_t bytes, double time) { return static_cast<double>(bytes) / time / 1e6; }
  static double median(std::vector<double> rounds) {
    std::nth_element(rounds.begin(), rounds.begin() + static_cast<std::ptrdiff_t>(rounds.size() / 2), rounds.end());
    return rounds[rounds.size() / 2];
  }
  static void seconds(std::ostream& json, const std::vector<double>& times) {
    json << "[";
    for (std::size_t i = 0; i < times.size(); ++i) json << (i ? "," : "") << times[i] / 1e3;
    json << "]";
  }
  /// How many numbers have other bits.
  static std::int64_t differing(const LoDTensor<float>& a, const LoDTensor<float>& b) {
    if (a.shape() != b.shape()) return std::max(a.rows(), b.rows());
    std::int64_t count = 0;
    for (std::size_t i = 0; i < a.values().size(); ++i) {
      count += std::memcmp(&a.values()[i], &b.values()[i], sizeof(float)) != 0 ? 1 : 0;
    }
    return count;
  }

  /// One call, all that a profiler sees that waits for the program's word.
  template <class Call>
  void profiled(const Call& call) const {
    check(cudaProfilerStart());
    call();
    executor_.synchronize();
    check(cudaProfilerStop());
  }
  /// What a call takes, in several rounds.
  template <class Call>
  std::vector<double> milliseconds(const Call& call) const {
    for (int warm = 0; warm < 3 && !quick_; ++warm) call();
    const int calls = quick_ ? 1 : static_cast<int>(std::clamp(20 / timed(call, 1), 1.0, 1000.0));
    std::vector<double> rounds;
    for (int round = 0; round < 7; ++round) rounds.push_back(timed(call, calls) / calls);
    return rounds;
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
    // Events tell no shorter times apart.
    return std::max(static_cast<double>(time), 5e-4);
  }

  /// What a call that is not the first asks of the machine: of the memory; and, since a stream that is recorded takes
  /// no call that waits, of the GPU.
  template <class Call>
  Cost cost_of(const Call& call) const {
    Cost cost;
    executor_.synchronize();
    const std::int64_t before = resource_.allocations;
    call();
    cost.allocations = resource_.allocations - before;
    executor_.synchronize();
    check(cudaStreamBeginCapture(executor_.stream(), cudaStreamCaptureModeThreadLocal));
    try {
      call();
    } catch (const lod::CudaError&) {
      cost.synchronisations = 1;
    }
    cudaGraph_t graph = nullptr;
    if (cudaStreamEndCapture(executor_.stream(), &graph) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      cost.synchronisations = 1;
      return cost;
    }
    std::size_t size = 0;
    check(cudaGraphGetNodes(graph, nullptr, &size));
    std::vector<cudaGraphNode_t> nodes(size);
    check(cudaGraphGetNodes(graph, nodes.data(), &size));
    for (const cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type{};
      check(cudaGraphNodeGetType(node, &type));
      if (type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeMemcpy || type == cudaGraphNodeTypeMemset) {
        ++cost.launches;
      }
    }
    cudaGraphExec_t ready = nullptr;
    check(cudaGraphInstantiate(&ready, graph, 0));
    cost.graph = milliseconds([&] { check(cudaGraphLaunch(ready, executor_.stream())); });
    check(cudaGraphExecDestroy(ready));
    check(cudaGraphDestroy(graph));
    return cost;
  }
  static void check(cudaError_t error) { lod::detail::check_cuda(error, "a call of the benchmark's"); }

  const lod::CudaExecutor& executor_;
  const CountingCudaResource& resource_;
  std::string folder_;
  bool quick_;
  std::vector<double> roofs_;
  std::vector<std::string> workloads_;
};

/// What brings a tensor to the CPU when it is called.
template <class T>
std::function<LoDTensor<float>()> of(const lod::CudaExecutor& executor, const Tensor<T>& y) {
  return [&executor, &y] {
    auto on_cpu = lod::to<lod::Cpu>(executor, y);
    if constexpr (std::same_as<T, float>) {
      return on_cpu;
    } else {
      LoDTensor<float> wide(on_cpu.lod(), on_cpu.row_shape());
      std::ranges::transform(on_cpu.values(), wide.values().begin(),
                             [](T number) { return static_cast<float>(number); });
      return wide;
    }
  };
}

/// Copies of many pieces of memory, as cub::DeviceMemcpy::Batched makes them.
class Copies {
 public:
  explicit Copies(const lod::CudaExecutor& executor) : executor_(executor) {}

  /// `rows` rows of `row_size` numbers, beginning with these.
  void add(const Tensor<float>& to, std::int64_t to_row, const Tensor<float>& from, std::int64_t from_row,
           std::int64_t rows) {
    const std::int64_t size = from.row_size();
    from_.push_back(reinterpret_cast<std::intptr_t>(from.data() + from_row * size));
    to_.push_back(reinterpret_cast<std::intptr_t>(to.data() + to_row * size));
    bytes_.push_back(rows * size * std::int64_t{sizeof(float)});
  }
  Peer peer() {
    lists_ = {uploaded(from_), uploaded(to_), uploaded(bytes_)};
    const auto* const from = reinterpret_cast<const void* const*>(lists_[0].data());
    auto* const to = reinterpret_cast<void* const*>(lists_[1].data());
    const std::int64_t *const bytes = lists_[2].data(), count = lists_[2].rows();
    std::size_t needed = 0;
    benchmarks::copies(nullptr, needed, from, to, bytes, count, executor_.stream());
    scratch_.resize(LoD(), {}, static_cast<std::int64_t>(needed + 7) / 8);
    return {"cub::DeviceMemcpy::Batched", [=, this] {
              std::size_t given = needed;
              benchmarks::copies(scratch_.data(), given, from, to, bytes, count, executor_.stream());
            }};
  }

 private:
  Tensor<std::int64_t> uploaded(const std::vector<std::int64_t>& list) const {
    LoDTensor<std::int64_t> x({static_cast<std::int64_t>(list.size())});
    std::ranges::copy(list, x.values().begin());
    return lod::to<Cuda>(executor_, x);
  }

  const lod::CudaExecutor& executor_;
  std::vector<std::int64_t> from_;  // addresses
  std::vector<std::int64_t> to_;
  std::vector<std::int64_t> bytes_;
  std::vector<Tensor<std::int64_t>> lists_;
  Tensor<std::int64_t> scratch_{executor_.resource()};
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
/// The number of its sequence, for each row, on the GPU.
auto row_numbers(const lod::CudaExecutor& executor, const LoD& index) {
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : index.row_ids(-1)) ids.push_back(static_cast<std::int32_t>(id));
  return executor.upload(ids.data(), ids.size() * sizeof(std::int32_t));
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
    Workload work{.data = name, .rows = rows, .sequences = index.size(-1)};
    if (name == "u16") work.offsets = table.file("offsets-u16-1.int64", index.offsets(-1));
    const auto with = [&](const char* op, const char* variant, std::int64_t moved) {
      work.op = op;
      work.variant = variant;
      work.bytes = moved;
      return work;
    };
    table.row(with("sequence_pool", "SUM", 4 * rows + per_sequence),
              [&] { lod::sequence_pool_into(executor, x, PoolType::SUM, sums); }, of(executor, sums),
              {"cub::DeviceSegmentedReduce", [&] {
                 benchmarks::segmented_sums(memory.data(), needed, x.data(), sequences.size, sequences.offsets,
                                            peer.data(), executor.stream());
               }});
    table.row(
        with("sequence_softmax", "", 8 * rows + per_sequence), [&] { lod::sequence_softmax_into(executor, x, y); },
        of(executor, y));
    table.row(
        with("sequence_reverse", "", 8 * rows + per_sequence), [&] { lod::sequence_reverse_into(executor, x, y); },
        of(executor, y));
    if (name != "u16") continue;
    Tensor<std::int64_t> lengths(executor.resource());
    Tensor<float> z(executor.resource());
    const std::vector<std::int64_t> host_lengths = index.lengths(-1);
    work.length = index.max_length(-1);
    table.row(
        with("sequence_pad", "", 4 * rows + 4 * index.size(-1) * work.length),
        [&] { lod::sequence_pad_into(executor, x, {}, y, lengths); }, of(executor, y));
    table.row(
        with("sequence_unpad", "", 8 * rows), [&] { lod::sequence_unpad_into(executor, y, host_lengths, z); },
        of(executor, z));
    const auto keys = row_numbers(executor, index);
    table.row(with("sequence_cumsum", "", 8 * rows), [&] { lod::sequence_cumsum_into(executor, x, z); },
              of(executor, z), {"thrust::inclusive_scan_by_key", [&] {
                                  benchmarks::running_sums(static_cast<const std::int32_t*>(keys.data()), x.data(),
                                                           rows, y.data(), executor.stream());
                                }});
  }
}

void wide_rows(const lod::CudaExecutor& executor, Table& table, std::int64_t bytes) {
  const LoD index = batch_of("u16", bytes / 256);
  const std::int64_t read = 256 * index.rows(), pooled = 256 * index.size(-1);
  const auto x = numbers(executor, LoDTensor<float>(index, {64}));
  Tensor<float> y(executor.resource()), z(executor.resource()), copied(executor.resource());
  Tensor<std::int64_t> winners(executor.resource()), lengths(executor.resource());
  Workload work{.data = "u16",
                .row_size = 64,
                .rows = index.rows(),
                .sequences = index.size(-1),
                .offsets = table.file("offsets-u16-64.int64", index.offsets(-1)),
                .length = index.max_length(-1)};
  const auto with = [&](const char* op, const char* variant, std::int64_t moved) {
    work.op = op;
    work.variant = variant;
    work.bytes = moved;
    return work;
  };
  table.row(
      with("sequence_pool", "SUM", read + pooled), [&] { lod::sequence_pool_into(executor, x, PoolType::SUM, y); },
      of(executor, y));
  table.row(
      with("sequence_max_pool", "", read + 3 * pooled),
      [&] { lod::sequence_max_pool_into(executor, x, {}, y, winners); }, of(executor, y));
  table.row(
      with("sequence_softmax", "", 2 * read), [&] { lod::sequence_softmax_into(executor, x, y); }, of(executor, y));

  const std::span<const std::int64_t> offsets = index.offsets(-1);
  const std::vector<std::int64_t> host_lengths = index.lengths(-1);
  // The peer writes to another place, as much as the operation.
  const auto moved = [&](const Workload& of_work, const auto& call, const auto& add) {
    call();
    copied.resize(LoD(), {64}, y.rows());
    Copies copies(executor);
    add(copies);
    table.row(of_work, call, of(executor, y), copies.peer());
  };
  moved(
      with("sequence_reverse", "", 2 * read), [&] { lod::sequence_reverse_into(executor, x, y); },
      [&](Copies& copies) {
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
          for (std::int64_t row = offsets[i]; row < offsets[i + 1]; ++row) {
            copies.add(copied, row, x, offsets[i] + offsets[i + 1] - 1 - row, 1);
          }
        }
      });
  moved(
      with("sequence_concat", "", 4 * read), [&] { lod::sequence_concat_into(executor, x, x, y); },
      [&](Copies& copies) {
        for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
          const std::int64_t length = offsets[i + 1] - offsets[i];
          copies.add(copied, 2 * offsets[i], x, offsets[i], length);
          copies.add(copied, 2 * offsets[i] + length, x, offsets[i], length);
        }
      });
  std::vector<std::int64_t> every(host_lengths.size());
  std::iota(every.rbegin(), every.rend(), std::int64_t{0});
  moved(
      with("select", "", 2 * read), [&] { lod::select_into(executor, x, every, y); },
      [&](Copies& copies) {
        std::int64_t to = 0;
        for (const std::int64_t id : every) {
          const auto i = static_cast<std::size_t>(id);
          copies.add(copied, to, x, offsets[i], host_lengths[i]);
          to += host_lengths[i];
        }
      });
  // The middle of each.
  std::vector<std::int64_t> first, counts;
  for (const std::int64_t length : host_lengths) {
    first.push_back(length / 4);
    counts.push_back((length + 1) / 2);
  }
  const std::int64_t kept = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  moved(
      with("sequence_slice", "", 2 * 256 * kept), [&] { lod::sequence_slice_into(executor, x, first, counts, y); },
      [&](Copies& copies) {
        std::int64_t to = 0;
        for (std::size_t i = 0; i < counts.size(); ++i) {
          copies.add(copied, to, x, offsets[i] + first[i], counts[i]);
          to += counts[i];
        }
      });

  table.row(
      with("sequence_pad", "", read + 256 * index.size(-1) * work.length),
      [&] { lod::sequence_pad_into(executor, x, {}, y, lengths); }, of(executor, y));
  table.row(
      with("sequence_unpad", "", 2 * read), [&] { lod::sequence_unpad_into(executor, y, host_lengths, z); },
      of(executor, z));
  lod::sequence_pool_into(executor, x, PoolType::SUM, y);
  table.row(
      with("sequence_expand_as", "", read + pooled), [&] { lod::sequence_expand_as_into(executor, y, index, z); },
      of(executor, z));
  const auto ids = row_numbers(executor, index);
  copied.resize(LoD(), {64}, index.size(-1));
  table.row(with("sequence_expand_as_grad", "", read + pooled),
            [&] { lod::sequence_expand_as_grad_into(executor, x, index, y); }, of(executor, y),
            {"atomicAdd", [&] {
               benchmarks::added_atomically(static_cast<const std::int32_t*>(ids.data()), x.data(), index.rows(), 64,
                                            copied.data(), index.size(-1), executor.stream());
             }});
}

void rows_by_id(const lod::CudaExecutor& executor, Table& table, std::int64_t bytes) {
  const std::int64_t height = std::min<std::int64_t>(4'000'000, bytes / 64), listed = height / 2, row_size = 64;
  const auto parameter = numbers(executor, LoDTensor<float>({height, row_size}));
  Workload work{.row_size = row_size, .rows = listed, .height = height};
  const std::int64_t read = listed * (4 * row_size + 8);
  for (const char* const distribution : {"uniform", "zipf", "same"}) {
    work.data = distribution;
    const std::vector<std::int64_t> rows = benchmarks::ids(distribution, listed, height);
    work.ids = table.file("ids-" + work.data + ".int64", rows);
    SelectedRows<float> on_cpu(rows, height, {row_size});
    for (float& number : on_cpu.value().values()) number = 1;
    const auto g = lod::to<Cuda>(executor, on_cpu);
    SelectedRows<float, Cuda> merged(executor.resource());
    work.op = "merge_add";
    work.bytes = 2 * read;
    table.row(
        work, [&] { lod::merge_add_into(executor, g, merged); },
        [&] { return lod::to<lod::Cpu>(executor, merged).value(); });
    work.op = "adam";
    work.variant = "LAZY";
    work.bytes = 7 * read;
    work.in_place = true;
    auto weights = parameter;
    Tensor<float> mean = lod::to<Cuda>(executor, LoDTensor<float>({height, row_size})), squares = mean;
    table.row(
        work, [&] { lod::adam(executor, weights, mean, squares, g, {.step = 1, .mode = lod::Sparse::LAZY}); },
        of(executor, weights));
    work.in_place = false;
    work.variant = "";
  }
  const LoD index = batch_of("u16", listed);
  work.sequences = index.size(-1);
  work.offsets = table.file("offsets-ids.int64", index.offsets(-1));
  work.op = "embedding_pool";
  work.variant = "SUM";
  work.bytes = read + index.size(-1) * 4 * row_size;
  for (const char* const distribution : {"uniform", "zipf"}) {
    work.data = distribution;
    LoDTensor<std::int64_t> on_cpu(index, {});
    std::ranges::copy(benchmarks::ids(distribution, listed, height), on_cpu.values().begin());
    work.ids = table.file("ids-" + work.data + ".int64", on_cpu.values());
    const auto ids = lod::to<Cuda>(executor, on_cpu);
    Tensor<float> y(executor.resource());
    table.row(
        work, [&] { lod::embedding_pool_into(executor, parameter, ids, PoolType::SUM, {}, y); }, of(executor, y));
  }
}

/// The sequences of a batch whose lengths differ as words' frequencies do, read by an LSTM with as many units as
/// numbers a row: 64 rows for each mebibyte that others have, since each row meets all weights.
void recurrent(const lod::CudaExecutor& executor, Table& table, std::int64_t bytes) {
  const LoD index = batch_of("zipf11", bytes >> 14);
  for (const std::int64_t size : {256, 512}) {
    const auto x = numbers(executor, LoDTensor<float>(index, {size}));
    // Around 0, so that gates are neither shut nor open; the peers make the same numbers without rounding.
    const auto weights = [&] {
      LoDTensor<float> on_cpu = lod::to<lod::Cpu>(executor, numbers(executor, LoDTensor<float>({size, 4 * size})));
      for (float& number : on_cpu.values()) number = (number - 0.5F) * 0.125F;
      return lod::to<Cuda>(executor, on_cpu);
    };
    const lod::LstmWeights<float, Cuda> of_gates{.input = weights(), .recurrent = weights()};
    lod::Lstm<float, Cuda> y{
        Tensor<float>(executor.resource()), Tensor<float>(executor.resource()), Tensor<float>(executor.resource()), {}};
    table.row(
        {.op = "lstm",
         .data = "zipf11",
         .row_size = size,
         .rows = index.rows(),
         .sequences = index.size(-1),
         .bytes = 8 * size * (index.rows() + 4 * size),
         .offsets = table.file("offsets-zipf11-lstm.int64", index.offsets(-1)),
         .length = index.max_length(-1)},
        [&] { lod::lstm_into(executor, x, of_gates, {}, y.hidden, y.last_hidden, y.last_cell, y.trace); },
        of(executor, y.hidden));
  }
}

/// Attention of the rows of each sequence to each other, in 8 heads of 64 numbers of 16 bits, to rows up to their own
/// place and to all; as many rows as the LSTM has.
void attention(const lod::CudaExecutor& executor, Table& table, std::int64_t bytes) {
  const LoD index = batch_of("zipf11", bytes >> 14);
  constexpr std::int64_t heads = 8, row_size = heads * 64;
  const auto exact = lod::to<lod::Cpu>(executor, numbers(executor, LoDTensor<float>(index, {row_size})));
  LoDTensor<lod::bfloat16> rounded(index, {row_size});
  std::ranges::transform(exact.values(), rounded.values().begin(),
                         [](float number) { return static_cast<lod::bfloat16>(number); });
  const auto x = lod::to<Cuda>(executor, rounded);
  Tensor<lod::bfloat16> y(executor.resource());
  Tensor<float> sums(executor.resource());
  for (const bool causal : {false, true}) {
    table.row(
        {.op = "sequence_attention",
         .variant = causal ? "causal" : "",
         .data = "zipf11",
         .row_size = row_size,
         .rows = index.rows(),
         .sequences = index.size(-1),
         .bytes = (8 * row_size + 4 * heads) * index.rows(),
         .offsets = table.file("offsets-zipf11-attention.int64", index.offsets(-1)),
         .length = index.max_length(-1),
         .type = "bfloat16"},
        [&] { lod::sequence_attention_into(executor, x, x, x, {.heads = heads, .causal = causal}, y, sums); },
        of(executor, y));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::int64_t bytes = std::int64_t{256} << 20;
  std::string folder;
  bool quick = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument == "--quick") {
      quick = true;
    } else if (argument == "--output" && i + 1 < argc) {
      folder = argv[++i];
    } else if (const std::int64_t mebibytes = std::atoll(argv[i]); mebibytes > 0) {
      bytes = mebibytes << 20;
    } else {
      std::fprintf(stderr, "usage: benchmark_gpu [mebibytes] [--output FOLDER] [--quick]\n");
      return 2;
    }
  }
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::puts("skipped: there is no GPU");
    return 77;
  }
  if (!folder.empty()) std::filesystem::create_directories(folder);
  cudaDeviceProp properties{};
  lod::detail::check_cuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  std::printf("%s, float32, attention bfloat16\n\n", properties.name);
  CountingCudaResource resource;
  const lod::CudaExecutor executor(&resource);
  Table table(executor, resource, folder, quick);
  table.roof(bytes);
  scalar_rows(executor, table, bytes);
  wide_rows(executor, table, bytes);
  rows_by_id(executor, table, bytes);
  recurrent(executor, table, bytes);
  attention(executor, table, bytes);
  table.roof(bytes);
  table.write(properties.name, bytes);
}

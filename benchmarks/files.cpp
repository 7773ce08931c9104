// SPDX-License-Identifier: Apache-2.0
/// @file
/// What files cost, beside `cp` of the same file: saving and loading a tensor, opening a file, touching what is mapped,
/// taking a slice. In the folder that the environment variable LOD_BENCHMARK_FOLDER names, else where temporary files
/// are. The argument is the size in MiB: `--benchmark_filter=/64$` is the short form. What is read is in the memory of
/// the system already; files that are written are new each time.
#include <lod/io/file.hpp>

#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::string path_of(const std::string& name) {
  const char* given = std::getenv("LOD_BENCHMARK_FOLDER");
  const std::filesystem::path folder = given ? given : std::filesystem::temp_directory_path();
  return folder / ("lodtensor-benchmark-" + std::to_string(::getpid()) + name);
}

/// A tensor of so many MiB: sequences of 64 rows of 1 KiB.
const lod::LoDTensor<float>& tensor(std::int64_t mebibytes) {
  static std::map<std::int64_t, lod::LoDTensor<float>> all;
  lod::LoDTensor<float>& x = all[mebibytes];
  if (x.rows() == 0) {
    const std::vector<std::int64_t> lengths(static_cast<std::size_t>(mebibytes * 16), 64);
    x = lod::LoDTensor<float>(lod::LoD::from_lengths({lengths}), {256});
    std::iota(x.values().begin(), x.values().end(), 0.0F);
  }
  return x;
}

/// The tensor in a file, which is removed at the end of the program.
const std::string& file_of(std::int64_t mebibytes) {
  struct Files {
    std::map<std::int64_t, std::string> paths;
    ~Files() {
      for (const auto& [size, path] : paths) std::filesystem::remove(path);
    }
  };
  static Files files;
  std::string& path = files.paths[mebibytes];
  if (path.empty()) {
    path = path_of("-" + std::to_string(mebibytes) + ".lod");
    lod::save(path, {{"x", tensor(mebibytes)}});
  }
  return path;
}

/// Times call() alone: not what prepare() does before it, nor what becomes of its result.
template <class Prepare, class Call>
void measure(benchmark::State& state, const Prepare& prepare, const Call& call) {
  for (auto _ : state) {
    prepare();
    const auto begin = Clock::now();
    auto result = call();
    state.SetIterationTime(std::chrono::duration<double>(Clock::now() - begin).count());
    benchmark::DoNotOptimize(result);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) << 20);
}

const std::string& output() {
  static const std::string path = path_of("-output");
  return path;
}
void remove_output() { std::filesystem::remove(output()); }

/// Whether what was written is on the disk.
bool sync(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  const bool done = ::fsync(file) == 0;
  ::close(file);
  return done;
}

void cp(benchmark::State& state) {
  const std::string command = "cp '" + file_of(state.range(0)) + "' '" + output() + "'";
  measure(state, remove_output, [&] { return std::system(command.c_str()); });
  remove_output();
}

void cp_then_sync(benchmark::State& state) {
  const std::string command = "cp '" + file_of(state.range(0)) + "' '" + output() + "'";
  measure(state, remove_output, [&] { return std::system(command.c_str()) + sync(output()); });
  remove_output();
}

void save(benchmark::State& state) {
  const auto& x = tensor(state.range(0));
  measure(state, remove_output, [&] {
    lod::save(output(), {{"x", x}});
    return 0;
  });
  remove_output();
}

/// As `cp`, which does not wait either.
void save_without_waiting(benchmark::State& state) {
  const auto& x = tensor(state.range(0));
  measure(state, remove_output, [&] {
    lod::save(output(), {{"x", x}}, {.wait_for_disk = false});
    return 0;
  });
  remove_output();
}

void load(benchmark::State& state) {
  const std::string& path = file_of(state.range(0));
  measure(
      state, [] {}, [&] { return lod::load<lod::LoDTensor<float>>(path, "x"); });
}

/// For comparison: the file in new memory, by one call of the system, nothing checked.
void read(benchmark::State& state) {
  const std::string& path = file_of(state.range(0));
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path));
  measure(
      state, [] {},
      [&] {
        lod::Buffer<std::byte> memory(size, lod::Cpu::default_resource());
        const lod::detail::MappedFile file(path);
        file.read(0, memory.data(), static_cast<std::size_t>(size));
        return memory;
      });
}

void verify(benchmark::State& state) {
  const lod::File file = lod::File::open(file_of(state.range(0)));
  measure(
      state, [] {},
      [&] {
        file.verify();
        return 0;
      });
}

void open(benchmark::State& state) {
  const std::string& path = file_of(state.range(0));
  for (auto _ : state) {
    const lod::File file = lod::File::open(path);
    benchmark::DoNotOptimize(&file);
  }
}

void open_and_map(benchmark::State& state) {
  const std::string& path = file_of(state.range(0));
  for (auto _ : state) {
    const auto x = lod::File::open(path).tensor<float>("x");
    benchmark::DoNotOptimize(x.data());
  }
}

/// A number of each page, the first time.
void map_and_touch(benchmark::State& state) {
  const std::string& path = file_of(state.range(0));
  measure(
      state, [] {},
      [&] {
        auto x = lod::File::open(path).tensor<float>("x");
        float sum = 0;
        for (std::int64_t i = 0; i < x.rows(); i += 4) sum += x.data()[i * 256];
        benchmark::DoNotOptimize(sum);
        return x;
      });
}

/// Sequences all over an open file, with their values.
void slice(benchmark::State& state) {
  const lod::File file = lod::File::open(file_of(state.range(0)));
  const std::int64_t sequences = tensor(state.range(0)).size();
  std::int64_t next = 0;
  for (auto _ : state) {
    const auto x = file.slice<float>("x", {next});
    next = (next + 7919) % sequences;
    benchmark::DoNotOptimize(x.data()[0]);
  }
}

#define LOD_BENCHMARK_LARGE(name) BENCHMARK(name)->Arg(64)->Arg(1024)->Unit(benchmark::kMillisecond)->UseManualTime()
LOD_BENCHMARK_LARGE(cp);
LOD_BENCHMARK_LARGE(save_without_waiting);
LOD_BENCHMARK_LARGE(cp_then_sync);
LOD_BENCHMARK_LARGE(save);
LOD_BENCHMARK_LARGE(read);
LOD_BENCHMARK_LARGE(load);
LOD_BENCHMARK_LARGE(verify);
LOD_BENCHMARK_LARGE(map_and_touch);
BENCHMARK(open)->Arg(64)->Arg(1024)->Unit(benchmark::kMicrosecond);
BENCHMARK(open_and_map)->Arg(64)->Arg(1024)->Unit(benchmark::kMicrosecond);
BENCHMARK(slice)->Arg(64)->Arg(1024)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();

// SPDX-License-Identifier: Apache-2.0
#include "measure.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace benchmarks {
namespace {

/// Gathers the seconds of a call of each repetition of each benchmark; prints nothing.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration) continue;
      seconds[run.run_name.function_name].push_back(run.real_accumulated_time / static_cast<double>(run.iterations));
    }
  }
  std::map<std::string, std::vector<double>> seconds;
};

double seconds_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

void prepare_to_measure(std::string program) {
  std::string turns = "--benchmark_enable_random_interleaving=true";
  char* flags[] = {program.data(), turns.data(), nullptr};
  int count = 2;
  benchmark::Initialize(&count, flags);
}

std::map<std::string, std::vector<double>> measure(const std::vector<Contender>& contenders, const Patience& patience) {
  Collector collector;
  benchmark::ClearRegisteredBenchmarks();
  for (const Contender& contender : contenders) {
    contender.call();  // allocates what later calls reuse
    const double once = seconds_of(contender.call);
    const int repetitions =
        std::clamp(static_cast<int>(patience.seconds / once), patience.fewest_repetitions, patience.most_repetitions);
    const auto calls =
        std::clamp<std::int64_t>(static_cast<std::int64_t>(patience.repetition_seconds / once), 1, 1'000'000);
    benchmark::RegisterBenchmark(contender.by.c_str(),
                                 [&contender](benchmark::State& state) {
                                   // The peers in Python repeat a call before it is the next one's turn: here, too,
                                   // what fits a cache is there, whatever the others have brought in.
                                   contender.call();
                                   for (auto _ : state) contender.call();
                                 })
        ->UseRealTime()
        ->Iterations(calls)
        ->Repetitions(repetitions);
  }
  benchmark::RunSpecifiedBenchmarks(&collector);
  return std::move(collector.seconds);
}

}  // namespace benchmarks

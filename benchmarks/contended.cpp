// SPDX-License-Identifier: Apache-2.0
/// @file
/// benchmark_contended [SECONDS [BUSY...]]: operations beside so many processes that keep processors busy (0, and one
/// for each processor), on one thread and on as many as there are processors. Calls of both take turns, in batches, for
/// SECONDS (1) an operation. It prints the median and the 90th percentile of their times, in microseconds, and how many
/// times as long as on one thread the 90th percentile is: at most 1.5 is the goal beside other work.
#include <lod/executor.hpp>
#include <lod/lod.hpp>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

/// Processes that compute for as long as this lives.
class BusyProcesses {
 public:
  explicit BusyProcesses(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile double x = 1;;) x = x * 1.0001;
      }
      if (child > 0) children_.push_back(child);
    }
  }
  BusyProcesses(const BusyProcesses&) = delete;
  BusyProcesses& operator=(const BusyProcesses&) = delete;
  ~BusyProcesses() {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> children_;
};

struct Work {
  const char* name;
  std::function<void(const lod::CpuExecutor&)> call;
};

lod::LoDTensor<float> random_scalars(std::mt19937& engine, std::int64_t rows) {
  std::uniform_int_distribution<std::int64_t> length(0, 99);
  std::uniform_real_distribution<float> number(0, 1);
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = rows; left > 0; left -= lengths.back()) lengths.push_back(std::min(length(engine), left));
  lod::LoDTensor<float> x(lod::LoD::from_lengths({lengths}), {});
  std::ranges::generate(x.values(), [&] { return number(engine); });
  return x;
}

/// The microseconds of each call, in ascending order, for each of the executors.
std::array<std::vector<double>, 2> measure(const Work& work, const std::array<lod::CpuExecutor, 2>& executors,
                                           std::chrono::duration<double> seconds) {
  std::array<std::vector<double>, 2> times;
  for (const lod::CpuExecutor& executor : executors) work.call(executor);
  for (const auto end = Clock::now() + seconds; Clock::now() < end;) {
    for (std::size_t i = 0; i < executors.size(); ++i) {
      work.call(executors[i]);
      const auto stop = Clock::now() + seconds / 16;
      for (int call = 0; call < 20 && Clock::now() < stop; ++call) {
        const auto begin = Clock::now();
        work.call(executors[i]);
        times[i].push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
      }
    }
  }
  for (auto& one : times) std::ranges::sort(one);
  return times;
}

double percentile(const std::vector<double>& sorted, int percent) {
  return sorted[(sorted.size() - 1) * static_cast<std::size_t>(percent) / 100];
}

}  // namespace

int main(int count, char** values) {
  const std::chrono::duration<double> seconds(count > 1 ? std::atof(values[1]) : 1.0);
  const std::array executors{lod::CpuExecutor(1), lod::CpuExecutor()};
  std::vector<int> loads{0, executors[1].threads()};
  if (count > 2) loads.clear();
  for (int i = 2; i < count; ++i) loads.push_back(std::atoi(values[i]));

  std::mt19937 engine(1);
  const lod::LoDTensor<float> large = random_scalars(engine, std::int64_t{1} << 22),
                              medium = random_scalars(engine, std::int64_t{1} << 18);
  std::uniform_int_distribution<std::int64_t> id(0, 19999);
  std::vector<std::int64_t> ids(std::size_t{1} << 15);
  std::ranges::generate(ids, [&] { return id(engine); });
  const lod::SelectedRows<float> gradient(ids, 20000, {16});
  lod::LoDTensor<float> y;
  lod::LoDTensor<std::int64_t> order;
  lod::SelectedRows<float> merged;
  const Work works[] = {
      {"sequence_pool, 16 MiB",
       [&](const auto& executor) { lod::sequence_pool_into(executor, large, lod::PoolType::SUM, y); }},
      {"sequence_softmax, 16 MiB", [&](const auto& executor) { lod::sequence_softmax_into(executor, large, y); }},
      {"sequence_argsort, 1 MiB", [&](const auto& executor) { lod::sequence_argsort_into(executor, medium, order); }},
      {"sequence_pool, 1 MiB",
       [&](const auto& executor) { lod::sequence_pool_into(executor, medium, lod::PoolType::SUM, y); }},
      {"merge_add, 2 MiB", [&](const auto& executor) { lod::merge_add_into(executor, gradient, merged); }}};
  for (const int load : loads) {
    const BusyProcesses busy(load);
    std::printf("beside %d busy processes    1 thread: median, 90%%   %d threads: median, 90%%   90%%: times\n", load,
                executors[1].threads());
    for (const Work& work : works) {
      const auto [alone, shared] = measure(work, executors, seconds);
      if (alone.empty() || shared.empty()) continue;
      std::printf("%-26s %10.0f %10.0f %15.0f %10.0f %13.2f\n", work.name, percentile(alone, 50), percentile(alone, 90),
                  percentile(shared, 50), percentile(shared, 90), percentile(shared, 90) / percentile(alone, 90));
    }
  }
}

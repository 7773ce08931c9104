// SPDX-License-Identifier: Apache-2.0
/// @file
/// mpirun -n <ranks> benchmark_mpi_cost: measures latency, overhead and bandwidth of the network, then operations
/// between ranks beside what the cost model says of them. Rank 0 prints, in tables for Markdown.
#include <lod/lod.hpp>
#include <lod/mpi.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace {

namespace mpi = lod::mpi;

/// The seconds of the slowest rank in the best of some calls: others use the machine too.
template <class Call>
double seconds(int repetitions, const Call& call) {
  double best = std::numeric_limits<double>::max();
  for (int repetition = 0; repetition <= repetitions; ++repetition) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    call();
    double taken = MPI_Wtime() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (repetition > 0) best = std::min(best, taken);  // the first call takes the memory
  }
  return best;
}

/// Messages of all ranks to their next ones at the same time.
double seconds_around(const mpi::Communicator& ranks, int repetitions, int messages, std::size_t bytes) {
  const int to = (ranks.rank() + 1) % ranks.size(), from = (ranks.rank() + ranks.size() - 1) % ranks.size();
  const std::vector<char> sent(bytes);
  std::vector<std::vector<char>> received(static_cast<std::size_t>(messages), std::vector<char>(bytes));
  std::vector<MPI_Request> requests(static_cast<std::size_t>(messages) * 2);
  return seconds(repetitions, [&] {
    auto request = requests.begin();
    for (auto& one : received) {
      MPI_Irecv(one.data(), static_cast<int>(bytes), MPI_BYTE, from, 0, MPI_COMM_WORLD, &*request++);
    }
    for (int i = 0; i < messages; ++i) {
      MPI_Isend(sent.data(), static_cast<int>(bytes), MPI_BYTE, to, 0, MPI_COMM_WORLD, &*request++);
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  });
}

/// From a rank to the next one, as a message that goes around through all of them takes.
double seconds_to_next(const mpi::Communicator& ranks, int repetitions) {
  const int to = (ranks.rank() + 1) % ranks.size(), from = (ranks.rank() + ranks.size() - 1) % ranks.size();
  std::int64_t word = 0;
  const double around = seconds(repetitions, [&] {
    if (ranks.rank() == 0) MPI_Send(&word, 1, MPI_INT64_T, to, 0, MPI_COMM_WORLD);
    MPI_Recv(&word, 1, MPI_INT64_T, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (ranks.rank() != 0) MPI_Send(&word, 1, MPI_INT64_T, to, 0, MPI_COMM_WORLD);
  });
  return around / ranks.size();
}

mpi::Network measure(const mpi::Communicator& ranks, int repetitions) {
  constexpr int many = 100;
  constexpr std::size_t small = sizeof(lod::between_ranks::Header), large = 1 << 20;
  mpi::Network network;
  network.latency = seconds_to_next(ranks, repetitions * 4);
  const double one = seconds_around(ranks, repetitions * 4, 1, small);
  network.overhead = std::max(0.0, seconds_around(ranks, repetitions * 4, many + 1, small) - one) / many;
  network.bandwidth = large / (seconds_around(ranks, repetitions, 1, large) - one);
  return network;
}

class Table {
 public:
  Table(const mpi::Communicator& ranks, const mpi::Network& network, int repetitions)
      : ranks_(&ranks), network_(&network), repetitions_(repetitions) {}
  template <class Call>
  void row(const char* what, const mpi::Cost& cost, const Call& call) const {
    // Several in turn: ranks leave the barrier before at different times, by about a latency.
    constexpr int calls = 5;
    const double all = seconds(repetitions_, [&] {
      for (int i = 0; i < calls; ++i) call();
    });
    const double measured = all / calls;
    if (ranks_->rank() > 0) return;
    const double said = network_->seconds(cost);
    std::printf("| %s | %lld | %lld | %.3f | %.3f | %.2f |\n", what,
                static_cast<long long>(cost.messages + cost.collective_messages), static_cast<long long>(cost.bytes),
                said * 1e3, measured * 1e3, measured / said);
    std::fflush(stdout);
  }

 private:
  const mpi::Communicator* ranks_;
  const mpi::Network* network_;
  int repetitions_;
};

void compare(const mpi::Communicator& ranks, const mpi::Network& network, int repetitions) {
  constexpr int far = 1 << 20;
  const mpi::Communicator in_two_steps(MPI_COMM_WORLD, ranks.executor(), {2});
  const int count = ranks.size();
  const Table table(ranks, network, repetitions);
  if (ranks.rank() == 0) {
    std::printf("\n| on %d ranks | messages | bytes | model, ms | measured, ms | ratio |\n|---|---|---|---|---|---|\n",
                count);
  }
  table.row("`together`", mpi::cost_of_agreement(count, far), [&] { mpi::together(ranks, [] {}); });
  table.row("`together`, two steps", mpi::cost_of_agreement(count, 2), [&] { mpi::together(in_two_steps, [] {}); });
  std::vector<std::int64_t> each(static_cast<std::size_t>(count));
  std::iota(each.begin(), each.end(), 0);
  for (const std::int64_t rows : {1, 8, 4096}) {
    const lod::LoDTensor<float> x(lod::LoD::from_lengths({std::vector<std::int64_t>(each.size(), rows)}), {64});
    lod::LoDTensor<float> y;
    const std::string what = "`all_to_all`, " + std::to_string(rows) + " rows of 256 bytes to each";
    table.row(what.c_str(), mpi::cost_of_all_to_all(count, 2, rows * 256, far),
              [&] { mpi::all_to_all_into(ranks, x, each, y); });
    if (rows > 8) continue;
    table.row((what + ", two steps").c_str(), mpi::cost_of_all_to_all(count, 2, rows * 256, 2),
              [&] { mpi::all_to_all_into(in_two_steps, x, each, y); });
  }
  const lod::LoDTensor<float> one(lod::LoD::from_lengths({{1024}}), {64});
  lod::LoDTensor<float> y;
  table.row("`all_gather` of 256 KiB each", mpi::cost_of_all_gather(count, 2, 1 << 18, far),
            [&] { mpi::all_gather_into(ranks, one, y); });
  y = one;
  table.row("`broadcast` of 256 KiB", mpi::cost_of_broadcast(count, 2, 1 << 18, far),
            [&] { mpi::broadcast_into(ranks, 0, y); });
  for (const std::int64_t rows : {8, 16384}) {
    const lod::LoDTensor<float> x({rows, 64});
    const std::string what = "`all_reduce` of " + std::to_string(rows / 4) + " KiB";
    table.row(what.c_str(), mpi::cost_of_all_reduce(count, rows * 256, far),
              [&] { mpi::all_reduce_into(ranks, x, y); });
  }
  for (const std::int64_t rows : {64, 8192}) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(rows));
    std::iota(ids.begin(), ids.end(), rows * ranks.rank() / 2);  // half of them are the next rank's, too
    const lod::SelectedRows<float> g(ids, 1 << 20, {64});
    lod::SelectedRows<float> sum;
    const std::string what = "`all_reduce` of " + std::to_string(rows) + " ids each, rows of 256 bytes";
    table.row(what.c_str(), mpi::cost_of_all_reduce_rows(count, rows, rows * (count + 1) / 2, 256, far),
              [&] { mpi::all_reduce_into(ranks, g, sum); });
  }
}

/// What the model says of numbers of ranks that are not here.
void extrapolate(const mpi::Network& network) {
  constexpr int far = 1 << 30;
  std::printf("\ntwo steps from %d ranks on\n\n", mpi::two_steps_from(network));
  std::printf("| ranks | what | messages | in two steps | KiB | in two steps | ms | in two steps |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (const int ranks : {64, 1024, 16384}) {
    const auto row = [&](const char* what, const mpi::Cost& direct, const mpi::Cost& in_two) {
      const auto messages = [](const mpi::Cost& cost) {
        return static_cast<long long>(cost.messages + cost.collective_messages);
      };
      std::printf("| %d | %s | %lld | %lld | %lld | %lld | %.2f | %.2f |\n", ranks, what, messages(direct),
                  messages(in_two), static_cast<long long>(direct.bytes >> 10),
                  static_cast<long long>(in_two.bytes >> 10), network.seconds(direct) * 1e3,
                  network.seconds(in_two) * 1e3);
    };
    row("sizes alone", mpi::cost_of_agreement(ranks, far), mpi::cost_of_agreement(ranks, 2));
    row("`all_to_all`, a row of 256 bytes to each", mpi::cost_of_all_to_all(ranks, 2, 256, far),
        mpi::cost_of_all_to_all(ranks, 2, 256, 2));
    row("`all_to_all`, 64 KiB to each", mpi::cost_of_all_to_all(ranks, 2, 1 << 16, far),
        mpi::cost_of_all_to_all(ranks, 2, 1 << 16, 2));
    row("`all_reduce` of 64 KiB", mpi::cost_of_all_reduce(ranks, 1 << 16, far),
        mpi::cost_of_all_reduce(ranks, 1 << 16, 2));
    row("`all_reduce` of 64 MiB", mpi::cost_of_all_reduce(ranks, 1 << 26, far),
        mpi::cost_of_all_reduce(ranks, 1 << 26, 2));
    row("`all_reduce` of 50,000 ids each, 500,000 in all", mpi::cost_of_all_reduce_rows(ranks, 50000, 500000, 256, far),
        mpi::cost_of_all_reduce_rows(ranks, 50000, 500000, 256, 2));
  }
}

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  {
    const mpi::Communicator ranks(MPI_COMM_WORLD, lod::CpuExecutor(1));  // ranks may outnumber processors
    const int repetitions = count > 1 ? std::atoi(arguments[1]) : 100;
    mpi::Network network = measure(ranks, repetitions);
    MPI_Bcast(&network, sizeof network, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (ranks.rank() == 0) {
      std::printf("%d ranks: latency %.2f us, overhead %.3f us a message, bandwidth %.0f MB/s\n", ranks.size(),
                  network.latency * 1e6, network.overhead * 1e6, network.bandwidth / 1e6);
    }
    compare(ranks, network, repetitions);
    if (ranks.rank() == 0) extrapolate(network);
  }
  MPI_Finalize();
}

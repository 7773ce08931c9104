// SPDX-License-Identifier: Apache-2.0
/// @file
/// mpirun -n <ranks> benchmark_mpi: what exchanges between ranks take beside MPI_Alltoallv of the same bytes, laid out,
/// and what each rank sends. Rank 0 prints.
#include <lod/lod.hpp>
#include <lod/mpi.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

namespace mpi = lod::mpi;
using Engine = std::mt19937_64;

constexpr int repetitions = 40;

/// The seconds of the slowest rank, the least of many calls, since others may use the machine, of two contenders in
/// turns.
template <class Ours, class Theirs>
std::pair<double, double> seconds(const Ours& ours, const Theirs& theirs) {
  std::vector<double> times[2];
  for (int repetition = 0; repetition <= repetitions; ++repetition) {
    const auto time = [&](int which, const auto& call) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = MPI_Wtime();
      call();
      double taken = MPI_Wtime() - begin;
      MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (repetition > 0) times[which].push_back(taken);  // the first call takes the memory
    };
    time(0, ours);
    time(1, theirs);
  }
  return {std::ranges::min(times[0]), std::ranges::min(times[1])};
}

/// Sequences of 1 to 100 rows of 64 floats, 64 MiB of each rank.
void compare_all_to_all(const mpi::Communicator& ranks, bool in_order) {
  Engine engine(static_cast<std::uint64_t>(ranks.rank()) + 1);
  constexpr std::int64_t all_rows = (64 << 20) / 256;
  std::vector<std::int64_t> lengths, to;
  for (std::int64_t rows = 0; rows < all_rows; rows += lengths.back()) {
    lengths.push_back(std::min<std::int64_t>(1 + static_cast<std::int64_t>(engine() % 100), all_rows - rows));
    to.push_back(static_cast<std::int64_t>(engine() % static_cast<std::uint64_t>(ranks.size())));
  }
  if (in_order) std::sort(to.begin(), to.end());
  lod::LoDTensor<float> x(lod::LoD::from_lengths({lengths}), {64});
  std::iota(x.values().begin(), x.values().end(), 0.0F);

  const auto count = static_cast<std::size_t>(ranks.size());
  std::vector<int> sent(count), send_at(count), received(count), receive_at(count);
  for (std::size_t i = 0; i < to.size(); ++i)
    sent[static_cast<std::size_t>(to[i])] += static_cast<int>(lengths[i] * 64);
  MPI_Alltoall(sent.data(), 1, MPI_INT, received.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::exclusive_scan(sent.begin(), sent.end(), send_at.begin(), 0);
  std::exclusive_scan(received.begin(), received.end(), receive_at.begin(), 0);
  std::vector<float> arrived(static_cast<std::size_t>(std::reduce(received.begin(), received.end())));
  std::vector<std::int64_t> order(to.size());
  std::iota(order.begin(), order.end(), 0);
  const auto destination = [&](std::int64_t i) { return to[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return destination(a) < destination(b); });
  lod::LoDTensor<float> y, dx, laid_out = x;
  const auto exchange_back = [&] {
    MPI_Alltoallv(arrived.data(), received.data(), receive_at.data(), MPI_FLOAT, laid_out.data(), sent.data(),
                  send_at.data(), MPI_FLOAT, MPI_COMM_WORLD);
  };
  const auto exchange = [&] {
    MPI_Alltoallv(laid_out.data(), sent.data(), send_at.data(), MPI_FLOAT, arrived.data(), received.data(),
                  receive_at.data(), MPI_FLOAT, MPI_COMM_WORLD);
  };
  const auto lay_out = [&] {
    if (!in_order) lod::select_into(ranks.executor(), x, order, laid_out);
    exchange();
  };
  const auto [ours, laid_out_before] = seconds([&] { mpi::all_to_all_into(ranks, x, to, y); }, exchange);
  const auto [again, with_laying_out] = seconds([&] { mpi::all_to_all_into(ranks, x, to, y); }, lay_out);
  const auto [back, laid_out_back] =
      seconds([&] { mpi::all_to_all_grad_into(ranks, y, x.lod(), to, dx); }, exchange_back);
  if (ranks.rank() > 0) return;
  std::printf("all_to_all, 64 MiB a rank, %s: %.2f ms; of MPI_Alltoallv's speed on bytes that are laid out %.2f",
              in_order ? "sequences in order" : "sequences at random", ours * 1e3, laid_out_before / ours);
  if (!in_order) std::printf(", laying them out included %.2f", with_laying_out / again);
  std::printf("; back %.2f ms, %.2f\n", back * 1e3, laid_out_back / back);
}

/// Ids of which id k is drawn about as often as 1 / (k + 1), as words are.
std::vector<std::int64_t> zipf_ids(Engine& engine, std::int64_t count, std::int64_t height) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    const double uniform = static_cast<double>(engine() >> 11) * 0x1p-53;
    ids.push_back(static_cast<std::int64_t>(std::exp(uniform * std::log(static_cast<double>(height)))) - 1);
  }
  return ids;
}

template <class Call>
mpi::Traffic traffic(const mpi::Communicator& ranks, const Call& call) {
  const mpi::Traffic before = ranks.traffic();
  call();
  const mpi::Traffic& now = ranks.traffic();
  std::int64_t most[] = {now.collectives - before.collectives, now.messages - before.messages,
                         now.bytes - before.bytes};
  MPI_Allreduce(MPI_IN_PLACE, most, 3, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
  return {most[0], most[1], most[2]};
}

void print(const mpi::Communicator& ranks, const char* what, const mpi::Traffic& most, double needed) {
  if (ranks.rank() > 0) return;
  std::printf("%-38s %lld collective, %3lld messages, %9lld bytes a rank at most", what,
              static_cast<long long>(most.collectives), static_cast<long long>(most.messages),
              static_cast<long long>(most.bytes));
  if (needed > 0) std::printf(", %.2f of the rows that it must send", static_cast<double>(most.bytes) / needed);
  std::printf("\n");
}

void count_traffic(const mpi::Communicator& ranks) {
  Engine engine(static_cast<std::uint64_t>(ranks.rank()) + 1);
  const lod::LoDTensor<float> x(lod::LoD::from_lengths({std::vector<std::int64_t>(1000, 20)}), {64});
  std::vector<std::int64_t> to;
  for (int i = 0; i < 1000; ++i)
    to.push_back(static_cast<std::int64_t>(engine() % static_cast<unsigned>(ranks.size())));
  print(ranks, "scatter", traffic(ranks, [&] { static_cast<void>(mpi::scatter(ranks, x, 0)); }), 0);
  print(ranks, "all_to_all", traffic(ranks, [&] { static_cast<void>(mpi::all_to_all(ranks, x, to)); }), 0);

  constexpr std::int64_t height = 10'000'000, count = 50'000, row_size = 64;
  const lod::SelectedRows<float> g(zipf_ids(engine, count, height), height, {row_size});
  const auto merged = static_cast<double>(lod::merge_add(g).rows().size());
  lod::SelectedRows<float> sum;
  const mpi::Traffic most = traffic(ranks, [&] { sum = mpi::all_reduce(ranks, g); });
  // What it has merged, to the owners, and its share of the sum, to all others.
  const double others = ranks.size() - 1;
  double needed = (merged + static_cast<double>(sum.rows().size())) / ranks.size() * others * row_size * 4;
  MPI_Allreduce(MPI_IN_PLACE, &needed, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
  print(ranks, "all_reduce of 50000 rows, Zipf ids", most, needed);
}

/// A rank's 200,000 ids, whose rows of 64 floats are on all ranks, beside the exchange of the different ids and of
/// their rows alone.
void compare_look_up(const mpi::Communicator& ranks) {
  Engine engine(static_cast<std::uint64_t>(ranks.rank()) + 1);
  constexpr std::int64_t height = 10'000'000, row_size = 64;
  const auto ids = lod::LoDTensor<std::int64_t>::from_values({}, {}, zipf_ids(engine, 200'000, height));
  mpi::ShardedTable<float, lod::UniformRow> table(ranks, {row_size}, {.height = height});

  const auto count = static_cast<std::size_t>(ranks.size());
  std::vector<std::int64_t> distinct(ids.data(), ids.data() + ids.rows());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::stable_sort(distinct.begin(), distinct.end(),
                   [&](std::int64_t a, std::int64_t b) { return table.owner(a) < table.owner(b); });
  std::vector<int> wanted(count), given(count), wanted_at(count), given_at(count);
  for (const std::int64_t id : distinct) ++wanted[static_cast<std::size_t>(table.owner(id))];
  MPI_Alltoall(wanted.data(), 1, MPI_INT, given.data(), 1, MPI_INT, MPI_COMM_WORLD);
  std::exclusive_scan(wanted.begin(), wanted.end(), wanted_at.begin(), 0);
  std::exclusive_scan(given.begin(), given.end(), given_at.begin(), 0);
  const auto total = static_cast<std::size_t>(std::reduce(given.begin(), given.end()));
  std::vector<std::int64_t> asked(total);
  lod::LoDTensor<float> rows({static_cast<std::int64_t>(distinct.size()), row_size});
  lod::LoDTensor<float> replies({static_cast<std::int64_t>(total), row_size});
  const auto in_elements = [](std::vector<int> numbers) {
    for (int& number : numbers) number *= row_size;
    return numbers;
  };
  const auto rows_in = in_elements(wanted), rows_out = in_elements(given);
  const auto rows_in_at = in_elements(wanted_at), rows_out_at = in_elements(given_at);
  const auto ask = [&] {
    MPI_Alltoallv(distinct.data(), wanted.data(), wanted_at.data(), MPI_INT64_T, asked.data(), given.data(),
                  given_at.data(), MPI_INT64_T, MPI_COMM_WORLD);
  };
  const auto answer = [&] {
    MPI_Alltoallv(replies.data(), rows_out.data(), rows_out_at.data(), MPI_FLOAT, rows.data(), rows_in.data(),
                  rows_in_at.data(), MPI_FLOAT, MPI_COMM_WORLD);
  };
  lod::LoDTensor<float> y, by_exchange;
  const auto look_up = [&] { table.look_up_into(ids, {}, {}, y); };
  look_up();
  // Where the rows are, and where they go, worked out before.
  ask();
  const auto places_among = [](const std::vector<std::int64_t>& known, const auto& list) {
    std::unordered_map<std::int64_t, std::int64_t> places;
    for (const std::int64_t id : known) places.emplace(id, static_cast<std::int64_t>(places.size()));
    std::vector<std::int64_t> found;
    for (const std::int64_t id : list) found.push_back(places.at(id));
    return lod::LoDTensor<std::int64_t>::from_values({}, {}, found);
  };
  const auto positions = places_among(table.local_ids(), asked);
  const auto places = places_among(distinct, ids.values());
  const auto exchange = [&] {
    ask();
    answer();
  };
  const auto with_copies = [&] {
    ask();
    lod::embedding_into(ranks.executor(), table.local_rows(), positions, lod::EmbeddingOptions(), replies);
    answer();
    lod::embedding_into(ranks.executor(), rows, places, lod::EmbeddingOptions(), by_exchange);
  };
  const auto [ours, laid_out] = seconds(look_up, exchange);
  const auto [again, copied] = seconds(look_up, with_copies);
  const auto own = static_cast<std::size_t>(ranks.rank());
  double needed = static_cast<double>(distinct.size()) - wanted[own] + (static_cast<double>(total) - given[own]) * 32;
  needed *= 8;
  MPI_Allreduce(MPI_IN_PLACE, &needed, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  print(ranks, "look_up of 200000 rows, Zipf ids", traffic(ranks, look_up), needed);
  if (ranks.rank() > 0) return;
  std::printf(
      "look_up, 200000 ids a rank: %.2f ms; of MPI_Alltoallv's speed on ids and rows that are laid out %.2f, "
      "copying them from the table and to where ids are included %.2f\n",
      ours * 1e3, laid_out / ours, copied / again);
}

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  {
    const mpi::Communicator ranks(MPI_COMM_WORLD);
    compare_all_to_all(ranks, true);
    compare_all_to_all(ranks, false);
    count_traffic(ranks);
    compare_look_up(ranks);
  }
  MPI_Finalize();
}

// SPDX-License-Identifier: Apache-2.0
// What the cost model says is what ranks send, to the message and the byte.
#include "ranks.hpp"
#include <lod/ops.hpp>

#include <cstdint>
#include <numeric>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::SelectedRows;
using lod_test::all_ranks;
using lod_test::sent_in;
namespace mpi = lod::mpi;

namespace {

void check_cost(const mpi::Cost& cost, const mpi::Traffic& sent) {
  CHECK(sent.collectives == cost.collectives);
  CHECK(sent.messages == cost.messages);
  CHECK(sent.bytes == cost.bytes);
}
/// The rows of a sequence whose messages are merged with others, and of one whose are not.
constexpr std::int64_t row_counts[] = {1, 20, 2000};
constexpr std::int64_t bytes_of_row = 8 * sizeof(float);

}  // namespace

TEST_CASE("cost: together, scatter, gather, broadcast, all_gather, all_to_all send what it says") {
  const auto ranks = all_ranks();
  const int count = ranks.size(), from = lod_test::two_steps_from();
  check_cost(lod_test::cost_of_sizes(ranks), sent_in(ranks, [&] { mpi::together(ranks, [] {}); }));
  for (const std::int64_t rows : row_counts) {
    // A level of a sequence for each rank.
    const LoDTensor<float> x(LoD::from_lengths({std::vector<std::int64_t>(static_cast<std::size_t>(count), rows)}),
                             {8});
    const LoDTensor<float> one(LoD::from_lengths({{rows}}), {8});
    const std::int64_t bytes = rows * bytes_of_row;
    std::vector<std::int64_t> each(static_cast<std::size_t>(count));
    std::iota(each.begin(), each.end(), 0);
    for (int order = 0; order < 2; ++order) {
      check_cost(mpi::cost_of_all_to_all(count, 2, bytes, from),
                 sent_in(ranks, [&] { static_cast<void>(mpi::all_to_all(ranks, x, each)); }));
      std::reverse(each.begin(), each.end());
    }
    check_cost(mpi::cost_of_all_gather(count, 2, bytes, from),
               sent_in(ranks, [&] { static_cast<void>(mpi::all_gather(ranks, one)); }));
    const int root = count - 1;
    const auto scattered = sent_in(ranks, [&] { static_cast<void>(mpi::scatter(ranks, x, root)); });
    const auto broadcasted = sent_in(ranks, [&] { static_cast<void>(mpi::broadcast(ranks, root, one)); });
    const auto gathered = sent_in(ranks, [&] { static_cast<void>(mpi::gather(ranks, one, root)); });
    const auto agreed = lod_test::cost_of_sizes(ranks);
    if (ranks.rank() == root) {
      check_cost(mpi::cost_of_scatter(count, 2, bytes, from), scattered);
      check_cost(mpi::cost_of_broadcast(count, 2, bytes, from), broadcasted);
      check_cost(agreed, gathered);
    } else {
      // All others together send the root what it would send them.
      const auto all = mpi::cost_of_scatter(count, 2, bytes, from);
      CHECK((gathered.messages - agreed.messages) * (count - 1) == all.messages - agreed.messages);
      CHECK((gathered.bytes - agreed.bytes) * (count - 1) == all.bytes - agreed.bytes);
      check_cost(agreed, scattered);
    }
  }
}

TEST_CASE("cost: of ranks that have nothing for each other, only that they have memory is sent") {
  const auto ranks = all_ranks();
  const int count = ranks.size(), from = lod_test::two_steps_from();
  for (int levels = 1; levels <= 3; ++levels) {
    const std::vector<std::vector<std::int64_t>> lengths(static_cast<std::size_t>(levels), {1});
    const LoDTensor<float> x(LoD::from_lengths(lengths), {8});
    // What stays on its rank is no message.
    LoDTensor<float> y;
    check_cost(mpi::cost_of_all_to_all(count, 0, 0, from),
               sent_in(ranks, [&] { y = mpi::all_to_all(ranks, x, {ranks.rank()}); }));
    CHECK(lod_test::same_bits(y, x));
    const auto none = x.between(0, 0);
    const auto sent = sent_in(ranks, [&] { y = mpi::scatter(ranks, none, 0); });
    CHECK(sent.messages == lod_test::cost_of_sizes(ranks).messages);
    CHECK(lod_test::same_bits(y, none));
  }
}

TEST_CASE("cost: all_reduce sends what it says, on all ranks together") {
  const auto ranks = all_ranks();
  const int count = ranks.size(), from = lod_test::two_steps_from();
  const auto sum = [&](const mpi::Traffic& sent) {
    std::int64_t numbers[] = {sent.collectives, sent.messages, sent.bytes};
    MPI_Allreduce(MPI_IN_PLACE, numbers, 3, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return mpi::Traffic{numbers[0], numbers[1], numbers[2]};
  };
  for (const std::int64_t rows : row_counts) {
    const LoDTensor<float> x({rows * count, 8});
    check_cost(mpi::cost_of_all_reduce(count, rows * count * bytes_of_row, from),
               sent_in(ranks, [&] { static_cast<void>(mpi::all_reduce(ranks, x)); }));
    // The same ids on all ranks, which own even numbers of them only nearly: of so few bytes that this is the same to
    // messages, or of so many.
    std::vector<std::int64_t> ids(static_cast<std::size_t>(rows * count * (rows == 1 ? 4 : 1)));
    std::iota(ids.begin(), ids.end(), 0);
    const auto merged = static_cast<std::int64_t>(ids.size());
    const SelectedRows<float> g(ids, 2 * merged, {8});
    SelectedRows<float> all;
    const auto sent = sum(sent_in(ranks, [&] { all = mpi::all_reduce(ranks, g); }));
    CHECK(all.rows() == ids);
    const auto cost = mpi::cost_of_all_reduce_rows(count, merged, merged, bytes_of_row, from);
    CHECK(sent.collectives == cost.collectives * count);
    CHECK(sent.messages == cost.messages * count);
    if (count < from) CHECK(sent.bytes == cost.bytes * count);  // otherwise some rows go twice, by who owns them
  }
}

TEST_CASE("cost: two steps are for many ranks, and where latency is small") {
  const mpi::Network near{2e-6, 1e-6, 1e10}, far{5e-4, 1e-6, 1e10};
  CHECK(mpi::two_steps_from(near) < 32);
  CHECK(mpi::two_steps_from(far) > 200);
  const auto direct = mpi::cost_of_agreement(1024, 1 << 20), in_two = mpi::cost_of_agreement(1024, 2);
  CHECK(direct.collective_messages == 1023);
  CHECK(in_two.messages == 62);
  CHECK(in_two.bytes == direct.bytes / 33 * 64);
  CHECK(near.seconds(in_two) < near.seconds(direct) / 5);
  CHECK(mpi::cost_of_agreement(1).bytes == 0);
}

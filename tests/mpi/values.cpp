// SPDX-License-Identifier: Apache-2.0
// Values as they are: from one rank to another, from one to all, from all to one, from all to all.
#include "ranks.hpp"
#include "support/element_types.hpp"
#include <lod/ops.hpp>

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

using lod::AnyLoDTensor;
using lod::AnySelectedRows;
using lod::LoD;
using lod::LoDTensor;
using lod::SelectedRows;
using lod_test::all_ranks;
using lod_test::own;
using lod_test::same_bits;
using lod_test::same_rows;
namespace mpi = lod::mpi;

namespace {

/// A value with other contents, whose memory suffices or does not.
template <class T>
LoDTensor<T> other(std::int64_t rows) {
  return LoDTensor<T>(LoD::from_lengths({{rows}}), {2});
}

}  // namespace

TEST_CASE("all_gather: the batches of all ranks in the order of ranks, of every type") {
  const auto ranks = all_ranks();
  lod_test::for_each_type(lod_test::AllTypes(), [&]<class T>(std::type_identity<T>) {
    lod_test::for_each_sample(2, 3, [&](auto& engine, int levels) {
      const auto all = lod_test::batches<T>(engine, ranks, levels);
      CHECK(same_bits(mpi::all_gather(ranks, own(all, ranks)), lod::concat(all)));
    });
  });
}

TEST_CASE("gather: the same on one rank, and no sequences on the others") {
  const auto ranks = all_ranks();
  lod_test::for_each_sample(6, 3, [&](auto& engine, int levels) {
    const auto all = lod_test::batches<float>(engine, ranks, levels);
    const int root = static_cast<int>(lod_test::random_number(engine, 0, ranks.size() - 1));
    auto y = other<float>(lod_test::random_number(engine, 0, 99));
    mpi::gather_into(ranks, own(all, ranks), root, y);
    CHECK(same_bits(y, ranks.rank() == root ? lod::concat(all) : LoDTensor<float>(all[0].between(0, 0))));
    CHECK(same_bits(mpi::gather(ranks, own(all, ranks), root), y));
  });
}

TEST_CASE("all_gather: slices, whose offsets do not begin at 0") {
  const auto ranks = all_ranks();
  lod_test::for_each_sample(4, 3, [&](auto& engine, int levels) {
    const auto all = lod_test::batches<std::int32_t>(engine, ranks, levels);
    std::vector<LoDTensor<std::int32_t>> cut;
    for (const auto& x : all) cut.emplace_back(x.between(x.size() / 2, x.size()));
    const auto& x = own(all, ranks);
    CHECK(same_bits(mpi::all_gather(ranks, x.between(x.size() / 2, x.size())), lod::concat(cut)));
  });
}

TEST_CASE("all_gather: messages of more than one piece, where an element is in two of them") {
  const auto ranks = all_ranks(7);
  lod_test::for_each_sample(4, 2, [&](auto& engine, int levels) {
    const auto all = lod_test::batches<double>(engine, ranks, levels);
    CHECK(same_bits(mpi::all_gather(ranks, own(all, ranks)), lod::concat(all)));
    CHECK(same_bits(mpi::broadcast(ranks, 0, own(all, ranks)), all[0]));
  });
}

TEST_CASE("all_gather: row-sparse values, any-typed values, LoDs, and elements without a DataType") {
  const auto ranks = all_ranks();
  lod_test::Engine engine(lod_test::first_seed());
  for (int sample = 0; sample < 8; ++sample) {
    const auto sparse = lod_test::sparse_values<float>(engine, ranks, 30);
    const auto expected = lod_test::listed(sparse);
    CHECK(same_rows(mpi::all_gather(ranks, own(sparse, ranks)), expected));
    CHECK(same_rows(mpi::all_gather(ranks, AnySelectedRows(own(sparse, ranks))).copy<float>(), expected));
    const auto all = lod_test::batches<lod::bfloat16>(engine, ranks, 2);
    const auto joined = lod::concat(all);
    CHECK(same_bits(mpi::all_gather(ranks, AnyLoDTensor(own(all, ranks))), AnyLoDTensor(joined)));
    CHECK(mpi::all_gather(ranks, own(all, ranks).lod()) == joined.lod());
    const auto words = lod_test::batches<std::uint16_t>(engine, ranks, 1);
    CHECK(same_bits(mpi::all_gather(ranks, own(words, ranks)), lod::concat(words)));
  }
}

TEST_CASE("all_gather_into: reuses memory that suffices") {
  const auto ranks = all_ranks();
  lod_test::Engine engine(lod_test::first_seed());
  const auto all = lod_test::batches<float>(engine, ranks, 1);
  const auto x = lod::concat(all);
  LoDTensor<float> y(LoD::from_lengths({{x.rows() * ranks.size()}}), {3});
  const float* const memory = y.data();
  mpi::all_gather_into(ranks, x, y);
  if (x.rows() > 0) CHECK(y.data() == memory);
  CHECK(y.rows() == x.rows() * ranks.size());
}

TEST_CASE("broadcast: a value of any rank, of every kind") {
  const auto ranks = all_ranks();
  lod_test::Engine engine(lod_test::first_seed());
  for (int root = 0; root < ranks.size(); ++root) {
    const auto i = static_cast<std::size_t>(root);
    const auto all = lod_test::batches<double>(engine, ranks, root % 3);
    auto y = ranks.rank() == root ? all[i] : other<double>(50);
    mpi::broadcast_into(ranks, root, y);
    CHECK(same_bits(y, all[i]));
    CHECK(same_bits(mpi::broadcast(ranks, root, AnyLoDTensor(own(all, ranks))), AnyLoDTensor(all[i])));
    CHECK(mpi::broadcast(ranks, root, own(all, ranks).lod()) == all[i].lod());
    const auto sparse = lod_test::sparse_values<std::int64_t>(engine, ranks, 12);
    CHECK(same_rows(mpi::broadcast(ranks, root, own(sparse, ranks)), sparse[i]));
    const auto any = mpi::broadcast(ranks, root, AnySelectedRows(own(sparse, ranks)));
    CHECK(same_rows(any.copy<std::int64_t>(), sparse[i]));
  }
}

TEST_CASE("send: to the next rank, typed and any-typed values to be received as either") {
  const auto ranks = all_ranks(100);
  const int to = (ranks.rank() + 1) % ranks.size(), from = (ranks.rank() + ranks.size() - 1) % ranks.size();
  const auto i = static_cast<std::size_t>(from);
  lod_test::for_each_sample(3, 3, [&](auto& engine, int levels) {
    const auto all = lod_test::batches<float>(engine, ranks, levels);
    const auto sparse = lod_test::sparse_values<float>(engine, ranks, 9);
    auto sent = mpi::start_send(ranks, own(all, ranks), to, 5);
    CHECK(same_bits(mpi::receive<AnyLoDTensor>(ranks, from, 5), AnyLoDTensor(all[i])));
    sent.wait();
    const AnyLoDTensor any(own(all, ranks));
    sent = mpi::start_send(ranks, any, to);
    CHECK(same_bits(mpi::receive<LoDTensor<float>>(ranks, from), all[i]));
    sent.wait();
    const AnySelectedRows any_sparse(own(sparse, ranks));
    sent = mpi::start_send(ranks, any_sparse, to);
    CHECK(same_rows(mpi::receive<SelectedRows<float>>(ranks, from), sparse[i]));
    sent.wait();
    sent = mpi::start_send(ranks, own(all, ranks).lod(), to);
    CHECK(mpi::receive<LoD>(ranks, from) == all[i].lod());
    sent.wait();
  });
}

TEST_CASE("start_receive: several under one tag, waited for in another order than they were sent") {
  const auto ranks = all_ranks(64);
  const int to = (ranks.rank() + 1) % ranks.size(), from = (ranks.rank() + ranks.size() - 1) % ranks.size();
  lod_test::Engine engine(lod_test::first_seed());
  const auto first = lod_test::batches<float>(engine, ranks, 2, 7), second = lod_test::batches<float>(engine, ranks, 1);
  auto a = mpi::start_receive<LoDTensor<float>>(ranks, from);
  LoDTensor<float> y;
  auto b = mpi::start_receive_into(ranks, from, 0, y);
  auto sent_a = mpi::start_send(ranks, own(first, ranks), to), sent_b = mpi::start_send(ranks, own(second, ranks), to);
  b.wait();
  CHECK(same_bits(y, second[static_cast<std::size_t>(from)]));
  CHECK(same_bits(a.wait(), first[static_cast<std::size_t>(from)]));
  sent_b.wait();
  while (!sent_a.ready()) {
  }
  sent_a.wait();
}

TEST_CASE("start_all_gather: operations under way at the same time end in any order") {
  const auto ranks = all_ranks(40);
  lod_test::Engine engine(lod_test::first_seed());
  for (int sample = 0; sample < 4; ++sample) {
    const auto a = lod_test::batches<float>(engine, ranks, 2), b = lod_test::batches<float>(engine, ranks, 1);
    const int root = sample % ranks.size();
    auto gathered = mpi::start_all_gather(ranks, own(a, ranks));
    auto from_root = mpi::start_broadcast(ranks, root, own(b, ranks));
    LoDTensor<float> y;
    auto on_root = mpi::start_gather_into(ranks, own(b, ranks), root, y);
    const auto check_gathered = [&] { CHECK(same_bits(gathered.wait(), lod::concat(a))); };
    const auto check_from_root = [&] {
      CHECK(same_bits(from_root.wait(), b[static_cast<std::size_t>(root)]));
      on_root.wait();
      CHECK(same_bits(y, ranks.rank() == root ? lod::concat(b) : LoDTensor<float>(b[0].between(0, 0))));
    };
    if (ranks.rank() % 2 == 0) {
      check_gathered();
      check_from_root();
    } else {
      check_from_root();
      check_gathered();
    }
  }
}

TEST_CASE("Communicator: the user's ranks in the user's order, and messages that no others meet") {
  int world = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &world);
  MPI_Comm halves = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world % 2, -world, &halves);
  {
    const mpi::Communicator ranks(halves), again(halves);
    auto x = LoDTensor<std::int64_t>::from_values(LoD(), {}, {world});
    int number = world;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Isend(&number, 1, MPI_INT, ranks.rank(), 0, halves, &request);
    auto under_way = mpi::start_all_gather(again, x);
    const auto y = mpi::all_gather(ranks, x);
    CHECK(y.rows() == ranks.size());
    CHECK(std::is_sorted(y.values().rbegin(), y.values().rend()));
    CHECK(same_bits(under_way.wait(), y));
    int received = -1;
    MPI_Recv(&received, 1, MPI_INT, ranks.rank(), 0, halves, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(received == world);
  }
  MPI_Comm_free(&halves);
}

TEST_CASE("traffic: one collective for the sizes, and the bytes of the values") {
  const auto ranks = all_ranks();
  const LoDTensor<float> x({1000, 10});
  const auto before = ranks.traffic();
  static_cast<void>(mpi::all_gather(ranks, x));
  CHECK(ranks.traffic().collectives - before.collectives == lod_test::collectives(ranks));
  const std::int64_t bytes = ranks.traffic().bytes - before.bytes, others = ranks.size() - 1;
  CHECK(bytes >= 40000 * others);
  CHECK(bytes <= 45000 * others);
}

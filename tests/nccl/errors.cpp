// SPDX-License-Identifier: Apache-2.0
// Errors between GPUs: on one rank they reach all before anything is enqueued; those of NCCL have its text.
#include "nccl/gpus.hpp"

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::SelectedRows;
using lod_test::check_fails_together;
using lod_test::Gpus;
using lod_test::same_bits;
namespace mpi = lod::mpi;
namespace nccl = lod::nccl;

namespace {

/// That the ranks still understand each other.
void check_works_on_gpus(const Gpus& gpus) {
  const auto x = gpus.there(LoDTensor<std::int64_t>::from_values(LoD(), {}, {gpus.ranks.rank()}));
  const auto y = gpus.here(nccl::all_gather(gpus.ranks, x));
  CHECK(y.rows() == gpus.ranks.size());
  CHECK(y.values().back() == gpus.ranks.size() - 1);
}

}  // namespace

TEST_CASE("GPUs: what does not fit the other ranks' is an error on all, and nothing is enqueued") {
  const Gpus gpus;
  const auto usual = gpus.there(LoDTensor<float>(LoD::from_lengths({{2}}), {3}));
  const auto odd = gpus.there(LoDTensor<float>(LoD::from_lengths({{2}}), {4}));
  const auto longer = gpus.there(LoDTensor<float>(LoD::from_lengths({{3}}), {3}));
  const std::int64_t calls = lod_test::emulated_nccl::calls();
  for (int rank = 1; rank < gpus.ranks.size(); ++rank) {
    const bool is_odd = gpus.ranks.rank() == rank;
    const std::string where = ": rank " + std::to_string(rank) + ": ";
    LoDTensor<float, lod::Cuda> y(gpus.executor.resource());
    CHECK_THROWS_WITH_AS(nccl::all_gather_into(gpus.ranks, is_odd ? odd : usual, y),
                         doctest::Contains(("all_gather" + where + "rows of shape {4}, expected {3}").c_str()),
                         lod::ShapeMismatch);
    CHECK_THROWS_WITH_AS(nccl::all_reduce_into(gpus.ranks, is_odd ? longer : usual, y),
                         doctest::Contains(("all_reduce" + where + "3 rows, expected 2").c_str()), lod::ShapeMismatch);
    CHECK(y.rows() == 0);
  }
  CHECK(lod_test::emulated_nccl::calls() == calls);
  check_works_on_gpus(gpus);
}

TEST_CASE("GPUs: a rank that cannot do its part, or has no memory, throws its own error, the others name it") {
  const Gpus gpus;
  const auto x = gpus.there(LoDTensor<float>({6, 3}));
  for (int rank = 0; rank < gpus.ranks.size(); ++rank) {
    const bool fails = gpus.ranks.rank() == rank;
    const std::int64_t calls = lod_test::emulated_nccl::calls();
    check_fails_together<lod::ShapeMismatch>(gpus.hosts, rank, "destinations, expected 6", [&] {
      static_cast<void>(nccl::all_to_all(gpus.ranks, x, std::vector<std::int64_t>(fails ? 5 : 6)));
    });
    auto y = x;
    check_fails_together<std::invalid_argument>(gpus.hosts, rank, "overlaps", [&] {
      LoDTensor<float, lod::Cuda> other(gpus.executor.resource());
      nccl::all_gather_into(gpus.ranks, y, fails ? y : other);
    });
    const auto out_of_memory = [&](const auto& call) {
      const LoDTensor<float, lod::Cuda> none(gpus.executor.resource());
      if (fails) lod_test::emulated_cuda::fail_next("cudaMallocFromPoolAsync", cudaErrorMemoryAllocation);
      check_fails_together<lod::CudaError>(gpus.hosts, rank, "cudaMallocFromPoolAsync", call);
    };
    out_of_memory([&] { static_cast<void>(nccl::all_gather(gpus.ranks, x)); });
    out_of_memory([&] { static_cast<void>(nccl::all_reduce(gpus.ranks, x)); });
    // To the rank that has none.
    out_of_memory([&] { static_cast<void>(nccl::all_to_all(gpus.ranks, x, std::vector<std::int64_t>(6, rank))); });
    const SelectedRows<float, lod::Cuda> g = gpus.there(SelectedRows<float>({1, 2}, 5, {3}));
    out_of_memory([&] { static_cast<void>(nccl::all_reduce(gpus.ranks, g)); });
    out_of_memory([&] { static_cast<void>(nccl::all_reduce_and_wait(gpus.ranks, g)); });
    CHECK(lod_test::emulated_nccl::calls() == calls);
  }
  check_works_on_gpus(gpus);
}

TEST_CASE("GPUs: a receiver's error is one of the sender, and the other way round") {
  const Gpus gpus;
  if (gpus.ranks.size() == 1) return;
  const auto x = gpus.there(LoDTensor<float>({6, 3}));
  const bool sends = gpus.ranks.rank() == 0, receives = gpus.ranks.rank() == 1;
  if (sends) {
    CHECK_THROWS_WITH_AS(nccl::send(gpus.ranks, x, 1), doctest::Contains("rank 1: receive: rank 0: data type"),
                         mpi::RankError);
  } else if (receives) {
    CHECK_THROWS_AS(static_cast<void>(nccl::receive<LoDTensor<double, lod::Cuda>>(gpus.ranks, 0)), lod::ShapeMismatch);
  }
  SelectedRows<float, lod::Cuda> g = gpus.there(SelectedRows<float>({1, 2}, 5, {3}));
  g.value() = x;  // more values than ids
  if (sends) {
    CHECK_THROWS_AS(nccl::send(gpus.ranks, g, 1), lod::ShapeMismatch);
  } else if (receives) {
    CHECK_THROWS_WITH_AS(static_cast<void>(nccl::receive<SelectedRows<float, lod::Cuda>>(gpus.ranks, 0)),
                         doctest::Contains("rank 0: SelectedRows: 2 ids, but 6 rows"), mpi::RankError);
  }
  if (receives) lod_test::emulated_cuda::fail_next("cudaMallocFromPoolAsync", cudaErrorMemoryAllocation);
  if (sends) {
    CHECK_THROWS_AS(nccl::send(gpus.ranks, x, 1), mpi::RankError);
  } else if (receives) {
    CHECK_THROWS_AS(static_cast<void>(nccl::receive<LoDTensor<float, lod::Cuda>>(gpus.ranks, 0)), lod::CudaError);
  }
  CHECK_THROWS_AS(nccl::send(gpus.ranks, x, gpus.ranks.size()), lod::OutOfRange);
  check_works_on_gpus(gpus);
}

TEST_CASE("GPUs: errors of NCCL have its text and number, and work that failed is one of the next call") {
  std::optional<Gpus> gpus(std::in_place);
  const auto x = gpus->there(LoDTensor<float>({6, 3}));
  lod_test::emulated_nccl::fail_next("ncclGroupEnd", ncclSystemError);
  try {
    static_cast<void>(nccl::all_gather(gpus->ranks, x));
    CHECK_MESSAGE(false, "no exception");
  } catch (const nccl::NcclError& error) {
    CHECK(std::string(error.what()) == "ncclGroupEnd: an error of NCCL (the emulated one)");
    CHECK(error.code() == ncclSystemError);
  }
  // One that does not block is waited for.
  lod_test::emulated_nccl::fail_next("ncclGroupEnd", ncclInProgress);
  check_works_on_gpus(*gpus);

  gpus->ranks.synchronize();
  lod_test::emulated_nccl::set_state(ncclRemoteError);
  CHECK_THROWS_WITH_AS(gpus->ranks.synchronize(), doctest::Contains("enqueued work: remote process exited"),
                       nccl::NcclError);
  lod_test::emulated_nccl::set_state(ncclSuccess);
  CHECK(lod_test::emulated_nccl::live_communicators() == 0);  // it was aborted
  CHECK_THROWS_WITH_AS(static_cast<void>(nccl::all_gather(gpus->ranks, x)), doctest::Contains("it was aborted"),
                       nccl::NcclError);
  gpus.reset();
  check_works_on_gpus(Gpus());
  CHECK(lod_test::emulated_nccl::live_communicators() == 0);
}

TEST_CASE("GPUs: synchronize waits until all is done") {
  const Gpus gpus;
  const auto x = gpus.there(LoDTensor<float>({6, 3}));
  const auto y = nccl::all_gather(gpus.ranks, x);
  CHECK(cudaStreamQuery(gpus.executor.stream()) == cudaErrorNotReady);
  static_cast<void>(cudaGetLastError());
  gpus.ranks.synchronize();
  CHECK(cudaStreamQuery(gpus.executor.stream()) == cudaSuccess);
}

TEST_CASE("GPUs: a communicator of the user's, whose ranks and GPU must be those of the others") {
  const mpi::Communicator hosts = lod_test::all_ranks();
  const lod::CudaExecutor executor;
  ncclUniqueId id{};
  if (hosts.rank() == 0) CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  ncclComm_t of_user = nullptr;
  REQUIRE(ncclCommInitRank(&of_user, hosts.size(), id, hosts.rank()) == ncclSuccess);
  {
    const nccl::Communicator ranks(MPI_COMM_WORLD, of_user, executor);
    const auto x = lod::to<lod::Cuda>(executor, LoDTensor<float>({1}));
    CHECK(lod::to<lod::Cpu>(executor, nccl::all_gather(ranks, x)).rows() == hosts.size());
    if (hosts.size() > 1) {
      CHECK_THROWS_AS(nccl::Communicator(MPI_COMM_SELF, of_user, executor), std::invalid_argument);
      MPI_Comm turned = MPI_COMM_NULL;
      MPI_Comm_split(MPI_COMM_WORLD, 0, -hosts.rank(), &turned);
      // In the middle, if there is one, a rank keeps its number.
      CHECK_THROWS(nccl::Communicator(turned, of_user, executor));
      MPI_Comm_free(&turned);
    }
  }
  CHECK(lod_test::emulated_nccl::live_communicators() == 1);
  CHECK(ncclCommDestroy(of_user) == ncclSuccess);
}

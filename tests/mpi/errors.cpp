// SPDX-License-Identifier: Apache-2.0
// Errors on one rank reach all of them in the same call, and the next operation works.
#include "ranks.hpp"
#include "support/row_sparse.hpp"
#include <lod/ops.hpp>

#include <cstdint>
#include <functional>
#include <memory_resource>
#include <new>
#include <stdexcept>
#include <utility>

using lod::AnyLoDTensor;
using lod::LoD;
using lod::LoDTensor;
using lod::SelectedRows;
using lod_test::all_ranks;
using lod_test::check_fails_together;
using lod_test::same_bits;
namespace mpi = lod::mpi;

namespace {

/// Values that cannot be sent: more ids than rows.
SelectedRows<float> broken_rows() {
  SelectedRows<float> g({1, 2}, 5, {});
  g.value() = LoDTensor<float>({1});
  return g;
}

/// That the ranks still understand each other.
void check_works(const mpi::Communicator& ranks) {
  const auto x = LoDTensor<std::int64_t>::from_values(LoD(), {}, {ranks.rank()});
  const auto y = mpi::all_gather(ranks, x);
  CHECK(y.rows() == ranks.size());
  CHECK(y.values().back() == ranks.size() - 1);
}

/// Calls call(x) with a tensor that is `odd` on one rank and as all others' elsewhere, for each rank but the first,
/// with which the others are compared.
template <class X, class Call>
void with_odd_rank(const mpi::Communicator& ranks, const X& usual, const X& odd, const Call& call) {
  for (int rank = 1; rank < ranks.size(); ++rank) {
    call(ranks.rank() == rank ? odd : usual, rank);
    check_works(ranks);
  }
}

}  // namespace

TEST_CASE("all_gather, gather: what does not fit the other ranks' is an error on all, and names the rank") {
  const auto ranks = all_ranks();
  const LoDTensor<float> usual(LoD::from_lengths({{2}}), {3});
  LoDTensor<float> y(LoD::from_lengths({{1, 1}}), {5});
  const LoDTensor<float> before = y;
  const auto check_refused = [&]<class Error>(std::type_identity<Error>, const LoDTensor<float>& odd,
                                              const char* text) {
    with_odd_rank(ranks, usual, odd, [&](const LoDTensor<float>& x, int rank) {
      const std::string where = "rank " + std::to_string(rank) + ": " + text;
      CHECK_THROWS_WITH_AS(mpi::all_gather_into(ranks, x, y), doctest::Contains(("all_gather: " + where).c_str()),
                           Error);
      CHECK_THROWS_WITH_AS(mpi::gather_into(ranks, x, 0, y), doctest::Contains(("gather: " + where).c_str()), Error);
      CHECK(same_bits(y, before));
    });
  };
  check_refused(std::type_identity<lod::ShapeMismatch>(), LoDTensor<float>(LoD::from_lengths({{2}}), {4}),
                "rows of shape {4}, expected {3} as the first has");
  check_refused(std::type_identity<lod::InvalidLoD>(), LoDTensor<float>(LoD::from_lengths({{1}, {2}}), {3}),
                "2 levels, expected 1 as the first has");
  with_odd_rank<AnyLoDTensor>(ranks, LoDTensor<float>({2}), LoDTensor<double>({2}), [&](const auto& x, int) {
    CHECK_THROWS_WITH_AS(static_cast<void>(mpi::all_gather(ranks, x)),
                         doctest::Contains("data type: expected FP32, found FP64"), lod::ShapeMismatch);
  });
  with_odd_rank(ranks, SelectedRows<float>({1}, 5, {}), SelectedRows<float>({1}, 6, {}), [&](const auto& x, int) {
    CHECK_THROWS_WITH_AS(static_cast<void>(mpi::all_gather(ranks, x)), doctest::Contains("height 6, expected 5"),
                         lod::ShapeMismatch);
  });
}

TEST_CASE("all_gather, gather, broadcast: a rank that cannot do its part throws its own error, the others name it") {
  const auto ranks = all_ranks();
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto x = ranks.rank() == rank ? broken_rows() : SelectedRows<float>({1}, 5, {});
    const char* const text = "SelectedRows: 2 ids, but 1 rows of values";
    check_fails_together<lod::ShapeMismatch>(ranks, rank, text, [&] { static_cast<void>(mpi::all_gather(ranks, x)); });
    check_fails_together<lod::ShapeMismatch>(ranks, rank, text,
                                             [&] { static_cast<void>(mpi::gather(ranks, x, ranks.size() - 1)); });
    check_fails_together<lod::ShapeMismatch>(ranks, rank, text,
                                             [&] { static_cast<void>(mpi::broadcast(ranks, rank, x)); });
    auto pending = mpi::start_all_gather(ranks, x);
    check_fails_together<lod::ShapeMismatch>(ranks, rank, text, [&] { static_cast<void>(pending.wait()); });
    LoDTensor<float> y({3});
    const auto z = LoDTensor<float>({3});
    check_fails_together<std::invalid_argument>(ranks, rank, "all_gather: the output is the argument",
                                                [&] { mpi::all_gather_into(ranks, ranks.rank() == rank ? y : z, y); });
    check_works(ranks);
  }
}

TEST_CASE("several ranks that fail: each throws its own error, the others that of the first") {
  const auto ranks = all_ranks();
  if (ranks.size() < 3) return;
  const int root = ranks.rank() == 0 ? 0 : ranks.rank() == 1 ? -1 : 77;
  try {
    static_cast<void>(mpi::gather(ranks, LoDTensor<float>({1}), root));
    CHECK_MESSAGE(false, "no exception");
  } catch (const mpi::RankError& error) {
    CHECK(ranks.rank() == 0);
    CHECK(error.rank() == 1);
    CHECK(std::string(error.what()).starts_with("rank 1: gather: rank -1, expected 0 to "));
  } catch (const lod::OutOfRange&) {
    CHECK(ranks.rank() > 0);
  }
  check_works(ranks);
}

TEST_CASE("broadcast: an output of another type, another root and another operation are errors on all ranks") {
  const auto ranks = all_ranks();
  if (ranks.size() == 1) return;
  const int odd = ranks.size() - 1;
  const auto call = [&]() {
    if (ranks.rank() == odd) {
      static_cast<void>(mpi::broadcast(ranks, 0, LoDTensor<double>({1})));
    } else {
      static_cast<void>(mpi::broadcast(ranks, 0, LoDTensor<float>({1})));
    }
  };
  CHECK_THROWS_WITH_AS(call(), doctest::Contains("data type: expected FP64, found FP32"), lod::ShapeMismatch);
  const int root = ranks.rank() == odd ? 1 : 0;
  CHECK_THROWS_WITH_AS(static_cast<void>(mpi::broadcast(ranks, root, LoDTensor<float>({1}))),
                       doctest::Contains("broadcast: root 1, expected 0 as rank 0 has"), mpi::RankError);
  const auto other_call = [&] {
    const LoDTensor<float> x({1});
    static_cast<void>(ranks.rank() == odd ? mpi::all_gather(ranks, x) : mpi::gather(ranks, x, 0));
  };
  CHECK_THROWS_WITH_AS(other_call(), doctest::Contains("calls all_gather where rank 0 calls gather"), mpi::RankError);
  check_works(ranks);
}

TEST_CASE("a rank without memory for its result does not keep the others waiting") {
  lod_test::NoMemory none;
  const lod::CpuExecutor poor(1, &none);
  for (const std::int64_t piece : {std::int64_t{5}, std::int64_t{1} << 20}) {
    const auto ranks = all_ranks(piece);
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const LoDTensor<float> x({60, 3});
      LoDTensor<float> y(ranks.rank() == rank ? static_cast<std::pmr::memory_resource*>(&none)
                                              : std::pmr::get_default_resource());
      // Each tells each other one.
      check_fails_together<std::bad_alloc>(ranks, rank, "bad_alloc", [&] { mpi::all_gather_into(ranks, x, y); });
      // The others have their results.
      const auto check_own = [&](const std::function<void()>& call, std::int64_t rows) {
        if (ranks.rank() == rank) {
          CHECK_THROWS_AS(call(), std::bad_alloc);
          CHECK(y.rows() == 0);
        } else {
          call();
          CHECK(y.rows() == rows);
        }
      };
      check_own([&] { mpi::gather_into(ranks, x, rank, y); }, 0);
      for (int root = 0; root < ranks.size(); ++root) {
        if (root == rank) continue;
        if (ranks.rank() != rank) y = x;
        check_own([&] { mpi::broadcast_into(ranks, root, y); }, 60);
      }
      check_works(ranks);
    }
  }
}

TEST_CASE("receive: what is not expected is dropped, and an error; what could not be sent too") {
  const auto ranks = all_ranks();
  const int to = (ranks.rank() + 1) % ranks.size(), from = (ranks.rank() + ranks.size() - 1) % ranks.size();
  const LoDTensor<float> x({1000, 100});
  const auto broken = broken_rows();
  auto first = mpi::start_send(ranks, x, to), second = mpi::start_send(ranks, broken, to);
  auto third = mpi::start_send(ranks, x, to);
  CHECK_THROWS_WITH_AS(static_cast<void>(mpi::receive<LoDTensor<double>>(ranks, from)),
                       doctest::Contains("data type: expected FP64, found FP32"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(static_cast<void>(mpi::receive<SelectedRows<float>>(ranks, from)),
                       doctest::Contains("SelectedRows: 2 ids, but 1 rows of values"), mpi::RankError);
  CHECK_THROWS_WITH_AS(static_cast<void>(mpi::receive<LoD>(ranks, from)),
                       doctest::Contains("expected a LoD, found a tensor"), lod::ShapeMismatch);
  first.wait();
  CHECK_THROWS_AS(second.wait(), lod::ShapeMismatch);
  third.wait();
  CHECK_THROWS_AS(mpi::send(ranks, x, ranks.size()), lod::OutOfRange);
  CHECK_THROWS_AS(mpi::send(ranks, x, 0, 8192), lod::OutOfRange);
  CHECK_THROWS_AS(static_cast<void>(mpi::receive<LoD>(ranks, -1)), lod::OutOfRange);
  check_works(ranks);
}

TEST_CASE("Communicator: errors of MPI have its text") {
  CHECK_THROWS_AS(lod::between_ranks::check(MPI_ERR_COMM, "MPI_Send"), mpi::MpiError);
  try {
    lod::between_ranks::check(MPI_ERR_RANK, "MPI_Send");
  } catch (const mpi::MpiError& error) {
    char words[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(MPI_ERR_RANK, words, &length);
    CHECK(length > 0);
    CHECK(error.what() == "MPI_Send: " + std::string(words));
    CHECK(error.code() == MPI_ERR_RANK);
  }
  int size = 1, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (size == 1) return;
  MPI_Comm half = MPI_COMM_NULL, between = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank > 0, 0, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 0, &between);
  CHECK_THROWS_AS(mpi::Communicator{between}, std::invalid_argument);
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
}

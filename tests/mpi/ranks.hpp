// SPDX-License-Identifier: Apache-2.0
/// @file
/// What the cases of several ranks share. All ranks draw the same numbers, so that each knows what the others have.
#pragma once

#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/same_bits.hpp"
#include <lod/mpi.hpp>
#include <lod/ops.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>

namespace lod_test {

/// From how many ranks on small blocks go in two steps: two, where the environment says so, as many would.
inline int two_steps_from() { return std::getenv("LOD_TEST_TWO_STEPS") ? 2 : lod::mpi::default_two_steps_from; }

/// The ranks of the run. With pieces of a few bytes, each message is many.
inline lod::mpi::Communicator all_ranks(std::int64_t piece = 0) {
  lod::mpi::Communicator ranks(MPI_COMM_WORLD, lod::default_executor<lod::Cpu>(), {two_steps_from()});
  if (piece > 0) lod::between_ranks::group_of(ranks).piece = piece;
  return ranks;
}

/// Random batches, one for each rank: some with sequences, some without; in every fourth set, one has all.
template <class T>
std::vector<lod::LoDTensor<T>> batches(Engine& engine, const lod::mpi::Communicator& ranks, int levels,
                                       std::int64_t row_size = 3) {
  std::vector<lod::LoDTensor<T>> all;
  const std::int64_t only = random_number(engine, 0, 3) == 0 ? random_number(engine, 0, ranks.size() - 1) : -1;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const bool none = only >= 0 && only != rank;
    Lengths lengths = RandomLoD{.levels = levels, .sequences = none ? 0 : 6}.lengths(engine);
    all.push_back(levels == 0 && none ? lod::LoDTensor<T>({0, row_size}) : random_tensor<T>(engine, lengths, row_size));
  }
  return all;
}

/// What an operation begins with: the sizes.
inline lod::mpi::Cost cost_of_sizes(const lod::mpi::Communicator& ranks) {
  return lod::mpi::cost_of_agreement(ranks.size(), two_steps_from());
}
/// The collectives of MPI among that.
inline std::int64_t collectives(const lod::mpi::Communicator& ranks) { return cost_of_sizes(ranks).collectives; }

/// What this rank sends in call().
template <class Call>
lod::mpi::Traffic sent_in(const lod::mpi::Communicator& ranks, const Call& call) {
  const lod::mpi::Traffic before = ranks.traffic();
  call();
  const lod::mpi::Traffic& now = ranks.traffic();
  return {now.collectives - before.collectives, now.messages - before.messages, now.bytes - before.bytes};
}

template <class X>
const X& own(const std::vector<X>& all, const lod::mpi::Communicator& ranks) {
  return all[static_cast<std::size_t>(ranks.rank())];
}

/// Calls body(engine, levels) for some samples of each number of levels.
template <class Body>
void for_each_sample(int count, int most_levels, const Body& body) {
  for (int levels = 0; levels <= most_levels; ++levels) {
    for (int i = 0; i < count; ++i) {
      INFO("LOD_TEST_SEED=", first_seed(), ": sample ", i, " of depth ", levels);
      Engine engine(first_seed() + static_cast<std::uint64_t>(i));
      body(engine, levels);
    }
  }
}

/// Memory that there is none of.
class NoMemory final : public std::pmr::memory_resource {
  void* do_allocate(std::size_t, std::size_t) override { throw std::bad_alloc(); }
  void do_deallocate(void*, std::size_t, std::size_t) override {}
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

/// Checks that call() fails on all ranks: on `rank` with an Error, on the others with a RankError that names it and has
/// the same text.
template <class Error, class Call>
void check_fails_together(const lod::mpi::Communicator& ranks, int rank, const char* text, const Call& call) {
  if (ranks.rank() == rank) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(text), Error);
    return;
  }
  try {
    call();
    CHECK_MESSAGE(false, "no exception");
  } catch (const lod::mpi::RankError& error) {
    CHECK(error.rank() == rank);
    CHECK(std::string(error.what()).find(text) != std::string::npos);
    CHECK(std::string(error.what()).starts_with("rank " + std::to_string(rank) + ": "));
  }
}

/// Row-sparse values for each rank.
template <class T>
std::vector<lod::SelectedRows<T>> sparse_values(Engine& engine, const lod::mpi::Communicator& ranks,
                                                std::int64_t height, std::int64_t row_size = 3) {
  std::vector<lod::SelectedRows<T>> all;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    std::vector<std::int64_t> ids;
    const std::int64_t count = random_number(engine, 0, 2) == 0 ? 0 : random_number(engine, 1, 20);
    for (std::int64_t i = 0; i < count; ++i) ids.push_back(random_number(engine, 0, height - 1));
    all.emplace_back(std::move(ids), height, small_integers<T>(engine, {count, row_size}));
  }
  return all;
}

template <class T>
bool same_rows(const lod::SelectedRows<T>& a, const lod::SelectedRows<T>& b) {
  return a.rows() == b.rows() && a.height() == b.height() && same_bits(a.value(), b.value());
}

/// Row-sparse values one after the other, as they are.
template <class T>
lod::SelectedRows<T> listed(const std::vector<lod::SelectedRows<T>>& all) {
  std::vector<std::int64_t> ids;
  std::vector<lod::LoDTensor<T>> values;
  for (const auto& g : all) {
    ids.insert(ids.end(), g.rows().begin(), g.rows().end());
    values.push_back(g.value());
  }
  return {std::move(ids), all.front().height(), lod::concat(values)};
}

}  // namespace lod_test

// SPDX-License-Identifier: Apache-2.0
// Sequences shared out between ranks, and their way back.
#include "ranks.hpp"
#include "support/element_types.hpp"
#include <lod/ops.hpp>

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod_test::all_ranks;
using lod_test::check_fails_together;
using lod_test::own;
using lod_test::same_bits;
namespace mpi = lod::mpi;

namespace {

using Destinations = std::vector<std::vector<std::int64_t>>;

/// For each rank's sequences where they go: at random, in order, or all to one.
template <class T>
Destinations destinations(lod_test::Engine& engine, const std::vector<LoDTensor<T>>& all, int kind) {
  Destinations to;
  const auto ranks = static_cast<std::int64_t>(all.size());
  const std::int64_t one = lod_test::random_number(engine, 0, ranks - 1);
  for (const auto& x : all) {
    to.emplace_back();
    for (std::int64_t i = 0; i < x.size(); ++i) {
      to.back().push_back(kind == 2 ? one : lod_test::random_number(engine, 0, ranks - 1));
    }
    if (kind == 1) std::sort(to.back().begin(), to.back().end());
  }
  return to;
}

/// What comes to a rank, in one process: the sequences for it of each rank, joined.
template <class T>
LoDTensor<T> arriving(const std::vector<LoDTensor<T>>& all, const Destinations& to, int rank) {
  std::vector<LoDTensor<T>> parts;
  for (std::size_t from = 0; from < all.size(); ++from) {
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < to[from].size(); ++i) {
      if (to[from][i] == rank) ids.push_back(static_cast<std::int64_t>(i));
    }
    parts.push_back(lod::select(all[from], ids));
  }
  return lod::concat(parts);
}

template <class T>
LoDTensor<T> sum_of_products(const LoDTensor<T>& a, const LoDTensor<T>& b) {
  LoDTensor<T> sum({1});
  sum.values()[0] = std::inner_product(a.values().begin(), a.values().end(), b.values().begin(), T{});
  return sum;
}
template <class T>
T total(const LoDTensor<T>& x) {
  return std::accumulate(x.values().begin(), x.values().end(), T{});
}

}  // namespace

TEST_CASE("scatter: the parts of split, of every type") {
  const auto ranks = all_ranks();
  lod_test::for_each_type(lod_test::AllTypes(), [&]<class T>(std::type_identity<T>) {
    lod_test::for_each_sample(2, 3, [&](auto& engine, int levels) {
      const auto all = lod_test::batches<T>(engine, ranks, levels);
      const int root = static_cast<int>(lod_test::random_number(engine, 0, ranks.size() - 1));
      const auto& x = all[static_cast<std::size_t>(root)];
      const auto expected = lod::split(x, ranks.size());
      // Others pass what they have.
      CHECK(same_bits(mpi::scatter(ranks, own(all, ranks), root), own(expected, ranks)));
    });
  });
}

TEST_CASE("scatter: its gradient is gather, and the way back exact") {
  const auto ranks = all_ranks(16);
  lod_test::for_each_sample(6, 3, [&](auto& engine, int levels) {
    const auto all = lod_test::batches<float>(engine, ranks, levels);
    const int root = static_cast<int>(lod_test::random_number(engine, 0, ranks.size() - 1));
    const auto& x = all[static_cast<std::size_t>(root)];
    LoDTensor<float> y({7}), back({9});
    mpi::scatter_into(ranks, x.between(x.size() / 3, x.size()), root, y);
    mpi::scatter_grad_into(ranks, y, root, back);
    const bool is_root = ranks.rank() == root;
    CHECK(same_bits(back, is_root ? x.between(x.size() / 3, x.size()) : x.between(0, 0)));
    CHECK(same_bits(mpi::scatter_grad(ranks, y, root), back));
  });
}

TEST_CASE("all_to_all: each sequence to its rank, in the order of ranks and of sequences, of every type") {
  const auto ranks = all_ranks();
  lod_test::for_each_type(lod_test::AllTypes(), [&]<class T>(std::type_identity<T>) {
    lod_test::for_each_sample(3, 3, [&](auto& engine, int levels) {
      const auto all = lod_test::batches<T>(engine, ranks, levels);
      const auto to = destinations(engine, all, levels % 3);
      CHECK(same_bits(mpi::all_to_all(ranks, own(all, ranks), own(to, ranks)), arriving(all, to, ranks.rank())));
    });
  });
}

TEST_CASE("all_to_all: the way back is exact, also of slices, of rows without elements and in pieces") {
  for (const std::int64_t piece : {std::int64_t{0}, std::int64_t{10}}) {
    const auto ranks = all_ranks(piece);
    lod_test::for_each_sample(9, 3, [&](auto& engine, int levels) {
      const auto kind = static_cast<int>(lod_test::random_number(engine, 0, 2));
      auto all = lod_test::batches<float>(engine, ranks, levels, lod_test::random_number(engine, 0, 2));
      for (auto& x : all) x = LoDTensor<float>(x.between(x.size() / 4, x.size()));
      const auto to = destinations(engine, all, kind);
      const auto& x = own(all, ranks);
      LoDTensor<float> y, back({100});
      mpi::all_to_all_into(ranks, x, own(to, ranks), y);
      CHECK(same_bits(y, arriving(all, to, ranks.rank())));
      mpi::all_to_all_grad_into(ranks, y, x.lod_view(), own(to, ranks), back);
      CHECK(same_bits(back, x));
      // The levels of dy do not count.
      const LoD none;
      CHECK(same_bits(mpi::all_to_all_grad(ranks, y.view().with_lod(none), x.lod_view(), own(to, ranks)), x));
    });
  }
}

TEST_CASE("all_to_all_grad: the adjoint") {
  const auto ranks = all_ranks();
  lod_test::for_each_sample(4, 2, [&](auto& engine, int levels) {
    const auto all = lod_test::batches<std::int64_t>(engine, ranks, levels);
    const auto to = destinations(engine, all, 0);
    const auto& x = own(all, ranks);
    const auto y = mpi::all_to_all(ranks, x, own(to, ranks));
    auto dy = y;
    for (std::size_t i = 0; i < dy.values().size(); ++i) dy.data()[i] = static_cast<std::int64_t>(i * 7 % 13) - 5;
    const auto dx = mpi::all_to_all_grad(ranks, dy, x.lod_view(), own(to, ranks));
    // <dy, y> = <dx, x>, over all ranks.
    CHECK(total(mpi::all_gather(ranks, sum_of_products(dy, y))) ==
          total(mpi::all_gather(ranks, sum_of_products(dx, x))));
  });
}

TEST_CASE("all_to_all, scatter: a collective for the sizes, and messages") {
  const auto ranks = all_ranks();
  const LoDTensor<float> x(LoD::from_lengths({std::vector<std::int64_t>(12, 5)}), {3});
  const std::vector<std::int64_t> to(12, ranks.size() - 1);
  for (int call = 0; call < 3; ++call) {
    const auto before = ranks.traffic();
    if (call == 0) static_cast<void>(mpi::scatter(ranks, x, 0));
    if (call == 1) static_cast<void>(mpi::all_to_all(ranks, x, to));
    if (call == 2) {
      const std::int64_t rows = ranks.rank() + 1 == ranks.size() ? 60 * ranks.size() : 0;
      static_cast<void>(mpi::all_to_all_grad(ranks, LoDTensor<float>({rows, 3}), x.lod(), to));
    }
    CHECK(ranks.traffic().collectives - before.collectives == lod_test::collectives(ranks));
    CHECK(ranks.traffic().messages - before.messages <= 3 * (ranks.size() - 1));
  }
}

TEST_CASE("all_to_all, scatter: errors on one rank are errors on all") {
  const auto ranks = all_ranks();
  const LoDTensor<float> x(LoD::from_lengths({{2, 3}}), {3});
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const bool odd = ranks.rank() == rank;
    const auto with = [&](std::vector<std::int64_t> wrong) { return odd ? wrong : std::vector<std::int64_t>{0, 0}; };
    check_fails_together<lod::ShapeMismatch>(ranks, rank, "all_to_all: 3 destinations, expected 2", [&] {
      static_cast<void>(mpi::all_to_all(ranks, x, with({0, 0, 0})));
    });
    check_fails_together<lod::OutOfRange>(ranks, rank, "all_to_all: id 99 at position 1", [&] {
      static_cast<void>(mpi::all_to_all(ranks, x, with({0, 99})));
    });
    check_fails_together<lod::OutOfRange>(ranks, rank, "all_to_all_grad: id -1 at position 0", [&] {
      static_cast<void>(mpi::all_to_all_grad(ranks, x, x.lod(), with({-1, 0})));
    });
    // What only the rank that it comes to can see.
    const std::int64_t arrived = ranks.rank() == 0 ? 5 * ranks.size() : 0;
    const LoDTensor<float> dy({arrived + (odd ? 1 : 0), 3});
    LoDTensor<float> dx({4});
    const auto before = dx;
    check_fails_together<lod::ShapeMismatch>(ranks, rank, "as many as have arrived", [&] {
      mpi::all_to_all_grad_into(ranks, dy, x.lod(), std::vector<std::int64_t>{0, 0}, dx);
    });
    CHECK(dx.lod() == before.lod());
    CHECK(dx.shape() == before.shape());
    LoDTensor<float> same = x;
    check_fails_together<std::invalid_argument>(ranks, rank, "the output is the argument", [&] {
      mpi::all_to_all_into(ranks, odd ? same : x, std::vector<std::int64_t>{0, 0}, same);
    });
    if (rank > 0) {
      const LoDTensor<float> wide(LoD::from_lengths({{2, 3}}), {4});
      CHECK_THROWS_AS(static_cast<void>(mpi::all_to_all(ranks, odd ? wide : x, std::vector<std::int64_t>{0, 0})),
                      lod::ShapeMismatch);
    }
    CHECK_THROWS_AS(static_cast<void>(mpi::scatter(ranks, x, ranks.size())), lod::OutOfRange);
  }
}

TEST_CASE("all_to_all, scatter: a rank without memory does not keep the others waiting") {
  lod_test::NoMemory none;
  const auto ranks = all_ranks(32);
  const LoDTensor<float> x(LoD::from_lengths({{2, 3, 4, 0, 5}}), {3});
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const bool odd = ranks.rank() == rank;
    LoDTensor<float> y(odd ? static_cast<std::pmr::memory_resource*>(&none) : std::pmr::get_default_resource());
    const std::vector<std::int64_t> to{rank, 0, rank, 0, 0};
    check_fails_together<std::bad_alloc>(ranks, rank, "bad_alloc", [&] { mpi::all_to_all_into(ranks, x, to, y); });
    const std::int64_t arrived = (ranks.rank() == rank ? 6 : 0) + (ranks.rank() == 0 ? 8 : 0);
    const LoDTensor<float> dy({arrived * ranks.size(), 3});
    check_fails_together<std::bad_alloc>(ranks, rank, "bad_alloc",
                                         [&] { mpi::all_to_all_grad_into(ranks, dy, x.lod(), to, y); });
    const std::vector<std::int64_t> lengths(static_cast<std::size_t>(std::max(8, ranks.size())), 2);
    const LoDTensor<float> whole(LoD::from_lengths({lengths}), {3});
    if (odd) {
      CHECK_THROWS_AS(mpi::scatter_into(ranks, whole, 0, y), std::bad_alloc);
    } else {
      mpi::scatter_into(ranks, whole, 0, y);
      CHECK(y.rows() > 0);
    }
  }
}

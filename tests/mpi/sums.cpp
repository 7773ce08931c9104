// SPDX-License-Identifier: Apache-2.0
// Sums over ranks, dense and row-sparse, against the same in one process; with a fixed tree, bit for bit.
#include "ranks.hpp"
#include "support/element_types.hpp"
#include <lod/ops.hpp>

#include <bit>
#include <cstdint>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::SelectedRows;
using lod_test::all_ranks;
using lod_test::check_fails_together;
using lod_test::own;
using lod_test::same_bits;
using lod_test::same_rows;
namespace mpi = lod::mpi;

namespace {

using NumberTypes = lod_test::Types<std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t, lod::float16,
                                    lod::bfloat16, float, double>;

/// The sum of a balanced binary tree, by its definition: neighbours are added, then neighbouring sums, and so on.
template <class X, class Add>
X tree_sum(std::vector<X> terms, const Add& add) {
  while (terms.size() > 1) {
    std::vector<X> sums;
    for (std::size_t i = 0; i < terms.size(); i += 2) {
      sums.push_back(i + 1 < terms.size() ? add(terms[i], terms[i + 1]) : terms[i]);
    }
    terms = std::move(sums);
  }
  return terms.front();
}
template <class T>
LoDTensor<T> dense_tree_sum(const std::vector<LoDTensor<T>>& terms) {
  return tree_sum(terms, [](const auto& a, const auto& b) { return lod::add(a, b); });
}
template <class T>
SelectedRows<T> sparse_tree_sum(const std::vector<SelectedRows<T>>& terms) {
  std::vector<SelectedRows<T>> merged;
  for (const auto& term : terms) merged.push_back(lod::merge_add(term));
  return tree_sum(merged, [](const auto& a, const auto& b) { return lod::merge_add(a, b); });
}

/// The parts of this rank, if `all` are shared out at random.
template <class X>
std::vector<X> share(lod_test::Engine& engine, const mpi::Communicator& ranks, const std::vector<X>& all) {
  std::vector<std::int64_t> cuts{0};
  for (int rank = 1; rank < ranks.size(); ++rank) {
    cuts.push_back(lod_test::random_number(engine, 0, static_cast<std::int64_t>(all.size())));
  }
  cuts.push_back(static_cast<std::int64_t>(all.size()));
  std::sort(cuts.begin(), cuts.end());
  const auto i = static_cast<std::size_t>(ranks.rank());
  return std::vector<X>(all.begin() + cuts[i], all.begin() + cuts[i + 1]);
}

template <class T>
SelectedRows<T> real_rows(lod_test::Engine& engine, std::int64_t count, std::int64_t height) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t id = lod_test::random_number(engine, 0, height - 1);
    ids.push_back(id * id / height);  // most are small
  }
  return {std::move(ids), height, lod_test::real_numbers<T>(engine, {count, 3})};
}

}  // namespace

TEST_CASE("subtrees: the largest that lie in a range, and complete the tree together") {
  for (std::int64_t count = 1; count <= 20; ++count) {
    for (std::int64_t begin = 0; begin <= count; ++begin) {
      for (std::int64_t end = begin; end <= count; ++end) {
        std::int64_t next = begin;
        for (const auto& tree : lod::between_ranks::subtrees(begin, end, count)) {
          CHECK(tree.begin == next);
          next = tree.end;
          // It is a node: its parent, which is larger, is not within the range.
          const auto room = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(tree.size())));
          CHECK(tree.begin % room == 0);
          CHECK((tree.size() == room || tree.end == count));
          const std::int64_t parent = tree.begin / (2 * room) * 2 * room;
          const std::int64_t parent_end = std::min(parent + 2 * room, count);
          CHECK((parent < begin || parent_end > end || (parent == tree.begin && parent_end == tree.end)));
        }
        CHECK(next == end);
      }
    }
  }
}

TEST_CASE("all_reduce: the sum of one tensor of each rank, of every type of numbers") {
  const auto ranks = all_ranks();
  lod_test::for_each_type(NumberTypes(), [&]<class T>(std::type_identity<T>) {
    lod_test::Engine engine(lod_test::first_seed());
    for (const std::int64_t rows : {0, 1, 3, 50}) {
      std::vector<LoDTensor<T>> all;
      for (int rank = 0; rank < ranks.size(); ++rank) all.push_back(lod_test::small_integers<T>(engine, {rows, 3}));
      CHECK(same_bits(mpi::all_reduce(ranks, own(all, ranks)), dense_tree_sum(all)));
    }
  });
}

TEST_CASE("all_reduce: with a fixed tree the same bits whichever ranks have the parts, of every type") {
  const auto ranks = all_ranks();
  const auto in_pieces = all_ranks(10);
  lod_test::for_each_type(lod_test::FloatingTypes(), [&]<class T>(std::type_identity<T>) {
    for (int sample = 0; sample < 8; ++sample) {
      INFO("LOD_TEST_SEED=", lod_test::first_seed(), ": sample ", sample);
      lod_test::Engine engine(lod_test::first_seed() + static_cast<std::uint64_t>(sample));
      std::vector<LoDTensor<T>> all;
      for (int part = 0; part <= sample * 2; ++part) all.push_back(lod_test::real_numbers<T>(engine, {7, 3}));
      const auto parts = share(engine, ranks, all);
      const auto& by = sample % 2 ? in_pieces : ranks;
      const auto expected = dense_tree_sum(all);
      CHECK(same_bits(mpi::all_reduce(by, parts, {.fixed_tree = true}), expected));
      // A part that is the output.
      auto same = parts;
      if (same.empty()) same.emplace_back();
      mpi::all_reduce_into(by, std::span(same).first(parts.size()), {.fixed_tree = true}, same.front());
      CHECK(same_bits(same.front(), expected));
      // Two that do not wait for each other.
      LoDTensor<T> first, second;
      auto first_sum = mpi::start_all_reduce_into(by, parts, {.fixed_tree = true}, first);
      auto second_sum = mpi::start_all_reduce_into(by, parts, {.fixed_tree = true}, second);
      if (ranks.rank() % 2) first_sum.wait();
      second_sum.wait();
      if (ranks.rank() % 2 == 0) first_sum.wait();
      CHECK(same_bits(first, expected));
      CHECK(same_bits(second, expected));
      // Otherwise close to it, and the same on all ranks.
      const auto sum = mpi::all_reduce(by, parts);
      CHECK(same_bits(mpi::broadcast(ranks, 0, sum), sum));
      for (std::size_t i = 0; i < sum.values().size(); ++i) {
        const double far = std::is_same_v<T, double> ? 1e-12 : std::is_same_v<T, float> ? 1e-4 : 2;
        CHECK(std::abs(static_cast<double>(sum.values()[i]) - static_cast<double>(expected.values()[i])) < far);
      }
    }
  });
}

TEST_CASE("all_reduce: keeps the levels, and its memory") {
  const auto ranks = all_ranks();
  LoDTensor<float> x(LoD::from_lengths({{2, 0, 3}}), {2});
  x.fill(static_cast<float>(ranks.rank() + 1));
  LoDTensor<float> y({10, 2});
  const float* const memory = y.data();
  mpi::all_reduce_into(ranks, x, y);
  CHECK(y.data() == memory);
  CHECK(y.lod() == x.lod());
  CHECK(y.values().back() == static_cast<float>(ranks.size() * (ranks.size() + 1) / 2));
  mpi::all_reduce_into(ranks, x, x);
  CHECK(same_bits(x, y));
}

TEST_CASE("all_reduce: row-sparse values as merge_add in one process, of every type") {
  const auto ranks = all_ranks();
  lod_test::for_each_type(lod_test::AllTypes(), [&]<class T>(std::type_identity<T>) {
    lod_test::Engine engine(lod_test::first_seed());
    for (const std::int64_t height : {1, 30, 1000}) {
      const auto all = lod_test::sparse_values<T>(engine, ranks, height, height == 30 ? 0 : 3);
      CHECK(same_rows(mpi::all_reduce(ranks, own(all, ranks)), lod::merge_add(all)));
    }
  });
}

TEST_CASE("all_reduce: row-sparse values with a fixed tree have the same bits whichever ranks have the parts") {
  const auto ranks = all_ranks();
  const auto in_pieces = all_ranks(10);
  lod_test::for_each_type(lod_test::FloatingTypes(), [&]<class T>(std::type_identity<T>) {
    for (int sample = 0; sample < 8; ++sample) {
      INFO("LOD_TEST_SEED=", lod_test::first_seed(), ": sample ", sample);
      lod_test::Engine engine(lod_test::first_seed() + static_cast<std::uint64_t>(sample));
      std::vector<SelectedRows<T>> all;
      for (int part = 0; part <= sample * 2; ++part) {
        all.push_back(real_rows<T>(engine, lod_test::random_number(engine, 0, 40), 100));
      }
      const auto parts = share(engine, ranks, all);
      const auto& by = sample % 2 ? in_pieces : ranks;
      const auto expected = sparse_tree_sum(all);
      CHECK(same_rows(mpi::all_reduce(by, parts, {.fixed_tree = true}), expected));
      auto same = parts;
      if (same.empty()) same.emplace_back();
      mpi::all_reduce_into(by, std::span(same).first(parts.size()), {.fixed_tree = true}, same.front());
      CHECK(same_rows(same.front(), expected));
      CHECK(mpi::all_reduce(by, parts).rows() == expected.rows());
    }
  });
}

TEST_CASE("all_reduce: each rank owns about its share of row-sparse values, however ids are distributed") {
  const auto ranks = all_ranks();
  lod_test::Engine engine(lod_test::first_seed() + static_cast<std::uint64_t>(ranks.rank()));
  const std::int64_t height = 1'000'000, row_size = 64;
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 4000; ++i) {  // Zipf
    const double uniform = static_cast<double>(engine() >> 11) * 0x1p-53;
    ids.push_back(static_cast<std::int64_t>(std::exp(uniform * std::log(static_cast<double>(height)))) - 1);
  }
  const SelectedRows<float> g(ids, height, lod_test::real_numbers<float>(engine, {4000, row_size}));
  const auto merged = lod::merge_add(g);
  const auto before = ranks.traffic();
  const auto sum = mpi::all_reduce(ranks, g);
  const auto bytes = static_cast<double>(ranks.traffic().bytes - before.bytes);
  CHECK(ranks.traffic().collectives - before.collectives == lod_test::collectives(ranks));
  if (ranks.size() == 1) return;
  // A rank of several must send what it has merged to the owners, and its share of the sum to all others.
  const double others = ranks.size() - 1, row = static_cast<double>(row_size * 4);
  const double sent = static_cast<double>(merged.rows().size()) * others / ranks.size();
  const double share = static_cast<double>(sum.rows().size()) / ranks.size() * others;
  CHECK(bytes < 1.5 * row * (sent + share));
}

TEST_CASE("all_reduce: errors on one rank are errors on all") {
  const auto ranks = all_ranks();
  lod_test::NoMemory none;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const bool odd = ranks.rank() == rank;
    SelectedRows<float> broken({1, 2}, 5, {});
    const auto right = broken;
    broken.value() = LoDTensor<float>({1});
    check_fails_together<lod::ShapeMismatch>(ranks, rank, "SelectedRows: 2 ids, but 1 rows",
                                             [&] { static_cast<void>(mpi::all_reduce(ranks, odd ? broken : right)); });
    const std::vector<LoDTensor<float>> parts{LoDTensor<float>({2, 3}), LoDTensor<float>({odd ? 3 : 2, 3})};
    check_fails_together<lod::ShapeMismatch>(ranks, rank, "all_reduce: part 1: 3 rows, expected 2",
                                             [&] { static_cast<void>(mpi::all_reduce(ranks, parts)); });
    if (rank > 0) {
      const std::string where = "all_reduce: rank " + std::to_string(rank);
      CHECK_THROWS_WITH_AS(static_cast<void>(mpi::all_reduce(ranks, parts[odd ? 1 : 0])),
                           doctest::Contains((where + ": 3 rows, expected 2").c_str()), lod::ShapeMismatch);
      const SelectedRows<float> g({1}, odd ? 9 : 7, {});
      CHECK_THROWS_WITH_AS(static_cast<void>(mpi::all_reduce(ranks, g)),
                           doctest::Contains((where + ": height 9, expected 7").c_str()), lod::ShapeMismatch);
      CHECK_THROWS_WITH_AS(static_cast<void>(mpi::all_reduce(ranks, std::vector{g}, {.fixed_tree = odd})),
                           doctest::Contains("the option fixed_tree differs"), mpi::RankError);
    }
    LoDTensor<float> y(odd ? static_cast<std::pmr::memory_resource*>(&none) : std::pmr::get_default_resource());
    check_fails_together<std::bad_alloc>(ranks, rank, "bad_alloc", [&] {
      mpi::all_reduce_into(ranks, LoDTensor<float>({70, 3}), y);
    });
    SelectedRows<float> h(y.resource());
    const SelectedRows<float> g(std::vector<std::int64_t>{3, 1, 3}, 7, {40});
    if (odd) {
      CHECK_THROWS_AS(mpi::all_reduce_into(ranks, g, h), std::bad_alloc);
    } else {
      mpi::all_reduce_into(ranks, g, h);
      CHECK(h.rows() == std::vector<std::int64_t>{1, 3});
    }
    // A rank whose scratch memory runs out.
    const mpi::Communicator poor(MPI_COMM_WORLD, odd ? lod::CpuExecutor(1, &none) : lod::CpuExecutor(1));
    SelectedRows<float> sum;
    check_fails_together<std::bad_alloc>(poor, rank, "bad_alloc", [&] { mpi::all_reduce_into(poor, g, sum); });
    check_fails_together<std::bad_alloc>(poor, rank, "bad_alloc", [&] {
      mpi::all_reduce_into(poor, std::vector{g, g}, {.fixed_tree = true}, sum);
    });
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(mpi::all_reduce(ranks, std::vector<LoDTensor<float>>())),
                       doctest::Contains("no rank has a part"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(static_cast<void>(mpi::all_reduce(ranks, std::vector<SelectedRows<float>>())),
                       doctest::Contains("no rank has a part"), lod::ShapeMismatch);
}

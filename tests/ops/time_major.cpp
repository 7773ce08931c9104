// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::RankTable;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {
/// The rows of each step.
Lengths steps(const lod::TimeMajor<std::int64_t>& z) {
  Lengths all;
  for (std::int64_t t = 0; t < z.steps(); ++t) {
    const auto values = z.step(t).values();
    all.emplace_back(values.begin(), values.end());
  }
  return all;
}
}  // namespace

TEST_CASE("RankTable: longest first, equal lengths in their order") {
  const LoD index = LoD::from_lengths({{1, 2}, {5, 1, 1}, {3, 1, 5, 1, 3, 3, 1}});
  const RankTable table(index, {.level = 1});
  REQUIRE(table.size() == 3);
  CHECK(table[0] == RankTable::Item{0, 5});
  CHECK(table[1] == RankTable::Item{1, 1});
  CHECK(table[2] == RankTable::Item{2, 1});
  CHECK(table.steps() == 5);
  CHECK(table.active(0) == 3);
  CHECK(table.active(1) == 1);
  CHECK(table.active(5) == 0);
  CHECK_THROWS_AS(table.active(-1), lod::OutOfRange);
  CHECK_THROWS_AS(RankTable(index, {.level = 3}), lod::OutOfRange);
  CHECK(RankTable(index, {.level = -1}).steps() == 5);
}

TEST_CASE("RankTable: no sequences, and only empty ones") {
  const RankTable none(LoD::from_offsets({{0}}));
  CHECK(none.size() == 0);
  CHECK(none.steps() == 0);
  CHECK(none.active(0) == 0);
  const RankTable empty(LoD::from_lengths({{0, 0}}));
  CHECK(empty.size() == 2);
  CHECK(empty.steps() == 0);
}

TEST_CASE("RankTable: the default one ranks a batch without sequences") {
  const RankTable none;
  CHECK(none.size() == 0);
  CHECK(none.steps() == 0);
  CHECK(none.active(0) == 0);
  CHECK(none.lod() == LoD::from_lengths({{}}));
  for_each_executor([&](const auto& executor) {
    const LoDTensor<float> x(none.lod(), {3});
    CHECK(same_bits(lod::from_time_major(executor, lod::to_time_major(executor, x, none), none), x));
    CHECK(same_bits(lod::from_time_major(executor, lod::TimeMajor<float>(none, {3}), none), x));
    CHECK(same_bits(lod::array_to_lod_tensor(executor, lod::lod_tensor_to_array(executor, x, none), none), x));
  });
}

TEST_CASE("RankTable: moved from, it has no steps") {
  RankTable table(LoD::from_lengths({{2, 3}}));
  const RankTable taken = std::move(table);
  CHECK(taken.steps() == 3);
  CHECK(table.steps() == 0);  // NOLINT(bugprone-use-after-move)
  CHECK(table.size() == 0);
  CHECK(table.active(0) == 0);
}

TEST_CASE("RankTable: how many are longer than t, against counting") {
  for (std::uint64_t number = 1; number <= 20; ++number) {
    Engine engine(number);
    CAPTURE(number);
    const auto lengths = RandomLoD{.levels = 1, .sequences = 30, .length = 9}.lengths(engine);
    const RankTable table(LoD::from_lengths(lengths));
    for (std::int64_t t = 0; t < 12; ++t) {
      CHECK(table.active(t) == std::ranges::count_if(lengths[0], [&](std::int64_t length) { return length > t; }));
    }
    for (std::int64_t rank = 0; rank < table.size(); ++rank) {
      CHECK(table[rank].length == lengths[0][static_cast<std::size_t>(table[rank].index)]);
      if (rank == 0) continue;
      CHECK((table[rank - 1].length > table[rank].length ||
             (table[rank - 1].length == table[rank].length && table[rank - 1].index < table[rank].index)));
    }
  }
}

TEST_CASE("to_time_major: the field's examples") {
  const Lengths expected = {{3, 0, 9}, {4, 1}, {5, 2}, {6}, {7}, {8}};
  const auto x = counted_rows({{3, 6, 1}});
  CHECK(steps(lod::to_time_major(x, RankTable(x.lod()))) == expected);
  const auto with_empty = counted_rows({{3, 6, 0, 1}});
  CHECK(steps(lod::to_time_major(with_empty, RankTable(with_empty.lod()))) == expected);

  const auto nested = counted_rows({{2, 3}, {3, 6, 2, 6, 3}});
  const auto z = lod::to_time_major(nested, RankTable(nested.lod()));
  CHECK(steps(z) == Lengths{{9, 10, 0, 1, 2}, {11, 12, 13, 14, 15, 16, 3, 4, 5, 6, 7, 8}, {17, 18, 19}});
  CHECK(z.step(0).lod() == LoD::from_lengths({{2, 3}}));
  CHECK(z.step(1).lod() == LoD::from_lengths({{6, 6}}));

  const auto empties = counted_rows({{3, 2, 4, 2}, {3, 4, 4, 0, 1, 5, 2, 2, 2, 7, 1}});
  const auto e = lod::to_time_major(empties, RankTable(empties.lod()));
  CHECK(e.step(0).lod() == LoD::from_lengths({{5, 3, 0, 7}}));
  CHECK(e.step(1).lod() == LoD::from_lengths({{2, 4, 1, 1}}));
  CHECK(e.step(2).lod() == LoD::from_lengths({{2, 4}}));
  CHECK(e.step(3).lod() == LoD::from_lengths({{2}}));
}

TEST_CASE_TEMPLATE("to_time_major: there and back, at every level, on every executor", T, float, std::int8_t) {
  for (std::uint64_t number = 1; number <= 20; ++number) {
    Engine engine(number);
    CAPTURE(number);
    const int levels = 1 + static_cast<int>(number % 5);
    const LoD index = LoD::from_lengths(RandomLoD{.levels = levels}.lengths(engine));
    const auto x = small_integers<T>(engine, index, {number % 3 ? 3 : 1});
    for_each_executor([&](const auto& executor) {
      for (int level = 0; level < levels; ++level) {
        const RankTable table(index, {.level = level});
        const auto z = lod::to_time_major(executor, x, table);
        CHECK(z.steps() == table.steps());
        for (std::int64_t t = 0; t < z.steps(); ++t) CHECK(z.step(t).size() == table.active(t));
        CHECK(same_bits(lod::from_time_major(executor, z, table), x));
      }
      const auto slice = x.between(x.size() / 3, x.size());
      const RankTable table(slice.lod());
      CHECK(same_bits(lod::from_time_major(executor, lod::to_time_major(executor, slice, table), table),
                      LoDTensor<T>::copy_of(slice)));
    });
  }
}

TEST_CASE("from_time_major: the levels below the steps are those of z") {
  const auto x = counted_rows({{2, 3}, {3, 6, 2, 6, 3}});
  const RankTable table(x.lod());
  // One row for each sentence, as a network that reads sentences gives.
  lod::TimeMajor<std::int64_t> h(table, {});
  std::iota(h.values().values().begin(), h.values().values().end(), 0);
  CHECK(h.steps() == 3);
  CHECK(h.step(0).rows() == 2);
  const auto y = lod::from_time_major(h, table);
  CHECK(y.lod() == LoD::from_lengths({{2, 3}}));
  CHECK(std::vector<std::int64_t>(y.values().begin(), y.values().end()) == Numbers{1, 3, 0, 2, 4});
  // The gradient has the levels of y: the table says nothing about what is below its level.
  CHECK(same_bits(lod::from_time_major_grad(y, table).values(), h.values()));
}

TEST_CASE("to_time_major: gradients against differences") {
  Engine engine(6);
  const LoD index = LoD::from_lengths(RandomLoD{.levels = 2}.lengths(engine));
  auto x = real_numbers<double>(engine, index, {3});
  const RankTable table(index, {.level = 1});
  check_gradient(
      engine, x, [&](const auto& at) { return lod::to_time_major(at, table).values(); },
      [&](const auto& dz) { return lod::to_time_major_grad(lod::TimeMajor<double>(dz), table); });
  auto z = lod::to_time_major(x, table).values();
  check_gradient(
      engine, z, [&](const auto& at) { return lod::from_time_major(lod::TimeMajor<double>(at), table); },
      [&](const auto& dy) { return lod::from_time_major_grad(dy, table).values(); });
}

TEST_CASE("to_time_major: a table of another LoD is refused") {
  const auto x = counted_rows({{3, 6, 1}});
  const RankTable other(LoD::from_lengths({{3, 1, 6}}));
  const lod::CpuExecutor executor(1);
  auto z = lod::to_time_major(x, RankTable(x.lod()));
  check_throws<lod::ShapeMismatch>([&] { lod::to_time_major_into(executor, x, other, z); },
                                   "to_time_major: the levels of x are not those", z.values());
  LoDTensor<std::int64_t> y({1, 2}), wrong(LoD::from_lengths({{6, 3, 1}}), {});
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::from_time_major_into(executor, z, RankTable(LoD::from_lengths({{3, 6, 2}})), y);
      },
      "from_time_major", y);
  check_throws<lod::ShapeMismatch>([&] { lod::from_time_major_into(executor, z, RankTable(x.lod()), wrong.view()); },
                                   "and the levels of the result", wrong);
}

TEST_CASE("infer_to_time_major, infer_from_time_major: allow what the operations give, and refuse what they do") {
  using namespace lod_test;
  for_each_random_batch<float>(1, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const lod::RankOptions options{.level = level};
      const lod::RankTable table(x.lod(), options);
      const auto z = lod::to_time_major(x, table);
      check_inference(
          z.values(), [&](const auto& a, const auto& b) { return lod::infer_to_time_major(a, b, options); },
          describe(x), describe(x));
      check_inference(
          lod::from_time_major(z, table),
          [&](const auto& a, const auto& b) { return lod::infer_from_time_major(a, b, options); }, describe(z.values()),
          describe(x));
    }
  });
  const auto x = described(lod::DataType::FP32, {15, 2}, 3), ranked = described(lod::DataType::INT8, {15}, 3);
  CHECK(lod::infer_to_time_major(x, ranked, {.level = 1}) == described(lod::DataType::FP32, {15, 2}, 2));
  CHECK(lod::infer_from_time_major(x, ranked, {.level = -1}) == described(lod::DataType::FP32, {15, 2}, 5));
  CHECK_THROWS_AS(lod::infer_to_time_major(x, ranked, {.level = 3}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_from_time_major(described_list(15), ranked), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_to_time_major(described_list(15), ranked),
                       doctest::Contains("to_time_major: the levels of x are not those that the table ranks"),
                       lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_to_time_major(x, described(lod::DataType::INT8, {14}, 3), {.level = 2}),
                  lod::ShapeMismatch);
}

TEST_CASE("to_time_major, from_time_major: a table of another batch is refused, and where it differs is said") {
  const auto x = counted_rows({{2, 1}, {3, 0, 4}});
  const auto check = [&](const LoD& ranked, int level, const std::string& where) {
    const RankTable table(ranked, {.level = level});
    CHECK_THROWS_WITH_AS(lod::to_time_major(x, table),
                         ("to_time_major: the levels of x are not those that the table ranks: " + where).c_str(),
                         lod::ShapeMismatch);
  };
  check(LoD::from_lengths({{3}, {3, 0, 4}}), 0, "level 0: 2 sequences, expected 1");
  check(LoD::from_lengths({{2, 1}, {3, 1, 3}}), 1, "level 1: offset 3 at position 2, expected 4");
  check(LoD::from_lengths({{2, 1}, {3, 0, 4}, {1, 1, 1, 1, 1, 1, 1}}), 2, "2 levels, expected at least 3");

  RankTable gone(LoD::from_lengths({{}}));
  const RankTable taken = std::move(gone);
  CHECK_THROWS_AS(lod::to_time_major(counted_rows({{}}), gone), lod::ShapeMismatch);  // NOLINT: it is refused
  // The longest first: steps of 2, 2, 2 and 1 rows.
  const auto z = lod::to_time_major(counted_rows({{3, 4}}), RankTable(LoD::from_lengths({{3, 4}})));
  CHECK_THROWS_WITH_AS(lod::from_time_major(z, RankTable(LoD::from_lengths({{7}}))),
                       "from_time_major: the steps of z are not those of the table: 4 sequences, expected 7",
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::from_time_major(z, RankTable(LoD::from_lengths({{1, 4, 2}}))),
                       "from_time_major: the steps of z are not those of the table: offset 2 at position 1, expected 3",
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::from_time_major(lod::TimeMajor<std::int64_t>(), RankTable(LoD::from_lengths({{1}}))),
                       "from_time_major: the steps of z are not those of the table: none", lod::ShapeMismatch);
}

TEST_CASE("to_time_major: sequences of 4, 5 and 3 rows, as PaddlePaddle's sequence2batch orders them") {
  const auto x = counted_rows({{4, 5, 3}});
  const RankTable table(x.lod());
  CHECK(table[0].index == 1);
  CHECK(table[1].index == 0);
  CHECK(table[2].index == 2);
  const auto z = lod::to_time_major(x, table);
  const auto starts = z.values().lod().offsets(0);
  CHECK(Numbers(starts.begin(), starts.end()) == Numbers{0, 3, 6, 9, 11, 12});
  const auto rows = z.values().values();
  CHECK(Numbers(rows.begin(), rows.end()) == Numbers{4, 0, 9, 5, 1, 10, 6, 2, 11, 7, 3, 8});
  CHECK(same_bits(lod::from_time_major(z, table), x));
}

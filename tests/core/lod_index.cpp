// SPDX-License-Identifier: Apache-2.0
#include "support/articles.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/core/lod_batch.hpp>
#include <lod/lod_index.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

using lod::LoD;
using lod_test::articles;
using lod_test::Engine;
using lod_test::first_seed;
using lod_test::random_number;
using Numbers = std::vector<std::int64_t>;
using Levels = std::vector<std::vector<std::int64_t>>;

namespace {
template <class F>
std::string message(const F& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("LoD: lengths that do not add up name the level") {
  CHECK_THROWS_AS(LoD::from_lengths({{3, 1}, {1, 2}}), lod::InvalidLoD);
  const auto text = message([] { LoD::from_lengths({{3, 1}, {1, 2}}); });
  CHECK(contains(text, "level 0 covers 4"));
  CHECK(contains(text, "level 1 has 2"));
}

TEST_CASE("LoD: a negative length names level and position") {
  const auto text = message([] { LoD::from_lengths({{2}, {1, -3}}); });
  CHECK(contains(text, "level 1, position 1"));
  CHECK(contains(text, "-3"));
}

TEST_CASE("LoD: lengths beyond 64 bits are refused before anything is allocated") {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(LoD::from_lengths({{most, 1}}), lod::InvalidLoD);
}

TEST_CASE("LoD: offsets that descend, that begin elsewhere, that are none") {
  CHECK_THROWS_AS(LoD::from_offsets({{0, 1, 3, 2, 5}}), lod::InvalidLoD);
  CHECK(contains(message([] { LoD::from_offsets({{0, 1, 3, 2, 5}}); }), "level 0, position 3"));
  CHECK_THROWS_AS(LoD::from_offsets({{1, 2}}), lod::InvalidLoD);
  CHECK_THROWS_AS(LoD::from_offsets({{}}), lod::InvalidLoD);
  CHECK_THROWS_AS(LoD::from_offsets({{0, 2}, {0, 1, 3, 5}}), lod::InvalidLoD);
}

TEST_CASE("LoD: offsets that a function fills in are checked as others are") {
  using Level = std::span<std::int64_t>;
  const std::vector<Numbers> offsets{{0, 2, 2}, {0, 3, 4}};
  const auto copy = [&](int level, Level numbers) {
    const Numbers& from = offsets[static_cast<std::size_t>(level)];
    REQUIRE(numbers.size() == from.size());
    std::copy(from.begin(), from.end(), numbers.begin());
  };
  CHECK(LoD::from_filled_offsets(Numbers{2, 2}, copy) == LoD::from_offsets(offsets));
  CHECK(LoD::from_filled_offsets(Numbers{}, copy) == LoD());
  const auto all = [](std::int64_t number) {
    return [number](int, Level numbers) { std::fill(numbers.begin(), numbers.end(), number); };
  };
  CHECK(LoD::from_filled_offsets(Numbers{0}, all(0)) == LoD::from_offsets({{0}}));
  CHECK_THROWS_AS(LoD::from_filled_offsets(Numbers{3}, all(1)), lod::InvalidLoD);
  CHECK_THROWS_AS(LoD::from_filled_offsets(Numbers{1, 2}, all(0)), lod::InvalidLoD);
  CHECK_THROWS_AS(LoD::from_filled_offsets(Numbers{0, -1}, all(0)), lod::InvalidLoD);
  CHECK_THROWS_AS(LoD::from_filled_offsets(Numbers(65, 0), all(0)), lod::InvalidLoD);
}

TEST_CASE("LoD: lists in braces are offsets of levels, and an empty one is no level") {
  CHECK(LoD::from_offsets({}) == LoD());
  const std::vector<std::int64_t> level{0, 2, 3};
  CHECK(LoD::from_offsets({level}) == LoD::from_offsets({{0, 2, 3}}));
  const std::vector<std::vector<std::int64_t>> levels{{0, 2}, level};
  CHECK(LoD::from_offsets({levels}) == LoD::from_offsets({{0, 2}, {0, 2, 3}}));
}

TEST_CASE("LoD: no sequences and empty sequences are ordinary at every level") {
  CHECK(LoD::from_offsets({{0}}).size(0) == 0);
  CHECK(LoD::from_offsets({{0}}).rows() == 0);
  CHECK(LoD::from_offsets({{0}, {0}}) == LoD::from_lengths({{}, {}}));
  const LoD empty = LoD::from_lengths({{0, 2, 0}, {0, 0}});
  CHECK(empty.rows() == 0);
  CHECK(empty.size(0) == 3);
  CHECK(empty.row_ids(1).empty());
  CHECK(empty.max_length(1) == 0);
  CHECK(empty.absolute_offsets(0) == Numbers{0, 0, 0, 0});
}

TEST_CASE("LoD: levels count from either end, and out of range they throw") {
  CHECK(articles.size(-1) == 6);
  CHECK(articles.size(-2) == 3);
  CHECK_THROWS_AS(articles.size(2), lod::OutOfRange);
  CHECK_THROWS_AS(articles.size(-3), lod::OutOfRange);
  CHECK_THROWS_AS(LoD().offsets(0), lod::OutOfRange);
}

TEST_CASE("LoD: the three-level example of the field, sliced at every level") {
  const LoD index = LoD::from_offsets({{0, 2, 3}, {0, 2, 4, 7}, {0, 2, 5, 7, 10, 12, 15, 20}});
  CHECK(index.between(1, 2) == LoD::from_offsets({{0, 1}, {0, 3}, {0, 2, 5, 10}}));
  CHECK(index.between(1, 3, 1) == LoD::from_lengths({{2, 3}, {2, 3, 2, 3, 5}}));
  CHECK(index.view().between(1, 2).first_row() == 10);
  CHECK(index.view().between(1, 2).last_row() == 20);
  CHECK(index.between(1, 1).rows() == 0);
  CHECK_THROWS_AS(index.between(1, 3), lod::OutOfRange);
}

TEST_CASE("LoD: absolute offsets, there and back") {
  const LoD index = LoD::from_offsets({{0, 2}, {0, 1, 3}, {0, 2, 4, 5}});
  CHECK(index.absolute_offsets(0) == Numbers{0, 5});
  CHECK(index.absolute_offsets(1) == Numbers{0, 2, 5});
  CHECK(LoD::from_absolute_offsets({{0, 5}, {0, 2, 5}, {0, 2, 4, 5}}) == index);
  CHECK(LoD::from_absolute_offsets({{10, 15}, {10, 12, 15}}) == LoD::from_offsets({{0, 2}, {0, 2, 5}}));
  CHECK_THROWS_AS(LoD::from_absolute_offsets({{0, 3, 5}, {0, 2, 5}}), lod::InvalidLoD);
  CHECK_THROWS_AS(LoD::from_absolute_offsets({{0, 4}, {0, 2, 5}}), lod::InvalidLoD);
  CHECK_THROWS_AS(LoD::from_absolute_offsets({{0, 3, 2, 5}, {0, 2, 3, 5}}), lod::InvalidLoD);
  CHECK_THROWS_AS(LoD::from_absolute_offsets({{}}), lod::InvalidLoD);
}

TEST_CASE("LoD: append") {
  const LoD index = LoD::from_offsets({{0, 2}, {0, 1, 6}, {0, 2, 5, 7, 10, 12, 15}});
  CHECK(lod::append(index, {{2}, {2, 2}, {2, 3, 4, 2}}) ==
        LoD::from_offsets({{0, 2, 4}, {0, 1, 6, 8, 10}, {0, 2, 5, 7, 10, 12, 15, 17, 20, 24, 26}}));
  CHECK(lod::append(LoD(), {{2}}) == LoD::from_lengths({{2}}));
  CHECK_THROWS_AS(lod::append(index, {{2}}), lod::InvalidLoD);
}

TEST_CASE("LoD: concat and split are each other's inverse") {
  const auto parts = lod::split(articles, 3);
  REQUIRE(parts.size() == 3);
  CHECK(lod::concat(parts[0], parts[1], parts[2]) == articles);
  CHECK(lod::split(articles, 5).size() == 5);
  CHECK(lod::split(LoD::from_offsets({{0}}), 4).size() == 4);
  CHECK_THROWS_AS(lod::split(articles, 0), lod::OutOfRange);
  CHECK_THROWS_AS(lod::concat(articles, LoD()), lod::InvalidLoD);
}

TEST_CASE("LoD: split cuts where rows are most even") {
  const auto parts = lod::split(LoD::from_lengths({{100, 1, 1, 98}}), 2);
  CHECK(parts[0].rows() == 100);
  CHECK(parts[1].size(0) == 3);
  const auto rows_of = [](const std::vector<std::int64_t>& lengths, std::int64_t count) {
    std::vector<std::int64_t> rows;
    for (const LoD& part : lod::split(LoD::from_lengths({lengths}), count)) rows.push_back(part.rows());
    return rows;
  };
  // Even shares need not be whole rows.
  CHECK(rows_of({2, 1}, 2) == Numbers{2, 1});
  CHECK(rows_of({4, 1}, 2) == Numbers{4, 1});
  CHECK(rows_of({1, 4}, 2) == Numbers{1, 4});
  CHECK(rows_of({2, 1, 2}, 4) == Numbers{2, 0, 1, 2});
  CHECK(rows_of({2}, 3) == Numbers{0, 2, 0});
  // Of two boundaries that are as near, the earlier one.
  CHECK(rows_of({1, 2, 1}, 2) == Numbers{1, 3});
}

TEST_CASE("LoD: each cut of split is at a nearest boundary") {
  Engine engine(first_seed());
  for (int sample = 0; sample < 2000; ++sample) {
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(random_number(engine, 0, 8)));
    for (std::int64_t& length : lengths) length = random_number(engine, 0, 6);
    const LoD index = LoD::from_lengths({lengths});
    const std::int64_t count = random_number(engine, 1, 7), rows = index.rows();
    INFO("LOD_TEST_SEED=", first_seed(), ": ", index, " into ", count);
    std::int64_t begin = 0, part_number = 0;
    for (const LoD& part : lod::split(index, count)) {
      // Distances in parts of 1 / count of a row.
      const auto distance = [&](std::int64_t boundary) { return std::abs(boundary * count - rows * part_number); };
      for (const std::int64_t boundary : index.view().absolute_offsets(0)) CHECK(distance(begin) <= distance(boundary));
      begin += part.rows();
      ++part_number;
    }
    CHECK(part_number == count);
    CHECK(begin == rows);
  }
}

TEST_CASE("LoD: levels cut off at either end, and added") {
  CHECK(articles.slice_levels(0, 1) == LoD::from_offsets({{0, 9, 10, 15}}));
  CHECK(articles.slice_levels(1, 2) == LoD::from_lengths({{3, 2, 4, 1, 2, 3}}));
  CHECK(articles.slice_levels(1, 1) == LoD());
  CHECK_THROWS_AS(articles.slice_levels(1, 3), lod::OutOfRange);
  CHECK(articles.levels_above(1) == LoD::from_lengths({{3, 1, 2}}));
  CHECK(articles.levels_above(0) == LoD());
  const Numbers sentences = {0, 3, 5, 9, 10, 12, 15};
  CHECK(LoD::from_lengths({{3, 1, 2}}).append_level(sentences) == articles);
  CHECK_THROWS_AS(articles.append_level(sentences), lod::InvalidLoD);
  CHECK(LoD::from_lengths({{3, 1, 2}}).append_level({0, 3, 5, 9, 10, 12, 15}) == articles);
  CHECK(LoD().append_level({0}).levels() == 1);
  CHECK_THROWS_AS(LoD().append_level({}), lod::InvalidLoD);
}

TEST_CASE("LoDView: a branch out of range says which step") {
  const auto view = articles.view();
  const auto at = [&](const Numbers& branch) { return view.slice(branch); };
  CHECK_THROWS_AS(at({3}), lod::OutOfRange);
  CHECK(contains(message([&] { at({0, 7}); }), "step 1 is 7"));
  CHECK(contains(message([&] { at({0, 1, 0}); }), "there are 2 levels"));
  CHECK_THROWS_AS(at({-1}), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(at({0, 0, 0}), "branch <0, 0, 0>: 3 steps, but there are 2 levels", lod::OutOfRange);
  CHECK_THROWS_WITH_AS(at({1, 2}), "branch <1, 2>: step 1 is 2, but level 1 has 1 sequence there, counted from 0",
                       lod::OutOfRange);
  CHECK_THROWS_WITH_AS(LoD().view().slice(Numbers{0}), "branch <0>: 1 step, but there are 0 levels", lod::OutOfRange);
  CHECK(at({}).rows() == 15);
}

TEST_CASE("LoDView: random LoDs against nested loops") {
  for (std::uint64_t number = 1; number <= 60; ++number) {
    lod_test::Engine engine(number);
    CAPTURE(number);
    const int levels = 1 + static_cast<int>(number % 5);
    const auto lengths = lod_test::RandomLoD{.levels = levels}.lengths(engine);
    const LoD index = LoD::from_lengths(lengths);
    CHECK(index.lengths() == lengths);
    // Rows under each sequence, counted the slow way, from the innermost level out.
    Numbers below;
    for (int level = levels - 1; level >= 0; --level) {
      Numbers rows;
      std::size_t next = 0;
      for (std::int64_t length : lengths[static_cast<std::size_t>(level)]) {
        std::int64_t sum = level == levels - 1 ? length : 0;
        for (std::int64_t i = 0; level < levels - 1 && i < length; ++i) sum += below[next++];
        rows.push_back(sum);
      }
      const auto absolute = index.absolute_offsets(level);
      std::int64_t longest = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        CHECK(absolute[i + 1] - absolute[i] == rows[i]);
        longest = std::max(longest, rows[i]);
      }
      CHECK(index.view().max_rows(level) == longest);
      below = rows;
    }
    std::int64_t first = 0;
    for (std::int64_t i = 0; i < index.size(0); ++i) {
      const Numbers branch = {i};
      const auto part = index.view().slice(branch);
      CHECK(part.first_row() == first);
      CHECK(part.rows() == below[static_cast<std::size_t>(i)]);
      CHECK(part.lod() == index.between(i, i + 1));
      CHECK(part == part.lod().view());
      CHECK(index.view()[i].levels() == levels - 1);
      CHECK(index.view()[i].rows() == part.rows());
      first += part.rows();
    }
    CHECK(lod::concat(lod::split(index, 3)[0], lod::split(index, 3)[1], lod::split(index, 3)[2]) == index);
  }
}

TEST_CASE("LoD: the offsets of PaddlePaddle's tests, good and bad") {
  CHECK(LoD::from_offsets({{0, 2}, {0, 1, 3}, {0, 2, 4, 5}}).rows() == 5);
  CHECK_THROWS_AS(LoD::from_offsets({{0, 2}, {0, 1, 4}, {0, 2, 4, 5}}), lod::InvalidLoD);
  CHECK(contains(message([] { LoD::from_offsets({{0, 2}, {0, 1, 4}, {0, 2, 4, 5}}); }), "level 1 covers 4"));
  CHECK(LoD::from_offsets({{0, 1, 2, 3, 4, 5}}).rows() == 5);
  CHECK(LoD::from_offsets({{0, 1, 3, 3, 4, 5}}).lengths(0) == Numbers{1, 2, 0, 1, 1});
  const LoD index = LoD::from_offsets({{0, 2, 3}, {0, 3, 5, 9}});
  CHECK(index == LoD::from_lengths({{2, 1}, {3, 2, 4}}));
  CHECK(index.lengths() == Levels{{2, 1}, {3, 2, 4}});
}

TEST_CASE("LoD: slices of PaddlePaddle's tests, as lengths and rows") {
  const LoD index = LoD::from_offsets({{0, 3, 4, 8}, {0, 9, 10, 11, 13, 17, 19, 22, 24}});
  const auto two = index.view().between(1, 3);
  CHECK(two.lod().lengths() == Levels{{1, 4}, {2, 4, 2, 3, 2}});
  CHECK(two.first_row() == 11);
  CHECK(two.last_row() == 24);
  const LoD deep =
      LoD::from_offsets({{0, 2, 4, 5}, {0, 1, 6, 8, 10, 11}, {0, 2, 5, 7, 10, 12, 15, 17, 20, 24, 26, 29}});
  const auto one = deep.view().between(1, 2);
  CHECK(one.lod().lengths() == Levels{{2}, {2, 2}, {2, 3, 4, 2}});
  CHECK(one.first_row() == 15);
  CHECK(one.last_row() == 26);
}

TEST_CASE("LoD: split for two places, and joined again with an empty batch behind") {
  const LoD index = LoD::from_offsets({{0, 2, 4, 5, 6}, {0, 1, 6, 8, 13, 15, 20}});
  const auto parts = lod::split(index, 2);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0] == LoD::from_offsets({{0, 2, 4}, {0, 1, 6, 8, 13}}));
  CHECK(parts[1] == LoD::from_offsets({{0, 1, 2}, {0, 2, 7}}));
  CHECK(lod::concat(parts[0], parts[1], LoD::from_offsets({{0}, {0}})) == index);
}

TEST_CASE("LoD: stands on offsets of the user's, and keeps their owner") {
  const auto owner = std::make_shared<Levels>(Levels{{0, 3, 4, 6}, {0, 3, 5, 9, 10, 12, 15}});
  const std::vector<std::span<const std::int64_t>> offsets{(*owner)[0], (*owner)[1]};
  {
    const LoD index = LoD::wrap(offsets, owner);
    CHECK(owner.use_count() == 2);
    CHECK(index == LoD::from_offsets(*owner));
    CHECK(index.offsets(0).data() == (*owner)[0].data());
    CHECK(index.offsets(1).data() == (*owner)[1].data());
    CHECK(index.absolute_offsets(0) == Numbers{0, 9, 10, 15});
    CHECK(index.max_length(1) == 4);
    CHECK(index.view().slice({{2, 0}}).absolute_lod() == Levels{{10, 12}});
    const LoD copy = index;
    CHECK(owner.use_count() == 2);
    CHECK(copy.append_level(Numbers{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}).rows() == 1);
  }
  CHECK(owner.use_count() == 1);

  (*owner)[1][2] = 2;
  CHECK_THROWS_AS(LoD::wrap(offsets, owner), lod::InvalidLoD);
  CHECK(owner.use_count() == 1);
  CHECK(LoD::wrap({}, owner).levels() == 0);
}

TEST_CASE("LoD: those of many sequences that were found equal stay so, in any order of their ends") {
  Numbers lengths(5000, 2);
  const auto made = [&] { return LoD::from_lengths({lengths}); };
  const LoD first = made();
  LoD second = made();
  CHECK(first.view() == second.view());
  CHECK(first.view() == second.view());  // by memory
  {
    const LoD third = made(), fourth = made();
    CHECK(second.view() == third.view());
    CHECK(first.view() == third.view());  // by way of the second
    CHECK(fourth.view() == third.view());
    second = LoD();
    CHECK(first.view() == fourth.view());
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        const LoD own = made();
        CHECK((own.view() == first.view() && own.view() == fourth.view()));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  lengths[4999] = 1;
  const LoD other = made();
  CHECK(first.view() != other.view());
  CHECK(made().view() == other.view());
  // A part is compared with what it has, not with what its whole is known to be.
  CHECK(first.view().between(1, 5000) == other.view().between(0, 4999));
  CHECK(first.view().is_whole());
  CHECK(first.view().between(0, 5000).is_whole());
  CHECK(!first.view().between(0, 4999).is_whole());
  CHECK(!articles.view()[0].is_whole());
  CHECK(!LoD().view().is_whole());
}

TEST_CASE("LoD: its numbers in order, as devices copy them, and the place of each") {
  const Levels offsets{{0, 2}, {0, 3, 4}, {0, 1, 1, 5, 6}};
  const Numbers in_order{0, 2, 0, 6, 0, 3, 4, 0, 5, 6, 0, 1, 1, 5, 6};
  const std::vector<std::span<const std::int64_t>> spans(offsets.begin(), offsets.end());
  for (const LoD& index : {LoD::from_offsets(offsets), LoD::wrap(spans, 0)}) {
    const auto& block = *index.view().block();
    Numbers found;
    block.for_each_piece([&](auto piece) { found.insert(found.end(), piece.begin(), piece.end()); });
    CHECK(found == in_order);
    CHECK(block.number_count() == in_order.size());
    for (int level = 0; level < 3; ++level) {
      CHECK(block.position_of(index.view().offsets(level).data()) ==
            std::vector<std::ptrdiff_t>{0, 4, 10}[std::size_t(level)]);
    }
    CHECK(block.position_of(index.view().absolute_offsets(1).data() + 2) == 9);
  }
}

TEST_CASE("LoD: offsets beyond 2^31") {
  const std::int64_t many = (std::int64_t{1} << 31) + 5;
  const LoD index = LoD::from_lengths({{2, 1}, {many, 3, many}});
  CHECK(index.rows() == 2 * many + 3);
  CHECK(index.view().absolute_lod() == Levels{{0, many + 3, 2 * many + 3}, {0, many, many + 3, 2 * many + 3}});
  CHECK(index.view().between(1, 2).first_row() == many + 3);
  CHECK(index.between(1, 2).rows() == many);
  CHECK(lod::split(index, 2)[0].rows() == many + 3);
}

TEST_CASE("LoD: from row ids, the way back from row_ids, with empty sequences anywhere") {
  CHECK(lod::lod_from_row_ids({0, 0, 0, 2, 2}) == LoD::from_lengths({{3, 0, 2}}));
  CHECK(lod::lod_from_row_ids({1, 3}, 6) == LoD::from_lengths({{0, 1, 0, 1, 0, 0}}));
  CHECK(lod::lod_from_row_ids(Numbers{}, 3) == LoD::from_lengths({{0, 0, 0}}));
  CHECK(lod::lod_from_row_ids({}) == LoD::from_lengths({{}}));
  CHECK(LoD::from_row_ids(Numbers{}, 0).levels() == 1);
  CHECK(LoD::from_nested_row_ids({{0, 0, 2}, {0, 2, 2}}) == LoD::from_lengths({{2, 0, 1}, {1, 0, 2}}));
  CHECK(LoD::from_nested_row_ids({}).levels() == 0);
  lod_test::for_each_random_lod(20, 1, 4, [](lod_test::Engine&, const Levels& lengths) {
    const LoD index = LoD::from_lengths(lengths);
    Levels ids;
    Numbers sizes;
    for (int level = 0; level < index.levels(); ++level) {
      CHECK(lod::lod_from_row_ids(index.row_ids(level), index.size(level)).offsets(0).size() ==
            index.offsets(level).size());
      CHECK(lod::lod_from_row_ids(index.row_ids(level), index.size(level)).absolute_offsets(0) ==
            index.absolute_offsets(level));
      ids.push_back(index.levels_above(level + 1).row_ids(level));
      sizes.push_back(index.size(level));
    }
    CHECK(LoD::from_nested_row_ids(ids, sizes) == index);
    sizes.assign(sizes.size(), -1);
    sizes[0] = index.size(0);
    CHECK(LoD::from_nested_row_ids(ids, sizes) == index);
  });
}

TEST_CASE("LoD: row ids that are none throw, and say where") {
  using Text = doctest::Contains;
  const auto check = [](const Numbers& ids, std::int64_t size, const char* text) {
    CHECK_THROWS_WITH_AS(lod::lod_from_row_ids(ids, size), Text(text), lod::InvalidLoD);
  };
  check({0, 2, 1}, 3, "level 0, position 2: sequence 1 follows 2, expected numbers that never descend");
  check({-1, 0}, 3, "level 0, position 0: sequence -1, expected 0 or more");
  check({0, 3}, 3, "level 0, position 1: sequence 3 of 3, counted from 0");
  check({0}, 0, "level 0, position 0: sequence 0 of 0");
  check({INT64_MAX}, -1, "level 0, position 0: sequence 9223372036854775807");
  check({}, -2, "size -2, expected -1 or 0 to");
  check({}, INT64_MAX, "size 9223372036854775807, expected -1 or 0 to");
  const auto nested = [](const Levels& ids, const Numbers& sizes, const char* text) {
    CHECK_THROWS_WITH_AS(LoD::from_nested_row_ids(ids, sizes), Text(text), lod::InvalidLoD);
  };
  nested({{0, 1}, {0, 2}}, {}, "level 1, position 1: sequence 2 of 2");
  nested({{0, 1}, {0, 1}}, {2, 3}, "level 0 covers 2 sequences of the next level, but level 1 has 3");
  nested({{0, 1}, {0, 1}}, {2}, "1 sizes for 2 levels");
}

TEST_CASE_TEMPLATE("LoD: from integers of any type", I, int, unsigned, std::int8_t, std::uint16_t, std::size_t,
                   long long) {
  using Integers = std::vector<std::vector<I>>;
  const LoD expected = LoD::from_lengths({{2, 0, 1}, {2, 0, 3}});
  CHECK(LoD::from_lengths(Integers{{2, 0, 1}, {2, 0, 3}}) == expected);
  CHECK(LoD::from_offsets(Integers{{0, 2, 2, 3}, {0, 2, 2, 5}}) == expected);
  CHECK_THROWS_AS(LoD::from_lengths(Integers{{1}, {2, 3}}), lod::InvalidLoD);
  if constexpr (std::is_signed_v<I>) {
    CHECK_THROWS_AS(LoD::from_lengths(Integers{{1}, {I(-1)}}), lod::InvalidLoD);
  } else if constexpr (sizeof(I) == 8) {
    CHECK_THROWS_WITH_AS(LoD::from_lengths(Integers{{1}, {~I{0}}}),
                         "level 1, position 0: 18446744073709551615 is beyond 63 bits", lod::InvalidLoD);
  }
}

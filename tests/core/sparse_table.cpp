// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/count_allocations.hpp"
#include "support/counting_resource.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <numeric>
#include <span>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::SparseTable;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;
using Ids = LoDTensor<std::int64_t>;

namespace {

std::vector<float> numbers_of(const LoDTensor<float>& x) { return {x.values().begin(), x.values().end()}; }
Numbers numbers_of(const Ids& x) { return {x.values().begin(), x.values().end()}; }

/// Writes the id, and fails for one of them.
struct IdOrFailure {
  std::int64_t bad = -13;
  void operator()(std::int64_t id, std::span<float> row) const {
    for (float& number : row) number += static_cast<float>(id);
    if (id == bad) throw std::runtime_error("no such row");
  }
};

/// Copies of it fail when they are told to.
struct CopiedWithFailures {
  static inline bool fail = false;
  CopiedWithFailures() = default;
  CopiedWithFailures(const CopiedWithFailures&) = default;
  CopiedWithFailures& operator=(const CopiedWithFailures&) {
    if (fail) throw std::runtime_error("no copy");
    return *this;
  }
  void operator()(std::int64_t id, std::span<float> row) const {
    for (float& number : row) number = static_cast<float>(id);
  }
};

}  // namespace

TEST_CASE("SparseTable: ids 10, 8, 8, 6 in a table of 100 rows of 8") {
  SparseTable<float> table({8}, 100);
  CHECK(numbers_of(table.positions(Numbers{10, 8, 8, 6})) == Numbers{0, 1, 1, 2});
  CHECK(table.ids() == Numbers{10, 8, 6});
  CHECK(table.size() == 3);
  CHECK(table.capacity() == 100);
  for (std::int64_t i = 0; i < 3; ++i) {
    for (float& value : table.value().row(i)) value = static_cast<float>(i);
  }
  const auto rows = table.get(Numbers{6, 6, 8, 10});
  CHECK(rows.shape() == Numbers{4, 8});
  CHECK(rows.row(0)[7] == 2);
  CHECK(rows.row(1)[0] == 2);
  CHECK(rows.row(2)[3] == 1);
  CHECK(rows.row(3)[3] == 0);
  CHECK(table.find(8) == 1);
  CHECK(table.find(7) == -1);
  CHECK(table.contains(10));
  CHECK_FALSE(table.contains(0));
}

TEST_CASE("SparseTable: an id may be any number, and rows of 0 stand for those that do not appear") {
  SparseTable<float, lod::Cpu, IdOrFailure> table({}, 10);
  const Numbers ids = {INT64_MAX, INT64_MIN, -1, 0};
  CHECK(numbers_of(table.get(ids, {.grow = false})) == std::vector<float>{0, 0, 0, 0});
  CHECK(table.size() == 0);
  CHECK(numbers_of(table.positions(ids, {.grow = false})) == Numbers{-1, -1, -1, -1});
  CHECK(numbers_of(table.get(Numbers{-1, 5}))[0] == -1);
  CHECK(numbers_of(table.get(ids, {.grow = false})) == std::vector<float>{0, 0, -1, 0});
  CHECK(numbers_of(std::as_const(table).get(ids)) == std::vector<float>{0, 0, -1, 0});
  table.get(ids);
  CHECK(table.ids() == Numbers{-1, 5, INT64_MAX, INT64_MIN, 0});
}

TEST_CASE("SparseTable: ids in braces are ids in a list") {
  SparseTable<float> table({2}, 10);
  CHECK(numbers_of(table.positions({10, 8, 8})) == Numbers{0, 1, 1});
  table.set({8, 6}, LoDTensor<float>::from_values(LoD(), {2}, {1, 2, 3, 4}));
  CHECK(numbers_of(table.get({6, 8})) == std::vector<float>{3, 4, 1, 2});
  CHECK(numbers_of(table.get({5, 6}, {.grow = false})) == std::vector<float>{0, 0, 3, 4});
  CHECK(numbers_of(std::as_const(table).get({6})) == std::vector<float>{3, 4});
  CHECK(table.get({}).shape() == Numbers{0, 2});
  CHECK(table.ids() == Numbers{10, 8, 6});
}

TEST_CASE("SparseTable: the LoD and the row shape of the ids, slices, no ids at all") {
  SparseTable<float, lod::Cpu, IdOrFailure> table({2, 3}, 10);
  const auto ids = Ids::from_nested(std::vector<std::vector<Numbers>>{{{1}, {}}, {}, {{2, 1}, {3}}});
  const auto rows = table.get(ids);
  CHECK(rows.lod() == ids.lod());
  CHECK(rows.shape() == Numbers{4, 2, 3});
  CHECK(rows.row(2)[5] == 1);
  CHECK(same_bits(table.get(ids.between(2, 3)), LoDTensor<float>::copy_of(rows.between(2, 3))));
  CHECK(table.positions(ids).lod() == ids.lod());
  CHECK(table.get(Ids({2, 5})).shape() == Numbers{2, 5, 2, 3});
  CHECK(table.get(Ids(LoD::from_lengths({{0, 0}}), {})).shape() == Numbers{0, 2, 3});
  CHECK(table.get(Numbers{}).shape() == Numbers{0, 2, 3});
  CHECK(SparseTable<float>({0}, 3).get(Numbers{7, 8}).shape() == Numbers{2, 0});
}

TEST_CASE("SparseTable: set overwrites, the last of repeated ids stays, new ids appear") {
  SparseTable<float> table({}, 4);
  table.set(Numbers{5, 3, 5}, LoDTensor<float>::from_values({}, {}, std::vector<float>{1, 2, 3}));
  CHECK(table.ids() == Numbers{5, 3});
  CHECK(numbers_of(table.get(Numbers{3, 5})) == std::vector<float>{2, 3});
  const auto ids = Ids::from_nested(std::vector<Numbers>{{9}, {3}});
  table.set(ids, LoDTensor<float>::from_values({}, {}, std::vector<float>{4, 6}));
  CHECK(numbers_of(table.get(Numbers{3, 5, 9})) == std::vector<float>{6, 3, 4});
  const auto wrong = [&](const LoDTensor<float>& rows, const char* text) {
    CHECK_THROWS_WITH_AS(table.set(Numbers{7}, rows), text, lod::ShapeMismatch);
    CHECK_FALSE(table.contains(7));
  };
  wrong(LoDTensor<float>({2}), "SparseTable: rows of shape {2} to set, expected {1}");
  wrong(LoDTensor<float>({1, 2}), "SparseTable: rows of shape {1, 2} to set, expected {1}");
}

TEST_CASE("SparseTable: where there is no room, nothing appears; reserve makes some") {
  SparseTable<float, lod::Cpu, IdOrFailure> table({2}, 3);
  table.get(Numbers{4, 2});
  LoDTensor<float> y({1});
  const Ids ids = Ids::from_values({}, {}, Numbers{9, 2, 9, 8});
  check_throws<lod::OutOfRange>([&] { table.get_into(ids, {}, y); },
                                "SparseTable: id 8 has no row, and all 3 are taken", y);
  check_throws<lod::OutOfRange>([&] { table.positions(ids); }, "id 8", y);
  check_throws<lod::OutOfRange>([&] { table.set(ids, LoDTensor<float>({4, 2})); }, "id 8", y);
  CHECK(table.ids() == Numbers{4, 2});
  CHECK_FALSE(table.contains(9));
  table.reserve(4);
  CHECK(table.capacity() == 4);
  table.reserve(1);
  CHECK(table.capacity() == 4);
  table.get_into(ids, {}, y);
  CHECK(table.ids() == Numbers{4, 2, 9, 8});
  CHECK(numbers_of(table.get(Numbers{4, 8})) == std::vector<float>{4, 4, 8, 8});
  CHECK_THROWS_WITH_AS(SparseTable<float>({2}, -1), "SparseTable: capacity -1, expected 0 or more", lod::ShapeMismatch);
  for (const std::int64_t capacity : {std::int64_t{1} << 62, std::int64_t{1} << 60}) {
    const std::string expected = "SparseTable: capacity " + std::to_string(capacity) + " for rows of shape {3}: ";
    CHECK_THROWS_WITH_AS(SparseTable<float>({3}, capacity), doctest::Contains(expected.c_str()), lod::ShapeMismatch);
    SparseTable<float> some({3}, 1);
    CHECK_THROWS_WITH_AS(some.reserve(capacity), doctest::Contains(expected.c_str()), lod::ShapeMismatch);
    CHECK(some.capacity() == 1);
  }
  CHECK_THROWS_AS(SparseTable<float>({2}, INT64_MAX), lod::ShapeMismatch);
  CHECK_THROWS_AS(SparseTable<float>({2}, 0).get(Numbers{1}), lod::OutOfRange);
}

TEST_CASE("SparseTable: an output that overlaps the ids or the table throws, and nothing appears") {
  SparseTable<std::int64_t> table({}, 8);
  Ids ids = Ids::from_values({}, {}, Numbers{9, 2});
  CHECK_THROWS_WITH_AS(table.positions_into(ids, {}, ids),
                       "SparseTable::positions_into: the output overlaps ids, expected memory of its own",
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(table.get_into(ids, {}, ids),
                       "SparseTable::get_into: the output overlaps ids, expected memory of its own",
                       std::invalid_argument);
  CHECK(table.size() == 0);
  CHECK(numbers_of(ids) == Numbers{9, 2});
  table.get(ids);
  auto rows = LoDTensor<std::int64_t>::wrap(table.value().values(), lod::LoD(), {});
  CHECK_THROWS_AS(table.get_into(ids, {}, rows), std::invalid_argument);
}

TEST_CASE("SparseTable: a row that cannot be made, or memory that is not there: no id appears") {
  SparseTable<float, lod::Cpu, IdOrFailure> table({2}, 1000, IdOrFailure{13});
  Numbers many;
  for (std::int64_t id = 100; id < 400; ++id) many.push_back(id);
  table.get(Numbers{1, 2});
  auto with_bad = many;
  with_bad.push_back(13);
  CHECK_THROWS_WITH_AS(table.get(with_bad), "no such row", std::runtime_error);
  CHECK(table.ids() == Numbers{1, 2});
  for (const std::int64_t id : with_bad) CHECK_FALSE(table.contains(id));
  CHECK(table.find(2) == 1);

  CountingResource resource;
  LoDTensor<float> y(&resource);
  resource.fail_from = 0;
  CHECK_THROWS_AS(table.get_into(Ids::from_values({}, {}, many), {}, y), std::bad_alloc);
  CHECK(table.ids() == Numbers{1, 2});
  table.get(many);
  CHECK(table.size() == 302);
  CHECK(table.find(399) == 301);
}

TEST_CASE("SparseTable: rows that were there are found after any failure, however often the hash table grew in it") {
  Engine engine(3);
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    const auto distinct = [&](std::int64_t count, Numbers ids) {
      const std::size_t size = ids.size() + static_cast<std::size_t>(count);
      while (ids.size() < size) {
        const std::int64_t id = random_number(engine, 0, 999);
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
      }
      return ids;
    };
    const std::int64_t room = random_number(engine, 0, 40);
    const Numbers before = distinct(random_number(engine, 1, 12), {});
    const auto size = static_cast<std::int64_t>(before.size());
    const Numbers all = distinct(room + 1, before);
    // The last id finds no room, or its row cannot be made.
    SparseTable<float, lod::Cpu, IdOrFailure> table({}, size + room + round % 2, IdOrFailure{all.back()});
    table.get(before);
    const Numbers failing(all.begin() + size, all.end());
    switch (round % 3) {
      case 0:
        CHECK_THROWS(table.get(failing));
        break;
      case 1:
        CHECK_THROWS(table.positions(failing));
        break;
      default:
        CHECK_THROWS(table.set(failing, LoDTensor<float>({room + 1})));
    }
    REQUIRE(table.ids() == before);
    std::size_t wrong = 0;
    for (std::int64_t i = 0; i < size; ++i) wrong += table.find(before[static_cast<std::size_t>(i)]) != i;
    for (const std::int64_t id : failing) wrong += table.contains(id);
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("SparseTable: agrees with a map, over thousands of ids, some far apart and some not") {
  Engine engine(1);
  SparseTable<std::int32_t> table({3}, 20000);
  std::map<std::int64_t, std::int64_t> positions;
  for (int batch = 0; batch < 20; ++batch) {
    Numbers ids;
    for (int i = 0; i < 1500; ++i) {
      // Ids that share their low bits, neighbours, and any numbers.
      const std::int64_t id = random_number(engine, 0, 3000);
      ids.push_back(i % 3 == 0 ? id << 40 : i % 3 == 1 ? id : static_cast<std::int64_t>(engine()));
    }
    Numbers expected;
    for (const std::int64_t id : ids) {
      if (positions.size() >= 15000) continue;
      expected.push_back(positions.try_emplace(id, static_cast<std::int64_t>(positions.size())).first->second);
    }
    ids.resize(expected.size());
    CHECK(numbers_of(table.positions(ids)) == expected);
  }
  CHECK(table.size() == static_cast<std::int64_t>(positions.size()));
  std::size_t wrong = 0;
  for (const auto& [id, position] : positions) wrong += table.find(id) != position;
  CHECK(wrong == 0);
}

TEST_CASE("SparseTable: copies have their own rows; a table that was moved from is empty") {
  SparseTable<float> table({2}, 5);
  table.get(Numbers{3, 4});
  auto copy = table;
  copy.value().row(1)[0] = 7;
  copy.get(Numbers{5});
  CHECK(table.value().row(1)[0] == 0);
  CHECK(table.size() == 2);
  const auto moved = std::move(copy);
  CHECK(moved.get(Numbers{4}).row(0)[0] == 7);
  CHECK(copy.size() == 0);
  CHECK(copy.find(3) == -1);
  CHECK(copy.capacity() == 0);
  CHECK_THROWS_AS(copy.get(Numbers{3}), lod::OutOfRange);
}

TEST_CASE("SparseTable: a copy that throws, at whichever allocation, leaves the table that it was assigned to") {
  using Table = SparseTable<float, lod::Cpu, CopiedWithFailures>;
  Table from({2}, 40), to({3}, 5);
  for (std::int64_t id = 100; id < 130; ++id) from.get({id});
  to.get({7, 8, 100});
  const Numbers ids = to.ids();
  const auto rows = to.get(ids);
  const auto check_unchanged = [&](const Table& table) {
    CHECK(table.ids() == ids);
    CHECK(table.capacity() == 5);
    CHECK(same_bits(table.get(ids), rows));
    CHECK(table.find(7) == 0);
    CHECK(table.find(129) == -1);
  };
  int failures = 0;
  for (bool copied = false; !copied && lod_test::counts_allocations;) {
    Table table = to;
    try {
      lod_test::allocations_left = failures;
      table = from;
      copied = true;
    } catch (const std::bad_alloc&) {
      ++failures;
    }
    lod_test::allocations_left = -1;
    if (!copied) check_unchanged(table);
    if (copied) CHECK(same_bits(table.get(from.ids()), from.get(from.ids())));
  }
  CHECK((failures > 2 || !lod_test::counts_allocations));

  Table table = to;
  CopiedWithFailures::fail = true;
  CHECK_THROWS_AS(table = from, std::runtime_error);
  CopiedWithFailures::fail = false;
  check_unchanged(table);
}

TEST_CASE("SparseTable: ids that do not get memory, at whichever allocation, leave the table as it was") {
  SparseTable<float> before({2}, 600);
  Numbers ids(300);
  std::iota(ids.begin(), ids.end(), 1000);
  before.get({5, 6, 7});
  const auto grown_by = [&](const auto& call) {
    int failures = 0;
    for (bool done = false; !done && lod_test::counts_allocations;) {
      auto table = before;
      try {
        lod_test::allocations_left = failures;
        call(table);
        done = true;
      } catch (const std::bad_alloc&) {
        ++failures;
      }
      lod_test::allocations_left = -1;
      if (done) continue;
      CHECK(table.ids() == Numbers{5, 6, 7});
      CHECK(table.find(1000) == -1);
      CHECK(table.find(7) == 2);
      call(table);
      CHECK(table.size() >= 3);
      CHECK(table.find(6) == 1);
    }
    return failures;
  };
  LoDTensor<float> rows({300, 2});
  CHECK((grown_by([&](auto& table) { table.get(ids); }) > 3 || !lod_test::counts_allocations));
  CHECK((grown_by([&](auto& table) { table.positions(ids); }) > 3 || !lod_test::counts_allocations));
  CHECK((grown_by([&](auto& table) { table.set(ids, rows); }) > 3 || !lod_test::counts_allocations));
  CHECK((grown_by([&](auto& table) { table.reserve(2000); }) > 0 || !lod_test::counts_allocations));
}

TEST_CASE("SparseTable: assigned and moved to itself, it keeps its rows") {
  SparseTable<float> table({2}, 5);
  table.get({3, 4});
  table.value().row(1)[1] = 9;
  auto& same = table;
  table = same;
  table = std::move(same);
  CHECK(table.ids() == Numbers{3, 4});
  CHECK(table.find(4) == 1);
  CHECK(table.value().row(1)[1] == 9);
}

TEST_CASE("SparseTable: known ids are found, and their rows copied, without an allocation") {
  SparseTable<float> table({5}, 100);
  const auto ids = Ids::from_nested(std::vector<Numbers>{{4, 9}, {}, {4}});
  CountingResource resource;
  LoDTensor<float> y(&resource);
  Ids positions(&resource);
  const auto run = [&] {
    table.get_into(ids, {}, y);
    table.positions_into(ids, {}, positions);
  };
  run();
  const int before = resource.allocations;
  run();
  CHECK(resource.allocations == before);
}

TEST_CASE("SparseTable: trained as a table of all rows is, with rows that appear on the way") {
  Engine engine(2);
  SparseTable<float> table({4}, 50);
  LoDTensor<float> dense({1000, 4});
  for (int step = 0; step < 5; ++step) {
    Ids ids(LoD::from_lengths({{3, 0, 5, 8}}), {});
    for (std::int64_t& id : ids.values()) id = random_number(engine, 0, 9) * 111;
    const auto positions = table.positions(ids);
    const auto y = lod::embedding_pool(table.value(), positions, lod::PoolType::AVERAGE);
    CHECK(same_bits(y, lod::embedding_pool(dense, ids, lod::PoolType::AVERAGE)));
    const auto dy = real_numbers<float>(engine, {4, 4});
    const auto gradient = [&](const auto& list, std::int64_t height) {
      return lod::embedding_pool_grad(dy, list, height, lod::PoolType::AVERAGE);
    };
    lod::sgd(table.value(), gradient(positions, table.size()), 0.5);
    lod::sgd(dense, gradient(ids, 1000), 0.5);
  }
  CHECK(table.size() <= 10);
  for (std::int64_t i = 0; i < table.size(); ++i) {
    const auto id = table.ids()[static_cast<std::size_t>(i)];
    CHECK(same_bits(table.value().between(i, i + 1), dense.between(id, id + 1)));
  }
}

TEST_CASE("SparseTable: threads look up ids at the same time, and none appears") {
  SparseTable<float, lod::Cpu, IdOrFailure> table({8}, 100);
  table.get(Numbers{10, 8, 8, 6});
  const auto& constant = table;
  std::vector<std::thread> threads;
  std::vector<char> intact(4, 1);
  for (std::size_t thread = 0; thread < intact.size(); ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 100; ++round) {
        const auto rows = constant.get(Numbers{6, 7, 10});
        const bool right = rows.row(0)[7] == 6 && rows.row(1)[0] == 0 && rows.row(2)[3] == 10;
        intact[thread] = static_cast<char>(intact[thread] && right && constant.find(8) == 1 && constant.find(7) == -1);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const char right : intact) CHECK(right == 1);
  CHECK(table.ids() == Numbers{10, 8, 6});
}

TEST_CASE("SparseTable: without the rows that were added last, it is as before them") {
  SparseTable<float, lod::Cpu, IdOrFailure> table({8}, 100);
  table.get(Numbers{10, 8, 6});
  const auto before = table;
  Numbers more(90);
  std::iota(more.begin(), more.end(), 100);
  table.get(more);
  table.shrink(200);
  CHECK(table.size() == 93);
  table.shrink(3);
  CHECK(table.ids() == before.ids());
  CHECK(same_bits(table.value(), before.value()));
  CHECK(table.find(100) == -1);
  CHECK(table.positions(Numbers{8, 100, 10}).values()[1] == 3);
  table.shrink(0);
  CHECK(table.size() == 0);
  CHECK_FALSE(table.contains(10));
}

TEST_CASE("UniformRow: a limit that the elements cannot hold is refused, and adds no row") {
  const auto refused = []<class T>(std::type_identity<T>, double limit) {
    SparseTable<T, lod::Cpu, lod::UniformRow> table({3}, 4, {.limit = limit});
    CHECK_THROWS_AS(table.get({7}), lod::OutOfRange);
    CHECK(table.size() == 0);
  };
  refused(std::type_identity<float>(), 1e39);
  refused(std::type_identity<lod::float16>(), 1e5);
  refused(std::type_identity<std::int8_t>(), 128);
  refused(std::type_identity<std::int8_t>(), std::nan(""));
  refused(std::type_identity<std::uint8_t>(), 1);  // -1 is none
  SparseTable<std::int8_t, lod::Cpu, lod::UniformRow> table({50}, 4, {.limit = 127.5});
  table.get({7});
  CHECK(*std::max_element(table.value().values().begin(), table.value().values().end()) > 64);
}

TEST_CASE_TEMPLATE("UniformRow: float16 and bfloat16 are below the limit, not below its negative", T, lod::float16,
                   lod::bfloat16) {
  for (const double limit : {0.1, 0.5, 1.0, 3e-8, 0.0}) {
    CAPTURE(limit);
    SparseTable<T, lod::Cpu, lod::UniformRow> table({5000}, 4, {.limit = limit});
    bool within = true;
    double greatest = 0;
    const auto rows = table.get(Numbers{1, 2, 3, 4});
    for (const T number : rows.values()) {
      const auto value = static_cast<double>(number);
      within = within && value >= -limit && (value < limit || limit == 0);
      greatest = std::max(greatest, value);
    }
    CHECK(within);
    CHECK(greatest >= 0.9 * limit - 6e-8);
  }
}

TEST_CASE("UniformRow: numbers below the limit, by id and seed alone, of which none repeats or stands out") {
  const lod::UniformRow rows{.seed = 3, .limit = 0.5};
  SparseTable<double, lod::Cpu, lod::UniformRow> table({50}, 200, rows), other({50}, 200, rows);
  Numbers ids(200);
  std::iota(ids.begin(), ids.end(), -100);
  const auto all = table.get(ids);
  double sum = 0, squares = 0;
  std::map<double, int> occurrences;
  for (const double number : all.values()) {
    CHECK_MESSAGE((number >= -0.5 && number < 0.5), number);
    sum += number;
    squares += number * number;
    ++occurrences[number];
  }
  CHECK(std::abs(sum / 10000) < 0.01);
  CHECK(std::abs(squares / 10000 - 1.0 / 12) < 0.005);
  CHECK(occurrences.size() > 9990);
  // In another order, beside others.
  std::reverse(ids.begin(), ids.end());
  static_cast<void>(other.get(ids));
  CHECK(same_bits(other.get(Numbers{-100, 7}).between(1, 2), table.get(Numbers{7})));
  SparseTable<double, lod::Cpu, lod::UniformRow> seeded({50}, 1, {.seed = 4, .limit = 0.5});
  CHECK_FALSE(same_bits(seeded.get(Numbers{7}), table.get(Numbers{7})));
}

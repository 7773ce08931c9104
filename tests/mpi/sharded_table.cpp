// SPDX-License-Identifier: Apache-2.0
// Rows of a sharded table looked up and pooled, against a table of one process, and what is sent for it.
#include "support/element_types.hpp"
#include "support/pool_types.hpp"
#include "tables.hpp"

#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;
namespace mpi = lod::mpi;

namespace {

/// How many different ids of a batch a rank has the rows of.
template <class Table>
std::int64_t distinct_of(const Table& table, std::span<const std::int64_t> ids, int owner) {
  std::set<std::int64_t> all;
  for (const std::int64_t id : ids) {
    if (table.owner(id) == owner) all.insert(id);
  }
  return static_cast<std::int64_t>(all.size());
}

/// The sums of those rows of each sequence that a rank has, added up in the order of ranks; then divided.
template <class T>
LoDTensor<T> pooled_by_parts(const RandomTable<T>& table, int ranks, WholeTable<T>& whole, const IdBatch& ids,
                             PoolType type, double pad_value) {
  const auto offsets = ids.lod_view().absolute_offsets(ids.levels() - 1);
  std::vector<std::int64_t> lengths, sums_of_each, places;
  for (std::size_t sequence = 0; sequence + 1 < offsets.size(); ++sequence) {
    sums_of_each.push_back(0);
    for (int rank = 0; rank < ranks; ++rank) {
      std::int64_t count = 0;
      for (std::int64_t i = offsets[sequence]; i < offsets[sequence + 1]; ++i) {
        const std::int64_t id = ids.values()[static_cast<std::size_t>(i)];
        if (table.owner(id) != rank) continue;
        places.push_back(id);
        ++count;
      }
      if (count == 0) continue;
      lengths.push_back(count);
      ++sums_of_each.back();
    }
  }
  const auto of_ranks = IdBatch::from_values(LoD::from_lengths({lengths}), {}, places);
  const auto sums = lod::sequence_pool(whole.rows.get(of_ranks), PoolType::SUM);
  auto y =
      lod::sequence_pool(sums.with_lod(LoD::from_lengths({sums_of_each})), PoolType::SUM, {.pad_value = pad_value});
  for (std::size_t sequence = 0; sequence + 1 < offsets.size(); ++sequence) {
    const auto count = static_cast<T>(offsets[sequence + 1] - offsets[sequence]);
    if (type == PoolType::SUM || count == 0) continue;
    for (T& number : y.row(static_cast<std::int64_t>(sequence))) {
      number /= type == PoolType::AVERAGE ? count : std::sqrt(count);
    }
  }
  return std::move(y).with_lod(ids.lod().levels_above(ids.levels() - 1));
}

}  // namespace

TEST_CASE("ShardedTable: rows of ids under any levels as one process has them, of every type") {
  const auto ranks = all_ranks();
  const auto in_pieces = all_ranks(10);
  for_each_type(FloatingTypes(), [&]<class T>(std::type_identity<T>) {
    for_each_sample(4, 2, [&](Engine& engine, int levels) {
      const std::int64_t height = random_number(engine, 1, 60);
      for (const auto& options : all_divisions(height)) {
        const auto& by = height % 2 ? in_pieces : ranks;
        RandomTable<T> table(by, {3}, options, usual_rows);
        WholeTable<T> whole({3});
        LoDTensor<T> y;
        for (int batch = 0; batch < 3; ++batch) {
          const auto all = id_batches(engine, ranks, levels, height, 1 + batch);
          const auto& ids = own(all, ranks);
          const auto unknown = table.look_up(ids, {}, {.grow = false});
          check_parts(ranks, table, whole.rows);
          static_cast<void>(whole.rows.positions(all_ids(all)));
          table.look_up_into(ids, {}, {}, y);
          CHECK(same_bits(y, whole.rows.get(ids)));
          CHECK(same_bits(y, unknown));
          check_parts(ranks, table, whole.rows);
          // A slice, whose rows do not begin at 0.
          const std::int64_t half = ids.size() / 2;
          const auto slice = ids.between(half, ids.size());
          CHECK(same_bits(table.look_up(slice), whole.rows.get(slice)));
        }
      }
    });
  });
}

TEST_CASE("ShardedTable: one rank has all ids, or all rows, and the greatest ids are as good as others") {
  const auto ranks = all_ranks();
  for (int rank = 0; rank < ranks.size(); ++rank) {
    constexpr std::int64_t last = mpi::ShardedTableOptions::any_number - 1;
    RandomTable<float> table(ranks, {2, 2}, {}, usual_rows);
    WholeTable<float> whole({2, 2});
    const auto all = IdBatch::from_values({}, {}, {5, last, 5, 0, last - 1, 77});
    const IdBatch ids = ranks.rank() == rank ? all : IdBatch({0});
    CHECK(same_bits(table.look_up(ids), whole.rows.get(ids)));
    // All of one owner.
    std::vector<std::int64_t> of_owner;
    for (std::int64_t id = 0; of_owner.size() < 20; ++id) {
      if (table.owner(id) == rank) of_owner.push_back(id);
    }
    CHECK(same_bits(table.look_up(IdBatch::from_values({}, {}, of_owner)), whole.rows.get(of_owner)));
    const auto sizes = table.sizes();
    CHECK(sizes[static_cast<std::size_t>(rank)] >= 20);
  }
}

TEST_CASE("ShardedTable: padding has rows of zeros, and is neither sent nor added") {
  const auto ranks = all_ranks();
  RandomTable<double> table(ranks, {2}, {.height = 10}, usual_rows);
  const auto ids = IdBatch::from_values(LoD::from_lengths({{3, 0, 2}}), {}, {3, -1, 7, 3, 7});
  const auto y = table.look_up(ids, {.padding_idx = 7, .skip_minus_one = true});
  WholeTable<double> whole({2});
  LoDTensor<double> expected(ids.lod(), {2});
  for (const std::int64_t i : {0, 3}) {
    const auto row = whole.rows.get({3});
    std::copy(row.values().begin(), row.values().end(), expected.row(i).begin());
  }
  CHECK(same_bits(y, expected));
  check_parts(ranks, table, whole.rows);
}

TEST_CASE("ShardedTable: a look-up sends each different id once, and gets each row once") {
  const auto ranks = all_ranks();
  const std::int64_t others = ranks.size() - 1, row_bytes = 3 * sizeof(float), id_bytes = sizeof(std::int64_t);
  for_each_sample(8, 1, [&](Engine& engine, int levels) {
    RandomTable<float> table(ranks, {3}, {.height = 40}, usual_rows);
    const auto all = id_batches(engine, ranks, levels, 40, 7);
    const mpi::Cost sizes = lod_test::cost_of_sizes(ranks);
    std::int64_t messages = sizes.messages + others;  // whether it has failed
    std::int64_t bytes = sizes.bytes + others * id_bytes;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      if (rank == ranks.rank()) continue;
      const std::int64_t wanted = distinct_of(table, own(all, ranks).values(), rank);
      const std::int64_t given = distinct_of(table, all[static_cast<std::size_t>(rank)].values(), ranks.rank());
      messages += (wanted > 0 ? 1 : 0) + (given > 0 ? 1 : 0);
      bytes += wanted * id_bytes + given * row_bytes;
    }
    const auto sent = lod_test::sent_in(ranks, [&] { static_cast<void>(table.look_up(own(all, ranks))); });
    CHECK(sent.collectives == sizes.collectives);
    CHECK(sent.messages == messages);
    CHECK(sent.bytes == bytes);
  });
}

TEST_CASE("ShardedTable: pools with a fixed order have the bits of embedding_pool, of every type") {
  const auto ranks = all_ranks();
  for_each_type(FloatingTypes(), [&]<class T>(std::type_identity<T>) {
    Engine engine(first_seed());
    for (int sample = 0; sample < 4; ++sample) {
      RandomTable<T> table(ranks, {3}, {.fixed_order = true}, usual_rows);
      WholeTable<T> whole({3});
      const auto all = id_batches(engine, ranks, 1 + sample % 2, 30);
      const auto& ids = own(all, ranks);
      const auto positions = whole.rows.positions(ids);
      const auto weights = real_numbers<T>(engine, {ids.rows(), 1});
      for (const PoolType type : all_pool_types) {
        for (const int level : {0, -1}) {
          const lod::EmbeddingPoolOptions<T> pooling{.pad_value = 0.5, .level = level};
          CHECK(same_bits(table.pool(ids, type, pooling),
                          lod::embedding_pool(whole.rows.value(), positions, type, pooling)));
        }
        const lod::EmbeddingPoolOptions<T> weighted{.weights = weights};
        CHECK(same_bits(table.pool(ids, type, weighted),
                        lod::embedding_pool(whole.rows.value(), positions, type, weighted)));
      }
    }
  });
}

TEST_CASE("ShardedTable: pools are sums over ranks in their order, whether rows are sent or sums of them") {
  const auto ranks = all_ranks();
  for_each_type(Types<float, double>(), [&]<class T>(std::type_identity<T>) {
    Engine engine(first_seed());
    for (int sample = 0; sample < 12; ++sample) {
      INFO("LOD_TEST_SEED=", first_seed(), ": sample ", sample);
      // Wide rows of long sequences are pooled where they are; narrow ones come as they are.
      const std::int64_t row_size = sample % 2 ? 40 : 1, length = sample % 3 ? 30 : 2;
      RandomTable<T> table(ranks, {row_size}, {}, usual_rows);
      WholeTable<T> whole({row_size});
      std::vector<IdBatch> all;
      for (int rank = 0; rank < ranks.size(); ++rank) {
        const auto lengths = RandomLoD{.levels = 1 + sample % 2, .length = length}.lengths(engine);
        all.push_back(random_ids(engine, LoD::from_lengths(lengths), 90));
      }
      const auto& ids = own(all, ranks);
      for (const PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT}) {
        const auto y = table.pool(ids, type, {.pad_value = -3});
        CHECK(same_bits(y, pooled_by_parts(table, ranks.size(), whole, ids, type, -3)));
      }
      const auto largest = table.pool(ids, PoolType::MAX);
      CHECK(same_bits(largest, lod::sequence_pool(whole.rows.get(ids), PoolType::MAX)));
    }
  });
}

TEST_CASE(
    "ShardedTable: of a long sequence with wide rows each rank sends one row, of the sum, and no more bytes ever") {
  const auto ranks = all_ranks();
  const std::int64_t others = ranks.size() - 1;
  const mpi::Cost sizes = lod_test::cost_of_sizes(ranks);
  const std::int64_t fixed = sizes.bytes + 8 * others;
  std::vector<std::int64_t> many(300);
  std::iota(many.begin(), many.end(), 0);
  for (const bool is_wide : {false, true}) {
    const std::int64_t row_size = is_wide ? 100 : 1;
    RandomTable<float> table(ranks, {row_size}, {}, usual_rows);
    // Narrow: each id in ten sequences, so that rows are less.
    std::vector<std::int64_t> ids = many;
    if (!is_wide) {
      for (int i = 1; i < 10; ++i) ids.insert(ids.end(), many.begin(), many.end());
    }
    const std::vector<std::int64_t> lengths(is_wide ? 1 : ids.size(), is_wide ? 300 : 1);
    const auto batch = IdBatch::from_values(LoD::from_lengths({lengths}), {}, ids);
    std::int64_t expected = fixed;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      if (rank == ranks.rank()) continue;
      const std::int64_t wanted = distinct_of(table, ids, rank), given = distinct_of(table, ids, ranks.rank());
      // Ids and the length of one part; one row back. Or distinct ids, and their rows.
      expected += is_wide ? 8 * (wanted + 1) + 4 * row_size : 8 * wanted + 4 * row_size * given;
    }
    const auto sent = lod_test::sent_in(ranks, [&] { static_cast<void>(table.pool(batch, PoolType::SUM)); });
    CHECK(sent.bytes == expected);
    CHECK(sent.collectives == sizes.collectives);
  }
}

TEST_CASE("ShardedTable: wrong ids on one rank are errors on all, and the table is as before") {
  const auto ranks = all_ranks();
  for (int rank = 0; rank < ranks.size(); ++rank) {
    RandomTable<float> table(ranks, {3}, {.height = 50}, usual_rows);
    WholeTable<float> whole({3});
    const auto some = IdBatch::from_values(LoD::from_lengths({{2}}), {}, {4, 40});
    LoDTensor<float> y = table.look_up(some);
    static_cast<void>(whole.rows.positions(some));
    const auto before = y;
    const auto check_refused = [&](std::vector<std::int64_t> wrong, const char* text) {
      const auto ids = IdBatch::from_values(LoD::from_lengths({{2}}), {},
                                            ranks.rank() == rank ? wrong : std::vector<std::int64_t>{1, 2});
      check_fails_together<lod::OutOfRange>(ranks, rank, text, [&] { table.look_up_into(ids, {}, {}, y); });
      check_fails_together<lod::OutOfRange>(ranks, rank, text, [&] { table.pool_into(ids, PoolType::SUM, {}, {}, y); });
      CHECK(same_bits(y, before));
      check_parts(ranks, table, whole.rows);
    };
    check_refused({3, -2}, "id -2 at position 1, expected 0 to 49");
    check_refused({50, 3}, "id 50 at position 0, expected 0 to 49");
    check_refused({std::numeric_limits<std::int64_t>::max(), 3}, "at position 0, expected 0 to 49");
    const auto without_levels = ranks.rank() == rank ? IdBatch({2}) : some;
    check_fails_together<lod::InvalidLoD>(ranks, rank, "ShardedTable::pool",
                                          [&] { static_cast<void>(table.pool(without_levels, PoolType::SUM)); });
    check_fails_together<lod::OutOfRange>(ranks, rank, "level", [&] {
      static_cast<void>(table.pool(some, PoolType::SUM, {.level = ranks.rank() == rank ? 5 : 0}));
    });
  }
}

TEST_CASE("ShardedTable: a rank that cannot take more rows is an error on all, and none of them has added any") {
  const auto ranks = all_ranks();
  const std::int64_t most = ranks.rank() == 0 ? 2 : mpi::ShardedTableOptions::any_number;
  RandomTable<float> table(ranks, {3}, {.height = 200, .most_rows = most}, usual_rows);
  WholeTable<float> whole({3});
  IdBatch ids({100});
  std::iota(ids.values().begin(), ids.values().end(), 0);
  check_fails_together<lod::OutOfRange>(ranks, 0, "and all 2 are taken",
                                        [&] { static_cast<void>(table.look_up(ids)); });
  check_parts(ranks, table, whole.rows);
  std::vector<std::int64_t> few;
  for (std::int64_t id = 0; few.size() < 2; ++id) {
    if (table.owner(id) == 0) few.push_back(id);
  }
  static_cast<void>(whole.rows.positions(few));
  CHECK(same_bits(table.look_up(IdBatch::from_values({}, {}, few)), whole.rows.get(few)));
  check_parts(ranks, table, whole.rows);
}

namespace {

/// Rows that one rank cannot make.
struct Failing {
  bool fails = false;
  void operator()(std::int64_t, std::span<float>) const {
    if (fails) throw std::runtime_error("no such word");
  }
};

}  // namespace

TEST_CASE("ShardedTable: an initializer that throws on one rank is an error on all, and nothing is added") {
  const auto ranks = all_ranks();
  for (int rank = 0; rank < ranks.size(); ++rank) {
    mpi::ShardedTable<float, Failing> table(ranks, {2}, {}, Failing{ranks.rank() == rank});
    IdBatch ids({100});
    std::iota(ids.values().begin(), ids.values().end(), 0);
    check_fails_together<std::runtime_error>(ranks, rank, "no such word",
                                             [&] { static_cast<void>(table.look_up(ids)); });
    CHECK(table.local_size() == 0);
  }
}

TEST_CASE("ShardedTable: a rank without memory does not keep the others waiting, and nothing is added") {
  NoMemory none;
  const lod::CpuExecutor poor(1, &none);
  const auto usual = all_ranks();
  for (int rank = 0; rank < usual.size(); ++rank) {
    for (const std::int64_t piece : {std::int64_t{5}, std::int64_t{1} << 20}) {
      const mpi::Communicator ranks(MPI_COMM_WORLD, usual.rank() == rank ? poor : usual.executor());
      lod::between_ranks::group_of(ranks).piece = piece;
      RandomTable<float> table(ranks, {3}, {.height = 100}, usual_rows);
      IdBatch ids(LoD::from_lengths({{60, 40}}), {});
      std::iota(ids.values().begin(), ids.values().end(), 0);
      check_fails_together<std::bad_alloc>(ranks, rank, "bad_alloc", [&] { static_cast<void>(table.look_up(ids)); });
      check_fails_together<std::bad_alloc>(ranks, rank, "bad_alloc",
                                           [&] { static_cast<void>(table.pool(ids, PoolType::SUM)); });
      const lod::SelectedRows<float> gradient(std::vector<std::int64_t>(ids.values().begin(), ids.values().end()), 100,
                                              {3});
      check_fails_together<std::bad_alloc>(ranks, rank, "bad_alloc", [&] { table.adagrad(gradient, {}); });
      CHECK(table.sizes() == std::vector<std::int64_t>(static_cast<std::size_t>(ranks.size())));
    }
  }
}

TEST_CASE("ShardedTable: ranks that differ in the table, its options or the call get an error each") {
  const auto ranks = all_ranks();
  CHECK_THROWS_WITH_AS(RandomTable<float>(ranks, {3}, {.division = mpi::Division::BY_RANGE}),
                       doctest::Contains("BY_RANGE of any number of ids, expected a height"), std::invalid_argument);
  CHECK_THROWS_AS(RandomTable<float>(ranks, {3}, {.height = -1}), lod::ShapeMismatch);
  if (ranks.size() == 1) return;
  const bool odd = ranks.rank() == 1;
  CHECK_THROWS_WITH_AS(RandomTable<float>(ranks, {3}, {.height = odd ? 5 : 6}),
                       doctest::Contains("rank 1: height 5, expected 6"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(RandomTable<float>(ranks, {odd ? 4 : 3}), doctest::Contains("rows of shape {4}, expected {3}"),
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(RandomTable<float>(ranks, {3}, {.fixed_order = odd}),
                       doctest::Contains("rank 1: ShardedTable: the division, or fixed_order, differs"),
                       mpi::RankError);
  RandomTable<float> first(ranks, {3}), second(ranks, {3});
  const IdBatch ids({2});
  CHECK_THROWS_WITH_AS(static_cast<void>((odd ? second : first).look_up(ids)),
                       doctest::Contains("another table than that of rank 0"), mpi::RankError);
  CHECK_THROWS_WITH_AS(static_cast<void>(first.look_up(ids, {}, {.grow = odd})),
                       doctest::Contains("the option grow differs"), mpi::RankError);
  CHECK(first.local_size() + second.local_size() == 0);
  CHECK_THROWS_WITH_AS(odd ? static_cast<void>(first.sizes()) : static_cast<void>(first.look_up(ids)),
                       doctest::Contains("calls ShardedTable::sizes where rank 0 calls ShardedTable::look_up"),
                       mpi::RankError);
}

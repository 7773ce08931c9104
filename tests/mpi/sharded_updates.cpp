// SPDX-License-Identifier: Apache-2.0
// Optimizers of a sharded table, against the same steps in one process, bit for bit.
#include "support/element_types.hpp"
#include "tables.hpp"
#include <lod/ops.hpp>

#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using lod::LoDTensor;
using lod::SelectedRows;
using lod::Sparse;
using namespace lod_test;
namespace mpi = lod::mpi;

namespace {

/// Gradients of the ranks, whose ids repeat; some have no rows.
template <class T>
std::vector<SelectedRows<T>> real_gradients(Engine& engine, const mpi::Communicator& ranks, std::int64_t height) {
  std::vector<SelectedRows<T>> all;
  for (const auto& g : sparse_values<T>(engine, ranks, std::min<std::int64_t>(height, 30))) {
    all.emplace_back(g.rows(), height, real_numbers<T>(engine, {g.value().rows(), 3}));
  }
  return all;
}

/// The sum of all ranks' gradients as the table's options say that it is merged.
template <class T>
SelectedRows<T> sum_of_gradients(const std::vector<SelectedRows<T>>& all, bool fixed_order) {
  if (fixed_order) return lod::merge_add(listed(all));
  std::vector<SelectedRows<T>> merged;
  for (const auto& g : all) merged.push_back(lod::merge_add(g));
  return lod::merge_add(merged);
}

/// Three steps of table_step(table, gradient, step) and whole_step(whole table, gradient, step) give the same rows.
template <class T, class TableStep, class WholeStep>
void check_steps(const mpi::Communicator& ranks, const TableStep& table_step, const WholeStep& whole_step) {
  Engine engine(first_seed());
  for (auto options : all_divisions(100)) {
    for (const bool fixed_order : {false, true}) {
      options.fixed_order = fixed_order;
      RandomTable<T> table(ranks, {3}, options, usual_rows);
      WholeTable<T> whole({3});
      for (int step = 1; step <= 3; ++step) {
        // Rows that have no gradient later.
        const auto ids = id_batches(engine, ranks, 0, 50);
        static_cast<void>(table.look_up(own(ids, ranks)));
        static_cast<void>(whole.rows.positions(all_ids(ids)));
        const auto all = real_gradients<T>(engine, ranks, table.height());
        table_step(table, own(all, ranks), step);
        const auto at = whole.at_positions(sum_of_gradients(all, fixed_order));
        whole_step(whole, at, step);
        check_parts(ranks, table, whole.rows);
      }
    }
  }
}

/// The same for an optimizer in both modes, of every type.
template <class Options, class TableStep, class WholeStep>
void check_optimizer(Options options, const TableStep& table_step, const WholeStep& whole_step) {
  const auto ranks = all_ranks();
  for_each_type(FloatingTypes(), [&]<class T>(std::type_identity<T>) {
    for (const Sparse mode : {Sparse::LAZY, Sparse::EXACT}) {
      options.mode = mode;
      check_steps<T>(
          ranks, [&](auto& table, const auto& g, int step) { table_step(table, g, options, step); },
          [&](auto& whole, const auto& g, int step) { whole_step(whole, g, options, step); });
    }
  });
}

}  // namespace

TEST_CASE("ShardedTable: sgd as in one process that merges the gradients in the same order, of every type") {
  check_optimizer(
      lod::SgdOptions{.learning_rate = 0.1},
      [](auto& table, const auto& g, const auto& options, int) { table.sgd(g, options); },
      [](auto& whole, const auto& g, const auto& options, int) { lod::sgd(whole.rows.value(), g, options); });
}

TEST_CASE("ShardedTable: momentum as in one process, of every type") {
  check_optimizer(
      lod::MomentumOptions{.learning_rate = 0.1, .nesterov = true, .l2_decay = 0.01},
      [](auto& table, const auto& g, const auto& options, int) { table.momentum(g, options); },
      [](auto& whole, const auto& g, const auto& options, int) {
        lod::momentum(whole.rows.value(), whole.first_state(), g, options);
      });
}

TEST_CASE("ShardedTable: adagrad as in one process, of every type") {
  check_optimizer(
      lod::AdagradOptions{.learning_rate = 0.1},
      [](auto& table, const auto& g, const auto& options, int) { table.adagrad(g, options); },
      [](auto& whole, const auto& g, const auto& options, int) {
        lod::adagrad(whole.rows.value(), whole.first_state(), g, options);
      });
}

TEST_CASE("ShardedTable: rmsprop, adam and ftrl as in one process, of every type") {
  check_optimizer(
      lod::RmspropOptions{.learning_rate = 0.1, .momentum = 0.5},
      [](auto& table, const auto& g, const auto& options, int) { table.rmsprop(g, options); },
      [](auto& whole, const auto& g, const auto& options, int) {
        lod::rmsprop(whole.rows.value(), whole.first_state(), whole.second_state(), g, options);
      });
  check_optimizer(
      lod::AdamOptions{.learning_rate = 0.1},
      [](auto& table, const auto& g, auto options, int step) {
        options.step = step;
        table.adam(g, options);
      },
      [](auto& whole, const auto& g, auto options, int step) {
        options.step = step;
        lod::adam(whole.rows.value(), whole.first_state(), whole.second_state(), g, options);
      });
  check_optimizer(
      lod::FtrlOptions{.learning_rate = 0.1, .l1 = 0.01},
      [](auto& table, const auto& g, const auto& options, int) { table.ftrl(g, options); },
      [](auto& whole, const auto& g, const auto& options, int) {
        lod::ftrl(whole.rows.value(), whole.first_state(), whole.second_state(), g, options);
      });
}

TEST_CASE("ShardedTable: with a fixed order, training has the bits of one process that has the whole batch") {
  const auto ranks = all_ranks();
  Engine engine(first_seed());
  RandomTable<float> table(ranks, {4}, {.fixed_order = true}, usual_rows);
  WholeTable<float> whole({4});
  for (int step = 0; step < 5; ++step) {
    // One batch, of which each rank has consecutive sentences. Rows are pulled to what they are not.
    const auto lengths = RandomLoD{.levels = 1, .sequences = 24, .length = 9}.lengths(engine);
    const auto batch = random_ids(engine, lod::LoD::from_lengths(lengths), 40);
    const std::int64_t begin = batch.size() * ranks.rank() / ranks.size();
    const std::int64_t end = batch.size() * (ranks.rank() + 1) / ranks.size();
    const auto ids = batch.between(begin, end);
    const auto y = table.pool(ids, lod::PoolType::AVERAGE);
    table.adagrad(table.pool_gradient(y, ids, lod::PoolType::AVERAGE), {.learning_rate = 0.3});
    const auto x = table.look_up(ids);
    table.sgd(table.gradient(x, ids), {.learning_rate = 0.1});

    constexpr auto any = mpi::ShardedTableOptions::any_number;
    const auto positions = whole.rows.positions(batch);
    const auto whole_y = lod::embedding_pool(whole.rows.value(), positions, lod::PoolType::AVERAGE);
    CHECK(same_bits(y, whole_y.between(begin, end)));
    // A rank's gradient of a pool has each row once: the ranks' parts are what is listed.
    std::vector<SelectedRows<float>> parts;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      const std::int64_t from = batch.size() * rank / ranks.size(), to = batch.size() * (rank + 1) / ranks.size();
      parts.push_back(
          lod::embedding_pool_grad(whole_y.between(from, to), batch.between(from, to), any, lod::PoolType::AVERAGE));
    }
    const auto g = whole.at_positions(listed(parts));
    lod::adagrad(whole.rows.value(), whole.first_state(), g, {.learning_rate = 0.3});
    const auto whole_x = lod::embedding(whole.rows.value(), positions);
    CHECK(same_bits(x, whole_x.between(begin, end)));
    lod::sgd(whole.rows.value(), lod::embedding_grad(whole_x, positions, whole.rows.size()), {.learning_rate = 0.1});
    check_parts(ranks, table, whole.rows);
  }
}

TEST_CASE("ShardedTable: a step sends each rank's rows once, merged unless the order is fixed") {
  const auto ranks = all_ranks();
  const std::int64_t others = ranks.size() - 1;
  for (const bool fixed_order : {false, true}) {
    RandomTable<float> table(ranks, {3}, {.height = 50, .fixed_order = fixed_order}, usual_rows);
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 90; ++i) ids.push_back(i % 30);
    const mpi::Cost sizes = lod_test::cost_of_sizes(ranks);
    std::int64_t leaving = 0, messages = sizes.messages + others;
    for (int rank = 0; rank < ranks.size(); ++rank) {
      std::int64_t for_rank = 0;
      for (std::int64_t id = 0; id < 30; ++id) for_rank += table.owner(id) == rank ? 1 : 0;
      if (rank == ranks.rank() || for_rank == 0) continue;
      leaving += for_rank * (fixed_order ? 3 : 1);
      messages += 2;
    }
    const auto sent = lod_test::sent_in(ranks, [&] { table.sgd(SelectedRows<float>(ids, 50, {3}), {}); });
    CHECK(sent.collectives == sizes.collectives);
    CHECK(sent.messages == messages);
    CHECK(sent.bytes == sizes.bytes + others * 8 + leaving * (8 + 3 * 4));
  }
}

TEST_CASE("ShardedTable: a wrong gradient, or a wrong option, on one rank is an error on all; nothing has changed") {
  const auto ranks = all_ranks();
  for (int rank = 0; rank < ranks.size(); ++rank) {
    RandomTable<float> table(ranks, {3}, {.height = 50}, usual_rows);
    WholeTable<float> whole({3});
    const SelectedRows<float> good({4, 40, 4}, 50, {3});
    const auto check_refused = [&]<class Error>(std::type_identity<Error>, const SelectedRows<float>& odd,
                                                const lod::AdagradOptions& odd_options, const char* text) {
      const bool is_odd = ranks.rank() == rank;
      check_fails_together<Error>(
          ranks, rank, text, [&] { table.adagrad(is_odd ? odd : good, is_odd ? odd_options : lod::AdagradOptions()); });
      check_parts(ranks, table, whole.rows);
    };
    check_refused(std::type_identity<lod::ShapeMismatch>(), SelectedRows<float>({4}, 51, {3}), {},
                  "ShardedTable::adagrad: gradient: height 51, expected 50");
    check_refused(std::type_identity<lod::ShapeMismatch>(), SelectedRows<float>({4}, 50, {2}), {},
                  "ShardedTable::adagrad: gradient");
    SelectedRows<float> broken({1, 2}, 50, {3});
    broken.value() = LoDTensor<float>({1, 3});
    check_refused(std::type_identity<lod::ShapeMismatch>(), broken, {}, "2 ids, but 1 rows of values");
    check_refused(std::type_identity<std::invalid_argument>(), good, {.epsilon = -1}, "epsilon");
    check_fails_together<lod::OutOfRange>(ranks, rank, "step 0",
                                          [&] { table.adam(good, {.step = ranks.rank() == rank ? 0 : 1}); });
    check_parts(ranks, table, whole.rows);
  }
}

TEST_CASE(
    "ShardedTable: another optimizer than the one whose states there are, or than other ranks call, is an error") {
  const auto ranks = all_ranks();
  RandomTable<float> table(ranks, {3}, {.height = 50}, usual_rows);
  const SelectedRows<float> gradient({4, 40, 4}, 50, {3});
  table.adam(gradient, {.step = 1});
  table.sgd(gradient, {});  // which has none
  CHECK_THROWS_AS(table.momentum(gradient, {}), std::exception);
  table.adam(gradient, {.step = 2});
  if (ranks.size() == 1) return;
  const bool odd = ranks.rank() == 1;
  CHECK_THROWS_WITH_AS(
      table.sgd(gradient, {.learning_rate = odd ? 0.1 : 0.2}),
      doctest::Contains("rank 1: ShardedTable's optimizer: the optimizer, or an option of it, differs"),
      mpi::RankError);
  CHECK_THROWS_WITH_AS(odd ? table.sgd(gradient, {}) : table.adam(gradient, {.step = 3}),
                       doctest::Contains("the optimizer, or an option of it, differs"), mpi::RankError);
}

TEST_CASE("ShardedTable: a step that would need more rows than a rank may have changes none") {
  const auto ranks = all_ranks();
  const std::int64_t most = ranks.rank() == 0 ? 1 : mpi::ShardedTableOptions::any_number;
  RandomTable<float> table(ranks, {3}, {.height = 200, .most_rows = most}, usual_rows);
  WholeTable<float> whole({3});
  std::vector<std::int64_t> ids(200);
  std::iota(ids.begin(), ids.end(), 0);
  auto gradient = SelectedRows<float>(ids, 200, {3});
  gradient.value().fill(1);
  check_fails_together<lod::OutOfRange>(ranks, 0, "and all 1 are taken",
                                        [&] { table.momentum(gradient, {.learning_rate = 1}); });
  check_parts(ranks, table, whole.rows);
}

// SPDX-License-Identifier: Apache-2.0
/// @file
/// Rows of an index that are counted inside their sequences: of winners, of sorted rows, of the greatest.
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::RowIndex;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;
using RowNumbers = LoDTensor<std::int64_t>;

namespace {

Numbers rows_named(const RowNumbers& index) { return {index.values().begin(), index.values().end()}; }

/// The index of winners, `row_size` of each sequence, counted from the first row of their sequence.
Numbers winners_of_sequences(const RowNumbers& index, const Numbers& begins) {
  Numbers rows = rows_named(index);
  const auto row_size = static_cast<std::size_t>(index.row_size());
  for (std::size_t k = 0; k < rows.size(); ++k) {
    if (rows[k] >= 0) rows[k] -= begins[k / row_size];
  }
  return rows;
}
/// The same of rows of which lengths[i] belong to sequence i.
Numbers rows_of_sequences(const RowNumbers& index, const Numbers& begins, const Numbers& lengths) {
  Numbers rows = rows_named(index);
  std::size_t k = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    for (std::int64_t row = 0; row < lengths[i]; ++row) rows[k++] -= begins[i];
  }
  return rows;
}
Numbers rows_in(const LoD& lod, int level) {
  const Numbers bounds = lod.absolute_offsets(level);
  Numbers lengths;
  for (std::size_t i = 1; i < bounds.size(); ++i) lengths.push_back(bounds[i] - bounds[i - 1]);
  return lengths;
}

}  // namespace

TEST_CASE("RowIndex: rows counted from the first of their sequence, with the levels of the values") {
  const auto x = LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{3, 1, 2}, {}, {5, 7}});
  const auto won = lod::sequence_max_pool(x, {.row_index = RowIndex::SEQUENCE});
  CHECK(rows_named(won.index) == Numbers{0, -1, 1});
  CHECK(rows_named(lod::sequence_min_pool(x, {.row_index = RowIndex::SEQUENCE}).index) == Numbers{1, -1, 0});
  const auto order = lod::sequence_argsort(x, {.row_index = RowIndex::SEQUENCE});
  CHECK(rows_named(order) == Numbers{1, 2, 0, 0, 1});
  CHECK(order.lod() == x.lod());
  const auto top = lod::sequence_topk(x, 2, {.row_index = RowIndex::SEQUENCE});
  CHECK(rows_named(top.index) == Numbers{0, 2, 1, 0});
  CHECK(top.index.lod() == LoD::from_lengths({{2, 0, 2}}));
  CHECK(rows_named(lod::sequence_argsort(x)) == Numbers{1, 2, 0, 3, 4});
  CHECK(lod::sequence_argsort(x).levels() == 0);
}

TEST_CASE("RowIndex: winners of any level, of slices too, and their gradients, on every executor") {
  for_each_random_lod(8, 1, 3, [](Engine& engine, const Lengths& lengths) {
    for (const std::int64_t row_size : {1, 3, 17}) {
      const auto all = small_integers<float>(engine, LoD::from_lengths(lengths), {row_size});
      const auto x = all.between(random_number(engine, 0, all.size() > 0), all.size());
      const LoD lod = x.lod();
      const int level = static_cast<int>(random_number(engine, 0, lod.levels() - 1));
      const lod::PoolOptions batch{.level = level}, sequence{.level = level, .row_index = RowIndex::SEQUENCE};
      const auto dy = small_integers<float>(engine, {lod.size(level), row_size});
      const auto check = [&](const auto& pool, const auto& gradient) {
        const auto expected = pool(lod::CpuExecutor(1), batch);
        const auto dx = gradient(lod::CpuExecutor(1), expected.index, batch);
        for_each_executor([&](const auto& executor) {
          const auto found = pool(executor, sequence);
          CHECK(same_bits(found.values, expected.values));
          CHECK(rows_named(found.index) == winners_of_sequences(expected.index, lod.absolute_offsets(level)));
          CHECK(found.index.lod() == found.values.lod());
          CHECK(found.index.shape() == found.values.shape());
          CHECK(same_bits(gradient(executor, found.index, sequence), dx));
        });
      };
      check([&](const auto& e, const auto& options) { return lod::sequence_max_pool(e, x, options); },
            [&](const auto& e, const RowNumbers& index, const auto& options) {
              return lod::sequence_max_pool_grad(e, dy, index, lod, options);
            });
      check([&](const auto& e, const auto& options) { return lod::sequence_min_pool(e, x, options); },
            [&](const auto& e, const RowNumbers& index, const auto& options) {
              return lod::sequence_min_pool_grad(e, dy, index, lod, options);
            });
    }
  });
}

TEST_CASE("RowIndex: sorted rows and the greatest of any level, and their gradients, on every executor") {
  for_each_random_lod(8, 1, 3, [](Engine& engine, const Lengths& lengths) {
    const auto all = small_integers<float>(engine, LoD::from_lengths(lengths), {});
    const auto x = all.between(random_number(engine, 0, all.size() > 0), all.size());
    const LoD lod = x.lod();
    const int level = static_cast<int>(random_number(engine, 0, lod.levels() - 1));
    const bool descending = random_number(engine, 0, 1) == 1;
    const lod::SortOptions batch{.descending = descending, .level = level};
    const lod::SortOptions sequence{.descending = descending, .level = level, .row_index = RowIndex::SEQUENCE};
    const lod::TopKOptions top_batch{.level = level}, top{.level = level, .row_index = RowIndex::SEQUENCE};
    const std::int64_t k = random_number(engine, 0, 3);
    const auto order = lod::sequence_argsort(lod::CpuExecutor(1), x, batch);
    const auto greatest = lod::sequence_topk(lod::CpuExecutor(1), x, k, top_batch);
    const auto dy = small_integers<float>(engine, lod, {});
    const auto dtop = small_integers<float>(engine, {greatest.values.rows()});
    const Numbers begins = lod.absolute_offsets(level);
    for_each_executor([&](const auto& executor) {
      const auto found = lod::sequence_argsort(executor, x, sequence);
      CHECK(rows_named(found) == rows_of_sequences(order, begins, rows_in(lod, level)));
      CHECK(found.lod() == lod);
      LoDTensor<float> sorted;
      RowNumbers index;
      lod::sequence_sort_into(executor, x, sequence, sorted, index);
      CHECK(same_bits(index, found));
      CHECK(same_bits(sorted, lod::sequence_sort(x, batch)));
      CHECK(
          same_bits(lod::sequence_sort_grad(executor, dy, found, sequence), lod::sequence_sort_grad(dy, order, batch)));
      const auto tops = lod::sequence_topk(executor, x, k, top);
      CHECK(same_bits(tops.values, greatest.values));
      CHECK(tops.index.lod() == tops.values.lod());
      CHECK(rows_named(tops.index) == rows_of_sequences(greatest.index, begins, rows_in(greatest.values.lod(), level)));
      CHECK(same_bits(lod::sequence_topk_grad(executor, dtop, tops.index, lod, k, top),
                      lod::sequence_topk_grad(dtop, greatest.index, lod, k, top_batch)));
    });
  });
}

TEST_CASE("RowIndex: winners among ids, some of them padding") {
  for_each_random_lod(4, 1, 2, [](Engine& engine, const Lengths& lengths) {
    const auto table = small_integers<float>(engine, {5, 3});
    RowNumbers ids(LoD::from_lengths(lengths), {});
    for (std::int64_t& id : ids.values()) id = random_number(engine, -1, 4);
    const int level = static_cast<int>(random_number(engine, 0, ids.levels() - 1));
    for (const std::int64_t padding : {-1, 2}) {
      lod::EmbeddingPoolOptions<float> batch{.padding_idx = padding, .skip_minus_one = true, .level = level};
      auto sequence = batch;
      sequence.row_index = RowIndex::SEQUENCE;
      const auto expected = lod::embedding_max_pool(lod::CpuExecutor(1), table, ids, batch);
      const auto dy = small_integers<float>(engine, expected.values.shape());
      const auto gradient = lod::embedding_max_pool_grad(dy, expected.index, ids, 5, batch);
      for_each_executor([&](const auto& executor) {
        const auto found = lod::embedding_max_pool(executor, table, ids, sequence);
        CHECK(rows_named(found.index) == winners_of_sequences(expected.index, ids.lod().absolute_offsets(level)));
        CHECK(found.index.lod() == found.values.lod());
        const auto dtable = lod::embedding_max_pool_grad(executor, dy, found.index, ids, 5, sequence);
        CHECK(dtable.rows() == gradient.rows());
        CHECK(same_bits(dtable.value(), gradient.value()));
        const auto least = lod::embedding_min_pool(executor, table, ids, sequence);
        CHECK(rows_named(least.index) == winners_of_sequences(lod::embedding_min_pool(table, ids, batch).index,
                                                              ids.lod().absolute_offsets(level)));
      });
    }
  });
}

TEST_CASE("RowIndex: an index outside its sequence throws, and says what it may be") {
  const lod::CpuExecutor executor(1);
  const auto lod = LoD::from_lengths({{2, 0, 1}});
  const LoDTensor<float> dy({3}), rows(lod, {});
  LoDTensor<float> dx(lod, {});
  constexpr auto sequence = RowIndex::SEQUENCE;
  const auto index = [](const Numbers& numbers) { return RowNumbers::from_values({}, {}, numbers); };
  check_throws<lod::OutOfRange>(
      [&] {
        lod::sequence_max_pool_grad_into(executor, dy, index({0, -1, 1}), lod, {.row_index = sequence}, dx);
      },
      "sequence_max_pool_grad: index 1 of sequence 2, expected -1 or a row from 0 to 0", dx);
  check_throws<lod::OutOfRange>(
      [&] {
        lod::sequence_min_pool_grad_into(executor, dy, index({0, 0, 0}), lod, {.row_index = sequence}, dx);
      },
      "sequence_min_pool_grad: index 0 of sequence 1, expected -1, the sequence is empty", dx);
  check_throws<lod::OutOfRange>(
      [&] {
        lod::sequence_sort_grad_into(executor, rows, index({0, 2, 0}), {.row_index = sequence}, dx);
      },
      "sequence_sort_grad: index 2 of sequence 0, expected a row from 0 to 1", dx);
  check_throws<lod::OutOfRange>(
      [&] {
        lod::sequence_topk_grad_into(executor, LoDTensor<float>({2}), index({INT64_MAX, 0}), lod, 1,
                                     {.row_index = sequence}, dx);
      },
      "of sequence 0, expected a row from 0 to 1", dx);
  constexpr auto none = static_cast<RowIndex>(7);
  RowNumbers winners({3});
  check_throws<lod::OutOfRange>([&] { lod::sequence_max_pool_into(executor, rows, {.row_index = none}, dx, winners); },
                                "sequence_max_pool: RowIndex 7, expected BATCH or SEQUENCE", dx);
  check_throws<lod::OutOfRange>([&] { lod::sequence_argsort_into(executor, rows, {.row_index = none}, winners); },
                                "sequence_argsort: RowIndex 7", winners);
  check_throws<lod::OutOfRange>([&] { lod::sequence_topk_into(executor, rows, 1, {.row_index = none}, dx, winners); },
                                "sequence_topk: RowIndex 7", dx);
}

TEST_CASE("RowIndex: a second call allocates nothing, and views must have the levels of the values") {
  Engine engine(3);
  CountingResource resource;
  const lod::CpuExecutor executor(2, &resource);
  const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 1}, {3, 0, 2}}), {});
  LoDTensor<float> values(&resource), tops(&resource), dx(&resource);
  RowNumbers winners(&resource), order(&resource), index(&resource);
  constexpr auto sequence = RowIndex::SEQUENCE;
  int before = 0;
  for (int call = 0; call < 2; ++call) {
    before = resource.allocations;
    lod::sequence_max_pool_into(executor, x, {.row_index = sequence}, values, winners);
    lod::sequence_max_pool_grad_into(executor, values, winners, x.lod(), {.row_index = sequence}, dx);
    lod::sequence_argsort_into(executor, x, {.row_index = sequence}, order);
    lod::sequence_topk_into(executor, x, 1, {.row_index = sequence}, tops, index);
  }
  CHECK(resource.allocations == before);
  CHECK(winners.lod() == LoD::from_lengths({{2, 1}}));
  lod::sequence_argsort_into(executor, x, {.row_index = sequence}, order.view());
  RowNumbers plain({5});
  check_throws<lod::ShapeMismatch>(
      [&] { lod::sequence_argsort_into(executor, x, {.row_index = sequence}, plain.view()); },
      "and the levels of the result", plain);
}

TEST_CASE("RowIndex: described as it comes") {
  for_each_random_batch<float>(1, {}, [](Engine&, const LoDTensor<float>& x) {
    const lod::PoolOptions pool{.row_index = RowIndex::SEQUENCE};
    const lod::SortOptions sort{.row_index = RowIndex::SEQUENCE};
    const lod::TopKOptions top{.row_index = RowIndex::SEQUENCE};
    for (const auto& desc : {describe(x), blank(describe(x))}) {
      check_inferred(lod::sequence_max_pool(x, pool).index, lod::infer_sequence_max_pool(desc, pool).index);
      check_inferred(lod::sequence_min_pool(x, pool).index, lod::infer_sequence_min_pool(desc, pool).index);
      check_inferred(lod::sequence_argsort(x, sort), lod::infer_sequence_argsort(desc, sort));
      check_inferred(lod::sequence_topk(x, 2, top).index, lod::infer_sequence_topk(desc, 2, top).index);
    }
  });
  const auto table = described(lod::DataType::FP32, {4, 3});
  const auto ids = described(lod::DataType::INT64, {-1}, 2);
  CHECK(lod::infer_embedding_max_pool(table, ids, {.row_index = RowIndex::SEQUENCE}).index ==
        described(lod::DataType::INT64, {-1, 3}, 1));
  CHECK(lod::infer_embedding_min_pool(table, ids).index == described(lod::DataType::INT64, {-1, 3}));
  CHECK_THROWS_AS(
      lod::infer_sequence_argsort(described(lod::DataType::FP32, {4}, 1), {.row_index = static_cast<RowIndex>(3)}),
      lod::OutOfRange);
}

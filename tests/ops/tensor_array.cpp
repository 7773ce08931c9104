// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/count_allocations.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::RankTable;
using lod::TensorArray;
using namespace lod_test;

namespace {

/// The rows of each element.
Lengths rows_of_elements(const TensorArray<std::int64_t>& array) {
  Lengths all;
  for (const auto& element : array) all.emplace_back(element.values().begin(), element.values().end());
  return all;
}

/// The sequences of a level, longest first.
template <class T>
std::vector<Tree<T>> ranked(const Tree<T>& batch, int level) {
  std::vector<Tree<T>> sequences;
  for (const auto& sequence : sequences_of(batch, level)) {
    const auto shorter = std::find_if(sequences.begin(), sequences.end(),
                                      [&](const auto& other) { return other.parts.size() < sequence.parts.size(); });
    sequences.insert(shorter, sequence);
  }
  return sequences;
}

/// The steps of a level, as nested loops have them.
template <class T>
std::vector<Tree<T>> reference_steps(const Tree<T>& batch, int level) {
  const auto sequences = ranked(batch, level);
  std::vector<Tree<T>> steps;
  for (std::size_t t = 0; !sequences.empty() && t < sequences[0].parts.size(); ++t) {
    Tree<T> step;
    for (const auto& sequence : sequences) {
      if (sequence.parts.size() > t) step.parts.push_back(sequence.parts[t]);
    }
    steps.push_back(step);
  }
  return steps;
}

}  // namespace

TEST_CASE("TensorArray: reads, writes, grows") {
  TensorArray<float> array;
  CHECK(array.size() == 0);
  array.write(2, LoDTensor<float>({3, 2}));
  CHECK(array.size() == 3);
  CHECK(array[2].shape() == lod::Shape{3, 2});
  CHECK(array[0].rows() == 0);
  array.write(0, LoDTensor<float>({1, 2}));
  CHECK(array.size() == 3);
  CHECK(array[0].rows() == 1);
  array.resize(1);
  CHECK(array.size() == 1);
  CHECK(array[0].rows() == 1);
  array.resize(2);
  CHECK(array[1].rows() == 0);
  CHECK(array.size() == 2);
  CHECK_THROWS_WITH_AS(array[2], "TensorArray: element 2 of 2", lod::OutOfRange);
  CHECK_THROWS_WITH_AS(array[-1], "TensorArray: element -1 of 2", lod::OutOfRange);
  CHECK_THROWS_WITH_AS(array.write(-1, {}), "TensorArray: element -1, expected 0 or more", lod::OutOfRange);
  CHECK_THROWS_WITH_AS(array.resize(-1), "TensorArray: -1 elements, expected 0 or more", lod::OutOfRange);
  CHECK(TensorArray<float>(std::vector<LoDTensor<float>>(4)).size() == 4);
}

TEST_CASE("lod_tensor_to_array: the worked examples of PaddlePaddle's tests") {
  const Lengths expected = {{3, 0, 9}, {4, 1}, {5, 2}, {6}, {7}, {8}};
  const auto x = counted_rows({{3, 6, 1}});
  CHECK(rows_of_elements(lod::lod_tensor_to_array(x, RankTable(x.lod()))) == expected);
  const auto with_empty = counted_rows({{3, 6, 0, 1}});
  CHECK(rows_of_elements(lod::lod_tensor_to_array(with_empty, RankTable(with_empty.lod()))) == expected);

  const auto nested = counted_rows({{2, 3}, {3, 6, 2, 6, 3}});
  const auto steps = lod::lod_tensor_to_array(nested, RankTable(nested.lod()));
  CHECK(rows_of_elements(steps) == Lengths{{9, 10, 0, 1, 2}, {11, 12, 13, 14, 15, 16, 3, 4, 5, 6, 7, 8}, {17, 18, 19}});
  CHECK(steps[0].lod() == LoD::from_lengths({{2, 3}}));
  CHECK(steps[1].lod() == LoD::from_lengths({{6, 6}}));
  CHECK(steps[2].lod() == LoD::from_lengths({{3}}));

  const auto empties = counted_rows({{3, 2, 4, 2}, {3, 4, 4, 0, 1, 5, 2, 2, 2, 7, 1}});
  const auto some = lod::lod_tensor_to_array(empties, RankTable(empties.lod()));
  REQUIRE(some.size() == 4);
  CHECK(some[0].lod() == LoD::from_lengths({{5, 3, 0, 7}}));
  CHECK(some[1].lod() == LoD::from_lengths({{2, 4, 1, 1}}));
  CHECK(some[2].lod() == LoD::from_lengths({{2, 4}}));
  CHECK(some[3].lod() == LoD::from_lengths({{2}}));
  CHECK(std::vector<std::int64_t>(some[0].values().begin(), some[0].values().end()) ==
        std::vector<std::int64_t>{12, 13, 14, 15, 16, 0, 1, 2, 23, 24, 25, 26, 27, 28, 29});

  const auto deep = counted_rows({{2, 3, 1}, {2, 3, 1, 4, 2, 1}, {3, 4, 4, 6, 4, 1, 1, 4, 4, 8, 6, 1, 4}});
  const RankTable table(deep.lod());
  const auto whole = lod::lod_tensor_to_array(deep, table);
  REQUIRE(whole.size() == 3);
  CHECK(whole[0].lod() == LoD::from_lengths({{1, 2, 1}, {1, 3, 4, 4}}));
  CHECK(whole[1].lod() == LoD::from_lengths({{4, 3}, {1, 4, 4, 8, 4, 6, 4}}));
  CHECK(whole[2].lod() == LoD::from_lengths({{2}, {6, 1}}));
  CHECK(same_bits(lod::array_to_lod_tensor(whole, table), deep));
}

TEST_CASE("lod_tensor_to_array: agrees with nested loops for slices of every type, depth and level, and comes back") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const lod::CpuExecutor executor(2);
        for (int level = 0; level < x.levels(); ++level) {
          INFO("level ", level, ", row size ", row_size);
          const RankTable table(slice.lod(), {.level = level});
          const auto array = lod::lod_tensor_to_array(executor, slice, table);
          const auto expected = reference_steps(tree_of(slice), level);
          REQUIRE(array.size() == static_cast<std::int64_t>(expected.size()));
          for (std::int64_t t = 0; t < array.size(); ++t) {
            check_tree(array[t], x.levels() - level - 1, expected[static_cast<std::size_t>(t)]);
          }
          CHECK(same_bits(lod::array_to_lod_tensor(executor, array, table), slice));
          const auto z = lod::to_time_major(executor, slice, table);
          REQUIRE(z.steps() == array.size());
          for (std::int64_t t = 0; t < array.size(); ++t) CHECK(same_bits(z.step(t), array[t]));
          CHECK(same_bits(lod::from_time_major(executor, z, table), slice));
        }
      }
    });
  });
}

TEST_CASE("lod_tensor_to_array: the same steps as in the one block of to_time_major, on every executor") {
  Engine engine(7);
  for (const std::int64_t row_size : {1, 17}) {
    const LoD words = giant_among_short(engine, 300, 5 * grain / 8);
    const auto x = real_numbers<float>(engine, LoD::from_lengths({{100, 0, 200}, words.lengths(0)}), {row_size});
    const RankTable table(x.lod());
    const auto expected = lod::to_time_major(lod::CpuExecutor(1), x, table);
    for_each_executor([&](const auto& executor) {
      const auto array = lod::lod_tensor_to_array(executor, x, table);
      REQUIRE(array.size() == expected.steps());
      for (std::int64_t t = 0; t < array.size(); ++t) CHECK(same_bits(array[t], expected.step(t)));
      CHECK(same_bits(lod::array_to_lod_tensor(executor, array, table), x));
    });
  }
}

TEST_CASE("array_to_lod_tensor: the levels below the steps are those of the elements") {
  const auto x = counted_rows({{2, 3}, {3, 6, 2, 6, 3}});
  const RankTable table(x.lod());
  // One row for each sentence, as a network that reads sentences gives.
  TensorArray<std::int64_t> rows;
  for (std::int64_t t = 0; t < table.steps(); ++t) rows.write(t, LoDTensor<std::int64_t>({table.active(t), 1}));
  std::int64_t number = 0;
  for (auto& element : rows) {
    for (auto& value : element.values()) value = number++;
  }
  const auto y = lod::array_to_lod_tensor(rows, table);
  CHECK(y.lod() == LoD::from_lengths({{2, 3}}));
  CHECK(std::vector<std::int64_t>(y.values().begin(), y.values().end()) == std::vector<std::int64_t>{1, 3, 0, 2, 4});
  // Its gradient has the levels of y, too, not those of x.
  const auto drows = lod::array_to_lod_tensor_grad(y, table);
  REQUIRE(drows.size() == 3);
  for (std::int64_t t = 0; t < 3; ++t) CHECK(same_bits(drows[t], rows[t]));
}

TEST_CASE("lod_tensor_to_array: batches without sequences, and of empty ones only, keep row shape and levels") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    for (int level = 0; level < x.levels(); ++level) {
      const RankTable table(x.lod(), {.level = level});
      const auto array = lod::lod_tensor_to_array(x, table);
      CHECK(array.size() == table.steps());
      CHECK(array.like().row_shape() == x.row_shape());
      CHECK(array.like().levels() == x.levels() - level - 1);
      CHECK(same_bits(lod::array_to_lod_tensor(array, table), x));
    }
  }
  const LoDTensor<float> narrow(LoD::from_lengths({{2, 0, 1}}), {0});
  const RankTable table(narrow.lod());
  CHECK(same_bits(lod::array_to_lod_tensor(lod::lod_tensor_to_array(narrow, table), table), narrow));
}

TEST_CASE("array_to_lod_tensor: no elements, by a table of no sequences") {
  for_each_executor([](const auto& executor) {
    const auto y = lod::array_to_lod_tensor(executor, TensorArray<float>(), RankTable());
    CHECK(y.lod() == LoD::from_lengths({{}}));
    CHECK(y.rows() == 0);
  });
}

TEST_CASE("shrink_rnn_memory: as many sequences as are longer than the step") {
  Engine engine(1);
  const RankTable table(LoD::from_lengths({{3, 6, 1}}));
  const auto x = real_numbers<float>(engine, {3, 4});
  const auto rows = [&](std::int64_t t) { return lod::shrink_rnn_memory(x, table, t).rows(); };
  CHECK(rows(0) == 3);
  CHECK(rows(1) == 2);
  CHECK(rows(3) == 1);
  CHECK(rows(6) == 0);
  CHECK(same_bits(lod::shrink_rnn_memory(x, table, 1), x.between(0, 2)));

  const RankTable ranks(LoD::from_lengths({{1, 2, 3}}));
  const auto sequences = real_numbers<float>(engine, LoD::from_lengths({{2, 3, 1}}), {100});
  for_each_executor([&](const auto& executor) {
    for (std::int64_t t = 0; t < 3; ++t) {
      const auto y = lod::shrink_rnn_memory(executor, sequences, ranks, t);
      CHECK(same_bits(y, sequences.between(0, 3 - t)));
      LoDTensor<float> ones(y.lod(), {100});
      for (float& value : ones.values()) value = 1;
      const auto dx = lod::shrink_rnn_memory_grad(executor, ones, sequences.lod(), ranks, t);
      const auto all = dx.values();
      CHECK(all.size() == 600);
      CHECK(std::accumulate(all.begin(), all.end(), 0.0F) == static_cast<float>(100 * y.rows()));
    }
    const auto shrunk = lod::shrink_rnn_memory(executor, sequences, ranks, 2);
    const auto grown = lod::shrink_rnn_memory_grad(executor, shrunk, sequences.lod(), ranks, 2);
    CHECK(grown.lod() == sequences.lod());
    CHECK(same_bits(grown.between(0, 1), shrunk));
    for (const float value : grown.between(1, 3).values()) CHECK(value == 0);
  });
}

TEST_CASE("shrink_rnn_memory: agrees with nested loops for slices of every type and depth") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 0, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto x = random_tensor<T>(engine, lengths, row_size);
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        std::vector<std::int64_t> steps;
        for (std::int64_t i = 0; i < slice.size(); ++i) steps.push_back(random_number(engine, 0, 4));
        const RankTable table(LoD::from_lengths({steps}));
        for (std::int64_t t = 0; t < 5; ++t) {
          auto expected = tree_of(slice);
          expected.parts.resize(static_cast<std::size_t>(table.active(t)));
          const auto y = lod::shrink_rnn_memory(slice, table, t);
          check_tree(y, x.levels(), expected);
          const auto dx = lod::shrink_rnn_memory_grad(y, slice.lod_view(), table, t);
          CHECK(dx.lod_view() == slice.lod_view());
          CHECK(same_bits(dx.between(0, table.active(t)), y));
          for (const T value : dx.between(table.active(t), dx.size()).values()) CHECK(value == T{});
        }
      }
    });
  });
}

TEST_CASE("reorder_lod_tensor_by_rank: agrees with nested loops for slices of every type and depth, and comes back") {
  const auto four = counted_rows({{1, 2, 1, 2}});
  const RankTable order(LoD::from_lengths({{5, 1, 3, 7}}));  // 3, 0, 2, 1
  CHECK(
      tree_of(lod::reorder_lod_tensor_by_rank(four, order)) ==
      tree_of(LoDTensor<std::int64_t>::from_nested(std::vector<std::vector<std::int64_t>>{{4, 5}, {0}, {3}, {1, 2}})));
  // Rows are sequences of one row.
  const auto ones = counted_rows({{1, 1, 1, 1}});
  CHECK(same_bits(lod::reorder_lod_tensor_by_rank(ones.with_lod(LoD()), order),
                  lod::reorder_lod_tensor_by_rank(ones, order).with_lod(LoD())));
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 0, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto x = random_tensor<T>(engine, lengths, row_size);
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        std::vector<std::int64_t> steps;
        for (std::int64_t i = 0; i < slice.size(); ++i) steps.push_back(random_number(engine, 0, 4));
        const RankTable table(LoD::from_lengths({steps}));
        Tree<T> expected;
        for (const auto& item : table.items()) {
          expected.parts.push_back(tree_of(slice).parts[static_cast<std::size_t>(item.index)]);
        }
        const lod::CpuExecutor executor(2);
        const auto y = lod::reorder_lod_tensor_by_rank(executor, slice, table);
        check_tree(y, x.levels(), expected);
        CHECK(same_bits(lod::reorder_lod_tensor_by_rank_grad(executor, y, table), slice));
      }
    });
  });
}

TEST_CASE("tensor arrays: gradients against differences") {
  Engine engine(6);
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    auto x = real_numbers<double>(engine, LoD::from_lengths({{2, 0, 1, 1}, {2, 0, 3, 1}}), {row_size});
    for (const int level : {0, 1}) {
      const RankTable table(x.lod(), {.level = level});
      // The sum of the elements' gradients is that of the tensor that they make up.
      check_gradient(
          engine, x,
          [&](const auto& at) { return lod::array_to_lod_tensor(lod::lod_tensor_to_array(at, table), table); },
          [&](const auto& dy) {
            return lod::lod_tensor_to_array_grad(lod::array_to_lod_tensor_grad(dy, table), table);
          });
      check_gradient(
          engine, x, [&](const auto& at) { return lod::lod_tensor_to_array(at, table)[0]; },
          [&](const auto& dy) {
            auto darray = lod::lod_tensor_to_array(x, table);
            for (auto& element : darray) std::ranges::fill(element.values(), 0.0);
            darray[0] = dy;
            return lod::lod_tensor_to_array_grad(darray, table);
          });
    }
    const RankTable table(LoD::from_lengths({{1, 3, 2, 0}}));
    for (const std::int64_t t : {0, 1, 2, 5}) {
      check_gradient(
          engine, x, [&](const auto& at) { return lod::shrink_rnn_memory(at, table, t); },
          [&](const auto& dy) { return lod::shrink_rnn_memory_grad(dy, x.lod(), table, t); });
    }
    check_gradient(
        engine, x, [&](const auto& at) { return lod::reorder_lod_tensor_by_rank(at, table); },
        [&](const auto& dy) { return lod::reorder_lod_tensor_by_rank_grad(dy, table); });
    auto rows = real_numbers<double>(engine, {4, row_size});
    check_gradient(
        engine, rows, [&](const auto& at) { return lod::shrink_rnn_memory(at, table, 1); },
        [&](const auto& dy) { return lod::shrink_rnn_memory_grad(dy, 4, table, 1); });
  }
}

TEST_CASE("tensor arrays: bad arguments throw and change nothing") {
  const auto x = counted_rows({{3, 6, 1}});
  const RankTable table(x.lod()), other(LoD::from_lengths({{3, 1, 6}})), two(LoD::from_lengths({{3, 6}}));
  const lod::CpuExecutor executor(1);
  auto array = lod::lod_tensor_to_array(x, table);
  LoDTensor<std::int64_t> y({2, 2});
  CHECK_THROWS_WITH_AS(lod::lod_tensor_to_array_into(executor, x, other, array),
                       doctest::Contains("lod_tensor_to_array: the levels of x are not those that the table ranks"),
                       lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::lod_tensor_to_array_into(executor, y, table, array), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::lod_tensor_to_array_into(executor, x, RankTable(), array), lod::ShapeMismatch);
  CHECK(array.size() == 6);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::array_to_lod_tensor_into(executor, array, RankTable(LoD::from_lengths({{7, 3}})), y);
      },
      "array_to_lod_tensor: 6 elements, expected 7, one for each step of the table", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::array_to_lod_tensor_into(executor, array, RankTable(LoD::from_lengths({{6, 3}})), y);
      },
      "array_to_lod_tensor: element 0 has 3 sequences (rows, where it has no level), expected 2, as many as are longer "
      "than 0",
      y);
  array[3] = counted_rows({{1}});
  check_throws<lod::InvalidLoD>([&] { lod::array_to_lod_tensor_into(executor, array, table, y); },
                                "element 3 has 1 levels, expected 0 as the first has", y);
  array[3] = LoDTensor<std::int64_t>({1, 2});
  check_throws<lod::ShapeMismatch>([&] { lod::array_to_lod_tensor_into(executor, array, table, y); },
                                   "array_to_lod_tensor: element 3 has rows of shape {2}, expected {} as the first has",
                                   y);
  check_throws<lod::ShapeMismatch>([&] { lod::array_to_lod_tensor_into(executor, array, {}, y); },
                                   "array_to_lod_tensor: 6 elements, expected 0", y);

  check_throws<lod::OutOfRange>([&] { lod::shrink_rnn_memory_into(executor, x, table, -1, y); }, "step -1", y);
  const LoDTensor<std::int64_t> one({1, 2});
  check_throws<lod::ShapeMismatch>(
      [&] { lod::shrink_rnn_memory_into(executor, one, table, 2, y); },
      "shrink_rnn_memory: x has 1 sequences (rows, where it has no level), expected at least 2", y);
  check_throws<lod::ShapeMismatch>([&] { lod::shrink_rnn_memory_grad_into(executor, one, 1, table, 2, y); },
                                   "shrink_rnn_memory_grad: x has 1 sequences", y);
  check_throws<lod::ShapeMismatch>([&] { lod::shrink_rnn_memory_grad_into(executor, one, 3, table, 2, y); },
                                   "shrink_rnn_memory_grad: dy: 1 rows, expected 2", y);
  CHECK_THROWS_WITH_AS(lod::BatchLevels(-1), "BatchLevels: -1 rows, expected 0 or more", lod::OutOfRange);

  check_throws<lod::ShapeMismatch>(
      [&] { lod::reorder_lod_tensor_by_rank_into(executor, x, two, y); },
      "reorder_lod_tensor_by_rank: 3 sequences (rows, where there is no level), expected 2", y);
  check_throws<lod::ShapeMismatch>([&] { lod::reorder_lod_tensor_by_rank_grad_into(executor, one, two, y); },
                                   "reorder_lod_tensor_by_rank_grad: dy: 1 sequences", y);
}

TEST_CASE("tensor arrays: views as outputs must have the shape and the levels of the results") {
  const auto x = counted_rows({{3, 6, 1}});
  const RankTable table(x.lod());
  const auto array = lod::lod_tensor_to_array(x, table);
  const lod::CpuExecutor executor(1);
  LoDTensor<std::int64_t> y(x.lod(), {}), wrong(LoD::from_lengths({{6, 3, 1}}), {});
  lod::array_to_lod_tensor_into(executor, array, table, y.view());
  CHECK(same_bits(y, x));
  check_throws<lod::ShapeMismatch>([&] { lod::array_to_lod_tensor_into(executor, array, table, wrong.view()); },
                                   "and the levels of the result", wrong);
  lod::reorder_lod_tensor_by_rank_into(executor, x, table, wrong.view());
  CHECK(same_bits(wrong, lod::reorder_lod_tensor_by_rank(x, table)));
  check_throws<lod::ShapeMismatch>([&] { lod::reorder_lod_tensor_by_rank_into(executor, x, table, y.view()); },
                                   "and the levels of the result", y);
  check_throws<lod::ShapeMismatch>([&] { lod::shrink_rnn_memory_into(executor, x, table, 4, y.view()); },
                                   "and the levels of the result", y);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::shrink_rnn_memory_grad_into(executor, x, x.lod(), table, 0, wrong.view()); },
      "and the levels of the result", wrong);
}

TEST_CASE("infer_lod_tensor_to_array, ...: allow what the operations give, and refuse what they do") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const lod::RankOptions options{.level = level};
      const lod::RankTable table(x.lod(), options);
      const auto array = lod::lod_tensor_to_array(x, table);
      for (const auto& desc : {describe(x), blank(describe(x))}) {
        const lod::LoDTensorArrayDesc steps = lod::infer_lod_tensor_to_array(desc, desc, options);
        check_inferred(array.like(), {steps.tensor, steps.lod_level});
        for (const auto& step : array) check_inferred(step, {steps.tensor, steps.lod_level});
        check_inferred(lod::array_to_lod_tensor(array, table), lod::infer_array_to_lod_tensor(steps, desc, options));
      }
    }
    const lod::RankTable table(x.lod());
    const auto ranked = lod::reorder_lod_tensor_by_rank(x, table);
    check_inference(
        ranked, [](const auto& desc) { return lod::infer_reorder_lod_tensor_by_rank(desc); }, describe(x));
    const auto y = lod::shrink_rnn_memory(ranked, table, 1);
    check_inference(
        y, [](const auto& desc) { return lod::infer_shrink_rnn_memory(desc, 1); }, describe(x));
    check_inferred(lod::shrink_rnn_memory_grad(y, ranked.lod(), table, 1), describe(x));
  });
  const auto x = described(lod::DataType::FP32, {15, 2}, 3);
  const lod::LoDTensorArrayDesc steps = lod::infer_lod_tensor_to_array(x, x, {.level = 1});
  CHECK(steps == lod::LoDTensorArrayDesc{{lod::DataType::FP32, {-1, 2}}, 1});
  CHECK(lod::infer_array_to_lod_tensor(steps, x, {.level = 1}) == described(lod::DataType::FP32, {-1, 2}, 3));
  CHECK(lod::infer_array_to_lod_tensor({{lod::DataType::FP32, {-1, 2}}}, x, {.level = -1}) == x);
  CHECK(lod::infer_reorder_lod_tensor_by_rank(x) == x);
  CHECK(lod::infer_shrink_rnn_memory(x, 4) == described(lod::DataType::FP32, {-1, 2}, 3));
  CHECK_THROWS_AS(lod::infer_lod_tensor_to_array(described_list(15), x), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_lod_tensor_to_array(x, x, {.level = 3}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_array_to_lod_tensor(steps, described_list(15)), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_shrink_rnn_memory(x, -1), lod::OutOfRange);
}

TEST_CASE("RankTable, TensorArray: a copy that throws, at whichever allocation, leaves what it was assigned to") {
  const RankTable table(LoD::from_lengths({{1, 3}})), other(LoD::from_lengths({{2, 2, 5, 0, 1}}));
  TensorArray<float> array(std::vector<LoDTensor<float>>{LoDTensor<float>({2, 3}), LoDTensor<float>({1, 3})});
  TensorArray<float> longer(std::vector<LoDTensor<float>>(4, LoDTensor<float>(LoD::from_lengths({{2, 1}}), {2})));
  longer.like() = LoDTensor<float>(LoD::from_lengths({{}}), {2});
  const auto check_unchanged = [&](const auto& before, const auto& after, const auto& is_same) {
    int failures = 0;
    for (bool copied = false; !copied && counts_allocations;) {
      auto assigned = before;
      try {
        allocations_left = failures;
        assigned = after;
        copied = true;
      } catch (const std::bad_alloc&) {
        ++failures;
      }
      allocations_left = -1;
      CHECK(is_same(assigned, copied ? after : before));
    }
    CHECK((failures > 0 || !counts_allocations));
    auto assigned = after;
    auto& itself = assigned;
    assigned = itself;
    CHECK(is_same(assigned, after));
    assigned = std::move(itself);
    CHECK(is_same(assigned, after));
  };
  check_unchanged(table, other, [](const RankTable& a, const RankTable& b) {
    return a.lod() == b.lod() && a.steps() == b.steps() && std::ranges::equal(a.items(), b.items());
  });
  check_unchanged(array, longer, [](const TensorArray<float>& a, const TensorArray<float>& b) {
    return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return same_bits(x, y); }) &&
           same_bits(a.like(), b.like());
  });
}

TEST_CASE("TensorArray: elements that are there keep their memory resources when another array is assigned") {
  CountingResource resource;
  TensorArray<float> array;
  array.resize(1, &resource);
  const TensorArray<float> other(std::vector<LoDTensor<float>>(2, LoDTensor<float>({2, 3})));
  array = other;
  CHECK(array[0].resource() == &resource);
  CHECK(resource.live == 1);
  CHECK(array[1].shape() == other[1].shape());
}

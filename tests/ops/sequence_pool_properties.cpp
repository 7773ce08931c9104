// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;
using namespace lod_test;

namespace {

constexpr PoolType all_pools[] = {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT, PoolType::MAX,
                                  PoolType::MIN, PoolType::FIRST,   PoolType::LAST};

/// The columns of each sequence.
template <class T>
std::vector<std::vector<std::vector<T>>> columns_of(const std::vector<Tree<T>>& sequences, std::size_t row_size) {
  std::vector<std::vector<std::vector<T>>> all;
  for (const auto& sequence : sequences) {
    auto& columns = all.emplace_back(row_size);
    for (const auto& row : rows_of(sequence)) {
      for (std::size_t column = 0; column < row_size; ++column) columns[column].push_back(row[column]);
    }
  }
  return all;
}

template <class T>
Tree<T> expected_pool(const std::vector<std::vector<std::vector<T>>>& sequences, PoolType pool, T pad_value) {
  Tree<T> expected;
  for (const auto& columns : sequences) {
    Tree<T> pooled;
    for (const auto& numbers : columns) {
      pooled.row.push_back(numbers.empty() ? pad_value : reference_pool(numbers, static_cast<Pool>(pool)));
    }
    expected.parts.push_back(pooled);
  }
  return expected;
}

/// All pools of all levels of x on every executor, against nested loops.
template <class T>
void check_pools(const lod::LoDTensorView<const T>& x) {
  const auto tree = tree_of(x);
  for (int level = 0; level < x.levels(); ++level) {
    INFO("level ", level, " of ", x.levels(), ", row size ", x.row_size());
    const auto sequences = columns_of(sequences_of(tree, level), static_cast<std::size_t>(x.row_size()));
    for (const PoolType pool : all_pools) {
      INFO("PoolType ", static_cast<int>(pool));
      const auto expected = expected_pool(sequences, pool, T(1));
      for_each_executor([&](const auto& executor) {
        const auto y = lod::sequence_pool(executor, x, pool, {.pad_value = 1, .level = level});
        CHECK(y.lod() == x.lod().levels_above(level));
        CHECK(y.row_shape() == x.row_shape());
        const bool as_expected = tree_of(y.view().with_lod(LoD())) == expected;
        CHECK(as_expected);
      });
    }
  }
}

}  // namespace

TEST_CASE("sequence_pool: agrees with nested loops for slices of every depth, level, pool and row size") {
  for_each_random_lod(slow ? 5 : 8, 1, 5, [&](Engine& engine, const Lengths& lengths) {
    for (const std::int64_t row_size : {1, 3, 8, 17, 64}) {
      const auto x = small_integers<double>(engine, LoD::from_lengths(lengths), {row_size});
      check_pools(x.between(random_number(engine, 0, x.size() > 0), x.size()));
    }
  });
}

TEST_CASE("sequence_pool: batches without sequences, and of empty ones only") {
  for (const auto& lengths : std::vector<Lengths>{
           {{}}, {{0}}, {{0, 0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}, {{1, 0, 1}, {2, 0}, {0, 0}}}) {
    const LoDTensor<double> x(LoD::from_lengths(lengths), {3});
    check_pools(x.view());
  }
}

TEST_CASE("sequence_pool: the cases of PaddlePaddle's tests") {
  const std::vector<std::pair<Lengths, lod::Shape>> cases = {{{{11}}, {23}},
                                                             {{{0, 0, 4, 0, 3, 0, 0, 5, 0, 0}}, {10}},
                                                             {{{0, 4, 0, 7, 0}}, {10}},
                                                             {{{2, 0, 1, 2}, {0, 4, 0, 7, 0}}, {10}},
                                                             {{{13}}, {23}},
                                                             {{{0, 1, 1, 5, 6, 0}}, {23}},
                                                             {{{2, 0, 3, 1}, {0, 1, 1, 5, 6, 0}}, {23}},
                                                             {{{0, 7, 0, 2, 2, 0}}, {23}},
                                                             {{{1, 2, 0, 3}, {0, 7, 0, 2, 2, 0}}, {23}},
                                                             {{{0, 3, 4, 0, 4, 0}}, {23}},
                                                             {{{1, 0, 2, 3}, {0, 3, 4, 0, 4, 0}}, {23}},
                                                             {{{0, 2, 0, 3, 6, 0}}, {23}},
                                                             {{{4, 1, 3, 5}}, {3, 17}},
                                                             {{{0, 5, 0, 8, 0}}, {3, 17}},
                                                             {{{1, 0, 4}, {0, 5, 0, 8, 0}}, {3, 17}},
                                                             {{{0, 3, 0, 10, 0}}, {3, 11}},
                                                             {{{1, 0, 2, 2}, {0, 3, 0, 10, 0}}, {3, 11}}};
  Engine engine(9);
  for (const auto& [lengths, row_shape] : cases) {
    const LoD index = LoD::from_lengths(lengths);
    auto x = small_integers<double>(engine, index, row_shape);
    x.row(4)[2] += 2.0;
    check_pools(LoDTensor<double>::ConstView(x));
    for (const double pad_value : {0.0, 0.1, 0.2, 0.3, 0.5, 1.0}) {
      for (const PoolType pool : all_pools) {
        const auto y = lod::sequence_pool(x, pool, {.pad_value = pad_value});
        for (std::int64_t i = 0; i < y.rows(); ++i) {
          if (lengths.back()[static_cast<std::size_t>(i)] > 0) continue;
          for (const double value : y.row(i)) CHECK(value == pad_value);
        }
      }
    }
  }
}

TEST_CASE("sequence_pool: the padding value is exact for large integers") {
  const LoDTensor<std::int64_t> x(LoD::from_lengths({{0}}), {});
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  CHECK(lod::sequence_pool(x, PoolType::MAX, {.pad_value = large}).data()[0] == large);
}

TEST_CASE("sequence_first_step, sequence_last_step: the first and the last row under a sequence of any level") {
  const auto x =
      LoDTensor<int>::from_nested(std::vector<std::vector<std::vector<int>>>{{{1, 2}, {}, {3}}, {}, {{}, {4}}});
  CHECK(tree_of(lod::sequence_first_step(x, {.pad_value = -1, .level = 0})) ==
        Tree<int>{{{{}, {1}}, {{}, {-1}}, {{}, {4}}}, {}});
  CHECK(tree_of(lod::sequence_last_step(lod::CpuExecutor(1), x, {.pad_value = -1, .level = 0})) ==
        Tree<int>{{{{}, {3}}, {{}, {-1}}, {{}, {4}}}, {}});
}

TEST_CASE("sequence_max_pool: agrees with nested loops for every type; the first of equal rows wins") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(4, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto whole = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto x = whole.between(random_number(engine, 0, whole.size() > 0), whole.size());
        for (int level = 0; level < x.levels(); ++level) {
          const auto greatest = lod::sequence_max_pool(lod::CpuExecutor(2), x, {.pad_value = 1, .level = level});
          const auto least = lod::sequence_min_pool(lod::CpuExecutor(2), x, {.pad_value = 1, .level = level});
          CHECK(greatest.index.levels() == 0);
          CHECK(greatest.values.lod() == x.lod().levels_above(level));
          std::int64_t first_row = 0, i = 0;
          bool same = true;
          for (const auto& sequence : sequences_of(tree_of(x), level)) {
            const auto rows = rows_of(sequence);
            for (std::size_t column = 0; column < static_cast<std::size_t>(row_size); ++column) {
              std::size_t high = 0, low = 0;
              for (std::size_t row = 0; row < rows.size(); ++row) {
                if (rows[row][column] > rows[high][column]) high = row;
                if (rows[row][column] < rows[low][column]) low = row;
              }
              const bool empty = rows.empty();
              const auto index = [&](std::size_t row) {
                return empty ? -1 : first_row + static_cast<std::int64_t>(row);
              };
              same = same && greatest.index.row(i)[column] == index(high) && least.index.row(i)[column] == index(low);
              same = same && greatest.values.row(i)[column] == (empty ? T(1) : rows[high][column]);
              same = same && least.values.row(i)[column] == (empty ? T(1) : rows[low][column]);
            }
            first_row += static_cast<std::int64_t>(rows.size());
            ++i;
          }
          CHECK(same);
        }
      }
    });
  });
}

TEST_CASE("sequence_pool: a sum of 2^25 float ones is exact, whatever the threads" * doctest::skip(slow)) {
  LoDTensor<float> x(LoD::from_lengths({{0, std::int64_t{1} << 25, 3}}), {}, lod::uninitialized);
  for (float& number : x.values()) number = 1;
  for_each_executor([&](const auto& executor) {
    const auto y = lod::sequence_pool(executor, x, PoolType::SUM);
    CHECK(y.data()[1] == 33554432.F);
    CHECK(y.data()[2] == 3.F);
  });
}

TEST_CASE("sequence_pool: the error of a sum does not grow with the length") {
  // 0.1 is no number of a few bits: a running sum in float is off by percents here.
  constexpr std::int64_t count = 10'000'000;
  LoDTensor<float> x(LoD::from_lengths({{count}}), {}, lod::uninitialized);
  for (float& number : x.values()) number = 0.1F;
  const double exact = static_cast<double>(0.1F) * count;
  CHECK(std::abs(static_cast<double>(lod::sequence_pool(x, PoolType::SUM).data()[0]) - exact) <= 1e-6 * exact);
}

TEST_CASE("sequence_pool: the bits depend neither on threads, nor on the batch, nor on where a sequence lies") {
  for (const std::int64_t row_size : {1, 2, 3, 5, 7, 8, 17, 64}) {
    INFO("row size ", row_size);
    Engine engine(static_cast<std::uint64_t>(row_size));
    const LoD index = giant_among_short(engine, 3000, 9 * grain / 4 / row_size + 1200);  // more than two chunks
    const auto x = real_numbers<float>(engine, index, {row_size});
    const auto expected = lod::sequence_pool(lod::CpuExecutor(1), x, PoolType::SUM);
    for_each_executor([&](const auto& executor) {
      CHECK(same_bits(lod::sequence_pool(executor, x, PoolType::SUM), expected));
      for (const std::int64_t begin : {1, 777, 1500, 2998}) {
        const auto slice = x.between(begin, x.size());
        const auto sliced = lod::sequence_pool(executor, slice, PoolType::SUM);
        CHECK(same_bits(sliced, expected.between(begin, x.size())));
        CHECK(same_bits(sliced, lod::sequence_pool(executor, LoDTensor<float>::copy_of(slice), PoolType::SUM)));
      }
      CHECK(same_bits(lod::sequence_pool(executor, x.slice({1500}), PoolType::SUM), expected.between(1500, 1501)));
    });
  }
}

TEST_CASE("sequence_pool: one long sequence among short ones agrees with sums in double") {
  for (const std::int64_t row_size : {1, 3, 17}) {
    Engine engine(4);
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 101, 3 * grain / row_size), {row_size});
    const auto tree = tree_of(x);
    for_each_executor([&](const auto& executor) {
      const auto y = lod::sequence_pool(executor, x, PoolType::SUM);
      for (std::size_t i = 0; i < tree.parts.size(); ++i) {
        double sum = 0;
        for (const auto& row : tree.parts[i].parts) sum += static_cast<double>(row.row[0]);
        CHECK(static_cast<double>(y.row(static_cast<std::int64_t>(i))[0]) == doctest::Approx(sum).epsilon(1e-5));
      }
    });
  }
}

TEST_CASE("sequence_pool: an infinite number keeps a long sum infinite") {
  LoDTensor<float> x(LoD::from_lengths({{3 * grain}}), {});
  x.data()[17 * grain / 16] = std::numeric_limits<float>::infinity();
  for_each_executor([&](const auto& executor) {
    CHECK(lod::sequence_pool(executor, x, PoolType::SUM).data()[0] == std::numeric_limits<float>::infinity());
  });
}

TEST_CASE("sequence_pool_grad: the bits do not depend on threads, also where one sequence is cut between them") {
  Engine engine(5);
  const LoD index = giant_among_short(engine, 2000, grain);
  const std::int64_t last = index.offsets(0)[1001] - 1;
  for (const std::int64_t row_size : {1, 17}) {
    const auto dy = real_numbers<float>(engine, {2000, row_size});
    for (const PoolType pool : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT, PoolType::FIRST, PoolType::LAST}) {
      const auto expected = lod::sequence_pool_grad(lod::CpuExecutor(1), dy, index, pool);
      if (pool == PoolType::SUM || pool == PoolType::LAST) CHECK(expected.row(last)[0] == dy.row(1000)[0]);
      if (pool == PoolType::AVERAGE) CHECK(expected.row(last)[0] == dy.row(1000)[0] / static_cast<float>(grain));
      if (pool == PoolType::FIRST) CHECK(expected.row(last)[0] == 0);
      for_each_executor([&](const auto& executor) {
        CHECK(same_bits(lod::sequence_pool_grad(executor, dy, index, pool), expected));
      });
    }
  }
}

TEST_CASE("sequence_pool: the text of an error says what and where, and the output is as it was") {
  const LoD index = LoD::from_lengths({{2, 1}});
  const LoDTensor<float> x(index, {2}), plain({3, 2}), dy({3, 2}), good({2, 2});
  LoDTensor<float> y({1, 2});
  LoDTensor<std::int64_t> which({2, 2});
  which.data()[3] = 1;  // a row of sequence 0
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_pool_into(executor, plain, PoolType::SUM, y); },
                                "sequence_pool: the tensor has no level", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_pool_into(executor, x, PoolType::SUM, {.level = 1}, y); },
                                "level 1 of a LoD with 1 levels, expected -1 to 0", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_max_pool_into(executor, x, {.level = -2}, y, which); },
                                "level -2 of a LoD with 1 levels, expected -1 to 0", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_pool_grad_into(executor, dy, index, PoolType::SUM, {}, y); },
                                   "sequence_pool_grad: dy: 3 rows, expected 2", y);
  check_throws<std::invalid_argument>([&] { lod::sequence_pool_grad_into(executor, dy, index, PoolType::MAX, {}, y); },
                                      "sequence_max_pool_grad", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_max_pool_grad_into(executor, good, which, index, {}, y); },
                                "of sequence 1, expected -1 or a row from 2 to 2", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_max_pool_grad_into(executor, good, LoDTensor<std::int64_t>({2, 1}), index, {}, y);
      },
      "sequence_max_pool_grad: index: rows of shape {1}, expected {2}", y);
  LoDTensor<std::int64_t> three({3, 2});
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_max_pool_into(executor, x, {}, y, three.view()); },
                                   ": a view of shape {3, 2}", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_min_pool_into(executor, x, {}, y, three.view()); },
                                   ": a view of shape {3, 2}", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_min_pool_into(executor, plain, {}, y, three); },
                                "sequence_min_pool: the tensor has no level", y);
}

TEST_CASE("sequence_pool: errors name the operation that was called, and what it takes instead") {
  const LoD index = LoD::from_lengths({{2, 0}});
  const LoDTensor<float> x(index, {2}), plain({3, 2}), dy({2, 2});
  LoDTensor<float> y({1, 2});
  LoDTensor<std::int64_t> which({2, 2});  // the second sequence is empty: expected -1
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_first_step_into(executor, plain, y); },
                                "sequence_first_step: the tensor has no level", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_last_step_into(executor, plain, y); },
                                "sequence_last_step: the tensor has no level", y);
  check_throws<lod::InvalidLoD>([&] { lod::infer_sequence_first_step(lod::describe(plain)); },
                                "sequence_first_step: the tensor has no level", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_pool_grad_into(executor, dy, LoD(), PoolType::SUM, y); },
                                "sequence_pool_grad: lod: the tensor has no level", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_max_pool_grad_into(executor, dy, which, LoD(), y); },
                                "sequence_max_pool_grad: lod: the tensor has no level", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_min_pool_grad_into(executor, dy, which, LoD(), y); },
                                "sequence_min_pool_grad: lod: the tensor has no level", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_min_pool_grad_into(executor, dy, which, index, y); },
                                "sequence_min_pool_grad: index 0 of sequence 1, expected -1, the sequence is empty", y);
  check_throws<std::invalid_argument>([&] { lod::sequence_pool_grad_into(executor, dy, index, PoolType::MIN, y); },
                                      "use sequence_max_pool_grad or sequence_min_pool_grad with the index", y);
  for (const int number : {-1, 7, 99}) {
    const auto type = static_cast<PoolType>(number);
    const std::string text = ": PoolType " + std::to_string(number) + ", expected SUM to LAST";
    check_throws<lod::OutOfRange>([&] { lod::sequence_pool_into(executor, x, type, y); },
                                  ("sequence_pool" + text).c_str(), y);
    check_throws<lod::OutOfRange>([&] { lod::sequence_pool_grad_into(executor, dy, index, type, y); },
                                  ("sequence_pool_grad" + text).c_str(), y);
    check_throws<lod::OutOfRange>([&] { lod::infer_sequence_pool(lod::describe(x), type); },
                                  ("sequence_pool" + text).c_str(), y);
  }
}

TEST_CASE("sequence_pool_grad, sequence_max_pool_grad: options may be left out") {
  Engine engine(3);
  const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 1}, {2, 0, 3}}), {2});
  const auto dy = small_integers<float>(engine, {3, 2});
  for_each_executor([&](const auto& executor) {
    LoDTensor<float> dx;
    lod::sequence_pool_grad_into(executor, dy, x.lod(), PoolType::SQRT, dx);
    CHECK(same_bits(dx, lod::sequence_pool_grad(dy, x.lod(), PoolType::SQRT)));
    const auto greatest = lod::sequence_max_pool(x), least = lod::sequence_min_pool(x);
    lod::sequence_max_pool_grad_into(executor, dy, greatest.index, x.lod(), dx);
    CHECK(same_bits(dx, lod::sequence_max_pool_grad(dy, greatest.index, x.lod())));
    lod::sequence_min_pool_grad_into(executor, dy, least.index, x.lod(), dx);
    CHECK(same_bits(dx, lod::sequence_min_pool_grad(dy, least.index, x.lod())));
  });
}

TEST_CASE("sequence_pool: a view as the output must have the shape and the levels of the result") {
  Engine engine(2);
  const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 1}, {2, 0, 3}}), {2});
  const lod::CpuExecutor executor(1);
  LoDTensor<float> rows({5, 2});
  lod::sequence_pool_into(executor, x, PoolType::SUM, {.level = 0}, rows.between(1, 3));
  CHECK(same_bits(rows.between(1, 3), lod::sequence_pool(x, PoolType::SUM, {.level = 0})));
  CHECK(rows.row(0)[0] == 0);
  CHECK(rows.row(3)[0] == 0);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::sequence_pool_into(executor, x, PoolType::SUM, {.level = 0}, rows.between(1, 4)); },
      ": a view of shape {3, 2} with 0 levels, expected shape {2, 2}", rows);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_pool_into(executor, x, PoolType::SUM, rows.between(1, 4)); },
                                   "expected shape {3, 2} and the levels of the result", rows);
}

TEST_CASE("sequence_pool_grad: SUM copies to each of 10 rows of 16 and of 128 numbers") {
  Engine engine(10);
  for_each_executor([&](const auto& executor) {
    for (const auto& offsets : std::vector<std::vector<std::int64_t>>{{0, 10}, {0, 2, 7, 10}}) {
      for (const std::int64_t row_size : {16, 128}) {
        const LoD index = LoD::from_offsets({offsets});
        const auto dy = real_numbers<float>(engine, {index.size(0), row_size});
        const auto dx = lod::sequence_pool_grad(executor, dy, index, PoolType::SUM);
        CHECK(dx.lod() == index);
        const auto sequence_of = index.row_ids(0);
        for (std::int64_t row = 0; row < 10; ++row) {
          const auto found = dx.row(row), expected = dy.row(sequence_of[static_cast<std::size_t>(row)]);
          CHECK(std::equal(found.begin(), found.end(), expected.begin()));
        }
      }
    }
  });
}

TEST_CASE("sequence_pool: the greatest of negative numbers is negative, the least of positive ones positive") {
  for_each_type(Types<std::int8_t, std::int64_t, lod::float16, float, double>(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{7}, std::int64_t{100}, 17 * grain / 16}) {
        for (const int number : {-2, 2}) {
          LoDTensor<T> x(LoD::from_lengths({{rows}}), {row_size});
          for (T& value : x.values()) value = static_cast<T>(number);
          const auto y = lod::sequence_pool(x, number < 0 ? PoolType::MAX : PoolType::MIN);
          CHECK(std::count(y.values().begin(), y.values().end(), static_cast<T>(number)) == row_size);
          CHECK(same_bits((number < 0 ? lod::sequence_max_pool(x) : lod::sequence_min_pool(x)).values, y));
        }
      }
    }
  });
}

/// MAX of each sequence of scalars or rows by plain loops, and the rows that hold it.
template <class T>
void pool_in_turn(const LoDTensor<T>& x, LoDTensor<T>& y, LoDTensor<std::int64_t>& rows) {
  const std::int64_t columns = x.row_size();
  for (std::int64_t i = 0; i < x.lod().size(0); ++i) {
    for (std::int64_t column = 0; column < columns; ++column) {
      T& best = y.data()[i * columns + column] = T{};
      std::int64_t& at = rows.data()[i * columns + column] = -1;
      for (std::int64_t row = x.lod().offsets(0)[static_cast<std::size_t>(i)];
           row < x.lod().offsets(0)[static_cast<std::size_t>(i) + 1]; ++row) {
        const T number = x.data()[row * columns + column];
        const auto a = static_cast<float>(number), b = static_cast<float>(best);
        if (at < 0 || a > b || (std::isnan(a) && !std::isnan(b))) best = number, at = row;
      }
    }
  }
}

TEST_CASE("sequence_pool: MAX and MIN keep the bits of the first of equal rows, zeros of both signs and NaNs too") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    Engine engine(11);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    const T numbers[] = {T{}, -T{}, nan, -nan};
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      for (const std::uint64_t kinds : {2U, 4U}) {
        // Enough short ones to be pooled many at a time.
        LoDTensor<T> x(
            LoD::from_lengths({{1, 2, 3, 7, 8, 9, 0, 31, 64, 100, 5, 1, 2, 0, 4, 16, 32, 33, 6, 12, 3, 1000}}),
            {row_size});
        const auto check = [&] {
          LoDTensor<T> y({x.lod().size(0), row_size});
          LoDTensor<std::int64_t> rows({x.lod().size(0), row_size});
          pool_in_turn(x, y, rows);
          CHECK(same_bits(lod::sequence_pool(x, PoolType::MAX), y));
          const auto [values, index] = lod::sequence_max_pool(x);
          CHECK(same_bits(values, y));
          CHECK(same_bits(index, rows));
        };
        for (T& number : x.values()) number = numbers[engine() % kinds];
        check();
        CHECK(same_bits(lod::sequence_pool(x, PoolType::MIN), lod::sequence_min_pool(x).values));
        // Among others that are no match for them.
        for (std::size_t i = 0; i < x.values().size(); i += 2) x.values()[i] = static_cast<T>(-1.0F);
        check();
        // Few of them.
        for (T& number : x.values()) {
          if (engine() % 16 > 0) number = static_cast<T>(static_cast<float>(engine() % 100) - 50);
        }
        check();
      }
    }
  });
}

// SPDX-License-Identifier: Apache-2.0
#include "support/counting_resource.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/inferred.hpp"
#include "support/pool_types.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::PoolType;

namespace {

/// One element of the result, from its column of numbers; sums in double.
double naive_pool(const std::vector<double>& column, PoolType type, double pad_value) {
  if (column.empty()) return pad_value;
  double sum = 0, greatest = column[0], least = column[0];
  for (double x : column) {
    sum += x;
    greatest = std::max(greatest, x);
    least = std::min(least, x);
  }
  const auto n = static_cast<double>(column.size());
  switch (type) {
    case PoolType::SUM:
      return sum;
    case PoolType::AVERAGE:
      return sum / n;
    case PoolType::SQRT:
      return sum / std::sqrt(n);
    case PoolType::MAX:
      return greatest;
    case PoolType::MIN:
      return least;
    case PoolType::FIRST:
      return column.front();
    case PoolType::LAST:
      return column.back();
  }
  return 0;
}

/// Compares with the naive pool. Values are small whole numbers, so only the division rounds.
template <class T>
void check_pool(const lod::LoDTensorView<const T>& x, int level) {
  for (PoolType type : lod_test::all_pool_types) {
    lod_test::for_each_executor([&](const auto& executor) {
      const T pad_value = std::is_same_v<T, bool> ? T(1) : T(2);
      const auto y = lod::sequence_pool(executor, x, type, {.pad_value = pad_value, .level = level});
      const auto offsets = x.lod_view().absolute_offsets(level);
      REQUIRE(y.rows() == x.lod_view().size(level));
      REQUIRE(y.row_shape() == x.row_shape());
      CHECK(y.lod() == x.lod().levels_above(level < 0 ? level + x.levels() : level));
      for (std::int64_t i = 0; i < y.rows(); ++i) {
        for (std::int64_t column = 0; column < x.row_size(); ++column) {
          std::vector<double> values;
          for (auto row = offsets[static_cast<std::size_t>(i)]; row < offsets[static_cast<std::size_t>(i) + 1]; ++row) {
            values.push_back(static_cast<double>(x.row(row - x.first_row())[static_cast<std::size_t>(column)]));
          }
          const double expected = naive_pool(values, type, 2);
          const T found = y.row(i)[static_cast<std::size_t>(column)];
          if constexpr (std::is_integral_v<T>) {
            CHECK(found == static_cast<T>(static_cast<std::int64_t>(expected)));
          } else {
            CHECK(static_cast<double>(found) == doctest::Approx(expected).epsilon(sizeof(T) == 2 ? 0.01 : 1e-6));
          }
        }
      }
    });
  }
}

}  // namespace

TEST_CASE_TEMPLATE("sequence_pool: every kind, level and row size against nested loops", T, float, double, lod::float16,
                   lod::bfloat16, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t, bool) {
  for (std::uint64_t number = 1; number <= 6; ++number) {
    lod_test::Engine engine(number);
    CAPTURE(number);
    const int levels = 1 + static_cast<int>(number % 3);
    const LoD index = LoD::from_lengths(lod_test::RandomLoD{.levels = levels, .sequences = 4}.lengths(engine));
    for (const lod::Shape& row : {lod::Shape{}, lod::Shape{3}, lod::Shape{2, 4}, lod::Shape{17}}) {
      const auto x = lod_test::small_integers<T>(engine, index, row);
      for (int level = -1; level < levels; ++level) check_pool<T>(x, level);
      check_pool<T>(x.between(x.size() / 3, x.size()), 0);
    }
  }
}

TEST_CASE("sequence_pool: the field's cases of empty sequences") {
  lod_test::Engine engine(1);
  for (const auto& lengths : std::vector<std::vector<std::vector<std::int64_t>>>{{{11}},
                                                                                 {{0, 0, 4, 0, 3, 0, 0, 5, 0, 0}},
                                                                                 {{0, 4, 0, 7, 0}},
                                                                                 {{2, 0, 1, 2}, {0, 4, 0, 7, 0}},
                                                                                 {{0, 1, 1, 5, 6, 0}},
                                                                                 {{}},
                                                                                 {{0, 0}},
                                                                                 {{0, 1, 0, 0, 0}},
                                                                                 {{1, 0, 1}},
                                                                                 {{1, 2, 0, 3}, {0, 7, 0, 2, 2, 0}}}) {
    const auto x = lod_test::small_integers<float>(engine, LoD::from_lengths(lengths), {10});
    for (int level = 0; level < x.levels(); ++level) check_pool<float>(x, level);
  }
}

TEST_CASE_TEMPLATE("sequence_pool: the same bits for any number of threads, and for a slice and its copy", T, float,
                   double) {
  lod_test::Engine engine(3);
  // One giant, long enough for all threads, among short ones.
  std::vector<std::int64_t> lengths(300, 7);
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    lengths[150] = 3 * lod_test::grain / row_size + 11;
    const auto x = lod_test::real_numbers<T>(engine, LoD::from_lengths({lengths}), {row_size});
    for (PoolType type : lod_test::all_pool_types) {
      const auto expected = lod::sequence_pool(lod::CpuExecutor(1), x, type);
      lod_test::for_each_executor([&](const auto& executor) {
        CHECK(lod_test::same_bits(lod::sequence_pool(executor, x, type), expected));
        const auto slice = x.between(149, 160);
        const auto copy = LoDTensor<T>::copy_of(slice);
        const auto pooled = lod::sequence_pool(executor, slice, type);
        CHECK(lod_test::same_bits(pooled, lod::sequence_pool(executor, copy, type)));
        CHECK(std::equal(pooled.values().begin(), pooled.values().end(), expected.row(149).begin()));
      });
    }
  }
}

TEST_CASE_TEMPLATE("sequence_pool: sums of integers wrap around", T, std::int32_t, std::int64_t) {
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    LoDTensor<T> x(LoD::from_lengths({{2, 5, 0, 17, 700}}), {row_size});
    for (std::size_t i = 0; i < x.values().size(); ++i) {
      x.data()[i] = static_cast<T>(std::numeric_limits<T>::max() - static_cast<T>(i % 5));
    }
    lod_test::for_each_executor([&](const auto& executor) {
      const auto y = lod::sequence_pool(executor, x, PoolType::SUM);
      for (std::int64_t i = 0; i < y.rows(); ++i) {
        for (std::int64_t column = 0; column < row_size; ++column) {
          std::uint64_t sum = 0;
          for (std::int64_t row = x.lod().offsets(0)[static_cast<std::size_t>(i)];
               row < x.lod().offsets(0)[static_cast<std::size_t>(i) + 1]; ++row) {
            sum += static_cast<std::uint64_t>(x.data()[row * row_size + column]);
          }
          CHECK(y.data()[i * row_size + column] == static_cast<T>(sum));
        }
      }
    });
  }
}

TEST_CASE("sequence_pool: a long sum does not stop growing") {
  // Added one after the other in float, ones stop at 2^24.
  LoDTensor<float> x(LoD::from_lengths({{(1 << 25) + 3}}), {});
  std::fill(x.values().begin(), x.values().end(), 1.0F);
  CHECK(lod::sequence_pool(x, PoolType::SUM).values()[0] == static_cast<float>((1 << 25) + 3));
  CHECK(lod::sequence_pool(x, PoolType::AVERAGE).values()[0] == 1.0F);
}

TEST_CASE("sequence_max_pool: ties go to the first row, NaN wins, all -inf is -inf") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const LoD index = LoD::from_lengths({{4, 3, 0, 2, 3}});
  const auto x =
      LoDTensor<float>::from_values(index, {}, std::vector<float>{1, 3, 3, 2, 5, nan, nan, -inf, -inf, inf, 1, nan});
  const auto first = lod::sequence_max_pool(LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{nan, 9}}));
  CHECK(std::isnan(first.values.values()[0]));
  CHECK(first.index.values()[0] == 0);
  const auto y = lod::sequence_max_pool(x, {.pad_value = -7});
  CHECK(y.values.values()[0] == 3);
  CHECK(std::isnan(y.values.values()[1]));
  CHECK(y.values.values()[2] == -7);
  CHECK(y.values.values()[3] == -inf);
  CHECK(std::isnan(y.values.values()[4]));
  const auto rows = y.index.values();
  CHECK(std::vector<std::int64_t>(rows.begin(), rows.end()) == std::vector<std::int64_t>{1, 5, -1, 7, 11});
  CHECK(y.index.levels() == 0);
  const auto least = lod::sequence_min_pool(x);
  CHECK(least.values.values()[0] == 1);
  CHECK(least.index.values()[4] == 11);
  // Without the index too, in whole vectors as in single numbers.
  std::vector<float> many(100, 1.0F);
  many[37] = nan;
  many[70] = 9;
  const auto wide = LoDTensor<float>::from_values(LoD::from_lengths({{100}}), {}, many);
  CHECK(std::isnan(lod::sequence_pool(wide, PoolType::MAX).values()[0]));
  CHECK(std::isnan(lod::sequence_pool(wide, PoolType::MIN).values()[0]));
}

TEST_CASE("sequence_pool: gradients against differences") {
  for (std::uint64_t number = 1; number <= 4; ++number) {
    lod_test::Engine engine(number);
    CAPTURE(number);
    const LoD index = LoD::from_lengths(lod_test::RandomLoD{.levels = 2, .sequences = 4}.lengths(engine));
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      auto x = lod_test::real_numbers<double>(engine, index, {row_size});
      for (int level = 0; level < 2; ++level) {
        const lod::PoolOptions options{.level = level};
        for (PoolType type : {PoolType::SUM, PoolType::AVERAGE, PoolType::SQRT, PoolType::FIRST, PoolType::LAST}) {
          lod_test::check_gradient(
              engine, x, [&](const auto& at) { return lod::sequence_pool(at, type, options); },
              [&](const auto& dy) { return lod::sequence_pool_grad(dy, index, type, options); });
        }
        lod_test::check_gradient(
            engine, x, [&](const auto& at) { return lod::sequence_max_pool(at, options).values; },
            [&](const auto& dy) {
              return lod::sequence_max_pool_grad(dy, lod::sequence_max_pool(x, options).index, index, options);
            });
        lod_test::check_gradient(
            engine, x, [&](const auto& at) { return lod::sequence_min_pool(at, options).values; },
            [&](const auto& dy) {
              return lod::sequence_min_pool_grad(dy, lod::sequence_min_pool(x, options).index, index, options);
            });
      }
    }
  }
}

TEST_CASE_TEMPLATE("sequence_max_pool_grad, sequence_min_pool_grad: a tie sends all of either sign to the first row", T,
                   float, double, lod::float16, lod::bfloat16) {
  const LoD index = LoD::from_lengths({{70000, 2}});  // more ties than 16 bits count
  LoDTensor<T> x(index, {}), dy({2});
  for (T& number : x.values()) number = static_cast<T>(4.0F);
  dy.data()[0] = static_cast<T>(-1.0F);
  dy.data()[1] = static_cast<T>(1.0F);
  for (const auto& dx : {lod::sequence_max_pool_grad(dy, lod::sequence_max_pool(x).index, index),
                         lod::sequence_min_pool_grad(dy, lod::sequence_min_pool(x).index, index)}) {
    CHECK(dx.data()[0] == dy.data()[0]);
    CHECK(dx.data()[70000] == dy.data()[1]);
    CHECK(std::count(dx.values().begin(), dx.values().end(), T{}) == 70000);
  }
}

TEST_CASE("sequence_pool: bad arguments throw and leave the output as it was") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {4});
  LoDTensor<float> y({3});
  y.values()[1] = 5;
  const lod::CpuExecutor executor(1);
  CHECK_THROWS_AS(lod::sequence_pool_into(executor, x, PoolType::SUM, {.level = 1}, y), lod::OutOfRange);
  CHECK_THROWS_AS(lod::sequence_pool_into(executor, LoDTensor<float>({3, 4}), PoolType::SUM, y), lod::InvalidLoD);
  CHECK(y.shape() == std::vector<std::int64_t>{3});
  CHECK(y.values()[1] == 5);
  CHECK_THROWS_AS(lod::sequence_pool_into(executor, x, PoolType::SUM, y.view()), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::sequence_pool_grad(y, x.lod(), PoolType::SUM), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::sequence_pool_grad(y, x.lod(), PoolType::MAX), std::invalid_argument);
  LoDTensor<float> dy({2, 4});
  LoDTensor<std::int64_t> index({2, 4});
  index.values()[7] = 1;  // a row of the other sequence
  CHECK_THROWS_AS(lod::sequence_max_pool_grad(dy, index, x.lod()), lod::OutOfRange);
  CHECK_THROWS_AS(lod::CpuExecutor(0), lod::OutOfRange);
}

TEST_CASE("sequence_pool: a second call allocates nothing, and writes where a view shows") {
  lod_test::CountingResource resource;
  const lod::CpuExecutor executor(1, &resource);
  lod_test::Engine engine(5);
  const auto x = lod_test::small_integers<float>(engine, LoD::from_lengths({{2, 1}, {300, 0, 4}}), {24});
  for (PoolType type : lod_test::all_pool_types) {
    auto y = lod::sequence_pool(executor, x, type);
    const int before = resource.allocations;
    const float* data = y.data();
    lod::sequence_pool_into(executor, x, type, y);
    CHECK(resource.allocations == before);
    CHECK(y.data() == data);
    auto copy = y;
    std::fill(copy.values().begin(), copy.values().end(), 0.0F);
    lod::sequence_pool_into(executor, x, type, copy.view());
    CHECK(lod_test::same_bits(copy, y));
  }
}

TEST_CASE("infer_sequence_pool: allows what the operations give, and knows what can be known") {
  using namespace lod_test;
  for_each_random_batch<float>(1, {2, 3}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const lod::PoolOptions options{.level = level};
      const auto y = lod::sequence_pool(x, PoolType::SUM, options);
      check_inference(
          y, [&](const auto& desc) { return lod::infer_sequence_pool(desc, PoolType::SUM, options); }, describe(x));
      check_inference(
          lod::sequence_first_step(x, options),
          [&](const auto& desc) { return lod::infer_sequence_first_step(desc, options); }, describe(x));
      check_inference(
          lod::sequence_last_step(x, options),
          [&](const auto& desc) { return lod::infer_sequence_last_step(desc, options); }, describe(x));
      check_inferred(lod::sequence_pool_grad(y, x.lod(), PoolType::SUM, options), describe(x));
      for (const auto& desc : {describe(x), blank(describe(x))}) {
        const auto greatest = lod::sequence_max_pool(x, options), least = lod::sequence_min_pool(x, options);
        check_inferred(greatest.values, lod::infer_sequence_max_pool(desc, options).values);
        check_inferred(greatest.index, lod::infer_sequence_max_pool(desc, options).index);
        check_inferred(least.values, lod::infer_sequence_min_pool(desc, options).values);
        check_inferred(least.index, lod::infer_sequence_min_pool(desc, options).index);
      }
    }
  });
  const auto x = described(lod::DataType::FP16, {15, -1, 3}, 3);
  CHECK(lod::infer_sequence_pool(x, PoolType::MAX) == described(lod::DataType::FP16, {-1, -1, 3}, 2));
  CHECK(lod::infer_sequence_max_pool(x, {.level = 0}).values == described(lod::DataType::FP16, {-1, -1, 3}, 0));
  CHECK(lod::infer_sequence_max_pool(x, {.level = 0}).index == described(lod::DataType::INT64, {-1, -1, 3}, 0));

  const auto infer = [](lod::DataType type, std::vector<std::int64_t> dims, int levels) {
    return lod::infer_sequence_pool(described(type, std::move(dims), levels), PoolType::SUM);
  };
  CHECK_THROWS_WITH_AS(infer(lod::DataType::FP32, {4}, 0), doctest::Contains("sequence_pool: the tensor has no level"),
                       lod::InvalidLoD);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_pool(x, PoolType::SUM, {.level = 3}),
                       doctest::Contains("level 3 of a LoD with 3 levels"), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(infer(lod::DataType::COMPLEX64, {4}, 1),
                       doctest::Contains("sequence_pool: elements of COMPLEX64, expected bool, integers"),
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(infer(lod::DataType::FP32, {}, 1), doctest::Contains("sequence_pool: no dimension"),
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(infer(lod::DataType::FP32, {3, -2}, 1), doctest::Contains("sequence_pool: dimension -2"),
                       lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(infer(lod::DataType::FP32, {3}, -1), doctest::Contains("sequence_pool: lod_level -1"),
                       lod::ShapeMismatch);
}

TEST_CASE("sequence_pool_grad: SQRT of integers divides as sequence_pool does, by 1.73 for three rows") {
  const LoD index = LoD::from_lengths({{3}});
  const auto dy = LoDTensor<std::int32_t>::from_values({}, {}, std::vector<std::int32_t>{9});
  CHECK(lod::sequence_pool_grad(dy, index, PoolType::SQRT).values()[1] == 5);
  const LoDTensor<std::int64_t> ids(index, {});
  CHECK(lod::embedding_pool_grad(dy, ids, 1, PoolType::SQRT).value().values()[0] == 15);
}

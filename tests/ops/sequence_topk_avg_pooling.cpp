// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/gradient.hpp"
#include "support/in_double.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

/// Matrices whose rows and columns are sequences.
struct ChannelBatch {
  LoD rows;
  LoD columns;
  std::int64_t channels;

  LoD lod() const {
    Numbers lengths;
    for (std::size_t i = 0; i < rows.lengths(-1).size(); ++i) {
      lengths.push_back(channels * rows.lengths(-1)[i] * columns.lengths(-1)[i]);
    }
    return LoD::from_lengths({lengths});
  }
};

/// Small integers: the sums are exact, and the mean is rounded once.
template <class T>
std::vector<T> reference_pooling(const LoDTensor<T>& x, const ChannelBatch& batch, const Numbers& topks) {
  std::vector<T> y;
  const Numbers rows = batch.rows.lengths(-1), columns = batch.columns.lengths(-1);
  std::size_t first = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::int64_t row = 0; row < rows[i]; ++row) {
      for (std::int64_t channel = 0; channel < batch.channels; ++channel) {
        const T* const begin = x.data() + first + (channel * rows[i] + row) * columns[i];
        std::vector<T> sorted(begin, begin + columns[i]);
        std::sort(sorted.begin(), sorted.end(), [](T a, T b) { return a > b; });
        for (const std::int64_t k : topks) {
          double sum = 0;
          for (std::size_t n = 0; n < std::min(sorted.size(), static_cast<std::size_t>(k)); ++n) {
            sum += static_cast<double>(sorted[n]);
          }
          using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
          y.push_back(static_cast<T>(static_cast<A>(sum) / static_cast<A>(k)));
        }
      }
    }
    first += static_cast<std::size_t>(batch.channels * rows[i] * columns[i]);
  }
  return y;
}

template <class T, class Executor>
void check_pooling(Engine& engine, const Executor& executor, const ChannelBatch& batch, const Numbers& topks) {
  const auto x = small_integers<T>(engine, batch.lod(), {1});
  const auto y = lod::sequence_topk_avg_pooling(executor, x, batch.rows, batch.columns, topks, batch.channels);
  CHECK(y.lod() == batch.rows);
  CHECK(y.row_shape() == lod::Shape{batch.channels * static_cast<std::int64_t>(topks.size())});
  const auto expected = reference_pooling(x, batch, topks);
  CHECK(std::equal(expected.begin(), expected.end(), y.values().begin(), y.values().end()));
}

/// Columns for so many sequences.
LoD random_columns(Engine& engine, std::size_t size) {
  Numbers lengths;
  for (std::size_t i = 0; i < size; ++i) lengths.push_back(random_number(engine, 0, 6));
  return LoD::from_lengths({lengths});
}

}  // namespace

TEST_CASE("sequence_topk_avg_pooling: two channels of two rows and three columns") {
  const ChannelBatch batch{LoD::from_lengths({{2, 1}}), LoD::from_lengths({{3, 1}}), 2};
  const auto x = LoDTensor<float>::from_values(batch.lod(), {},
                                               std::vector<float>{1, 3, 2,  //
                                                                  9, 7, 8,  //
                                                                  4, 4, 0,  //
                                                                  -1, -2, -3, 10, 20});
  const auto y = lod::sequence_topk_avg_pooling(x, batch.rows, batch.columns, Numbers{1, 2}, 2);
  CHECK(y.shape() == lod::Shape{3, 4});
  CHECK(std::vector<float>(y.values().begin(), y.values().end()) ==
        std::vector<float>{3, 2.5F, 4, 4, 9, 8.5F, -1, -1.5F, 10, 5, 20, 10});
  CHECK(same_bits(lod::sequence_topk_avg_pooling(x, batch.rows, batch.columns, {1, 2}, 2), y));
  const auto dx = lod::sequence_topk_avg_pooling_grad(y, x, batch.rows, batch.columns, Numbers{1, 2}, 2);
  for_each_executor([&](const auto& executor) {
    LoDTensor<float> z;
    lod::sequence_topk_avg_pooling_into(executor, x, batch.rows, batch.columns, {1, 2}, 2, z);
    CHECK(same_bits(z, y));
    lod::sequence_topk_avg_pooling_grad_into(executor, y, x, batch.rows, batch.columns, {1, 2}, 2, z);
    CHECK(same_bits(z, dx));
  });
  CHECK(lod::infer_sequence_topk_avg_pooling(describe(x), describe(y), describe(y), {1, 2}, 2).tensor.dims ==
        Numbers{3, 4});
}

TEST_CASE("sequence_topk_avg_pooling: the cases of PaddlePaddle's tests") {
  Engine engine(1);
  for_each_executor([&](const auto& executor) {
    check_pooling<float>(engine, executor, {LoD::from_lengths({{30, 45}}), LoD::from_lengths({{25, 36}}), 3},
                         {1, 3, 5});
    check_pooling<float>(engine, executor, {LoD::from_lengths({{36}}), LoD::from_lengths({{48}}), 5}, {2, 3});
  });
}

TEST_CASE("sequence_topk_avg_pooling: agrees with nested loops for every type and depth of the rows") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(8, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const ChannelBatch batch{LoD::from_lengths(lengths), random_columns(engine, lengths.back().size()),
                               random_number(engine, 1, 3)};
      for (const Numbers& topks : {Numbers{1}, Numbers{2, 3}, Numbers{40, 1}, Numbers{}}) {
        check_pooling<T>(engine, lod::CpuExecutor(2), batch, topks);
      }
    });
  });
}

TEST_CASE("sequence_topk_avg_pooling: slices, and x with more levels") {
  Engine engine(4);
  const ChannelBatch batch{LoD::from_lengths({{2, 3, 1}}), LoD::from_lengths({{4, 2, 5}}), 2};
  const auto x = small_integers<float>(engine, batch.lod(), {});
  const auto expected = lod::sequence_topk_avg_pooling(x, batch.rows, batch.columns, Numbers{1, 3}, 2);
  const auto part = lod::sequence_topk_avg_pooling(x.between(1, 3), batch.rows.between(1, 3),
                                                   batch.columns.between(1, 3), Numbers{1, 3}, 2);
  CHECK(same_bits(part, expected.between(1, 3)));
  const auto nested = LoDTensor<float>(x).with_lod(LoD::from_lengths({{1, 2}, x.lod().lengths(0)}));
  CHECK(same_bits(lod::sequence_topk_avg_pooling(nested, batch.rows, batch.columns, Numbers{1, 3}, 2), expected));
}

TEST_CASE("sequence_topk_avg_pooling: batches without sequences, rows or columns") {
  for_each_executor([](const auto& executor) {
    Engine engine(1);
    check_pooling<float>(engine, executor, {LoD::from_lengths({{}}), LoD::from_lengths({{}}), 2}, {1, 2});
    check_pooling<float>(engine, executor, {LoD::from_lengths({{0, 0}}), LoD::from_lengths({{0, 3}}), 2}, {1, 2});
    const ChannelBatch batch{LoD::from_lengths({{2, 0, 1}}), LoD::from_lengths({{0, 3, 0}}), 2};
    check_pooling<float>(engine, executor, batch, {1, 2});
    const LoDTensor<float> x(batch.lod(), {}), dy(batch.rows, {4});
    CHECK(same_bits(lod::sequence_topk_avg_pooling_grad(executor, dy, x, batch.rows, batch.columns, Numbers{1, 2}, 2),
                    x));
  });
}

TEST_CASE("sequence_topk_avg_pooling: NaN counts only where nothing else is left") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto x = LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{nan, 1, 3}});
  const LoD row = LoD::from_lengths({{1}}), columns = LoD::from_lengths({{3}});
  const auto y = lod::sequence_topk_avg_pooling(x, row, columns, Numbers{1, 2, 3}, 1);
  CHECK(y.data()[0] == 3);
  CHECK(y.data()[1] == 2);
  CHECK(std::isnan(y.data()[2]));
}

TEST_CASE("sequence_topk_avg_pooling_grad: agrees with differences; of equal numbers the first counts") {
  for_each_random_lod(8, 1, 2, [](Engine& engine, const Lengths& lengths) {
    const ChannelBatch batch{LoD::from_lengths(lengths), random_columns(engine, lengths.back().size()), 2};
    auto x = real_numbers<double>(engine, batch.lod(), {});
    if (x.rows() > 200) return;
    for (const Numbers& topks : {Numbers{1}, Numbers{2, 3, 9}}) {
      check_gradient(
          engine, x,
          [&](const auto& at) { return lod::sequence_topk_avg_pooling(at, batch.rows, batch.columns, topks, 2); },
          [&](const auto& dy) {
            return lod::sequence_topk_avg_pooling_grad(dy, x, batch.rows, batch.columns, topks, 2);
          });
    }
  });
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    const auto tensor = [](const std::vector<float>& numbers) {
      return as<T>(LoDTensor<float>::from_nested(std::vector<std::vector<float>>{numbers}));
    };
    const LoD row = LoD::from_lengths({{1}}), columns = LoD::from_lengths({{4}});
    LoDTensor<T> dy(row, {2});
    dy.data()[0] = static_cast<T>(1);
    dy.data()[1] = static_cast<T>(-4);
    const auto dx = lod::sequence_topk_avg_pooling_grad(dy, tensor({5, 7, 7, 7}), row, columns, Numbers{1, 2}, 1);
    CHECK(same_bits(dx, tensor({0, -1, -2, 0})));
  });
}

TEST_CASE("sequence_topk_avg_pooling: the bits do not depend on threads; a second call allocates nothing") {
  Engine engine(2);
  const ChannelBatch batch{giant_among_short(engine, 2000, 400), giant_among_short(engine, 2000, 300), 3};
  const auto x = real_numbers<float>(engine, batch.lod(), {});
  const Numbers topks = {1, 3, 10};
  const auto expected =
      lod::sequence_topk_avg_pooling(lod::CpuExecutor(1), x, batch.rows, batch.columns, topks, batch.channels);
  const auto expected_grad = lod::sequence_topk_avg_pooling_grad(lod::CpuExecutor(1), expected, x, batch.rows,
                                                                 batch.columns, topks, batch.channels);
  for (const int threads : thread_counts) {
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    LoDTensor<float> y(&resource), dx(&resource);
    const auto call = [&] {
      lod::sequence_topk_avg_pooling_into(executor, x, batch.rows, batch.columns, topks, batch.channels, y);
      lod::sequence_topk_avg_pooling_grad_into(executor, y, x, batch.rows, batch.columns, topks, batch.channels, dx);
    };
    call();
    CHECK(same_bits(y, expected));
    CHECK(same_bits(dx, expected_grad));
    const int before = resource.allocations;
    call();
    CHECK(resource.allocations == before);
  }
}

TEST_CASE("sequence_topk_avg_pooling: bad arguments throw and change nothing; views as outputs") {
  const LoD rows = LoD::from_lengths({{2, 1}}), columns = LoD::from_lengths({{3, 4}});
  const LoDTensor<float> x(LoD::from_lengths({{12, 8}}), {}), wide(x.lod(), {2}), plain({20});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  const auto refuses = [&]<class Error>(std::type_identity<Error>, const LoDTensor<float>& input, const LoD& row_lod,
                                        const LoD& column_lod, const Numbers& topks, std::int64_t channels,
                                        const char* text) {
    check_throws<Error>(
        [&] { lod::sequence_topk_avg_pooling_into(executor, input, row_lod, column_lod, topks, channels, y); }, text,
        y);
    const LoDTensor<float> dy({3, 4});
    check_throws<Error>(
        [&] { lod::sequence_topk_avg_pooling_grad_into(executor, dy, input, row_lod, column_lod, topks, channels, y); },
        text, y);
  };
  const std::type_identity<lod::InvalidLoD> invalid;
  const std::type_identity<lod::OutOfRange> out_of_range;
  const std::type_identity<lod::ShapeMismatch> mismatch;
  refuses(invalid, plain, rows, columns, {1, 2}, 2, ": the tensor has no level, expected at least one");
  refuses(invalid, x, LoD(), columns, {1, 2}, 2, ": the tensor has no level, expected at least one");
  refuses(invalid, x, rows, LoD(), {1, 2}, 2, ": the tensor has no level, expected at least one");
  refuses(mismatch, wide, rows, columns, {1, 2}, 2, ": rows of shape {2}, expected one number a row");
  refuses(out_of_range, x, rows, columns, {1, 2}, 0, ": channel_num 0, expected 1 or more");
  refuses(out_of_range, x, rows, columns, {1, 0}, 2, ": the mean of 0 numbers, expected 1 or more");
  refuses(mismatch, x, LoD::from_lengths({{2}}), columns, {1, 2}, 2,
          ": 1 sequences of rows and 2 of columns, expected 2 of each, as x has");
  refuses(mismatch, x, rows, LoD::from_lengths({{3, 4, 5}}), {1, 2}, 2, ": 2 sequences of rows and 3 of columns");
  refuses(mismatch, x, rows, LoD::from_lengths({{3, 5}}), {1, 2}, 2, ": sequence 1 has 8 rows, expected 2 * 1 * 5");
  refuses(mismatch, x, rows, columns, {1, 2}, INT64_MAX, ": sequence 0 has 12 rows");
  const auto grad = [&](const LoDTensor<float>& dy) {
    return [&] { lod::sequence_topk_avg_pooling_grad_into(executor, dy, x, rows, columns, Numbers{1, 2}, 2, y); };
  };
  check_throws<lod::ShapeMismatch>(grad(LoDTensor<float>({2, 4})),
                                   "sequence_topk_avg_pooling_grad: dy: 2 rows, expected 3", y);
  check_throws<lod::ShapeMismatch>(grad(LoDTensor<float>({3, 3})),
                                   "sequence_topk_avg_pooling_grad: dy: rows of shape {3}, expected {4}", y);

  LoDTensor<float> out(rows, {4}), other(LoD::from_lengths({{1, 2}}), {4});
  lod::sequence_topk_avg_pooling_into(executor, x, rows, columns, Numbers{1, 2}, 2, out.view());
  CHECK(out.data()[11] == 0);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_topk_avg_pooling_into(executor, x, rows, columns, Numbers{1, 2}, 2, other.view());
      },
      ": a view of shape {3, 4} with 1 levels", other);
}

TEST_CASE("infer_sequence_topk_avg_pooling: allows what the operation gives, and refuses what it does") {
  const std::vector<std::int64_t> topks = {1, 3};
  for_each_random_batch<float>(1, {}, [&](Engine&, const lod::LoDTensor<float>& rows) {
    const lod::LoD& lod = rows.lod();
    std::vector<std::int64_t> lengths;
    for (const std::int64_t length : lod.lengths(-1)) lengths.push_back(2 * length * length);
    const lod::LoDTensor<float> x(lod::LoD::from_lengths({lengths}), {1});
    const auto y = lod::sequence_topk_avg_pooling(x, lod, lod, topks, 2);
    check_inference(
        y,
        [&](const auto& a, const auto& b, const auto& c) {
          return lod::infer_sequence_topk_avg_pooling(a, b, c, topks, 2);
        },
        describe(x), described(lod), described(lod));
    check_inferred(lod::sequence_topk_avg_pooling_grad(y, x, lod, lod, topks, 2), describe(x));
  });
  const auto x = described(lod::DataType::FP16, {-1, 1}, 1), rows = described(lod::DataType::INT64, {5}, 3);
  CHECK(lod::infer_sequence_topk_avg_pooling(x, rows, rows, topks, 4) == described(lod::DataType::FP16, {5, 8}, 3));
  CHECK_THROWS_AS(lod::infer_sequence_topk_avg_pooling(x, x, rows, topks, 0), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_sequence_topk_avg_pooling(x, x, described_list(4), topks, 4), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_topk_avg_pooling(rows, x, x, topks, 4), lod::ShapeMismatch);
}

TEST_CASE_TEMPLATE("sequence_topk_avg_pooling: means of numbers near the greatest are finite", T, float, double,
                   lod::bfloat16, lod::float16) {
  const T most = std::numeric_limits<T>::max();
  const auto x = LoDTensor<T>::from_values(LoD::from_lengths({{4}}), {}, {most, most, most, -most});
  for_each_executor([&](const auto& executor) {
    const auto y = lod::sequence_topk_avg_pooling(executor, x, LoD::from_lengths({{1}}), LoD::from_lengths({{4}}),
                                                  {1, 2, 3, 4, 8}, 1);
    const std::vector<double> shares = {1, 1, 1, 0.5, 0.25};
    for (std::size_t k = 0; k < shares.size(); ++k) {
      CHECK(static_cast<double>(y.values()[k]) == static_cast<double>(most) * shares[k]);
    }
  });
  const auto infinite =
      LoDTensor<T>::from_values(LoD::from_lengths({{2}}), {}, {std::numeric_limits<T>::infinity(), most});
  for_each_executor([&](const auto& executor) {
    const auto y =
        lod::sequence_topk_avg_pooling(executor, infinite, LoD::from_lengths({{1}}), LoD::from_lengths({{2}}), {2}, 1);
    CHECK(y.values()[0] == std::numeric_limits<T>::infinity());
  });
}

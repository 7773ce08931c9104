// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/close.hpp"
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
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

using lod::CumsumOptions;
using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

/// Small integers: the sums are exact.
template <lod::LoDTensorLike X>
std::vector<typename X::value_type> reference_cumsum(const X& x, const CumsumOptions& options) {
  using T = typename X::value_type;
  const auto view = x.view();
  const std::int64_t row_size = view.row_size();
  std::vector<T> y(view.values().size());
  const auto offsets = view.lod_view().absolute_offsets(options.level);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const std::int64_t begin = offsets[i] - offsets[0], rows = offsets[i + 1] - offsets[i];
    for (std::int64_t column = 0; column < row_size; ++column) {
      Wide<T> sum{};
      for (std::int64_t k = 0; k < rows; ++k) {
        const std::int64_t at = (begin + (options.reverse ? rows - 1 - k : k)) * row_size + column;
        const Wide<T> before = sum;
        sum += static_cast<Wide<T>>(view.data()[at]);
        y[static_cast<std::size_t>(at)] = static_cast<T>(options.exclusive ? before : sum);
      }
    }
  }
  return y;
}

template <class Executor, lod::LoDTensorLike X>
void check_cumsum(const Executor& executor, const X& x, const CumsumOptions& options) {
  INFO("row size ", x.row_size(), ", level ", options.level, ", exclusive ", options.exclusive, ", reverse ",
       options.reverse);
  const auto y = lod::sequence_cumsum(executor, x, options);
  CHECK(y.lod() == x.view().lod());
  CHECK(y.row_shape() == x.row_shape());
  const auto expected = reference_cumsum(x, options);
  CHECK(std::equal(expected.begin(), expected.end(), y.values().begin(), y.values().end()));
}

/// Calls body(options) for all four directions.
template <class Body>
void for_each_direction(const Body& body) {
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) body(CumsumOptions{.exclusive = exclusive, .reverse = reverse});
  }
}

}  // namespace

TEST_CASE("sequence_cumsum: forth, back, with and without the row itself") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{1, 2, 3}, {}, {4, 5}});
  const auto numbers = [&](const CumsumOptions& options) {
    const auto y = lod::sequence_cumsum(x, options);
    CHECK(y.lod() == x.lod());
    return std::vector<int>(y.values().begin(), y.values().end());
  };
  CHECK(numbers({}) == std::vector<int>{1, 3, 6, 4, 9});
  CHECK(numbers({.exclusive = true}) == std::vector<int>{0, 1, 3, 0, 4});
  CHECK(numbers({.reverse = true}) == std::vector<int>{6, 5, 3, 9, 5});
  CHECK(numbers({.exclusive = true, .reverse = true}) == std::vector<int>{5, 3, 0, 5, 0});
}

TEST_CASE("sequence_cumsum: agrees with nested loops for slices of every type, depth, level and row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 2, 5, 8, 17}) {
        const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        for_each_direction([&](CumsumOptions options) {
          for (options.level = 0; options.level < x.levels(); ++options.level) {
            check_cumsum(lod::CpuExecutor(2), slice, options);
          }
        });
      }
    });
  });
}

TEST_CASE("sequence_cumsum: lengths around those where the kernel takes another path") {
  Engine engine(2);
  const std::int64_t chunk = lod::kernel::chunk_rows(3);
  for (const std::int64_t row_size : {1, 3}) {
    const auto x = small_integers<float>(
        engine,
        LoD::from_lengths({{1, 63, 64, 65, 127, 128, 511, 512, 513, 0, 1024, 17 * grain / 16, 3, chunk, chunk + 1}}),
        {row_size});
    for_each_direction([&](const CumsumOptions& options) {
      for_each_executor([&](const auto& executor) { check_cumsum(executor, x, options); });
    });
  }
}

TEST_CASE("sequence_cumsum: batches without sequences, of empty ones only, and rows without elements") {
  for_each_executor([](const auto& executor) {
    for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}}) {
      const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
      CHECK(same_bits(lod::sequence_cumsum(executor, x), x));
    }
    const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {0});
    CHECK(same_bits(lod::sequence_cumsum(executor, x), x));
  });
}

TEST_CASE("sequence_cumsum: the bits depend neither on threads, nor on the batch, nor on where a sequence lies") {
  for (const std::int64_t row_size : {1, 2, 8, 17}) {
    INFO("row size ", row_size);
    Engine engine(static_cast<std::uint64_t>(row_size));
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 3000, 3 * grain / row_size), {row_size});
    for_each_direction([&](const CumsumOptions& options) {
      const auto expected = lod::sequence_cumsum(lod::CpuExecutor(1), x, options);
      for_each_executor([&](const auto& executor) {
        CHECK(same_bits(lod::sequence_cumsum(executor, x, options), expected));
        for (const std::int64_t begin : {1, 777, 1500, 2998}) {
          CHECK(same_bits(lod::sequence_cumsum(executor, x.between(begin, x.size()), options),
                          expected.between(begin, x.size())));
        }
        auto y = x;
        lod::sequence_cumsum_into(executor, y, options, y);
        CHECK(same_bits(y, expected));
      });
    });
  }
}

TEST_CASE("sequence_cumsum: sequences of medium length have the bits that each has alone") {
  Engine engine(5);
  std::vector<std::int64_t> lengths = {100, 3, 33, 64, 65, 512, 511, 513, 128, 0, 400};
  for (int i = 0; i < 60; ++i) lengths.push_back(random_number(engine, 30, 140));
  for_each_type(Types<float, double, std::int64_t, lod::float16>(), [&]<class T>(std::type_identity<T>) {
    const auto x = real_numbers<T>(engine, LoD::from_lengths({lengths}), {});
    for_each_direction([&](const CumsumOptions& options) {
      const auto y = lod::sequence_cumsum(lod::CpuExecutor(1), x, options);
      bool same = true;
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const auto alone = lod::sequence_cumsum(lod::CpuExecutor(1), x.between(i, i + 1), options);
        same = same && same_bits(alone, y.between(i, i + 1));
      }
      CHECK(same);
    });
  });
}

TEST_CASE("sequence_cumsum: the error does not grow with the length" * doctest::skip(slow)) {
  const std::int64_t rows = 17'000'000;  // more than 2^24, where adding 1 to a float has no effect
  LoDTensor<float> x(LoD::from_lengths({{rows}}), {});
  for (float& number : x.values()) number = 1;
  const auto counted = lod::sequence_cumsum(x);
  CHECK(counted.data()[rows - 1] == static_cast<float>(rows));
  CHECK(counted.data()[rows / 2] == static_cast<float>(rows / 2 + 1));
  for (float& number : x.values()) number = 0.1F;
  const auto y = lod::sequence_cumsum(x, {.reverse = true});
  const double expected = static_cast<double>(0.1F) * static_cast<double>(rows);
  CHECK(std::abs(static_cast<double>(y.data()[0]) - expected) < 1e-6 * expected);
}

TEST_CASE("sequence_cumsum: NaN and infinity stay in what they are summed into") {
  for (const std::int64_t rows : {std::int64_t{6}, std::int64_t{2000}, 17 * grain / 16}) {
    LoDTensor<float> x(LoD::from_lengths({{rows, rows}}), {2});
    for (float& number : x.values()) number = 1;
    x.row(rows / 2)[1] = infinity;
    x.row(rows + 1)[0] = std::numeric_limits<float>::quiet_NaN();
    for_each_executor([&](const auto& executor) {
      const auto y = lod::sequence_cumsum(executor, x);
      CHECK(y.row(rows - 1)[0] == static_cast<float>(rows));
      CHECK(y.row(rows / 2 - 1)[1] == static_cast<float>(rows / 2));
      CHECK(y.row(rows / 2)[1] == infinity);
      CHECK(y.row(rows - 1)[1] == infinity);
      CHECK(y.row(rows)[0] == 1);
      CHECK(std::isnan(y.row(rows + 1)[0]));
      CHECK(std::isnan(y.row(2 * rows - 1)[0]));
      CHECK(y.row(2 * rows - 1)[1] == static_cast<float>(rows));
    });
  }
}

TEST_CASE("sequence_cumsum: integers wrap around") {
  const auto x = LoDTensor<std::int64_t>::from_nested(std::vector<std::vector<std::int64_t>>{{INT64_MAX, 1, 1}});
  const auto y = lod::sequence_cumsum(x);
  CHECK(y.data()[1] == INT64_MIN);
  CHECK(y.data()[2] == INT64_MIN + 1);
}

TEST_CASE(
    "sequence_cumsum<U>: sums that the elements cannot hold are those of the same numbers as elements of type U") {
  const std::int64_t chunk = lod::kernel::chunk_rows(3);
  const LoD lod = LoD::from_lengths({{1, 63, 64, 65, 2, 2, 513, 0, 17 * grain / 16, 3, chunk + 1}});
  // Of wide rows a chunk has fewer.
  const LoD of_wide = slow ? LoD::from_lengths({{1, 63, 64, 65, 2, 2, 513, 0, 3, chunk + 1}}) : lod;
  for_each_type(Types<bool, std::int8_t, std::int32_t, std::uint32_t, lod::float16, lod::bfloat16>(),
                [&]<class T>(std::type_identity<T>) {
                  using U = lod::kernel::Accumulator<T>;
                  Engine engine(first_seed());
                  CAPTURE(first_seed());
                  for (const std::int64_t row_size : {1, 3, 17}) {
                    CAPTURE(row_size);
                    const LoD& index = row_size > 3 ? of_wide : lod;
                    LoDTensor<T> x(index, {row_size});
                    for (T& number : x.values()) number = engine() % 3 == 0 ? T(1) : std::numeric_limits<T>::max();
                    LoDTensor<U> same(index, {row_size});
                    std::transform(x.values().begin(), x.values().end(), same.data(),
                                   [](T number) { return static_cast<U>(number); });
                    for_each_direction([&](const CumsumOptions& options) {
                      const auto expected = lod::sequence_cumsum(lod::CpuExecutor(1), same, options);
                      for_each_executor([&](const auto& executor) {
                        CHECK(same_bits(lod::sequence_cumsum<U>(executor, x, options), expected));
                        LoDTensor<U> y;
                        lod::sequence_cumsum_into(executor, x, options, y);
                        CHECK(same_bits(y, expected));
                      });
                      check_inferred(expected,
                                     lod::infer_sequence_cumsum(lod::describe(x), lod::data_type_v<U>, options));
                    });
                  }
                });
  CHECK_THROWS_WITH_AS(
      lod::infer_sequence_cumsum(lod::describe(LoDTensor<float>(lod, {})), lod::DataType::FP64),
      "sequence_cumsum: sums of type FP64 of elements of type FP32, expected INT64 of BOOL and integers of up to 32 "
      "bits, FP32 of FP16 and BF16",
      std::invalid_argument);
  // There is no room for wide sums in the place of x.
  std::vector<float> memory(8);
  const auto x =
      LoDTensor<lod::float16>::wrap({reinterpret_cast<lod::float16*>(memory.data()), 8}, LoD::from_lengths({{8}}), {});
  LoDTensor<float> y = LoDTensor<float>::wrap(memory, LoD(), {});
  CHECK_THROWS_AS(lod::sequence_cumsum_into(lod::CpuExecutor(1), x, y), std::invalid_argument);
}

TEST_CASE("sequence_cumsum_grad: agrees with differences") {
  for_each_random_lod(4, 1, 3, [](Engine& engine, const Lengths& lengths) {
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      auto x = real_numbers<double>(engine, LoD::from_lengths(lengths), {row_size});
      if (x.rows() * row_size > 200) continue;
      for_each_direction([&](CumsumOptions options) {
        options.level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
        check_gradient(
            engine, x, [&](const auto& at) { return lod::sequence_cumsum(at, options); },
            [&](const auto& dy) { return lod::sequence_cumsum_grad(dy, options); });
      });
    }
  });
  const auto dy = LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{1, 2}, {3}});
  LoDTensor<float> dx;
  lod::sequence_cumsum_grad_into(lod::CpuExecutor(1), dy, dx);
  CHECK(same_bits(dx, LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{3, 2}, {3}})));
}

TEST_CASE("sequence_cumsum: bad arguments throw and change nothing; views as outputs") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2}), plain({3, 2});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_cumsum_into(executor, plain, y); },
                                "sequence_cumsum: the tensor has no level, expected at least one", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_cumsum_into(executor, x, {.level = 1}, y); },
                                "level 1 of a LoD with 1 levels", y);

  Engine engine(3);
  const auto input = small_integers<float>(engine, x.lod(), {2});
  LoDTensor<float> out(x.lod(), {2}), other(LoD::from_lengths({{1, 2}}), {2});
  lod::sequence_cumsum_into(executor, input.between(0, 1), out.between(0, 1));
  CHECK(same_bits(out.between(0, 1), lod::sequence_cumsum(input.between(0, 1))));
  CHECK(out.row(2)[0] == 0);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_cumsum_into(executor, input, other.view()); },
                                   ": a view of shape {3, 2} with 1 levels", other);
}

TEST_CASE("infer_sequence_cumsum: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const lod::CumsumOptions options{.level = level};
      const auto y = lod::sequence_cumsum(x, options);
      check_inference(
          y, [&](const auto& desc) { return lod::infer_sequence_cumsum(desc, options); }, describe(x));
      check_inferred(lod::sequence_cumsum_grad(y, options), describe(x));
    }
  });
  const auto x = described(lod::DataType::BOOL, {15, -1}, 2);
  CHECK(lod::infer_sequence_cumsum(x) == x);
  CHECK_THROWS_AS(lod::infer_sequence_cumsum(described(lod::DataType::FP32, {15}, 0)), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_cumsum(x, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_sequence_cumsum(described(lod::DataType::COMPLEX128, {15}, 1)), lod::ShapeMismatch);
}

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
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Nested = std::vector<std::vector<float>>;

namespace {

template <class Executor, lod::LoDTensorLike X>
void check_logsumexp(const Executor& executor, const X& x, int level) {
  const auto view = x.view();
  INFO("level ", level, " of ", view.levels(), ", row size ", view.row_size());
  const auto y = lod::sequence_logsumexp(executor, x, {.level = level});
  const auto offsets = view.lod_view().absolute_offsets(level);
  CHECK(y.lod() == view.lod().levels_above(level));
  CHECK(y.shape() == lod::Shape(static_cast<std::int64_t>(offsets.size()) - 1, view.row_shape()));
  bool all_close = true;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    for (std::size_t column = 0; column < static_cast<std::size_t>(view.row_size()); ++column) {
      double greatest = 0, sum = 0;
      for (const bool second_pass : {false, true}) {
        for (std::int64_t row = offsets[i] - offsets[0]; row < offsets[i + 1] - offsets[0]; ++row) {
          const auto number = static_cast<double>(view.row(row)[column]);
          if (second_pass) {
            sum += std::exp(number - greatest);
          } else {
            greatest = std::max(greatest, number);
          }
        }
      }
      all_close = all_close && close(y.row(static_cast<std::int64_t>(i))[column], greatest + std::log(sum));
    }
  }
  CHECK(all_close);
}

}  // namespace

TEST_CASE("sequence_logsumexp: agrees with nested loops for slices of every type, depth, level and row size") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto x = real_numbers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        for (int level = 0; level < x.levels(); ++level) check_logsumexp(lod::CpuExecutor(2), slice, level);
      }
    });
  });
}

TEST_CASE("sequence_logsumexp: large and small numbers, infinities, NaN, empty sequences") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto x = LoDTensor<float>::from_nested(Nested{{1000, 1000},
                                                      {-1000, -1000},
                                                      {},
                                                      {-infinity, -infinity},
                                                      {-infinity, 3},
                                                      {infinity, 1, 500},
                                                      {infinity, -infinity},
                                                      {nan, 1},
                                                      {infinity, nan},
                                                      {3e38F}});
  const auto y = lod::sequence_logsumexp(x);
  const float log2 = std::log(2.F);
  CHECK(y.data()[0] == doctest::Approx(1000 + log2));
  CHECK(y.data()[1] == doctest::Approx(-1000 + log2));
  CHECK(y.data()[2] == -infinity);
  CHECK(y.data()[3] == -infinity);
  CHECK(y.data()[4] == 3);
  CHECK(y.data()[5] == infinity);
  CHECK(y.data()[6] == infinity);
  CHECK(std::isnan(y.data()[7]));
  CHECK(std::isnan(y.data()[8]));
  CHECK(y.data()[9] == 3e38F);

  // Longer sequences and other row sizes go other ways.
  for (const std::int64_t row_size : {1, 3, 9}) {
    for (const std::int64_t rows : {std::int64_t{20}, std::int64_t{600}, 17 * grain / 16}) {
      LoDTensor<float> all(LoD::from_lengths({{rows, rows}}), {row_size});
      for (float& number : all.values()) number = -infinity;
      for_each_executor([&](const auto& executor) {
        const auto sums = lod::sequence_logsumexp(executor, all);
        CHECK(std::count(sums.values().begin(), sums.values().end(), -infinity) == 2 * row_size);
      });
      all.row(rows - 1)[0] = infinity;
      all.row(rows)[0] = nan;
      const auto few = lod::sequence_logsumexp(all);
      CHECK(few.row(0)[0] == infinity);
      CHECK(std::isnan(few.row(1)[0]));
    }
  }
}

TEST_CASE("sequence_logsumexp: batches without sequences, of empty ones only, and rows without elements") {
  for_each_executor([](const auto& executor) {
    for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
      for (const std::int64_t row_size : {0, 1, 3}) {
        const LoDTensor<float> x(LoD::from_lengths(lengths), {row_size});
        for (int level = 0; level < x.levels(); ++level) {
          const auto y = lod::sequence_logsumexp(executor, x, {.level = level});
          CHECK(y.shape() == lod::Shape{x.lod().size(level), row_size});
          for (const float number : y.values()) CHECK(number == -infinity);
          CHECK(same_bits(lod::sequence_logsumexp_grad(executor, y, x, {.level = level}), x));
        }
      }
    }
  });
}

TEST_CASE("sequence_logsumexp: the bits depend neither on threads, nor on the batch, nor on where a sequence lies") {
  for (const std::int64_t row_size : {1, 3, 8, 17}) {
    INFO("row size ", row_size);
    Engine engine(static_cast<std::uint64_t>(row_size));
    const std::int64_t size = slow ? 400 : 2000;
    const auto x =
        real_numbers<float>(engine, giant_among_short(engine, size, 9 * grain / 4 / row_size + 1200), {row_size});
    for_each_executor([&](const auto& executor) {
      const auto one = working_alone(executor);
      const auto expected = lod::sequence_logsumexp(one, x);
      check_logsumexp(one, x, 0);
      const auto dx = lod::sequence_logsumexp_grad(one, expected, x);
      CHECK(same_bits(lod::sequence_logsumexp(executor, x), expected));
      CHECK(same_bits(lod::sequence_logsumexp_grad(executor, expected, x), dx));
      for (const std::int64_t begin : {size * 2 / 5, size / 2, size - 1}) {
        CHECK(same_bits(lod::sequence_logsumexp(executor, x.between(begin, x.size())),
                        expected.between(begin, x.size())));
      }
      auto overwritten = x;
      lod::sequence_logsumexp_grad_into(executor, expected, overwritten, overwritten);
      CHECK(same_bits(overwritten, dx));
    });
  }
}

TEST_CASE("sequence_logsumexp_grad: agrees with differences") {
  for_each_random_lod(4, 1, 3, [](Engine& engine, const Lengths& lengths) {
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      auto x = real_numbers<double>(engine, LoD::from_lengths(lengths), {row_size});
      if (x.rows() * row_size > 300) continue;
      for (int level = 0; level < x.levels(); ++level) {
        INFO("row size ", row_size, ", level ", level);
        // Of empty sequences the result is -inf, whose differences are none.
        const auto finite = [&](const auto& at) {
          auto y = lod::sequence_logsumexp(at, {.level = level});
          for (double& number : y.values()) number = std::max(number, -1e3);
          return y;
        };
        check_gradient(engine, x, finite,
                       [&](const auto& dy) { return lod::sequence_logsumexp_grad(dy, x, {.level = level}); });
      }
    }
  });
}

TEST_CASE("sequence_logsumexp_grad: a masked column gets nothing, bfloat16 its share of large sums") {
  const auto masked =
      lod::sequence_logsumexp_grad(LoDTensor<float>::from_nested(std::vector<float>{5, 7}),
                                   LoDTensor<float>::from_nested(Nested{{-infinity, -infinity}, {-infinity, 1}}));
  CHECK(same_bits(masked, LoDTensor<float>::from_nested(Nested{{0, 0}, {0, 7}})));
  LoDTensor<lod::bfloat16> x(LoD::from_lengths({{4}}), {}), dy({1});
  for (auto& number : x.values()) number = lod::bfloat16(50.F);  // the sum itself, 51.386, is not to be had
  dy.data()[0] = lod::bfloat16(2.F);
  const auto dx = lod::sequence_logsumexp_grad(dy, x);
  for (const auto number : dx.values()) CHECK(number == lod::bfloat16(0.5F));
}

TEST_CASE("sequence_logsumexp: bad arguments throw and change nothing; views as outputs") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2}), plain({3, 2});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_logsumexp_into(executor, plain, y); },
                                "sequence_logsumexp: the tensor has no level, expected at least one", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_logsumexp_into(executor, x, {.level = 1}, y); },
                                "level 1 of a LoD with 1 levels", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_logsumexp_grad_into(executor, plain, plain, y); },
                                "sequence_logsumexp_grad: x: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_logsumexp_grad_into(executor, plain, x, y); },
                                   "sequence_logsumexp_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_logsumexp_grad_into(executor, LoDTensor<float>({2, 3}), x, y);
      },
      "sequence_logsumexp_grad: dy: rows of shape {3}, expected {2}", y);

  LoDTensor<float> out({2, 2}), other({3, 2});
  lod::sequence_logsumexp_into(executor, x, out.view());
  CHECK(out.data()[0] == doctest::Approx(std::log(2.F)));
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_logsumexp_into(executor, x, other.view()); },
                                   ": a view of shape {3, 2} with 0 levels", other);
}

TEST_CASE("infer_sequence_logsumexp: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const lod::LogsumexpOptions options{.level = level};
      const auto y = lod::sequence_logsumexp(x, options);
      check_inference(
          y, [&](const auto& desc) { return lod::infer_sequence_logsumexp(desc, options); }, describe(x));
      check_inferred(lod::sequence_logsumexp_grad(y, x, options), describe(x));
    }
  });
  CHECK(lod::infer_sequence_logsumexp(described(lod::DataType::BF16, {15, 2}, 2)) ==
        described(lod::DataType::BF16, {-1, 2}, 1));
  CHECK_THROWS_AS(lod::infer_sequence_logsumexp(described(lod::DataType::FP32, {15}, 0)), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_logsumexp(described(lod::DataType::FP32, {15}, 1), {.level = 1}),
                  lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_logsumexp(described(lod::DataType::INT32, {15}, 1)),
                       doctest::Contains("elements of INT32, expected float16"), lod::ShapeMismatch);
}

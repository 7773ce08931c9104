// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
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

namespace {

/// Small integers: the sums are exact.
template <lod::LoDTensorLike X, class T>
std::vector<T> reference_row_conv(const X& x, const LoDTensor<T>& filter, int level) {
  const auto view = x.view();
  const std::int64_t row_size = view.row_size();
  std::vector<T> y;
  const auto offsets = view.lod_view().absolute_offsets(level);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const std::int64_t begin = offsets[i] - offsets[0], end = offsets[i + 1] - offsets[0];
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t column = 0; column < row_size; ++column) {
        double sum = 0;
        for (std::int64_t w = 0; w < filter.rows() && t + w < end; ++w) {
          sum += static_cast<double>(view.data()[(t + w) * row_size + column]) *
                 static_cast<double>(filter.data()[w * row_size + column]);
        }
        y.push_back(static_cast<T>(sum));
      }
    }
  }
  return y;
}

template <class Executor, lod::LoDTensorLike X>
void check_row_conv(Engine& engine, const Executor& executor, const X& x, std::int64_t filter_rows, int level = 0) {
  using T = typename X::value_type;
  INFO("row size ", x.row_size(), ", level ", level, ", filter of ", filter_rows);
  const auto filter = small_integers<T>(engine, lod::Shape(filter_rows, x.row_shape()));
  const auto y = lod::row_conv(executor, x, filter, {.level = level});
  CHECK(y.lod() == x.view().lod());
  CHECK(y.row_shape() == x.row_shape());
  const auto expected = reference_row_conv(x, filter, level);
  CHECK(std::equal(expected.begin(), expected.end(), y.values().begin(), y.values().end()));
}

}  // namespace

TEST_CASE("row_conv: each row and the two that follow") {
  const auto x = LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{1, 2, 3, 4}, {}, {5}});
  const auto filter = LoDTensor<float>::from_nested(std::vector<float>{1, 10, 100});
  const auto y = lod::row_conv(x, filter);
  CHECK(y.lod() == x.lod());
  CHECK(std::vector<float>(y.values().begin(), y.values().end()) == std::vector<float>{321, 432, 43, 4, 5});
}

TEST_CASE("row_conv: agrees with nested loops for slices of every type, depth, level and row size") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(3, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17, 64}) {
        const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        for (int level = 0; level < x.levels(); ++level) {
          check_row_conv(engine, lod::CpuExecutor(2), slice, random_number(engine, 1, 6), level);
        }
      }
    });
  });
}

TEST_CASE("row_conv: batches without sequences, of empty ones only, rows and filters without elements") {
  Engine engine(1);
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    check_row_conv(engine, lod::CpuExecutor(2), x, 2);
    const auto gradients = lod::row_conv_grad(x, x, small_integers<float>(engine, {2, 3}));
    CHECK(same_bits(gradients.dx, x));
    CHECK(same_bits(gradients.dfilter, LoDTensor<float>({2, 3})));
  }
  check_row_conv(engine, lod::CpuExecutor(2), LoDTensor<float>(LoD::from_lengths({{2, 1}}), {0}), 2);
  const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 1}}), {2});
  check_row_conv(engine, lod::CpuExecutor(2), x, 0);
  CHECK(lod::row_conv_grad(x, x, LoDTensor<float>({0, 2})).dfilter.rows() == 0);
}

TEST_CASE("row_conv: infinite weights of rows that are not there do not matter") {
  const auto x = LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{1, 2, 3}, {4}});
  const auto filter = LoDTensor<float>::from_nested(std::vector<float>{1, std::numeric_limits<float>::infinity()});
  const auto y = lod::row_conv(x, filter);
  CHECK(std::isinf(y.data()[0]));
  CHECK(y.data()[2] == 3);
  CHECK(y.data()[3] == 4);
}

TEST_CASE("row_conv: the bits depend neither on threads, nor on the batch, nor on where a sequence lies") {
  for (const std::int64_t row_size : {1, 3, 3000}) {
    INFO("row size ", row_size);
    Engine engine(static_cast<std::uint64_t>(row_size));
    const auto x = real_numbers<float>(
        engine, giant_among_short(engine, row_size < 3000 ? 300 : 20, 3 * grain / 2 / row_size), {row_size});
    const auto filter = real_numbers<float>(engine, {4, row_size});
    const auto expected = lod::row_conv(lod::CpuExecutor(1), x, filter);
    const auto gradients = lod::row_conv_grad(lod::CpuExecutor(1), expected, x, filter);
    for_each_executor([&](const auto& executor) {
      CHECK(same_bits(lod::row_conv(executor, x, filter), expected));
      const auto again = lod::row_conv_grad(executor, expected, x, filter);
      CHECK(same_bits(again.dx, gradients.dx));
      CHECK(same_bits(again.dfilter, gradients.dfilter));
      for (const std::int64_t begin : {x.size() / 4, x.size() / 2, x.size() - 1}) {
        const auto part = x.between(begin, x.size());
        CHECK(same_bits(lod::row_conv(executor, part, filter), expected.between(begin, x.size())));
      }
    });
  }
}

TEST_CASE("row_conv_grad: agrees with differences") {
  for_each_random_lod(4, 1, 3, [](Engine& engine, const Lengths& lengths) {
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      auto x = real_numbers<double>(engine, LoD::from_lengths(lengths), {row_size});
      if (x.rows() > 60) continue;
      auto filter = real_numbers<double>(engine, {random_number(engine, 1, 5), row_size});
      const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
      INFO("row size ", row_size, ", level ", level);
      const auto conv = [&](const auto&) { return lod::row_conv(x, filter, {.level = level}); };
      const auto gradients = [&](const auto& dy) { return lod::row_conv_grad(dy, x, filter, {.level = level}); };
      check_gradient(engine, x, conv, [&](const auto& dy) { return gradients(dy).dx; });
      check_gradient(engine, filter, conv, [&](const auto& dy) { return gradients(dy).dfilter; });
    }
  });
}

TEST_CASE("row_conv: bad arguments throw and change nothing; views as outputs") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2}), plain({3, 2}), filter({4, 2}), narrow({2, 1});
  LoDTensor<float> y({1, 2}), dfilter({1, 1});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::row_conv_into(executor, plain, filter, y); },
                                "row_conv: the tensor has no level, expected at least one", y);
  check_throws<lod::OutOfRange>([&] { lod::row_conv_into(executor, x, filter, {.level = 1}, y); },
                                "level 1 of a LoD with 1 levels", y);
  check_throws<lod::ShapeMismatch>([&] { lod::row_conv_into(executor, x, narrow, y); },
                                   "row_conv: filter: rows of shape {1}, expected {2}", y);
  const auto grad = [&](const LoDTensor<float>& dy, const LoDTensor<float>& input, const LoDTensor<float>& weights) {
    return [&] { lod::row_conv_grad_into(executor, dy, input, weights, y, dfilter); };
  };
  check_throws<lod::InvalidLoD>(grad(x, plain, filter), "row_conv_grad: x: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>(grad(x, x, narrow), "row_conv_grad: filter: rows of shape {1}, expected {2}", y);
  check_throws<lod::ShapeMismatch>(grad(filter, x, filter), "row_conv_grad: dy: 4 rows, expected 3", y);
  const LoDTensor<float> wide({3, 3});
  check_throws<lod::ShapeMismatch>(grad(wide, x, filter), "row_conv_grad: dy: rows of shape {3}, expected {2}", y);
  check_throws<lod::ShapeMismatch>([&] { lod::row_conv_grad_into(executor, x, x, filter, y, dfilter.view()); },
                                   ": a view of shape {1, 1}", y);

  Engine engine(3);
  const auto input = small_integers<float>(engine, x.lod(), {2}), weights = small_integers<float>(engine, {2, 2});
  LoDTensor<float> out(x.lod(), {2}), other(LoD::from_lengths({{1, 2}}), {2});
  lod::row_conv_into(executor, input, weights, out.view());
  CHECK(same_bits(out, lod::row_conv(input, weights)));
  check_throws<lod::ShapeMismatch>([&] { lod::row_conv_into(executor, input, weights, other.view()); },
                                   ": a view of shape {3, 2} with 1 levels", other);
}

TEST_CASE("infer_row_conv: allows what the operation gives, and refuses what it does") {
  const lod::LoDTensor<float> filter({3, 2});
  for_each_random_batch<float>(1, {2}, [&](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const lod::RowConvOptions options{.level = level};
      const auto y = lod::row_conv(x, filter, options);
      check_inference(
          y, [&](const auto& a, const auto& b) { return lod::infer_row_conv(a, b, options); }, describe(x),
          describe(filter));
      const auto d = lod::row_conv_grad(y, x, filter, options);
      check_inferred(d.dx, describe(x));
      check_inferred(d.dfilter, describe(filter));
    }
  });
  const auto x = described(lod::DataType::FP16, {15, -1}, 2), filter_desc = described(lod::DataType::FP16, {3, 8});
  CHECK(lod::infer_row_conv(x, filter_desc) == described(lod::DataType::FP16, {15, 8}, 2));
  CHECK_THROWS_AS(lod::infer_row_conv(filter_desc, filter_desc), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_row_conv(x, filter_desc, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_row_conv(x, described(lod::DataType::FP32, {3, 8})), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_row_conv(x, described(lod::DataType::FP16, {3, 8, 1})),
                       doctest::Contains("row_conv: filter: rows of shape {8, 1}, expected {-1}"), lod::ShapeMismatch);
}

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
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

struct Window {
  std::int64_t length;
  std::int64_t start;
  std::int64_t before() const { return std::max<std::int64_t>(0, -start); }
  std::int64_t behind() const { return std::max<std::int64_t>(0, start + length - 1); }
};

/// Small integers: the sums are exact.
template <lod::LoDTensorLike X, class T>
std::vector<T> reference_conv(const X& x, const LoDTensor<T>& filter, const LoDTensor<T>* padding, const Window& window,
                              int level) {
  const auto view = x.view();
  const std::int64_t row_size = view.row_size(), columns = filter.row_size();
  std::vector<T> y;
  const auto offsets = view.lod_view().absolute_offsets(level);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    const std::int64_t begin = offsets[i] - offsets[0], end = offsets[i + 1] - offsets[0];
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t column = 0; column < columns; ++column) {
        double sum = 0;
        for (std::int64_t place = 0; place < window.length; ++place) {
          const std::int64_t row = t + window.start + place;
          for (std::int64_t d = 0; d < row_size; ++d) {
            T number{};
            if (row >= begin && row < end) {
              number = view.data()[row * row_size + d];
            } else if (padding) {
              const std::int64_t padded = window.before() + (row < begin ? row - begin : row - end);
              number = padding->data()[padded * row_size + d];
            }
            sum += static_cast<double>(number) *
                   static_cast<double>(filter.data()[(place * row_size + d) * columns + column]);
          }
        }
        y.push_back(static_cast<T>(sum));
      }
    }
  }
  return y;
}

template <class T>
struct Parameters {
  LoDTensor<T> filter;
  LoDTensor<T> padding;
  Parameters(Engine& engine, const Window& window, std::int64_t row_size, std::int64_t columns)
      : filter(small_integers<T>(engine, {window.length * row_size, columns})),
        padding(small_integers<T>(engine, {window.before() + window.behind(), row_size})) {}
};

template <class Executor, lod::LoDTensorLike X>
void check_conv(Engine& engine, const Executor& executor, const X& x, const Window& window, std::int64_t columns,
                int level = 0) {
  using T = typename X::value_type;
  INFO("row size ", x.row_size(), ", level ", level, ", window of ", window.length, " from ", window.start);
  const Parameters<T> parameters(engine, window, x.row_size(), columns);
  for (const bool padded : {false, true}) {
    const LoDTensor<T>* padding = padded ? &parameters.padding : nullptr;
    const auto y = lod::sequence_conv(
        executor, x, parameters.filter,
        {.context_length = window.length, .context_start = window.start, .padding = padding, .level = level});
    CHECK(y.lod() == x.view().lod());
    CHECK(y.row_shape() == lod::Shape{columns});
    const auto expected = reference_conv(x, parameters.filter, padding, window, level);
    CHECK(std::equal(expected.begin(), expected.end(), y.values().begin(), y.values().end()));
  }
}

constexpr Window windows[] = {{1, 0}, {3, -1}, {3, -3}, {2, 1}, {3, 2}, {4, -6}, {5, -2}};

}  // namespace

TEST_CASE("sequence_conv: three rows at a time, with zeros and with rows around the sequences") {
  const auto x = LoDTensor<float>::from_nested(std::vector<std::vector<float>>{{1, 2, 3}, {}, {4}});
  const auto filter = LoDTensor<float>::from_nested(std::vector<float>{1, 10, 100});
  const auto numbers = [](const LoDTensor<float>& y) {
    return std::vector<float>(y.values().begin(), y.values().end());
  };
  CHECK(numbers(lod::sequence_conv(x, filter)) == std::vector<float>{210, 321, 32, 40});
  const auto padding = LoDTensor<float>::from_nested(std::vector<float>{7, 9});
  CHECK(numbers(lod::sequence_conv(x, filter, {.padding = &padding})) == std::vector<float>{217, 321, 932, 947});
  CHECK(numbers(lod::sequence_conv(x, filter, {.context_start = 0, .padding = &padding})) ==
        std::vector<float>{321, 732, 973, 974});
}

TEST_CASE("sequence_conv: the cases of PaddlePaddle's tests") {
  Engine engine(1);
  for_each_executor([&](const auto& executor) {
    const auto check = [&](const std::vector<std::int64_t>& offsets, std::int64_t row_size, const Window& window) {
      check_conv(engine, executor, small_integers<float>(engine, LoD::from_offsets({offsets}), {row_size}), window, 8);
    };
    check({0, 4, 5, 8, 11}, 23, {1, 0});
    check({0, 4, 5, 8, 11}, 50, {3, -1});
    check({0, 0, 4, 5, 5, 8, 11, 11}, 50, {3, -1});
    check({0, 1, 2, 6, 9, 9, 15, 22, 25}, 25, {3, 2});
  });
}

TEST_CASE("sequence_conv: agrees with nested loops for slices of every type, depth, level and row size") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(2, 1, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {row_size});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const Window& window = windows[random_number(engine, 0, std::ssize(windows) - 1)];
        for (int level = 0; level < x.levels(); ++level) {
          check_conv(engine, lod::CpuExecutor(2), slice, window, row_size == 8 ? 19 : 3, level);
        }
      }
    });
  });
}

TEST_CASE("sequence_conv: batches without sequences, of empty ones only, rows and filters without elements") {
  Engine engine(1);
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    check_conv(engine, lod::CpuExecutor(2), x, {3, -1}, 4);
    const Parameters<float> parameters(engine, {3, -1}, 3, 4);
    const auto gradients =
        lod::sequence_conv_grad(LoDTensor<float>(x.lod(), {4}), x, parameters.filter, {.padding = &parameters.padding});
    CHECK(same_bits(gradients.dx, x));
    CHECK(same_bits(gradients.dfilter, LoDTensor<float>({9, 4})));
    CHECK(same_bits(gradients.dpadding, LoDTensor<float>({2, 3})));
  }
  check_conv(engine, lod::CpuExecutor(2), LoDTensor<float>(LoD::from_lengths({{2, 1}}), {0}), {3, -1}, 4);
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2}), filter({6, 0});
  const auto gradients = lod::sequence_conv_grad(lod::sequence_conv(x, filter), x, filter);
  CHECK(same_bits(gradients.dx, x));
  CHECK(same_bits(gradients.dfilter, filter));
}

TEST_CASE("sequence_conv: the bits depend neither on threads, nor on the batch, nor on where a sequence lies") {
  for (const std::int64_t row_size : {1, 24}) {
    INFO("row size ", row_size);
    Engine engine(static_cast<std::uint64_t>(row_size));
    const auto x = real_numbers<float>(engine, giant_among_short(engine, 300, 1500), {row_size});
    const auto filter = real_numbers<float>(engine, {3 * row_size, 20});
    const auto padding = real_numbers<float>(engine, {2, row_size});
    const lod::ConvOptions<float> options{.padding = &padding};
    for_each_executor([&](const auto& executor) {
      const auto one = working_alone(executor);
      const auto expected = lod::sequence_conv(one, x, filter, options);
      const auto gradients = lod::sequence_conv_grad(one, expected, x, filter, options);
      CHECK(same_bits(lod::sequence_conv(executor, x, filter, options), expected));
      const auto again = lod::sequence_conv_grad(executor, expected, x, filter, options);
      CHECK(same_bits(again.dx, gradients.dx));
      CHECK(same_bits(again.dfilter, gradients.dfilter));
      CHECK(same_bits(again.dpadding, gradients.dpadding));
      for (const std::int64_t begin : {77, 150, 299}) {
        const auto part = x.between(begin, x.size());
        CHECK(same_bits(lod::sequence_conv(executor, part, filter, options), expected.between(begin, x.size())));
        CHECK(same_bits(lod::sequence_conv_grad(executor, expected.between(begin, x.size()), part, filter, options).dx,
                        gradients.dx.between(begin, x.size())));
      }
    });
  }
}

TEST_CASE("sequence_conv_grad: agrees with differences") {
  for_each_random_lod(4, 1, 3, [](Engine& engine, const Lengths& lengths) {
    for (const std::int64_t row_size : {1, 3, 8, 17}) {
      const Window& window = windows[random_number(engine, 0, std::ssize(windows) - 1)];
      auto x = real_numbers<double>(engine, LoD::from_lengths(lengths), {row_size});
      if (x.rows() > 40) continue;
      const int level = static_cast<int>(random_number(engine, 0, x.levels() - 1));
      INFO("row size ", row_size, ", level ", level, ", window of ", window.length, " from ", window.start);
      Parameters<double> parameters(engine, window, row_size, 3);
      const lod::ConvOptions<double> options{.context_length = window.length,
                                             .context_start = window.start,
                                             .padding = &parameters.padding,
                                             .level = level};
      const auto conv = [&](const auto&) { return lod::sequence_conv(x, parameters.filter, options); };
      const auto gradients = [&](const auto& dy) { return lod::sequence_conv_grad(dy, x, parameters.filter, options); };
      check_gradient(engine, x, conv, [&](const auto& dy) { return gradients(dy).dx; });
      check_gradient(engine, parameters.filter, conv, [&](const auto& dy) { return gradients(dy).dfilter; });
      check_gradient(engine, parameters.padding, conv, [&](const auto& dy) { return gradients(dy).dpadding; });
    }
  });
}

TEST_CASE("sequence_conv_grad: rounds once, however many rows; without padding there is no gradient of it") {
  const std::int64_t rows = 17 * grain / 16;
  LoDTensor<lod::float16> x(LoD::from_lengths({{rows}}), {}), dy(x.lod(), {}), filter({1});
  for (auto& number : x.values()) number = lod::float16(1);
  for (auto& number : dy.values()) number = lod::float16(0.25F);
  const auto gradients = lod::sequence_conv_grad(dy, x, filter, {.context_length = 1, .context_start = 0});
  CHECK(gradients.dfilter.data()[0] == lod::float16(static_cast<float>(rows) / 4));
  CHECK(gradients.dpadding.rows() == 0);

  // Asked for, it is the gradient at zeros.
  LoDTensor<lod::float16> dx, dfilter, dpadding, wide({3});
  lod::sequence_conv_grad_into(lod::CpuExecutor(1), dy, x, wide, {}, dx, dfilter, dpadding);
  CHECK(dpadding.shape() == lod::Shape{2});
}

TEST_CASE("sequence_conv: the padding may be a tensor, a view of its rows or a pointer; options may be left out") {
  Engine engine(4);
  const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 0, 3}}), {2});
  const auto filter = small_integers<float>(engine, {6, 3}), rows = small_integers<float>(engine, {5, 2}),
             dy = small_integers<float>(engine, {5, 3});
  const auto padding = lod::select(rows, {1, 2});
  const LoDTensor<float>* none = nullptr;
  for_each_executor([&](const auto& executor) {
    const auto expected = lod::sequence_conv(executor, x, filter, {.padding = &padding});
    CHECK(same_bits(lod::sequence_conv(executor, x, filter, {.padding = padding}), expected));
    CHECK(same_bits(lod::sequence_conv(executor, x, filter, {.padding = rows.between(1, 3)}), expected));
    CHECK(same_bits(lod::sequence_conv(executor, x, filter, {.padding = none}), lod::sequence_conv(x, filter)));
    const auto gradients = lod::sequence_conv_grad(executor, dy, x, filter, {.padding = rows.between(1, 3)});
    CHECK(gradients.dpadding.rows() == 2);
    LoDTensor<float> dx, dfilter, dpadding;
    lod::sequence_conv_grad_into(executor, dy, x, filter, dx, dfilter);
    CHECK(same_bits(dfilter, lod::sequence_conv_grad(executor, dy, x, filter).dfilter));
    lod::sequence_conv_grad_into(executor, dy, x, filter, dx, dfilter, dpadding);
    CHECK(same_bits(dpadding, gradients.dpadding));
  });
}

TEST_CASE("sequence_conv: bad arguments throw and change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {2}), plain({3, 2}), filter({6, 4}), padding({2, 2});
  LoDTensor<float> y({1, 2}), dx({1, 1});
  const lod::CpuExecutor executor(1);
  const auto conv = [&](const LoDTensor<float>& input, const LoDTensor<float>& weights,
                        const lod::ConvOptions<float>& options) {
    return [&, options] { lod::sequence_conv_into(executor, input, weights, options, y); };
  };
  check_throws<lod::InvalidLoD>(conv(plain, filter, {}),
                                "sequence_conv: the tensor has no level, expected at least one", y);
  check_throws<lod::OutOfRange>(conv(x, filter, {.level = 1}), "level 1 of a LoD with 1 levels", y);
  check_throws<lod::OutOfRange>(conv(x, filter, {.context_length = 0}), "context_length 0, context_start -1", y);
  check_throws<lod::OutOfRange>(conv(x, filter, {.context_length = INT64_MAX}), "expected a length of 1 or more", y);
  check_throws<lod::OutOfRange>(conv(x, filter, {.context_start = INT64_MIN}), "less than 2^48 rows away", y);
  check_throws<lod::OutOfRange>(conv(x, filter, {.context_start = INT64_MAX}), "less than 2^48 rows away", y);
  check_throws<lod::ShapeMismatch>(conv(x, filter, {.context_length = 2}),
                                   "filter: 6 rows, expected context_length times the row size, 2 * 2", y);
  check_throws<lod::ShapeMismatch>(conv(x, filter, {.context_start = -2, .padding = &plain}),
                                   "sequence_conv: padding: 3 rows, expected 2", y);
  check_throws<lod::ShapeMismatch>(conv(x, filter, {.padding = &dx}), "sequence_conv: padding: 1 rows, expected 2", y);
  const LoDTensor<float> narrow({2, 1});
  check_throws<lod::ShapeMismatch>(conv(x, filter, {.padding = &narrow}),
                                   "sequence_conv: padding: rows of shape {1}, expected {2}", y);

  LoDTensor<float> dfilter({6, 4});
  const auto grad = [&](const LoDTensor<float>& dy, const lod::ConvOptions<float>& options) {
    return [&, options] { lod::sequence_conv_grad_into(executor, dy, x, filter, options, dx, dfilter); };
  };
  check_throws<lod::ShapeMismatch>(grad(LoDTensor<float>({2, 4}), {}), "sequence_conv_grad: dy: 2 rows, expected 3",
                                   dx);
  check_throws<lod::ShapeMismatch>(grad(plain, {}), "sequence_conv_grad: dy: rows of shape {2}, expected {4}", dx);
  check_throws<lod::OutOfRange>(grad(plain, {.context_length = -1}), "sequence_conv_grad: context_length -1", dx);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::sequence_conv_grad_into(executor, LoDTensor<float>({3, 4}), x, filter, {}, dx, y.view());
      },
      ": a view of shape {1, 2}", dx);
}

TEST_CASE("sequence_conv: a view as the output must have the shape and the levels of the result") {
  Engine engine(2);
  const auto x = small_integers<float>(engine, LoD::from_lengths({{2, 1}}), {2});
  const auto filter = small_integers<float>(engine, {6, 4});
  const lod::CpuExecutor executor(1);
  LoDTensor<float> y(x.lod(), {4}), other(LoD::from_lengths({{1, 2}}), {4});
  lod::sequence_conv_into(executor, x.between(1, 2), filter, y.between(1, 2));
  CHECK(same_bits(y.between(1, 2), lod::sequence_conv(x.between(1, 2), filter)));
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_conv_into(executor, x, filter, other.view()); },
                                   ": a view of shape {3, 4} with 1 levels", other);
}

TEST_CASE("infer_sequence_conv: allows what the operation gives, and refuses what it does") {
  const lod::LoDTensor<float> filter({6, 4}), padding({2, 2});
  const auto padding_desc = describe(padding);
  for_each_random_batch<float>(1, {2}, [&](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      const auto y = lod::sequence_conv(x, filter, {.padding = &padding, .level = level});
      check_inference(
          y,
          [&](const auto& a, const auto& b) {
            return lod::infer_sequence_conv(a, b, {.padding = &padding_desc, .level = level});
          },
          describe(x), describe(filter));
      const auto d = lod::sequence_conv_grad(y, x, filter, {.padding = &padding, .level = level});
      check_inferred(d.dx, describe(x));
      check_inferred(d.dfilter, describe(filter));
      check_inferred(d.dpadding, padding_desc);
    }
  });
  const auto x = described(lod::DataType::FP32, {15, 2}, 2), weights = described(lod::DataType::FP32, {6, 4});
  CHECK(lod::infer_sequence_conv(x, weights) == described(lod::DataType::FP32, {15, 4}, 2));
  CHECK_THROWS_AS(lod::infer_sequence_conv(weights, weights), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_conv(x, weights, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_sequence_conv(x, weights, {.context_length = 0}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_sequence_conv(described(lod::DataType::INT8, {15, 2}, 2), weights), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_conv(x, weights, {.context_length = 2}),
                       doctest::Contains("sequence_conv: filter: 6 rows, expected 4"), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_conv(x, weights, {.padding = &weights}),
                       doctest::Contains("sequence_conv: padding: 6 rows, expected 2"), lod::ShapeMismatch);
}

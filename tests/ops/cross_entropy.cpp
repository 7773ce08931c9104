// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/close.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
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
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using lod::Reduction;
using namespace lod_test;

namespace {

/// What cross_entropy and its gradient give, in double.
struct ExpectedEntropy {
  std::vector<double> losses, gradient;

  template <class X, class DY>
  ExpectedEntropy(const X& logits, const std::vector<std::int64_t>& labels, const lod::CrossEntropyOptions& options,
                  const DY& dy) {
    const std::int64_t classes = logits.row_size();
    for (std::int64_t row = 0; row < logits.rows(); ++row) {
      const std::int64_t label = labels[static_cast<std::size_t>(row)];
      std::vector<double> x;
      for (const auto number : logits.row(row)) x.push_back(static_cast<double>(number));
      const double most = *std::max_element(x.begin(), x.end());
      double sum = 0, loss = 0;
      for (const double number : x) sum += std::exp(number - most);
      for (std::int64_t k = 0; k < classes; ++k) {
        const double log_probability = x[static_cast<std::size_t>(k)] - most - std::log(sum);
        const double target =
            (k == label ? 1 - options.label_smoothing : 0) + options.label_smoothing / static_cast<double>(classes);
        if (target > 0) loss -= target * log_probability;
        gradient.push_back(label == options.ignore_index ? 0 : std::exp(log_probability) - target);
      }
      losses.push_back(label == options.ignore_index ? 0 : loss);
    }
    // The weight of each row.
    std::vector<double> weights(labels.size(), 1);
    if (options.reduction != Reduction::NONE) {
      std::vector<std::int64_t> offsets = {0, logits.rows()};
      if (options.reduction == Reduction::SEQUENCES) {
        const auto of = logits.lod_view().absolute_offsets(logits.levels() - 1);
        offsets.clear();
        for (const std::int64_t offset : of) offsets.push_back(offset - of[0]);
      }
      double sequences = 0;
      for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
        double count = 0;
        for (auto row = offsets[i]; row < offsets[i + 1]; ++row) {
          count += labels[static_cast<std::size_t>(row)] != options.ignore_index;
        }
        sequences += count > 0;
        for (auto row = offsets[i]; row < offsets[i + 1]; ++row) weights[static_cast<std::size_t>(row)] = 1 / count;
      }
      for (std::size_t row = 0; row < weights.size(); ++row) {
        weights[row] = losses[row] == 0 ? 0 : weights[row] / sequences;
        losses[row] *= weights[row];
      }
      losses = {std::accumulate(losses.begin(), losses.end(), 0.0)};
    }
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      const std::size_t row = i / static_cast<std::size_t>(classes);
      gradient[i] *= weights[row] * static_cast<double>(dy.data()[options.reduction == Reduction::NONE ? row : 0]);
    }
  }
};

template <class T>
void check_entropies(const LoDTensor<T>& found, const std::vector<double>& expected, double allowed) {
  REQUIRE(found.values().size() == expected.size());
  bool all = true;
  for (std::size_t k = 0; k < expected.size(); ++k) all = all && close(found.values()[k], expected[k], allowed);
  CHECK(all);
}

}  // namespace

TEST_CASE("cross_entropy: worked numbers; rows that do not count, and means over rows and over sequences") {
  // Probabilities of 1/4 and 3/4.
  const double three = std::log(3), quarter = std::log(4), most = std::log(4.0 / 3);
  const auto x = LoDTensor<double>::from_values(LoD::from_lengths({{1, 0, 3, 1}}), {2},
                                                {0, three, three, 0, 0, three, 0, three, 0, three});
  const auto labels = LoDTensor<std::int64_t>::from_values(LoD(), {1}, {0, 0, 1, -100, -100});
  for_each_executor([&](const auto& executor) {
    const auto y = lod::cross_entropy(executor, x, labels);
    CHECK(y.lod() == x.lod());
    CHECK(y.shape() == lod::Shape{5});
    check_entropies(y, {quarter, most, most, 0, 0}, 1e-15);
    const auto mean = lod::cross_entropy(executor, x, labels, {.reduction = Reduction::ROWS});
    CHECK(mean.shape() == lod::Shape{1});
    check_entropies(mean, {(quarter + 2 * most) / 3}, 1e-15);
    check_entropies(lod::cross_entropy(executor, x, labels, {.reduction = Reduction::SEQUENCES}),
                    {(quarter + most) / 2}, 1e-15);
    const auto smooth = lod::cross_entropy(executor, x, labels, {.label_smoothing = 0.5});
    check_entropies(smooth,
                    {0.75 * quarter + 0.25 * most, 0.25 * quarter + 0.75 * most, 0.25 * quarter + 0.75 * most, 0, 0},
                    1e-15);
    const auto dy = LoDTensor<double>::from_values(LoD(), {}, {12});
    const auto dx = lod::cross_entropy_grad(executor, dy, x, labels, {.reduction = Reduction::SEQUENCES});
    CHECK(dx.lod() == x.lod());
    check_entropies(dx, {-4.5, 4.5, -0.75, 0.75, 0.75, -0.75, 0, 0, 0, 0}, 1e-14);
    // Nothing counts; there is nothing.
    for (const Reduction reduction : {Reduction::ROWS, Reduction::SEQUENCES}) {
      CHECK(lod::cross_entropy(executor, x.between(3, 4), labels.between(4, 5), {.reduction = reduction}).data()[0] ==
            0);
      CHECK(lod::cross_entropy(executor, x.between(0, 0), labels.between(0, 0), {.reduction = reduction}).data()[0] ==
            0);
      check_entropies(
          lod::cross_entropy_grad(executor, dy, x.between(3, 4), labels.between(4, 5), {.reduction = reduction}),
          {0, 0}, 0);
    }
  });
}

TEST_CASE("cross_entropy and its gradient: as in double, for slices of every type and depth") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_batch<T>(3, {1, 5, 33}, [](Engine& engine, const LoDTensor<T>& some) {
      const auto whole = real_numbers<T>(engine, some.lod(), {some.row_size()});
      const auto x = whole.between(random_number(engine, 0, whole.size() > 0), whole.size());
      const auto labels = random_ids(engine, x.lod(), x.row_size());
      for (const Reduction reduction : {Reduction::NONE, Reduction::ROWS, Reduction::SEQUENCES}) {
        for (const double smoothing : {0.0, 0.25}) {
          // With one class nothing costs anything, and the weights above would see no row.
          if (x.row_size() == 1 && reduction != Reduction::NONE) continue;
          const lod::CrossEntropyOptions options{
              .ignore_index = 1, .label_smoothing = smoothing, .reduction = reduction};
          const auto dy = small_reals<T>(engine, {reduction == Reduction::NONE ? x.rows() : 1});
          const ExpectedEntropy expected(x, values_of(labels), options, dy);
          for_each_executor([&](const auto& executor) {
            check_entropies(lod::cross_entropy(executor, x, labels, options), expected.losses, 2 * tolerance<T>());
            check_entropies(lod::cross_entropy_grad(executor, dy, x, labels, options), expected.gradient,
                            2 * tolerance<T>());
          });
        }
      }
    });
  });
}

TEST_CASE("cross_entropy and its gradient: large logits, forbidden classes, NaN, in place") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), huge = std::numeric_limits<float>::max() / 4;
  const auto labels = LoDTensor<std::int64_t>::from_values(LoD(), {}, {0, 1, 0, 1, 0, 0});
  auto x = LoDTensor<float>::from_values(
      LoD(), {2}, std::vector<float>{1e6F, 1e6F, huge, -huge, -infinity, 3, -infinity, 3, nan, 0, infinity, 0});
  const auto dy = LoDTensor<float>::from_values(LoD(), {}, std::vector<float>(6, 1));
  for_each_executor([&](const auto& executor) {
    const auto y = lod::cross_entropy(executor, x, labels);
    CHECK(y.data()[0] == doctest::Approx(std::log(2)));
    CHECK(y.data()[1] == 2 * huge);
    CHECK(y.data()[2] == infinity);
    CHECK(y.data()[3] == 0);
    CHECK(std::isnan(y.data()[4]));
    CHECK(y.data()[5] == 0);
    auto in_place = LoDTensor<float>::copy_of(x.view());
    lod::cross_entropy_grad_into(executor, dy, in_place, labels, in_place);
    const auto dx = values_of(in_place);
    CHECK(std::vector<float>(dx.begin(), dx.begin() + 8) == std::vector<float>{-0.5, 0.5, 1, -1, -1, 1, 0, 0});
    CHECK(std::isnan(dx[8]));
  });
}

TEST_CASE_TEMPLATE("cross_entropy: means of losses near the greatest number, and of distances that add up to more", T,
                   float, double, lod::bfloat16) {
  const T h = static_cast<T>(static_cast<double>(std::numeric_limits<T>::max()) / 2), zero{};
  const double most = 2 * static_cast<double>(h);
  // Four rows, whose losses are the greatest number, twice, none, and that again.
  const auto x = LoDTensor<T>::from_values(LoD::from_lengths({{3, 1}}), {2}, {h, -h, h, -h, h, -h, h, -h});
  const auto labels = LoDTensor<std::int64_t>::from_values(LoD(), {}, {1, 1, 0, 1});
  // The distances of the classes from the greatest logit add up to 1.5 times the greatest number.
  const auto smooth = LoDTensor<T>::from_values(LoD::from_lengths({{1}}), {4}, {zero, -h, -h, -h});
  const auto first = LoDTensor<std::int64_t>::from_values(LoD(), {}, {0});
  for_each_executor([&](const auto& executor) {
    const auto mean = [&](lod::Reduction reduction, std::int64_t ignored) {
      const auto y = lod::cross_entropy(executor, x, labels, {.ignore_index = ignored, .reduction = reduction});
      return static_cast<double>(y.data()[0]) / most;
    };
    CHECK(mean(lod::Reduction::ROWS, -100) == doctest::Approx(0.75).epsilon(0.01));
    CHECK(mean(lod::Reduction::ROWS, 0) == doctest::Approx(1).epsilon(0.01));
    CHECK(mean(lod::Reduction::SEQUENCES, -100) == doctest::Approx(5. / 6).epsilon(0.01));
    const auto y = lod::cross_entropy(executor, smooth, first, {.label_smoothing = 0.5});
    CHECK(static_cast<double>(y.data()[0]) / most == doctest::Approx(0.1875).epsilon(0.01));
  });
}

TEST_CASE_TEMPLATE("cross_entropy: means of losses beyond the greatest number, and smoothed ones", T, float, double,
                   lod::bfloat16) {
  const T most = lod::Scalar(std::numeric_limits<T>::max()).to<T>(), zero{};
  // Losses of twice the greatest number and of 0; then of the greatest number.
  const LoD index = LoD::from_lengths({{2, 3}});
  const auto x = LoDTensor<T>::from_values(index, {2}, {most, -most, -most, most, zero, most, most, zero, zero, most});
  const auto labels = LoDTensor<std::int64_t>::from_values(LoD(), {}, {1, 1, 0, 1, 0});
  const auto wide = LoDTensor<T>::from_values(LoD::from_lengths({{1}}), {4}, {most, -most, zero, zero});
  const auto first = LoDTensor<std::int64_t>::from_values(LoD(), {}, {0});
  for_each_executor([&](const auto& executor) {
    const auto part = [&](const auto& y) { return static_cast<double>(y.data()[0]) / static_cast<double>(most); };
    const auto loss = lod::cross_entropy(executor, x, labels);
    CHECK(static_cast<double>(loss.data()[0]) == std::numeric_limits<double>::infinity());
    CHECK(loss.data()[1] == zero);
    CHECK(loss.data()[2] == most);
    CHECK(part(lod::cross_entropy(executor, x, labels, {.reduction = lod::Reduction::ROWS})) ==
          doctest::Approx(1).epsilon(0.01));
    CHECK(part(lod::cross_entropy(executor, x, labels, {.reduction = lod::Reduction::SEQUENCES})) ==
          doctest::Approx(1).epsilon(0.01));
    const auto smoothed = [&](double smoothing) {
      return part(lod::cross_entropy(executor, wide, first, {.label_smoothing = smoothing}));
    };
    CHECK(smoothed(0.5) == doctest::Approx(0.5).epsilon(0.01));
    CHECK(smoothed(1) == doctest::Approx(1).epsilon(0.01));
  });
}

TEST_CASE("cross_entropy: wrong arguments; infer_cross_entropy: what it gives and refuses") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {3}), plain({3, 3});
  LoDTensor<std::int64_t> labels({3});
  LoDTensor<float> y({1});
  y.values()[0] = 7;
  const auto refused = [&]<class Error>(std::type_identity<Error>, const auto& logits,
                                        const lod::CrossEntropyOptions& options, const char* text) {
    check_throws<Error>([&] { lod::cross_entropy_into(executor, logits, labels, options, y); }, text, y);
  };
  const std::type_identity<lod::OutOfRange> out_of_range;
  refused(std::type_identity<lod::InvalidLoD>(), plain, {.reduction = Reduction::SEQUENCES},
          "cross_entropy: logits: the tensor has no level");
  refused(std::type_identity<lod::ShapeMismatch>(), LoDTensor<float>({3, 0}), {},
          "cross_entropy: logits: rows without elements");
  refused(out_of_range, x, {.label_smoothing = 1.5}, "cross_entropy: label_smoothing 1.5");
  refused(out_of_range, x, {.reduction = static_cast<Reduction>(3)}, "cross_entropy: Reduction 3");
  labels.values()[1] = 3;
  refused(out_of_range, x, {}, "cross_entropy: label 3 at position 1, expected 0 to 2 or -100");
  check_throws<lod::ShapeMismatch>([&] { lod::cross_entropy_into(executor, x, LoDTensor<std::int64_t>({2}), y); },
                                   "cross_entropy: labels: 2 rows, expected 3", y);
  check_throws<lod::ShapeMismatch>([&] { lod::cross_entropy_grad_into(executor, y, x, labels, y); },
                                   "cross_entropy_grad: dy: 1 rows, expected 3", y);

  using lod::DataType;
  const auto logits = described(DataType::FP32, {-1, 4}, 2), of = described(DataType::INT64, {-1, 1}, 1);
  CHECK(lod::infer_cross_entropy(logits, of) == described(DataType::FP32, {-1}, 2));
  CHECK(lod::infer_cross_entropy(logits, of, {.reduction = Reduction::ROWS}) == described(DataType::FP32, {1}));
  CHECK_THROWS_AS(lod::infer_cross_entropy(logits, described(DataType::INT64, {-1, 2}, 1)), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_cross_entropy(described(DataType::FP32, {-1, 4}), of, {.reduction = Reduction::SEQUENCES}),
                  lod::InvalidLoD);
}

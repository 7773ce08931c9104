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
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Classes = std::vector<std::int64_t>;

namespace {

/// What a path of classes spells.
Classes labels_spelled(const Classes& path, std::int64_t blank) {
  Classes labels;
  for (std::size_t t = 0; t < path.size(); ++t) {
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  }
  return labels;
}

/// The loss of a sequence, and its gradient, by all paths: `logits` are those of its frames, row after row.
struct PathsOfFrames {
  double loss = 0;
  std::vector<double> gradient;

  PathsOfFrames(const std::vector<double>& logits, std::int64_t classes, const Classes& labels, std::int64_t blank)
      : gradient(logits.size()) {
    const auto width = static_cast<std::size_t>(classes);
    const std::size_t frames = logits.size() / width;
    std::vector<double> probabilities(logits.size());
    for (std::size_t t = 0; t < frames; ++t) {
      const double most = *std::max_element(&logits[t * width], &logits[t * width] + width);
      double sum = 0;
      for (std::size_t k = 0; k < width; ++k) sum += std::exp(logits[t * width + k] - most);
      for (std::size_t k = 0; k < width; ++k) {
        probabilities[t * width + k] = std::exp(logits[t * width + k] - most) / sum;
      }
    }
    double all = 0;
    Classes path(frames);
    for (;;) {
      if (labels_spelled(path, blank) == labels) {
        double probability = 1;
        for (std::size_t t = 0; t < frames; ++t) {
          probability *= probabilities[t * width + static_cast<std::size_t>(path[t])];
        }
        all += probability;
        for (std::size_t t = 0; t < frames; ++t) gradient[t * width + static_cast<std::size_t>(path[t])] -= probability;
      }
      std::size_t t = 0;
      while (t < frames && ++path[t] == classes) path[t++] = 0;
      if (t == frames) break;
    }
    loss = -std::log(all);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = all == 0 ? 0 : gradient[i] / all + probabilities[i];
    }
  }
};

/// The numbers of sequence i of the last level.
template <class X>
auto numbers_of_sequence(const X& x, std::int64_t i) {
  const auto offsets = x.lod_view().absolute_offsets(x.levels() - 1);
  const auto at = static_cast<std::size_t>(i);
  const auto first = x.data() + (offsets[at] - offsets[0]) * x.row_size();
  return std::vector<std::remove_const_t<typename X::value_type>>(
      first, first + (offsets[at + 1] - offsets[at]) * x.row_size());
}

template <class T>
void check_losses(const LoDTensor<T>& found, const std::vector<double>& expected, double allowed) {
  REQUIRE(found.values().size() == expected.size());
  bool all = true;
  for (std::size_t k = 0; k < expected.size(); ++k) {
    all = all && (std::isinf(expected[k]) ? static_cast<double>(found.values()[k]) == expected[k]
                                          : close(found.values()[k], expected[k], allowed));
  }
  CHECK(all);
}

}  // namespace

TEST_CASE("ctc_loss and its gradient: worked numbers, sequences without labels and without frames") {
  // Three classes, all as probable as each other, and the blank 0.
  const LoD index = LoD::from_lengths({{2, 4}, {2, 1, 2, 0, 0, 2}});
  const LoDTensor<double> logits(index, {3});
  const auto labels =
      LoDTensor<std::int64_t>::from_values(LoD::from_lengths({{1, 0, 2, 0, 1, 2}}), {}, {2, 1, 1, 2, 1, 2});
  // 22, 02, 20; a blank; 1?1 needs three frames; none of no frames; 12.
  const std::vector<double> expected = {std::log(3), std::log(3), infinity, 0, infinity, std::log(9)};
  for_each_executor([&](const auto& executor) {
    const auto y = lod::ctc_loss(executor, logits, labels);
    CHECK(y.lod() == LoD::from_lengths({{2, 4}}));
    CHECK(y.shape() == lod::Shape{6});
    check_losses(y, expected, 1e-14);
    check_losses(lod::ctc_loss(executor, logits, labels, {.zero_infinity = true}),
                 {std::log(3), std::log(3), 0, 0, 0, std::log(9)}, 1e-14);
    const auto dy = LoDTensor<double>::from_values(LoD(), {}, {3, 3, 3, 3, 3, 30});
    const auto dx = lod::ctc_loss_grad(executor, dy, logits, labels);
    CHECK(dx.lod() == index);
    check_losses(dx, {0, 1, -1, 0, 1, -1, -2, 1, 1, 0, 0, 0, 0, 0, 0, 10, -20, 10, 10, 10, -20}, 1e-14);
    // Another blank, which nothing spells; labels of a slice.
    CHECK(lod::ctc_loss(executor, logits, labels, {.blank = 2}).data()[0] == infinity);
    CHECK(lod::ctc_loss(executor, logits[1].between(3, 4), labels.between(5, 6)).data()[0] ==
          doctest::Approx(std::log(9)));
    CHECK(lod::ctc_loss(executor, logits.between(0, 0), labels.between(0, 0)).rows() == 0);
  });
}

TEST_CASE("ctc_loss and its gradient: agree with all paths, for slices of every type and depth") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(4, 1, 3, [](Engine& engine, const Lengths& lengths) {
      Lengths short_ones = lengths;
      for (std::int64_t& length : short_ones.back()) length %= 6;
      for (const std::int64_t classes : {1, 2, 3, 4}) {
        CAPTURE(classes);
        const auto whole = real_numbers<T>(engine, LoD::from_lengths(short_ones), {classes});
        const auto x = whole.between(random_number(engine, 0, whole.size() > 0), whole.size());
        const std::int64_t blank = random_number(engine, 0, classes - 1), sequences = x.lod().size(-1);
        std::vector<std::int64_t> counts;
        for (std::int64_t i = 0; i < sequences; ++i) counts.push_back(random_number(engine, 0, 3));
        const auto labels = random_ids(engine, LoD::from_lengths({counts}), classes);
        const auto dy = small_reals<T>(engine, {sequences});
        std::vector<double> losses, gradient;
        for (std::int64_t i = 0; i < sequences; ++i) {
          const auto rows = numbers_of_sequence(x, i);
          const PathsOfFrames all({rows.begin(), rows.end()}, classes, numbers_of_sequence(labels, i), blank);
          losses.push_back(all.loss);
          for (const double number : all.gradient) gradient.push_back(number * static_cast<double>(dy.data()[i]));
        }
        for_each_executor([&](const auto& executor) {
          const auto y = lod::ctc_loss(executor, x, labels, {.blank = blank});
          CHECK(y.lod() == x.lod().levels_above(x.levels() - 1));
          check_losses(y, losses, 2 * tolerance<T>());
          const auto dx = lod::ctc_loss_grad(executor, dy, x, labels, {.blank = blank});
          CHECK(dx.lod() == x.lod());
          check_losses(dx, gradient, 2 * tolerance<T>());
        });
      }
    });
  });
}

TEST_CASE("ctc_loss and its gradient: long sequences and large logits, as in double; a second call allocates nothing") {
  Engine engine(first_seed());
  for (const std::int64_t classes : {2, 7, 40}) {
    for (const double scale : {0.1, 3.0, 300.0}) {
      CAPTURE(classes);
      CAPTURE(scale);
      const std::int64_t frames = slow ? 90 : 300;
      auto x = real_numbers<double>(engine, LoD::from_lengths({{9, 0, 1, frames, 70}}), {classes});
      for (double& number : x.values()) number = static_cast<double>(static_cast<float>(number * scale));
      const auto labels = random_ids(engine, LoD::from_lengths({{4, 0, 1, frames / 3, 33}}), classes);
      const auto dy = small_reals<double>(engine, {5});
      const auto y = lod::ctc_loss(lod::CpuExecutor(1), x, labels);
      const auto dx = lod::ctc_loss_grad(lod::CpuExecutor(1), dy, x, labels);
      // A frame's gradient adds up to 0, however far it is from both ends.
      for (std::int64_t row = 0; row < dx.rows(); ++row) {
        double sum = 0;
        for (const double number : dx.row(row)) sum += number;
        if (!(std::abs(sum) <= 1e-12)) FAIL_CHECK("row " << row << " has the sum " << sum);
      }
      for_each_executor([&](const auto& executor) {
        check_losses(lod::ctc_loss(executor, x, labels), values_of(y), 1e-12);
        check_losses(lod::ctc_loss_grad(executor, dy, x, labels), values_of(dx), 1e-10);
        check_losses(lod::ctc_loss(executor, as<float>(x), labels), values_of(y), 4e-6);
        check_losses(lod::ctc_loss_grad(executor, as<float>(dy), as<float>(x), labels), values_of(dx),
                     2e-5 * std::max(1.0, scale));
      });
    }
  }
}

TEST_CASE_TEMPLATE("ctc_loss and its gradient: what the logits of a frame differ by is all that counts", T, float,
                   double, lod::float16, lod::bfloat16) {
  Engine engine(first_seed());
  const auto labels = random_ids(engine, LoD::from_lengths({{2, 1, 0, 3}}), 4);
  const auto dy = LoDTensor<double>::from_values(LoD(), {}, {1, -2, 0.5, 1});
  const auto epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  const auto most = static_cast<double>(std::numeric_limits<T>::max());
  const double allowed = std::max(4 * epsilon, 1e-12);
  for (const double far : {1.0, -1e3, 1e4, 1e7, -1e9, 1e20, -1e30, 1e37, 1e300, most, -most}) {
    if (std::abs(far) > most) continue;
    CAPTURE(far);
    LoDTensor<T> x(LoD::from_lengths({{5, 1, 0, 8}}), {5});
    LoDTensor<double> differences(x.lod(), {5});
    for (std::int64_t row = 0; row < x.rows(); ++row) {
      // Equal numbers, and some that are a few of the steps between numbers of this size nearer to 0: the last class,
      // which no label is, since probabilities beside those of paths so much worse cannot be told.
      double greatest = -infinity;
      for (std::size_t k = 0; k < 5; ++k) {
        const bool steps = (k == 4 || std::abs(far) * epsilon < 0.5) && engine() % 4 == 0;
        x.row(row)[k] = static_cast<T>(steps ? far * (1 - 2 * epsilon) : far);
        greatest = std::max(greatest, static_cast<double>(x.row(row)[k]));
      }
      for (std::size_t k = 0; k < 5; ++k) differences.row(row)[k] = static_cast<double>(x.row(row)[k]) - greatest;
    }
    const auto y = lod::ctc_loss(lod::CpuExecutor(1), differences, labels);
    const auto dx = lod::ctc_loss_grad(lod::CpuExecutor(1), dy, differences, labels);
    for_each_executor([&](const auto& executor) {
      check_losses(lod::ctc_loss(executor, x, labels), values_of(y), allowed);
      check_losses(lod::ctc_loss_grad(executor, as<T>(dy), x, labels), values_of(dx), allowed);
    });
  }
}

TEST_CASE("ctc_loss and its gradient: forbidden classes, numbers at the ends of their range, NaN") {
  const LoD pair = LoD::from_lengths({{3, 2}});
  const auto labels = LoDTensor<std::int64_t>::from_values(LoD::from_lengths({{1, 1}}), {}, {1, 1});
  for_each_executor([&](const auto& executor) {
    for_each_type(Types<float, double>(), [&]<class T>(std::type_identity<T>) {
      const T inf = std::numeric_limits<T>::infinity(), huge = std::numeric_limits<T>::max() / 4;
      const LoDTensor<T> dy = LoDTensor<T>::from_values(LoD(), {}, std::vector<T>{1, 1});
      const auto numbers = [&](const std::vector<T>& some) { return LoDTensor<T>::from_values(pair, {2}, some); };
      // The label has one place; nothing but it is possible; no class is.
      auto x = numbers({0, -inf, 0, 0, 0, -inf, -inf, 5, -inf, 7});
      check_losses(lod::ctc_loss(executor, x, labels), {std::log(2), 0}, 1e-6);
      check_losses(lod::ctc_loss_grad(executor, dy, x, labels), {0, 0, 0.5, -0.5, 0, 0, 0, 0, 0, 0}, 1e-6);
      x = numbers({0, 0, -inf, -inf, 0, 0, 0, -inf, 0, -inf});
      check_losses(lod::ctc_loss(executor, x, labels), {infinity, infinity}, 0);
      check_losses(lod::ctc_loss_grad(executor, dy, x, labels), std::vector<double>(10), 0);
      x = numbers({huge, -huge, -huge, huge, -huge, -huge, inf, huge, huge, inf});
      check_losses(lod::ctc_loss(executor, x, labels), {0, 0}, 1e-6);
      x = numbers({0, 0, std::numeric_limits<T>::quiet_NaN(), 0, 0, 0, 0, 0, 0, 0});
      CHECK(std::isnan(lod::ctc_loss(executor, x, labels).data()[0]));
      CHECK(lod::ctc_loss(executor, x, labels).data()[1] == doctest::Approx(std::log(4.0 / 3)));
      const auto dx = lod::ctc_loss_grad(executor, dy, x, labels);
      CHECK(std::isnan(dx.data()[0]));
      CHECK(!std::isnan(dx.data()[6]));
    });
  });
}

TEST_CASE_TEMPLATE("ctc_loss: numbers near the greatest, of which none makes labels impossible", T, float, double,
                   lod::bfloat16) {
  const T most = lod::Scalar(std::numeric_limits<T>::max()).to<T>(),
          third = static_cast<T>(static_cast<double>(most) / 3);
  const T inf = static_cast<T>(std::numeric_limits<float>::infinity()), zero{}, middle = static_cast<T>(0.5F);
  const T three = static_cast<T>(3.F);
  const double infinite = std::numeric_limits<double>::infinity();
  // A loss of 4/3 of the greatest number; one that small logits decide; one without a path, for want of frames.
  const auto x = LoDTensor<T>::from_values(
      LoD::from_lengths({{1, 2, 1, 1}}), {3},
      {third, -most, third, middle, three, zero, third, middle, -third, zero, zero, zero, zero, -inf, zero});
  const auto labels = LoDTensor<std::int64_t>::from_values(LoD::from_lengths({{1, 1, 2, 1}}), {}, {1, 2, 1, 2, 1});
  for_each_executor([&](const auto& executor) {
    for (const bool zero_infinity : {false, true}) {
      const auto y = lod::ctc_loss(executor, x, labels, {.zero_infinity = zero_infinity});
      const double impossible = zero_infinity ? 0 : infinite;
      CHECK(static_cast<double>(y.data()[0]) == infinite);
      CHECK(static_cast<double>(y.data()[1]) ==
            doctest::Approx(std::log(std::exp(0.5) + std::exp(3) + 1)).epsilon(0.01));
      CHECK(static_cast<double>(y.data()[2]) == impossible);
      CHECK(static_cast<double>(y.data()[3]) == impossible);
    }
    const auto dy = as<T>(LoDTensor<double>::from_values(LoD(), {}, {1, 2, 1, 1}));
    const double all = std::exp(0.5) + std::exp(3) + 1;
    check_losses(lod::ctc_loss_grad(executor, dy, x, labels),
                 {0.5, -1, 0.5, 2 * std::exp(0.5) / all, 2 * std::exp(3) / all, 2 / all - 2, 0, 0, 0, 0, 0, 0, 0, 0, 0},
                 tolerance<T>());
  });
}

TEST_CASE("ctc_loss and its gradient: wrong arguments") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {3}), plain({3, 3}), dy({2});
  const LoDTensor<std::int64_t> labels(LoD::from_lengths({{1, 1}}), {}), one(LoD::from_lengths({{2}}), {}), none({2}),
      wide(labels.lod(), {2});
  LoDTensor<float> y({2});
  y.values()[0] = 7;
  const auto refused = [&]<class Error>(std::type_identity<Error>, const auto& logits, const auto& spelled_ones,
                                        const lod::CtcLossOptions& options, const char* text) {
    check_throws<Error>([&] { lod::ctc_loss_into(executor, logits, spelled_ones, options, y); },
                        ("ctc_loss: " + std::string(text)).c_str(), y);
    check_throws<Error>([&] { lod::ctc_loss_grad_into(executor, dy, logits, spelled_ones, options, y); },
                        ("ctc_loss_grad: " + std::string(text)).c_str(), y);
  };
  const std::type_identity<lod::InvalidLoD> lod_error;
  const std::type_identity<lod::ShapeMismatch> shape_error;
  const std::type_identity<lod::OutOfRange> range_error;
  refused(lod_error, plain, labels, {}, "logits: the tensor has no level");
  refused(lod_error, x, none, {}, "labels: the tensor has no level");
  refused(shape_error, x, one, {}, "labels: 1 sequences, expected 2 as the logits");
  refused(shape_error, x, wide, {}, "labels: rows of shape {2}, expected one label a row");
  refused(range_error, x, labels, {.blank = 3}, "blank 3, expected one of 3 classes");
  refused(range_error, x, labels, {.blank = -1}, "blank -1, expected one of 3 classes");
  auto wrong = labels;
  wrong.values()[1] = 3;
  check_throws<lod::OutOfRange>([&] { lod::ctc_loss_into(executor, x, wrong, y); }, "ctc_loss: ", y);
  check_throws<lod::ShapeMismatch>([&] { lod::ctc_loss_grad_into(executor, LoDTensor<float>({3}), x, labels, y); },
                                   "ctc_loss_grad: dy: 3 rows, expected 2", y);
}

TEST_CASE("infer_ctc_loss: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {2}, [](Engine& engine, const LoDTensor<float>& x) {
    const auto labels = random_ids(engine, x.lod(), 2);
    check_inference(
        lod::ctc_loss(x, labels), [](const auto& logits, const auto& of) { return lod::infer_ctc_loss(logits, of); },
        describe(x), describe(labels));
  });
  using lod::DataType;
  const auto logits = described(DataType::FP32, {15, 4}, 2), labels = described(DataType::INT64, {-1, 1}, 1);
  CHECK(lod::infer_ctc_loss(logits, labels) == described(DataType::FP32, {-1}, 1));
  CHECK_THROWS_AS(lod::infer_ctc_loss(described(DataType::FP32, {15, 4}), labels), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_ctc_loss(logits, described(DataType::INT64, {-1, 1})), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_ctc_loss(logits, described(DataType::INT16, {-1, 1}, 1)), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_ctc_loss(logits, labels, {.blank = 4}), lod::OutOfRange);
}

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
using Path = std::vector<std::int64_t>;

namespace {

/// The score of a path: `emission` has the rows of a sequence.
template <class T>
double score_of_path(const LoDTensor<T>& emission, const LoDTensor<T>& transition, const Path& path) {
  const auto number = [](const LoDTensor<T>& x, std::int64_t row, std::int64_t column) {
    return static_cast<double>(x.row(row)[static_cast<std::size_t>(column)]);
  };
  double score = 0;
  for (std::size_t t = 0; t < path.size(); ++t) {
    score += number(emission, static_cast<std::int64_t>(t), path[t]);
    score += t == 0 ? number(transition, 0, path[t]) : number(transition, path[t - 1] + 2, path[t]);
  }
  return path.empty() ? 0 : score + number(transition, 1, path.back());
}

/// Calls body(path) for every path of so many rows; the last tag goes round slowest.
template <class Body>
void for_each_path(std::int64_t rows, std::int64_t tags, const Body& body) {
  Path path(static_cast<std::size_t>(rows));
  for (;;) {
    body(path);
    std::size_t t = 0;
    while (t < path.size() && ++path[t] == tags) path[t++] = 0;
    if (t == path.size()) return;
  }
}

/// Of the best paths the one whose last tag is smallest, then the one before it, and so on.
template <class T>
Path best_of_all_paths(const LoDTensor<T>& emission, const LoDTensor<T>& transition) {
  Path best;
  double most = -std::numeric_limits<double>::infinity();
  for_each_path(emission.rows(), emission.row_size(), [&](const Path& path) {
    const double score = score_of_path(emission, transition, path);
    if (score > most || best.size() != path.size()) {
      most = score;
      best = path;
    }
  });
  return best;
}

/// The rows of sequence i of the last level.
template <lod::LoDTensorLike X>
auto rows_of_sequence(const X& x, std::int64_t i) {
  const auto view = x.view();
  const auto offsets = view.lod_view().absolute_offsets(view.levels() - 1);
  const std::int64_t begin = offsets[static_cast<std::size_t>(i)] - offsets[0];
  LoDTensor<typename X::value_type> rows(
      {offsets[static_cast<std::size_t>(i + 1)] - offsets[0] - begin, view.row_size()});
  for (std::int64_t row = 0; row < rows.rows(); ++row) std::ranges::copy(view.row(begin + row), rows.row(row).begin());
  return rows;
}
template <class T>
Path path_of(const LoDTensor<T>& y, std::int64_t i) {
  return values_of(rows_of_sequence(y, i));
}

/// The best path in double, by a table.
template <class T>
Path best_path_by_table(const LoDTensor<T>& emission, const LoDTensor<T>& transition) {
  const std::int64_t tags = emission.row_size();
  const auto weight = [&](std::int64_t row, std::int64_t j) {
    return static_cast<double>(transition.row(row)[static_cast<std::size_t>(j)]);
  };
  std::vector<std::vector<double>> scores;
  std::vector<Path> before;
  for (std::int64_t t = 0; t < emission.rows(); ++t) {
    scores.emplace_back();
    before.emplace_back();
    for (std::int64_t j = 0; j < tags; ++j) {
      std::int64_t from = 0;
      double most = t == 0 ? weight(0, j) : scores[static_cast<std::size_t>(t - 1)][0] + weight(2, j);
      for (std::int64_t i = 1; t > 0 && i < tags; ++i) {
        const double score = scores[static_cast<std::size_t>(t - 1)][static_cast<std::size_t>(i)] + weight(i + 2, j);
        if (score > most) {
          most = score;
          from = i;
        }
      }
      scores.back().push_back(most + static_cast<double>(emission.row(t)[static_cast<std::size_t>(j)]));
      before.back().push_back(from);
    }
  }
  Path path;
  if (scores.empty()) return path;
  std::vector<double> last = scores.back();
  for (std::size_t j = 0; j < last.size(); ++j) last[j] += weight(1, static_cast<std::int64_t>(j));
  path.push_back(std::max_element(last.begin(), last.end()) - last.begin());
  for (std::size_t t = before.size() - 1; t > 0; --t) {
    path.push_back(before[t][static_cast<std::size_t>(path.back())]);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

/// Three tags; the third follows the second only.
LoDTensor<float> small_transition() {
  return LoDTensor<float>::from_values(LoD(), {3},
                                       std::vector<float>{0, 0, -infinity,  // start
                                                          0, 1, 0,          // stop
                                                          1, 0, -infinity,  // from 0
                                                          0, 1, 2,          // from 1
                                                          0, 0, 1});        // from 2
}

}  // namespace

TEST_CASE("crf_decoding: worked numbers, an empty sequence, and levels") {
  const auto transition = small_transition();
  const auto x = LoDTensor<float>::from_values(LoD::from_lengths({{1, 2}, {3, 0, 1}}), {3},
                                               std::vector<float>{1, 0, 9,  // 2 must not be the first
                                                                  0, 0, 3,  // 0 1 2: 0 + 3 after 1
                                                                  0, 2, 0,  //
                                                                  2, 0.5, 0});
  for_each_executor([&](const auto& executor) {
    const auto y = lod::crf_decoding(executor, x, transition);
    CHECK(y.lod() == x.lod());
    CHECK(y.shape() == lod::Shape{4});
    // 1 2 1 scores 0 + (2 + 3) + (0 + 2) + 1; a path from 0 cannot reach 2 in one step.
    CHECK(values_of(y) == Path{1, 2, 1, 0});
    CHECK(values_of(lod::crf_decoding(executor, x[1], transition)) == Path{0});
    CHECK(lod::crf_decoding(executor, x.between(0, 0), transition).rows() == 0);
  });
}

TEST_CASE("crf_decoding: the best of all paths, of equals the one that ends with the smallest tags") {
  Engine engine(first_seed());
  for (const std::int64_t tags : {1, 2, 3, 5}) {
    CAPTURE(tags);
    // Small integers: many paths have the same score.
    const auto x = small_integers<float>(engine, LoD::from_lengths({{4, 0, 5, 1, 2, 3}}), {tags});
    const auto transition = small_integers<float>(engine, {tags + 2, tags});
    std::vector<Path> expected;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      expected.push_back(best_of_all_paths(rows_of_sequence(x, i), transition));
    }
    for_each_executor([&](const auto& executor) {
      const auto y = lod::crf_decoding(executor, x, transition);
      for (std::int64_t i = 0; i < x.size(); ++i) CHECK(path_of(y, i) == expected[static_cast<std::size_t>(i)]);
    });
  }
}

TEST_CASE("crf_decoding: agrees with a table for slices of every type and depth, and for any number of tags") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(5, 1, 3, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t tags : {2, 7, 16, 33, 57, 130}) {
        // Where all is slow, one type has many tags.
        if (slow && tags > 33 && !std::is_same_v<T, float>) continue;
        CAPTURE(tags);
        const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {tags});
        const auto transition = small_integers<T>(engine, {tags + 2, tags});
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        const int last = slice.levels() - 1;
        std::vector<Path> expected;
        for (std::int64_t i = 0; i < slice.size(last); ++i) {
          expected.push_back(best_path_by_table(rows_of_sequence(slice, i), transition));
        }
        for_each_executor([&](const auto& executor) {
          const auto y = lod::crf_decoding(executor, slice, transition);
          CHECK(y.lod() == slice.lod());
          bool all = true;
          for (std::int64_t i = 0; i < slice.size(last); ++i) {
            all = all && path_of(y, i) == expected[static_cast<std::size_t>(i)];
          }
          CHECK(all);
        });
      }
    });
  });
}

TEST_CASE(
    "crf_decoding: all executors give the same path of real numbers, of a giant too, and a second call allocates "
    "nothing") {
  Engine engine(first_seed());
  const auto x = real_numbers<float>(engine, giant_among_short(engine, 40, 3000), {13});
  const auto transition = real_numbers<float>(engine, {15, 13});
  const Path expected = values_of(lod::crf_decoding(lod::CpuExecutor(1), x, transition));
  // No other path of the giant is better: steps are as exact at its end as at its start.
  const auto giant = rows_of_sequence(x, 20);
  const Path best = best_path_by_table(as<double>(giant), as<double>(transition));
  const auto y = lod::crf_decoding(lod::CpuExecutor(1), x, transition);
  CHECK(score_of_path(giant, transition, path_of(y, 20)) ==
        doctest::Approx(score_of_path(giant, transition, best)).epsilon(1e-9));
  for_each_executor(
      [&](const auto& executor) { CHECK(values_of(lod::crf_decoding(executor, x, transition)) == expected); });
}

TEST_CASE("crf_decoding: forbidden tags, numbers at the ends of their range, NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), huge = std::numeric_limits<float>::max();
  const LoD pair = LoD::from_lengths({{3, 2}});
  const auto path = [&](const auto& executor, const std::vector<float>& numbers, const LoDTensor<float>& transition) {
    return values_of(lod::crf_decoding(executor, LoDTensor<float>::from_values(pair, {2}, numbers), transition));
  };
  for_each_executor([&](const auto& executor) {
    const LoDTensor<float> zeros({4, 2});
    CHECK(path(executor, {0, 1, 1, 0, 0, 1, 1, 0, 0, 1}, zeros) == Path{1, 0, 1, 0, 1});
    CHECK(path(executor, {-infinity, -9, 1, -infinity, 0, 1, 1, 0, 0, -infinity}, zeros) == Path{1, 0, 1, 0, 0});
    CHECK(path(executor, {0, infinity, infinity, -infinity, huge, infinity, -huge, -infinity, -huge, huge}, zeros) ==
          Path{1, 0, 0, 0, 1});
    // Between different tags there is no way.
    const auto same =
        LoDTensor<float>::from_values(LoD(), {2}, std::vector<float>{0, 0, 0, 0, 0, -infinity, -infinity, 0});
    CHECK(path(executor, {0, 1, 5, 0, 0, 1, huge, 0, 0, huge}, same) == Path{0, 0, 0, 0, 0});
    CHECK(path(executor, {-infinity, 0, infinity, 0, 0, 1, 1, -infinity, -infinity, 1}, same)[0] == 1);
    const auto from_nan_on = path(executor, {0, 1, 0, nan, 0, 1, 0, 1, 0, 1}, zeros);
    CHECK(from_nan_on == Path{1, 0, 0, 1, 1});
    for (const std::int64_t row : {1, 2, 3}) {
      LoDTensor<float> transition = small_transition();
      transition.row(row)[1] = nan;
      const auto x =
          LoDTensor<float>::from_values(LoD::from_lengths({{3}}), {3}, std::vector<float>{0, 1, 0, 0, 1, 0, 0, 1, 0});
      CHECK(values_of(lod::crf_decoding(executor, x, transition)).back() == 0);
    }
  });
}

TEST_CASE("crf_decoding: wrong arguments") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {3}), plain({3, 3}), transition({5, 3});
  LoDTensor<std::int64_t> y({2});
  y.values()[0] = 7;
  check_throws<lod::InvalidLoD>([&] { lod::crf_decoding_into(executor, plain, transition, y); },
                                "crf_decoding: emission: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>([&] { lod::crf_decoding_into(executor, x, plain, y); },
                                   "crf_decoding: transition: shape {3, 3}, expected {3 + 2, 3}", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::crf_decoding_into(executor, LoDTensor<float>(x.lod(), {0}), LoDTensor<float>({2, 0}), y);
      },
      "crf_decoding: emission: rows of shape {0}, expected a number for each tag", y);
  check_throws<lod::ShapeMismatch>([&] { lod::crf_decoding_into(executor, x, transition, y.view()); },
                                   ": a view of shape {2} with 0 levels", y);
}

TEST_CASE("infer_crf_decoding: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const LoDTensor<float>& x) {
    const LoDTensor<float> transition({4, 2});
    check_inference(
        lod::crf_decoding(x, transition),
        [](const auto& emission, const auto& weights) { return lod::infer_crf_decoding(emission, weights); },
        describe(x), describe(transition));
  });
  using lod::DataType;
  CHECK(lod::infer_crf_decoding(described(DataType::BF16, {15, -1}, 2), described(DataType::BF16, {9, 7})) ==
        described(DataType::INT64, {15}, 2));
  const auto transition = described(DataType::FP32, {6, 4});
  CHECK_THROWS_AS(lod::infer_crf_decoding(described(DataType::FP32, {15, 4}), transition), lod::InvalidLoD);
  CHECK_THROWS_WITH_AS(lod::infer_crf_decoding(described(DataType::FP32, {15, 3}, 1), transition),
                       doctest::Contains("crf_decoding: transition: shape {6, 4}"), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_crf_decoding(described(DataType::FP32, {15, -1}, 1), described(DataType::FP32, {7, 4})),
                  lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_crf_decoding(described(DataType::FP64, {15, 4}, 1), transition), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_crf_decoding(described(DataType::INT64, {15, 4}, 1), transition), lod::ShapeMismatch);
}

namespace {

/// log(sum(e^score)) over all paths, and the expected gradients: of the scores of all paths minus that of the labels.
struct AllPaths {
  double log_sum = 0;
  std::vector<double> emission, transition;

  AllPaths(const LoDTensor<double>& x, const LoDTensor<double>& weights, const Path& labels)
      : emission(x.values().size()), transition(weights.values().size()) {
    const std::int64_t tags = x.row_size();
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for_each_path(x.rows(), tags, [&](const Path& path) { most = std::max(most, score_of_path(x, weights, path)); });
    const auto add = [&](const Path& path, double share) {
      for (std::size_t t = 0; t < path.size(); ++t) {
        emission[t * static_cast<std::size_t>(tags) + static_cast<std::size_t>(path[t])] += share;
        const std::int64_t row = t == 0 ? 0 : path[t - 1] + 2;
        transition[static_cast<std::size_t>(row * tags + path[t])] += share;
      }
      if (!path.empty()) transition[static_cast<std::size_t>(tags + path.back())] += share;
    };
    for_each_path(x.rows(), tags, [&](const Path& path) { sum += std::exp(score_of_path(x, weights, path) - most); });
    log_sum = most + std::log(sum);
    for_each_path(x.rows(), tags,
                  [&](const Path& path) { add(path, -std::exp(score_of_path(x, weights, path) - log_sum)); });
    add(labels, 1);
  }
};

/// What linear_chain_crf and its gradient give for each sequence, by all paths in double.
template <class T>
struct ExpectedOfBatch {
  std::vector<double> likelihood, demission, dtransition;

  ExpectedOfBatch(const LoDTensor<T>& dy, const LoDTensor<T>& x, const LoDTensor<T>& transition,
                  const LoDTensor<std::int64_t>& labels)
      : dtransition(transition.values().size()) {
    const auto weights = as<double>(transition);
    for (std::int64_t i = 0; i < dy.rows(); ++i) {
      const auto rows = as<double>(rows_of_sequence(x, i));
      const Path path = path_of(labels, i);
      const AllPaths all(rows, weights, path);
      const auto factor = static_cast<double>(dy.data()[i]);
      likelihood.push_back(score_of_path(rows, weights, path) - all.log_sum);
      for (const double number : all.emission) demission.push_back(number * factor);
      for (std::size_t k = 0; k < dtransition.size(); ++k) dtransition[k] += all.transition[k] * factor;
    }
  }
};

template <class T>
void check_close(const LoDTensor<T>& found, const std::vector<double>& expected, double allowed) {
  REQUIRE(found.values().size() == expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    if (close(found.values()[k], expected[k], allowed)) continue;
    FAIL_CHECK("number " << k << " is " << found.values()[k] << ", expected " << expected[k]);
    return;
  }
}

/// Whether all numbers are finite.
template <class T>
bool all_finite(const LoDTensor<T>& x) {
  return std::ranges::all_of(x.values(), [](T number) { return std::isfinite(static_cast<double>(number)); });
}

}  // namespace

TEST_CASE("linear_chain_crf: worked numbers") {
  // Two tags, all paths as good as each other: the logarithm of one of 2, of 4 paths; of the only path of no rows.
  const LoD index = LoD::from_lengths({{2, 1}, {1, 0, 2}});
  const LoDTensor<double> zeros(index, {2}), transition({4, 2});
  const auto labels = LoDTensor<std::int64_t>::from_values(index, {}, {0, 1, 1});
  for_each_executor([&](const auto& executor) {
    const auto y = lod::linear_chain_crf(executor, zeros, transition, labels);
    CHECK(y.lod() == LoD::from_lengths({{2, 1}}));
    CHECK(y.shape() == lod::Shape{3});
    CHECK(y.data()[0] == doctest::Approx(-std::log(2)));
    CHECK(y.data()[1] == 0);
    CHECK(y.data()[2] == doctest::Approx(-std::log(4)));
    // Each tag is half of what is to be expected, each transition a quarter.
    const LoDTensor<double> dy = LoDTensor<double>::from_values(LoD(), {}, {1, 1, 10});
    const auto d = lod::linear_chain_crf_grad(executor, dy, zeros, transition, labels);
    CHECK(d.demission.lod() == index);
    CHECK(d.demission.shape() == zeros.shape());
    CHECK(d.dtransition.levels() == 0);
    CHECK(d.dtransition.shape() == transition.shape());
    check_close(d.demission, {0.5, -0.5, -5, 5, -5, 5}, 1e-14);
    check_close(d.dtransition, {0.5 - 5, -0.5 + 5, 0.5 - 5, -0.5 + 5, -2.5, -2.5, -2.5, 7.5}, 1e-14);
  });
  // Emissions of log 1, log 3; a start of log 2, log 1: the first tag has 2 of 5.
  const auto x = LoDTensor<double>::from_values(LoD::from_lengths({{1}}), {2}, {0, std::log(3)});
  const auto start = LoDTensor<double>::from_values(LoD(), {2}, {std::log(2), 0, 0, 0, 0, 0, 0, 0});
  CHECK(lod::linear_chain_crf(x, start, LoDTensor<std::int64_t>({1})).data()[0] == doctest::Approx(std::log(2.0 / 5)));
}

TEST_CASE("linear_chain_crf and its gradient: agree with all paths, for slices of every type and depth") {
  for_each_type(FloatingTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(3, 1, 3, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t tags : {1, 2, 3, 5}) {
        CAPTURE(tags);
        const auto whole = real_numbers<T>(engine, LoD::from_lengths(lengths), {tags});
        const auto x = LoDTensor<T>::copy_of(whole.between(random_number(engine, 0, whole.size() > 0), whole.size()));
        const auto transition = real_numbers<T>(engine, {tags + 2, tags});
        const auto labels = random_ids(engine, x.lod(), tags);
        const auto dy = small_reals<T>(engine, {x.lod().size(-1)});
        const ExpectedOfBatch<T> expected(dy, x, transition, labels);
        for_each_executor([&](const auto& executor) {
          const std::int64_t from = whole.size() - x.size();
          const auto slice = whole.between(from, whole.size());
          const auto y = lod::linear_chain_crf(executor, slice, transition, labels);
          CHECK(y.lod() == x.lod().levels_above(x.levels() - 1));
          check_close(y, expected.likelihood, tolerance<T>());
          const auto d = lod::linear_chain_crf_grad(executor, dy, slice, transition, labels);
          CHECK(d.demission.lod() == x.lod());
          check_close(d.demission, expected.demission, tolerance<T>());
          check_close(d.dtransition, expected.dtransition, 4 * tolerance<T>());
        });
      }
    });
  });
}

TEST_CASE("linear_chain_crf and its gradient: any number of tags, and numbers of any size, as in double") {
  Engine engine(first_seed());
  for (const std::int64_t tags : {2, 7, 16, 33, 57, 70}) {
    CAPTURE(tags);
    // With large numbers most paths are next to impossible, and sums of exponentials are less than any float.
    for (const double scale : {0.1, 3.0, 30.0, 3000.0}) {
      if (slow && tags > 33 && (scale == 0.1 || scale == 30)) continue;
      CAPTURE(scale);
      const auto scaled = [&](LoDTensor<double> x) {
        for (double& number : x.values()) number = static_cast<double>(static_cast<float>(number * scale));
        return x;
      };
      const auto x = scaled(real_numbers<double>(engine, LoD::from_lengths({{9, 0, 1, 30, 2}}), {tags}));
      const auto transition = scaled(real_numbers<double>(engine, {tags + 2, tags}));
      const auto labels = random_ids(engine, x.lod(), tags);
      const auto dy = small_reals<double>(engine, {5});
      const lod::CpuExecutor alone(1);
      const auto y = lod::linear_chain_crf(alone, x, transition, labels);
      const auto d = lod::linear_chain_crf_grad(alone, dy, x, transition, labels);
      CHECK(std::ranges::all_of(y.values(), [](double number) { return number <= 0; }));
      for_each_executor([&](const auto& executor) {
        const auto numbers = [](const LoDTensor<double>& of) { return values_of(of); };
        check_close(lod::linear_chain_crf(executor, x, transition, labels), numbers(y), 1e-13);
        const auto of_double = lod::linear_chain_crf_grad(executor, dy, x, transition, labels);
        check_close(of_double.demission, numbers(d.demission), 1e-10);
        check_close(of_double.dtransition, numbers(d.dtransition), 1e-10);
        // The scores of floats have an error of their own, which grows with them.
        const double error = 4e-6 * std::max(1.0, scale);
        check_close(lod::linear_chain_crf(executor, as<float>(x), as<float>(transition), labels), numbers(y), 4e-6);
        const auto of_float =
            lod::linear_chain_crf_grad(executor, as<float>(dy), as<float>(x), as<float>(transition), labels);
        check_close(of_float.demission, numbers(d.demission), error);
        check_close(of_float.dtransition, numbers(d.dtransition), error);
      });
    }
  }
}

TEST_CASE(
    "linear_chain_crf and its gradient: forbidden tags and transitions, numbers at the ends of their range, NaN") {
  const LoD pair = LoD::from_lengths({{3, 2}});
  for_each_executor([&](const auto& executor) {
    for_each_type(Types<float, double>(), [&]<class T>(std::type_identity<T>) {
      const T inf = std::numeric_limits<T>::infinity(), huge = std::numeric_limits<T>::max() / 4;
      // Between different tags there is no way.
      const auto same = LoDTensor<T>::from_values(LoD(), {2}, std::vector<T>{0, 0, 0, 0, 0, -inf, -inf, 0});
      const LoDTensor<T> zeros(pair, {2}), dy = LoDTensor<T>::from_values(LoD(), {}, std::vector<T>{1, 1});
      const auto labels = LoDTensor<std::int64_t>::from_values(pair, {}, {1, 1, 1, 0, 1});
      const auto y = lod::linear_chain_crf(executor, zeros, same, labels);
      CHECK(y.data()[0] == doctest::Approx(-std::log(2)));
      CHECK(y.data()[1] == -inf);
      const auto d = lod::linear_chain_crf_grad(executor, dy, zeros, same, labels);
      check_close(d.demission, {-0.5, 0.5, -0.5, 0.5, -0.5, 0.5, 0.5, -0.5, -0.5, 0.5}, 1e-6);
      check_close(d.dtransition, {0, 0, -1, 1, -1.5, 1, 0, 0.5}, 1e-6);

      // The first sequence has no path at all.
      auto none = zeros;
      none.values()[0] = none.values()[3] = -inf;
      CHECK(lod::linear_chain_crf(executor, none, same, labels).data()[0] == -inf);
      const auto of_none = lod::linear_chain_crf_grad(executor, dy, none, same, labels);
      CHECK(all_finite(of_none.demission));
      CHECK(all_finite(of_none.dtransition));
      CHECK(of_none.demission.data()[5] == 1);

      const LoDTensor<T> free({4, 2});
      const auto extreme = LoDTensor<T>::from_values(
          pair, {2}, std::vector<T>{huge, -huge, -huge, huge, -huge, -huge, inf, huge, -inf, huge});
      const auto best = LoDTensor<std::int64_t>::from_values(pair, {}, {0, 1, 0, 0, 1});
      const auto of_extreme = lod::linear_chain_crf(executor, extreme, free, best);
      CHECK(of_extreme.data()[0] == doctest::Approx(-std::log(2)));
      CHECK(of_extreme.data()[1] == 0);
      check_close(lod::linear_chain_crf_grad(executor, dy, extreme, free, best).demission,
                  {0, 0, 0, 0, 0.5, -0.5, 0, 0, 0, 0}, 1e-6);

      auto with_nan = zeros;
      with_nan.values()[2] = std::numeric_limits<T>::quiet_NaN();
      const auto of_nan = lod::linear_chain_crf(executor, with_nan, free, labels);
      CHECK(std::isnan(of_nan.data()[0]));
      CHECK(of_nan.data()[1] == doctest::Approx(-std::log(4)));
      const auto d_of_nan = lod::linear_chain_crf_grad(executor, dy, with_nan, free, labels);
      for (std::size_t k = 0; k < 6; ++k) CHECK(std::isnan(d_of_nan.demission.values()[k]));
      CHECK(d_of_nan.demission.data()[6] == doctest::Approx(0.5));
      for (const std::size_t at : {0UL, 2UL, 5UL}) {
        auto broken = free;
        broken.values()[at] = std::numeric_limits<T>::quiet_NaN();
        CHECK(std::isnan(lod::linear_chain_crf(executor, zeros, broken, labels).data()[0]));
        CHECK(std::isnan(lod::linear_chain_crf_grad(executor, dy, zeros, broken, labels).demission.data()[0]));
      }
    });
  });
}

namespace {

/// Multiples of a power of two, up to nearly the greatest number of float or double: sums of them are exact. One of
/// `rest` is forbidden.
template <class T>
LoDTensor<T> extreme_numbers(Engine& engine, LoDTensor<T> x, std::int64_t rest) {
  const int exponent = std::is_same_v<T, double> ? 1017 : 121;
  for (T& number : x.values()) {
    number = static_cast<T>(std::ldexp(static_cast<double>(random_number(engine, -127, 127)), exponent));
    if (random_number(engine, 1, rest) == 1) number = static_cast<T>(-std::numeric_limits<double>::infinity());
  }
  return x;
}

/// What a long double holds of a sequence: its likelihood, shares of tags and transitions, and its best path. With more
/// than one best path, the logarithm of their number may have been lost beside the scores.
struct ExtremePaths {
  long double most = -std::numeric_limits<long double>::infinity(), of_labels = 0, likelihood = 0;
  double count = 0;
  std::vector<double> emission, transition;
  Path best;

  template <class T>
  ExtremePaths(const LoDTensor<T>& x, const LoDTensor<T>& weights, const Path& labels)
      : emission(x.values().size()), transition(weights.values().size()) {
    const std::int64_t tags = x.row_size();
    const auto visit = [&](const Path& path, const auto& emission_at, const auto& transition_at) {
      for (std::size_t t = 0; t < path.size(); ++t) {
        emission_at(static_cast<std::size_t>(static_cast<std::int64_t>(t) * tags + path[t]));
        transition_at(static_cast<std::size_t>((t == 0 ? 0 : path[t - 1] + 2) * tags + path[t]));
      }
      transition_at(static_cast<std::size_t>(tags + path.back()));
    };
    const auto score = [&](const Path& path) {
      long double sum = 0;
      visit(
          path, [&](std::size_t k) { sum += static_cast<long double>(static_cast<double>(x.values()[k])); },
          [&](std::size_t k) { sum += static_cast<long double>(static_cast<double>(weights.values()[k])); });
      return sum;
    };
    for_each_path(x.rows(), tags, [&](const Path& path) {
      if (score(path) > most || best.empty()) best = path;
      most = std::max(most, score(path));
    });
    for_each_path(x.rows(), tags, [&](const Path& path) { count += score(path) == most; });
    const auto add = [&](const Path& path, double share) {
      visit(
          path, [&](std::size_t k) { emission[k] += share; }, [&](std::size_t k) { transition[k] += share; });
    };
    if (most - most == 0) {
      for_each_path(x.rows(), tags, [&](const Path& path) {
        if (score(path) == most) add(path, -1 / count);
      });
    }
    add(labels, 1);
    of_labels = score(labels);
    likelihood = of_labels - of_labels == 0 ? of_labels - most - std::log(static_cast<long double>(count)) : of_labels;
  }
};

}  // namespace

TEST_CASE_TEMPLATE(
    "linear_chain_crf, its gradient and crf_decoding: a number added to all emissions of a row changes nothing", T,
    float, double, lod::float16, lod::bfloat16) {
  Engine engine(first_seed());
  const auto most = static_cast<double>(std::numeric_limits<T>::max());
  std::vector<double> numbers;
  for (const double number : {0.0, 1.0, -60.0, 70.0, -1e3, 1e4, 1e7, -1e9, 1e20, -1e30, 1e37, 1e300, most, -most}) {
    if (std::abs(number) <= most) numbers.push_back(number);
  }
  const LoD index = LoD::from_lengths({{6, 0, 1, 9}});
  for (const std::int64_t tags : {1, 3, 20}) {
    CAPTURE(tags);
    const auto transition = as<T>(real_numbers<double>(engine, {tags + 2, tags}));
    const auto labels = random_ids(engine, index, tags);
    const auto dy = LoDTensor<double>::from_values(LoD(), {}, {1, -2, 0.5, 1});
    const LoDTensor<double> zeros(index, {tags});
    const lod::CpuExecutor alone(1);
    const auto y = lod::linear_chain_crf(alone, zeros, as<double>(transition), labels);
    const auto d = lod::linear_chain_crf_grad(alone, dy, zeros, as<double>(transition), labels);
    const auto path = lod::crf_decoding(alone, zeros, as<double>(transition));
    for (int round = 0; round < 4; ++round) {
      LoDTensor<T> x(index, {tags});
      for (std::int64_t row = 0; row < x.rows(); ++row) {
        std::ranges::fill(x.row(row), static_cast<T>(numbers[engine() % numbers.size()]));
      }
      for_each_executor([&](const auto& executor) {
        check_close(lod::linear_chain_crf(executor, x, transition, labels), values_of(y), tolerance<T>());
        const auto found = lod::linear_chain_crf_grad(executor, as<T>(dy), x, transition, labels);
        check_close(found.demission, values_of(d.demission), 4 * tolerance<T>());
        check_close(found.dtransition, values_of(d.dtransition), 8 * tolerance<T>());
        CHECK(std::ranges::equal(lod::crf_decoding(executor, x, transition).values(), path.values()));
      });
    }
  }
}

TEST_CASE("linear_chain_crf, its gradient and crf_decoding: sums of scores beyond the greatest number") {
  Engine engine(first_seed());
  for_each_type(Types<float, double, lod::bfloat16>(), [&]<class T>(std::type_identity<T>) {
    for (int round = 0, unclear = 0; round < 40; ++round) {
      REQUIRE(unclear < 40);
      CAPTURE(round);
      const std::int64_t tags = random_number(engine, 1, 3);
      const LoD index = LoD::from_lengths({{4, 0, 1, 2, 3}});
      // Of some batches emissions alone are extreme, of some weights alone.
      auto x = LoDTensor<T>(index, {tags}), weights = LoDTensor<T>({tags + 2, tags});
      if (round % 3 != 1) x = extreme_numbers(engine, x, round % 2 == 0 ? 5 : 1000);
      if (round % 3 != 2) weights = extreme_numbers(engine, weights, round % 2 == 0 ? 7 : 1000);
      const auto labels = random_ids(engine, index, tags);
      const auto dy = small_integers<T>(engine, {index.size(0)});
      std::vector<double> likelihood, demission, dtransition(weights.values().size());
      Path best;
      std::vector<bool> possible;
      bool clear = true;
      for (std::int64_t i = 0; i < index.size(0); ++i) {
        const auto rows = rows_of_sequence(x, i);
        if (rows.rows() == 0) {
          likelihood.push_back(0);
          continue;
        }
        const ExtremePaths all(rows, weights, path_of(labels, i));
        clear = clear && (all.count == 1 || all.most - all.most != 0);
        likelihood.push_back(static_cast<double>(static_cast<T>(static_cast<double>(all.likelihood))));
        const auto factor = static_cast<double>(dy.data()[i]);
        for (const double number : all.emission) demission.push_back(number * factor);
        for (std::size_t k = 0; k < dtransition.size(); ++k) dtransition[k] += all.transition[k] * factor;
        for (const std::int64_t tag : all.best) {
          best.push_back(tag);
          possible.push_back(all.most - all.most == 0);
        }
      }
      if (!clear) {
        ++unclear;
        --round;
        continue;
      }
      for_each_executor([&](const auto& executor) {
        const auto y = lod::linear_chain_crf(executor, x, weights, labels);
        for (std::size_t i = 0; i < likelihood.size(); ++i) {
          CHECK((static_cast<double>(y.values()[i]) == likelihood[i] ||
                 close(y.values()[i], likelihood[i], tolerance<T>())));
        }
        const auto d = lod::linear_chain_crf_grad(executor, dy, x, weights, labels);
        check_close(d.demission, demission, tolerance<T>());
        check_close(d.dtransition, dtransition, 4 * tolerance<T>());
        const auto path = lod::crf_decoding(executor, x, weights);
        bool same = true;
        for (std::size_t k = 0; k < best.size(); ++k) same = same && (!possible[k] || path.values()[k] == best[k]);
        CHECK(same);
      });
    }
  });
}

TEST_CASE("linear_chain_crf: the lowest number forbids as -inf does, also among usual numbers") {
  const double lowest = std::numeric_limits<double>::lowest();
  Engine engine(first_seed());
  for (const std::int64_t tags : {3, 9}) {
    auto x = real_numbers<double>(engine, LoD::from_lengths({{6, 1, 4}}), {tags});
    auto weights = real_numbers<double>(engine, {tags + 2, tags});
    const auto labels = lod::crf_decoding(x, weights);
    const auto at = [](std::int64_t row, std::int64_t column, std::int64_t size) {
      return static_cast<std::size_t>(row * size + column);
    };
    // Whatever the labels do not take may be forbidden.
    for (std::int64_t row = 0; row < x.rows(); ++row)
      x.values()[at(row, (labels.data()[row] + 1) % tags, tags)] = lowest;
    auto forbidden = x;
    for (double& number : forbidden.values()) {
      if (number == lowest) number = -std::numeric_limits<double>::infinity();
    }
    for_each_executor([&](const auto& executor) {
      check_close(lod::linear_chain_crf(executor, x, weights, labels),
                  values_of(lod::linear_chain_crf(executor, forbidden, weights, labels)), 1e-14);
      CHECK(values_of(lod::crf_decoding(executor, x, weights)) == values_of(labels));
    });
  }
}

TEST_CASE("linear_chain_crf and its gradient: a giant among short sequences is as exact, whatever the threads") {
  Engine engine(first_seed());
  const LoD index = giant_among_short(engine, 30, 20000);
  const auto x = real_numbers<float>(engine, index, {5}), transition = real_numbers<float>(engine, {7, 5});
  const auto labels = lod::crf_decoding(x, transition);
  LoDTensor<float> dy({30});
  dy.fill(1);
  const auto y = lod::linear_chain_crf(lod::CpuExecutor(1), x, transition, labels);
  const auto d = lod::linear_chain_crf_grad(lod::CpuExecutor(1), dy, x, transition, labels);
  const auto precise = lod::linear_chain_crf(as<double>(x), as<double>(transition), labels);
  CHECK(precise.data()[15] < -1000);
  CHECK(y.data()[15] == doctest::Approx(precise.data()[15]).epsilon(1e-6));
  const auto precise_d = lod::linear_chain_crf_grad(as<double>(dy), as<double>(x), as<double>(transition), labels);
  check_close(d.demission, values_of(precise_d.demission), 1e-5);
  check_close(d.dtransition, values_of(precise_d.dtransition), 1e-5);
  for (const int threads : thread_counts) {
    const lod::CpuExecutor executor(threads);
    CHECK(same_bits(lod::linear_chain_crf(executor, x, transition, labels), y));
    const auto again = lod::linear_chain_crf_grad(executor, dy, x, transition, labels);
    CHECK(same_bits(again.demission, d.demission));
    CHECK(same_bits(again.dtransition, d.dtransition));
  }
  // Alone as in the batch.
  CHECK(lod::linear_chain_crf(x.between(15, 16), transition, labels.between(15, 16)).data()[0] == y.data()[15]);
}

TEST_CASE("linear_chain_crf: a batch without sequences, wrong arguments") {
  const lod::CpuExecutor executor(1);
  const LoDTensor<float> transition({5, 3}), none(LoD::from_lengths({{}}), {3});
  const LoDTensor<std::int64_t> no_labels(none.lod(), {});
  for_each_executor([&](const auto& e) {
    CHECK(lod::linear_chain_crf(e, none, transition, no_labels).rows() == 0);
    const auto d = lod::linear_chain_crf_grad(e, LoDTensor<float>({0}), none, transition, no_labels);
    CHECK(d.demission.rows() == 0);
    CHECK(values_of(d.dtransition) == std::vector<float>(15));
  });
  const LoDTensor<float> x(LoD::from_lengths({{2, 1}}), {3});
  LoDTensor<std::int64_t> labels(lod::Shape{3});
  LoDTensor<float> y({2}), other;
  y.values()[0] = 7;
  check_throws<lod::InvalidLoD>(
      [&] {
        lod::linear_chain_crf_into(executor, LoDTensor<float>({3, 3}), transition, labels, y);
      },
      "linear_chain_crf: emission: the tensor has no level", y);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::linear_chain_crf_into(executor, x, transition, LoDTensor<std::int64_t>({2}), y); },
      "linear_chain_crf: labels: 2 rows, expected 3", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::linear_chain_crf_into(executor, x, transition, LoDTensor<std::int64_t>({3, 2}), y);
      },
      "linear_chain_crf: labels: rows of shape {2}, expected one label a row", y);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::linear_chain_crf_grad_into(executor, LoDTensor<float>({3}), x, transition, labels, y, other); },
      "linear_chain_crf_grad: dy: 3 rows, expected 2", y);
  check_throws<lod::ShapeMismatch>(
      [&] {
        lod::linear_chain_crf_grad_into(executor, LoDTensor<float>({2, 1}), x, transition, labels, y, other);
      },
      "linear_chain_crf_grad: dy: rows of shape {1}, expected {}", y);
  for (const std::int64_t label : {-1, 3}) {
    labels.values()[1] = label;
    check_throws<lod::OutOfRange>([&] { lod::linear_chain_crf_into(executor, x, transition, labels, y); },
                                  "at position 1, expected 0 to 2", y);
    check_throws<lod::OutOfRange>(
        [&] { lod::linear_chain_crf_grad_into(executor, LoDTensor<float>({2}), x, transition, labels, y, other); },
        "linear_chain_crf_grad: id", y);
  }
}

TEST_CASE("infer_linear_chain_crf: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {2}, [](Engine& engine, const LoDTensor<float>& x) {
    const LoDTensor<float> transition({4, 2});
    const auto labels = random_ids(engine, x.lod(), 2);
    const auto y = lod::linear_chain_crf(x, transition, labels);
    check_inference(
        y,
        [](const auto& emission, const auto& weights, const auto& tags) {
          return lod::infer_linear_chain_crf(emission, weights, tags);
        },
        describe(x), describe(transition), describe(labels));
    const auto d = lod::linear_chain_crf_grad(LoDTensor<float>({y.rows()}), x, transition, labels);
    check_inferred(d.demission, describe(x));
    check_inferred(d.dtransition, describe(transition));
  });
  using lod::DataType;
  const auto x = described(DataType::FP16, {15, 4}, 2), transition = described(DataType::FP16, {6, 4});
  CHECK(lod::infer_linear_chain_crf(x, transition, described(DataType::INT64, {15, 1})) ==
        described(DataType::FP16, {-1}, 1));
  CHECK_THROWS_AS(lod::infer_linear_chain_crf(x, transition, described(DataType::INT64, {14})), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_linear_chain_crf(x, transition, described(DataType::INT16, {15})), lod::ShapeMismatch);
  CHECK_THROWS_AS(lod::infer_linear_chain_crf(x, transition, described(DataType::INT64, {15, 2})), lod::ShapeMismatch);
}

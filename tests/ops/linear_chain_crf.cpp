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

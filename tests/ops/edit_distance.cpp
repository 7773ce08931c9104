// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

using LabelTypes = Types<bool, std::int8_t, std::uint8_t, std::int16_t, std::int32_t, std::int64_t>;

/// The whole table.
template <class Sequence>
std::int64_t reference_distance(const Sequence& a, const Sequence& b) {
  std::vector<std::vector<std::int64_t>> table(a.size() + 1, std::vector<std::int64_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        table[i][j] = static_cast<std::int64_t>(i + j);
      } else {
        table[i][j] =
            std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      }
    }
  }
  return table[a.size()][b.size()];
}

/// Characters as ids.
LoDTensor<std::int8_t> words(const std::vector<std::string>& list) { return LoDTensor<std::int8_t>::from_nested(list); }

template <class Executor, lod::LoDTensorLike A, lod::LoDTensorLike B>
void check_distance(const Executor& executor, const A& a, const B& b, int level) {
  INFO("level ", level);
  const auto from = sequences_of(tree_of(a), level), to = sequences_of(tree_of(b), level);
  const auto y = lod::edit_distance(executor, a, b, {.level = level});
  const auto normalized = lod::edit_distance(executor, a, b, {.normalized = true, .level = level});
  CHECK(y.lod() == a.view().lod().levels_above(level));
  REQUIRE(y.shape() == lod::Shape{static_cast<std::int64_t>(from.size())});
  bool as_expected = true;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto rows = rows_of(from[i]), others = rows_of(to[i]);
    const auto expected = static_cast<double>(reference_distance(rows, others));
    const auto length = static_cast<double>(others.size());
    as_expected = as_expected && y.data()[i] == static_cast<float>(expected);
    const double share = others.empty() ? static_cast<double>(!rows.empty()) : expected / length;
    as_expected = as_expected && normalized.data()[i] == static_cast<float>(share);
  }
  CHECK(as_expected);
}

}  // namespace

TEST_CASE("edit_distance: words that are known") {
  const auto a = words({"kitten", "flaw", "", "abc", "", "same", "rosettacode"});
  const auto b = words({"sitting", "lawn", "ab", "", "", "same", "raisethysword"});
  const auto y = lod::edit_distance(a, b);
  CHECK(y.levels() == 0);
  CHECK(std::vector<float>(y.values().begin(), y.values().end()) == std::vector<float>{3, 2, 2, 3, 0, 0, 8});
  const auto share = lod::edit_distance(a, b, {.normalized = true});
  CHECK(share.data()[0] == 3.F / 7);
  CHECK(share.data()[1] == 0.5F);
  CHECK(share.data()[2] == 1);
  CHECK(share.data()[3] == 1);  // nothing divides by the length of an empty reference
  CHECK(share.data()[4] == 0);
  CHECK(share.data()[5] == 0);
}

TEST_CASE("edit_distance: agrees with the whole table for slices of every type, depth and level") {
  for_each_type(LabelTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(5, 1, 5, [](Engine& engine, const Lengths& lengths) {
      // b has the levels of a, and sequences of other lengths in the last.
      Lengths others = lengths;
      for (std::int64_t& length : others.back()) length = random_number(engine, 0, 12);
      const auto a = small_integers<T>(engine, LoD::from_lengths(lengths), {});
      const auto b = small_integers<T>(engine, LoD::from_lengths(others), {1});
      const std::int64_t begin = random_number(engine, 0, a.size() > 0);
      for_each_executor([&](const auto& executor) {
        for (int level = 0; level < a.levels(); ++level) {
          check_distance(executor, a.between(begin, a.size()), b.between(begin, b.size()), level);
        }
      });
    });
  });
}

TEST_CASE("edit_distance: batches without sequences, of empty ones only") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}}) {
    const LoDTensor<int> x(LoD::from_lengths(lengths), {});
    for_each_executor([&](const auto& executor) { check_distance(executor, x, x, 0); });
  }
}

TEST_CASE("edit_distance: long sequences among short ones, alike and not") {
  // On the CPU a word has 64 columns; over Thrust a lane has 32, and there are 16 lanes where all are short, else 32.
  for_each_type(LabelTypes(), []<class T>(std::type_identity<T>) {
    for (const std::int64_t most : {33, 64, 65, 128, 130, 1100}) {
      if (most > 1000 && !std::is_same_v<T, int>) continue;
      CAPTURE(most);
      Engine engine(static_cast<Engine::result_type>(most));
      std::vector<std::int64_t> lengths, others;
      for (const std::int64_t length : {most, most - 1, most / 2, most, std::int64_t{31}, std::int64_t{32}, most}) {
        lengths.push_back(length);
        others.push_back(length > 32 ? random_number(engine, 0, 1) * length + random_number(engine, -1, 0)
                                     : length + 1);
        if (others.back() < 0) others.back() = 0;
      }
      auto a = small_integers<T>(engine, LoD::from_lengths({lengths}), {});
      auto b = small_integers<T>(engine, LoD::from_lengths({others}), {});
      // All but one are the same in the last pair, and what stands before them in the first.
      std::copy_n(a.data(), std::min(lengths[0], others[0]) / 2, b.data());
      const std::int64_t same = std::min(lengths.back(), others.back());
      std::copy_n(a.data() + a.rows() - same, same, b.data() + b.rows() - same);
      if (same > 2) b.data()[b.rows() - same / 2] ^= static_cast<T>(1);
      for_each_executor([&](const auto& executor) {
        check_distance(executor, a, b, 0);
        check_distance(executor, b, a, 0);
      });
    }
  });
}

TEST_CASE("edit_distance: by any number of threads; a second call allocates nothing") {
  Engine engine(3);
  const auto a = small_integers<int>(engine, giant_among_short(engine, 3000, 3000), {});
  const auto b = small_integers<int>(engine, giant_among_short(engine, 3000, 2000), {});
  const auto expected = lod::edit_distance(lod::CpuExecutor(1), a, b);
  check_distance(lod::CpuExecutor(1), a, b, 0);
  for (const int threads : thread_counts) {
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    LoDTensor<float> y(&resource);
    lod::edit_distance_into(executor, a, b, y);
    CHECK(same_bits(y, expected));
    const int before = resource.allocations;
    lod::edit_distance_into(executor, a, b, y);
    CHECK(resource.allocations == before);
  }
}

TEST_CASE("edit_distance: bad arguments throw and change nothing; views as outputs") {
  const LoDTensor<int> x(LoD::from_lengths({{2, 1}}), {}), one(LoD::from_lengths({{3}}), {}), plain({3});
  const LoDTensor<int> wide(x.lod(), {2});
  LoDTensor<float> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::edit_distance_into(executor, plain, x, y); },
                                "edit_distance: a: the tensor has no level", y);
  check_throws<lod::InvalidLoD>([&] { lod::edit_distance_into(executor, x, plain, y); },
                                "edit_distance: b: the tensor has no level", y);
  check_throws<lod::OutOfRange>([&] { lod::edit_distance_into(executor, x, x, {.level = 1}, y); },
                                "level 1 of a LoD with 1 levels", y);
  check_throws<lod::ShapeMismatch>([&] { lod::edit_distance_into(executor, x, one, y); },
                                   "edit_distance: b has 1 sequences, expected 2 as a", y);
  check_throws<lod::ShapeMismatch>([&] { lod::edit_distance_into(executor, x, wide, y); },
                                   "edit_distance: rows of shape {} and {2}, expected one id a row", y);

  LoDTensor<float> out({2});
  lod::edit_distance_into(executor, x, x, out.view());
  CHECK(out.data()[1] == 0);
  check_throws<lod::ShapeMismatch>([&] { lod::edit_distance_into(executor, x, x, y.view()); },
                                   ": a view of shape {1, 2} with 0 levels, expected shape {2}", y);
}

TEST_CASE("infer_edit_distance: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<std::int32_t>(1, {1}, [](Engine&, const lod::LoDTensor<std::int32_t>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      check_inference(
          lod::edit_distance(x, x, {.level = level}),
          [&](const auto& a, const auto& b) { return lod::infer_edit_distance(a, b, {.level = level}); }, describe(x),
          describe(x));
    }
  });
  const auto a = described(lod::DataType::INT64, {15, 1}, 2);
  CHECK(lod::infer_edit_distance(a, a) == described(lod::DataType::FP32, {-1}, 1));
  CHECK_THROWS_AS(lod::infer_edit_distance(a, described_list(15)), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_edit_distance(a, described(lod::DataType::INT64, {15}, 1), {.level = 1}), lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_edit_distance(a, described(lod::DataType::INT64, {15, 2}, 1)), lod::ShapeMismatch);
  CHECK_THROWS_WITH_AS(lod::infer_edit_distance(a, described(lod::DataType::INT32, {15}, 1)),
                       doctest::Contains("edit_distance: b: elements of INT32, expected INT64"), lod::ShapeMismatch);
}

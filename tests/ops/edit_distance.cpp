// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
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
  for (std::size_t j = 0; j <= b.size(); ++j) table[0][j] = static_cast<std::int64_t>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    const std::int64_t* const above = table[i - 1].data();
    std::int64_t* const row = table[i].data();
    const auto* const others = b.data();
    const auto id = a[i - 1];
    row[0] = static_cast<std::int64_t>(i);
    for (std::size_t j = 1, size = b.size(); j <= size; ++j) {
      const std::int64_t replaced = above[j - 1] + (id != others[j - 1] ? 1 : 0);
      const std::int64_t erased = above[j] + 1, inserted = row[j - 1] + 1;
      row[j] = std::min(replaced, std::min(erased, inserted));
    }
  }
  return table[a.size()][b.size()];
}

/// The ids of each sequence of a level.
template <lod::LoDTensorLike X>
auto ids_of(const X& x, int level) {
  using Id = std::conditional_t<std::is_same_v<typename X::value_type, bool>, char, typename X::value_type>;
  const auto view = x.view();
  const auto offsets = view.lod_view().absolute_offsets(level);
  std::vector<std::vector<Id>> sequences;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    sequences.emplace_back(view.data() + (offsets[i] - offsets[0]), view.data() + (offsets[i + 1] - offsets[0]));
  }
  return sequences;
}

/// The distances of the sequences of a level, and the numbers of ids of the second ones and of either.
struct Expected {
  std::vector<std::int64_t> distances, lengths, lengths_of_first;
};
template <lod::LoDTensorLike A, lod::LoDTensorLike B>
Expected reference_distances(const A& a, const B& b, int level) {
  const auto from = ids_of(a, level), to = ids_of(b, level);
  Expected all;
  for (std::size_t i = 0; i < from.size(); ++i) {
    all.distances.push_back(reference_distance(from[i], to[i]));
    all.lengths.push_back(std::ssize(to[i]));
    all.lengths_of_first.push_back(std::ssize(from[i]));
  }
  return all;
}

/// Characters as ids.
LoDTensor<std::int8_t> words(const std::vector<std::string>& list) { return LoDTensor<std::int8_t>::from_nested(list); }

template <class Executor, lod::LoDTensorLike A, lod::LoDTensorLike B>
void check_distance(const Executor& executor, const A& a, const B& b, int level, const Expected& reference) {
  INFO("level ", level);
  const auto y = lod::edit_distance(executor, a, b, {.level = level});
  const auto normalized = lod::edit_distance(executor, a, b, {.normalized = true, .level = level});
  CHECK(y.lod() == a.view().lod().levels_above(level));
  REQUIRE(y.shape() == lod::Shape{std::ssize(reference.distances)});
  bool as_expected = true;
  for (std::size_t i = 0; i < reference.distances.size(); ++i) {
    const auto expected = static_cast<double>(reference.distances[i]);
    const auto length = static_cast<double>(reference.lengths[i]);
    as_expected = as_expected && y.data()[i] == static_cast<float>(expected);
    const double share = length == 0 ? static_cast<double>(reference.lengths_of_first[i] > 0) : expected / length;
    as_expected = as_expected && normalized.data()[i] == static_cast<float>(share);
  }
  CHECK(as_expected);
}

/// Each level of a and b on every executor.
template <lod::LoDTensorLike A, lod::LoDTensorLike B>
void check_every_level(const A& a, const B& b) {
  for (int level = 0; level < a.view().levels(); ++level) {
    const Expected reference = reference_distances(a, b, level);
    for_each_executor([&](const auto& executor) { check_distance(executor, a, b, level, reference); });
  }
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
      check_every_level(a.between(begin, a.size()), b.between(begin, b.size()));
    });
  });
}

TEST_CASE("edit_distance: batches without sequences, of empty ones only") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}}) {
    const LoDTensor<int> x(LoD::from_lengths(lengths), {});
    check_every_level(x, x);
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
      check_every_level(a, b);
      check_every_level(b, a);
    }
  });
}

TEST_CASE("edit_distance: by any number of threads; a second call allocates nothing") {
  Engine engine(3);
  const std::int64_t rows = slow ? 1000 : 3000;
  const auto a = small_integers<int>(engine, giant_among_short(engine, 3000, rows), {});
  const auto b = small_integers<int>(engine, giant_among_short(engine, 3000, rows * 2 / 3), {});
  const auto expected = lod::edit_distance(lod::CpuExecutor(1), a, b);
  check_distance(lod::CpuExecutor(1), a, b, 0, reference_distances(a, b, 0));
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

// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/counting_resource.hpp"
#include "support/element_types.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/reference.hpp"
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;
using Numbers = std::vector<std::int64_t>;

namespace {

/// Checks a result against comparing every sequence with all that came before.
template <class T, class X>
void check_unique(const lod::UniqueSequences<T>& y, const X& x) {
  const Tree<T> tree = tree_of(x);
  Tree<T> expected;
  Numbers index, counts;
  for (const auto& part : tree.parts) {
    const auto found = std::find(expected.parts.begin(), expected.parts.end(), part);
    index.push_back(found - expected.parts.begin());
    if (found == expected.parts.end()) {
      expected.parts.push_back(part);
      counts.push_back(0);
    }
    ++counts[static_cast<std::size_t>(index.back())];
  }
  check_tree(y.values, x.levels(), expected);
  CHECK(values_of(y.index) == index);
  CHECK(values_of(y.counts) == counts);
  CHECK(same_bits(lod::select(y.values, y.index), x));
}

}  // namespace

TEST_CASE("unique_sequences: in the order of first occurrences, told apart by every level") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<std::vector<int>>>{
      {{1, 2}, {3}}, {{1}, {2, 3}}, {}, {{1, 2}, {3}}, {{}}, {}, {{}, {}}, {{1, 2, 3}}});
  const auto y = lod::unique_sequences(x);
  CHECK(values_of(y.index) == Numbers{0, 1, 2, 0, 3, 2, 4, 5});
  CHECK(values_of(y.counts) == Numbers{2, 1, 2, 1, 1, 1});
  check_unique(y, x);
  const auto rows = LoDTensor<int>::from_nested(std::vector<int>{7, 5, 7, 7});
  check_unique(lod::unique_sequences(rows), rows);
}

TEST_CASE("unique_sequences: agrees with comparing all with all, for slices of every type, depth and row size") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(4, 0, 5, [](Engine& engine, const Lengths& lengths) {
      for (const std::int64_t row_size : {1, 3, 8, 17}) {
        auto x = lengths.empty() ? LoDTensor<T>({random_number(engine, 0, 30), row_size})
                                 : LoDTensor<T>(LoD::from_lengths(lengths), {row_size});
        for (std::int64_t row = 0; row < x.rows(); ++row) {  // few different rows
          std::ranges::fill(x.row(row), static_cast<T>(static_cast<int>(random_number(engine, 0, 1))));
        }
        const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
        check_unique(lod::unique_sequences(slice), slice);
        const auto doubled = lod::concat(slice, slice);
        check_unique(lod::unique_sequences(doubled), doubled);
      }
    });
  });
}

TEST_CASE("unique_sequences: bits count, so that 0 and -0 differ and a NaN equals itself") {
  const float nan = std::nanf("");
  const auto x = LoDTensor<float>::from_nested(std::vector<float>{0, nan, -0.0f, 0, nan});
  CHECK(values_of(lod::unique_sequences(x).index) == Numbers{0, 1, 2, 0, 1});
}

TEST_CASE("unique_sequences: no sequences, empty ones only, and rows without elements") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}, {{2, 0}, {0, 0}}}) {
    const LoDTensor<float> x(LoD::from_lengths(lengths), {3});
    const auto y = lod::unique_sequences(x);
    check_unique(y, x);
    CHECK(y.values.row_shape() == x.row_shape());
  }
  const LoDTensor<float> narrow(LoD::from_lengths({{2, 1, 2}}), {0});
  CHECK(values_of(lod::unique_sequences(narrow).index) == Numbers{0, 1, 0});
  const LoDTensor<float> none({0, 2});
  CHECK(lod::unique_sequences(none).values.shape() == none.shape());
}

TEST_CASE("unique_sequences: the same for any number of threads, and a second call allocates nothing") {
  Engine engine(4);
  const LoD index = giant_among_short(engine, 3000, 20000);
  auto x = real_numbers<float>(engine, index, {2});
  for (float& value : x.values()) value = std::round(value / 2);
  const auto expected = lod::unique_sequences(lod::CpuExecutor(1), x);
  CHECK(expected.values.size() < 3000);
  CHECK(expected.values.size() > 100);
  for (const int threads : thread_counts) {
    CAPTURE(threads);
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    LoDTensor<float> values(&resource);
    LoDTensor<std::int64_t> which(&resource), counts(&resource);
    int before = -1;
    for (int call = 0; call < 2; ++call) {
      before = resource.allocations;
      lod::unique_sequences_into(executor, x, values, which, counts);
    }
    CHECK(resource.allocations == before);
    CHECK(before > 0);
    CHECK(same_bits(values, expected.values));
    CHECK(same_bits(which, expected.index));
    CHECK(same_bits(counts, expected.counts));
  }
}

TEST_CASE("unique_sequences_and_wait: on the CPU the same, where a second call allocates nothing") {
  CountingResource resource;
  const lod::CpuExecutor executor(2, &resource);
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{1}, {2, 3}, {1}, {}});
  const auto expected = lod::unique_sequences(x);
  CHECK(same_bits(lod::unique_sequences_and_wait(x).values, expected.values));
  LoDTensor<int> values(&resource);
  LoDTensor<std::int64_t> which(&resource), counts(&resource);
  int before = -1;
  for (int call = 0; call < 2; ++call) {
    before = resource.allocations;
    lod::unique_sequences_and_wait_into(executor, x, values, which, counts);
  }
  CHECK(resource.allocations == before);
  CHECK(same_bits(which, expected.index));
  CHECK(same_bits(counts, expected.counts));
  CHECK(lod::infer_unique_sequences_and_wait(describe(x)).index == lod::infer_unique_sequences(describe(x)).index);
}

TEST_CASE("unique_sequences: views as outputs must have the shape and the levels of the results") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{1}, {2, 3}, {1}});
  const lod::CpuExecutor executor(1);
  LoDTensor<int> values(LoD::from_lengths({{1, 2}}), {}), wrong(LoD::from_lengths({{2, 1}}), {});
  LoDTensor<std::int64_t> index({3}), counts({2}), two({2}), three({3});
  check_throws<lod::ShapeMismatch>(
      [&] { lod::unique_sequences_into(executor, x, wrong.view(), index.view(), counts.view()); },
      "and the levels of the result", index);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::unique_sequences_into(executor, x, values.view(), two.view(), counts.view()); },
      "and the levels of the result", values);
  check_throws<lod::ShapeMismatch>(
      [&] { lod::unique_sequences_into(executor, x, values.view(), index.view(), three.view()); },
      "and the levels of the result", index);
  lod::unique_sequences_into(executor, x, values.view(), index.view(), counts.view());
  CHECK(values_of(index) == Numbers{0, 1, 0});
  CHECK(values_of(counts) == Numbers{2, 1});
  CHECK(same_bits(values, x.between(0, 2)));
}

namespace {

/// The number whose product with `factor`, which is odd, is 1.
constexpr std::uint64_t inverse(std::uint64_t factor) {
  std::uint64_t found = factor;
  for (int i = 0; i < 6; ++i) found *= 2 - factor * found;
  return found;
}
/// The x with x ^ x >> shift = number.
constexpr std::uint64_t unshifted(std::uint64_t number, int shift) {
  std::uint64_t x = number;
  for (int known = shift; known < 64; known += shift) x = number ^ x >> shift;
  return x;
}
/// The last steps of SplitMix64, and a word put before them.
std::uint64_t split_mix(std::uint64_t known, std::uint64_t word) {
  std::uint64_t number = (known ^ word) + 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

/// Rows of one number that a hash of fixed factors gives the same low bits: made backwards, from the hash.
LoDTensor<std::int64_t> meeting_rows(std::int64_t count) {
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
  LoDTensor<std::int64_t> x({count});
  for (std::int64_t i = 0; i < count; ++i) {
    auto hash = static_cast<std::uint64_t>(i) << 40;
    for (const std::uint64_t word : {8U, 0U, 1U}) hash = (unshifted(hash, 32) * inverse(factor)) ^ word;
    x.data()[i] = static_cast<std::int64_t>(hash);
  }
  return x;
}
/// Rows of two numbers that SplitMix64, which knows no key, gives the same hash.
LoDTensor<std::int64_t> meeting_pairs(std::int64_t count) {
  LoDTensor<std::int64_t> x({count, 2});
  for (std::int64_t i = 0; i < count; ++i) {
    x.row(i)[0] = i;
    x.row(i)[1] = static_cast<std::int64_t>(split_mix(0, static_cast<std::uint64_t>(i)) ^ 12345);
  }
  return x;
}
/// Sequences of 16 rows without a difference in two levels, each cut in another way.
LoDTensor<std::int8_t> other_splits(std::int64_t count) {
  Lengths lengths(2);
  for (std::int64_t i = 0; i < count; ++i) {
    lengths[0].push_back(0);
    std::int64_t length = 1;
    for (int row = 1; row <= 16; ++row, ++length) {
      if (row < 16 && (i >> (row - 1) & 1) == 0) continue;
      lengths[1].push_back(length);
      ++lengths[0].back();
      length = 0;
    }
  }
  return LoDTensor<std::int8_t>(LoD::from_lengths(lengths), {});
}

/// Rows of one number drawn by chance.
LoDTensor<std::int64_t> drawn_rows(std::int64_t count) {
  Engine engine(8);
  LoDTensor<std::int64_t> x({count});
  for (std::int64_t& value : x.values()) value = static_cast<std::int64_t>(engine());
  return x;
}

/// The time of a call, the less of two, in seconds.
template <class Call>
double seconds(const Call& call) {
  double least = 1e9;
  for (int i = 0; i < 2; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return least;
}

/// Checks that all sequences of x are different, and found so in about the time that `others` take, which have as much
/// in them. Where all meet, it takes thousands of times as long.
template <class X, class Others>
void check_time(const X& x, const Others& others) {
  for_each_executor([&](const auto& executor) {
    const auto found = lod::unique_sequences(executor, x);
    CHECK(found.values.size() == x.size());
    bool in_order = true;
    for (std::int64_t i = 0; i < x.size(); ++i) in_order &= found.index.data()[i] == i && found.counts.data()[i] == 1;
    CHECK(in_order);
    const double ordinary = seconds([&] { (void)lod::unique_sequences(executor, others); });
    CHECK(seconds([&] { (void)lod::unique_sequences(executor, x); }) < 50 * ordinary + 0.01);
  });
}

}  // namespace

TEST_CASE("unique_sequences: values that meet by a hash without a key take no longer than others") {
  check_time(meeting_rows(8000), drawn_rows(8000));
  check_time(meeting_pairs(1500), drawn_rows(3000));
}

TEST_CASE("unique_sequences: sequences of the same values that are cut differently take no longer than others") {
  const auto x = other_splits(4000);
  CHECK(x.rows() == 16 * 4000);
  Engine engine(9);
  LoDTensor<std::int8_t> others(LoD::from_lengths({Numbers(4000, 1), Numbers(4000, 16)}), {});
  for (std::int8_t& value : others.values()) value = static_cast<std::int8_t>(random_number(engine, 0, 100));
  check_time(x, others);
}

TEST_CASE("unique_sequences: three levels, told apart by any of them, however the same rows are cut") {
  for (unsigned seed = 0; seed < 5; ++seed) {
    CAPTURE(seed);
    Engine engine(seed);
    Lengths lengths(3);
    for (int level = 0; level < 3; ++level) {
      const auto at = static_cast<std::size_t>(level);
      const std::int64_t count = level == 0 ? 60 : std::accumulate(lengths[at - 1].begin(), lengths[at - 1].end(), 0L);
      for (std::int64_t i = 0; i < count; ++i) lengths[at].push_back(random_number(engine, 0, 2));
    }
    const LoDTensor<std::int32_t> x(LoD::from_lengths(lengths), {});
    for_each_executor([&](const auto& executor) {
      const auto slice = x.between(random_number(engine, 0, 5), x.size());
      check_unique(lod::unique_sequences(executor, slice), slice);
    });
  }
}

TEST_CASE("infer_unique_sequences: allows what the operation gives") {
  for_each_random_batch<float>(0, {2}, [](Engine&, const lod::LoDTensor<float>& x) {
    const auto y = lod::unique_sequences(x);
    for (const auto& desc : {describe(x), blank(describe(x))}) {
      const auto inferred = lod::infer_unique_sequences(desc);
      check_inferred(y.values, inferred.values);
      check_inferred(y.index, inferred.index);
      check_inferred(y.counts, inferred.counts);
    }
  });
  const auto plain = lod::infer_unique_sequences(described(lod::DataType::FP32, {15, 2}));
  CHECK(plain.values == described(lod::DataType::FP32, {-1, 2}));
  CHECK(plain.index == described(lod::DataType::INT64, {15}));
  CHECK(lod::infer_unique_sequences(described(lod::DataType::FP32, {15, 2}, 2)).counts ==
        described(lod::DataType::INT64, {-1}));
  CHECK_THROWS_AS(lod::infer_unique_sequences({}), lod::ShapeMismatch);
}

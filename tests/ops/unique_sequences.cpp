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
#include <cmath>
#include <cstddef>
#include <cstdint>
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
        const auto slice = x.slice(random_number(engine, 0, x.size() > 0), x.size());
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
  CHECK(same_bits(values, x.slice(0, 2)));
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

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
#include <type_traits>
#include <vector>

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

namespace {

template <lod::LoDTensorLike X>
std::vector<typename X::value_type> reference_enumerate(const X& x, std::int64_t window, int level, int pad_value) {
  using T = typename X::value_type;
  const auto view = x.view();
  std::vector<T> expected;
  const auto offsets = view.lod_view().absolute_offsets(level);
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    for (std::int64_t row = offsets[i]; row < offsets[i + 1]; ++row) {
      for (std::int64_t place = row; place < row + window; ++place) {
        expected.push_back(place < offsets[i + 1] ? view.data()[place - offsets[0]] : static_cast<T>(pad_value));
      }
    }
  }
  return expected;
}

template <class Executor, lod::LoDTensorLike X>
void check_enumerate(const Executor& executor, const X& x, std::int64_t window, int level, int pad_value) {
  INFO("window ", window, ", level ", level);
  const auto y = lod::sequence_enumerate(executor, x, window, {.pad_value = pad_value, .level = level});
  CHECK(y.lod() == x.view().lod());
  CHECK(y.row_shape() == lod::Shape{window});
  const auto expected = reference_enumerate(x, window, level, pad_value);
  CHECK(std::equal(expected.begin(), expected.end(), y.values().begin(), y.values().end()));
}

}  // namespace

TEST_CASE("sequence_enumerate: windows end with their sequence") {
  const auto x = LoDTensor<int>::from_nested(std::vector<std::vector<int>>{{1, 2, 3}, {}, {4, 5}});
  const auto y = lod::sequence_enumerate(x, 2);
  CHECK(y.lod() == x.lod());
  CHECK(std::vector<int>(y.values().begin(), y.values().end()) == std::vector<int>{1, 2, 2, 3, 3, 0, 4, 5, 5, 0});
}

TEST_CASE("sequence_enumerate: the cases of PaddlePaddle's tests") {
  Engine engine(1);
  for_each_executor([&](const auto& executor) {
    for (const auto& lengths : std::vector<std::vector<std::int64_t>>{{9, 4, 11, 6}, {0, 14, 0, 16, 0}}) {
      const auto x = small_integers<std::int32_t>(engine, LoD::from_lengths({lengths}), {1});
      for (const std::int64_t window : {2, 5, 30}) {
        for (const int pad_value : {0, 5}) check_enumerate(executor, x, window, 0, pad_value);
      }
    }
  });
}

TEST_CASE("sequence_enumerate: agrees with nested loops for slices of every type, depth, level and window") {
  for_each_type(AllTypes(), []<class T>(std::type_identity<T>) {
    for_each_random_lod(5, 1, 5, [](Engine& engine, const Lengths& lengths) {
      const auto x = small_integers<T>(engine, LoD::from_lengths(lengths), {});
      const auto slice = x.between(random_number(engine, 0, x.size() > 0), x.size());
      for (int level = 0; level < x.levels(); ++level) {
        for (const std::int64_t window : {1, 2, 3, 8, 40}) {
          check_enumerate(lod::CpuExecutor(2), slice, window, level, 1);
        }
      }
    });
  });
}

TEST_CASE("sequence_enumerate: windows and sequences around the sizes of vectors, cache lines and the stage") {
  for_each_type(Types<std::uint8_t, std::int32_t, std::int64_t>(), []<class T>(std::type_identity<T>) {
    Engine engine(8);
    const auto x =
        small_integers<T>(engine, LoD::from_lengths({{1, 2, 3, 4, 5, 0, 31, 32, 33, 64, 127, 128, 700}}), {});
    for (const std::int64_t window :
         {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 31, 32, 33, 64, 127, 128, 129, 256, 257, 1023, 1024, 1025}) {
      check_enumerate(lod::CpuExecutor(2), x, window, 0, 7);
    }
    for (const std::int64_t size : {1, 3, 4, 5, 31, 32, 33, 65}) {
      const auto one = small_integers<T>(engine, LoD::from_lengths({{size}}), {});
      for (const std::int64_t window : {3, 8, 10}) check_enumerate(lod::CpuExecutor(1), one, window, 0, 7);
    }
  });
}

TEST_CASE("sequence_enumerate: a result that goes past the caches") {
  Engine engine(9);
  // More than the caches are taken to hold.
  const auto x = small_integers<std::int64_t>(engine, LoD::from_lengths({{5, 0, 256 * grain / 24, 17}}), {});
  for (const int threads : thread_counts) check_enumerate(lod::CpuExecutor(threads), x, 3, 0, -1);
}

TEST_CASE("sequence_enumerate: batches without sequences, of empty ones only") {
  for (const auto& lengths : std::vector<Lengths>{{{}}, {{0}}, {{0, 0}}, {{}, {}}, {{0, 0}, {}}}) {
    check_enumerate(lod::CpuExecutor(2), LoDTensor<int>(LoD::from_lengths(lengths), {1}), 3, 0, 7);
  }
}

TEST_CASE("sequence_enumerate: long sequences are shared by threads; a second call allocates nothing") {
  Engine engine(4);
  const auto x = small_integers<std::int64_t>(engine, giant_among_short(engine, 3000, 30000), {});
  for (const int threads : thread_counts) {
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    check_enumerate(executor, x, 5, 0, -1);
    LoDTensor<std::int64_t> y(&resource);
    lod::sequence_enumerate_into(executor, x, 3, y);
    const int before = resource.allocations;
    lod::sequence_enumerate_into(executor, x, 3, y);
    CHECK(resource.allocations == before);
  }
}

TEST_CASE("sequence_enumerate: bad arguments throw and change nothing; views as outputs") {
  const LoDTensor<int> x(LoD::from_lengths({{2, 1}}), {}), wide(LoD::from_lengths({{2, 1}}), {2}), plain({3});
  LoDTensor<int> y({1, 2});
  const lod::CpuExecutor executor(1);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_enumerate_into(executor, plain, 2, y); },
                                "sequence_enumerate: the tensor has no level, expected at least one", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_enumerate_into(executor, x, 2, {.level = 1}, y); },
                                "level 1 of a LoD with 1 levels", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_enumerate_into(executor, x, 0, y); },
                                "sequence_enumerate: window 0, expected 1 or more", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_enumerate_into(executor, wide, 2, y); },
                                   "sequence_enumerate: rows of shape {2}, expected one id a row", y);

  LoDTensor<int> out(x.lod(), {2});
  lod::sequence_enumerate_into(executor, x.between(1, 2), 2, {.pad_value = 9}, out.between(1, 2));
  CHECK(out.row(2)[1] == 9);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_enumerate_into(executor, x, 3, out.view()); },
                                   ": a view of shape {3, 2} with 1 levels", out);
}

TEST_CASE("infer_sequence_enumerate: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {1}, [](Engine&, const lod::LoDTensor<float>& x) {
    for (int level = 0; level < x.levels(); ++level) {
      check_inference(
          lod::sequence_enumerate(x, 3, {.level = level}),
          [&](const auto& desc) { return lod::infer_sequence_enumerate(desc, 3, {.level = level}); }, describe(x));
    }
  });
  const auto x = described(lod::DataType::INT64, {15, 1}, 2);
  CHECK(lod::infer_sequence_enumerate(x, 3) == described(lod::DataType::INT64, {15, 3}, 2));
  CHECK_THROWS_AS(lod::infer_sequence_enumerate(described_list(15), 3), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_enumerate(x, 3, {.level = 2}), lod::OutOfRange);
  CHECK_THROWS_WITH_AS(lod::infer_sequence_enumerate(x, 0), doctest::Contains("window 0, expected 1 or more"),
                       lod::OutOfRange);
  CHECK_THROWS_AS(lod::infer_sequence_enumerate(described(lod::DataType::INT64, {15, 2}, 1), 3), lod::ShapeMismatch);
}

// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/executors.hpp"
#include "support/inferred.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace {

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

std::vector<std::int64_t> counted(const lod::LoDView& lod, int level) {
  const auto offsets = lod.absolute_offsets(level);
  std::vector<std::int64_t> all;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    for (std::int64_t row = 0; row < offsets[i] - offsets[i - 1]; ++row) all.push_back(row);
  }
  return all;
}

}  // namespace

TEST_CASE("sequence_positions: worked numbers, at each level, of a LoD and of a part of one") {
  const LoD lod = LoD::from_lengths({{2, 0, 1}, {2, 3, 1}});
  const LoDTensor<float> x(lod, {3});
  CHECK(values_of(lod::sequence_positions(lod)) == std::vector<std::int64_t>{0, 1, 0, 1, 2, 0});
  for_each_executor([&](const auto& executor) {
    const auto y = lod::sequence_positions(executor, lod);
    CHECK(y.lod() == lod);
    CHECK(y.shape() == lod::Shape{6});
    CHECK(values_of(y) == std::vector<std::int64_t>{0, 1, 0, 1, 2, 0});
    CHECK(values_of(lod::sequence_positions(executor, lod, {.level = 0})) ==
          std::vector<std::int64_t>{0, 1, 2, 3, 4, 0});
    const auto part = lod::sequence_positions(executor, x.between(1, 3).lod_view());
    CHECK(part.lod() == x.between(1, 3).lod());
    CHECK(values_of(part) == std::vector<std::int64_t>{0});
    CHECK(values_of(lod::sequence_positions(executor, x.between(1, 2).lod_view())).empty());
    // The levels may be the output's own.
    LoDTensor<std::int64_t> z(lod, {});
    lod::sequence_positions_into(executor, z.lod(), z);
    CHECK(same_bits(z, y));
    lod::sequence_positions_into(executor, lod, {.level = 0}, z.view());
    CHECK(values_of(z) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 0});
  });
}

TEST_CASE("sequence_positions: count the rows of random LoDs of every depth, and of a giant") {
  for_each_random_lod(8, 1, 4, [](Engine& engine, const Lengths& lengths) {
    const LoD whole = LoD::from_lengths(lengths);
    const LoDTensor<float> x(whole, {});
    const auto part = x.between(random_number(engine, 0, x.size() > 0), x.size());
    for_each_executor([&](const auto& executor) {
      for (int level = 0; level < whole.levels(); ++level) {
        const auto y = lod::sequence_positions(executor, part.lod_view(), {.level = level});
        CHECK(y.lod() == part.lod());
        CHECK(values_of(y) == counted(part.lod_view(), level));
      }
    });
  });
  Engine engine(3);
  const LoD giant = giant_among_short(engine, 300, 3 * grain / 2);
  for_each_executor([&](const auto& executor) {
    CHECK(values_of(lod::sequence_positions(executor, giant)) == counted(giant.view(), 0));
  });
}

TEST_CASE("sequence_positions: a second call allocates nothing; what is refused") {
  Engine engine(4);
  const LoD lod = giant_among_short(engine, 100, grain);
  for (const int threads : thread_counts) {
    CAPTURE(threads);
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    LoDTensor<std::int64_t> y(&resource);
    const auto call = [&] { lod::sequence_positions_into(executor, lod, y); };
    call();
    check_no_allocation(resource, call);
  }
  const lod::CpuExecutor executor(1);
  LoDTensor<std::int64_t> y({2});
  check_throws<lod::InvalidLoD>([&] { lod::sequence_positions_into(executor, LoD(), y); },
                                "sequence_positions: the tensor has no level", y);
  check_throws<lod::InvalidLoD>([&] { lod::sequence_positions_into(executor, 5, y); },
                                "sequence_positions: the tensor has no level", y);
  check_throws<lod::OutOfRange>([&] { lod::sequence_positions_into(executor, lod, {.level = 1}, y); },
                                "level 1 of a LoD with 1 levels", y);
  check_throws<lod::ShapeMismatch>([&] { lod::sequence_positions_into(executor, lod, y.view()); },
                                   "sequence_positions: ", y);
}

TEST_CASE("infer_sequence_positions: allows what the operation gives, and refuses what it does") {
  for_each_random_batch<float>(1, {2}, [](Engine&, const LoDTensor<float>& batch) {
    check_inference(
        lod::sequence_positions(batch.lod()), [](const auto& of) { return lod::infer_sequence_positions(of); },
        describe(batch));
  });
  using lod::DataType;
  CHECK(lod::infer_sequence_positions(described(DataType::FP32, {15, 2}, 2)) == described(DataType::INT64, {15}, 2));
  CHECK_THROWS_AS(lod::infer_sequence_positions(described(DataType::FP32, {15, 2})), lod::InvalidLoD);
  CHECK_THROWS_AS(lod::infer_sequence_positions(described(DataType::FP32, {15, 2}, 1), {.level = 1}), lod::OutOfRange);
}

// SPDX-License-Identifier: Apache-2.0
#include "support/check_throws.hpp"
#include "support/executors.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/repeatable.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace {

using lod::LoD;
using lod::LoDTensor;
using namespace lod_test;

/// The sum of a row, and its last number.
struct SumAndLast {
  std::int64_t size;
  void operator()(const int* from, std::int64_t* to) const {
    to[0] = 0;
    for (std::int64_t i = 0; i < size; ++i) to[0] += from[i];
    to[1] = from[size - 1];
  }
};

}  // namespace

TEST_CASE("map_rows: worked numbers, with levels and without, of other types and shapes") {
  const auto x =
      LoDTensor<int>::from_values(LoD::from_lengths({{2, 0, 1}}), {3}, std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto plain = LoDTensor<int>::from_values(LoD(), {3}, values_of(x));
  for_each_executor([&](const auto& executor) {
    const auto y = lod::map_rows<std::int64_t>(executor, x, {2}, SumAndLast{3});
    CHECK(y.lod() == x.lod());
    CHECK(y.shape() == lod::Shape{3, 2});
    CHECK(values_of(y) == std::vector<std::int64_t>{6, 3, 15, 6, 24, 9});
    CHECK(lod::map_rows<std::int64_t>(executor, plain, {2, 1}, SumAndLast{3}).shape() == lod::Shape{3, 2, 1});
    CHECK(values_of(lod::map_rows<std::int64_t>(executor, x.between(2, 3), {2}, SumAndLast{3})) ==
          std::vector<std::int64_t>{24, 9});
    CHECK(lod::map_rows<std::int64_t>(executor, x.between(1, 2), {2}, SumAndLast{3}).shape() == lod::Shape{0, 2});
    const auto bools = lod::map_rows<bool>(executor, x, {}, [](const int* from, bool* to) { *to = from[0] > 3; });
    CHECK(values_of(bools) == std::vector<bool>{false, true, true});
    CHECK(lod::map_rows<float>(executor, x, {0}, [](const int*, float*) {}).shape() == lod::Shape{3, 0});
  });
  CHECK(values_of(lod::map_rows<std::int64_t>(x, {2}, SumAndLast{3})) == std::vector<std::int64_t>{6, 3, 15, 6, 24, 9});
}

TEST_CASE("map_rows: each row once, whatever the threads; in place; without memory the second time") {
  Engine engine(7);
  for (const int threads : thread_counts) {
    CountingResource resource;
    const lod::CpuExecutor executor(threads, &resource);
    const auto x = small_integers<float>(engine, giant_among_short(engine, 50, grain), {7});
    const auto backwards = [](const float* from, float* to) {
      float row[7];
      for (int i = 0; i < 7; ++i) row[i] = from[6 - i] + 1;
      for (int i = 0; i < 7; ++i) to[i] = row[i];
    };
    LoDTensor<float> y(&resource);
    lod::map_rows_into(executor, x, {7}, backwards, y);
    check_no_allocation(resource, [&] { lod::map_rows_into(executor, x, {7}, backwards, y); });
    bool all = true;
    for (std::int64_t i = 0; i < x.rows() * 7; ++i) all = all && y.data()[i] == x.data()[i / 7 * 7 + 6 - i % 7] + 1;
    CHECK(all);
    auto z = x;
    lod::map_rows_into(executor, z, {7}, backwards, z);
    CHECK(same_bits(y, z));
  }
}

TEST_CASE("map_rows: an exception reaches the caller; wrong outputs change nothing") {
  const LoDTensor<float> x(LoD::from_lengths({{40000}}), {3});
  const auto nothing = [](const float*, float*) {};
  for (const int threads : thread_counts) {
    const lod::CpuExecutor executor(threads);
    CHECK_THROWS_AS(static_cast<void>(lod::map_rows<float>(
                        executor, x, {3}, [](const float*, float*) { throw std::runtime_error("no"); })),
                    std::runtime_error);
  }
  const lod::CpuExecutor executor(1);
  LoDTensor<float> y({1});
  y.values()[0] = 7;
  check_throws<lod::ShapeMismatch>([&] { lod::map_rows_into(executor, x, {3}, nothing, y.view()); }, "map_rows: ", y);
  LoDTensor<float> z(LoD::from_lengths({{4}}), {6});
  check_throws<std::invalid_argument>([&] { lod::map_rows_into(executor, z, {3}, nothing, z); },
                                      "map_rows: the output overlaps x", z);
}

// SPDX-License-Identifier: Apache-2.0
/// @file
/// What must not allocate.
#include "support/count_allocations.hpp"
#include <lod/lod_tensor.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

using lod_test::allocations;

TEST_CASE("Slices: of any kind and depth, and loops over them, allocate nothing") {
  lod::LoDTensor<float> x(lod::LoD::from_lengths({{2, 1}, {3, 1, 2}, {3, 2, 4, 1, 2, 3}}), {2});
  const auto& constant = x;
  const std::vector<std::int64_t> branch = {0, 1, 0};
  std::int64_t rows = 0;

  const std::int64_t before = allocations;
  rows += x.slice({1}).rows() + x.slice({0, 1}).rows() + constant.slice({0, 0, 2}).rows() + x.slice(branch).rows();
  rows += x[0][1][0].rows() + x.between(0, 2).between(1, 2).rows() + x.view().shape()[0] + x.shape()[0];
  for (auto outer : x) {
    for (auto middle : outer) {
      for (auto inner : middle) rows += inner.rows() + static_cast<std::int64_t>(inner.row(0).size());
    }
  }
  const lod::LoD index = x.lod();
  const lod::LoD whole = x.view().lod();
  rows += index.rows() + index.view()[1].rows() + whole.max_length(0);
  const bool same = whole == index && x.view().with_lod(index).rows() == 15;
  const std::int64_t after = allocations;

  CHECK(after == before);
  CHECK(rows > 0);
  CHECK(same);
}

TEST_CASE("LoDTensor: moves, and resizes within the memory it has, allocate no memory") {
  const lod::LoD large = lod::LoD::from_lengths({{9, 9}}), small = lod::LoD::from_lengths({{2, 3}});
  lod::LoDTensor<float> x(large, {4});
  const lod::Shape row_shape = {4};
  const std::int64_t before = allocations;
  lod::LoDTensor<float> y = std::move(x);
  y.resize(small, row_shape);
  y.resize(large, row_shape);
  const lod::LoDTensor<float> z = std::move(y).with_lod(large);
  CHECK(allocations == before);
  CHECK(z.rows() == 18);
}

TEST_CASE("LoD and LoDTensor: threads copy and drop them at the same time") {
  const lod::LoD index = lod::LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}});
  lod::LoDTensor<int> x(index, {2});
  const auto constant = std::as_const(x).with_lod(index);
  std::vector<std::thread> threads;
  std::atomic<std::int64_t> rows = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        const lod::LoD copy = index;
        const auto shared = constant.with_lod(copy);
        const auto own = lod::LoDTensor<int>::copy_of(shared.slice({2}));
        rows += own.rows() + copy.view()[0].size();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(rows == 4 * 100 * (5 + 3));
  CHECK(index.rows() == 15);
}

// SPDX-License-Identifier: Apache-2.0
// What several threads of the user's may do at a time. `.ci/run threads` runs this, and all other cases, under the
// thread sanitizer.
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace {

/// Runs f(thread) on `count` threads at a time. Checks of doctest are left to the caller: they are slow under locks.
void on_threads(int count, const std::function<void(int)>& f) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < count; ++thread) threads.emplace_back(f, thread);
  for (auto& thread : threads) thread.join();
}

lod::LoDTensor<float> random_batch(std::uint64_t seed) {
  CAPTURE(seed);
  lod_test::Engine engine(seed);
  lod::LoDTensor<float> x(lod_test::giant_among_short(engine, 500, 9000), {3});
  lod_test::fill_small(engine, x);
  return x;
}

bool same(const lod::LoDTensor<float>& a, const lod::LoDTensor<float>& b) {
  return a.lod() == b.lod() &&
         std::vector(a.values().begin(), a.values().end()) == std::vector(b.values().begin(), b.values().end());
}

}  // namespace

TEST_CASE("Threads: operations on one tensor, each thread with an executor of its own") {
  const auto x = random_batch(1);
  const auto sums = lod::sequence_pool(x, lod::PoolType::SUM);
  const auto softmax = lod::sequence_softmax(x);
  const auto reversed = lod::sequence_reverse(x);
  std::vector<char> right(4, 1);
  on_threads(4, [&](int thread) {
    const lod::CpuExecutor executor(1 + thread % 2);
    char& mine = right[static_cast<std::size_t>(thread)];
    for (int round = 0; round < 3; ++round) {
      mine = mine && same(lod::sequence_pool(executor, x, lod::PoolType::SUM), sums) &&
             same(lod::sequence_softmax(executor, x), softmax) && same(lod::sequence_reverse(executor, x), reversed);
    }
  });
  CHECK(right == std::vector<char>(4, 1));
}

TEST_CASE("Threads: operations by one executor, whose scratch memory they share, and by the default one") {
  const auto x = random_batch(2);
  const auto logarithms = lod::sequence_log_softmax(x);
  const auto maxima = lod::sequence_pool(x, lod::PoolType::MAX);
  const lod::CpuExecutor shared(2);
  std::vector<char> right(4, 1);
  on_threads(4, [&](int thread) {
    char& mine = right[static_cast<std::size_t>(thread)];
    for (int round = 0; round < 3; ++round) {
      mine = mine && same(lod::sequence_log_softmax(shared, x), logarithms) &&
             same(lod::sequence_pool(x, lod::PoolType::MAX), maxima);
    }
  });
  CHECK(right == std::vector<char>(4, 1));
}

TEST_CASE("Threads: slices, iteration and copies of one tensor, while its LoD goes to other tensors") {
  const auto x = lod::LoDTensor<float>(lod::LoD::from_lengths({{3, 1, 2}, {3, 2, 4, 1, 2, 3}}), {2});
  std::vector<std::int64_t> rows(4);
  on_threads(4, [&](int thread) {
    std::int64_t& count = rows[static_cast<std::size_t>(thread)];
    for (int round = 0; round < 50; ++round) {
      for (auto article : x) {
        for (auto sentence : article) count += sentence.rows();
      }
      const lod::LoDTensor<double> other(x.lod(), {1});
      const auto kept = lod::LoDTensor<float>::copy_of(x.slice({2}));
      count += other.rows() + kept.rows() + x.slice({0, 2}).lod().rows();
    }
  });
  CHECK(rows == std::vector<std::int64_t>(4, 50 * (15 + 15 + 5 + 4)));
}

TEST_CASE("Threads: parts of one tensor are written at a time") {
  auto x = random_batch(3);
  on_threads(4, [&](int thread) {
    for (std::int64_t sequence = thread; sequence < x.size(); sequence += 4) {
      for (float& value : x[sequence].values()) value = static_cast<float>(sequence);
    }
  });
  const auto last = x[x.size() / 2].values();
  CHECK(std::vector(last.begin(), last.end()) == std::vector<float>(last.size(), static_cast<float>(x.size() / 2)));
}

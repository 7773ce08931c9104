// SPDX-License-Identifier: Apache-2.0
// Operations in children of fork(), and in processes that may start few threads.
#include "support/in_child.hpp"
#include "support/random_batch.hpp"
#include "support/same_bits.hpp"
#include <lod/lod.hpp>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

using namespace lod_test;

namespace {

/// A batch that all threads share, and what operations make of it.
struct Work {
  explicit Work(int threads) : executor(threads) {
    Engine engine(3);
    x = real_numbers<float>(engine, giant_among_short(engine, 100, 400000), {3});
  }
  lod::LoDTensor<float> operator()() const {
    return lod::sequence_pool(executor, lod::sequence_cumsum(executor, x), lod::PoolType::AVERAGE);
  }

  lod::CpuExecutor executor;
  lod::LoDTensor<float> x;
};

}  // namespace

#ifndef LOD_TEST_NO_THREADS_IN_CHILD

TEST_CASE("fork: operations in a child give the same bits, whether the parent has used threads before or not") {
  const Work work(2);
  CHECK(in_child([&] { return work().rows() == 100 ? 0 : 1; }) == 0);
  const auto expected = work();
  for (int i = 0; i < 5; ++i) {
    CHECK(in_child([&] { return same_bits(work(), expected) ? 0 : 1; }) == 0);
    CHECK(same_bits(work(), expected));
  }
  // Of a child, too.
  CHECK(in_child([&] {
          work();
          return in_child([&] { return same_bits(work(), expected) ? 0 : 1; });
        }) == 0);
}

#  ifndef LOD_TEST_NO_FORK_BESIDE_MALLOC
TEST_CASE("fork: operations in a child end while other threads of the parent are at work with the same executor") {
  const Work work(2);
  const auto expected = work();
  // Many short operations: one of them is likely to hold a lock of the workspace when the process forks.
  const auto few = lod::LoDTensor<float>(lod::LoD::from_lengths({{2, 0, 3}}), {});
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        static_cast<void>(lod::sequence_softmax(work.executor, few));
        static_cast<void>(lod::map_sequences(work.executor, few, [](const auto& x) { return x; }));
      }
    });
  }
  threads.emplace_back([&] {
    while (!stop) work();
  });
  int wrong = 0;
  for (int i = 0; i < 50; ++i) {
    wrong += in_child([&] {
               static_cast<void>(lod::sequence_softmax(work.executor, few));
               static_cast<void>(lod::map_sequences(work.executor, few, [](const auto& x) { return x; }));
               return same_bits(work(), expected) ? 0 : 1;
             }) != 0;
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
#  endif

TEST_CASE("fork: a child of a parallel region's thread works alone") {
  const Work work(2);
  const auto expected = work();
  int wrong = 0;
#  pragma omp parallel num_threads(2) reduction(+ : wrong)
  wrong += in_child([&] { return same_bits(work(), expected) ? 0 : 1; }) != 0;
  CHECK(wrong == 0);
}

TEST_CASE("CpuExecutor: a process that may start fewer threads works with fewer") {
  const int result = in_child([] {
    // Root is not limited.
    if (getuid() == 0 && setuid(54321) != 0) return 0;
    const rlimit limit{12, 12};
    if (setrlimit(RLIMIT_NPROC, &limit) != 0) return 0;
    const Work alone(1), many(1000);
    return same_bits(many(), alone()) && same_bits(many(), alone()) ? 0 : 1;
  });
  CHECK(result == 0);
}

#endif

#ifndef LOD_TEST_NO_LIMITED_ADDRESSES
TEST_CASE("CpuExecutor: a process whose address space is limited works with fewer threads") {
  const int result = in_child([] {
    const Work alone(1), many(1000);
    const auto expected = alone();
    const rlimit limit{rlim_t{1} << 30, rlim_t{1} << 30};
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 0;
    return same_bits(many(), expected) ? 0 : 1;
  });
  CHECK(result == 0);
}
#endif

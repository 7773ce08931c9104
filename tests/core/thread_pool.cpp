// SPDX-License-Identifier: Apache-2.0
#include <lod/core/thread_pool.hpp>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// clang's sanitizer of threads starts none in a child of a process that has some.
#ifdef __has_feature
#  if __has_feature(thread_sanitizer)
#    define LOD_TEST_NO_THREADS_IN_CHILD
#  endif
#endif

namespace {

using lod::detail::SharedTasks;
using lod::detail::ThreadPool;

/// Does body(task, thread) for so many tasks, by at most so many threads.
template <class Body>
void share(std::int64_t tasks, int threads, const Body& body) {
  SharedTasks shared(
      tasks, [](const void* f, std::int64_t task, int thread) { (*static_cast<const Body*>(f))(task, thread); }, &body);
  ThreadPool::of_module().run(shared, threads, true);
  shared.rethrow();
}

/// Waits, but not for ever: the pool does not promise that two tasks are done at the same time.
void wait_for(const std::atomic<int>& number, int value) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  while (number < value && std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

/// Whether all of so many tasks are done, each once, by threads with numbers below `threads`.
bool done_once(std::int64_t tasks, int threads) {
  std::vector<std::atomic<int>> done(static_cast<std::size_t>(tasks));
  std::atomic<int> wrong = 0;
  share(tasks, threads, [&](std::int64_t task, int thread) {
    ++done[static_cast<std::size_t>(task)];
    if (thread < 0 || thread >= threads) ++wrong;
  });
  for (const std::atomic<int>& times : done) wrong += times != 1;
  return wrong == 0;
}

}  // namespace

TEST_CASE("ThreadPool: does every task once, whatever the number of threads") {
  for (const int threads : {1, 2, 3, 8}) {
    for (const std::int64_t tasks : {0, 1, 2, 7, 1000}) CHECK(done_once(tasks, threads));
  }
}

TEST_CASE("ThreadPool: threads that are in the same tasks have different numbers") {
  std::atomic<int> inside = 0, numbers = 0, twice = 0;
  share(6, 3, [&](std::int64_t, int thread) {
    const int mine = 1 << thread;
    if ((numbers.fetch_or(mine) & mine) != 0) ++twice;
    ++inside;
    wait_for(inside, 3);
    numbers &= ~mine;
  });
  CHECK(twice == 0);
}

TEST_CASE("ThreadPool: nobody waits for a thread that has something else to do") {
  std::atomic<int> inside = 0, go = 0;
  std::thread other([&] {
    share(4, 4, [&](std::int64_t, int) {
      ++inside;
      while (go == 0) std::this_thread::yield();
    });
  });
  wait_for(inside, 4);
  CHECK(done_once(100, 4));
  go = 1;
  other.join();
}

TEST_CASE("ThreadPool: work that takes long is shared, even after threads were put aside") {
  for (int i = 0; i < 5; ++i) {
    share(4, 2, [](std::int64_t, int) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
  }
  std::atomic<int> inside = 0;
  share(3, 2, [&](std::int64_t task, int) {
    if (task == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (task > 0) ++inside;
    wait_for(inside, 2);
  });
  CHECK(inside == 2);
  CHECK(done_once(1000, 2));
}

TEST_CASE("ThreadPool: tasks may have tasks, and callers may be many") {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        share(5, 3, [&](std::int64_t task, int) { wrong += !done_once(task, 2); });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("ThreadPool: passes on what a task throws, and works on") {
  for (int round = 0; round < 20; ++round) {
    CHECK_THROWS_WITH_AS(share(100, 3,
                               [](std::int64_t task, int) {
                                 if (task == 50) throw std::out_of_range("task 50");
                               }),
                         "task 50", std::out_of_range);
  }
  CHECK(done_once(100, 3));
}

#ifndef LOD_TEST_NO_THREADS_IN_CHILD
TEST_CASE("ThreadPool: a child of a fork in a task neither hangs nor claims to have done all") {
  const auto child_of_task = [](bool of_caller) {
    std::atomic<int> forked = 0, done = 0;
    pid_t child = -1;
    std::string error;
    const std::thread::id caller = std::this_thread::get_id();
    try {
      share(20, 2, [&](std::int64_t, int) {
        if ((std::this_thread::get_id() == caller) != of_caller) {
          wait_for(forked, 1);
        } else if (forked.exchange(1) == 0) {
          child = fork();
          if (child == 0) {
            alarm(60);
            // A sanitizer that looks for leaks at the end misses the threads that the child does not have.
            static_cast<void>(std::atexit([] { _exit(0); }));
          }
        }
        ++done;
      });
    } catch (const std::runtime_error& thrown) {
      error = thrown.what();
    }
    if (child < 0 && !of_caller) {  // as where there is one processor only
      MESSAGE("no thread of the pool took part in 20 tasks: none was forked");
      return 0;
    }
    REQUIRE(child >= 0);
    if (child == 0) _exit(error.empty() && done < 20 ? 1 : done_once(100, 2) ? 7 : 2);
    CHECK(error.empty());
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
  };
  CHECK(child_of_task(true) == 7);
  CHECK(child_of_task(false) == 0);  // the caller is not there to notice: the child ends with its only thread
}
#endif

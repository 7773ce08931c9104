// SPDX-License-Identifier: Apache-2.0
/// @file
/// How many OpenMP threads there can be. OpenMP runtimes end the program if the system refuses to start a thread, and
/// wait for ever for threads that a fork has lost; so both are found out beforehand.
#pragma once

#include <lod/core/executor.hpp>
#include <lod/core/forks.hpp>
#include <lod/core/target.hpp>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#ifdef __linux__
#  include <sys/syscall.h>
#  include <unistd.h>
#endif

#include <algorithm>
#include <ctime>
#include <memory>
#include <mutex>
#include <new>

namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu {

/// Starts up to `count` threads that do nothing, all alive at the same time, and ends them. Returns how many started.
inline int count_startable_threads(int count) noexcept {
  struct Thread {
    pthread_t handle;
    pid_t id;
    std::mutex* end;
    static void* run(void* self) {
      auto* const thread = static_cast<Thread*>(self);
#ifdef __linux__
      thread->id = static_cast<pid_t>(syscall(SYS_gettid));
#endif
      const std::lock_guard wait(*thread->end);
      return nullptr;
    }
  };
  const std::unique_ptr<Thread[]> threads(new (std::nothrow) Thread[static_cast<std::size_t>(count)]);
  if (!threads) return 0;
  std::mutex end;
  // Signals go to the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int started = 0;
  {
    const std::lock_guard wait(end);
    for (; started < count; ++started) {
      Thread& thread = threads[static_cast<std::size_t>(started)];
      thread.id = 0;
      thread.end = &end;
      if (pthread_create(&thread.handle, nullptr, Thread::run, &thread) != 0) break;
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  for (int i = 0; i < started; ++i) pthread_join(threads[static_cast<std::size_t>(i)].handle, nullptr);
#ifdef __linux__
  // A joined thread counts against the system's limits until it is completely gone.
  const std::clock_t begin = std::clock();
  for (int i = 0; i < started; ++i) {
    const pid_t id = threads[static_cast<std::size_t>(i)].id;
    while (syscall(SYS_tgkill, getpid(), id, 0) == 0 && std::clock() - begin < CLOCKS_PER_SEC) sched_yield();
  }
#endif
  return started;
}

/// The number of threads known to be startable, for the whole program: each greater number is tried once.
struct StartableThreads {
  int count = 1;
  int limited = 0;  ///< 1 if more were refused
};
inline StartableThreads startable_threads;

/// `threads`, or fewer if the system has refused to start that many.
inline int limited_threads(int threads) noexcept {
  if (__atomic_load_n(&startable_threads.limited, __ATOMIC_ACQUIRE) == 0) return threads;
  return std::min(threads, __atomic_load_n(&startable_threads.count, __ATOMIC_RELAXED));
}

/// The number of threads that the calling thread may have in a parallel region, at most `threads`.
inline int team_size(int threads) noexcept {
  if (threads > __atomic_load_n(&startable_threads.count, __ATOMIC_RELAXED) &&
      __atomic_load_n(&startable_threads.limited, __ATOMIC_ACQUIRE) == 0) {
    const int started = 1 + count_startable_threads(threads - 1);
    const bool enough = started >= threads;
    // Half of them: others need threads too, and each thread that calls operations has a team of its own.
    const int found = enough ? threads : std::max(started / 2, 1);
    int known = __atomic_load_n(&startable_threads.count, __ATOMIC_RELAXED);
    while (known < found && !__atomic_compare_exchange_n(&startable_threads.count, &known, found, false,
                                                         __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
    if (!enough) __atomic_store_n(&startable_threads.limited, 1, __ATOMIC_RELEASE);
  }
  return lod::detail::lost_threads() ? 1 : limited_threads(threads);
}

}  // namespace lod::inline LOD_INTERFACE::kernel::inline LOD_TARGET::cpu

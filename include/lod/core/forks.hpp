// SPDX-License-Identifier: Apache-2.0
/// @file
/// fork(): the child has the memory of its parent, but only the thread that called. Mutexes that other threads held
/// stay locked, and the threads that g++'s OpenMP runtime keeps for the next parallel region are gone; that region
/// would wait for them.
#pragma once

#include <lod/core/target.hpp>

#include <pthread.h>
#ifdef __linux__
#  include <unistd.h>
#endif

#include <cstdio>
#include <cstring>
#include <mutex>

namespace lod::inline LOD_INTERFACE::detail {

#ifdef __linux__
/// The runtime's omp_pause_resource_all, null in a program without OpenMP; and a function that exists only in clang's
/// runtime, which repairs itself in a child, and not in g++'s.
extern "C" [[gnu::weak]] int lod_omp_pause_resource_all(int) __asm__("omp_pause_resource_all");
extern "C" [[gnu::weak]] void lod_kmpc_begin(void*, int) __asm__("__kmpc_begin");
#endif

/// What is known of the forks in this process's ancestry.
struct Forks {
  enum Answer : int { UNKNOWN, NO, YES };
  int seen = 0;                    ///< since the library was loaded
  Answer loses_threads = UNKNOWN;  ///< whether the main thread may wait for threads that are gone
  bool unprepared = false;         ///< for a fork in progress: the caller's threads could not be ended
};
inline Forks forks;

/// Whether the process was forked and has not called exec since: one of the flags that Linux shows for a main thread.
LOD_TAGGED inline bool forked_without_exec() noexcept {
  unsigned flags = 0;
#ifdef __linux__
  if (std::FILE* const file = std::fopen("/proc/self/stat", "re")) {
    char line[512];
    line[std::fread(line, 1, sizeof line - 1, file)] = '\0';
    std::fclose(file);
    // After the name in parentheses: the state, five numbers, the flags.
    const char* const name_end = std::strrchr(line, ')');
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the kernel writes numbers that fit
    if (!name_end || std::sscanf(name_end, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1) flags = 0;
  }
#endif
  constexpr unsigned forked_no_exec = 0x40;
  return (flags & forked_no_exec) != 0;
}

/// Whether the main thread's OpenMP threads may have been lost in a fork that the library did not see, because it was
/// loaded later, or that it could not prepare for. First called before the first fork that the library sees.
LOD_TAGGED inline bool main_thread_lost_threads() noexcept {
  Forks::Answer answer;
  __atomic_load(&forks.loses_threads, &answer, __ATOMIC_RELAXED);
  if (answer == Forks::UNKNOWN) {
    answer = forked_without_exec() ? Forks::YES : Forks::NO;
    __atomic_store(&forks.loses_threads, &answer, __ATOMIC_RELAXED);
  }
  return answer == Forks::YES;
}
/// The same for the calling thread.
LOD_TAGGED inline bool lost_threads() noexcept {
#ifdef __linux__
  return main_thread_lost_threads() && gettid() == getpid();
#else
  return false;
#endif
}

/// Before each fork the calling thread ends the threads that OpenMP keeps for it; parent and child start new ones when
/// they need them.
LOD_TAGGED inline bool watch_forks() noexcept {
  constexpr auto prepare = [] {
    if (main_thread_lost_threads()) return;
#ifdef __linux__
    constexpr int soft = 1;
    // Impossible inside a parallel region.
    if (lod_omp_pause_resource_all && !lod_kmpc_begin) forks.unprepared = lod_omp_pause_resource_all(soft) != 0;
#endif
  };
  constexpr auto in_parent = [] { forks.unprepared = false; };
  constexpr auto in_child = [] {
    ++forks.seen;
    if (forks.unprepared) forks.loses_threads = Forks::YES;
    forks.unprepared = false;
  };
  return pthread_atfork(prepare, in_parent, in_child) == 0;
}
#ifndef LOD_RUN  // the compiled library runs nothing before a program has checked which instructions there are
inline const bool forks_are_watched = watch_forks();
#endif

/// Locks a mutex that was created when this process had seen `forks_before` forks. If that was before the last fork, a
/// thread of the parent may hold it for ever: then only tries to lock it.
LOD_TAGGED [[gnu::always_inline]] inline std::unique_lock<std::mutex> lock_unless_lost(std::mutex& mutex,
                                                                                       int forks_before) {
  if (forks_before == forks.seen) return std::unique_lock(mutex);
  return std::unique_lock(mutex, std::try_to_lock);
}

}  // namespace lod::inline LOD_INTERFACE::detail

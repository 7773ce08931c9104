// SPDX-License-Identifier: Apache-2.0
/// @file
/// Children of fork().
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

// What clang's sanitizers cannot do: that of threads starts none in a child; that of addresses needs terabytes of them,
// and up to LLVM 16 its own malloc may stay locked in a child for ever where another thread was in it at the fork.
#ifdef __has_feature
#  if __has_feature(thread_sanitizer)
#    define LOD_TEST_NO_THREADS_IN_CHILD
#  endif
#  if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#    define LOD_TEST_NO_LIMITED_ADDRESSES
#  endif
#  if __has_feature(address_sanitizer) && __clang_major__ < 17
#    define LOD_TEST_NO_FORK_BESIDE_MALLOC
#  endif
#endif

namespace lod_test {

/// Runs f in a child, which has a minute. Returns what f does, and -1 where the child came to another end.
template <class F>
int in_child(const F& f) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);
    _exit(f());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace lod_test

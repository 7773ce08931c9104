// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup core
/// How many processors a process may use: fewer than the machine has if a cluster's job or a container is limited to
/// some of them.
#pragma once

#include <lod/core/target.hpp>

#include <unistd.h>
#ifdef __linux__
#  include <sched.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <string>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

#ifdef __linux__
/// The runtime's omp_get_num_procs, null in a program without OpenMP. Not through <omp.h>: all files of a program get
/// the same answer, including those that are compiled without OpenMP.
extern "C" [[gnu::weak]] int lod_omp_get_num_procs() __asm__("omp_get_num_procs");
#endif

/// The number of processors that the calling thread is bound to: by taskset, by a cpuset, by a cluster's scheduler.
inline int processors_bound_to() {
#ifdef __linux__
  // OpenMP itself may have bound this thread to fewer (OMP_PROC_BIND); its runtime knows how many there were before.
  if (lod_omp_get_num_procs) return std::max(1, lod_omp_get_num_procs());
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof processors, &processors) == 0) return CPU_COUNT(&processors);
#endif
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

/// The beginning of a file, empty if it cannot be read.
inline std::string beginning_of(const std::string& path) {
  std::string text;
  if (std::FILE* const file = std::fopen(path.c_str(), "re")) {
    char bytes[4096];
    text.assign(bytes, std::fread(bytes, 1, sizeof bytes, file));
    std::fclose(file);
  }
  return text;
}

/// How many processors' time the process's control group (version 2) and the enclosing ones allow: the least of their
/// quotas in whole processors, at least 1; the greatest int without a quota. `root` is put before /proc and /sys.
inline int processors_by_quota(const std::string& root = {}) {
  constexpr int unlimited = std::numeric_limits<int>::max();
  int least = unlimited;
  const std::string key = "\n0::";
  std::string groups = "\n";
  groups += beginning_of(root + "/proc/self/cgroup");
  std::size_t begin = groups.find(key);
  if (begin == std::string::npos) return unlimited;
  begin += key.size();
  std::string group = groups.substr(begin, groups.find('\n', begin) - begin);
  // In a container the group may have the machine's name for it: if it is not found under that, it is at the top.
  for (std::size_t end = group.size(); end != std::string::npos; end = group.rfind('/')) {
    group.resize(end);
    const std::string limit = beginning_of(root + "/sys/fs/cgroup" + group + "/cpu.max");
    // Microseconds of processor time per so many microseconds; "max" in place of the first means no limit.
    long long quota = 0, period = 0;
    // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the kernel writes numbers that fit
    if (std::sscanf(limit.c_str(), "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0) {
      least = static_cast<int>(std::clamp<long long>(quota / period, 1, least));
    }
  }
  return least;
}

/// How many processors this process may use: more threads would wait for each other. At least 1.
inline int usable_processors() {
  static int quota = 0;  // 0: not known yet; not an object with a guard, which a child of fork() might wait for
  int known = __atomic_load_n(&quota, __ATOMIC_RELAXED);
  if (known == 0) {
    known = processors_by_quota();
    __atomic_store_n(&quota, known, __ATOMIC_RELAXED);
  }
  return std::min(known, processors_bound_to());
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

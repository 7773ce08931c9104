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
[[gnu::cold]] inline std::string beginning_of(const std::string& path) {
  std::string text;
  if (std::FILE* const file = std::fopen(path.c_str(), "re")) {
    char bytes[4096];
    text.assign(bytes, std::fread(bytes, 1, sizeof bytes, file));
    std::fclose(file);
  }
  return text;
}

/// The folder below /sys/fs/cgroup in which Linux keeps the limits of a control group that is named in a line of
/// /proc/self/cgroup, `<number>:<controllers>:<group>`: "" for version 2, which names no controllers, and "/cpu" for
/// the controller of version 1 that limits processors. Null for others.
inline const char* quota_folder(const std::string& controllers) {
  if (controllers.empty()) return "";
  return (',' + controllers + ',').find(",cpu,") != std::string::npos ? "/cpu" : nullptr;
}

/// How many processors' time a control group allows, in whole processors, at least 1; the greatest int without a quota.
[[gnu::cold]] inline int processors_of_group(const std::string& folder) {
  // The quota, in microseconds of processor time, and its period in microseconds: version 2 has them in one file,
  // version 1 in two. "max", or -1 in version 1, in place of the first means no limit.
  std::string limit = beginning_of(folder + "/cpu.max");
  if (limit.empty()) {
    limit = beginning_of(folder + "/cpu.cfs_quota_us") + ' ' + beginning_of(folder + "/cpu.cfs_period_us");
  }
  constexpr int unlimited = std::numeric_limits<int>::max();
  long long quota = 0, period = 0;
  // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the kernel writes numbers that fit
  const bool limited = std::sscanf(limit.c_str(), "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0;
  return limited ? static_cast<int>(std::clamp<long long>(quota / period, 1, unlimited)) : unlimited;
}

/// How many processors' time the process's control groups and the enclosing ones allow, of version 2 and of version 1:
/// the least of their quotas; the greatest int without a quota. `root` is put before /proc and /sys.
[[gnu::cold]] inline int processors_by_quota(const std::string& root = {}) {
  int least = std::numeric_limits<int>::max();
  const std::string groups = beginning_of(root + "/proc/self/cgroup");
  for (std::size_t begin = 0, end = 0; begin < groups.size(); begin = end + 1) {
    end = std::min(groups.find('\n', begin), groups.size());
    const std::size_t controllers = groups.find(':', begin) + 1, name = groups.find(':', controllers) + 1;
    if (controllers == 0 || name == 0 || name > end) continue;
    const char* const folder = quota_folder(groups.substr(controllers, name - 1 - controllers));
    if (!folder) continue;
    std::string group = groups.substr(name, end - name);
    // In a container the group may have the machine's name for it: if it is not found under that, it is at the top.
    for (std::size_t length = group.size(); length != std::string::npos; length = group.rfind('/')) {
      group.resize(length);
      least = std::min(least, processors_of_group(root + "/sys/fs/cgroup" + folder + group));
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

// SPDX-License-Identifier: Apache-2.0
#include "support/temporary_folder.hpp"
#include <lod/core/processors.hpp>
#include <lod/executor.hpp>

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace {

constexpr int unlimited = std::numeric_limits<int>::max();

/// The files from which Linux lets a process know its control groups and their limits.
class ControlGroups {
 public:
  explicit ControlGroups(const std::string& own) { write("/proc/self", "cgroup", own); }
  /// Sets the limit of a group, "" or "/a/b".
  void limit(const std::string& group, const std::string& text) { write("/sys/fs/cgroup" + group, "cpu.max", text); }
  /// The same under version 1.
  void limit_1(const std::string& group, const std::string& quota, const std::string& period) {
    write("/sys/fs/cgroup/cpu" + group, "cpu.cfs_quota_us", quota);
    write("/sys/fs/cgroup/cpu" + group, "cpu.cfs_period_us", period);
  }
  int processors() const { return lod::detail::processors_by_quota(folder_.path()); }

 private:
  void write(const std::string& folder, const std::string& name, const std::string& text) {
    std::filesystem::create_directories(folder_.path() + folder);
    std::ofstream(folder_.path() + folder + "/" + name) << text;
  }
  lod_test::TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("CpuExecutor: by default no more threads than the process is bound to") {
  cpu_set_t bound;
  REQUIRE(sched_getaffinity(0, sizeof bound, &bound) == 0);
  CHECK(lod::CpuExecutor().threads() >= 1);
  CHECK(lod::CpuExecutor().threads() <= CPU_COUNT(&bound));

  std::size_t first = 0;
  while (!CPU_ISSET(first, &bound)) ++first;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    _exit(sched_setaffinity(0, sizeof one, &one) == 0 ? lod::CpuExecutor().threads() : 0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
}

TEST_CASE("processors_by_quota: whole processors of the control group's quota, at least one") {
  ControlGroups groups("0::/job\n");
  CHECK(groups.processors() == unlimited);
  groups.limit("/job", "400000 100000\n");
  CHECK(groups.processors() == 4);
  groups.limit("/job", "399999 100000\n");
  CHECK(groups.processors() == 3);
  groups.limit("/job", "50000 100000\n");
  CHECK(groups.processors() == 1);
  groups.limit("/job", "max 100000\n");
  CHECK(groups.processors() == unlimited);
}

TEST_CASE("processors_by_quota: the least of a group and those around it") {
  ControlGroups groups("1:cpu:/other\n0::/pod/container\n");
  groups.limit("/pod/container", "800000 100000\n");
  CHECK(groups.processors() == 8);
  groups.limit("/pod", "100000 50000\n");
  CHECK(groups.processors() == 2);
  groups.limit("/other", "100000 100000\n");
  CHECK(groups.processors() == 2);
}

TEST_CASE("processors_by_quota: in a container the group is at the top, whatever its name") {
  ControlGroups named("0::/machine/container\n"), unnamed("0::/");
  named.limit("", "300000 100000\n");
  CHECK(named.processors() == 3);
  unnamed.limit("", "300000 100000\n");
  CHECK(unnamed.processors() == 3);
}

TEST_CASE("processors_by_quota: of version 1, the group of the controller of processors and those around it") {
  ControlGroups groups("5:cpuset:/set\n4:cpu,cpuacct:/pod/container\n1:name=systemd:/pod\n0::/\n");
  groups.limit_1("/set", "100000\n", "100000\n");
  groups.limit_1("/pod/container", "-1\n", "100000\n");
  CHECK(groups.processors() == unlimited);
  groups.limit_1("", "650000\n", "100000\n");
  CHECK(groups.processors() == 6);
  groups.limit_1("/pod", "100000\n", "50000\n");
  CHECK(groups.processors() == 2);
  groups.limit_1("/pod/container", "20000\n", "100000\n");
  CHECK(groups.processors() == 1);
  groups.limit("", "100000 100000\n");  // both versions may be there
  CHECK(groups.processors() == 1);
}

TEST_CASE("processors_by_quota: what cannot be read is no limit") {
  CHECK(lod::detail::processors_by_quota("/nowhere") == unlimited);
  CHECK(ControlGroups("").processors() == unlimited);
  CHECK(ControlGroups("1:cpu:/version/one\n").processors() == unlimited);
  for (const char* const text : {"", "\n", "100000", "many 100000\n", "100000 0\n", "-1 100000\n"}) {
    ControlGroups groups("0::/job\n");
    groups.limit("/job", text);
    CHECK(groups.processors() == unlimited);
  }
  ControlGroups large("0::/job\n");
  large.limit("/job", "9000000000000000000 1\n");
  CHECK(large.processors() == unlimited);
}

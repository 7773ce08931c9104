// SPDX-License-Identifier: Apache-2.0
// Who may use a file when another one has taken its place: nobody who might not use the old one.
#include "support/grain.hpp"
#include "support/random_batch.hpp"
#include "support/random_lod.hpp"
#include "support/temporary_folder.hpp"
#include <lod/io/atomic_file.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using lod::detail::AtomicFile;
using namespace lod_test;

namespace {

constexpr const char* access_list = "system.posix_acl_access";
constexpr const char* default_list = "system.posix_acl_default";

/// An entry of an access control list, as the system has it.
struct Entry {
  std::uint16_t tag;
  std::uint16_t permissions;
  std::uint32_t id = 0xffffffff;
  bool operator==(const Entry&) const = default;
};
constexpr std::uint16_t the_owner = 1, a_user = 2, the_group = 4, a_group = 8, the_mask = 16, the_others = 32;
using List = std::vector<Entry>;

bool set_list(const std::string& path, const char* attribute, const List& entries) {
  const std::uint32_t version = 2;
  std::vector<char> bytes(sizeof(version) + entries.size() * sizeof(Entry));
  std::memcpy(bytes.data(), &version, sizeof(version));
  std::memcpy(bytes.data() + sizeof(version), entries.data(), entries.size() * sizeof(Entry));
  return ::setxattr(path.c_str(), attribute, bytes.data(), bytes.size(), 0) == 0;
}
/// All that says who may use a file.
struct Access {
  ::uid_t owner = 0;
  ::gid_t group = 0;
  ::mode_t mode = 0;
  List list = {};
  bool operator==(const Access&) const = default;

  /// Whether somebody may read (4), write (2) or execute (1), by the algorithm of POSIX.1e.
  bool allows(::uid_t who, const std::vector<::gid_t>& groups, unsigned wanted) const {
    const auto is_in = [&](::gid_t id) { return std::find(groups.begin(), groups.end(), id) != groups.end(); };
    const auto has = [&](unsigned permissions) { return (permissions & wanted) == wanted; };
    if (who == owner) return has(mode >> 6 & 7U);
    if (list.empty()) return has(is_in(group) ? mode >> 3 & 7U : mode & 7U);
    unsigned most = 7;
    for (const Entry& entry : list) {
      if (entry.tag == the_mask) most = entry.permissions;
    }
    bool is_named = false, is_allowed = false;
    for (const Entry& entry : list) {
      if (entry.tag == a_user && entry.id == who) return has(entry.permissions & most);
      if ((entry.tag == the_group && is_in(group)) || (entry.tag == a_group && is_in(entry.id))) {
        is_named = true;
        is_allowed |= has(entry.permissions & most);
      }
    }
    return is_named ? is_allowed : has(mode & 7U);
  }
};

Access access_of(const std::string& path) {
  struct ::stat found {};
  REQUIRE(::lstat(path.c_str(), &found) == 0);
  Access access{found.st_uid, found.st_gid, found.st_mode & 07777U};
  char bytes[4096];
  const ::ssize_t size = ::lgetxattr(path.c_str(), access_list, bytes, sizeof(bytes));
  if (size > 4) {
    access.list.resize((static_cast<std::size_t>(size) - 4) / sizeof(Entry));
    std::memcpy(access.list.data(), bytes + 4, access.list.size() * sizeof(Entry));
  }
  return access;
}

/// Saves to a file as somebody else, and says whether that went well.
bool replace_as(const std::string& path, ::uid_t who, const std::vector<::gid_t>& groups) {
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int status = 1;
    try {
      ::umask(022);
      if (::setgroups(groups.size() - 1, groups.data() + 1) == 0 && ::setresgid(groups[0], groups[0], groups[0]) == 0 &&
          ::setresuid(who, who, who) == 0) {
        AtomicFile file(path, false);
        file.write("new", 3);
        file.commit();
        status = 0;
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    ::_exit(status);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

constexpr ::uid_t some_users[] = {61001, 61002, 61003};
constexpr ::gid_t some_groups[] = {62001, 62002, 62003};
std::vector<::gid_t> groups_of(int bits) {
  std::vector<::gid_t> all;
  for (int i = 0; i < 3; ++i) {
    if (bits >> i & 1) all.push_back(some_groups[i]);
  }
  return all;
}

List random_list(Engine& engine) {
  const auto permissions = [&] { return static_cast<std::uint16_t>(random_number(engine, 0, 7)); };
  List list{{the_owner, permissions()}};
  for (const ::uid_t id : some_users) {
    if (random_number(engine, 0, 1)) list.push_back({a_user, permissions(), id});
  }
  list.push_back({the_group, permissions()});
  for (const ::gid_t id : some_groups) {
    if (random_number(engine, 0, 1)) list.push_back({a_group, permissions(), id});
  }
  list.push_back({the_mask, permissions()});
  list.push_back({the_others, permissions()});
  return list;
}

/// Whether these tests can run here; says why not.
bool can_run(const TemporaryFolder& folder) {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root may act as others");
    return false;
  }
  const std::string probe = folder / "probe";
  write_bytes(probe, "");
  const bool has_lists =
      set_list(probe, access_list, {{the_owner, 6}, {a_user, 4, 1}, {the_group, 4}, {the_mask, 4}, {the_others, 0}});
  const bool gives_away = ::chown(probe.c_str(), some_users[0], some_groups[0]) == 0;
  ::unlink(probe.c_str());
  if (!has_lists) MESSAGE("skipped: the file system has no access control lists");
  if (!gives_away) MESSAGE("skipped: root may not give files away here");
  return has_lists && gives_away;
}

}  // namespace

TEST_CASE("AtomicFile: who is root keeps owner, group, permissions and access control list of the file") {
  const TemporaryFolder folder;
  if (!can_run(folder)) return;
  const unsigned seed = 20260731;
  CAPTURE(seed);
  Engine engine(seed);
  const std::string path = folder / "x";
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    ::removexattr(folder.path().c_str(), default_list);
    if (random_number(engine, 0, 1)) REQUIRE(set_list(folder.path(), default_list, random_list(engine)));
    ::unlink(path.c_str());
    write_bytes(path, "old");
    ::removexattr(path.c_str(), access_list);
    REQUIRE(::chown(path.c_str(), some_users[random_number(engine, 0, 2)], some_groups[random_number(engine, 0, 2)]) ==
            0);
    REQUIRE(::chmod(path.c_str(), static_cast<::mode_t>(random_number(engine, 0, 0777))) == 0);
    if (random_number(engine, 0, 1)) REQUIRE(set_list(path, access_list, random_list(engine)));
    const Access before = access_of(path);
    AtomicFile file(path, false);
    file.write("new", 3);
    file.commit();
    CHECK(access_of(path) == before);
    CHECK(read_bytes(path) == "new");
    CHECK(folder.size() == 1);
  }
}

TEST_CASE("AtomicFile: nobody but its writer may do more with the new file than with the old one") {
  const TemporaryFolder folder;
  if (!can_run(folder)) return;
  REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
  const unsigned seed = 20260801;
  CAPTURE(seed);
  Engine engine(seed);
  const std::string path = folder / "x";
  for (int round = 0; round < (slow ? 50 : 150); ++round) {
    CAPTURE(round);
    ::removexattr(folder.path().c_str(), default_list);
    if (random_number(engine, 0, 1)) REQUIRE(set_list(folder.path(), default_list, random_list(engine)));
    REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
    ::unlink(path.c_str());
    write_bytes(path, "old");
    ::removexattr(path.c_str(), access_list);
    const ::uid_t old_owner = some_users[random_number(engine, 0, 2)];
    REQUIRE(::chown(path.c_str(), old_owner, some_groups[random_number(engine, 0, 2)]) == 0);
    REQUIRE(::chmod(path.c_str(), static_cast<::mode_t>(random_number(engine, 0, 0777))) == 0);
    if (random_number(engine, 0, 1)) REQUIRE(set_list(path, access_list, random_list(engine)));
    const Access before = access_of(path);
    const ::uid_t writer = some_users[random_number(engine, 0, 2)];
    REQUIRE(replace_as(path, writer, groups_of(static_cast<int>(random_number(engine, 1, 7)))));
    const Access after = access_of(path);
    for (const ::uid_t who : some_users) {
      if (who == writer || who == old_owner) continue;  // who could have given himself what he liked
      for (int bits = 0; bits < 8; ++bits) {
        for (const unsigned wanted : {1U, 2U, 4U}) {
          CHECK_FALSE((after.allows(who, groups_of(bits), wanted) && !before.allows(who, groups_of(bits), wanted)));
        }
      }
    }
    CHECK((after.mode & 07000U) == 0);
  }
}

TEST_CASE("AtomicFile: the group's bits of a file with an access control list are not the group's") {
  const TemporaryFolder folder;
  if (!can_run(folder)) return;
  const std::string path = folder / "x";
  write_bytes(path, "old");
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
  REQUIRE(set_list(path, access_list,
                   {{the_owner, 6}, {a_user, 6, some_users[0]}, {the_group, 0}, {the_mask, 6}, {the_others, 0}}));
  const Access before = access_of(path);
  REQUIRE(before.mode == 0660);
  AtomicFile file(path);
  file.commit();
  CHECK(access_of(path) == before);
  CHECK_FALSE(access_of(path).allows(some_users[1], {before.group}, 4));
}

TEST_CASE("AtomicFile: a file of a group that its writer is not in is closed to his own groups") {
  const TemporaryFolder folder;
  if (!can_run(folder)) return;
  REQUIRE(::chmod(folder.path().c_str(), 0777) == 0);
  const std::string path = folder / "x";
  const auto mode_after = [&](::mode_t mode, const std::vector<::gid_t>& writers_groups) {
    ::unlink(path.c_str());
    write_bytes(path, "old");
    REQUIRE(::chown(path.c_str(), some_users[0], some_groups[0]) == 0);
    REQUIRE(::chmod(path.c_str(), mode) == 0);
    REQUIRE(replace_as(path, some_users[1], writers_groups));
    return access_of(path).mode;
  };
  CHECK(mode_after(0640, {some_groups[1]}) == 0600);
  CHECK(mode_after(0644, {some_groups[1]}) == 0644);
  CHECK(mode_after(0604, {some_groups[1]}) == 0600);
  CHECK(mode_after(0664, {some_groups[1]}) == 0644);
  CHECK(mode_after(0640, {some_groups[1], some_groups[0]}) == 0640);
  CHECK(access_of(path).group == some_groups[0]);
  CHECK(mode_after(04755, {some_groups[0]}) == 0755);
}

TEST_CASE("AtomicFile: what it writes is closed to others before it is in its place, and follows later changes") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  write_bytes(path, "old");
  REQUIRE(::chmod(path.c_str(), 0644) == 0);
  AtomicFile file(path);
  file.write("new", 3);
  int unnamed = 0;
  for (int number = 0; number < 256; ++number) {
    struct ::stat found {};
    if (::fstat(number, &found) != 0 || !S_ISREG(found.st_mode) || found.st_nlink > 0 || found.st_size != 3) continue;
    CHECK((found.st_mode & 0077U) == 0);
    ++unnamed;
  }
  CHECK(unnamed <= 1);
  REQUIRE(::chmod(path.c_str(), 0600) == 0);  // somebody thought better of it
  file.commit();
  CHECK(access_of(path).mode == 0600);
}

TEST_CASE("AtomicFile: a file that appears while the disk is waited for passes its access on, too") {
  const TemporaryFolder folder;
  const std::string path = folder / "x", bytes(std::size_t{1} << 16, 'x');
  Engine engine(first_seed());
  INFO("LOD_TEST_SEED=", first_seed());
  std::chrono::steady_clock::duration last = std::chrono::milliseconds(1);
  for (int round = 0; round < 100; ++round) {
    AtomicFile file(path);
    file.write(bytes.data(), bytes.size());
    const auto begin = std::chrono::steady_clock::now(), moment = begin + last * random_number(engine, 0, 99) / 100;
    bool has_appeared = false;
    std::thread other([&] {
      std::this_thread::sleep_until(moment);
      has_appeared = static_cast<bool>(
          lod::detail::FileDescriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)));
    });
    file.commit();
    last = std::chrono::steady_clock::now() - begin;
    other.join();
    CHECK(read_bytes(path) == bytes);
    if (has_appeared) CHECK((access_of(path).mode & 0077U) == 0);
    ::unlink(path.c_str());
  }
}

namespace {

/// Runs `body` in a process of its own, without /proc, so that files cannot get a name afterwards. Gives what body
/// gives; 77 where that cannot be had.
template <class Body>
int without_unnamed_files(const Body& body) {
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0) {
      ::_exit(77);
    }
    ::_exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 78;
}

}  // namespace

TEST_CASE("AtomicFile: where every file has a name, the one that is written is as closed, and goes likewise") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  write_bytes(path, "old");
  REQUIRE(::chmod(path.c_str(), 0664) == 0);
  const int status = without_unnamed_files([&] {
    ::umask(0);
    {
      const AtomicFile dropped(path);
      if (folder.size() != 2) return 1;
      for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
        const ::mode_t mode = access_of(entry.path()).mode;
        if (entry.path() != path && mode != 0600) return 2;
      }
    }
    if (folder.size() != 1) return 3;
    AtomicFile file(path);
    file.write("new", 3);
    file.commit();
    if (folder.size() != 1 || read_bytes(path) != "new") return 4;
    if (access_of(path).mode != 0664) return 5;
    if (set_list(path, access_list, {{the_owner, 6}, {a_user, 4, 1}, {the_group, 0}, {the_mask, 4}, {the_others, 0}})) {
      const Access before = access_of(path);
      AtomicFile(path).commit();
      if (!(access_of(path) == before)) return 9;
    }
    write_bytes(folder / "lodtensor-999999999-1.tmp", "left");
    AtomicFile(path).commit();
    if (folder.size() != 2) return 6;  // perhaps of another machine, and not old
    const ::timespec times[2] = {{1, 0}, {1, 0}};
    if (::utimensat(AT_FDCWD, (folder / "lodtensor-999999999-1.tmp").c_str(), times, 0) != 0) return 7;
    AtomicFile(path).commit();
    return folder.size() == 1 ? 0 : 8;
  });
  if (status == 77) {
    MESSAGE("skipped: no name space of mounts is to be had");
    return;
  }
  CHECK(status == 0);
}

namespace {

/// 0 if files that are to be new replace nothing, and of several at once one is placed; else where that failed.
int place_new_files(const TemporaryFolder& folder) {
  const std::string path = folder / "x";
  const auto is_placed = [&](
                             const std::string& bytes, const std::function<void()>& meanwhile = [] {}) {
    AtomicFile file(path);
    file.write(bytes.data(), bytes.size());
    meanwhile();
    try {
      file.commit_new();
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::file_exists) throw;
      return false;
    }
    return true;
  };
  if (!is_placed("first") || folder.size() != 1 || read_bytes(path) != "first") return 1;
  if (is_placed("second") || folder.size() != 1 || read_bytes(path) != "first") return 2;
  std::filesystem::remove(path);
  if (is_placed("third", [&] { write_bytes(path, "of others"); }) || read_bytes(path) != "of others") return 3;
  std::filesystem::remove(path);
  std::filesystem::create_symlink("nowhere", path);
  if (is_placed("fourth") || !std::filesystem::is_symlink(path) || folder.size() != 1) return 4;
  for (int round = 0; round < 20; ++round) {
    std::filesystem::remove(path);
    std::atomic<int> placed = 0, winner = -1;
    std::vector<std::thread> writers;
    for (int k = 0; k < 4; ++k) {
      writers.emplace_back([&, k] {
        if (!is_placed(std::to_string(k))) return;
        ++placed;
        winner = k;
      });
    }
    for (std::thread& writer : writers) writer.join();
    if (placed != 1 || folder.size() != 1 || read_bytes(path) != std::to_string(winner)) return 5;
  }
  return 0;
}

}  // namespace

TEST_CASE("AtomicFile: one that is to be new replaces nothing, and of several at once one is placed") {
  CHECK(place_new_files(TemporaryFolder()) == 0);
  const TemporaryFolder folder;
  const int status = without_unnamed_files([&] { return place_new_files(folder); });
  if (status == 77) {
    MESSAGE("skipped: no name space of mounts is to be had");
    return;
  }
  CHECK(status == 0);
}

TEST_CASE("AtomicFile: a full disk leaves the old file as it was") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "disk");
  const int status = without_unnamed_files([&] {
    if (::mount("none", (folder / "disk").c_str(), "tmpfs", 0, "size=64k") != 0) return 77;
    const std::string path = folder / "disk/x";
    write_bytes(path, "old");
    const std::string large(100000, 'x');
    try {
      AtomicFile file(path);
      file.write(large.data(), large.size());
      file.commit();
      return 1;
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::no_space_on_device) return 2;
    }
    if (read_bytes(path) != "old") return 3;
    return std::distance(std::filesystem::directory_iterator(folder / "disk"), {}) == 1 ? 0 : 4;
  });
  if (status == 77) {
    MESSAGE("skipped: no file system can be mounted");
    return;
  }
  CHECK(status == 0);
}

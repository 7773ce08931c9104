// SPDX-License-Identifier: Apache-2.0
// Several files are all replaced, or none is, whatever the system refuses; and what signals interrupt goes on.
#include "support/failing_calls.hpp"
#include "support/in_child.hpp"
#include "support/temporary_folder.hpp"
#include <lod/io/atomic_files.hpp>
#include <lod/io/input.hpp>
#include <lod/io/mapped_file.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

using lod::detail::AtomicFile;
using lod::detail::AtomicFiles;
using lod_test::FailingCalls;
using lod_test::for_each_failing_call;
using lod_test::read_bytes;
using lod_test::TemporaryFolder;
using lod_test::write_bytes;

namespace {

void write_text(AtomicFile& file, const std::string& text) { file.write(text.data(), text.size()); }

/// Some files of a folder: all but the second and the last are there already.
const std::vector<std::string> file_names = {"a", "b", "inner/c", "d", "inner/e"};
void prepare_old(const TemporaryFolder& folder) {
  std::filesystem::create_directory(folder / "inner");
  for (const std::string& name : file_names) {
    std::filesystem::remove(folder / name);
    if (name != "b" && name != "inner/e") write_bytes(folder / name, "old " + name);
  }
}
void replace_all(const TemporaryFolder& folder) {
  AtomicFiles files(folder.path() + "/");
  for (const std::string& name : file_names) {
    files.add(folder / name, [&](AtomicFile& file) { write_text(file, "new " + name); });
  }
  files.commit();
}
bool all_are(const TemporaryFolder& folder, const std::string& age) {
  std::ptrdiff_t count = 0;
  for (const std::string& name : file_names) {
    const bool is_there = std::filesystem::exists(folder / name);
    if (is_there != (age == "new" || (name != "b" && name != "inner/e"))) return false;
    if (is_there && read_bytes(folder / name) != age + " " + name) return false;
    count += is_there;
  }
  const std::filesystem::recursive_directory_iterator all(folder.path());
  return std::distance(all, {}) == count + 1;
}

/// Replaces all files while a call fails, each in turn, and holds what is there afterwards to whether that was an
/// error.
int check_each_failing_call(const TemporaryFolder& folder, const char* name, int code) {
  bool has_thrown = false;
  const auto prepare = [&] { prepare_old(folder); };
  const auto act = [&] {
    has_thrown = false;
    try {
      replace_all(folder);
    } catch (const std::system_error& error) {
      has_thrown = true;
      CHECK(error.code().value() == code);
      CHECK(std::string_view(error.what()).find(folder.path()) != std::string_view::npos);
    }
  };
  return for_each_failing_call(name, code, prepare, act, [&] { CHECK(all_are(folder, has_thrown ? "old" : "new")); });
}

/// The only file in a folder that has the name of one that is being written.
std::string unfinished_file(const TemporaryFolder& folder) {
  std::string found;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("lodtensor-")) continue;
    REQUIRE(found.empty());
    found = entry.path();
  }
  REQUIRE_FALSE(found.empty());
  return found;
}

}  // namespace

TEST_CASE("AtomicFiles: all take their places when they are committed, and none does if they are not") {
  const TemporaryFolder folder;
  prepare_old(folder);
  {
    AtomicFiles files(folder.path() + "/");
    for (const std::string& name : file_names) {
      files.add(folder / name, [&](AtomicFile& file) { write_text(file, "new " + name); });
    }
    for (const std::string& name : file_names) {
      CHECK(std::filesystem::exists(folder / name) == (name != "b" && name != "inner/e"));
    }
  }
  CHECK(all_are(folder, "old"));
  replace_all(folder);
  CHECK(all_are(folder, "new"));
  AtomicFiles(folder.path()).commit();
  CHECK(all_are(folder, "new"));
}

TEST_CASE("AtomicFiles: what cannot be written or synchronised, whichever it is, leaves all old files") {
  const TemporaryFolder folder;
  for (const char* const name : {"write", "fsync", "close", "openat", "fchmod"}) {
    CAPTURE(name);
    const int calls = check_each_failing_call(folder, name, ENOSPC);
    CHECK(calls >= (std::string_view(name) == "fchmod" ? 1 : 5));
  }
}

TEST_CASE("AtomicFiles: a file that cannot be placed leaves all old files, those before it too") {
  const TemporaryFolder folder;
  // Two names are exchanged where there is a file; otherwise, or if that fails, one is changed.
  for (const int number : {0, 2, 3}) {
    CAPTURE(number);
    prepare_old(folder);
    {
      const FailingCalls exchange("renameat2", EPERM, number), rename("renameat", EPERM, number > 0);
      CHECK_THROWS_WITH_AS(
          replace_all(folder),
          doctest::Contains(("rename to '" + (folder / file_names.at(static_cast<std::size_t>(number)))).c_str()),
          std::system_error);
    }
    CHECK(all_are(folder, "old"));
  }
  CHECK(check_each_failing_call(folder, "renameat", EPERM) == 2);
  // Where names cannot be exchanged.
  const FailingCalls exchange("renameat2", EINVAL, 0, 1000);
  CHECK(check_each_failing_call(folder, "renameat", EPERM) == 5);
}

TEST_CASE("AtomicFiles: what is no regular file any more is not exchanged") {
  const TemporaryFolder folder;
  AtomicFiles files(folder.path() + "/");
  for (const char* const name : {"a", "b"}) {
    write_bytes(folder / name, "old");
    files.add(folder / name, [&](AtomicFile& file) { write_text(file, "new"); });
  }
  std::filesystem::remove(folder / "b");
  std::filesystem::create_directory(folder / "b");
  CHECK_THROWS_WITH_AS(files.commit(), ("rename to '" + (folder / "b") + "': Is a directory").c_str(),
                       std::system_error);
  CHECK(read_bytes(folder / "a") == "old");
  CHECK(std::filesystem::is_directory(folder / "b"));
}

TEST_CASE("AtomicFiles: in a folder where everybody may write, others keep their files, and so does the writer") {
  const TemporaryFolder folder;
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root may act as others");
    return;
  }
  prepare_old(folder);
  constexpr ::uid_t writer = 61001, other = 61002;
  REQUIRE(::chmod(folder.path().c_str(), 01777) == 0);
  REQUIRE(::chmod((folder / "inner").c_str(), 01777) == 0);
  REQUIRE(::chown((folder / "a").c_str(), writer, writer) == 0);
  REQUIRE(::chown((folder / "inner/c").c_str(), writer, writer) == 0);
  REQUIRE(::chown((folder / "d").c_str(), other, other) == 0);
  const int status = lod_test::in_child([&] {
    if (::setgroups(0, nullptr) != 0 || ::setresgid(writer, writer, writer) != 0) return 1;
    if (::setresuid(writer, writer, writer) != 0) return 1;
    try {
      replace_all(folder);
      return 2;
    } catch (const std::system_error& error) {
      return error.code() == std::errc::operation_not_permitted &&
                     std::string(error.what()).find("rename to '" + (folder / "d")) == 0
                 ? 0
                 : 3;
    }
  });
  CHECK(status == 0);
  CHECK(all_are(folder, "old"));
}

TEST_CASE("AtomicFiles: many of them take a few descriptors, and keep their locks without") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "inner");
  ::rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int next = ::dup(0);
  ::close(next);
  const auto replace = [&](int count, const std::string& text) {
    AtomicFiles files(folder.path() + "/");
    for (int i = 0; i < count; ++i) {
      files.add(folder / ((i % 2 ? "inner/" : "") + std::to_string(i)),
                [&](AtomicFile& file) { write_text(file, text); });
    }
    files.commit();
  };
  {
    const ::rlimit few{static_cast<::rlim_t>(next) + 8, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    CHECK_NOTHROW(replace(100, "old"));
    CHECK_NOTHROW(replace(100, "new"));
    ::setrlimit(RLIMIT_NOFILE, &before);
  }
  for (int i = 0; i < 100; ++i) CHECK(read_bytes(folder / ((i % 2 ? "inner/" : "") + std::to_string(i))) == "new");
  CHECK(folder.size() == 51);

  for (const bool can_be_mapped : {true, false}) {
    CAPTURE(can_be_mapped);
    const TemporaryFolder other;
    AtomicFiles files(other.path() + "/");
    const FailingCalls unmapped("mmap", ENODEV, 0, can_be_mapped ? 0 : 1);
    files.add(other / "x", [](AtomicFile& file) { write_text(file, "new"); });
    const lod::detail::FileDescriptor file(::open(unfinished_file(other).c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(file);
    CHECK(::flock(file.get(), LOCK_EX | LOCK_NB) != 0);
    files.commit();
    CHECK(::flock(file.get(), LOCK_EX | LOCK_NB) == 0);
    CHECK(other.size() == 1);
  }
}

TEST_CASE("AtomicFiles: follow what happens to the access of the old files while others are written") {
  const TemporaryFolder folder;
  const auto mode_of = [&](const std::string& name) {
    struct ::stat found {};
    REQUIRE(::lstat((folder / name).c_str(), &found) == 0);
    return found.st_mode & 07777U;
  };
  for (const char* const name : {"kept", "changed", "removed", "closed"}) write_bytes(folder / name, "old");
  REQUIRE(::chmod((folder / "kept").c_str(), 0640) == 0);
  REQUIRE(::chmod((folder / "closed").c_str(), 0) == 0);
  REQUIRE(::chmod((folder / "removed").c_str(), 0600) == 0);
  AtomicFiles files(folder.path() + "/");
  for (const char* const name : {"kept", "changed", "removed", "closed", "appeared"}) {
    files.add(folder / name, [&](AtomicFile& file) { write_text(file, "new"); });
  }
  REQUIRE(::chmod((folder / "changed").c_str(), 0600) == 0);
  std::filesystem::remove(folder / "removed");
  write_bytes(folder / "appeared", "of somebody");
  REQUIRE(::chmod((folder / "appeared").c_str(), 0400) == 0);
  files.commit();
  CHECK(mode_of("kept") == 0640);
  CHECK(mode_of("changed") == 0600);
  CHECK(mode_of("removed") == 0600);
  CHECK(mode_of("closed") == 0);
  CHECK(mode_of("appeared") == 0400);
  CHECK(read_bytes(folder / "appeared") == "new");
  CHECK(folder.size() == 5);
}

TEST_CASE("AtomicFiles: writers that are killed leave whole files, and nothing that the next one does not remove") {
  const TemporaryFolder folder;
  prepare_old(folder);
  for (int round = 0; round < 20; ++round) {
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (;;) replace_all(folder);
    }
    ::usleep(static_cast<::useconds_t>(500 + 211 * round));
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    for (const std::string& name : file_names) {
      if (!std::filesystem::exists(folder / name)) continue;
      const std::string text = read_bytes(folder / name);
      CHECK((text == "old " + name || text == "new " + name));
    }
  }
  replace_all(folder);
  CHECK(all_are(folder, "new"));
}

TEST_CASE("AtomicFile, Input, MappedFile: what a signal interrupts is done again") {
  const TemporaryFolder folder;
  const std::string path = folder / "x", large(100000, 'x');
  for (const char* const name : {"openat", "fsync", "fstat", "stat", "linkat", "renameat", "renameat2", "fchmod",
                                 "close", "read", "pread", "write"}) {
    CAPTURE(name);
    const int calls = for_each_failing_call(
        name, EINTR, [&] { prepare_old(folder); },
        [&] {
          for (const std::string& text : {std::string("old"), large}) {
            AtomicFile file(path);
            write_text(file, text);
            file.commit();
            REQUIRE(::chmod(path.c_str(), 0640) == 0);
          }
          std::string read(large.size(), ' ');
          lod::detail::Input::open(path).read(read.data(), read.size());
          CHECK(read == large);
          read.assign(large.size(), ' ');
          lod::detail::MappedFile(path).read(0, read.data(), read.size());
          CHECK(read == large);
          replace_all(folder);
          CHECK(lod::detail::look_up(path));
          CHECK_FALSE(lod::detail::look_up(folder / "none"));
        },
        [&] {
          std::filesystem::remove(path);
          CHECK(all_are(folder, "new"));
        });
    CHECK(calls > 0);
  }
}

TEST_CASE("look_up: what cannot be told is an error, and not that nothing is there") {
  const TemporaryFolder folder;
  write_bytes(folder / "x", "");
  std::filesystem::create_symlink("loop", folder / "loop");
  using lod::detail::look_up;
  CHECK(S_ISREG(look_up(folder / "x")->st_mode));
  CHECK(S_ISDIR(look_up(folder.path())->st_mode));
  CHECK_FALSE(look_up(folder / "none"));
  CHECK_FALSE(look_up(folder / "x/y"));
  CHECK_FALSE(look_up(""));
  CHECK_THROWS_WITH_AS(look_up(folder / "loop"), doctest::Contains(("look up '" + (folder / "loop") + "': ").c_str()),
                       std::system_error);
  CHECK_THROWS_WITH_AS(look_up(folder / std::string(256, 'x')), doctest::Contains("File name too long"),
                       std::system_error);
  const FailingCalls failing("stat", EACCES);
  CHECK_THROWS_WITH_AS(look_up(folder / "x"), ("look up '" + (folder / "x") + "': Permission denied").c_str(),
                       std::system_error);
}

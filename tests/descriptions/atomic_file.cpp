// SPDX-License-Identifier: Apache-2.0
// A file is there as a whole or not at all.
#include "support/temporary_folder.hpp"
#include <lod/io/atomic_file.hpp>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

using lod::detail::AtomicFile;
using lod_test::read_bytes;
using lod_test::TemporaryFolder;
using lod_test::write_bytes;

TEST_CASE("AtomicFile: takes the place of the old file in the moment of the commit") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  write_bytes(path, "old");
  AtomicFile file(path);
  file.write("new ", 4);
  CHECK(read_bytes(path) == "old");
  CHECK(folder.size() <= 2);  // what is written need not have a name
  file.write("bytes", 5);
  file.write(nullptr, 0);
  file.commit();
  CHECK(read_bytes(path) == "new bytes");
  CHECK(folder.size() == 1);
}

TEST_CASE("AtomicFile: leaves nothing behind unless it is committed") {
  const TemporaryFolder folder;
  write_bytes(folder / "x", "old");
  {
    AtomicFile file(folder / "x");
    AtomicFile beside(folder / "x");
    AtomicFile other(folder / "y");
    file.write("new", 3);
    CHECK(folder.size() <= 4);
  }
  CHECK(folder.size() == 1);
  CHECK(read_bytes(folder / "x") == "old");
}

TEST_CASE("AtomicFile: of several that write the same file, the last one to be committed counts") {
  const TemporaryFolder folder;
  AtomicFile first(folder / "x"), second(folder / "x");
  first.write("first", 5);
  second.write("second", 6);
  second.commit();
  first.commit();
  CHECK(read_bytes(folder / "x") == "first");
  CHECK(folder.size() == 1);
}

TEST_CASE("AtomicFile: an empty file, and one in the folder of the program") {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  AtomicFile file("x");
  file.commit();
  std::filesystem::current_path(before);
  CHECK(read_bytes(folder / "x").empty());
}

TEST_CASE("AtomicFile: what the system refuses is an error that names the file, and leaves nothing behind") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(AtomicFile(folder / "none/x"), doctest::Contains("No such file or directory"),
                       std::system_error);
  CHECK_THROWS_WITH_AS(AtomicFile(""), doctest::Contains("create ''"), std::system_error);
  {
    AtomicFile file(folder / "x");
    std::filesystem::create_directory(folder / "x");
    write_bytes(folder / "x/y", "");
    CHECK_THROWS_WITH_AS(file.commit(), doctest::Contains(("rename to '" + (folder / "x")).c_str()), std::system_error);
  }
  CHECK(folder.size() == 1);
}

TEST_CASE("AtomicFile: what is no regular file is not replaced, and that is said before anything is written") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "folder");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0666) == 0);
  CHECK_THROWS_WITH_AS(AtomicFile(folder / "folder"), ("create '" + (folder / "folder") + "': Is a directory").c_str(),
                       std::system_error);
  CHECK_THROWS_WITH_AS(AtomicFile(folder / "pipe"),
                       ("create '" + (folder / "pipe") + "': not a regular file: Invalid argument").c_str(),
                       std::system_error);
  CHECK_THROWS_WITH_AS(AtomicFile("/dev/null"), doctest::Contains("not a regular file"), std::system_error);
  CHECK_THROWS_WITH_AS(AtomicFile((folder / "folder") + "/"), doctest::Contains("Is a directory"), std::system_error);
  CHECK_THROWS_WITH_AS(AtomicFile(folder / "."), doctest::Contains("Is a directory"), std::system_error);
  CHECK(std::filesystem::is_fifo(folder / "pipe"));
  CHECK(folder.size() == 2);
}

TEST_CASE("AtomicFile: a link to what is no regular file is refused as that itself, also by several links") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "folder");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0666) == 0);
  std::filesystem::create_symlink(folder / "folder", folder / "to-folder");
  std::filesystem::create_symlink("pipe", folder / "to-pipe");
  std::filesystem::create_symlink("/dev/null", folder / "to-device");
  const auto check_refused = [&](const std::string& name, const char* why) {
    CAPTURE(name);
    const std::string path = folder / name;
    CHECK_THROWS_WITH_AS(AtomicFile{path}, doctest::Contains(("create '" + path + "'").c_str()), std::system_error);
    CHECK_THROWS_WITH_AS(AtomicFile{path}, doctest::Contains(why), std::system_error);
    CHECK(std::filesystem::is_symlink(path));
  };
  for (const std::string name : {"to-folder", "to-pipe", "to-device"}) {
    const char* const why = name == "to-folder" ? "Is a directory" : "not a regular file";
    check_refused(name, why);
    std::filesystem::create_symlink(name, folder / ("again-" + name));
    check_refused("again-" + name, why);
  }
  CHECK(folder.size() == 8);
}

TEST_CASE("AtomicFile: what a process has open is refused, also where it is a regular file") {
  const TemporaryFolder folder;
  write_bytes(folder / "x", "old");
  const int file = ::open((folder / "x").c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(file >= 0);
  const std::string name = "/proc/self/fd/" + std::to_string(file);
  std::filesystem::create_symlink(name, folder / "link");  // as /dev/stdout is one
  std::filesystem::create_symlink("link", folder / "to-link");
  for (const std::string& path : {name, folder / "link", folder / "to-link"}) {
    CAPTURE(path);
    CHECK_THROWS_WITH_AS(AtomicFile{path}, doctest::Contains("not a regular file"), std::system_error);
  }
  ::close(file);
  CHECK(std::filesystem::is_symlink(folder / "link"));
  CHECK(folder.size() == 3);
}

TEST_CASE("AtomicFile: what has become no regular file meanwhile is not replaced either") {
  const TemporaryFolder folder;
  AtomicFile file(folder / "x");
  REQUIRE(::mkfifo((folder / "x").c_str(), 0666) == 0);
  CHECK_THROWS_WITH_AS(file.commit(), doctest::Contains("not a regular file"), std::system_error);
  CHECK(std::filesystem::is_fifo(folder / "x"));
}

TEST_CASE("AtomicFile: a link to a file is replaced, and other names of the file still lead to it") {
  const TemporaryFolder folder;
  write_bytes(folder / "x", "old");
  std::filesystem::create_symlink("x", folder / "link");
  std::filesystem::create_hard_link(folder / "x", folder / "other");
  std::filesystem::create_symlink("loop", folder / "loop");
  for (const char* const name : {"link", "other", "loop"}) {
    CAPTURE(name);
    AtomicFile file(folder / name);
    file.write("new", 3);
    file.commit();
    CHECK(std::filesystem::symlink_status(folder / name).type() == std::filesystem::file_type::regular);
    CHECK(read_bytes(folder / name) == "new");
    CHECK(read_bytes(folder / "x") == "old");
  }
  CHECK(folder.size() == 4);
}

TEST_CASE("AtomicFile: the folder is the one that the path led to at first") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "here");
  std::filesystem::create_directory(folder / "there");
  std::filesystem::create_directory(folder / "here/inner");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder / "here");
  {
    AtomicFile plain("x"), inner("inner/x"), dropped("y");
    std::filesystem::current_path(folder / "there");
    for (AtomicFile* const file : {&plain, &inner}) {
      file->write("new", 3);
      file->commit();
    }
    std::filesystem::rename(folder / "here", folder / "moved");
  }
  std::filesystem::current_path(before);
  CHECK(read_bytes(folder / "moved/x") == "new");
  CHECK(read_bytes(folder / "moved/inner/x") == "new");
  CHECK(std::filesystem::is_empty(folder / "there"));
  CHECK_FALSE(std::filesystem::exists(folder / "moved/y"));
}

TEST_CASE("AtomicFile: removes what processes that were killed have left, and nothing else") {
  const TemporaryFolder folder;
  const ::pid_t ended = ::fork();
  REQUIRE(ended >= 0);
  if (ended == 0) ::_exit(0);
  REQUIRE(::waitpid(ended, nullptr, 0) == ended);

  const std::string gone = std::to_string(ended), alive = std::to_string(::getppid());
  const std::string locked = folder / ("lodtensor-" + gone + "-3.tmp");
  const std::vector<std::string> kept = {"lodtensor-" + alive + "-1.tmp",
                                         "lodtensor-" + gone + "-.tmp",
                                         "lodtensor-" + gone + ".tmp",
                                         "lodtensor-" + gone + "-1.tmp2",
                                         "lodtensor-" + gone + "-1a.tmp",
                                         "lodtensor--1.tmp",
                                         "lodtensor-.tmp",
                                         "lodtensor-99999999999999-1.tmp",
                                         "x.tmp"};
  for (const std::string& name : kept) write_bytes(folder / name, "of somebody");
  write_bytes(locked, "being written");
  const int writer = ::open(locked.c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(::flock(writer, LOCK_EX) == 0);
  std::filesystem::create_directory(folder / ("lodtensor-" + gone + "-4.tmp"));
  std::filesystem::create_symlink("x.tmp", folder / ("lodtensor-" + gone + "-5.tmp"));

  for (const char* const number : {"1", "2", "18446744073709551616"}) {
    write_bytes(folder / ("lodtensor-" + gone + "-" + number + ".tmp"), "left");
  }
  AtomicFile(folder / "fast", false).commit();  // does not look
  CHECK(folder.size() == static_cast<std::ptrdiff_t>(kept.size()) + 3 + 3 + 1);
  AtomicFile(folder / "x").commit();
  CHECK(folder.size() == static_cast<std::ptrdiff_t>(kept.size()) + 3 + 2);
  for (const std::string& name : kept) CHECK(std::filesystem::exists(folder / name));
  CHECK(std::filesystem::exists(locked));
  ::close(writer);
  AtomicFile(folder / "x").commit();
  CHECK_FALSE(std::filesystem::exists(locked));
}

TEST_CASE("AtomicFile: processes that are killed at any moment leave nothing that the next one does not remove") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  write_bytes(path, "0");
  for (int i = 0; i < 60; ++i) {
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (;;) {
        AtomicFile file(path, false);
        file.write("whole", 5);
        file.commit();
      }
    }
    ::usleep(static_cast<::useconds_t>(500 + 37 * i));
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    CHECK((read_bytes(path) == "whole" || read_bytes(path) == "0"));
  }
  AtomicFile(folder / "x").commit();
  CHECK(folder.size() == 1);
}

TEST_CASE("AtomicFile: a path with a zero byte is refused, and not taken for a shorter one") {
  const TemporaryFolder folder;
  write_bytes(folder / "x", "old");
  const std::string path = (folder / "x") + std::string("\0tail", 5);
  CHECK_THROWS_WITH_AS(AtomicFile{path}, doctest::Contains("a path with a zero byte"), std::system_error);
  CHECK(read_bytes(folder / "x") == "old");
  CHECK(folder.size() == 1);
}

TEST_CASE("AtomicFile: names as long as they can be, and longer ones") {
  const TemporaryFolder folder;
  const std::string path = folder / std::string(255, 'x');
  AtomicFile file(path);
  file.write("new", 3);
  file.commit();
  CHECK(read_bytes(path) == "new");
  CHECK_THROWS_WITH_AS(AtomicFile(path + "x"), ("create '" + path + "x': File name too long").c_str(),
                       std::system_error);
  CHECK(folder.size() == 1);
}

TEST_CASE("AtomicFile: has the permissions of the file whose place it takes") {
  const TemporaryFolder folder;
  using std::filesystem::perms;
  const auto permissions = [](const std::string& path) { return std::filesystem::symlink_status(path).permissions(); };
  const auto replace = [](const std::string& path) {
    AtomicFile file(path);
    file.write("new", 3);
    file.commit();
    CHECK(read_bytes(path) == "new");
  };
  const std::string path = folder / "x";
  write_bytes(path, "old");
  const perms usual = permissions(path);
  for (const unsigned mode : {0600U, 0444U, 0666U, 0751U}) {
    std::filesystem::permissions(path, perms(mode));
    replace(path);
    CHECK(permissions(path) == perms(mode));
  }
  replace(folder / "y");
  CHECK(permissions(folder / "y") == usual);

  // A link is replaced; it may have led to what is private.
  std::filesystem::permissions(path, perms(0600));
  std::filesystem::create_symlink(path, folder / "link");
  write_bytes(path, "old");
  replace(folder / "link");
  CHECK(std::filesystem::symlink_status(folder / "link").type() == std::filesystem::file_type::regular);
  CHECK(permissions(folder / "link") == perms(0600));
  CHECK(read_bytes(path) == "old");
  std::filesystem::create_symlink(folder / "nothing", folder / "dangling");
  replace(folder / "dangling");
  CHECK(permissions(folder / "dangling") == usual);
}

// SPDX-License-Identifier: Apache-2.0
// A file is there as a whole or not at all.
#include "support/temporary_folder.hpp"
#include <lod/io/atomic_file.hpp>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <system_error>

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
  CHECK(std::filesystem::is_fifo(folder / "pipe"));
  CHECK(folder.size() == 2);
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

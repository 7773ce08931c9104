// SPDX-License-Identifier: Apache-2.0
// A file is there as a whole or not at all.
#include "support/temporary_folder.hpp"
#include <lod/io/atomic_file.hpp>

#include <doctest/doctest.h>

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
  {
    std::filesystem::create_directory(folder / "x");
    write_bytes(folder / "x/y", "");
    AtomicFile file(folder / "x");
    CHECK_THROWS_WITH_AS(file.commit(), doctest::Contains(("rename to '" + (folder / "x")).c_str()), std::system_error);
  }
  CHECK(folder.size() == 1);
}

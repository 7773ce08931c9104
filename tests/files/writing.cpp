// SPDX-License-Identifier: Apache-2.0
// Files are there as a whole or not at all, whenever their writer stops.
#include "support/count_allocations.hpp"
#include "support/interrupted_writers.hpp"
#include "support/random_batch.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"
#include <lod/io/file.hpp>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using namespace lod_test;

namespace {

/// Runs `body` in a process of its own that is killed at its end.
template <class Body>
void in_a_process_that_is_killed(const Body& body) {
  const ::pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    body();
    ::raise(SIGKILL);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGKILL);
}

lod::LoDTensor<std::int32_t> filled(const lod::Shape& shape, std::int32_t value) {
  lod::LoDTensor<std::int32_t> x(shape);
  for (std::int32_t& element : x.values()) element = value;
  return x;
}

}  // namespace

TEST_CASE("save: takes the place of what was there, and leaves nothing else behind") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  write_bytes(path, "no file of ours");
  lod::save(path, {{"x", filled({3}, 1)}});
  CHECK(folder.size() == 1);
  lod::save(path, {{"y", filled({3}, 2)}, {"z", filled({3}, 3)}});
  CHECK(folder.size() == 1);
  CHECK(lod::File::open(path).names() == std::vector<std::string>{"y", "z"});

  // A file may be made of what it holds.
  const lod::File file = lod::File::open(path);
  lod::save(path, {{"x", file.tensor<std::int32_t>("z")}});
  CHECK(same_bits(lod::load<lod::LoDTensor<std::int32_t>>(path, "x"), filled({3}, 3)));
}

TEST_CASE("FileWriter: until it commits there is what was there before; without that, for ever") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  const auto old_file = [&] { return same_bits(lod::load<lod::LoDTensor<std::int32_t>>(path, "x"), filled({3}, 1)); };
  lod::save(path, {{"x", filled({3}, 1)}});
  {
    lod::FileWriter writer(path);
    writer.add("x", filled({300000}, 2));
    CHECK(old_file());
  }
  CHECK(old_file());
  CHECK(folder.size() == 1);

  const auto stop = [&] {
    lod::FileWriter writer(path);
    writer.add("x", filled({3}, 2));
    throw std::runtime_error("the program has other troubles");
  };
  CHECK_THROWS_AS(stop(), std::runtime_error);
  CHECK(old_file());
  CHECK(folder.size() == 1);

  CHECK_THROWS_WITH_AS(lod::save(path, {{"x", filled({3}, 2)}, {"x", filled({3}, 3)}}),
                       "FileWriter: there is a variable 'x' already", std::invalid_argument);
  CHECK(old_file());
  CHECK(folder.size() == 1);
}

TEST_CASE("FileWriter: what it refuses changes nothing, and it goes on") {
  const TemporaryFolder folder;
  lod::FileWriter writer(folder / "x");
  writer.add("x", filled({3}, 1));
  CHECK_THROWS_AS(writer.add("x", filled({3}, 2)), std::invalid_argument);
  const std::vector<lod::AnyLoDTensor> mixed = {filled({3}, 1), lod::LoDTensor<float>({3})};
  CHECK_THROWS_AS(writer.add("mixed", mixed), lod::ShapeMismatch);
  lod::SelectedRows<float> torn({1, 2}, 10, {2});
  torn.value() = lod::LoDTensor<float>({3, 2});
  CHECK_THROWS_WITH_AS(writer.add("torn", torn), "FileWriter: 2 ids, but 3 rows of values", lod::ShapeMismatch);
  writer.add("y", filled({3}, 3));
  writer.commit();
  CHECK_THROWS_AS(writer.add("z", filled({3}, 4)), std::logic_error);
  CHECK_THROWS_AS(writer.commit(), std::logic_error);

  const lod::File file = lod::File::open(folder / "x");
  CHECK(file.names() == std::vector<std::string>{"x", "y"});
  CHECK(same_bits(file.tensor<std::int32_t>("x"), filled({3}, 1)));
  CHECK(same_bits(file.tensor<std::int32_t>("y"), filled({3}, 3)));
}

TEST_CASE("FileWriter: a folder that is not there, or a file that is none, is a system error with the path") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(lod::save(folder / "no/x", {}), doctest::Contains((folder / "no/x").c_str()), std::system_error);
  CHECK_THROWS_WITH_AS(lod::File::open(folder / "x"), doctest::Contains((folder / "x").c_str()), std::system_error);
  CHECK_THROWS_AS(lod::File::open(folder.path()), std::system_error);
  CHECK_THROWS_AS(lod::save(folder.path(), {}), std::system_error);
}

TEST_CASE("File: of what is no regular file, or has a zero byte in its path, says so, and does not wait") {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe", path = folder / "x";
  REQUIRE(::mkfifo(pipe.c_str(), 0666) == 0);
  CHECK_THROWS_WITH_AS(lod::File::open(pipe), ("open '" + pipe + "': not a regular file: Invalid argument").c_str(),
                       std::system_error);
  CHECK_THROWS_WITH_AS(lod::save(pipe, {}), doctest::Contains("not a regular file"), std::system_error);
  CHECK_THROWS_WITH_AS(lod::File::open(folder.path()), doctest::Contains("Is a directory"), std::system_error);
  lod::save(path, {});
  const std::string longer = path + std::string("\0tail", 5);
  CHECK_THROWS_WITH_AS(lod::File::open(longer), doctest::Contains("a path with a zero byte"), std::system_error);
  CHECK_THROWS_WITH_AS(lod::save(longer, {{"x", filled({3}, 1)}}), doctest::Contains("a path with a zero byte"),
                       std::system_error);
  CHECK(lod::File::open(path).names().empty());
}

TEST_CASE("FileWriter: a variable in pieces is the same file as at once; other than its bytes are an error") {
  const TemporaryFolder folder;
  const auto x = filled({200000, 3}, 7);
  const lod::SelectedRows<std::int32_t> rows({4, 2, 4}, 9, filled({3, 5}, 8));
  lod::save(folder / "whole", {{"x", x}, {"rows", rows}});
  const auto in_pieces = [](std::span<const std::byte> bytes, std::size_t piece, const auto& put) {
    for (; bytes.size() > piece; bytes = bytes.subspan(piece)) put(bytes.first(piece));
    put(bytes);
  };
  for (const std::size_t piece : {std::size_t{7}, std::size_t{1} << 20}) {
    lod::FileWriter writer(folder / "pieces");
    const lod::File whole = lod::File::open(folder / "whole");
    writer.add_in_pieces(whole.describe("x"), 200000,
                         [&](const auto& put) { in_pieces(std::as_bytes(x.values()), piece, put); });
    int buffers = 0;
    writer.add_in_pieces(whole.describe("rows"), 3, [&](const auto& put) {
      in_pieces(buffers++ == 0 ? std::as_bytes(std::span(rows.rows())) : std::as_bytes(rows.value().values()), piece,
                put);
    });
    CHECK(buffers == 2);
    writer.commit();
    CHECK(lod_test::read_bytes(folder / "pieces") == lod_test::read_bytes(folder / "whole"));
  }

  const auto description = lod::describe("x", filled({2}, 1));
  for (const std::size_t bytes : {7U, 9U}) {
    lod::FileWriter writer(folder / "pieces");
    CHECK_THROWS_WITH_AS(writer.add_in_pieces(description, 3, [](const auto&) {}),
                         doctest::Contains("'x': tensors[0]: dim 0"), lod::ShapeMismatch);
    CHECK_THROWS_AS(writer.add_in_pieces(description, 2, [&](const auto& put) { put(std::vector<std::byte>(bytes)); }),
                    std::logic_error);
    CHECK_THROWS_AS(writer.add("y", x), std::logic_error);
  }
  CHECK(lod_test::read_bytes(folder / "pieces") == lod_test::read_bytes(folder / "whole"));
}

TEST_CASE("FileWriter: a disk that is full is a system error, whenever it is, and the old file stays") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  lod::save(path, {{"x", filled({3}, 1)}});
  const auto large = filled({200000}, 2);  // more than is gathered before it is written
  lod::save(folder / "y", {{"x", large}});
  const auto size = std::filesystem::file_size(folder / "y");
  for (const rlim_t limit : {rlim_t{0}, rlim_t{100}, rlim_t{400000}, rlim_t{size - 1}}) {
    const FileSizeLimit full(limit);
    CHECK_THROWS_AS(lod::save(path, {{"x", large}}), std::system_error);
    CHECK(folder.size() == 2);
  }
  CHECK(same_bits(lod::load<lod::LoDTensor<std::int32_t>>(path, "x"), filled({3}, 1)));

  lod::FileWriter writer(path);
  {
    const FileSizeLimit full(400000);
    CHECK_THROWS_AS(writer.add("x", large), std::system_error);
  }
  CHECK_THROWS_AS(writer.add("y", filled({3}, 1)), std::logic_error);
  CHECK_THROWS_AS(writer.commit(), std::logic_error);
  CHECK(same_bits(lod::load<lod::LoDTensor<std::int32_t>>(path, "x"), filled({3}, 1)));

  const FileSizeLimit enough(size);
  CHECK_NOTHROW(lod::save(path, {{"x", large}}));
}

TEST_CASE("FileWriter: a process that is killed before it commits leaves the old file, and no other") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  lod::save(path, {{"x", filled({3}, 1)}});
  in_a_process_that_is_killed([&] {
    lod::FileWriter writer(path);
    ::raise(SIGKILL);
  });
  in_a_process_that_is_killed([&] {
    lod::FileWriter writer(path);
    writer.add("x", filled({300000}, 2));
    ::raise(SIGKILL);
  });
  CHECK(same_bits(lod::load<lod::LoDTensor<std::int32_t>>(path, "x"), filled({3}, 1)));
  CHECK(folder.size() == 1);
  in_a_process_that_is_killed([&] { lod::save(path, {{"x", filled({3}, 2)}}); });
  CHECK(same_bits(lod::load<lod::LoDTensor<std::int32_t>>(path, "x"), filled({3}, 2)));
  CHECK(folder.size() == 1);
}

TEST_CASE("save: a process that is killed at any moment leaves one whole file or another") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  lod::save(path, {{"x", filled({0}, 0)}});
  Engine engine(20171023);
  for (int i = 0; i < 20; ++i) {
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (std::int32_t size = 1;; ++size) lod::save(path, {{"x", filled({size * 1000}, size)}});
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random_number(engine, 0, 20000)));
    ::kill(child, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    const auto x = lod::load<lod::LoDTensor<std::int32_t>>(path, "x");
    CHECK(same_bits(x, filled({x.rows()}, static_cast<std::int32_t>(x.rows() / 1000))));
  }
}

TEST_CASE("save: without waiting for the disk, files are the same, and whole whenever the program stops") {
  const TemporaryFolder folder;
  const std::string path = folder / "x", waited = folder / "y";
  const lod::SaveOptions options{.wait_for_disk = false};
  lod::save(waited, {{"x", filled({300000}, 1)}});
  write_bytes(path, "no file of ours");
  in_a_process_that_is_killed([&] {
    lod::FileWriter writer(path, options);
    writer.add("x", filled({300000}, 2));
    ::raise(SIGKILL);
  });
  CHECK(read_bytes(path) == "no file of ours");
  CHECK(folder.size() == 2);
  in_a_process_that_is_killed([&] { lod::save(path, {{"x", filled({300000}, 1)}}, options); });
  CHECK(read_bytes(path) == read_bytes(waited));
  CHECK(folder.size() == 2);
}

TEST_CASE("save: what a program writes while others read is never seen in part") {
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  lod::save(path, {{"x", filled({1000}, 1)}});
  std::thread writer([&] {
    for (std::int32_t i = 2; i <= 40; ++i) lod::save(path, {{"x", filled({i * 1000}, i)}});
  });
  int wrong = 0;
  for (int i = 0; i < 200; ++i) {
    const lod::File file = lod::File::open(path);
    const auto x = file.tensor<std::int32_t>("x");
    wrong += !same_bits(x, filled({x.rows()}, static_cast<std::int32_t>(x.rows() / 1000)));
  }
  writer.join();
  CHECK(wrong == 0);
  CHECK(folder.size() == 1);
}

TEST_CASE("FileWriter: where memory runs out, at any point, nothing was added, and the call can be repeated") {
  if (!counts_allocations) return;
  const TemporaryFolder folder;
  const std::string path = folder / "x";
  const auto x = lod::LoDTensor<float>::from_values(lod::LoD::from_lengths({{2, 1}, {1, 0, 2}}), {}, {1, 2, 3});
  const lod::SelectedRows<float> rows({4, 0, 4}, 9, lod::Shape{2});
  const std::vector<lod::LoDTensor<float>> array = {x, x};
  int failures = 0;
  const auto until_it_succeeds = [&](const auto& call) {
    for (std::int64_t after = 0;; ++after) {
      try {
        const FailingAllocations failing(after);
        return call();
      } catch (const std::bad_alloc&) {
        ++failures;
      }
    }
  };
  write_bytes(path, "the old file");
  {
    lod::FileWriter writer(path, {.wait_for_disk = false});
    const std::string name(100, 'n');
    for (const char* const kind : {"a", "b", "c"}) {
      until_it_succeeds([&] { writer.add(kind + name, x); });
      until_it_succeeds([&] { writer.add(kind + name + "rows", rows); });
      until_it_succeeds([&] { writer.add(kind + name + "array", array); });
    }
    CHECK(failures > 50);
    // Nor has anything been done where there is no memory for the footer.
    CHECK_THROWS_AS(([&] {
                      const FailingAllocations failing(0);
                      writer.commit();
                    }()),
                    std::bad_alloc);
    CHECK(read_bytes(path) == "the old file");
    writer.commit();
    const lod::File file = lod::File::open(path);
    file.verify();
    CHECK(file.names().size() == 9);
    for (const char* const kind : {"a", "b", "c"}) {
      CHECK(same_bits(file.tensor<float>(kind + name), x));
      CHECK(file.load<lod::SelectedRows<float>>(kind + name + "rows").rows() == rows.rows());
      CHECK(file.load<std::vector<lod::AnyLoDTensor>>(kind + name + "array").size() == 2);
    }
  }
}

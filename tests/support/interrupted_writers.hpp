// SPDX-License-Identifier: Apache-2.0
/// @file
/// Writers of files that do not come to their end: disks that are full, and processes that are killed.
#pragma once

#include "support/temporary_folder.hpp"
#include <lod/any_tensor.hpp>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

namespace lod_test {

/// For as long as it lives no file grows beyond so many bytes: what a full disk does to a writer.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const ::rlimit limit{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  ::rlimit before_{};
  void (*handler_)(int);
};

/// So many thousand elements, each of them this number.
inline lod::AnyLoDTensor numbered(std::int32_t number) {
  lod::LoDTensor<std::int32_t> x({1000 * number});
  std::fill(x.values().begin(), x.values().end(), number);
  return x;
}
inline bool is_numbered(const lod::AnyLoDTensor& x) {
  const auto values = x.view<std::int32_t>().values();
  const auto number = static_cast<std::int32_t>(x.rows() / 1000);
  return x.rows() % 1000 == 0 && std::all_of(values.begin(), values.end(), [=](auto value) { return value == number; });
}

/// write(path, number) writes `numbered(number)`; is_whole(path) says whether a file has one. That holds whenever the
/// disk is full, or the writer killed, and then nothing else is left in the folder when the next one has written.
template <class Write, class IsWhole>
void check_interrupted_writer(const Write& write, const IsWhole& is_whole) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  write(path, 1);
  write(folder / "whole", 30);
  const auto size = static_cast<::rlim_t>(std::filesystem::file_size(folder / "whole"));
  std::filesystem::remove(folder / "whole");
  const std::string before = read_bytes(path);
  for (const ::rlim_t limit : {::rlim_t{0}, ::rlim_t{100}, size / 2, size - 1}) {
    CAPTURE(limit);
    const FileSizeLimit full(limit);
    CHECK_THROWS_AS(write(path, 30), std::system_error);
    CHECK(folder.size() == 1);
  }
  CHECK(read_bytes(path) == before);

  for (int round = 0; round < 8; ++round) {
    const ::pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (std::int32_t number = 1;; number = number % 100 + 1) write(path, number);
    }
    ::usleep(static_cast<::useconds_t>(1500 * round));
    ::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, nullptr, 0) == child);
    CHECK(is_whole(path));
  }
  write(path, 2);
  CHECK(is_whole(path));
  CHECK(folder.size() == 1);
}

}  // namespace lod_test

// SPDX-License-Identifier: Apache-2.0
/// @file
/// A place for the files of a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lod_test {

/// A new, empty folder; it goes with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "lodtensor-XXXXXX";
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder: " + pattern);
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  /// Where a file of that name is.
  std::string operator/(std::string_view name) const { return path_ / name; }
  std::string path() const { return path_; }
  /// The number of files and folders.
  std::ptrdiff_t size() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

 private:
  std::filesystem::path path_;
};

/// All bytes of a file; throws std::runtime_error where there is none.
inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot be read: " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) throw std::runtime_error("cannot be written: " + path);
}

}  // namespace lod_test

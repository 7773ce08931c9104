// SPDX-License-Identifier: Apache-2.0
/// @file
/// A folder for the files of several ranks.
#pragma once

#include "support/temporary_folder.hpp"
#include <lod/mpi.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>

namespace lod_test {

/// A text as a tensor, and back.
inline lod::LoDTensor<std::uint8_t> as_tensor(const std::string& text) {
  lod::LoDTensor<std::uint8_t> letters({static_cast<std::int64_t>(text.size())});
  std::copy(text.begin(), text.end(), letters.data());
  return letters;
}
inline std::string as_text(const lod::LoDTensor<std::uint8_t>& letters) {
  return {letters.values().begin(), letters.values().end()};
}

/// A folder of rank 0's that all ranks know; it goes when all of them have done with it.
class SharedFolder {
 public:
  explicit SharedFolder(const lod::mpi::Communicator& ranks) : ranks_(ranks) {
    if (ranks.rank() == 0) folder_.emplace();
    path_ = as_text(lod::mpi::broadcast(ranks, 0, as_tensor(folder_ ? folder_->path() : "")));
  }
  SharedFolder(const SharedFolder&) = delete;
  SharedFolder& operator=(const SharedFolder&) = delete;
  ~SharedFolder() {
    lod::mpi::together(ranks_, [] {});
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  std::ptrdiff_t size() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }

 private:
  lod::mpi::Communicator ranks_;
  std::optional<TemporaryFolder> folder_;
  std::string path_;
};

}  // namespace lod_test

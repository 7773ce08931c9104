// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Several files that appear together or not at all.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/io/atomic_file.hpp>
#include <lod/io/system_file.hpp>

#include <cstddef>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Writes files of one folder, and of the folders in it, each as AtomicFile does. None is placed before all are on the
/// disk, so that a disk that is full, or fails, leaves all old files; it needs room for the old and the new ones. If
/// the system then refuses to place one, those that were placed before it are put back, where the file system can do
/// that (see AtomicFile::exchange). A process that is killed between the first and the last, which takes some
/// microseconds for each, leaves new files and old ones.
///
/// Takes two descriptors, however many files there are.
class AtomicFiles {
 public:
  /// Files whose paths begin with the folder of `path`, written alike. Throws std::system_error.
  explicit AtomicFiles(const std::string& path) : folder_(OpenFolder::of(path)) {}

  /// Adds a file that write(AtomicFile&) writes. Throws std::system_error, and what write throws; the files can then
  /// not be committed.
  template <class Write>
  void add(const std::string& path, const Write& write) {
    system_path(path);
    LOD_ASSERT(path.starts_with(folder_->prefix) && path[folder_->prefix.size()] != '/');
    AtomicFile& file = files_.emplace_back(folder_, path);
    write(file);
    file.set_aside();
  }

  /// Puts all files in their places. Nothing may be added afterwards. Throws std::system_error; all old files are then
  /// still there, but for what is said above.
  void commit() {
    for (AtomicFile& file : files_) file.keep_later_access();
    std::size_t placed = 0;
    try {
      for (; placed < files_.size(); ++placed) files_[placed].exchange();
    } catch (...) {
      while (placed > 0) files_[--placed].put_back();
      throw;
    }
    for (AtomicFile& file : files_) file.let_go();
    std::set<std::string_view> tidied;
    for (const AtomicFile& file : files_) {
      if (tidied.insert(file.inner_).second) file.tidy_folder();
    }
  }

 private:
  std::shared_ptr<const OpenFolder> folder_;
  std::deque<AtomicFile> files_;  // they cannot be moved
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

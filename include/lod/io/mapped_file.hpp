// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup files
/// Files that are read in place.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/io/system_file.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// A file, open and mapped for reading for as long as this lives. Takes no memory: pages are loaded when they are
/// touched and dropped when the system needs them for something else. Removing or replacing the file does no harm;
/// truncating it does: `bytes()` beyond the new end may not be read (SIGBUS).
class MappedFile {
 public:
  /// Throws std::system_error, also for anything but a regular file.
  explicit MappedFile(std::string path) : path_(std::move(path)) {
    OpenedFile opened = open_regular_file(path_);
    file_ = std::move(opened.file);
    map(opened.size);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }

  const std::string& path() const noexcept { return path_; }
  /// The whole file, with the length it had when it was opened.
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// Copies `size` bytes from byte `begin` on without touching the mapping: this is faster for large parts, and turns a
  /// truncated file into a ParseError. Throws std::system_error if they cannot be read.
  void read(std::size_t begin, void* to, std::size_t size) const {
    auto* at = static_cast<std::byte*>(to);
    while (size > 0) {
      const ::ssize_t count =
          uninterrupted([&] { return ::pread(file_.get(), at, size, static_cast<::off_t>(begin)); });
      if (count < 0) throw_file_error("read", path_);
      if (count == 0) throw ParseError(text({"'", path_, "': ends here, and was longer when it was opened"}), begin);
      begin += static_cast<std::size_t>(count);
      at += count;
      size -= static_cast<std::size_t>(count);
    }
  }

 private:
  void map(std::size_t size) {
    if (size == 0) return;
    void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_.get(), 0);
    if (memory == MAP_FAILED) throw_file_error("map", path_);
    bytes_ = {static_cast<const std::byte*>(memory), size};
  }

  std::string path_;
  FileDescriptor file_;
  std::span<const std::byte> bytes_;
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Files at the level of the operating system: paths for its calls, what exists, and how to open it.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Throws std::system_error for `errno`. The text is "<action> '<path>': <the system's name for it>".
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_file_error(const char* action, const std::string& path) {
  const int code = errno;
  throw std::system_error(code, std::generic_category(), readable(text({action, " '", path, "'"})));
}

/// The path for a system call. A zero byte would end it there, and so name another file: throws std::system_error if
/// there is one.
inline const char* system_path(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    throw std::system_error(EINVAL, std::generic_category(), readable(text({"'", path, "': a path with a zero byte"})));
  }
  return path.c_str();
}

/// Returns read(), and puts the path before the text of a ParseError. The empty path means no file.
template <class Read>
auto read_at(const std::string& path, const Read& read) {
  try {
    return read();
  } catch (const ParseError& error) {
    if (path.empty()) throw;
    throw error.inside(text({"'", path, "'"}));
  }
}

/// Throws std::system_error unless what was found at the path is a regular file. `action` begins the text.
inline void check_regular(const struct ::stat& found, const char* action, const std::string& path) {
  if (S_ISREG(found.st_mode)) return;
  if (S_ISDIR(found.st_mode)) {
    errno = EISDIR;
    throw_file_error(action, path);
  }
  throw std::system_error(EINVAL, std::generic_category(),
                          readable(text({action, " '", path, "': not a regular file"})));
}

/// A file descriptor, closed with this object. -1 is none.
class FileDescriptor {
 public:
  FileDescriptor() noexcept = default;
  explicit FileDescriptor(int number) noexcept : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() {
    if (number_ >= 0) ::close(number_);
  }

  explicit operator bool() const noexcept { return number_ >= 0; }
  int get() const noexcept { return number_; }
  /// Gives up ownership to a caller that closes it.
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// An open file, and its size at the time of opening.
struct OpenedFile {
  FileDescriptor file;
  std::size_t size;
};

/// Opens a file for reading. Throws std::system_error, also for anything but a regular file, whose size is unknown.
inline OpenedFile open_regular_file(const std::string& path) {
  FileDescriptor file;
  do {
    // Opening a pipe would wait for its writer, only to find that it is not a regular file.
    file = FileDescriptor(::open(system_path(path), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  } while (!file && errno == EINTR);
  if (!file) throw_file_error("open", path);
  struct ::stat found {};
  if (::fstat(file.get(), &found) != 0) throw_file_error("look up", path);
  check_regular(found, "open", path);
  return {std::move(file), static_cast<std::size_t>(found.st_size)};
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

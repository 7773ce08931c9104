// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Files as the system has them: paths that its calls take, what is there, and how it is opened.
#pragma once

#include <lod/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

namespace lod::detail {

/// Throws std::system_error for what `errno` says. The text is "<action> '<path>': <what the system calls it>".
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_file_error(const char* action, const std::string& path) {
  const int code = errno;
  throw std::system_error(code, std::generic_category(), readable(text({action, " '", path, "'"})));
}

/// The path for a call of the system. That would take a zero byte for its end, and so another file: throws
/// std::system_error where there is one.
inline const char* system_path(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    throw std::system_error(EINVAL, std::generic_category(), readable(text({"'", path, "': a path with a zero byte"})));
  }
  return path.c_str();
}

/// Returns read(), and puts the path before the text of a ParseError. The empty path is that of no file.
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

/// A descriptor of the system's, which is closed with it. -1 is none.
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
  /// Gives it away, to who closes it.
  int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// A file that is open, and as many bytes as it had then.
struct OpenedFile {
  FileDescriptor file;
  std::size_t size;
};

/// Opens a file for reading. Throws std::system_error, also for what is no regular file, whose size nobody knows.
inline OpenedFile open_regular_file(const std::string& path) {
  FileDescriptor file;
  do {
    // Who opens a pipe would wait for its writer, and never learn that it is none of the files that are read here.
    file = FileDescriptor(::open(system_path(path), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  } while (!file && errno == EINTR);
  if (!file) throw_file_error("open", path);
  struct ::stat found {};
  if (::fstat(file.get(), &found) != 0) throw_file_error("look up", path);
  check_regular(found, "open", path);
  return {std::move(file), static_cast<std::size_t>(found.st_size)};
}

}  // namespace lod::detail

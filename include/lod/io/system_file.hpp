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
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Throws std::system_error for `errno`. The text is "<action> '<path>': <the system's name for it>".
[[noreturn, gnu::cold, gnu::noinline]] inline void throw_file_error(const char* action, const std::string& path) {
  const int code = errno;
  throw std::system_error(code, std::generic_category(), readable(text({action, " '", path, "'"})));
}

/// What call() returns: a system call, made again for as long as a signal interrupts it. On networks and in user space,
/// file systems report that from calls which never do on a disk. Not for close(): the descriptor is gone in any case.
template <class Call>
auto uninterrupted(const Call& call) noexcept {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
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

/// Opens a file by its name in an open folder, or AT_FDCWD, for this program only. Gives none, and leaves `errno`, if
/// that fails.
inline FileDescriptor open_at(int folder, const char* name, int flags, ::mode_t permissions = 0) noexcept {
  return FileDescriptor(uninterrupted([&] { return ::openat(folder, name, flags | O_CLOEXEC, permissions); }));
}
/// fstat: whether it says anything.
inline bool look_up(int file, struct ::stat& found) noexcept {
  return uninterrupted([&] { return ::fstat(file, &found); }) == 0;
}
/// What is at a path, after links; nothing if nothing is. Throws std::system_error if that cannot be told, such as for
/// want of permission: it may be there.
inline std::optional<struct ::stat> look_up(const std::string& path) {
  const char* const name = system_path(path);
  struct ::stat found {};
  if (uninterrupted([&] { return ::stat(name, &found); }) == 0) return found;
  if (errno != ENOENT && errno != ENOTDIR) throw_file_error("look up", path);
  return {};
}

/// An open file, and its size at the time of opening.
struct OpenedFile {
  FileDescriptor file;
  std::size_t size;
};

/// Opens a file for reading. Throws std::system_error, also for anything but a regular file, whose size is unknown.
inline OpenedFile open_regular_file(const std::string& path) {
  // Opening a pipe would wait for its writer, only to find that it is not a regular file.
  FileDescriptor file = open_at(AT_FDCWD, system_path(path), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file) throw_file_error("open", path);
  struct ::stat found {};
  if (!look_up(file.get(), found)) throw_file_error("look up", path);
  check_regular(found, "open", path);
  return {std::move(file), static_cast<std::size_t>(found.st_size)};
}

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

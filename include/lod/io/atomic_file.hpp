// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Files that are there as a whole or not at all.
#pragma once

#include <lod/error.hpp>
#include <lod/io/system_file.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace lod::detail {

/// Writes a file that takes the place of the one at `path`, if there is one, in the moment of `commit()`. Until then,
/// and if the program or the machine stops before, whoever opens `path` finds what was there. What is written has no
/// name until then, and so goes with the process, however that ends. Where the file system has no files without a name,
/// it goes to "lodtensor-<process>-<number>.tmp" in the same folder, which the destructor removes where nothing was
/// committed.
///
/// Where the caller does not `wait_for_disk`, all this holds when the program stops, not when the machine does: the
/// system has the bytes, and brings them to the disk when it likes.
///
/// The new file has the permissions of the old one, so that what was private stays so; a symbolic link at `path` is
/// replaced, not followed, and the permissions are those of the file that it led to. Nothing is gathered: each `write`
/// is a call of the system, so small pieces are best put together.
class AtomicFile {
 public:
  /// Opens the temporary file. Throws std::system_error, also where something is at `path` that is neither a regular
  /// file nor a symbolic link: it is not replaced.
  explicit AtomicFile(std::string path, bool wait_for_disk = true)
      : path_(std::move(path)), wait_for_disk_(wait_for_disk) {
    const std::optional<::mode_t> permissions = old_permissions();
    create(permissions.value_or(0666));
    try {
      if (permissions) give_permissions(*permissions);
    } catch (...) {
      discard();
      throw;
    }
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile() { discard(); }

  /// Appends `size` bytes, all of them. Throws std::system_error.
  void write(const void* bytes, std::size_t size) {
    write_all(bytes, size, [this](const void* from, std::size_t left) { return ::write(file_, from, left); });
    end_ += size;
    if (wait_for_disk_) start_transfer();
  }
  /// Writes over `size` bytes from byte `offset` on, which are there already. Throws std::system_error.
  void overwrite(std::uint64_t offset, const void* bytes, std::size_t size) {
    const auto* const first = static_cast<const char*>(bytes);
    write_all(bytes, size, [&](const void* from, std::size_t left) {
      const auto before = static_cast<const char*>(from) - first;
      return ::pwrite(file_, from, left, static_cast<::off_t>(offset) + before);
    });
  }

  /// Puts the file in its place: where it is to wait, when its bytes are on the disk, and waits for the place too.
  /// Nothing may be written afterwards. Throws std::system_error; then the old file is still there, unless the text
  /// says "sync folder".
  void commit() {
    if (wait_for_disk_ && ::fsync(file_) != 0) throw_file_error("sync", path_);
    if (temporary_.empty()) give_name();
    if (::close(std::exchange(file_, -1)) != 0 && errno != EINTR) throw_file_error("close", path_);
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) throw_file_error("rename to", path_);
    temporary_.clear();
    if (wait_for_disk_) sync_folder();
  }

 private:
  /// Those of the file that will be replaced, if there is one.
  std::optional<::mode_t> old_permissions() const {
    struct ::stat found {};
    if (::lstat(system_path(path_), &found) != 0) {
      if (errno != ENOENT || path_.empty()) throw_file_error("create", path_);
      return {};
    }
    if (S_ISLNK(found.st_mode)) {
      if (::stat(path_.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return {};
    }
    check_regular(found, "create", path_);
    return found.st_mode & 0777U;
  }
  void create(::mode_t permissions) {
#ifdef O_TMPFILE
    // It gets its name by way of /proc, which need not be there.
    if (::access("/proc/self/fd", X_OK) == 0) {
      file_ = ::open(folder().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, permissions);
      if (file_ >= 0) return;
    }
#endif
    do {
      temporary_ = next_name();
      file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions);
    } while (file_ < 0 && (errno == EEXIST || errno == EINTR));
    if (file_ < 0) throw_file_error("create", path_);
  }
  /// Those that the user's mask took away. Where all files have the same ones the file system does not let them be
  /// changed, and there is nothing to change.
  void give_permissions(::mode_t permissions) const {
    struct ::stat created {};
    if (::fstat(file_, &created) != 0) throw_file_error("look up", path_);
    if ((created.st_mode & 0777U) == permissions) return;
    if (::fchmod(file_, permissions) != 0) throw_file_error("give the old permissions to", path_);
  }
  /// Removes what was not committed.
  void discard() const noexcept {
    if (file_ >= 0) ::close(file_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }
  /// The system may take less than it is given: write_some(from, left) until all is written.
  template <class WriteSome>
  void write_all(const void* bytes, std::size_t size, const WriteSome& write_some) {
    const auto* at = static_cast<const char*>(bytes);
    while (size > 0) {
      const ::ssize_t written = write_some(at, size);
      if (written < 0) {
        if (errno == EINTR) continue;
        throw_file_error("write", path_);
      }
      at += written;
      size -= static_cast<std::size_t>(written);
    }
  }

  /// Has the system begin to bring to the disk what was written, a large piece at a time: `commit()` would else find
  /// the disk idle and wait for all of it. An error here is one that `commit()` finds too.
  void start_transfer() noexcept {
#ifdef SYNC_FILE_RANGE_WRITE
    constexpr std::uint64_t piece = std::uint64_t{4} << 20;
    if (end_ - transferred_ < piece) return;
    const auto size = static_cast<::off_t>(end_ - transferred_);
    ::sync_file_range(file_, static_cast<::off_t>(transferred_), size, SYNC_FILE_RANGE_WRITE);
    transferred_ = end_;
#endif
  }

  std::string next_name() const {
    static std::atomic<std::uint64_t> number = 0;
    // Not of the name of the file, which may be as long as names can be.
    return text({folder(), "lodtensor-", static_cast<std::int64_t>(::getpid()), "-", ++number, ".tmp"});
  }
  /// A name cannot be given in the place of an old file: it is one beside it, for a moment.
  void give_name() {
    const std::string unnamed = text({"/proc/self/fd/", file_});
    std::string name = next_name();
    while (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      if (errno != EEXIST) throw_file_error("create", path_);
      name = next_name();
    }
    temporary_ = std::move(name);
  }
  std::string folder() const {
    const std::size_t slash = path_.rfind('/');
    return slash == std::string::npos ? "./" : path_.substr(0, slash + 1);
  }

  /// The name is on the disk only when the folder is. A folder that may not be read, or a file system that does not
  /// sync folders, is no error: there is nothing left to do.
  void sync_folder() const {
    const int file = ::open(folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return;
    const int status = ::fsync(file);
    const int code = errno;
    ::close(file);
    if (status != 0 && code != EINVAL && code != ENOTSUP && code != EROFS) {
      errno = code;
      throw_file_error("sync folder", folder());
    }
  }

  std::string path_;
  bool wait_for_disk_;
  std::string temporary_;  // none, while the file has no name
  int file_ = -1;
  std::uint64_t end_ = 0;
  std::uint64_t transferred_ = 0;  // up to here, the system has been told to bring the bytes to the disk
};

}  // namespace lod::detail

// SPDX-License-Identifier: Apache-2.0
/// @file
/// @ingroup descriptions
/// Files that appear as a whole or not at all.
#pragma once

#include <lod/core/error.hpp>
#include <lod/core/target.hpp>
#include <lod/io/file_access.hpp>
#include <lod/io/system_file.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#ifdef __linux__
#  include <linux/magic.h>
#  include <sys/vfs.h>
#endif

namespace lod::inline LOD_INTERFACE::detail {
/// Outside LOD_TARGET: a program's temporary files have different names, whatever the flags of its files.
inline std::atomic<std::uint64_t> temporary_name_count = 0;
}  // namespace lod::inline LOD_INTERFACE::detail

namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET {

/// Writes a file that replaces the one at `path`, if there is one, at the moment of `commit()`. Until then, and if the
/// program or the machine stops before, whoever opens `path` finds the old contents. The folder is the one that `path`
/// leads to when this object is made, even if the program changes its working directory. The data is written to a file
/// without a name, which disappears with the process however it ends. If the file system has no unnamed files, it goes
/// to "lodtensor-<process>-<number>.tmp" in the same folder, which the destructor removes unless it was committed. A
/// file that replaces another has such a name for a moment in any case. Files left by a killed process are removed the
/// next time a process commits a file in that folder and waits for the disk, provided that their process no longer
/// exists and nobody holds the lock (flock) that a file has while it is written.
///
/// If the caller does not `wait_for_disk`, all this holds when the program stops, but not when the machine does: the
/// system has the bytes and writes them to the disk when it chooses to.
///
/// At no time does anybody have more access to the new file than to the one it replaces. In the end it has the owner,
/// group, permissions and access control list of the old file as far as the system permits (see FileAccess), and
/// otherwise gives less access. Set-user-id, set-group-id and sticky bits and other attributes (user.*) belonged to the
/// old contents and are not kept; the security label is the one that the system gives to new files.
///
/// A symbolic link at `path` is replaced, not followed, and the access is that of the file it pointed to; a dangling
/// link is replaced too. Other names (hard links) of the old file still lead to the old file. Nothing is buffered: each
/// `write` is a system call, so combine small pieces first.
class AtomicFile {
 public:
  /// Opens the temporary file. Throws std::system_error, also if `path` leads, directly or through links, to anything
  /// but a regular file, or through the system's links to what a process has open (/dev/stdout): these are not
  /// replaced.
  explicit AtomicFile(std::string path, bool wait_for_disk = true)
      : path_(std::move(path)),
        wait_for_disk_(wait_for_disk),
        folder_(open_folder()),
        name_(path_.substr(name_begin())) {
    if (name_.empty()) {
      errno = path_.empty() ? ENOENT : EISDIR;
      throw_file_error("create", path_);
    }
    access_ = old_access("create");
    create(access_ ? access_->private_permissions() : 0666);
  }
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Removes the file unless it was committed.
  ~AtomicFile() {
    if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
  }

  const std::string& path() const noexcept { return path_; }

  /// Appends `size` bytes, all of them. Throws std::system_error.
  void write(const void* bytes, std::size_t size) {
    write_all(bytes, size, [this](const void* from, std::size_t left) { return ::write(file_.get(), from, left); });
    end_ += size;
    if (wait_for_disk_) start_transfer();
  }
  /// Overwrites `size` existing bytes from byte `offset` on. Throws std::system_error.
  void overwrite(std::uint64_t offset, const void* bytes, std::size_t size) {
    const auto* const first = static_cast<const char*>(bytes);
    write_all(bytes, size, [&](const void* from, std::size_t left) {
      const auto before = static_cast<const char*>(from) - first;
      return ::pwrite(file_.get(), from, left, static_cast<::off_t>(offset) + before);
    });
  }

  /// Puts the file in its place: if it is to wait for the disk, only once its bytes are there, and then waits for the
  /// directory entry as well. Nothing may be written afterwards. Throws std::system_error; the path then still has its
  /// old contents. If the file is in its place but the folder cannot be synchronised, nothing is thrown: the new file
  /// is there and stays, unless the machine stops soon after.
  void commit() {
    keep_access();
    if (wait_for_disk_ && ::fsync(file_.get()) != 0) throw_file_error("sync", path_);
    check_closed();
    if (!take_free_place()) {
      keep_access();  // the disk may take seconds: a file may have appeared meanwhile, or its access have changed
      take_place();
    }
    file_ = FileDescriptor();
    if (!wait_for_disk_) return;
    ::fsync(folder_.get());  // see above; impossible if the folder is not readable
    remove_stale();
  }

 private:
  std::size_t name_begin() const noexcept { return path_.rfind('/') + 1; }  // 0 if there is none
  FileDescriptor open_folder() const {
    system_path(path_);
    const std::string folder = name_begin() == 0 ? "." : path_.substr(0, name_begin());
    FileDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
#ifdef O_PATH
    if (!opened && errno == EACCES) opened = FileDescriptor(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
#endif
    if (!opened) throw_file_error("create", path_);
    return opened;
  }

  /// The access of the file that will be replaced, if there is one. `action` begins the text of errors.
  std::optional<FileAccess> old_access(const char* action) const {
    check_link(action);
#ifdef O_PATH
    constexpr int looked_up = O_PATH | O_CLOEXEC;
#else
    constexpr int looked_up = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
#endif
    const FileDescriptor file(::openat(folder_.get(), name_.c_str(), looked_up));
    if (!file) {
      // There is nothing, or a dangling link. If the link's target cannot be determined, nobody knows who may use the
      // file either.
      if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR) return {};
      throw_file_error(action, path_);
    }
    struct ::stat found {};
    if (::fstat(file.get(), &found) != 0) throw_file_error("look up", path_);
    check_regular(found, action, path_);
    return FileAccess(file.get(), found, folder_.get(), name_);
  }
  /// Gives the new file the access of the one that it is going to replace, or of the one that was there before.
  void keep_access() {
    if (std::optional<FileAccess> access = old_access("rename to")) access_ = std::move(access);
    if (access_) access_->give_to(file_.get(), path_);
  }
  /// Throws if a link leads through one of those that the system makes for a process's open files. Their text names a
  /// file, or nothing, but whoever uses them means the open file: "/dev/stdout" must not become a file.
  void check_link([[maybe_unused]] const char* action) const {
#ifdef __linux__
    constexpr int most = 40;  // the system follows no more
    FileDescriptor folder(::openat(folder_.get(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    std::string name = name_;
    for (int links = 0; folder && links < most; ++links) {
      char target[4096];
      const ::ssize_t size = ::readlinkat(folder.get(), name.c_str(), target, sizeof(target));
      if (size < 0) return;  // not a link
      struct ::statfs system {};
      if (::fstatfs(folder.get(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC) {
        throw std::system_error(
            EINVAL, std::generic_category(),
            readable(text({action, " '", path_, "': what a process has open, not a regular file"})));
      }
      name.assign(target, static_cast<std::size_t>(size));
      const std::size_t begin = name.rfind('/') + 1;
      const std::string next = begin == 0 ? "." : name.substr(0, begin);
      folder = FileDescriptor(::openat(folder.get(), next.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
      name.erase(0, begin);
    }
#endif
  }

  void create(::mode_t permissions) {
#ifdef O_TMPFILE
    // It gets its name through /proc, which may not exist.
    if (::access("/proc/self/fd", X_OK) == 0) {
      file_ = FileDescriptor(::openat(folder_.get(), ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, permissions));
      has_unnamed_ = static_cast<bool>(file_);
    }
#endif
    while (!file_) {
      temporary_ = next_name();
      file_ = FileDescriptor(
          ::openat(folder_.get(), temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, permissions));
      if (file_) break;
      temporary_.clear();  // it belongs to somebody else
      if (errno != EEXIST && errno != EINTR) throw_file_error("create", path_);
    }
    // The lock marks the file as being written. On file systems without locks, nobody considers it stale either.
    ::flock(file_.get(), LOCK_EX | LOCK_NB);
  }
  /// The system may take fewer bytes than it is given: calls write_some(from, left) until all are written.
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

  /// Makes the system start writing to the disk, a large piece at a time: otherwise `commit()` would find the disk idle
  /// and wait for everything. An error here will be found by `commit()` too.
  void start_transfer() noexcept {
#ifdef SYNC_FILE_RANGE_WRITE
    constexpr std::uint64_t piece = std::uint64_t{4} << 20;
    if (end_ - transferred_ < piece) return;
    const auto size = static_cast<::off_t>(end_ - transferred_);
    ::sync_file_range(file_.get(), static_cast<::off_t>(transferred_), size, SYNC_FILE_RANGE_WRITE);
    transferred_ = end_;
#endif
  }

  /// Throws errors that some file systems report only on closing. The file stays open under another descriptor, for its
  /// lock.
  void check_closed() const {
    FileDescriptor same(::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
    if (!same) throw_file_error("close", path_);
    if (::close(same.release()) != 0 && errno != EINTR) throw_file_error("close", path_);
  }

  static constexpr std::string_view name_prefix = "lodtensor-", name_suffix = ".tmp";
  static std::string next_name() {
    // Not derived from the file's name, which may have the maximum length.
    return text({std::string(name_prefix), static_cast<std::int64_t>(::getpid()), "-", ++temporary_name_count,
                 std::string(name_suffix)});
  }
  bool give_name(const std::string& name) const {
    const std::string unnamed = text({"/proc/self/fd/", file_.get()});
    return ::linkat(AT_FDCWD, unnamed.c_str(), folder_.get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  }
  /// Gives a file without a name its final name, if that is free.
  bool take_free_place() const {
    if (!temporary_.empty() || access_) return false;
    if (give_name(name_)) return true;
    if (errno != EEXIST) throw_file_error("create", path_);
    return false;
  }
  /// An unnamed file cannot replace an existing one: it gets a name beside it, for a moment.
  void take_place() {
    while (temporary_.empty()) {
      std::string name = next_name();
      if (give_name(name)) {
        temporary_ = std::move(name);
      } else if (errno != EEXIST) {
        throw_file_error("create", path_);
      }
    }
    if (access_) access_->give_owner(file_.get());
    if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) {
      throw_file_error("rename to", path_);
    }
    temporary_.clear();
  }

  /// The process in a name made by `next_name`; 0 for other names.
  static ::pid_t process_of(std::string_view name) noexcept {
    if (!name.starts_with(name_prefix) || !name.ends_with(name_suffix)) return 0;
    if (name.size() < name_prefix.size() + name_suffix.size()) return 0;
    name = name.substr(name_prefix.size(), name.size() - name_prefix.size() - name_suffix.size());
    constexpr std::string_view digits = "0123456789";
    const std::size_t end = name.find_first_not_of(digits);
    if (end == 0 || end == std::string_view::npos || name[end] != '-' || end + 1 == name.size()) return 0;
    if (name.find_first_not_of(digits, end + 1) != std::string_view::npos) return 0;
    constexpr std::size_t most_digits = 9;
    return end > most_digits ? 0 : static_cast<::pid_t>(std::strtol(name.data(), nullptr, 10));
  }
  /// Removes what processes that have ended left in this folder. What cannot be determined or removed stays.
  void remove_stale() const noexcept {
    FileDescriptor readable(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<::DIR, int (*)(::DIR*)> list(readable ? ::fdopendir(readable.get()) : nullptr, ::closedir);
    if (!list) return;
    readable.release();  // now owned by the list
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this list
    while (const ::dirent* const entry = ::readdir(list.get())) {
      const ::pid_t process = process_of(entry->d_name);
      const bool is_gone = process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
      if (is_gone && is_stale(entry->d_name)) ::unlinkat(folder_.get(), entry->d_name, 0);
    }
  }
  /// Whether nobody is writing the file any more. A file system without unnamed files may be shared by several
  /// machines, which do not see each other's processes or locks: there a file must also be old.
  bool is_stale(const char* name) const noexcept {
    constexpr std::time_t an_hour = 3600;
    struct ::stat found {};
    const FileDescriptor file(::openat(folder_.get(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file || ::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode)) return false;
    if (!has_unnamed_ && std::time(nullptr) - found.st_mtime < an_hour) return false;
    return ::flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  }

  std::string path_;
  bool wait_for_disk_;
  FileDescriptor folder_;
  std::string name_;                  // in the folder
  std::optional<FileAccess> access_;  // of the file that is there, or was
  std::string temporary_;             // empty while the file has no name
  FileDescriptor file_;
  bool has_unnamed_ = false;  // whether the file system supports unnamed files
  std::uint64_t end_ = 0;
  std::uint64_t transferred_ = 0;  // up to here the system has been told to write the bytes to the disk
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET

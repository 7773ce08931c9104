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
#include <sys/mman.h>
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

/// An open folder. The paths of files in it begin with `prefix`, which is empty or ends in a slash.
struct OpenFolder {
  std::string prefix;
  FileDescriptor file;

  /// The folder of a file. Throws std::system_error.
  static std::shared_ptr<const OpenFolder> of(const std::string& path) {
    system_path(path);
    const std::string prefix = path.substr(0, path.rfind('/') + 1);
    const char* const name = prefix.empty() ? "." : prefix.c_str();
    FileDescriptor opened = open_at(AT_FDCWD, name, O_RDONLY | O_DIRECTORY);
#ifdef O_PATH
    if (!opened && errno == EACCES) opened = open_at(AT_FDCWD, name, O_PATH | O_DIRECTORY);
#endif
    if (!opened) throw_file_error("create", path);
    return std::make_shared<const OpenFolder>(OpenFolder{prefix, std::move(opened)});
  }
};

/// Writes a file that replaces the one at `path`, if there is one, at the moment of `commit()`. Until then, and if the
/// program or the machine stops before, whoever opens `path` finds the old contents. The folder is the one that `path`
/// leads to when this object is made, even if the program changes its working directory. The data is written to a file
/// without a name, which disappears with the process however it ends. If the file system has no unnamed files, it goes
/// to "lodtensor-<process>-<number>.tmp" in the same folder, which the destructor removes unless it was committed. A
/// file that replaces another has such a name for a moment in any case. Files left by a killed process are removed the
/// next time a process commits a file in that folder and waits for the disk, provided that their process no longer
/// exists and nobody holds the lock (flock) that a file has until it is in its place.
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
      : AtomicFile(nullptr, std::move(path), wait_for_disk, O_WRONLY) {}
  /// The same in an open folder, or in one that is in it. For AtomicFiles, whose folder it is.
  AtomicFile(std::shared_ptr<const OpenFolder> folder, std::string path)
      : AtomicFile(std::move(folder), std::move(path), true, O_RDWR) {}
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  /// Removes the file unless it was committed.
  ~AtomicFile() {
    for (const std::string* const name : {&temporary_, &old_}) {
      if (!name->empty()) remove(*name);
    }
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
    prepare();
    if (!take_free_place()) {
      keep_access();  // the disk may take seconds: a file may have appeared meanwhile, or its access have changed
      take_name();
      give_owner();
      if (!rename(temporary_, name_)) throw_file_error("rename to", path_);
      temporary_.clear();
    }
    finish();
  }
  /// The same, but nothing is replaced: throws std::system_error (EEXIST) if there is anything at the path by then,
  /// also a dangling link. Of several that are placed at once, one is.
  void commit_new() {
    prepare();
    if (!(temporary_.empty() ? give_name(name_) : rename_to_free(name_))) throw_file_error("create", path_);
    finish();
  }

 private:
  friend class AtomicFiles;

  AtomicFile(std::shared_ptr<const OpenFolder> folder, std::string path, bool wait_for_disk, int open_for)
      : path_(std::move(path)),
        wait_for_disk_(wait_for_disk),
        folder_(folder ? std::move(folder) : OpenFolder::of(path_)),
        name_(path_.substr(folder_->prefix.size())),
        inner_(name_.substr(0, name_.rfind('/') + 1)) {
    if (name_.size() == inner_.size()) {
      errno = path_.empty() ? ENOENT : EISDIR;
      throw_file_error("create", path_);
    }
    access_ = old_access("create");
    create(access_ ? access_->private_permissions() : 0666, open_for);
  }

  int folder() const noexcept { return folder_->file.get(); }
  /// The folder that the file itself is in, from folder().
  const char* inner() const noexcept { return inner_.empty() ? "." : inner_.c_str(); }
  bool rename(const std::string& from, const std::string& to) const noexcept {
    return uninterrupted([&] { return ::renameat(folder(), from.c_str(), folder(), to.c_str()); }) == 0;
  }
  void remove(const std::string& name) const noexcept {
    uninterrupted([&] { return ::unlinkat(folder(), name.c_str(), 0); });
  }

  /// The first half of `commit()`, which finds what a disk may refuse: all is written and can be placed.
  void prepare() {
    keep_access();
    if (wait_for_disk_ && uninterrupted([&] { return ::fsync(file_.get()); }) != 0) throw_file_error("sync", path_);
    check_closed();
  }
  /// The end of `commit()`.
  void finish() {
    file_ = FileDescriptor();
    if (wait_for_disk_) tidy_folder();
  }
  /// Waits for the directory entry, and removes what others have left in the folder.
  void tidy_folder() const noexcept {
    FileDescriptor readable = open_at(folder(), inner(), O_RDONLY | O_DIRECTORY);
    if (!readable) return;
    uninterrupted([&] { return ::fsync(readable.get()); });
    remove_stale(std::move(readable));
  }

  // What AtomicFiles makes of the two halves of commit(): several files are all prepared before one is placed.

  /// Prepares the file, and gives back its descriptor, of which processes may have fewer than a model has parameters.
  /// A mapping keeps the lock, and with it what says that somebody will still place the file.
  void set_aside() {
    prepare();
    take_name();
    give_owner();
    void* const mapped = ::mmap(nullptr, 1, PROT_NONE, MAP_PRIVATE, file_.get(), 0);
    if (mapped == MAP_FAILED) return;  // the descriptor keeps the lock
    lock_.reset(mapped);
    file_ = FileDescriptor();
  }
  /// Does again what `prepare()` did for the access, if that of the old file has changed meanwhile.
  void keep_later_access() {
    std::optional<FileAccess> now = old_access("rename to");
    if (!now || now == access_) return;
    if (!file_) file_ = open_at(folder(), temporary_.c_str(), O_RDONLY | O_NOFOLLOW);
    if (!file_) throw_file_error("give the old permissions to", path_);
    access_ = std::move(now);
    access_->give_to(file_.get(), path_);
    give_owner();
    if (lock_) file_ = FileDescriptor();
  }
  /// Puts the file in its place such that `put_back()` can undo it: the old one gets another name. Throws
  /// std::system_error if the old one is still there. Where the file system can neither exchange two files nor give one
  /// a second name, the old one cannot be put back.
  void exchange() {
    std::string name = next_name();
#ifdef RENAME_EXCHANGE
    const auto exchange_names = [&] {
      return ::renameat2(folder(), temporary_.c_str(), folder(), name_.c_str(), RENAME_EXCHANGE);
    };
    if (uninterrupted(exchange_names) == 0) {
      struct ::stat found {};  // what rename() would have refused, or nobody wants to lose
      const auto look_at_it = [&] { return ::fstatat(folder(), temporary_.c_str(), &found, AT_SYMLINK_NOFOLLOW); };
      if (uninterrupted(look_at_it) == 0 && !S_ISLNK(found.st_mode) && !S_ISREG(found.st_mode)) {
        uninterrupted(exchange_names);
        check_regular(found, "rename to", path_);
      }
      old_ = std::move(temporary_);
      temporary_.clear();
      return;
    }
#endif
    const bool has_old = link(folder(), name_, name, 0);
    if (!rename(temporary_, name_)) {
      const int code = errno;
      if (has_old) remove(name);
      errno = code;
      throw_file_error("rename to", path_);
    }
    if (has_old) old_ = std::move(name);
    temporary_.clear();
  }
  /// Once all are in their places.
  void let_go() noexcept {
    if (!old_.empty()) remove(old_);
    old_.clear();
    lock_.reset();
    file_ = FileDescriptor();
  }
  void put_back() noexcept {
    if (old_.empty()) {
      remove(name_);
    } else {
      rename(old_, name_);
      old_.clear();  // if it could not be put back, it is not removed either
    }
  }

  /// The access of the file that will be replaced, if there is one. `action` begins the text of errors.
  std::optional<FileAccess> old_access(const char* action) const {
    check_link(action);
#ifdef O_PATH
    constexpr int looked_up = O_PATH;
#else
    constexpr int looked_up = O_RDONLY | O_NONBLOCK | O_NOCTTY;
#endif
    const FileDescriptor file = open_at(folder(), name_.c_str(), looked_up);
    if (!file) {
      // There is nothing, or a dangling link. If the link's target cannot be determined, nobody knows who may use the
      // file either.
      if (errno == ENOENT || errno == ELOOP || errno == ENOTDIR) return {};
      throw_file_error(action, path_);
    }
    struct ::stat found {};
    if (!look_up(file.get(), found)) throw_file_error("look up", path_);
    check_regular(found, action, path_);
    return FileAccess(file.get(), found, folder(), name_);
  }
  /// Gives the new file the access of the one that it is going to replace, or of the one that was there before.
  void keep_access() {
    if (std::optional<FileAccess> access = old_access("rename to")) access_ = std::move(access);
    if (access_) access_->give_to(file_.get(), path_);
  }
  void give_owner() const noexcept {
    if (access_) access_->give_owner(file_.get());
  }
  /// Throws if a link leads through one of those that the system makes for a process's open files. Their text names a
  /// file, or nothing, but whoever uses them means the open file: "/dev/stdout" must not become a file.
  void check_link([[maybe_unused]] const char* action) const {
#ifdef __linux__
    constexpr int most = 40;  // the system follows no more
    FileDescriptor at = open_at(folder(), inner(), O_PATH | O_DIRECTORY);
    std::string name = name_.substr(inner_.size());
    for (int links = 0; at && links < most; ++links) {
      char target[4096];
      const ::ssize_t size =
          uninterrupted([&] { return ::readlinkat(at.get(), name.c_str(), target, sizeof(target)); });
      if (size < 0) return;  // not a link
      struct ::statfs system {};
      if (uninterrupted([&] { return ::fstatfs(at.get(), &system); }) == 0 && system.f_type == PROC_SUPER_MAGIC) {
        throw std::system_error(
            EINVAL, std::generic_category(),
            readable(text({action, " '", path_, "': what a process has open, not a regular file"})));
      }
      name.assign(target, static_cast<std::size_t>(size));
      const std::size_t begin = name.rfind('/') + 1;
      const std::string next = begin == 0 ? "." : name.substr(0, begin);
      at = open_at(at.get(), next.c_str(), O_PATH | O_DIRECTORY);
      name.erase(0, begin);
    }
#endif
  }

  void create(::mode_t permissions, int open_for) {
#ifdef O_TMPFILE
    // It gets its name through /proc, which may not exist.
    if (::access("/proc/self/fd", X_OK) == 0) {
      file_ = open_at(folder(), inner(), open_for | O_TMPFILE, permissions);
      has_unnamed_ = static_cast<bool>(file_);
    }
#endif
    while (!file_) {
      temporary_ = next_name();
      file_ = open_at(folder(), temporary_.c_str(), open_for | O_CREAT | O_EXCL, permissions);
      if (file_) break;
      temporary_.clear();  // it belongs to somebody else
      if (errno != EEXIST) throw_file_error("create", path_);
    }
    // The lock marks the file as being written. On file systems without locks, nobody considers it stale either.
    uninterrupted([&] { return ::flock(file_.get(), LOCK_EX | LOCK_NB); });
  }
  /// The system may take fewer bytes than it is given: calls write_some(from, left) until all are written.
  template <class WriteSome>
  void write_all(const void* bytes, std::size_t size, const WriteSome& write_some) {
    const auto* at = static_cast<const char*>(bytes);
    while (size > 0) {
      const ::ssize_t written = uninterrupted([&] { return write_some(at, size); });
      if (written < 0) throw_file_error("write", path_);
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
  std::string next_name() const {
    // Not derived from the file's name, which may have the maximum length.
    return text({inner_, std::string(name_prefix), static_cast<std::int64_t>(::getpid()), "-", ++temporary_name_count,
                 std::string(name_suffix)});
  }
  bool link(int from_folder, const std::string& from, const std::string& to, int flags) const noexcept {
    return uninterrupted([&] { return ::linkat(from_folder, from.c_str(), folder(), to.c_str(), flags); }) == 0;
  }
  bool give_name(const std::string& name) const {
    const std::string unnamed = text({"/proc/self/fd/", file_.get()});
    return link(AT_FDCWD, unnamed, name, AT_SYMLINK_FOLLOW);
  }
  /// Gives a file without a name its final name, if that is free.
  bool take_free_place() const {
    if (!temporary_.empty() || access_) return false;
    if (give_name(name_)) return true;
    if (errno != EEXIST) throw_file_error("create", path_);
    return false;
  }
  /// Gives a file with a temporary name another one, if that is free.
  bool rename_to_free(const std::string& name) {
    // Some file systems cannot do the first, others cannot give a file a second name.
#ifdef RENAME_NOREPLACE
    const auto rename_new = [&] {
      return ::renameat2(folder(), temporary_.c_str(), folder(), name.c_str(), RENAME_NOREPLACE);
    };
    if (uninterrupted(rename_new) == 0) {
      temporary_.clear();
      return true;
    }
    if (errno == EEXIST) return false;
#endif
    if (!link(folder(), temporary_, name, 0)) return false;
    remove(temporary_);
    temporary_.clear();
    return true;
  }
  /// An unnamed file cannot replace an existing one: it gets a name beside it, for a moment.
  void take_name() {
    while (temporary_.empty()) {
      std::string name = next_name();
      if (give_name(name)) {
        temporary_ = std::move(name);
      } else if (errno != EEXIST) {
        throw_file_error("create", path_);
      }
    }
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
  void remove_stale(FileDescriptor readable) const noexcept {
    const std::unique_ptr<::DIR, int (*)(::DIR*)> list(::fdopendir(readable.get()), ::closedir);
    if (!list) return;
    const int inner = readable.release();  // now owned by the list
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody else has this list
    while (const ::dirent* const entry = ::readdir(list.get())) {
      const ::pid_t process = process_of(entry->d_name);
      const bool is_gone = process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
      if (is_gone && is_stale(inner, entry->d_name)) ::unlinkat(inner, entry->d_name, 0);
    }
  }
  /// Whether nobody is writing the file any more. A file system without unnamed files may be shared by several
  /// machines, which do not see each other's processes or locks: there a file must also be old.
  bool is_stale(int inner, const char* name) const noexcept {
    constexpr std::time_t an_hour = 3600;
    struct ::stat found {};
    const FileDescriptor file = open_at(inner, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (!file || !look_up(file.get(), found) || !S_ISREG(found.st_mode)) return false;
    if (!has_unnamed_ && std::time(nullptr) - found.st_mtime < an_hour) return false;
    return uninterrupted([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }) == 0;
  }

  struct Unmap {
    void operator()(void* mapped) const noexcept { ::munmap(mapped, 1); }
  };

  std::string path_;
  bool wait_for_disk_;
  std::shared_ptr<const OpenFolder> folder_;
  std::string name_;                  // in folder_, perhaps in a folder there
  std::string inner_;                 // that folder: the beginning of name_, up to its last slash
  std::optional<FileAccess> access_;  // of the file that is there, or was
  std::string temporary_;             // empty while the file has no name, and once it has its own
  std::string old_;                   // the other name of the file that was replaced, if it has one
  FileDescriptor file_;
  std::unique_ptr<void, Unmap> lock_;  // instead of file_, once that is closed
  bool has_unnamed_ = false;           // whether the file system supports unnamed files
  std::uint64_t end_ = 0;
  std::uint64_t transferred_ = 0;  // up to here the system has been told to write the bytes to the disk
};

}  // namespace lod::inline LOD_INTERFACE::detail::inline LOD_TARGET
